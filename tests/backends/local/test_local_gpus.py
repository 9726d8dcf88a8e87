"""GPUs: a job gets those that are free, all of them or none, for as long as it runs; otherwise it
waits and says for whom.

nvidia-smi is a small stand-in program here; the locks are the real ones.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from support.machine import NO_OPTIONS, Machine, until
from tao_sdk.backends.local import parse
from tao_sdk.backends.local.job import gpu_locks
from tao_sdk.backends.local.options import LocalOptions
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.observation import Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.spec import JobSpec

SHOW = "echo $CUDA_VISIBLE_DEVICES; sleep 300"


def shown(machine: Machine, ref: Ref) -> str:
    machine.says(ref, b"\n")
    return (machine.state / "local" / ref.native_id / "log").read_text().split("\n")[0]


def findings(
    machine: Machine, options: LocalOptions = NO_OPTIONS, **spec: object
) -> dict[str, Finding]:
    planned = machine.planned(JobSpec(command="true", **spec), options)  # type: ignore[arg-type]
    return {finding.code: finding for finding in planned[2]}


def test_each_job_gets_gpus_of_its_own(machine: Machine) -> None:
    machine.has_gpus(4)
    jobs = [machine.submit(SHOW, gpu_count=count) for count in (1, 2, 1)]
    got = [shown(machine, ref).split(",") for ref in jobs]
    assert list(map(len, got)) == [1, 2, 1]
    assert sorted(index for indexes in got for index in indexes) == ["0", "1", "2", "3"]


def test_the_gpu_with_the_least_memory_in_use_comes_first(machine: Machine) -> None:
    machine.has_gpus(3, used=[70_000, 9000, 10])
    assert [shown(machine, machine.submit(SHOW, gpu_count=1)) for _ in range(3)] == ["2", "1", "0"]


@pytest.mark.slow
def test_a_job_waits_until_it_can_have_all_its_gpus_and_says_who_holds_them(
    machine: Machine,
) -> None:
    machine.has_gpus(2)
    first, second = (machine.submit(SHOW, gpu_count=1) for _ in range(2))
    both = machine.submit(SHOW, gpu_count=2)
    seen = until(lambda: s if (s := machine.see(both)).reason.count(",") else None)
    holders = {ref.attempt.job_id for ref in (first, second)}
    assert seen.phase is Phase.PENDING
    assert seen.reason.startswith("waits for 2 free GPUs (held by ")
    assert set(seen.reason.partition("held by ")[2].rstrip(")").split(", ")) == holders
    machine.cancels(first, timedelta(0))
    until(
        lambda: (
            machine.see(both).reason == f"waits for 2 free GPUs (held by {second.attempt.job_id})"
        )
    )
    time.sleep(0.3)
    assert machine.see(both).phase is Phase.PENDING
    machine.cancels(second, timedelta(0))
    assert shown(machine, both) == "0,1"
    assert machine.see(both).reason == ""


@pytest.mark.slow
def test_a_later_small_job_does_not_overtake_an_earlier_large_one(machine: Machine) -> None:
    machine.has_gpus(2)
    first = machine.submit(SHOW, gpu_count=1)
    shown(machine, first)
    large = machine.submit(SHOW, gpu_count=2)
    small = machine.submit(SHOW, gpu_count=1)
    large_id = large.attempt.job_id
    behind = f"waits for 1 free GPU (after {large_id}, which waits longer)"
    until(lambda: machine.see(small).reason == behind)
    assert machine.holder(1) == ""  # the GPU that is free is kept for the large one
    machine.cancels(first, timedelta(0))
    assert sorted(shown(machine, large).split(",")) == ["0", "1"]
    until(lambda: machine.see(small).reason == f"waits for 1 free GPU (held by {large_id})")
    machine.cancels(large, timedelta(0))
    assert shown(machine, small) in ("0", "1")


@pytest.mark.slow
def test_jobs_get_a_gpu_in_the_order_of_their_submits(machine: Machine) -> None:
    machine.has_gpus(1)
    holder = machine.submit(SHOW, gpu_count=1)
    shown(machine, holder)
    order = machine.root / "order"
    jobs = [machine.submit(f"echo {number} >> {order}", gpu_count=1) for number in range(6)]
    machine.cancels(holder, timedelta(0))
    for ref in jobs:
        machine.end(ref)
    assert order.read_text().split() == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "canceled"])
def test_a_waiting_job_that_is_gone_holds_up_nobody(machine: Machine, how: str) -> None:
    machine.has_gpus(2)
    shown(machine, machine.submit(SHOW, gpu_count=1))
    large = machine.submit(SHOW, gpu_count=2)
    small = machine.submit(SHOW, gpu_count=1)
    until(lambda: "which waits longer" in machine.see(small).reason)
    if how == "killed":
        machine.kill_supervisor(large)
    else:
        machine.cancels(large, timedelta(0))
    assert shown(machine, small)
    assert not [path for path in Path(machine.locks).glob("tao-gpu-line-*") if mine(machine, path)]


def mine(machine: Machine, ticket: Path) -> bool:
    """True for the ticket of a job of this machine's."""
    try:
        return not set(machine.gpus).isdisjoint(ticket.read_text().split("\n"))
    except OSError:
        return False


