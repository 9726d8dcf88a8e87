"""Submit is idempotent on the attempt: whatever is killed, and whoever else submits, there is one
job or none.
"""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.machine import Machine, until
from tao_sdk.backends.local.job.folder import take_lock
from tao_sdk.backends.local.supervision.supervisor_message import SupervisorMessage
from tao_sdk.backends.local.supervision.supervisor_start import ForkServer
from tao_sdk.client.carried_files import FILES_LIMIT
from tao_sdk.model.errors import Refused, UsageError
from tao_sdk.model.observation import Phase
from tao_sdk.model.plan import Plan, Ref


def submit_and_be_killed(machine: Machine, plan: Plan, after: float) -> None:
    """Submit in another process, which is killed with SIGKILL that many seconds later."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(tell, b".")
        machine.backend.submit(plan, {})
        os._exit(0)
    os.read(ready, 1)
    time.sleep(after)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(ready)
    os.close(tell)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_killing_the_client_at_any_instant_leaves_one_job_once_it_is_submitted_again(
    machine: Machine, tmp_path: Path, part: int
) -> None:
    chance = random.Random(part)
    for number in range(12):
        marker = tmp_path / f"started-{number}"
        plan = machine.plan(f"echo started >> {marker}; sleep 0.05")
        submit_and_be_killed(machine, plan, chance.uniform(0, 0.045))
        assert (len(marker.read_text().split()) if marker.exists() else 0) <= 1
        ref = machine.start(plan)
        assert ref.ready
        assert machine.end(ref).phase is Phase.SUCCEEDED
        assert marker.read_text() == "started\n"


@pytest.mark.slow
def test_after_a_crash_find_answers_what_there_is(machine: Machine, tmp_path: Path) -> None:
    chance = random.Random(7)
    for number in range(12):
        marker = tmp_path / f"started-{number}"
        plan = machine.plan(f"echo started >> {marker}")
        submit_and_be_killed(machine, plan, chance.uniform(0, 0.03))
        until(lambda plan=plan: not starting(machine, plan))
        found = machine.backend.find(plan.attempt)
        if found and found.ready:
            machine.end(found)
        elif found:
            assert machine.see(found).phase is Phase.PENDING
        assert marker.exists() == (found is not None and found.ready)


def starting(machine: Machine, plan: Plan) -> bool:
    """Whether somebody is there who may start a supervisor that has not taken charge yet."""
    folder = machine.backend.folder(plan.attempt)
    return bool(machine.fork_servers()) and not folder.has_file("supervisor")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["staged", "supervisor"])
def test_a_supervisor_that_was_killed_before_the_start_is_replaced(
    machine: Machine, what: str
) -> None:
    """Its GPUs are taken, so that it waits; then it dies."""
    machine.has_gpus(1)
    holder = machine.submit("sleep 300", gpu_count=1)
    plan = machine.plan("echo once", gpu_count=1)
    if what == "staged":
        machine.backend.stage(plan)
    else:
        machine.kill_supervisor(machine.start(plan))
    found = machine.backend.find(plan.attempt)
    assert found is not None
    assert not found.ready
    again = machine.start(plan)
    assert again.ready
    assert again.unique_id == found.unique_id
    machine.cancels(holder, timedelta(0))
    assert machine.log(again) == b"once\n"


CLIENT = """
import json, sys
from pathlib import Path
from tao_sdk.backends.local.backend import LocalBackend
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.settings import Settings
backend = LocalBackend(Settings({}), Path(sys.argv[1]))
given = json.load(sys.stdin)
plan = Plan.from_json(given["plan"], Attempt(**given["attempt"]), backend.request_from_json)
print("ready", flush=True)
while not Path(sys.argv[2]).exists():
    pass
