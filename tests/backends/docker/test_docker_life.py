"""What Docker does to a job, and what the job's user sees of it, on a real daemon."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, EMPTY, PYTHON, Daemon
from support.signal_programs import SAVES_BELOW_A_SHELL
from tao_sdk.backends.containers import containers, parse
from tao_sdk.backends.containers.containers import Container
from tao_sdk.backends.containers.life import ending
from tao_sdk.backends.containers.life.networks import Networks
from tao_sdk.backends.contract import cancel_one
from tao_sdk.client import Client
from tao_sdk.model.errors import NoLog, PathNotFound, Refused, SpecError
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Phase
from tao_sdk.model.reasons import Reason
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


def submit(
    client: Client,
    command: str,
    image: str = PYTHON,
    options: dict[str, Any] | None = None,
    **more: Any,
) -> Job:
    return client.submit(
        JobSpec(image=image, command=command, **{"gpu_count": 0, **more}), "docker", options
    ).job


def ended(client: Client, job: Job) -> Job:
    client.wait(job.id, timeout=300)
    return client.get_job(job.id)


def until(client: Client, job: Job, words: str) -> None:
    dockerd_here.until(lambda: words in client.get_job_logs(job.id))


def container(job: Job) -> str:
    return f"tao-job-{job.id}"


@pytest.mark.parametrize(("image", "shell"), [(PYTHON, "bash"), (BUSYBOX, "sh")])
def test_bash_runs_the_command_where_the_image_has_it_and_sh_where_not(
    client: Client, image: str, shell: str
) -> None:
    job = submit(
        client, 'echo "shell ${BASH_VERSION:+bash}"; false || exit 4', image, time_limit="1m"
    )
    assert ended(client, job).exit_code == 4
    assert client.get_job_logs(job.id).split() == ["shell", *(["bash"] if shell == "bash" else [])]


def test_an_image_without_any_shell_is_explained(client: Client) -> None:
    try:
        job = ended(client, submit(client, "true", EMPTY))
    except Refused as refused:
        assert refused.code.startswith("docker.")
        return
    assert job.status is Status.ERROR
    assert client.diagnose(job.id).rule in ("docker.no_shell", "docker.entrypoint_missing")  # pyright: ignore


def test_the_container_is_as_the_document_says(client: Client, here: Daemon) -> None:
    job = submit(client, "sleep 30", labels={"team": "a b"}, memory="64m", cpus=0.5, shm_size="32m")
    seen = here.inspect(container(job))
    assert seen["HostConfig"]["Init"] is True
    assert seen["HostConfig"]["Memory"] == 64 << 20
    assert seen["HostConfig"]["NanoCpus"] == 500_000_000
    assert seen["HostConfig"]["Tmpfs"]["/dev/shm"].endswith("size=33554432")
    assert next(iter(seen["NetworkSettings"]["Networks"].values()))["NetworkID"] == network_id(
        here, "tao_default"
    )
    labels = seen["Config"]["Labels"]
    assert (labels["tao-toolkit"], labels["tao-sdk-job-id"], labels["team"]) == (
        "true",
        job.id,
        "a b",
    )
    assert {"backend_type": "local-docker", "num_gpu": 0}.items() <= job.backend_details.items()


def network_id(here: Daemon, name: str) -> str:
    return here.docker("network", "inspect", "-f", "{{.Id}}", name).stdout.strip()


def test_a_container_that_ran_out_of_memory_is_told_so(client: Client) -> None:
    job = submit(client, "python3 -c 'x = bytearray(300 << 20); print(len(x))'", memory="48m")
    over = ended(client, job)
    assert (over.exit_code, "OOMKilled" in over.message) == (137, True), over.message
    assert client.diagnose(job.id).rule == "docker.oom_killed"  # pyright: ignore[reportOptionalMemberAccess]


def test_a_container_removed_by_hand_is_told_so(client: Client, here: Daemon) -> None:
    job = submit(client, "sleep 300")
    here.docker("rm", "-f", container(job))
    assert ended(client, job).message == "removed outside"
    assert "removed" in client.get_failure_analysis(job.id)["cause"]  # pyright: ignore[reportOptionalSubscript]


def test_a_log_that_was_read_outlives_a_container_that_is_removed_by_hand(
    client: Client, here: Daemon
) -> None:
    job = submit(client, "echo epoch 1/9 loss 0.5; sleep 300")
    dockerd_here.until(lambda: client.get_job(job.id).progress.epoch == 1)
    here.docker("rm", "-f", container(job))
    ended(client, job)
    assert client.get_job_logs(job.id) == "epoch 1/9 loss 0.5\n"


def test_the_log_of_an_ended_job_outlives_its_container(client: Client, here: Daemon) -> None:
    job = submit(client, "seq 1 50000")
    ended(client, job)
    here.docker("rm", "-f", container(job))
    assert client.get_job_logs(job.id) == "".join(f"{n}\n" for n in range(1, 50001))
    assert client.get_job_logs(job.id, tail=1) == "50000\n"


def test_a_container_removed_by_hand_after_its_work_was_whole_is_complete(
    client: Client, here: Daemon
) -> None:
    job = submit(client, "echo 1 > /results/out", outputs=["/results/out"], keep_results=True)
    manifest = Path(client.get_job_results_dir(job.id)) / ".tao" / "manifest.json"
    dockerd_here.until(lambda: manifest.exists() and '"whole": true' in manifest.read_text())
    here.docker("rm", "-f", container(job))
    over = ended(client, job)
    assert (over.status, over.exit_code) == (Status.COMPLETE, 0)
    assert over.message.startswith("ended; the backend no longer has it")


def test_a_job_and_its_log_survive_a_restart_of_the_daemon_and_the_log_its_container_too(
    client: Client, here: Daemon
) -> None:
    long = submit(client, "seq 300000")
    ended(client, long)
    counts = "i=0; until [ -e /end ]; do i=$((i + 1)); echo line $i; sleep 0.1; done; echo end"
    job = submit(client, counts)
    half_read = client.follow_logs(long.id)
    begin = next(half_read)
    until(client, job, "line 3\n")
    assert client.get_job(job.id).status is Status.RUNNING
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.extend(client.follow_logs(job.id)), daemon=True)
    reader.start()
    here.stop()
    try:
        dockerd_here.until(lambda: client.get_job(job.id).message.startswith("not seen now"))
        assert client.get_job(job.id).status is Status.RUNNING
    finally:
        here.start()
    assert client.gc(older_than=timedelta(0)) == [long.id]
    assert begin + b"".join(half_read) == b"".join(b"%d\n" % i for i in range(1, 300_001))
    here.docker("exec", container(job), "touch", "/end")
    assert ended(client, job).status is Status.COMPLETE
    reader.join(120)
    *lines, last = b"".join(read).splitlines()
    assert lines == [b"line %d" % i for i in range(1, len(lines) + 1)]
    assert last == b"end"


@pytest.mark.skipif(dockerd_here.GPU_HERE, reason="here there is one")
def test_gpus_without_a_gpu_runtime_are_refused_with_the_remedy_and_leave_nothing(
    client: Client, here: Daemon
) -> None:
    planned = client.plan(JobSpec(image=PYTHON, command="true", gpu_count=2), "docker")
    assert planned.plan.request.host_config["DeviceRequests"][0]["Count"] == 2
    with pytest.raises(Refused, match="NVIDIA Container Toolkit") as refused:
        submit(client, "true", gpu_count=2)
    assert refused.value.code == "docker.no_gpu_runtime"
    assert client.list_jobs() == []
    assert (
        here.docker("ps", "-aq", "--filter", f"label=tao-sdk-store={client.store.store_id}").stdout
        == ""
    )


def test_a_program_that_saves_when_told_to_end_ends_at_once_and_so_does_what_it_started(
    client: Client,
) -> None:
    child = "trap 'echo told; exit 0' TERM; echo ready; sleep 300 & wait"
    job = submit(client, f"trap 'wait; echo saved; exit 0' TERM; ({child}) & wait")
    until(client, job, "ready")
    began = time.monotonic()
    assert client.cancel_job(job.id, grace=30) is True
    assert time.monotonic() - began < 15
    assert client.get_job(job.id).status is Status.CANCELED
    assert client.get_job_logs(job.id) == "ready\ntold\nsaved\n"


def test_a_container_that_docker_starts_again_and_again_runs_until_it_is_canceled(
    client: Client,
) -> None:
    again = {"HostConfig": {"RestartPolicy": {"Name": "always"}}}
    job = submit(client, "exit 1", BUSYBOX, native=again)
    backend, ref = client.engine.backend_of(job), client.engine.ref_of(job)
    assert ref is not None
    seen: dict[str, Phase] = {}

    def restarts() -> bool:
        now = backend.observe([ref])[ref]
        seen[now.raw] = now.phase
        return now.raw == "restarting"

    dockerd_here.until(restarts)
    assert set(seen.values()) == {Phase.RUNNING}
    assert client.cancel_job(job.id, grace=0) is True


@pytest.mark.parametrize(
    ("state", "code", "phase"),
    [
        ("created", 0, Phase.PENDING),
        ("running", 0, Phase.RUNNING),
        ("restarting", 1, Phase.RUNNING),
        ("paused", 0, Phase.PAUSED),
        *[(ended, 0, Phase.SUCCEEDED) for ended in ("exited", "dead", "removing")],
        *[(ended, 3, Phase.FAILED) for ended in ("exited", "dead", "removing")],
        ("of a Docker to come", 0, Phase.UNKNOWN),
    ],
)
def test_every_word_of_the_daemon_for_a_state_has_its_meaning(
    state: str, code: int, phase: Phase
) -> None:
    inspected = {"State": {"Status": state, "ExitCode": code}, "Config": {}}
    assert parse.observation(inspected).phase is phase


@pytest.mark.parametrize("state", ["exited", "dead", "removing"])
def test_a_container_that_never_started_has_not_succeeded_by_being_removed(state: str) -> None:
    gone = {
        "Status": state,
        "ExitCode": 0,
        "StartedAt": "0001-01-01T00:00:00Z",
        "FinishedAt": "0001-01-01T00:00:00Z",
    }
    assert parse.observation({"State": gone, "Config": {}}).phase is Phase.ABSENT
    assert parse.observation({"State": gone, "Config": {}}, canceled=True).phase is Phase.CANCELED
    assert not Container({"Id": "1", "State": gone, "Config": {}}).begun
    failed = parse.observation(
        {"State": {**gone, "ExitCode": 128, "Error": "no such device"}, "Config": {}}
    )
    assert (failed.phase, failed.exit_code, failed.reason) == (Phase.FAILED, 128, "no such device")


def test_a_paused_container_is_paused_and_can_be_canceled(client: Client, here: Daemon) -> None:
    job = submit(client, "sleep 300")
    here.docker("pause", container(job))
    assert client.get_job(job.id).status is Status.PAUSED
    assert client.cancel_job(job.id, grace=1) is True


def test_a_container_stopped_by_hand_is_explained(client: Client, here: Daemon) -> None:
    job = submit(client, "sleep 300")
    here.docker("stop", "-t", "1", container(job))
    assert ended(client, job).status is Status.ERROR
    found = client.diagnose(job.id)
    assert found is not None
    assert (found.rule, found.retryable) == ("docker.stopped_outside", True)


def test_the_streams_can_be_read_apart(client: Client) -> None:
    job = submit(client, "echo out; echo err >&2; echo out again")
    ended(client, job)
    assert client.get_job_logs(job.id, stream="stdout") == "out\nout again\n"
    assert client.get_job_logs(job.id, stream="stderr") == "err\n"


def test_a_progress_bar_without_a_newline_is_read_once_while_the_other_stream_goes_on(
    client: Client,
) -> None:
    bar = (
        "for i in $(seq 1 40); do printf '%01000d\\r' $i >&2; echo line $i; sleep 0.02; done; "
        "echo >&2; echo end >&2"
    )
    job = submit(client, bar)
    read, cursor = b"", ""
    backend = client.engine.backend_of(job)
    ref = client.engine.ref_of(job)
    assert ref is not None
    from tao_sdk.backends.contract import LogRequest

    over, before = False, "none"
    while not over or cursor != before:
        over, before = client.get_job(job.id).status.terminal, cursor
        for chunk in backend.logs(ref, LogRequest(cursor=cursor)):
            read, cursor = read + chunk.data, chunk.cursor
    err = b"".join(b"%01000d\r" % i for i in range(1, 41)) + b"\nend\n"
    assert len(read) == len(err) + sum(len(f"line {i}\n") for i in range(1, 41))
    assert client.get_job_logs(job.id, stream="stderr").encode() == err


def test_a_name_that_is_taken_is_refused_and_the_strangers_container_stays(
    client: Client, here: Daemon
) -> None:
    planned = client.plan(JobSpec(image=PYTHON, command="true", gpu_count=0), "docker").plan
    here.docker("run", "-d", "--name", planned.request.name, PYTHON, "sleep", "60")
    try:
        with pytest.raises(
            Refused, match=r"taken by a container that is not of this job\. docker rm -f"
        ):
            client.engine.backend("docker").submit(planned, {})
        assert here.inspect(planned.request.name)["State"]["Running"]
    finally:
        here.docker("rm", "-f", planned.request.name)


def test_people_who_start_at_once_make_one_network(
    surroundings: dict[str, str], here: Daemon
) -> None:
    dockerd_here.clear_networks(here)
    state = surroundings["TAO_SDK_STATE_DIR"]
    clients = [
        Client(settings=Settings({**surroundings, "TAO_SDK_STATE_DIR": f"{state}-{n}"}))
        for n in range(4)
    ]
    threads = [threading.Thread(target=submit, args=(client, "true")) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = here.docker("network", "ls", "--format", "{{.Name}}").stdout.split()
    assert made.count("tao_default") == 1
    for client in clients:
        (job,) = client.list_jobs()
        assert ended(client, job).status is Status.COMPLETE
        client.remove(job.id)
        client.close()


def test_of_two_networks_of_our_name_the_one_in_use_stays(client: Client, here: Daemon) -> None:
    backend: Any = client.engine.backend("docker")
    dockerd_here.clear_networks(here)
    twice = {"Name": "tao_default", "CheckDuplicate": False, "Labels": {"tao-toolkit": "true"}}
    _, second = [backend.daemon.ask("POST", "/networks/create", twice)["Id"] for _ in range(2)]
    here.docker("run", "-d", "--name", "user", BUSYBOX, "sleep", "60")
    try:
        here.docker("network", "connect", second, "user")
        job = submit(client, "true", BUSYBOX)
        assert ended(client, job).status is Status.COMPLETE
        assert network_id(here, "tao_default") == second
    finally:
        here.docker("rm", "-f", "user")


def test_a_network_that_was_named_and_is_not_there_is_refused_with_the_command(
    client: Client, here: Daemon
) -> None:
    with pytest.raises(Refused, match="docker network create nowhere"):
        submit(client, "true", options={"network": "nowhere"})
    assert (
        here.docker("ps", "-aq", "--filter", f"label=tao-sdk-store={client.store.store_id}").stdout
        == ""
    )


def test_a_network_that_native_names_is_not_made(client: Client, here: Daemon) -> None:
    with pytest.raises(Refused, match="docker network create nowhere"):
        submit(client, "true", native={"HostConfig": {"NetworkMode": "nowhere"}})
    assert "nowhere" not in here.docker("network", "ls", "--format", "{{.Name}}").stdout.split()
    job = submit(client, "true", native={"HostConfig": {"NetworkMode": "none"}})
    assert here.inspect(container(job))["HostConfig"]["NetworkMode"] == "none"


def test_auto_remove_keeps_the_log_and_the_exit_code(
    surroundings: dict[str, str], here: Daemon
) -> None:
    with Client(settings=Settings({**surroundings, "DOCKER_AUTO_REMOVE": "true"})) as client:
        job = submit(client, "echo kept; exit 3")
        assert ended(client, job).exit_code == 3
        assert client.get_job_logs(job.id) == "kept\n"
        with pytest.raises(PathNotFound, match="stdout and stderr together"):
            client.get_job_logs(job.id, stream="stderr")
        assert here.docker("ps", "-aq", "--filter", f"name={container(job)}").stdout == ""
        assert "exit code 3" in client.diagnose(job.id).cause  # pyright: ignore[reportOptionalMemberAccess]


def test_native_is_laid_over_the_request(client: Client, here: Daemon) -> None:
    job = submit(client, "sleep 30", native={"HostConfig": {"PidsLimit": 77}, "WorkingDir": "/tmp"})
    seen = here.inspect(container(job))
    assert (seen["HostConfig"]["PidsLimit"], seen["Config"]["WorkingDir"]) == (77, "/tmp")
    assert seen["HostConfig"]["Init"] is True


def test_native_cannot_touch_what_jobs_are_found_by_nor_show_what_they_are_told(
    client: Client, here: Daemon
) -> None:
    native = {"Labels": {"tao-sdk-job-id": "another", "mine": "1"}, "Tty": True}
    job = submit(client, "sleep 30", native=native, env_vars={"PRIVATE": "not to be shown"})
    seen = here.inspect(container(job))["Config"]
    assert (seen["Labels"]["tao-sdk-job-id"], seen["Labels"]["mine"], seen["Tty"]) == (
        job.id,
        "1",
        False,
    )
    assert client.get_job_logs(job.id) == ""


@pytest.mark.parametrize(
    ("command", "end"), [("true", Status.COMPLETE), ("exit 125", Status.ERROR)]
)
def test_a_job_whose_logging_driver_keeps_nothing_ends_as_it_did_and_says_why_it_has_no_log(
    client: Client, here: Daemon, surroundings: dict[str, str], command: str, end: Status
) -> None:
    job = submit(
        client, f"echo unheard; {command}", native={"HostConfig": {"LogConfig": {"Type": "none"}}}
    )
    other = submit(client, "echo heard")
    assert (ended(client, job).status, ended(client, other).status) == (end, Status.COMPLETE)
    with pytest.raises(NoLog, match="logging driver keeps none.*LogConfig: {Type: local}"):
        client.get_job_logs(job.id)
    tao = [sys.executable, "-m", "tao_sdk.cli.main", "logs", "-f", job.id]
    said = subprocess.run(tao, env=surroundings, capture_output=True, text=True)
    assert (said.returncode, said.stdout, "logging driver keeps none" in said.stderr) == (
        3,
        "",
        True,
    ), said.stderr
    assert (client.diagnose(job.id) is not None) == (end is Status.ERROR)
    row = client.store.attempt(job.id)
    assert client.engine.backend_of(job).find(row.attempt) is not None
    assert set(client.gc(older_than=timedelta(0))) == {job.id, other.id}
    assert client.get_job_logs(other.id) == "heard\n"
    assert here.docker("ps", "-aq", "--filter", f"name={container(job)}").stdout == ""


def test_gc_removes_the_container_and_keeps_the_log(client: Client, here: Daemon) -> None:
    job = submit(client, "echo kept")
    ended(client, job)
    assert client.gc(older_than=timedelta(0)) == [job.id]
    assert subprocess.run(
        ["docker", "-H", here.host, "inspect", container(job)], capture_output=True
    ).returncode
    assert client.get_job_logs(job.id) == "kept\n"


def test_the_network_that_we_made_goes_with_the_last_container_in_it(
    client: Client, here: Daemon
) -> None:
    first, second = submit(client, "true"), submit(client, "true")
    made = network_id(here, "tao_default")
    for job in (first, second):
        ended(client, job)
    client.remove(first.id)
    assert network_id(here, "tao_default") == made
    client.remove(second.id)
    assert "tao_default" not in here.docker("network", "ls", "--format", "{{.Name}}").stdout.split()


def test_a_network_that_somebody_else_made_stays(client: Client, here: Daemon) -> None:
    dockerd_here.clear_networks(here)
    here.docker("network", "create", "tao_default")
    try:
        job = submit(client, "true")
        ended(client, job)
        client.remove(job.id)
        assert network_id(here, "tao_default")
    finally:
        here.docker("network", "rm", "tao_default")


def test_a_network_that_went_away_under_a_submit_is_made_again(
    client: Client, here: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = client.plan(JobSpec(image=PYTHON, command="sleep 60", gpu_count=0), "docker").plan
    backend: Any = client.engine.backend("docker")
    networks: Networks = backend.starting.networks
    find, lost = networks.settle_name, list[str]()

    def found_and_lost(name: str) -> str:
        lost.append(find(name))
        if len(lost) == 1:
            here.docker("network", "rm", lost[0])
        return lost[-1]

    monkeypatch.setattr(networks, "settle_name", found_and_lost)
    ref = backend.submit(plan, {})
    try:
        assert len(lost) == 2
        assert here.inspect(ref.native_id)["State"]["Running"]
    finally:
        cancel_one(backend, ref, timedelta(0))
        backend.release(ref)


def test_a_grace_of_less_than_a_second_is_not_made_one(client: Client) -> None:
    job = submit(
        client, "trap 'echo told' TERM; echo ready; while :; do sleep 0.1; echo tick; done", BUSYBOX
    )
    until(client, job, "ready")
    assert client.cancel_job(job.id, grace=0.2) is True
    ticks = client.get_job_logs(job.id).partition("told")[2].count("tick")
    assert ticks < 7, "the daemon's own stop would have waited for ten"


def questions(backend: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of what the daemon is asked from now on, with what it is to choose by."""
    asked: list[str] = []
    ask = backend.daemon.request

    def noted(method: str, path: str, **more: Any) -> Any:
        asked.append(path + (more.get("params") or {}).get("filters", ""))
        return ask(method, path, **more)

    monkeypatch.setattr(backend.daemon, "request", noted)
    return asked