@pytest.mark.slow
def test_jobs_that_each_need_everything_do_not_block_each_other(machine: Machine) -> None:
    machine.has_gpus(3)
    jobs = [machine.submit("sleep 0.05", gpu_count=-1) for _ in range(5)]
    assert {machine.end(ref).phase for ref in jobs} == {Phase.SUCCEEDED}


def test_gpus_are_free_as_soon_as_a_job_is_over(machine: Machine) -> None:
    machine.has_gpus(1)
    for _ in range(5):
        ref = machine.submit("true", gpu_count=1)
        machine.end(ref)
        assert machine.holder(0) == ""


def test_the_gpus_of_a_job_stay_its_own_when_its_supervisor_is_killed(machine: Machine) -> None:
    machine.has_gpus(1)
    ref = machine.submit(SHOW, gpu_count=1)
    shown(machine, ref)
    machine.kill_supervisor(ref)
    assert machine.holder(0) == ref.attempt.job_id
    machine.cancels(ref, timedelta(0))
    until(lambda: machine.holder(0) == "")


def test_a_daemon_that_leaves_the_job_does_not_keep_its_gpus(machine: Machine) -> None:
    machine.has_gpus(1)
    ref = machine.submit("setsid sleep 5 & sleep 0.1; echo done", gpu_count=1)
    machine.end(ref)
    assert machine.holder(0) == ""
    for pid in machine.processes(ref):
        os.kill(pid, 9)


def test_particular_gpus_are_had_or_waited_for(machine: Machine) -> None:
    machine.has_gpus(3)
    chosen = LocalOptions(gpu_ids=(1, 2))
    assert shown(machine, machine.submit(SHOW, chosen, gpu_count=1)) == "1,2"
    waiting = machine.submit(SHOW, LocalOptions(gpu_ids=(2,)), gpu_count=1)
    until(lambda: "waits for 1 free GPU" in machine.see(waiting).reason)
    assert shown(machine, machine.submit(SHOW, gpu_count=1)) == "0"


def test_a_particular_gpu_that_is_not_there_is_refused(machine: Machine) -> None:
    machine.has_gpus(2)
    finding = findings(machine, LocalOptions(gpu_ids=(5,)))["gpu.unknown"]
    assert finding.severity is Severity.ERROR
    assert (finding.what, finding.evidence) == ("This machine has no GPU 5.", "It has: 0, 1.")


def test_more_gpus_than_the_machine_has_are_refused(machine: Machine) -> None:
    machine.has_gpus(2)
    finding = findings(machine, gpu_count=3)["gpu.too_many"]
    assert finding.severity is Severity.ERROR
    assert finding.fix == "Use gpu_count=2."


def test_one_gpu_on_a_machine_with_none_runs_without_and_says_so(machine: Machine) -> None:
    machine.program("nvidia-smi", "")
    assert findings(machine, gpu_count=1)["gpu.none"].severity is Severity.WARNING
    assert (
        machine.log(machine.submit('echo "[${CUDA_VISIBLE_DEVICES-unset}]"', gpu_count=1))
        == b"[]\n"
    )
    assert findings(machine, gpu_count=2)["gpu.too_many"].severity is Severity.ERROR


