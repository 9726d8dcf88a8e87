"""The life of jobs on a real cluster: handed over once, watched by one query, ended, tried again,
cleared away.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.cluster import known_here
from support.cluster.cluster_here import Cluster, until
from tao_sdk.backends.below import LeadsOut
from tao_sdk.backends.contract import CancelAnswer, LogRequest, cancel_one, read_plan
from tao_sdk.backends.slurm.backend import SlurmBackend
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.client import Client
from tao_sdk.model.errors import PathNotFound, Refused, SpecError, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.payload.prepared_job import prepare_job


def surroundings(cluster: Cluster, folder: Path, **more: str) -> dict[str, str]:
    own = {
        "TAO_SDK_STATE_DIR": str(folder / "state"),
        "HOME": str(folder),
        "SLURM_PARTITION": "grizzly",
        "SLURM_POLL_SECONDS": "1",
    }
    return {**cluster.surroundings(), **own, **more}


@pytest.fixture
def client(cluster: Cluster, tmp_path: Path) -> Iterator[Client]:
    """The cluster is known, and the connection is open."""
    here = surroundings(cluster, tmp_path)
    known_here.keep(here, tmp_path / "state")
    with Client(settings=Settings(here)) as client:
        backend_of(client).ssh.run("true")
        yield client


def job(command: str, **more: Any) -> JobSpec:
    return JobSpec(command=command, **{"name": "life", "gpu_count": 0, "cpus": 1, **more})


def submit(client: Client, command: str, options: dict[str, Any] | None = None, **more: Any) -> Job:
    return client.submit(job(command, **more), "slurm", options).job


def backend_of(client: Client) -> SlurmBackend:
    backend = client.engine.backend("slurm")
    assert isinstance(backend, SlurmBackend)
    return backend


def slurm_id(client: Client, made: Job) -> str:
    ref = client.engine.ref_of(made)
    assert ref is not None
    return ref.native_id


def until_running(client: Client, made: Job) -> None:
    until(
        lambda: client.get_job(made.id).status is Status.RUNNING,
        words=lambda: str(client.get_job(made.id)),
    )


def until_ended(client: Client, made: Job, seconds: float = 60) -> Job:
    until(
        lambda: client.get_job(made.id).status.terminal,
        seconds,
        lambda: str(client.get_job(made.id)),
    )
    return client.get_job(made.id)


def folder(cluster: Cluster, made: Job) -> Path:
    return cluster.path(str(made.backend_details["job_dir"]))


# Handing over


def test_a_submit_is_one_round_trip_when_the_cluster_is_known_and_at_most_three_when_nothing_is(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Over a line of 50 ms."""
    before = (cluster.connections(), cluster.round_trips())
    surround = surroundings(
        cluster, tmp_path, XDG_RUNTIME_DIR=str(tmp_path), SLURM_HOSTNAME=cluster.open_far()
    )
    with Client(settings=Settings(surround)) as client:
        submit(client, "true")
        cold = cluster.connections() - before[0] + cluster.round_trips() - before[1]
        submit(client, "true")
        warm = cluster.connections() - before[0] + cluster.round_trips() - before[1] - cold
    with Client(settings=Settings(surround)) as again:
        submit(again, "true")
    later = cluster.connections() - before[0] + cluster.round_trips() - before[1] - cold - warm
    assert cold <= 3
    assert (warm, later) == (1, 1)