ref = backend.submit(plan, {})
print(ref.unique_id, ref.ready)
"""


@pytest.mark.slow
def test_clients_that_submit_the_same_attempt_at_once_get_the_same_job(
    machine: Machine, tmp_path: Path
) -> None:
    marker, gate = tmp_path / "started", tmp_path / "gate"
    plan = machine.plan(f"echo started >> {marker}; sleep 0.3")
    attempt = {name: getattr(plan.attempt, name) for name in plan.attempt.__slots__}
    given = json.dumps({"plan": plan.to_json(), "attempt": attempt})
    argv = [sys.executable, "-c", CLIENT, str(machine.state), str(gate)]
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    clients = [
        subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(4)
    ]
    for client in clients:
        assert client.stdin
        assert client.stdout
        client.stdin.write(given)
        client.stdin.close()
        assert client.stdout.readline() == "ready\n"
    gate.touch()
    said = {client.stdout.read() for client in clients if client.stdout}
    assert [client.wait() for client in clients] == [0] * 4
    ref = machine.start(plan)
    assert said == {f"{ref.unique_id} True\n"}
    machine.end(ref)
    assert marker.read_text() == "started\n"


@pytest.mark.slow
def test_threads_that_submit_the_same_attempt_at_once_get_the_same_job(
    machine: Machine, tmp_path: Path
) -> None:
    for number in range(5):
        marker = tmp_path / f"started-{number}"
        plan = machine.plan(f"echo started >> {marker}; sleep 0.1")
        with ThreadPoolExecutor(6) as threads:
            refs: list[Ref] = list(threads.map(lambda _, plan=plan: machine.start(plan), range(6)))
        assert len(set(refs)) == 1
        machine.end(refs[0])
        assert marker.read_text() == "started\n"


def test_an_attempt_that_someone_is_about_to_start_is_not_ready_yet(machine: Machine) -> None:
    """That one may still be killed; submit waits for it instead of believing in it."""
    plan = machine.plan("echo once")
    machine.backend.stage(plan)
    lock = take_lock(machine.backend.folder(plan.attempt).file_path("lock"))
    assert lock is not None
    found = machine.backend.find(plan.attempt)
    assert found is not None
    assert not found.ready
    assert machine.see(found).raw == "starting"
    with ThreadPoolExecutor(1) as thread:
        submitted = thread.submit(machine.start, plan)
        time.sleep(0.2)
        assert not submitted.done()
        os.close(lock)
        assert submitted.result().ready
    assert machine.log(found) == b"once\n"


def test_looking_all_the_time_does_not_keep_a_job_from_starting(machine: Machine) -> None:
    """A look at an attempt without a supervisor takes the same lock as one that starts."""
    plan = machine.plan("true")
    machine.backend.stage(plan)
    looker = os.fork()
    if looker == 0:
        while True:
            machine.backend.find(plan.attempt)
    try:
        assert machine.end(machine.start(plan)).phase is Phase.SUCCEEDED
    finally:
        os.kill(looker, signal.SIGKILL)
        os.waitpid(looker, 0)


def test_an_ended_attempt_that_is_submitted_again_is_not_run_again(
    machine: Machine, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    plan = machine.plan(f"echo started >> {marker}")
    ref = machine.start(plan)
    machine.end(ref)
    assert machine.start(plan) == ref
    time.sleep(0.2)
    assert marker.read_text() == "started\n"


def test_the_job_of_another_store_is_neither_found_nor_replaced(machine: Machine) -> None:
    plan = machine.plan("sleep 300")
    ref = machine.start(plan)
    stranger = replace(plan.attempt, store_id="another-store")
    assert machine.backend.find(stranger) is None
    with pytest.raises(Refused, match="another store"):
        machine.backend.submit(replace(plan, attempt=stranger), {})
    until(lambda: machine.see(ref).phase is Phase.RUNNING)


def test_a_secret_without_a_value_refuses_the_job(machine: Machine) -> None:
    plan = machine.plan("true", env_vars={"API_KEY": "hidden"})
    with pytest.raises(Refused, match="API_KEY has no value"):
        machine.backend.submit(plan, {})
    assert machine.backend.find(plan.attempt) is None


def test_a_state_folder_that_cannot_be_made_refuses_the_job(machine: Machine) -> None:
    machine.state.write_text("a file is in the way")
    with pytest.raises(Refused, match=r"state.*(File exists|Not a directory)"):
        machine.submit("true")


def test_a_link_in_place_of_our_folder_refuses_the_job(machine: Machine, tmp_path: Path) -> None:
    machine.state.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (machine.state / "local").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="it is a link"):
        machine.submit("true")


def test_what_an_interrupted_submit_left_behind_is_swept_up_later(machine: Machine) -> None:
    machine.end(machine.submit("true"))
    aside = machine.state / "local" / ".aside"
    old, new = aside / "job-1.1.old", aside / "job-2.1.new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "command").write_text("true")
    os.utime(old, (0, 0))
    machine.end(machine.submit("true"))
    assert list(aside.iterdir()) == [new]


def test_an_id_that_is_a_path_is_refused(machine: Machine) -> None:
    plan = machine.plan("true")
    with pytest.raises(UsageError):
        machine.backend.find(replace(plan.attempt, job_id="../../etc/x"))


def test_half_a_message_to_the_supervisor_is_no_message() -> None:
    environment = {b"A": b"1", b"B": b"line\nline", b"C": b"\xff"}
    request = SupervisorMessage(
        "job-1", "/some where", 10.0, 0.5, 2, ["0:GPU-a", "1:GPU-b"], "/run/lock", environment
    )
    message = request.encode()
    whole = SupervisorMessage.decode(message)
    assert whole is not None
    assert vars(whole) == vars(request)
    assert [SupervisorMessage.decode(message[:end]) for end in range(len(message))] == [None] * len(
        message
    )


def test_a_supervisor_that_cannot_start_is_told_and_nothing_runs(machine: Machine) -> None:
    plan = machine.plan("true")
    machine.backend.stage(plan)
    (machine.folder_of(plan) / "trouble").mkdir()
    with pytest.raises(Refused, match="supervisor could not be started"):
        machine.start(plan)
    assert machine.backend.find(plan.attempt) is None
    assert list(machine.folder_of(plan).parent.iterdir()) == [machine.state / "local" / ".aside"]


def test_a_supervisor_whose_launcher_was_killed_has_the_job_all_the_same(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = ForkServer.start_supervisor

    def killed(server: ForkServer, folder: str, message: bytes) -> str:
        return start(server, folder, message) or "it ended with -9"

    monkeypatch.setattr(ForkServer, "start_supervisor", killed)
    ref = machine.submit("sleep 0.3; exit 3")
    assert ref.ready
    assert machine.end(ref).exit_code == 3


def test_as_many_files_as_may_travel_fit_also_when_nothing_makes_them_smaller(
    machine: Machine,
) -> None:
    as_text = len(base64.b64encode(bytes(3 * 1024))) / (3 * 1024) * FILES_LIMIT
    assert as_text + (1 << 20) < machine.backend.capabilities.max_payload


def test_an_environment_that_no_process_can_have_is_refused_and_leaves_no_folder(
    machine: Machine,
) -> None:
    plan = machine.plan("true", env_vars={"A": "\ud800"})
    with pytest.raises(Refused, match="environment"):
        machine.backend.submit(plan, {})
    assert not machine.folder_of(plan).exists()
