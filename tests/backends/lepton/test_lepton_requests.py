"""What a workspace is asked for one attempt, without a client: nothing runs, all of it waits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.lepton.replica import Replica
from support.lepton.rest_server import Fault, RestServer
from support.lepton.workspace import Job
from support.waiting import until
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.lepton import logs, look, rules
from tao_sdk.backends.lepton.backend import LeptonBackend
from tao_sdk.backends.lepton.job import names
from tao_sdk.backends.lepton.options import LeptonOptions
from tao_sdk.backends.lepton.request import LeptonRequest
from tao_sdk.backends.lepton.workspace import doctor
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import PathNotFound, Refused, Unreachable
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.transports import rest
from tao_sdk.transports.http_session import Session
from tao_sdk.transports.rest import AnswerTooLarge
from tao_sdk.transports.silence import within

ATTEMPT = Attempt("requests-0123456789", 1, "lepton", "tests", "0123456789abcdef")
SECRETS = {"MY_KEY": "a-secret-of-this-test"}
GRACE = timedelta(seconds=1)


@pytest.fixture
def backend(server: RestServer, settings: Settings, tmp_path: Path) -> Iterator[LeptonBackend]:
    """A backend in a workspace without a free GPU, whose lists do not lag."""
    server.workspace.times.list_lag = 0
    for node in server.workspace.groups[0].nodes:
        node.held = 8
    opened = LeptonBackend(settings, tmp_path)
    yield opened
    server.faults.clear()
    for job in list(server.workspace.jobs.values()):
        if job.metadata["labels"]["tao-sdk-job-id"] == ATTEMPT.job_id:
            server.workspace.delete(job.id)
            job.thread.join()
    server.workspace.secrets.clear()
    opened.close()


def planned(backend: LeptonBackend, **spec: object) -> Plan[LeptonRequest]:
    job = JobSpec(image="stand-in", command="true", gpu_count=8, **spec)  # pyright: ignore[reportArgumentType]
    prepared, options = PreparedJob(job, job.command), LeptonOptions()
    return backend.plan(prepared, options, backend.survey(prepared, options), ATTEMPT)


def ended(backend: LeptonBackend, server: RestServer) -> tuple[Ref, Job]:
    """An attempt, and the workspace's job of it, which was stopped before it began."""
    ref = backend.submit(planned(backend), {})
    job = server.workspace.jobs[ref.native_id]
    job.wants_end.set()
    job.thread.join()
    return ref, job


def states(server: RestServer) -> list[str]:
    """The states of the attempt's jobs."""
    jobs = list(server.workspace.jobs.values())
    return [job.state for job in jobs if job.metadata["name"] == f"tao-job-{ATTEMPT.job_id}"]