def test_a_submit_after_another_asks_the_daemon_for_nothing_but_the_container(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = submit(client, "true", BUSYBOX)
    asked = questions(client.engine.backend_of(first), monkeypatch)
    submit(client, "true", BUSYBOX)
    assert [path.rpartition("/")[2] for path in asked] == ["create", "attach", "start"]


def test_what_was_there_a_moment_ago_and_is_gone_is_noticed(client: Client, here: Daemon) -> None:
    here.docker("tag", BUSYBOX, "tao-fleeting")
    first = submit(client, "true", "tao-fleeting", {"pull": "never"})
    ended(client, first)
    here.docker("rm", container(first))
    here.docker("rmi", "tao-fleeting")
    here.docker("network", "rm", "tao_default")
    with pytest.raises(Refused, match="The daemon has no image tao-fleeting"):
        submit(client, "true", "tao-fleeting", {"pull": "never"})
    assert ended(client, submit(client, "true", BUSYBOX)).status is Status.COMPLETE


def test_looking_at_many_jobs_is_one_question_and_one_more_for_each_that_newly_ended(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [submit(client, "sleep 300", BUSYBOX) for _ in range(5)]
    client.list_jobs()  # which now and then asks a daemon to count, however many jobs there are
    short = submit(client, "true", BUSYBOX)
    backend: Any = client.engine.backend_of(short)
    dockerd_here.until(
        lambda: not backend.containers.inspect(container(short)).seen["State"]["Running"]
    )
    asked = questions(backend, monkeypatch)
    seen = {job.id: job.status for job in client.list_jobs()}
    assert [seen[job.id] for job in jobs] == [Status.RUNNING] * 5
    assert seen[short.id] is Status.COMPLETE
    ours = f'/containers/json{{"label": ["tao-sdk-store={client.store.store_id}"]}}'
    assert asked[0] == ours
    assert backend.containers.inspect(container(short)).id in asked[1]
    asked.clear()
    client.list_jobs()
    assert asked.count(ours) == 1, "what is new in each log is read besides"
    asked.clear()
    assert [client.get_job_status(job.id).status for job in jobs] == [Status.RUNNING] * 5
    assert asked.count(ours) == 5, "each is a look of its own"


def test_an_ended_job_began_when_the_daemon_says_not_when_it_was_first_looked_at(
    client: Client, here: Daemon
) -> None:
    job = submit(client, "until [ -e /go ]; do sleep 0.05; done", BUSYBOX)
    seen = client.get_job(job.id)
    here.docker("exec", container(job), "touch", "/go")
    client.wait(job.id, timeout=300)
    began = parse.moment(here.inspect(container(job))["State"]["StartedAt"])
    assert (seen.status, client.get_job(job.id).started) == (Status.RUNNING, began)


def test_a_variable_that_the_shell_keeps_for_itself_keeps_no_job_from_running(
    client: Client, here: Daemon
) -> None:
    here.docker("run", "--name", "sh-is-bash", "--net=none", PYTHON, "ln", "-sf", "bash", "/bin/sh")
    here.docker("commit", "sh-is-bash", "tao-test-sh-is-bash")
    here.docker("rm", "sh-is-bash")
    job = submit(
        client, 'echo "has $GIVEN"', "tao-test-sh-is-bash", env_vars={"UID": "1000", "GIVEN": "all"}
    )
    try:
        assert ended(client, job).status is Status.COMPLETE
        assert client.get_job_logs(job.id).endswith("has all\n")
    finally:
        client.remove(job.id)
        here.docker("rmi", "tao-test-sh-is-bash")


@pytest.mark.parametrize(
    ("native", "words"),
    [
        ({"HostConfig": "host"}, "native.HostConfig is 'host'; it must be a mapping"),
        ({"HostConfig": None}, "native.HostConfig is None; it must be a mapping"),
        (
            {"HostConfig": {"NetworkMode": 5}},
            "native.HostConfig.NetworkMode is 5; it must be a text",
        ),
        ({"Labels": ["a"]}, "native.Labels is .* it must be a mapping"),
        ({"Image": None}, "native.Image is None; it must be a text"),
        ({"HostConfig": {"DeviceRequests": "gpu"}}, "cannot unmarshal string"),
    ],
)
def test_a_native_patch_of_another_kind_is_refused_in_words_and_leaves_nothing(
    client: Client, native: dict[str, Any], words: str
) -> None:
    with pytest.raises((SpecError, Refused), match=words):
        submit(client, "true", native=native)
    assert client.list_jobs() == []


def test_a_native_patch_may_name_gpus_by_their_uuid(client: Client) -> None:
    asked = [
        {"Driver": "", "DeviceIDs": ["GPU-1f2e"], "Capabilities": [["gpu"]]},
        {"Count": None, "DeviceIDs": None},
    ]
    spec = JobSpec(
        image=PYTHON, command="true", gpu_count=0, native={"HostConfig": {"DeviceRequests": asked}}
    )
    assert client.plan(spec, "docker").plan.request.host_config["DeviceRequests"] == asked


def test_a_job_in_an_image_made_of_another_jobs_container_has_nothing_of_that_jobs(
    client: Client, here: Daemon
) -> None:
    first = submit(client, "true", time_limit="1s")
    ended(client, first)
    here.docker("commit", container(first), "tao-test-committed")
    job = submit(client, "sleep 2; exit 137", "tao-test-committed")
    try:
        assert ended(client, job).message == "exit code 137"
    finally:
        client.remove(job.id)
        here.docker("rmi", "tao-test-committed")


@pytest.mark.parametrize("user", ["0:0", "1234:1234"])
def test_a_container_that_is_restarted_from_outside_runs_its_command_once_and_its_job_stays_what_it_was(
    client: Client, here: Daemon, user: str
) -> None:
    job = submit(client, "echo $TAO_ATTEMPT; exit 3", BUSYBOX, {"user": user})
    assert ended(client, job).exit_code == 3
    here.docker("restart", container(job))
    dockerd_here.until(lambda: not here.inspect(container(job))["State"]["Running"])
    again = client.get_job(job.id)
    assert (again.status, again.exit_code, again.attempt) == (Status.ERROR, 3, 1)
    assert client.get_job_logs(job.id) == "1\n"


def test_a_job_whose_container_is_restarted_while_it_runs_ends_and_says_so(
    client: Client, here: Daemon
) -> None:
    job = submit(client, "echo begun; sleep 300", BUSYBOX)
    until(client, job, "begun")
    here.docker("restart", "--time", "1", container(job))
    over = ended(client, job)
    found = client.diagnose(job.id)
    assert found is not None
    assert (over.status, over.attempt, found.rule) == (Status.ERROR, 1, "docker.started_again")
    assert found.retryable


def test_a_container_whose_root_is_read_only_is_canceled_with_the_grace_of_its_own(
    client: Client,
) -> None:
    """Nothing can be written into it that would tell another grace."""
    read_only = {"HostConfig": {"ReadonlyRootfs": True}}
    job = submit(client, "echo ready; exec sleep 300", native=read_only)
    until(client, job, "ready")
    assert client.cancel_job(job.id, grace=30) is True
    assert client.get_job(job.id).status is Status.CANCELED


# A program below a shell, in an image with sh alone


def test_a_program_below_a_shell_has_its_time_though_the_signal_ends_the_shell(
    client: Client,
) -> None:
    job = submit(client, SAVES_BELOW_A_SHELL, image=BUSYBOX)
    until(client, job, "up\n")
    assert client.cancel_job(job.id, grace=120)
    assert client.get_job_logs(job.id) == "up\nsaved\n"


def test_a_program_below_a_shell_has_its_time_at_the_time_limit(client: Client) -> None:
    job = submit(client, SAVES_BELOW_A_SHELL, image=BUSYBOX, time_limit=timedelta(seconds=3))
    ended = client.wait(job.id, timeout=300)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.TIME_LIMIT)
    assert client.get_job_logs(job.id) == "up\nsaved\n"


def test_a_container_without_an_init_tells_its_group(client: Client) -> None:
    native = {"HostConfig": {"Init": False}}
    job = submit(client, SAVES_BELOW_A_SHELL, image=BUSYBOX, native=native)
    until(client, job, "up\n")
    assert client.cancel_job(job.id, grace=120)
    assert client.get_job_logs(job.id) == "up\nsaved\n"


def test_a_program_hears_the_signals_that_somebody_sends_to_its_container(
    client: Client, here: Daemon
) -> None:
    names = ("HUP", "INT", "QUIT", "USR1")
    traps = "; ".join(f"trap 'echo heard {name}' {name}" for name in names)
    job = submit(client, f"{traps}; echo up; while :; do sleep 300 & wait; done", image=BUSYBOX)
    until(client, job, "up")
    for name in names:
        here.docker("kill", f"--signal={name}", container(job))
        until(client, job, f"heard {name}\n")


@pytest.mark.parametrize(("own", "saves"), [("120", True), ("1", False), ("soon", False)])
def test_a_cancel_without_a_grace_gives_the_jobs_own_where_that_is_longer(
    client: Client, monkeypatch: pytest.MonkeyPatch, own: str, saves: bool
) -> None:
    """The default is shorter here, so that a test need not wait for it."""
    monkeypatch.setattr(ending, "GRACE", 1)
    monkeypatch.setattr(containers, "GRACE", 1)
    command = "trap 'sleep 3; echo saved; exit' TERM; echo up; sleep 300 & wait"
    job = submit(client, command, image=BUSYBOX, env_vars={"TAO_GRACE": own})
    until(client, job, "up\n")
    assert client.cancel_job(job.id, grace=1)
    assert ("saved" in client.get_job_logs(job.id)) is saves


# A time limit, and what the job says at it


def test_a_time_limit_holds_in_an_image_with_bash_alone(client: Client, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "bash").symlink_to("/bin/bash")
    job = submit(
        client,
        "echo begun; while :; do :; done",
        mounts=[f"{programs}:/programs:ro"],
        env_vars={"PATH": "/programs"},
        time_limit="1s",
    )
    late = ended(client, job)
    assert (late.status, late.reason_code) == (Status.ERROR, Reason.TIME_LIMIT)
    assert client.get_job_logs(job.id) == "begun\n"


def test_a_command_that_saves_at_its_time_limit_has_reached_it(client: Client) -> None:
    saves = "trap 'echo saved; exit 0' TERM; while :; do :; done"
    late = ended(client, submit(client, saves, BUSYBOX, time_limit="1s"))
    assert (late.status, late.reason_code) == (Status.ERROR, Reason.TIME_LIMIT)
    assert client.get_job_logs(late.id) == "saved\n"


def test_the_first_look_at_a_running_job_says_when_it_began(client: Client) -> None:
    job = submit(client, "echo up; sleep 600", BUSYBOX)
    until(client, job, "up")
    ref = client.engine.ref_of(job)
    assert ref is not None
    seen = client.engine.backend_of(job).observe([ref])[ref]
    assert seen.phase is Phase.RUNNING
    assert seen.started_at is not None
    assert seen.started_at <= seen.seen_at


HANGS = (
    "python3 -c 'import time; print(1, flush=True); time.sleep(600)'; echo over"  # below a shell
)


def test_what_a_running_container_does_is_told_by_its_daemon(client: Client) -> None:
    job = submit(client, HANGS)
    until(client, job, "1")
    seen = client.activity(job.id)
    assert seen is not None
    assert seen.main is not None
    assert seen.main.name == "python3"
    assert seen.main.state == "S"
    assert (
        seen.main.command == f"py-spy dump --pid {seen.main.pid}"
    )  # the daemon is on this machine
    assert seen.cpu_cores is not None
    assert seen.cpu_cores < 0.5
    assert seen.enter == f"docker exec -it {container(job)} sh"
    client.cancel_job(job.id, grace=0)
    assert client.activity(job.id) is None


def test_a_container_that_computes_is_told_to_use_the_cpu(client: Client) -> None:
    job = submit(client, "echo begun; while :; do :; done")
    until(client, job, "begun")
    dockerd_here.until(lambda: uses_cpu(client, job))


def uses_cpu(client: Client, job: Job) -> bool:
    seen = client.activity(job.id)
    return bool(seen and seen.cpu_cores)
