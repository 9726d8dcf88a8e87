"""A submit that was cut short: who finishes it, who may not, and what is known of the job
afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from support.waiting import LIMIT_SECONDS
from tao_sdk.backends.contract import read_plan
from tao_sdk.client import Client
from tao_sdk.engine import cancel, submit
from tao_sdk.engine.look import look
from tao_sdk.engine.prepare import Request, plan_and_check
from tao_sdk.engine.submit import change, keep, lease_of, settle
from tao_sdk.model.errors import Refused, TaoError
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


@pytest.fixture(autouse=True)
def nothing_goes_on(client: Client) -> Iterator[None]:
    yield
    for job in client.list_jobs(look=False):
        client.cancel_job(job.id, grace=0)


def kept(client: Client) -> Job:
    """A job whose client died before the backend was called; the lease is taken
    over from the dead.
    """
    request = Request(JobSpec(command="sleep 30", gpu_count=0), "local")
    job = keep(client.engine, plan_and_check(client.engine, request), request)
    client.engine.give_back(lease_of(job.id))
    return job


def is_there(client: Client, job: Job) -> bool:
    return client.engine.backend_of(job).find(client.store.attempt(job.id).attempt) is not None


class Refusing:
    """The real backend, which refuses every job."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def submit(self, plan: Any, secrets: Mapping[str, str]) -> Any:
        raise Refused("The account is closed.", "", "Open it.")


def test_a_submit_that_goes_on_elsewhere_is_not_taken_for_one_that_never_started(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "SETTLE_SECONDS", 0.2)
    job = kept(client)
    client.store.acquire(lease_of(job.id), "elsewhere|boot|1|1|token", 600)
    assert client.cancel_job(job.id) is False
    assert client.get_job(job.id).status is Status.PENDING
    client.store.release_lease(lease_of(job.id), "elsewhere|boot|1|1|token")


def test_a_look_ends_a_job_that_was_to_be_canceled_and_never_started(client: Client) -> None:
    job = cancel.ask(client.engine, kept(client))
    seen = look(client.engine, [job])[0].job
    assert (seen.status, seen.message, seen.started) == (
        Status.CANCELED,
        "canceled before it started",
        None,
    )
    assert not is_there(client, job)


def test_a_job_that_was_canceled_while_another_looked_is_not_started_by_the_look(
    client: Client,
) -> None:
    seen_before = kept(client)
    look(client.engine, [cancel.ask(client.engine, seen_before)])
    assert settle(client.engine, seen_before) is False
    assert not is_there(client, seen_before)


def test_finishing_a_submit_gives_its_lease_back(client: Client) -> None:
    job = kept(client)
    client.cancel_job(job.id)
    assert client.store.lease_holder(lease_of(job.id)) is None


def test_what_an_adopted_job_is_called_there_is_kept(client: Client) -> None:
    submitted = client.submit(JobSpec(command="sleep 30", gpu_count=0), "local").job
    settled = client.get_job(kept(client).id)
    assert settled.status in (Status.PENDING, Status.RUNNING)
    assert set(settled.backend_details) == set(submitted.backend_details)


def test_a_refusal_is_told_by_the_look_that_met_it(client: Client) -> None:
    job = kept(client)
    endpoint = client.store.attempt(job.id).attempt.endpoint
    real = client.engine.backend("local", endpoint)
    client.engine._backends["local", endpoint] = Refusing(real)  # pyright: ignore
    seen = client.get_job(job.id)
    assert (seen.status, seen.message, seen.started) == (
        Status.ERROR,
        "The account is closed. Open it.",
        None,
    )
    why = client.diagnose(job.id)
    assert why is not None
    assert (why.cause, "Submit it again" in why.suggestion) == (seen.message, True)


class Broken:
    """The real backend, whose submit has a defect: it shows before the job is started, or after."""

    def __init__(self, client: Client, *, starts: bool) -> None:
        self._backend = client.engine.backend("local")
        self.starts, self.called = starts, 0
        for place in ("", self._backend.endpoint):
            client.engine._backends["local", place] = self  # pyright: ignore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def submit(self, plan: Any, secrets: Mapping[str, str]) -> Any:
        self.called += 1
        if self.starts:
            self._backend.submit(plan, secrets)
        raise KeyError(f"no key for {''.join(secrets.values())}")


A_JOB = JobSpec(
    command="sleep 30", gpu_count=0, env_vars={"A_TOKEN": "correct-horse"}, secrets=("A_TOKEN",)
)


def broken_submit(client: Client, *, starts: bool) -> tuple[Broken, str]:
    """The backend, and the job whose submit has raised what the backend did."""
    broken = Broken(client, starts=starts)
    with pytest.raises(KeyError, match="no key for"):
        client.submit(A_JOB, "local")
    return broken, client.store.live()[0].id


