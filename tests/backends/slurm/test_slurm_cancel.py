"""Canceling jobs on a real cluster: in one round trip, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.cluster.cluster_here import Cluster, until
from support.cluster.slurm_jobs import (
    backend_of,
    folder,
    job,
    known_client,
    slurm_id,
    submit,
    until_ended,
    until_running,
)
from tao_sdk.backends.contract import CancelAnswer, cancel_one
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status


@pytest.fixture
def client(cluster: Cluster, tmp_path: Path) -> Iterator[Client]:
    yield from known_client(cluster, tmp_path)


# Canceling


@pytest.mark.usefixtures("patient_ssh")
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


@pytest.mark.usefixtures("patient_ssh")
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


@pytest.mark.usefixtures("patient_ssh")
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


@pytest.mark.usefixtures("patient_ssh")
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
    ended = until_ended(client, made)
    assert (ended.status, ended.reason_code) == (Status.CANCELED, Reason.CANCELED)
    assert not secrets.exists()