def test_a_driver_that_does_not_answer_is_quoted(machine: Machine) -> None:
    machine.program(
        "nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18"
    )
    assert "version mismatch" in findings(machine, gpu_count=1)["gpu.none"].evidence
    assert "version mismatch" in findings(machine, gpu_count=2)["gpu.too_many"].evidence


def test_a_full_machine_is_a_warning(machine: Machine) -> None:
    machine.has_gpus(1)
    holder = machine.submit(SHOW, gpu_count=1)
    until(lambda: machine.holder(0))
    finding = findings(machine, gpu_count=1)["gpu.busy"]
    assert finding.severity is Severity.WARNING
    assert holder.attempt.job_id in finding.evidence
    assert "gpu.busy" not in findings(machine, gpu_count=0)


def test_a_gpu_that_programs_of_others_use_is_a_warning(machine: Machine) -> None:
    machine.has_gpus(2, used=[60_000, 5])
    assert findings(machine, gpu_count=2)["gpu.in_use"].evidence == "GPU 0: 60000 of 81559 MiB"
    assert "gpu.in_use" not in findings(machine, gpu_count=1)


def test_no_gpu_means_none_is_seen(machine: Machine) -> None:
    machine.has_gpus(2)
    assert (
        machine.log(machine.submit('echo "[${CUDA_VISIBLE_DEVICES-unset}]"', gpu_count=0))
        == b"[]\n"
    )


def test_the_gpus_that_a_batch_system_hides_from_the_caller_are_not_used(machine: Machine) -> None:
    machine.has_gpus(4)
    machine.backend = machine.client(CUDA_VISIBLE_DEVICES=f"1,{machine.gpus[3]}")
    assert sorted(shown(machine, machine.submit(SHOW, gpu_count=1)) for _ in range(2)) == ["1", "3"]
    assert "gpu.too_many" in findings(machine, gpu_count=3)


def test_the_callers_own_choice_is_left_as_it_is(machine: Machine) -> None:
    machine.has_gpus(2)
    ref = machine.submit(SHOW, gpu_count=1, env_vars={"CUDA_VISIBLE_DEVICES": "1"})
    assert shown(machine, ref) == "1"
    assert machine.holder(1) == ""


def test_nvidia_smi_is_not_run_for_a_job_without_gpus(machine: Machine) -> None:
    marker = machine.root / "asked"
    machine.program("nvidia-smi", f"touch {marker}")
    machine.plan("true", gpu_count=0)
    assert not marker.exists()
    machine.plan("true", gpu_count=1)
    assert marker.exists()


def test_what_nvidia_smi_cannot_tell_is_taken_as_nothing() -> None:
    text = (
        "0, GPU-a, NVIDIA GB10, [N/A], [N/A]\nNo devices were found\n1, GPU-b, NVIDIA H200, "
        "143771 MiB, 4 MiB\n"
    )
    assert [(gpu.index, gpu.uuid, gpu.memory, gpu.used) for gpu in parse.read_gpus(text)] == [
        (0, "GPU-a", 0, 0),
        (1, "GPU-b", 143771, 4),
    ]


def test_a_lock_of_another_user_can_be_taken_but_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path
    theirs = Path(gpu_locks.lock_path(str(folder), "GPU-x"))
    theirs.write_text("their-job")
    theirs.chmod(0o444)
    taken, _ = gpu_locks.take_all(str(folder), ["0:GPU-x"], 1, "mine")
    assert list(taken) == ["0:GPU-x"]
    gpu_locks.release_locks(taken)
    (folder / "elsewhere").write_text("precious")
    Path(gpu_locks.lock_path(str(folder), "GPU-y")).symlink_to(folder / "elsewhere")
    with pytest.raises(OSError, match="GPU-y"):
        gpu_locks.take_all(str(folder), ["1:GPU-y"], 1, "mine")
    assert (folder / "elsewhere").read_text() == "precious"


def test_a_pipe_in_place_of_a_lock_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(gpu_locks.lock_path(str(tmp_path), "GPU-x"), 0o644)
    assert gpu_locks.held_by(str(tmp_path), "0:GPU-x") == ""
    taken, _ = gpu_locks.take_all(str(tmp_path), ["0:GPU-x"], 1, "mine")
    assert gpu_locks.held_by(str(tmp_path), "0:GPU-x") == "someone else"
    gpu_locks.release_locks(taken)