def test_a_job_whose_submit_met_an_unforeseen_error_is_ended_by_the_next_look_and_says_why(
    client: Client,
) -> None:
    broken, job = broken_submit(client, starts=False)
    fine = kept(client)
    assert client.store.get(job).message.startswith(
        "its submit met an error that nobody foresaw (KeyError: "
    )
    seen = client.get_job(job)
    assert (seen.status, "KeyError: " in seen.message, broken.called) == (Status.ERROR, True, 1)
    assert "correct-horse" not in f"{seen.message} {list(client.events(job))}"
    why = client.diagnose(job)
    assert why is not None
    assert "Report it" in f"{why.cause} {why.suggestion}"
    assert client.get_job(fine.id, look=False).status is Status.PENDING


def test_a_job_that_was_started_all_the_same_is_adopted_by_the_next_look(client: Client) -> None:
    broken, job = broken_submit(client, starts=True)
    assert client.get_job(job).status in (Status.PENDING, Status.RUNNING)
    assert client.store.attempt(job).ref is not None
    assert broken.called == 1


def test_a_look_that_meets_an_unforeseen_error_as_it_finishes_a_submit_meets_it_once(
    client: Client,
) -> None:
    job = kept(client)
    broken = Broken(client, starts=False)
    with pytest.raises(KeyError):
        client.list_jobs()
    assert [one.status for one in client.list_jobs()] == [Status.ERROR]
    assert (client.get_job(job.id).status, broken.called) == (Status.ERROR, 1)


def test_a_job_whose_submit_met_an_unforeseen_error_can_be_canceled_and_forgotten(
    client: Client,
) -> None:
    _, job = broken_submit(client, starts=False)
    assert client.cancel_job(job) is True
    assert client.get_job(job).status is Status.CANCELED