def test_a_create_is_given_all_the_time_there_is_and_none_is_sent_without_time(
    backend: LeptonBackend, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(backend)
    with within(9), pytest.raises(Unreachable, match="no time left"):
        backend.submit(plan, {})
    assert states(server) == []
    waits: list[float] = []
    send: Callable[..., object] = Session.request

    def note_wait(
        session: Session, method: str, path: str, timeout: tuple[float, float], **more: Any
    ) -> object:
        if method == "POST":
            waits.append(timeout[1])
        return send(session, method, path, timeout, **more)

    monkeypatch.setattr(Session, "request", note_wait)
    backend.submit(plan, {})
    assert len(waits) == 1
    assert waits[0] > 15


def test_a_submit_that_ends_between_secrets_and_job_is_a_doubt_and_leaves_no_secret_if_refused(
    backend: LeptonBackend, server: RestServer
) -> None:
    """Of a doubt a row stays, and with it the way to remove the secrets."""
    plan = planned(backend, env_vars={"MY_KEY": SecretRef("MY_KEY")})
    with within(9), pytest.raises(Unreachable) as doubt:
        backend.submit(plan, SECRETS)
    assert len(server.workspace.secrets) == 1
    assert not doubt.value.nothing_sent
    server.faults.append(Fault("POST", "/usersecrets", 403))
    with pytest.raises(Refused):
        backend.submit(plan, SECRETS)
    assert server.workspace.secrets == {}


@pytest.mark.parametrize(("age", "phase"), [(10, Phase.RUNNING), (60, Phase.CANCELED)])
def test_a_job_whose_log_and_replicas_are_refused_ends_after_the_time_of_its_last_lines(
    backend: LeptonBackend, server: RestServer, age: int, phase: Phase
) -> None:
    ref, job = ended(backend, server)
    job.completed = int(time.time()) - age
    server.faults.append(Fault("GET", "/logs", 404))
    server.faults.append(Fault("GET", f"/jobs/{job.id}/replicas", 403, 2))
    assert backend.observe([ref])[ref].phase is phase
    assert list(backend.replica_events(ref)) == []
    server.faults += [Fault("GET", "/logs", 403), Fault("GET", "/logs", 403)]
    with pytest.raises(PathNotFound, match="shows no log"):
        list(backend.logs(ref, LogRequest()))
    server.faults.append(Fault("GET", "/workspace", 403))
    with pytest.raises(Unreachable):
        list(backend.logs(ref, LogRequest()))


def test_the_time_since_an_end_is_the_workspaces_or_begins_with_the_first_look(
    backend: LeptonBackend, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, job = ended(backend, server)
    job.completed = None
    assert backend.observe([ref])[ref].phase is Phase.RUNNING
    job.completed = int(time.time()) + 20
    for module in (look, rest):  # a machine whose clock is an hour ahead
        monkeypatch.setattr(module, "utc_now", lambda: utc_now() + timedelta(hours=1))
    assert backend.observe([ref])[ref].phase is Phase.RUNNING


def test_a_list_or_a_log_that_is_too_large_is_asked_for_in_smaller_parts(
    backend: LeptonBackend, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, job = ended(backend, server)
    backend.look.create(ATTEMPT, planned(backend).request.job)
    replica = Replica(job.id, 0, server.workspace.folder / "replicas", 0)
    for _ in range(50):
        replica.log.append([b"x" * 100])
    job.replicas.append(replica)
    monkeypatch.setattr(rest, "LARGEST", len(json.dumps(job.to_json())) * 3 // 2)
    assert len(set(backend.look.job_ids(ref))) == 2
    monkeypatch.setattr(rest, "LARGEST", 2000)
    log = b"".join(chunk.data for chunk in backend.logs(ref, LogRequest()))
    assert log == (b"x" * 100 + b"\n") * 50
    with pytest.raises(AnswerTooLarge):
        backend.look.job_ids(ref)


def test_a_log_goes_on_behind_its_last_line_until_its_job_is_over(
    backend: LeptonBackend, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of a rank begins with its replica, and goes on where the replica is started again."""
    monkeypatch.setattr(logs, "PAUSE_SECONDS", 0.01)
    ref = backend.submit(planned(backend, num_nodes=2), {})
    job = server.workspace.jobs[ref.native_id]
    asked = len(server.asked)
    assert list(backend.logs(ref, LogRequest(rank=1))) == []
    assert "GET /logs" not in server.asked[asked:]
    chunks = backend.logs(ref, LogRequest(rank=1, follow=True))
    mark = f"{names.end_mark(ATTEMPT)} 1 ".encode()
    replica = Replica(job.id, 1, server.workspace.folder / "replicas", 0)
    replica.log.append([b"first", mark])
    job.replicas.append(replica)
    first = next(chunks)
    assert next(iter(backend.logs(ref, LogRequest(rank=1, tail=1)))).data == b"first"
    replica.log.append([b"second", mark])
    second = next(chunks)
    job.wants_end.set()
    job.thread.join()
    job.completed = int(time.time()) - 60
    assert b"".join([first.data, second.data, *(chunk.data for chunk in chunks)]) == b"firstsecond"


def test_a_refusal_names_the_request_and_secrets_that_a_job_has_not_are_not_asked_for(
    backend: LeptonBackend, server: RestServer
) -> None:
    plan = planned(backend, env_vars={"MY_KEY": SecretRef("MY_KEY")})
    ref = backend.submit(plan, SECRETS)
    server.faults.append(Fault("GET", "/usersecrets", 403, 9))
    backend.release(ref)
    assert server.workspace.secrets == {}
    server.faults.append(Fault("GET", "/jobs", 403))
    with pytest.raises(Unreachable, match="refused GET /jobs"):
        backend.find(ATTEMPT, plan)
    server.faults.append(Fault("POST", "/jobs", 403))
    with pytest.raises(Refused, match="POST /jobs"):
        backend.submit(plan, SECRETS)
    assert "--pull-secret none" in rules.refused("no right", "GET /imagepullsecrets").next


@pytest.mark.parametrize("answer", [{}, {"message": "welcome"}, "welcome", 7])
def test_an_answer_that_says_nothing_of_jobs_does_not_say_that_one_is_gone(
    backend: LeptonBackend, server: RestServer, answer: object
) -> None:
    ref = backend.submit(planned(backend), {})
    server.faults.append(Fault("GET", "/jobs", 200, body=answer))
    assert backend.observe([ref])[ref].phase is Phase.UNREACHABLE
    server.faults.append(Fault("GET", f"/jobs/{ref.native_id}", 200, body=answer))
    with pytest.raises(Unreachable, match="cannot be understood"):
        backend.look.job(ref.native_id)


def test_a_job_that_a_list_lacks_is_asked_for_itself(
    backend: LeptonBackend, server: RestServer
) -> None:
    ref = backend.submit(planned(backend), {})
    server.faults.append(Fault("GET", "/jobs", 200, 2, body={"jobs": None}))
    assert backend.observe([ref])[ref].phase is Phase.PENDING


def test_a_secret_of_an_archived_job_is_not_without_a_job(
    backend: LeptonBackend, server: RestServer
) -> None:
    ref = backend.submit(planned(backend, env_vars={"MY_KEY": SecretRef("MY_KEY")}), SECRETS)
    job = server.workspace.jobs[ref.native_id]
    job.spec["ttl_seconds_after_finished"] = -1
    job.wants_end.set()
    job.thread.join()
    until(lambda: job.is_archived)
    assert list(doctor.leftover_findings(backend.look)) == []
    server.workspace.secrets["tao-job-lost-0123456789-1-1"] = {
        "name": "tao-job-lost-0123456789-1-1"
    }
    [finding] = doctor.leftover_findings(backend.look)
    assert finding.what.startswith("1 secrets")


def test_every_job_of_an_attempt_is_canceled_and_removed(
    backend: LeptonBackend, server: RestServer
) -> None:
    """A create that nobody waited for may still have made one."""
    plan = planned(backend)
    ref = backend.submit(plan, {})
    backend.look.create(ATTEMPT, plan.request.job)
    assert backend.cancel([ref], GRACE)[ref]
    assert states(server) == ["Stopped", "Stopped"]
    backend.release(ref)
    assert states(server) == []


def test_a_404_says_that_a_job_is_gone_only_if_the_workspace_answers(
    backend: LeptonBackend, server: RestServer
) -> None:
    ref = backend.submit(planned(backend), {})
    lost = [Fault("GET", f"/jobs/{ref.native_id}", 404), Fault("GET", "/workspace", 404)]
    server.faults += lost
    answer = backend.cancel([ref], GRACE)[ref]
    assert isinstance(answer, Unreachable)
    assert "a fault of the test" in answer.what
    assert states(server) == ["Queueing"]
    server.workspace.delete(ref.native_id)
    until(lambda: states(server) == [])
    gone = backend.cancel([ref], GRACE)[ref]
    assert isinstance(gone, Observation)
    assert gone.phase is Phase.ABSENT