def test_what_is_staged_lies_where_the_document_says_and_its_owner_alone_can_read_it(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "sleep 30", env_vars={"API_KEY": "s3cret-value"}, specs=None)
    own = folder(cluster, made)
    for name in ("sbatch/job_{}.sbatch", "specs/{}.json", "env/{}.json", "meta/{}.json"):
        assert (own / name.format(made.id)).stat().st_mode & 0o077 == 0
    folders = [own, *(path for path in own.rglob("*") if path.is_dir() and not path.is_symlink())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    holders = [
        path for path in own.rglob("*") if path.is_file() and b"s3cret-value" in path.read_bytes()
    ]
    assert [path.name for path in holders] == ["env.sh"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
    details = client.get_job(made.id).backend_details
    assert details["backend_type"] == "slurm"
    assert details["slurm_metadata"] == {
        "slurm_job_id": slurm_id(client, made),
        "job_dir": details["job_dir"],
    }
    shown = cluster.ask("scontrol", "show", "job", slurm_id(client, made)).stdout
    assert "s3cret-value" not in shown
    client.cancel_job(made.id)
    assert not [
        path for path in own.rglob("*") if path.is_file() and b"s3cret-value" in path.read_bytes()
    ]


def test_the_secrets_go_with_the_command_that_needed_them(cluster: Cluster, client: Client) -> None:
    made = submit(client, "test ${#API_KEY} = 12", env_vars={"API_KEY": "s3cret-value"})
    until(lambda: list(folder(cluster, made).glob("attempts/1/exit")))
    assert not list(folder(cluster, made).glob("attempts/1/env.sh"))
    assert until_ended(client, made).exit_code == 0


def test_the_logs_lie_where_the_document_says_for_a_reader_without_the_sdk(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "echo out; echo err >&2")
    until_ended(client, made)
    logs = folder(cluster, made) / "slurm-logs" / f"{made.id}.1-{slurm_id(client, made)}"
    assert ((logs / "main.out").read_text(), (logs / "main.err").read_text()) == ("out\n", "err\n")


def test_the_same_attempt_handed_over_by_many_at_once_is_one_slurm_job(
    cluster: Cluster, client: Client
) -> None:
    planned = client.plan(job("sleep 60"), "slurm").plan
    backend = backend_of(client)
    with ThreadPoolExecutor(6) as threads:
        refs = list(threads.map(lambda _: backend.submit(planned, {}), range(6)))
    assert len({ref.native_id for ref in refs}) == 1
    assert cluster.jobs() == [refs[0].native_id]


class Kept(Exception):
    """What would have been sent: script, input."""


@pytest.mark.parametrize("end", ["arrives", "breaks off"])
def test_a_submit_that_lasted_too_long_leaves_the_job_to_the_one_that_has_overtaken_it(
    cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    planned = client.plan(
        job("sleep 60", files={"large": random.Random(1).randbytes(1_000_000)}), "slurm"
    ).plan
    backend = backend_of(client)

    def keep(script: str, given: bytes, _seconds: float) -> None:
        raise Kept(script, given)

    with monkeypatch.context() as patch, pytest.raises(Kept) as kept:
        patch.setattr(backend.ssh, "run", keep)
        backend.submit(planned, {})
    script, given = kept.value.args
    slow = cluster.start_login(script)
    assert slow.stdin is not None
    slow.stdin.write(given[: len(given) // 2])
    slow.stdin.flush()
    folder = cluster.path(planned.request.job_dir)
    until(lambda: any((folder / "attempts" / "1").glob("*")))
    os.utime(folder / "attempts" / "1.lock", (0, 0))
    ref = backend.submit(planned, {})
    said, _ = slow.communicate(given[len(given) // 2 :] if end == "arrives" else b"", timeout=120)
    assert said.startswith(b"DOUBT")
    assert cluster.jobs() == [ref.native_id]
    assert (folder / "attempts" / "1" / "slurm_id").read_text().strip() == ref.native_id
    assert backend.find(planned.attempt, planned) == ref


@pytest.mark.parametrize("lost", ["slurm_id", "all"])
def test_a_job_whose_id_was_never_written_down_is_found_by_its_name(
    cluster: Cluster, client: Client, lost: str
) -> None:
    planned = client.plan(job("sleep 60"), "slurm").plan
    backend = backend_of(client)
    first = backend.submit(planned, {})
    attempt = cluster.path(planned.request.job_dir) / "attempts" / "1"
    (attempt / "slurm_id").unlink()
    attempt.with_name("1.lock").unlink()
    if lost == "all":
        attempt.rename(attempt.with_name("gone"))
    assert backend.find(planned.attempt) == first
    if lost != "all":
        assert backend.submit(planned, {}) == first
    assert cluster.jobs() == [first.native_id]


def test_nothing_is_found_only_when_the_accounting_and_the_file_system_have_answered_too(
    cluster: Cluster, client: Client
) -> None:
    planned = client.plan(job("true"), "slurm").plan
    backend = backend_of(client)
    with cluster.without_accounting(), pytest.raises(Unreachable, match="could not say"):
        backend.find(planned.attempt, planned)
    cluster.login(f"mkdir -p {planned.request.job_dir} && chmod 0 {planned.request.job_dir}")
    with pytest.raises(Unreachable, match="Permission denied"):
        backend.find(planned.attempt, planned)
    cluster.login(f"rmdir {planned.request.job_dir}")
    assert backend.find(planned.attempt, planned) is None


def test_a_job_is_found_below_the_base_directory_that_it_was_handed_over_to_whatever_that_is_now(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over = SlurmBackend.submit

    def lost(self: SlurmBackend, *given: Any) -> None:
        handed_over(self, *given)
        raise Unreachable("the reply was lost")

    monkeypatch.setattr(SlurmBackend, "submit", lost)
    with Client(settings=Settings(surroundings(cluster, tmp_path))) as client:
        made = submit(client, "echo here")
        assert client.store.attempt(made.id).ref is None
    monkeypatch.undo()
    other = f"{cluster.surroundings()['SLURM_BASE_RESULTS_DIR']}/other"
    with Client(
        settings=Settings(surroundings(cluster, tmp_path, SLURM_BASE_RESULTS_DIR=other))
    ) as later:
        assert until_ended(later, made).status is Status.COMPLETE
        assert later.get_job_logs(made.id) == "here\n"
        assert (
            folder(cluster, made) / "attempts" / "1" / "slurm_id"
        ).read_text().strip() == slurm_id(later, made)
    assert not cluster.path(f"{other}/jobs").exists()


@pytest.mark.parametrize(
    ("size", "left"), [(100, 0), (100, 0.5), (200_000, 0), (200_000, 0.5), (200_000, 0.999)]
)
def test_what_arrives_cut_short_starts_nothing(
    cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch, size: int, left: float
) -> None:
    """A small job is all script; of a large one the archive is cut, which comes
    after its script.
    """
    ssh: Any = backend_of(client).ssh
    whole = ssh._call_ssh

    def cut(argv: Sequence[str], seconds: float, given: bytes = b"") -> object:
        script = 0 if size < 1000 else given.find(b"\x1f\x8b")
        return whole(argv, seconds, given[: script + int(left * (len(given) - script))])

    monkeypatch.setattr(ssh, "_call_ssh", cut)
    planned = client.plan(job(f"true {random.Random(1).randbytes(size).hex()}"), "slurm").plan
    with pytest.raises(Unreachable, match="did not arrive whole" if left and size > 1000 else "."):
        backend_of(client).submit(planned, {})
    monkeypatch.undo()
    assert backend_of(client).find(planned.attempt) is None
    assert not cluster.path(planned.request.job_dir).exists()


def test_a_path_that_is_not_on_the_cluster_submits_nothing_and_is_named(
    cluster: Cluster, client: Client
) -> None:
    before = cluster.round_trips()
    with pytest.raises(
        Refused, match="The input /data is not on the cluster: /lustre/fsw/taouser/no such 'file'"
    ) as told:
        submit(client, "true", inputs={"/data": "lustre:///lustre/fsw/taouser/no such 'file'"})
    assert cluster.round_trips() - before == 1
    assert "Nothing was submitted" in told.value.why
    assert cluster.jobs() == []
    assert client.list_jobs() == []


def test_what_sbatch_refuses_is_shown_in_its_words_with_the_remedy_and_leaves_nothing(
    cluster: Cluster, client: Client
) -> None:
    jobs = cluster.path(cluster.surroundings()["SLURM_BASE_RESULTS_DIR"]) / "jobs"
    before = set(jobs.iterdir()) if jobs.exists() else set()
    with pytest.raises(Refused, match="Requested node configuration is not available") as told:
        submit(client, "true", memory="9000g")
    assert "--memory" in told.value.next
    assert client.list_jobs() == []
    assert set(jobs.iterdir()) == before


def test_a_base_directory_that_cannot_be_made_is_told(cluster: Cluster, tmp_path: Path) -> None:
    elsewhere = Settings(surroundings(cluster, tmp_path, SLURM_BASE_RESULTS_DIR="/proc/none"))
    with Client(settings=elsewhere) as client, pytest.raises(Refused, match="could not be made"):
        submit(client, "true")


def test_a_job_of_another_store_is_neither_found_nor_replaced(
    cluster: Cluster, client: Client
) -> None:
    planned = client.plan(job("sleep 60"), "slurm").plan
    backend = backend_of(client)
    backend.submit(planned, {})
    stranger = replace(planned, attempt=replace(planned.attempt, store_id="another"))
    assert backend.find(stranger.attempt) is None
    with pytest.raises(Refused, match="another store"):
        backend.submit(stranger, {})
    assert len(cluster.jobs()) == 1


# Ends


def test_an_exit_code_is_the_batch_scripts_too(cluster: Cluster, client: Client) -> None:
    made = submit(client, "exit 5")
    assert until_ended(client, made).exit_code == 5
    until(lambda: "FAILED|5:0" in sacct(cluster, slurm_id(client, made)))


def sacct(cluster: Cluster, id: str) -> str:
    return cluster.ask("sacct", "-X", "-n", "-P", "-j", id, "-o", "State,ExitCode").stdout


def test_a_thousand_jobs_are_one_round_trip(cluster: Cluster, client: Client) -> None:
    made = submit(client, "sleep 60")
    ref = client.engine.ref_of(made)
    assert ref is not None
    until_running(client, made)
    like = [replace(ref.attempt, job_id=f"other-{number}") for number in range(999)]
    others = [
        replace(ref, native_id=str(100001 + number), attempt=each, details={})
        for number, each in enumerate(like)
    ]
    backend, before = backend_of(client), cluster.round_trips()
    seen = backend.observe([ref])
    assert cluster.round_trips() - before == 1
    assert seen[ref].phase is Phase.RUNNING
    before = cluster.round_trips()
    seen = backend.observe([ref, *others])
    assert cluster.round_trips() - before == 2, (
        "one look at all, and one at what those have left that are gone"
    )
    assert {each.phase for other, each in seen.items() if other != ref} == {Phase.ABSENT}


def test_a_controller_that_hangs_changes_no_status_finds_nothing_missing_and_leaves_a_submit_in_doubt_until_the_next_look(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    runs, planned = submit(client, "sleep 60"), client.plan(job("true"), "slurm").plan
    until_running(client, runs)
    here = surroundings(cluster, tmp_path / "other")
    known_here.keep(here, tmp_path / "other" / "state")
    with Client(settings=Settings(here)) as other:
        with cluster.hung(), ThreadPoolExecutor(3) as threads:
            listing = threads.submit(client.list_jobs)
            finding = threads.submit(backend_of(client).find, planned.attempt)
            submitting = threads.submit(submit, other, "sleep 60")
        [seen] = listing.result()
        assert (seen.status, "timed out" in seen.message) == (Status.RUNNING, True), seen.message
        with pytest.raises(Unreachable, match="could not say"):
            finding.result()
        assert backend_of(client).find(planned.attempt) is None
        assert "not known whether it started" in submitting.result().message
        until_running(other, submitting.result())
    assert len(cluster.jobs()) == 2


def test_a_command_begins_when_a_controller_that_was_away_is_back(
    cluster: Cluster, client: Client
) -> None:
    node = cluster.place.nodes[0]
    with ExitStack() as until_back:
        with cluster.hung(f"slurmd-{node}"):
            made = submit(client, "echo begun", {"nodelist": node})
            until(lambda: "RUNNING" in cluster.ask("squeue", "-h", "-o", "%T").stdout)
            until_back.enter_context(cluster.hung())
        said = folder(cluster, made) / "slurm-logs" / "attempt-1" / "slurm.err"
        until(lambda: said.exists() and "Unable to confirm allocation" in said.read_text())
    assert until_ended(client, made).status is Status.COMPLETE
    assert client.get_job_logs(made.id) == "begun\n"


def test_a_status_json_that_says_failure_makes_a_job_fail_that_ended_with_0(client: Client) -> None:
    said = '{"date": "1", "status": "FAILURE", "message": "loss is nan"}'
    made = submit(
        client,
        f"mkdir -p $TAO_RESULTS_DIR/train; echo '{said}' > $TAO_RESULTS_DIR/train/status.json",
    )
    ended = until_ended(client, made)
    assert ended.status is Status.ERROR
    assert "loss is nan" in ended.message


def test_running_out_of_memory_in_a_task_is_told(client: Client) -> None:
    made = submit(client, "python3 -c 'x = bytearray(900_000_000); print(len(x))'", memory="64m")
    ended = until_ended(client, made)
    found = client.diagnose(made.id)
    assert (ended.status, ended.exit_code) == (Status.ERROR, 137)
    assert found is not None
    assert found.rule == "slurm.oom"


def test_our_own_time_limit_ends_the_command_to_the_second_and_is_the_diagnosis(
    client: Client,
) -> None:
    """The limit leaves a busy computer the time to set the trap."""
    made = submit(
        client, "trap 'echo saving; exit 0' TERM; sleep 60 & wait", time_limit=timedelta(seconds=5)
    )
    ended = until_ended(client, made)
    found = client.diagnose(made.id)
    assert ended.status is Status.ERROR
    assert "time limit" in ended.message
    assert found is not None
    assert found.rule == "slurm.time_limit"
    assert client.get_job_logs(made.id) == "saving\n"


def test_a_job_inherits_neither_the_umask_nor_the_language_and_time_zone_of_our_own_looking(
    cluster: Cluster, client: Client
) -> None:
    show = "umask; echo ${LC_ALL-unset} ${TZ-unset}"
    made = submit(client, f"{show}; touch result.txt")
    assert until_ended(client, made).status is Status.COMPLETE
    assert client.get_job_logs(made.id) == cluster.login(show).stdout
    login = (cluster.path(made.results_dir) / "result.txt").stat().st_mode & 0o777
    assert login == 0o666 & ~int(cluster.login("umask").stdout, 8)


def test_a_held_job_waits_and_a_suspended_one_is_paused_and_both_say_why(
    cluster: Cluster, client: Client
) -> None:
    runs, waits = (
        submit(client, "sleep 60"),
        submit(client, "sleep 60", native={"begin": "now+600"}),
    )
    until_running(client, runs)
    cluster.ask("scontrol", "suspend", slurm_id(client, runs))
    cluster.ask("scontrol", "hold", slurm_id(client, waits))
    until(lambda: client.get_job(runs.id).status is Status.PAUSED)
    until(lambda: "JobHeldAdmin" in client.get_job(waits.id).message)
    assert client.get_job(waits.id).status is Status.PENDING
    paused, held = client.diagnose(runs.id), client.diagnose(waits.id)
    assert paused is not None and "suspended" in paused.cause
    assert held is not None and "held it" in held.cause
    cluster.ask("scontrol", "resume", slurm_id(client, runs))
    until_running(client, runs)


# Canceling


def test_canceling_a_job_is_one_round_trip_whatever_its_state_is(
    cluster: Cluster, client: Client
) -> None:
    queued = submit(client, "true")
    running = submit(client, "sleep 60")
    until_running(client, running)
    held = submit(client, "sleep 60")
    cluster.ask("scontrol", "hold", slurm_id(client, held))
    backend = backend_of(client)
    until_ended(client, queued)
    for made in (queued, running, held):
        ref = client.engine.ref_of(made)
        assert ref is not None
        before = cluster.round_trips()
        said = cancel_one(backend, ref, timedelta(seconds=5))
        assert cluster.round_trips() - before == 1
        assert replace(backend.observe([ref])[ref], raw="", seen_at=said.seen_at) == replace(
            said, raw=""
        )
    unknown = client.engine.ref_of(running)
    assert unknown is not None
    assert (
        cancel_one(backend, replace(unknown, native_id="99999999"), timedelta(0)).phase
        is Phase.ABSENT
    )
    assert until_ended(client, running).status is Status.CANCELED
    assert until_ended(client, held).status is Status.CANCELED
    assert until_ended(client, queued).status is Status.COMPLETE


def test_a_client_cancels_in_one_round_trip_and_knows_the_end_and_the_secrets_are_gone(
    cluster: Cluster, client: Client
) -> None:
    running = submit(client, "sleep 60", env_vars={"API_KEY": "s3cret-value"})
    until_running(client, running)
    failed = submit(client, "exit 3")
    until(lambda: slurm_id(client, failed) not in cluster.jobs())
    queued = submit(
        client, "sleep 60", env_vars={"API_KEY": "s3cret-value"}, gpu_count=8, num_nodes=4
    )
    for made, status in ((running, Status.CANCELED), (queued, Status.CANCELED)):
        before = cluster.round_trips()
        assert client.cancel_job(made.id, grace=5) is True
        assert client.get_job(made.id, look=False).status is status
        assert cluster.round_trips() - before == 1
        assert not (folder(cluster, made) / "attempts" / "1" / "env.sh").exists()
    assert client.cancel_job(failed.id) is True
    ended = client.get_job(failed.id)
    assert (ended.status, ended.exit_code) == (Status.ERROR, 3)


def test_canceling_many_jobs_takes_the_same_round_trips_however_many_they_are(
    cluster: Cluster, client: Client
) -> None:
    backend = backend_of(client)
    ended = submit(client, "true")
    running = submit(client, "sleep 60", env_vars={"API_KEY": "s3cret-value"})
    queued = [submit(client, "sleep 60", gpu_count=8, num_nodes=4) for _ in range(4)]
    until_running(client, running)
    until_ended(client, ended)
    refs = [ref_of(client, made) for made in (ended, running, *queued)]
    before = cluster.round_trips()
    answers = backend.cancel(refs, timedelta(seconds=5))
    assert cluster.round_trips() - before == 3  # scancel, squeue with sacct, what they have left
    phases = [phase_of(answers[ref]) for ref in refs]
    assert phases == [Phase.SUCCEEDED, *[Phase.CANCELED] * 5]
    assert not (folder(cluster, running) / "attempts" / "1" / "env.sh").exists()


def test_one_of_many_that_slurm_refuses_to_cancel_spoils_no_others(
    cluster: Cluster, client: Client
) -> None:
    running, refused, lost = (submit(client, "sleep 60") for _ in range(3))
    theirs = cluster.login(
        "sbatch --parsable --chdir=/tmp --output=/dev/null "
        f"--job-name={refused.id}.1 --wrap 'sleep 60'",
        user="otheruser",
    ).stdout.strip()
    known, without_id = ref_of(client, running), replace(ref_of(client, lost), native_id="")
    denied = replace(ref_of(client, refused), native_id=theirs)
    unknown = replace(known, native_id="99999999")
    answers = backend_of(client).cancel([known, denied, without_id, unknown], timedelta(0))
    assert phase_of(answers[known]) is Phase.CANCELED
    assert isinstance(answers[denied], Refused)
    assert phase_of(answers[without_id]) is Phase.CANCELED
    assert phase_of(answers[unknown]) is Phase.ABSENT


def test_of_many_jobs_another_that_has_got_an_id_is_left_alone(
    cluster: Cluster, client: Client
) -> None:
    running, reused = submit(client, "sleep 60"), submit(client, "sleep 60")
    another = cluster.login(
        "sbatch --parsable --chdir=/tmp --output=/dev/null --wrap 'sleep 60'"
    ).stdout.strip()
    taken = replace(ref_of(client, reused), native_id=another)
    answers = backend_of(client).cancel([ref_of(client, running), taken], timedelta(0))
    assert phase_of(answers[taken]) is Phase.ABSENT
    assert another in cluster.jobs()
    cluster.ask("scancel", another)


def ref_of(client: Client, made: Job) -> Ref:
    ref = client.engine.ref_of(made)
    assert ref is not None
    return ref


def phase_of(answer: CancelAnswer) -> Phase:
    assert isinstance(answer, Observation), answer
    return answer.phase


def test_a_job_whose_submit_lost_its_reply_is_found_by_name_and_canceled_in_the_same_round_trip(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "sleep 60")
    ref = client.engine.ref_of(made)
    assert ref is not None
    for name in ("1/slurm_id", "1.lock"):
        (folder(cluster, made) / "attempts" / name).unlink()
    before = cluster.round_trips()
    said = cancel_one(
        backend_of(client), replace(ref, native_id="", unique_id="", ready=False), timedelta(0)
    )
    assert said.phase is Phase.CANCELED
    assert cluster.round_trips() - before == 1


def test_a_job_that_was_just_handed_over_to_slurm_is_canceled_by_who_does_not_know_that_yet(
    client: Client,
) -> None:
    """His look was a moment before its id was written down."""
    ref = client.engine.ref_of(submit(client, "sleep 60"))
    assert ref is not None
    said = cancel_one(
        backend_of(client), replace(ref, native_id="", unique_id="", ready=False), timedelta(0)
    )
    assert said.phase is Phase.CANCELED


def test_a_job_whose_submit_died_before_slurm_heard_of_it_can_be_canceled(
    cluster: Cluster, client: Client
) -> None:
    planned = client.plan(job("true"), "slurm").plan
    attempts = f"{planned.request.job_dir}/attempts"
    cluster.login(
        f"mkdir -p {attempts}/1; echo 1-a >{attempts}/1.lock; touch -d '10 "
        f"minutes ago' {attempts}/1.lock"
    )
    backend = backend_of(client)
    found = backend.find(planned.attempt, planned)
    assert found is not None
    assert not found.ready
    assert cancel_one(backend, found, timedelta(0)).phase is Phase.ABSENT
    assert backend.find(planned.attempt, planned) is None


def test_canceling_somebody_elses_job_raises_slurms_words(cluster: Cluster, client: Client) -> None:
    made = submit(client, "true")
    wraps = (
        "sbatch --parsable --chdir=/tmp --output=/dev/null "
        f"--job-name={made.id}.1 --wrap 'sleep 60'"
    )
    theirs = cluster.login(wraps, user="otheruser").stdout.strip()
    assert theirs.isdigit()
    ref = client.engine.ref_of(made)
    assert ref is not None
    with pytest.raises(Refused, match="denied"):
        cancel_one(backend_of(client), replace(ref, native_id=theirs), timedelta(0))


def test_another_job_that_has_got_a_jobs_slurm_id_is_neither_canceled_nor_cleared_away(
    cluster: Cluster, client: Client
) -> None:
    """A controller that has lost its state counts from 1 again."""
    made = submit(client, "true")
    until_ended(client, made)
    ref = client.engine.ref_of(made)
    assert ref is not None
    another = cluster.login(
        "sbatch --parsable --chdir=/tmp --output=/dev/null --wrap 'sleep 60'"
    ).stdout.strip()
    backend = backend_of(client)
    assert cancel_one(backend, replace(ref, native_id=another), timedelta(0)).phase.over
    backend.release(replace(ref, native_id=another))
    assert cluster.jobs() == [another]
    assert not folder(cluster, made).exists()


def test_a_job_that_was_canceled_outside_is_canceled_and_the_look_that_sees_it_removes_its_secrets(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "sleep 60", env_vars={"API_KEY": "s3cret-value"})
    secrets = folder(cluster, made) / "attempts" / "1" / "env.sh"
    cluster.login(f"scancel {slurm_id(client, made)}")
    until(lambda: slurm_id(client, made) not in cluster.jobs())
    assert secrets.exists()
    assert until_ended(client, made).status is Status.CANCELED
    assert not secrets.exists()


# Trying again; what a real failure of a node does is in test_slurm_answers.py


def test_an_attempt_is_not_followed_by_another_while_it_lives(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "sleep 60")
    row = client.store.attempt(made.id)
    backend = backend_of(client)
    plan = read_plan(backend, row)
    again = backend.plan_again(
        plan, prepare_job(job("sleep 60")), SlurmOptions(), replace(row.attempt, number=2)
    )
    with pytest.raises(Unreachable, match="is still"):
        backend.submit(again, {})
    assert len(cluster.jobs()) == 1
    client.cancel_job(made.id)
    assert backend.submit(again, {}).native_id != slurm_id(client, made)


# Explaining


def test_a_waiting_job_says_why_in_words(cluster: Cluster, client: Client) -> None:
    made = submit(client, "true")
    held = submit(client, "sleep 60", gpu_count=8, num_nodes=4)
    waits = submit(client, "sleep 60", gpu_count=8, num_nodes=4)
    until_running(client, held)
    until(
        lambda: (
            "Resources" in client.get_job(waits.id).message
            or "Priority" in client.get_job(waits.id).message
        )
    )
    found = client.diagnose(waits.id)
    assert found is not None
    assert "in use" in found.cause or "higher priority" in found.cause
    assert slurm_id(client, held) in found.cause
    until_ended(client, made)


def test_a_failed_job_names_its_node_and_what_slurm_said(cluster: Cluster, client: Client) -> None:
    made = submit(client, "exit 3")
    until_ended(client, made)
    found = client.get_failure_analysis(made.id)
    assert found is not None
    events = {
        each["node_event_name"]: each["message"] for each in found["job_failure_by_node_event"]
    }
    assert any(node in events["Node"] for node in cluster.place.nodes)
    assert "Exited with exit code 3" in " ".join(
        each["message"] for each in found["job_failure_by_node_event"]
    )


# Logs, files, clearing away


def test_a_log_is_followed_through_a_lost_connection_without_loss_or_repeat(
    cluster: Cluster, client: Client
) -> None:
    made = submit(
        client,
        "echo line 1; until [ -e go ]; do sleep 0.1; done; for i in $(seq "
        "2 30); do echo line $i; done",
    )
    got, go = b"", cluster.path(made.results_dir) / "go"
    for data in client.follow_logs(made.id):
        got += data
        if not go.exists():
            cluster.drop_connections()
            go.touch()
    assert got == b"".join(b"line %d\n" % n for n in range(1, 31))


def test_both_streams_of_every_rank_can_be_read(cluster: Cluster, client: Client) -> None:
    made = submit(client, "echo out $NODE_RANK; echo err $NODE_RANK >&2", num_nodes=2)
    until_ended(client, made)
    read = {
        (rank, stream): b"".join(
            client.follow_logs(made.id, rank=rank, stream=stream, follow=False)
        )
        for rank in (0, 1)
        for stream in ("stdout", "stderr")
    }
    assert read == {
        (0, "stdout"): b"out 0\n",
        (0, "stderr"): b"err 0\n",
        (1, "stdout"): b"out 1\n",
        (1, "stderr"): b"err 1\n",
    }
    assert client.get_job_logs(made.id, rank=0) == "out 0\nerr 0\n"


def test_the_log_of_a_job_of_two_nodes_holds_every_rank(cluster: Cluster, client: Client) -> None:
    made = submit(client, "echo first $NODE_RANK; sleep 1; echo last $NODE_RANK", num_nodes=2)
    followed = b"".join(client.follow_logs(made.id)).decode().splitlines()
    of: dict[str, list[str]] = {"0": [], "1": []}
    rank = "0"
    for line in followed:
        if line.startswith("==> rank "):
            assert line != f"==> rank {rank} <=="
            rank = line.split()[2]
        else:
            of[rank].append(line)
    assert of == {"0": ["first 0", "last 0"], "1": ["first 1", "last 1"]}
    assert client.get_job_logs(made.id) == "first 0\nlast 0\n==> rank 1 <==\nfirst 1\nlast 1\n"
    assert client.get_job_logs(made.id, tail=1) == "last 0\n==> rank 1 <==\nlast 1\n"
    assert client.get_job_logs(made.id, tail=0) == ""
    assert client.get_job_logs(made.id, rank=1) == "first 1\nlast 1\n"


def test_a_rank_that_has_said_nothing_adds_nothing_to_the_log(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "[ $NODE_RANK = 0 ] || printf 'no newline'", num_nodes=2)
    until_ended(client, made)
    assert client.get_job_logs(made.id) == "==> rank 1 <==\nno newline"


def test_the_log_of_a_released_attempt_is_gone_and_its_results_stay(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "echo kept > result.txt; echo out")
    until_ended(client, made)
    ref = client.engine.ref_of(made)
    assert ref is not None
    client.remove(made.id)
    assert not folder(cluster, made).exists()
    assert (cluster.path(made.results_dir) / "result.txt").read_text() == "kept\n"
    with pytest.raises(PathNotFound):
        list(backend_of(client).logs(ref, LogRequest()))
    backend_of(client).release(ref)


def test_paths_are_looked_at_as_the_cluster_sees_them(cluster: Cluster, client: Client) -> None:
    base = cluster.surroundings()["SLURM_BASE_RESULTS_DIR"]
    here = cluster.path(base) / "odd 'name' ü"
    here.mkdir(exist_ok=True)
    (here / "file\twith tab").write_bytes(b"\0one\ntwo")
    there = f"{base}/{here.name}"
    for scheme in ("", "lustre://", "slurm://"):
        assert client.check_path(f"{scheme}{there}", "slurm") is True
    assert client.check_path(f"lustre://{base}/nothing", "slurm") is False
    assert client.list_path(f"lustre://{there}", "slurm") == ["file\twith tab"]
    files = client.files("slurm")
    assert files.read(f"{there}/file\twith tab") == b"\0one\ntwo"
    assert files.read(f"{there}/file\twith tab", 2, 3) == b"ne\n"
    assert (files.stat(there).is_dir, files.stat(f"{there}/file\twith tab").size) == (True, 8)
    with pytest.raises(PathNotFound):
        files.read(f"{base}/nothing")


def test_results_are_found_and_copied_here(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    made = submit(
        client,
        "mkdir train; head -c 3000000 /dev/urandom > train/model.pth; echo done > train/log.txt",
    )
    until_ended(client, made)
    assert made.results_dir.endswith(f"/results/{made.id}")
    copied = client.fetch_results(made.id, tmp_path / "copy")
    assert sorted(path.name for path in copied) == ["log.txt", "model.pth"]
    theirs = cluster.path(made.results_dir) / "train" / "model.pth"
    assert (tmp_path / "copy" / "train" / "model.pth").read_bytes() == theirs.read_bytes()


LINKS = """
mkdir -p in/deep; echo mine > in/deep/file; echo private > "$TAO_RESULTS_DIR/../private.txt"
ln -s in/deep/file inner; ln -s in folder; ln -s "$TAO_RESULTS_DIR/../private.txt" out; ln -s .. above; ln -s nowhere dangling
ln -s loop loop; mkfifo pipe; mkdir -p .tao; rm -f .tao/manifest.json
"""


def test_no_link_is_followed_out_of_the_results_and_no_pipe_is_read(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, LINKS)
    until_ended(client, made)
    results = made.results_dir
    (cluster.path(results) / "odd 'name'\n").write_text("odd")
    files = backend_of(client).files().below(results)
    assert files.read(f"{results}/inner") == files.read(f"{results}/folder/deep/file") == b"mine\n"
    assert files.read(f"{results}/odd 'name'\n", 1, 1) == b"d"
    for path in (
        "out",
        "above",
        "above/private.txt",
        "in/../../private.txt",
        "folder/../../private.txt",
    ):
        for verb in (files.stat, files.list, files.read):
            with pytest.raises(LeadsOut):
                verb(f"{results}/{path}")
    with pytest.raises(LeadsOut):
        files.read(f"{results}/../private.txt")
    with pytest.raises(LeadsOut):
        files.read(f"{Path(results).parent}/private.txt")
    for path, error in (
        ("pipe", "a pipe"),
        ("in", "a folder"),
        ("loop", "nothing"),
        ("dangling", "nothing"),
    ):
        with pytest.raises(PathNotFound, match=error):
            files.read(f"{results}/{path}")
    with pytest.raises(PathNotFound, match="a pipe"):
        client.files("slurm").read(f"{results}/pipe")
    seen = {Path(each.path).name: (each.is_dir, each.leads_to) for each in files.list(results)}
    assert seen["folder"] == (True, f"{results}/in")
    assert seen["in"] == (True, "")
    assert all(
        seen[name] == (False, "")
        for name in ("inner", "out", "above", "dangling", "loop", "pipe", "odd 'name'\n")
    )
    found = {str(Path(each.path).relative_to(results)) for each in client.results(made.id).files}
    assert {"in/deep/file", "folder/deep/file", "out", "above", "pipe"} <= found
    assert not any("private.txt" in path for path in found)


def test_results_that_were_replaced_by_a_link_are_not_looked_at(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "true")
    until_ended(client, made)
    here = cluster.path(made.results_dir)
    here.rename(here.with_name("moved"))
    here.symlink_to("moved")
    with pytest.raises(LeadsOut):
        backend_of(client).files().below(made.results_dir).list(made.results_dir)


def test_login_nodes_that_refuse_or_hang_are_passed_over(cluster: Cluster, tmp_path: Path) -> None:
    hosts = f"deadlogin,{cluster.open_hung()},login2"
    here = surroundings(cluster, tmp_path, SLURM_HOSTNAME=hosts, SLURM_SSH_CONNECT_SECONDS="1")
    with Client(settings=Settings(here)) as client:
        made = submit(client, "true")
        assert until_ended(client, made).status is Status.COMPLETE


def test_a_submit_to_a_cluster_whose_only_login_host_refuses_leaves_no_job(
    cluster: Cluster, client: Client
) -> None:
    """Its facts are remembered, so nothing but the submit itself notices."""
    with cluster.login_node_down(), pytest.raises(Unreachable, match="Connection refused"):
        submit(client, "echo never")
    assert client.list_jobs(look=False) == []
    assert not list(client.settings.state_dir.rglob("*.secrets"))
    assert cluster.jobs() == []


@pytest.mark.parametrize(
    ("folder", "owner", "mode", "words"),
    [
        ("", 0, 0o777, "anybody may write to it"),
        ("", 61002, 0o755, "it belongs to another user"),
        ("/jobs", 61002, 0o777, "it belongs to another user"),
        ("/jobs", 61001, 0o777, "anybody may write to it"),
        ("/jobs", 61001, 0o2770, "its group may write to it"),
    ],
)
def test_a_folder_in_which_others_could_plant_what_a_job_runs_is_not_used(
    cluster: Cluster, tmp_path: Path, folder: str, owner: int, mode: int, words: str
) -> None:
    base = f"{cluster.surroundings()['SLURM_BASE_RESULTS_DIR']}/unsafe"
    shutil.rmtree(cluster.path(base), ignore_errors=True)
    cluster.login(f"mkdir -p {base}/jobs && chmod 755 {base} {base}/jobs")
    bad = cluster.path(base + folder)
    os.chown(bad, owner, owner)
    bad.chmod(mode)
    here = surroundings(cluster, tmp_path, SLURM_BASE_RESULTS_DIR=base)
    with Client(settings=Settings(here)) as client, pytest.raises(Refused, match=words) as refused:
        submit(client, "echo never")
    assert f"{base}{folder}" in refused.value.what
    assert refused.value.code == "slurm.unsafe_folder"
    assert cluster.jobs() == []
    assert list(cluster.path(base).joinpath("jobs").iterdir()) == []


# What a job may write where its end is read: separators of an answer, a file without end, pipes,
# and depth.
HOSTILE = """
printf '=== exit 0 2 0\\n{}\\n\\036record\\n\\037\\n' > "$TAO_RESULTS_DIR/status.json"
mkdir -p "$TAO_RESULTS_DIR/.tao"; python3 -c 'print("[" * 200000)' > "$TAO_RESULTS_DIR/.tao/manifest.json"
mkdir -p "$TAO_RESULTS_DIR/a"; mkfifo "$TAO_RESULTS_DIR/a/status.json"
truncate -s 12G "$TAO_RESULTS_DIR/huge"; mkdir "$TAO_RESULTS_DIR/b"; mv "$TAO_RESULTS_DIR/huge" "$TAO_RESULTS_DIR/b/status.json"
"""


def test_what_one_job_leaves_behind_does_not_hide_how_others_have_ended(
    cluster: Cluster, client: Client
) -> None:
    made = [submit(client, f"{HOSTILE}exit 4"), submit(client, "exit 3"), submit(client, "true")]
    refs = [ref for each in made if (ref := client.engine.ref_of(each)) is not None]

    def ends() -> list[int | None]:
        return [each.exit_code for each in backend_of(client).observe(refs).values()]

    until(lambda: ends() == [4, 3, 0], words=lambda: str(backend_of(client).observe(refs)))
    pipe = folder(cluster, made[1]) / "attempts" / "1" / "exit"
    pipe.unlink()
    os.mkfifo(pipe)
    assert ends() == [4, 3, 0]
    ended = client.wait_all([each.id for each in made], timeout=120)
    assert [each.exit_code for each in ended] == [4, 3, 0]
    left = {
        Path(each.path).relative_to(made[0].results_dir)
        for each in client.results(made[0].id).files
    }
    assert {Path("status.json"), Path("a/status.json"), Path("b/status.json")} <= left


def test_what_is_known_of_a_cluster_is_looked_at_again_when_a_job_would_not_fit_in_it(
    cluster: Cluster, client: Client
) -> None:
    kept = next((client.settings.state_dir / "slurm").glob("*.facts.json"))
    kept.write_text(kept.read_text().replace("PartitionName=long", "PartitionName=gone"))
    with pytest.raises(SpecError, match="no partition 'long'"):
        submit(
            client, "true", {"partition": "long"}
        )  # what was seen a moment ago is not looked at again
    record = json.loads(kept.read_text())
    kept.write_text(json.dumps({**record, "time": record["time"] - 60}))
    assert submit(client, "true", {"partition": "long"}).status is Status.PENDING
    assert "PartitionName=long" in kept.read_text()


def test_a_job_that_slurm_does_not_show_for_a_moment_keeps_its_secrets(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "sleep 60", env_vars={"API_KEY": "s3cret-value"})
    ref = client.engine.ref_of(made)
    assert ref is not None
    backend = backend_of(client)
    assert backend.observe([replace(ref, native_id="99999999")]).popitem()[1].phase is Phase.ABSENT
    secrets = folder(cluster, made) / "attempts" / "1" / "env.sh"
    assert secrets.exists()
    client.cancel_job(made.id)
    assert not secrets.exists()