class Unwilling:
    """The real backend, which is asked in vain whether it has a job."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def find(self, attempt: Any, plan: Any = None) -> Any:
        raise TaoError("its log is of a kind that cannot be read")


def test_a_submit_that_cannot_be_finished_keeps_no_other_job_from_being_judged(
    client: Client,
) -> None:
    job, fine = kept(client), client.submit(JobSpec(command="true", gpu_count=0), "local").job
    endpoint = client.store.attempt(job.id).attempt.endpoint
    real = client.engine.backend("local", endpoint)
    client.engine._backends["local", endpoint] = Unwilling(real)  # pyright: ignore
    give_up = time.monotonic() + LIMIT_SECONDS
    while not look(client.engine, [client.store.get(job.id), client.store.get(fine.id)])[
        1
    ].job.status.terminal:
        assert time.monotonic() < give_up
    seen = client.store.get(job.id)
    assert (seen.status, "cannot be read" in seen.message) == (Status.PENDING, True)
    client.engine._backends["local", endpoint] = real


class Held:
    """The real backend, which starts a job only once it is `let_go`, and cannot end any while it is
    `refusing`.
    """

    def __init__(self, client: Client, endpoint: str) -> None:
        self._backend = client.engine.backend("local", endpoint)
        self.begun, self.let_go, self.refusing, self.called = (
            threading.Event(),
            threading.Event(),
            False,
            0,
        )
        for place in ("", endpoint):
            client.engine._backends["local", place] = self  # pyright: ignore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def submit(self, plan: Any, secrets: Mapping[str, str]) -> Any:
        self.called += 1
        self.begun.set()
        assert self.let_go.wait(120)
        return self._backend.submit(plan, secrets)

    def cancel(self, refs: Any, grace: Any) -> Any:
        if self.refusing:
            return dict.fromkeys(refs, Refused("Only its owner may end it."))
        return self._backend.cancel(refs, grace)


def until_ended(client: Client, job: str) -> Job:
    give_up = time.monotonic() + LIMIT_SECONDS
    while not (seen := look(client.engine, [client.store.get(job)])[0].job).status.terminal:
        assert time.monotonic() < give_up, f"it is {seen.status}: {seen.message}"
        time.sleep(0.05)
    return seen


def canceled_while_it_starts(
    client: Client, held: Held, starting: Callable[[], object], monkeypatch: Any
) -> str:
    """The id of a job whose cancel was given up, for it was still being started."""
    monkeypatch.setattr(cancel, "SETTLE_SECONDS", 0.2)
    starter = threading.Thread(target=starting)
    starter.start()
    assert held.begun.wait(120)
    job = client.store.live()[0].id
    assert client.cancel_job(job) is False
    held.let_go.set()
    starter.join(120)
    return job


def starts(client: Client, who: str) -> tuple[Held, Callable[[], object]]:
    """(the backend, what starts a job there): a submit, or a look that finishes one which was cut
    short.
    """
    if who == "submit":
        endpoint = client.engine.backend("local").endpoint
        return Held(client, endpoint), lambda: client.submit(
            JobSpec(command="sleep 30", gpu_count=0), "local"
        )
    job = kept(client)
    return Held(client, client.store.attempt(job.id).attempt.endpoint), lambda: look(
        client.engine, [job]
    )


@pytest.mark.slow
@pytest.mark.parametrize("who", ["submit", "look"])
def test_a_cancel_that_comes_while_a_job_is_started_ends_it_once_it_has(
    client: Client, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    job = canceled_while_it_starts(client, *starts(client, who), monkeypatch)
    assert until_ended(client, job).status is Status.CANCELED


@pytest.mark.slow
@pytest.mark.parametrize("who", ["submit", "look"])
def test_a_job_that_could_not_be_ended_when_it_had_started_goes_on_and_can_be_canceled(
    client: Client, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    held, starting = starts(client, who)
    held.refusing = True
    job = canceled_while_it_starts(client, held, starting, monkeypatch)
    seen = client.store.get(job)
    assert not seen.status.terminal
    assert (
        seen.message
        == f"it was to end and could not be told so (Only its owner may end it.): tao cancel {job}"
    )
    held.refusing = False
    assert client.cancel_job(job) is True
    assert client.get_job(job).status is Status.CANCELED


def test_a_job_that_was_started_and_is_to_end_is_ended_by_the_look_that_adopts_it(
    client: Client,
) -> None:
    job = kept(client)
    row = client.store.attempt(job.id)
    backend = client.engine.backend_of(job)
    backend.submit(read_plan(backend, row), {})
    cancel.ask(client.engine, job)
    assert until_ended(client, job.id).status is Status.CANCELED


@pytest.mark.slow
@pytest.mark.parametrize("who", ["submit", "look"])
def test_a_job_is_started_once_however_long_its_start_takes(
    client: Client, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    monkeypatch.setattr(submit, "SUBMIT_LEASE_SECONDS", 2.0)
    held, starting = starts(client, who)
    starter = threading.Thread(target=starting)
    starter.start()
    assert held.begun.wait(120)
    with Client(settings=client.settings) as another:
        [job] = another.store.live()
        ends = time.monotonic() + 1.5 * submit.SUBMIT_LEASE_SECONDS
        while time.monotonic() < ends:
            assert settle(another.engine, job) is False
            time.sleep(0.05)
    held.let_go.set()
    starter.join(120)
    assert (held.called, client.store.lease_holder(lease_of(job.id))) == (1, None)
    assert client.get_job(job.id).status in (Status.PENDING, Status.RUNNING)


class Slow:
    """The real backend, which needs some seconds between two calls to get any further with a
    submit.
    """

    def __init__(self, backend: Any, seconds: float) -> None:
        self._backend, self.seconds, self.called = backend, seconds, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def submit(self, plan: Any, secrets: Mapping[str, str]) -> Any:
        self.called += 1
        of = plan.attempt
        return Ref(
            "local",
            of.endpoint,
            "",
            of.job_id,
            "",
            of,
            ready=False,
            step="instance",
            retry_after=self.seconds,
        )


@pytest.mark.parametrize(("seconds", "calls"), [(600, 1), (0, 4)])
def test_a_submit_is_gone_on_with_when_the_backend_wants_it_and_not_at_every_look(
    client: Client, seconds: float, calls: int
) -> None:
    job = kept(client)
    endpoint = client.store.attempt(job.id).attempt.endpoint
    slow = Slow(client.engine.backend("local", endpoint), seconds)
    client.engine._backends["local", endpoint] = slow  # pyright: ignore
    seen = [look(client.engine, [client.store.get(job.id)])[0].job for _ in range(4)]
    assert slow.called == calls
    assert {(each.status, each.reason_code, each.message) for each in seen} == {
        (Status.PENDING, Reason.STARTING, "instance")
    }
    assert client.cancel_job(job.id) is True


def test_an_end_keeps_its_words_whatever_comes_late(client: Client) -> None:
    job = client.submit(JobSpec(command="true", gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    ended = client.get_job(job.id)
    late = cancel.ask(client.engine, ended)
    assert (late.status, late.message, late.cancel_asked) == (ended.status, ended.message, False)
    details = {"pid": 1}
    assert (
        change(
            client.engine, job.id, lambda now: replace(now, backend_details=details)
        ).backend_details
        == details
    )
