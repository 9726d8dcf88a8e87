"""Mounts in every form, refused where a path is missing; and whose the results are."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.dockerd.dockerd_here import BUSYBOX, PYTHON, Daemon
from support.tao_command import Tao
from tao_sdk.backends.containers.life.starting import change_owner
from tao_sdk.backends.mounts import Mount, read_mounts
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused, SpecError, TaoWarning
from tao_sdk.model.finding import Severity
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.platforms.docker import DockerSDK

A = Mount("/src", "/dst")
RO = Mount("/src", "/dst", read_only=True)


@pytest.mark.parametrize(
    ("given", "mounts"),
    [
        (None, []),
        ("/src:/dst", [A]),
        (["/src:/dst:ro"], [RO]),
        (["/src"], [Mount("/src", "/src")]),
        (["src:/dst"], [Mount("src", "/dst", volume=True)]),
        (["./src:/dst"], [Mount("/here/src", "/dst")]),
        (["data/src:/dst"], [Mount("/here/data/src", "/dst")]),
        (["~/src:/dst"], [Mount("/home/me/src", "/dst")]),
        ([{"source": "/src", "target": "/dst", "read_only": True}], [RO]),
        ([{"host_path": "/src", "container_path": "/dst", "mode": "ro"}], [RO]),
        ({"from": "/src", "mount_path": "/dst"}, [A]),
        ({"/src": {"bind": "/dst", "mode": "ro"}}, [RO]),
        ({"/src": "/dst"}, [A]),
        (["/src:/dst", "/src:/other"], [A, Mount("/src", "/other")]),
    ],
)
def test_every_form_of_a_mount_is_understood(given: Any, mounts: list[Mount]) -> None:
    assert read_mounts(given, "/here", "/home/me") == mounts


@pytest.mark.parametrize(
    "given", ["", ":/dst", "/src:dst", "/src:/dst:rx", [3], {"/src": 4}, ["/a:/dst", "/b:/dst"], 7]
)
def test_a_mount_that_cannot_be_understood_is_refused(given: Any) -> None:
    with pytest.raises(SpecError, match="mounts"):
        read_mounts(given, "/here", "/home/me")


def run(client: Client, command: str, **more: Any) -> str:
    spec = JobSpec(image=more.pop("image", PYTHON), command=command, gpu_count=0, **more)
    job = client.submit(spec, "docker").job
    client.wait(job.id, timeout=300)
    assert client.get_job(job.id).status is Status.COMPLETE, client.get_job_logs(job.id)
    return job.id


def test_one_folder_can_be_mounted_at_two_places_and_only_one_is_written(
    client: Client, tmp_path: Path
) -> None:
    run(
        client,
        "echo new > /b/file; ! echo no > /a/file",
        mounts=[f"{tmp_path}:/a:ro", f"{tmp_path}:/b"],
    )
    assert (tmp_path / "file").read_text() == "new\n"


def test_a_missing_path_is_refused_and_no_folder_is_made(
    client: Client, tmp_path: Path, here: Daemon
) -> None:
    with pytest.raises(Refused, match=str(tmp_path / "nothing")):
        run(client, "true", mounts=[f"{tmp_path}/nothing:/data"])
    assert not (tmp_path / "nothing").exists()
    assert (
        here.docker("ps", "-aq", "--filter", f"label=tao-sdk-store={client.store.store_id}").stdout
        == ""
    )
    assert client.list_jobs() == []


def test_a_path_that_is_gone_when_the_job_is_sent_is_refused_and_no_folder_is_made(
    client: Client, tmp_path: Path, here: Daemon
) -> None:
    (tmp_path / "gone").mkdir()
    spec = JobSpec(image=PYTHON, command="true", gpu_count=0, mounts=[f"{tmp_path}/gone:/data"])
    plan = client.plan(spec, "docker").plan
    (tmp_path / "gone").rmdir()
    with pytest.raises(Refused, match="bind source path does not exist"):
        client.engine.backend("docker").submit(plan, {})
    assert not (tmp_path / "gone").exists()
    assert (
        here.docker("ps", "-aq", "--filter", f"label=tao-sdk-store={client.store.store_id}").stdout
        == ""
    )


def test_a_volume_with_the_name_of_a_folder_here_is_a_warning(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    code = "mount.volume_or_folder"
    assert findings(client, mounts=["data:/data"])[code] is Severity.WARNING
    assert code not in findings(client, mounts=["./data:/data"])
    assert code not in findings(client, mounts=["other:/data"])


def findings(client: Client, **more: Any) -> dict[str, Severity]:
    spec = JobSpec(**{"image": PYTHON, "command": "true", "gpu_count": 0, **more})
    return {each.code: each.severity for each in client.plan(spec, "docker").findings}


def test_a_declared_input_is_looked_for_in_its_mount_on_the_host(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "here").touch()
    mounts = [f"{tmp_path}:/data:ro"]
    assert "input.missing" not in findings(client, inputs=["/data/here"], mounts=mounts)
    spec = JobSpec(image=PYTHON, command="true", gpu_count=0, inputs=["/data/typo"], mounts=mounts)
    with pytest.raises(Refused, match=f"/data/typo is {tmp_path}/typo on the daemon's machine"):
        client.submit(spec, "docker")
    config = {
        "specs": {"data": {"train": "file:///data/typo"}},
        "inputs": ["data.train"],
        "mounts": mounts,
    }
    assert findings(client, **config)["input.missing"] is Severity.ERROR


def test_a_path_of_the_spec_that_nobody_declares_and_no_mount_holds_is_a_warning(
    client: Client, tmp_path: Path
) -> None:
    def told(value: str, **more: Any) -> bool:
        return "spec.not_mounted" in findings(
            client, **{"specs": {"data": {"train": [value]}}, **more}
        )

    assert told("/data/train.json")
    assert told("/data/train/*.json")
    assert told("/data/train.json", image="not/here:1")
    assert told("lustre:///data/train.json")
    assert not told("lustre:///data/train.json", mounts=[f"{tmp_path}:/data:ro"])
    assert not told("/data/train.json", mounts=[f"{tmp_path}:/data:ro"])
    assert not told("/data/train.json", files={"/data/train.json": "{}"})
    assert not told("/etc/debian_version")  # the image has it
    assert not told("/results/mine")
    assert not told("/ of nothing")
    declared = {
        "specs": {"a": "/etc/debian_version", "b": "/data/text"},
        "inputs": {"a": {}, "b": "text"},
    }
    assert not told("", **declared)


@pytest.mark.parametrize("scheme", ["lustre", "slurm"])
def test_an_input_of_a_shared_file_system_is_looked_for_where_it_is_mounted(
    client: Client, tmp_path: Path, scheme: str
) -> None:
    (tmp_path / "here").touch()
    mounts = [f"{tmp_path}:/lustre/me:ro"]

    def told(name: str, **more: Any) -> Severity | None:
        return findings(
            client, inputs=["a"], specs={"a": f"{scheme}:///lustre/me/{name}"}, **more
        ).get("input.missing")

    assert told("here", mounts=mounts) is None
    assert told("gone", mounts=mounts) is Severity.ERROR
    assert told("here") is Severity.ERROR


def test_a_declared_input_in_no_mount_has_to_be_in_the_image(client: Client, here: Daemon) -> None:
    assert "input.missing" not in findings(client, inputs=["/etc/debian_version", "/tmp/"])
    assert findings(client, inputs=["/data/train"])["input.missing"] is Severity.ERROR
    assert (
        findings(client, inputs=["/data/x"], image="not/here:1")["input.not_mounted"]
        is Severity.WARNING
    )
    travels = {"inputs": ["/data/brought"], "files": {"/data/brought/a": "1"}}
    assert "input.missing" not in findings(client, **travels)
    assert (
        here.docker("ps", "-aq", "--filter", f"label=tao-sdk-store={client.store.store_id}").stdout
        == ""
    )


def test_results_are_kept_here_when_asked_for_and_lost_with_a_warning_when_not(
    client: Client, tmp_path: Path
) -> None:
    job = run(
        client, 'mkdir -p "$TAO_RESULTS_DIR"; echo 1 > "$TAO_RESULTS_DIR/a"', keep_results=True
    )
    assert Path(client.get_job_results_dir(job), "a").read_text() == "1\n"
    assert client.get_job_results_dir(job) == str(tmp_path / "runs" / job)
    assert Path(client.get_job_results_dir(job), "a").stat().st_uid == os.getuid()
    spec = JobSpec(image=PYTHON, command="true", gpu_count=0, outputs=["/results/"])
    assert [each.code for each in client.plan(spec, "docker").findings] == ["output.ephemeral"]


def test_create_job_warns_of_results_that_end_with_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    monkeypatch.chdir(tmp_path)
    with DockerSDK(settings=client.settings, watch=False) as sdk:
        with pytest.warns(TaoWarning, match="stay in the container and are lost with it"):
            job = sdk.create_job(PYTHON, "true", 0, outputs=["/results/"])
        assert sdk.wait(job.id, timeout=300).status == "Complete"
        last = sdk.get_job_logs(job.id).splitlines()[-1]
    assert "RESULTS WILL BE LOST" in last


def test_a_job_can_write_its_own_results_and_not_those_of_another(
    client: Client, tmp_path: Path
) -> None:
    first = run(client, 'echo 1 > "$TAO_RESULTS_DIR/a"', keep_results=True)
    second = run(
        client,
        f"echo mine > $TAO_RESULTS_DIR/b; rm -f /results/{first}/a; ls /results",
        keep_results=True,
    )
    assert (tmp_path / "runs" / first / "a").read_text() == "1\n"
    assert (tmp_path / "runs" / second / "b").read_text() == "mine\n"
    assert client.get_job_logs(second) == f"{second}\n"


def test_results_of_another_job_that_an_input_names_can_be_read_and_not_written(
    client: Client, tmp_path: Path
) -> None:
    trained = run(
        client,
        'mkdir -p "$TAO_RESULTS_DIR/train"; echo 7 > "$TAO_RESULTS_DIR/train/a.pth"',
        keep_results=True,
    )
    model = f"/results/{trained}/train/a.pth"
    command = f'cat {model}; ! echo 8 > {model}; echo ok > "$TAO_RESULTS_DIR/score"'
    score = run(client, command, keep_results=True, inputs=[model])
    assert "7" in client.get_job_logs(score).splitlines()  # beside what the refused write said
    assert Path(client.get_job_results_dir(score), "score").read_text() == "ok\n"
    assert (tmp_path / "runs" / trained / "train" / "a.pth").read_text() == "7\n"
    wrong = JobSpec(
        image=PYTHON, command="true", gpu_count=0, keep_results=True, inputs=["/results/nobody-1/a"]
    )
    with pytest.raises(
        Refused, match=f"/results/nobody-1/a is {tmp_path}/runs/nobody-1/a on the daemon's machine"
    ):
        client.submit(wrong, "docker")
    assert not (tmp_path / "runs" / "nobody-1").exists()


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("user", ["0:0", "1234:1234", "plain"])
def test_the_folder_that_tao_results_dir_names_is_there_for_every_user(
    client: Client, kept: bool, user: str
) -> None:
    spec = JobSpec(image=BUSYBOX,
         command='seq 3 > "$TAO_RESULTS_DIR/n"; cat "$TAO_RESULTS_DIR/n"; touch /results/x',
         gpu_count=0,
                   keep_results=kept)  # fmt: skip
    job = client.submit(spec, "docker", {"user": user}).job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE, client.get_job_logs(job.id)
    assert client.get_job_logs(job.id) == "1\n2\n3\n"
    if kept:
        assert Path("runs", job.id, "n").read_text() == "1\n2\n3\n"


def test_a_folder_is_given_to_nobody_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    with pytest.raises(Refused, match="cannot be given to user 1234"):
        change_owner(str(tmp_path / "link"), (1234, 1234))
    assert (tmp_path / "there").stat().st_uid == os.geteuid()


def test_a_job_that_could_not_be_started_leaves_no_folder(client: Client, tmp_path: Path) -> None:
    spec = JobSpec(image=BUSYBOX, command="true", gpu_count=1, keep_results=True)
    plan = client.plan(spec, "docker").plan
    with pytest.raises(Refused, match="Docker cannot give GPUs"):
        client.engine.backend("docker").submit(plan, {})
    assert list((tmp_path / "runs").iterdir()) == []


SUBMIT = """
import os, sys
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec

def run(state):
    command = 'id -u; mkdir -p "$TAO_RESULTS_DIR" && echo 1 > "$TAO_RESULTS_DIR/a" && touch "$HOME/b"'
    kept = ["/results/out"] if "python" in sys.argv[1] else None  # kept by the runner, which wants python3
    spec = JobSpec(image=sys.argv[1], command=command, gpu_count=0, keep_results=True, outputs=kept)
    with Client(settings=Settings({**os.environ, "TAO_SDK_STATE_DIR": state})) as client:
        job = client.submit(spec, "docker").job
        return client.wait(job.id, timeout=300).status, client.get_job_logs(job.id).strip(), client.get_job_results_dir(job.id)

os.chdir(sys.argv[2]); run(sys.argv[2] + "/state")  # loads what the plain user might not be able to read
os.chdir(sys.argv[3]); os.setgroups([]); os.setgid(1234); os.setuid(1234)
print(*run(sys.argv[3] + "/state"))
"""


@pytest.mark.parametrize("image", [PYTHON, BUSYBOX])
def test_a_plain_users_results_are_his(
    here: Daemon, surroundings: dict[str, str], tmp_path: Path, image: str
) -> None:
    home = Path("/tmp") / f"tao-plain-{os.getpid()}-{image}"
    home.mkdir()
    here.folder.chmod(0o755)
    here.socket.chmod(0o666)
    os.chown(home, 1234, 1234)
    try:
        environ = {**surroundings, "HOME": str(home), "TAO_SDK_STATE_DIR": str(home / "state")}
        done = subprocess.run(
            [sys.executable, "-c", SUBMIT, image, str(tmp_path), str(home)],
            env=environ,
            cwd=home,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        status, uid, folder = done.stdout.split()
        assert (status, uid) == ("Complete", "1234")
        assert {path.stat().st_uid for path in Path(folder).rglob("*")} == {1234}
        assert Path(folder, "a").exists() and Path(folder, ".tao", "manifest.json").exists() == (
            image == PYTHON
        )
    finally:
        here.socket.chmod(0o660)
        subprocess.run(["rm", "-rf", str(home)], check=True)


def test_a_job_whose_results_have_no_place_here_is_refused_and_leaves_nothing(
    client: Client, tmp_path: Path, here: Daemon
) -> None:
    (tmp_path / "runs").write_text("a file")
    before = here.docker("ps", "-aq").stdout
    with pytest.raises(Refused, match="the folder .*/runs/.* cannot be made"):
        client.submit(
            JobSpec(image=BUSYBOX, command="true", gpu_count=0, keep_results=True), "docker"
        )
    assert client.list_jobs() == []
    assert here.docker("ps", "-aq").stdout == before


def test_an_input_in_no_mount_is_answered_with_the_whole_command_that_mounts_it(
    here: Daemon, tmp_path: Path
) -> None:
    tao = Tao(tmp_path)
    trained = tmp_path / "trained" / "model.txt"
    trained.parent.mkdir()
    trained.write_text("weights")
    typed = ("run", "--platform", "docker", "--image", PYTHON, "--gpus", "0")
    inputs = ("--inputs", f"model.txt={trained}")
    refused = tao(*typed, *inputs, "--json", "--", "cat", "model.txt", DOCKER_HOST=here.host)
    assert refused.code == 2
    assert refused.error["message"] == f"The input model.txt will not be there: {trained}"
    assert refused.error["hint"].startswith("To mount its folder: tao run --platform docker")
    words = shlex.split(refused.error["next"])
    assert words[-5:] == [
        "--mounts",
        f"{trained.parent}:{trained.parent}:ro",
        "--",
        "cat",
        "model.txt",
    ]
    ran = tao(*words[1:], DOCKER_HOST=here.host)
    assert (ran.code, ran.json_lines[-1]["status"]) == (0, "Complete")
    assert tao("rm", ran.json_lines[-1]["id"], DOCKER_HOST=here.host).code == 0


def test_with_a_job_file_the_mount_is_told_as_the_file_has_it(here: Daemon, tmp_path: Path) -> None:
    tao = Tao(tmp_path)
    tao.write("job.yaml", f"command: cat x\nimage: '{PYTHON}'\nplatform: docker\ngpu_count: 0\n")
    (tmp_path / "x").write_text("x")
    ran = tao("plan", "job.yaml", "--inputs", f"x={tmp_path}/x", DOCKER_HOST=here.host)
    assert ran.code == 2
    assert f"Mount it: mounts: [{tmp_path}:{tmp_path}:ro]" in ran.out + ran.err
