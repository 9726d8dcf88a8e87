"""Why a container failed, by what the real daemon and the command in it say.

What they said lies in tests/recorded/docker. The tests below make each failure happen again and
hold it against that; TAO_TEST_RECORD=1 writes it anew. What cannot happen here is from documents,
and its file says from which.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, GPU_HERE, PYTHON, ROOT, Daemon
from support.dockerd.registry_here import Registry
from tao_sdk.backends.containers.start_script import NOT_BEGUN, NOT_WHOLE, TAKE_IN, start_script
from tao_sdk.backends.docker import render, rules
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.job import checks
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.client import Client
from tao_sdk.model.diagnosis import Evidence, NodeEvent
from tao_sdk.model.finding import Severity
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Attempt
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.payload.prepared_job import pack_spec
from tao_sdk.runner.events import EventFilter
from tao_sdk.transports import dockerd
from tao_sdk.transports.dockerd import Address, DaemonError

RECORDED = ROOT / "tests" / "recorded" / "docker"
RECORDING = bool(os.environ.get("TAO_TEST_RECORD"))


def rule_of(evidence: Evidence) -> str:
    found = rules.diagnose(evidence)
    return found.rule if found else ""


def keep(here: Daemon, name: str, evidence: Evidence, rule: str) -> None:
    """Write down what was seen; or else hold it against what was written down."""
    path = RECORDED / f"{name}.json"
    if RECORDING:
        path.parent.mkdir(parents=True, exist_ok=True)
        version = here.docker("version", "--format", "{{.Server.Version}}").stdout.strip()
        seen = {"from": f"Docker {version}", "rule": rule, "evidence": asdict(evidence)}
        text = json.dumps(seen, indent=1, sort_keys=True)
        for place, usual in ((here.data, "/var/lib/docker"), (here.folder, "/run/docker")):
            text = text.replace(str(place), usual)
        path.write_text(text + "\n")
    known = json.loads(path.read_text())
    assert (rule_of(evidence), known["rule"]) == (rule, rule), evidence
    assert known["evidence"]["exit_code"] == evidence.exit_code


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_recorded_finds_its_rule_and_a_remedy(path: Path) -> None:
    known = json.loads(path.read_text())
    seen = known["evidence"]
    events = tuple(NodeEvent(**each) for each in seen["events"])
    code = Reason.read(seen["reason_code"])
    evidence = Evidence(**{**seen, "events": events, "reason_code": code, "runner": ()})
    found = rules.diagnose(evidence)
    if not known["rule"].startswith("docker."):
        assert found is None  # the engine's general rules know it
        return
    assert found is not None
    assert (found.rule, bool(found.what), bool(found.next)) == (known["rule"], True, True)
    assert known["from"]


def test_a_pull_that_failed_is_known_by_its_reason_and_not_by_the_name_of_its_image() -> None:
    refused = rules.pull_refused("team/x509-tools:1", "unexpected status code 418")
    assert refused.code == "docker.pull_failed"
    assert refused.reason_code is Reason.PULL_FAILED
    assert "pulling team/x509-tools:1: unexpected status code 418" in refused.what
    assert rule_of(Evidence.of_refusal(refused)) == "docker.pull_failed"


def test_a_pull_that_was_cut_off_is_the_registrys_and_a_start_that_says_the_same_is_not() -> None:
    assert rules.pull_refused("team/app:1", "unexpected EOF").code == "docker.registry_unreachable"
    assert rules.refused("unexpected EOF").code == "job.refused"


def evidence_of(client: Client, job: Job) -> Evidence:
    backend, ref = client.engine.backend_of(job), client.engine.ref_of(job)
    assert ref is not None
    seen = asdict(backend.evidence(ref)) | {"log_tail": client.get_job_logs(job.id, tail=20)}
    return Evidence(**{**seen, "events": tuple(NodeEvent(**each) for each in seen["events"])})


# name, command, exit code, rule; one without "docker." is the engine's
ENDS = [
    ("exit-125", "exit 125", 125, "docker.daemon_failed"),
    ("exit-126", "touch /f; /f", 126, ""),
    ("exit-127", "no-such-program", 127, ""),
    ("exit-139", "kill -SEGV $$", 139, ""),
    ("exit-143", "kill -TERM $$", 143, "docker.stopped_outside"),
    ("exit-137", "kill -KILL $$", 137, ""),
    ("path-missing-shell", "cat /data/missing.txt", 1, "docker.path_not_mounted"),
    ("path-missing-python", "python3 -c \"open('/data/missing')\"", 1, "docker.path_not_mounted"),
    ("shm-too-small", "dd if=/dev/zero of=/dev/shm/x bs=1M count=40", 1, "docker.shm_too_small"),
    (
        "out-of-memory",
        "python3 -c 'x = bytearray(300 << 20); print(len(x))'",
        137,
        "docker.oom_killed",
    ),
]
GENERAL = {126: "not_executable", 127: "command_not_found", 139: "signal", 137: "killed"}


def test_every_end_of_a_command_has_its_rule(client: Client, here: Daemon) -> None:
    jobs = [
        client.submit(
            JobSpec(image=PYTHON, command=each[1], gpu_count=0, shm_size="8m", memory="64m"),
            "docker",
        ).job
        for each in ENDS
    ]
    ended = client.wait_all([job.id for job in jobs], timeout=300)
    for job, (name, _, code, rule) in zip(ended, ENDS, strict=True):
        assert job.exit_code == code, name
        keep(here, name, evidence_of(client, job), rule)
        found = client.diagnose(job.id)
        assert found is not None
        assert found.rule == (rule or GENERAL[code])


@pytest.mark.parametrize(
    ("name", "how", "rule"),
    [
        ("stopped-by-hand", ["stop", "-t", "1"], "docker.stopped_outside"),
        ("killed-by-hand", ["kill"], "docker.stopped_outside"),
    ],
)
def test_an_end_by_hand_has_its_rule(
    client: Client, here: Daemon, name: str, how: list[str], rule: str
) -> None:
    command = "trap '' TERM; echo deaf; sleep 300 & wait; sleep 300"
    job = client.submit(JobSpec(image=PYTHON, command=command, gpu_count=0), "docker").job
    dockerd_here.until(lambda: "deaf" in client.get_job_logs(job.id))
    here.docker(*how, f"tao-job-{job.id}")
    client.wait(job.id, timeout=300)
    keep(here, name, evidence_of(client, job), rule)


def test_a_missing_entrypoint_and_a_missing_shell_have_their_rule(
    client: Client, here: Daemon
) -> None:
    change = 'ENTRYPOINT ["/no/entrypoint"]'
    here.docker(
        "import", "--change", change, str(dockerd_here.busybox_root()), "tao-test-entrypoint"
    )
    for name, image in (
        ("entrypoint-missing", "tao-test-entrypoint"),
        ("shell-missing", dockerd_here.EMPTY),
    ):
        job = client.submit(JobSpec(image=image, command="true", gpu_count=0), "docker").job
        client.wait(job.id, timeout=300)
        keep(here, name, evidence_of(client, job), "docker.no_shell")


@pytest.mark.parametrize("entry", ['["/bin/echo", "entry"]', '["/bin/false"]', '["/bin/sh", "-c"]'])
@pytest.mark.parametrize("user", ["", "0:0", "1000:1000"])
def test_a_job_whose_entrypoint_did_not_run_the_command_has_failed(
    client: Client, here: Daemon, entry: str, user: str
) -> None:
    image = with_entrypoint(here, entry)
    spec = JobSpec(image=image, command="echo it runs", gpu_count=0)
    job = client.submit(spec, "docker", {"user": user} if user else {}).job
    client.wait(job.id, timeout=300)
    found = client.get_job(job.id)
    assert (found.status, found.reason_code) == (Status.ERROR, Reason.NOT_STARTED)
    told = client.diagnose(job.id)
    assert told is not None
    assert (told.rule, told.retryable) == ("docker.command_not_run", False)
    assert shlex.join(json.loads(entry)) in told.what


def test_without_the_entrypoint_as_advised_the_command_runs(client: Client, here: Daemon) -> None:
    image = with_entrypoint(here, '["/bin/true"]')
    native = {"Entrypoint": []}
    spec = JobSpec(image=image, command="echo it runs", gpu_count=0, native=native)
    job = client.submit(spec, "docker").job
    client.wait(job.id, timeout=300)
    assert client.get_job(job.id).status is Status.COMPLETE
    assert client.get_job_logs(job.id) == "it runs\n"


@pytest.mark.parametrize("code", [0, 3])
def test_an_entrypoint_that_runs_the_command_leaves_its_end_as_it_is(
    client: Client, here: Daemon, code: int
) -> None:
    image = with_entrypoint(here, '["/bin/busybox", "env"]')
    job = client.submit(JobSpec(image=image, command=f"exit {code}", gpu_count=0), "docker").job
    client.wait(job.id, timeout=300)
    found = client.get_job(job.id)
    assert (found.exit_code, found.reason_code) == (code, Reason.EXIT_CODE if code else None)


@pytest.mark.parametrize("user", ["0:0", "1000:1000"])
def test_an_entrypoint_that_hides_the_variables_and_runs_the_command_is_a_good_end(
    client: Client, here: Daemon, user: str
) -> None:
    image = with_entrypoint(here, '["/bin/busybox", "env", "-i"]')
    spec = JobSpec(image=image, command="/bin/busybox echo it runs", gpu_count=0)
    job = client.submit(spec, "docker", {"user": user}).job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert client.get_job_logs(job.id) == "it runs\n"


@pytest.mark.parametrize("behind", ["& wait", "wait); echo went on"])
def test_a_complete_job_that_lost_a_process_for_want_of_memory_says_so(
    client: Client, behind: str
) -> None:
    hog = "python3 -c \"b'x' * 400_000_000\""
    command = f"({hog} & {behind}" if behind.endswith("on") else f"{hog} {behind}"
    job = client.submit(
        JobSpec(image=PYTHON, command=command, gpu_count=0, memory="64m"), "docker"
    ).job
    client.wait(job.id, timeout=300)
    found = client.get_job(job.id)
    assert (found.status, found.reason_code) == (Status.COMPLETE, Reason.OUT_OF_MEMORY)
    assert any("killed a process of the job" in note for note in client.notes(job.id))


def with_entrypoint(here: Daemon, entry: str) -> str:
    """The name of a small image that has this ENTRYPOINT."""
    name = f"tao-test-entrypoint-{zlib.crc32(entry.encode()):x}"
    root = str(dockerd_here.busybox_root())
    here.docker("import", "--change", f"ENTRYPOINT {entry}", root, name)
    return name


def refusal(ask: Callable[[], Any]) -> Evidence:
    try:
        ask()
    except DaemonError as refused:
        return Evidence(phase="failed", backend_words=refused.what)
    return Evidence()


def container(daemon: dockerd.Daemon, name: str = "", **more: Any) -> Callable[[], Any]:
    """Create and start a container, and leave nothing."""
    host = {"NetworkMode": "none", **more.pop("HostConfig", {})}

    def ask() -> None:
        query = {"name": name} if name else {}
        body = {"Image": BUSYBOX, "Cmd": ["/bin/true"], "HostConfig": host, **more}
        made = daemon.ask("POST", "/containers/create", body, **query)["Id"]
        try:
            daemon.ask("POST", f"/containers/{made}/start")
        finally:
            if not name:
                daemon.ask("DELETE", f"/containers/{made}", force=1)

    return ask


def test_what_a_daemon_refuses_has_its_rule(here: Daemon, surroundings: dict[str, str]) -> None:
    daemon = dockerd.Daemon(Address(here.host))
    here.docker("run", "-d", "--name", "tao-taken", BUSYBOX, "sleep", "60")
    before = here.docker("ps", "-aq").stdout
    for _ in range(2):
        daemon.ask("POST", "/networks/create", {"Name": "tao-twice", "CheckDuplicate": False})
    gpu = {"DeviceRequests": [{"Count": 1, "Capabilities": [["gpu"]]}]}
    asked = [
        *(
            []
            if GPU_HERE
            else [("no-gpu-runtime", container(daemon, HostConfig=gpu), "docker.no_gpu_runtime")]
        ),
        (
            "no-nvidia-runtime",
            container(daemon, HostConfig={"Runtime": "nvidia"}),
            "docker.no_gpu_runtime",
        ),
        (
            "network-missing",
            container(daemon, HostConfig={"NetworkMode": "nowhere"}),
            "docker.network_missing",
        ),
        (
            "network-ambiguous",
            container(daemon, HostConfig={"NetworkMode": "tao-twice"}),
            "docker.network_missing",
        ),
        ("name-taken", container(daemon, name="tao-taken"), "docker.name_taken"),
        ("program-missing", container(daemon, Cmd=["/no/program"]), "docker.entrypoint_missing"),
        ("program-not-executable", container(daemon, Cmd=["/etc"]), "docker.entrypoint_missing"),
    ]
    try:
        for name, ask, rule in asked:
            keep(here, name, refusal(ask), rule)
        assert here.docker("ps", "-aq").stdout == before
    finally:
        dockerd_here.clear(here)


def test_what_a_pull_fails_with_has_its_rule(
    here: Daemon, surroundings: dict[str, str], tmp_path: Path
) -> None:
    registry = Registry(tmp_path)
    daemon = dockerd.Daemon(Address(here.host))

    def pulled(name: str, login: dict[str, str] | None = None) -> Evidence:
        image, _, tag = name.rpartition(":")
        try:
            headers = dockerd.login_header(login or {})
            lines = list(
                daemon.read_lines("POST", "/images/create", headers, fromImage=image, tag=tag)
            )
        except DaemonError as error:
            return Evidence(phase="failed", backend_words=error.what)
        return Evidence(
            phase="failed", backend_words=next(line["error"] for line in lines if "error" in line)
        )

    try:
        registry.start()
        from support.dockerd.registry_here import PASSWORD, USER

        known = {"username": USER, "password": PASSWORD, "serveraddress": registry.name}
        wrong = {**known, "password": "wrong"}
        image = f"{registry.name}/team/nothing:1"
        for name, seen, rule in (
            ("image-not-found", pulled(image, known), "docker.image_not_found"),
            ("pull-without-login", pulled(image), "docker.pull_unauthorized"),
            ("pull-with-a-wrong-password", pulled(image, wrong), "docker.pull_unauthorized"),
            (
                "registry-refuses-connections",
                pulled("localhost:1/no/registry:1"),
                "docker.registry_unreachable",
            ),
            (
                "registry-unknown",
                pulled("no-such-registry.invalid/x:1"),
                "docker.registry_unreachable",
            ),
        ):
            keep(here, name, seen, rule)
        registry.distrust(registry.port)
        keep(here, "registry-not-trusted", pulled(image, known), "docker.registry_unreachable")
    finally:
        registry.stop()


def test_a_full_disk_has_its_rule(
    here: Daemon, surroundings: dict[str, str], tmp_path: Path
) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], check=True)
    with dockerd_here.apart(disk) as there:
        filler = disk / "filler"
        filler.write_bytes(b"\0" * (os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
        keep(
            there,
            "no-space-left",
            refusal(container(dockerd.Daemon(Address(there.host)))),
            "docker.no_space",
        )
        filler.unlink()


@pytest.mark.parametrize(
    "words",
    [
        "OCI runtime create failed: runc create failed: unable to start container process: unable to apply cgroup"
        ' configuration: failed to write "10": write /sys/fs/cgroup/cpu/docker/ab12/cpu.cfs_quota_us: invalid argument: unknown',
        (
            'OCI runtime create failed: failed to write "10 100000": write '
            "/sys/fs/cgroup/docker/ab12/cpu.max: invalid argument"
        ),
        "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available",
    ],
)
def test_cpus_that_the_machine_cannot_give_are_not_taken_for_a_missing_entrypoint(
    words: str,
) -> None:
    refused = rules.refused(words)
    assert refused.code == "docker.cpus_out_of_range"
    assert "--cpus" in refused.next


@pytest.mark.parametrize(
    ("cpus", "told"), [(1e-11, True), (0.0001, True), (0.009, True), (0.01, False), (2, False)]
)
def test_fewer_cpus_than_the_kernel_can_give_are_refused_before_anything_is_started(
    cpus: float, told: bool
) -> None:
    facts = DockerFacts(local=True, cwd="/here", home="/home/me", uid=0, gid=0)
    spec = JobSpec(image="any", command="true", gpu_count=0, cpus=cpus)
    planned = render.plan(
        pack_spec(spec),
        DockerOptions(),
        facts,
        Attempt("a-0123456789", 1, "docker", "unix:///sock", "s"),
    )
    refused = [
        each
        for each in checks.check(planned, facts)
        if each.severity is Severity.ERROR and "CPU" in each.what
    ]
    assert bool(refused) is told


def test_words_that_nobody_knows_are_passed_on() -> None:
    assert rules.refused("the moon is full").what == "the moon is full"


def test_a_driver_that_is_too_old_is_told_by_its_documented_words(client: Client) -> None:
    say = (
        "echo 'RuntimeError: The NVIDIA driver on your system is too old "
        "(found version 11040).'; exit 1"
    )
    job = client.submit(JobSpec(image=BUSYBOX, command=say, gpu_count=0), "docker").job
    client.wait(job.id, timeout=300)
    assert client.diagnose(job.id).rule == "docker.driver_too_old"  # pyright: ignore[reportOptionalMemberAccess]


def test_an_environment_that_was_cut_short_is_told_by_an_event_with_a_code() -> None:
    script = start_script("true", None, takes_environment=True)
    ran = subprocess.run(
        ["/bin/sh", "-c", TAKE_IN, "sh"], input=b"command export A=1\n", capture_output=True
    )
    text, events = EventFilter().feed(ran.stderr)
    assert TAKE_IN in script
    assert (ran.returncode, text) == (NOT_BEGUN, b"")
    assert [(event.name, event.facts["code"]) for event in events] == [("failed", NOT_WHOLE)]
    failed = {"event": "failed", "code": NOT_WHOLE, "what": "noise"}
    diagnosis = rules.diagnose(Evidence(phase="failed", exit_code=NOT_BEGUN, runner=(failed,)))
    assert diagnosis is not None
    assert (diagnosis.rule, diagnosis.retryable) == ("docker.not_delivered", True)


def test_a_container_of_an_earlier_version_that_was_cut_short_is_explained_alike() -> None:
    said = "tao: the environment did not arrive whole\n"
    diagnosis = rules.diagnose(Evidence(phase="failed", exit_code=NOT_BEGUN, log_tail=said))
    assert diagnosis is not None
    assert (diagnosis.rule, diagnosis.retryable) == ("docker.not_delivered", True)
