"""How jobs end on a real cluster, and what is said of those that wait or have failed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.cluster import known_here
from support.cluster.cluster_here import Cluster, until
from support.cluster.slurm_jobs import (
    backend_of,
    folder,
    job,
    known_client,
    slurm_id,
    submit,
    surroundings,
    until_ended,
    until_running,
)
from tao_sdk.backends.contract import read_plan
from tao_sdk.backends.slurm import look
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.observation import Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.settings import Settings
from tao_sdk.model.status import Status
from tao_sdk.payload.prepared_job import pack_spec


@pytest.fixture
def client(cluster: Cluster, tmp_path: Path) -> Iterator[Client]:
    yield from known_client(cluster, tmp_path)


# Ends


def test_an_exit_code_is_the_batch_scripts_too(cluster: Cluster, client: Client) -> None:
    made = submit(client, "exit 5")
    assert until_ended(client, made).exit_code == 5
    until(lambda: "FAILED|5:0" in sacct(cluster, slurm_id(client, made)))


def sacct(cluster: Cluster, id: str) -> str:
    return cluster.ask("sacct", "-X", "-n", "-P", "-j", id, "-o", "State,ExitCode").stdout


def jobs_that_are_gone(ref: Ref, count: int) -> list[Ref]:
    attempts = [replace(ref.attempt, job_id=f"other-{number}") for number in range(count)]
    return [
        replace(ref, native_id=str(100001 + number), attempt=attempt, details={})
        for number, attempt in enumerate(attempts)
    ]


@pytest.mark.usefixtures("patient_ssh")
def test_a_thousand_jobs_are_one_round_trip(cluster: Cluster, client: Client) -> None:
    made = submit(client, "sleep 60")
    ref = client.engine.ref_of(made)
    assert ref is not None
    until_running(client, made)
    known = client.activity(made.id)
    assert known is not None
    assert known.log_changed_at
    assert f"srun --jobid={ref.native_id} --overlap" in known.enter
    others = jobs_that_are_gone(ref, 999)
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


@pytest.mark.usefixtures("patient_ssh")
def test_more_jobs_than_one_argument_and_one_script_take_are_seen_in_groups(
    cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "SEEN_AT_ONCE", 4)
    monkeypatch.setattr(look, "REMAINS_AT_ONCE", 2)
    failed = submit(client, "exit 5")
    until_ended(client, failed)
    ref = client.engine.ref_of(failed)
    assert ref is not None
    gone = jobs_that_are_gone(ref, 4)
    before = cluster.round_trips()
    seen = backend_of(client).observe([*gone, ref])
    assert cluster.round_trips() - before == 5  # 4 and 1 are looked for; 2, 2 and 1 are read
    assert list(seen) == [*gone, ref]
    assert (seen[ref].phase, seen[ref].exit_code) == (Phase.FAILED, 5)


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


# Trying again; what a real failure of a node does is in test_slurm_answers.py


def test_an_attempt_is_not_followed_by_another_while_it_lives(
    cluster: Cluster, client: Client
) -> None:
    made = submit(client, "sleep 60")
    row = client.store.attempt(made.id)
    backend = backend_of(client)
    plan = read_plan(backend, row)
    again = backend.plan_again(
        plan, pack_spec(job("sleep 60")), SlurmOptions(), replace(row.attempt, number=2)
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


def test_a_job_behind_another_names_the_one_that_is_ahead(cluster: Cluster, client: Client) -> None:
    held = submit(client, "sleep 60", gpu_count=8, num_nodes=4)
    until_running(client, held)
    ahead = submit(client, "true", gpu_count=8, num_nodes=4)
    behind = submit(client, "true", gpu_count=8, num_nodes=4)
    until(lambda: "Priority" in client.get_job(behind.id).message)
    found = client.diagnose(behind.id)
    assert found is not None
    told = f"1 job is ahead of it in grizzly: {slurm_id(client, ahead)}, of which yours"
    assert told in found.cause
    assert "running" not in found.cause


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
    ended = client.wait_all([each.id for each in made], timeout=300)
    assert [each.exit_code for each in ended] == [4, 3, 0]
    left = {
        Path(each.path).relative_to(made[0].results_dir)
        for each in client.results(made[0].id).files
    }
    assert {Path("status.json"), Path("a/status.json"), Path("b/status.json")} <= left


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
