"""Images without bash: the attempt is made anew with /bin/sh, once, whatever dies."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes.kube_files import BUSYBOX, PAUSE
from support.signal_programs import SAVES_BELOW_A_SHELL
from support.waiting import until
from tao_sdk.backends.kubernetes import look, parse, starting
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.look import core_path, get_job, items, jobs_path
from tao_sdk.backends.kubernetes.options import KubernetesOptions
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Phase
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.reasons import Reason
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.model.status import Status
from tao_sdk.transports.kube import MERGE

STEPS = 10  # more than the questions by which one client makes an attempt anew


def submit(client: Client, command: str, image: str = BUSYBOX, **spec: Any) -> Job:
    return client.submit(
        JobSpec(command=command, image=image, gpu_count=0, **spec), "kubernetes"
    ).job


def test_a_job_runs_in_an_image_that_has_sh_only_and_needs_no_retry(client: Client) -> None:
    job = submit(client, 'echo "out $(echo sub) ${TAO_JOB_ID}"; exit 3', retries=0)
    client.wait(job.id, timeout=300)
    ended = client.get_job(job.id)
    assert (ended.status, ended.exit_code, ended.attempt) == (Status.ERROR, 3, 1)
    assert client.get_job_logs(job.id) == f"out sub {job.id}\n"


def test_its_log_is_followed_from_the_first_look_on(client: Client) -> None:
    job = submit(client, "echo begun; sleep 1; echo done")
    assert b"".join(client.follow_logs(job.id)).decode() == "begun\ndone\n"
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE


def test_a_program_below_a_shell_has_its_time_though_the_signal_ends_the_shell(
    client: Client,
) -> None:
    job = submit(client, SAVES_BELOW_A_SHELL)
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    until(lambda: client.get_job_logs(job.id) == "up\n")
    assert client.cancel_job(job.id, grace=120)
    assert client.get_job_logs(job.id) == "up\nsaved\n"


def test_a_program_below_a_shell_has_its_time_at_the_time_limit(client: Client) -> None:
    job = submit(client, SAVES_BELOW_A_SHELL, time_limit=timedelta(seconds=3))
    ended = client.wait(job.id, timeout=300)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.TIME_LIMIT)
    assert client.get_job_logs(job.id) == "up\nsaved\n"


def test_an_image_with_neither_bash_nor_sh_is_told_as_such(client: Client) -> None:
    job = submit(client, "true", image=PAUSE)
    ended = client.wait(job.id, timeout=300)
    assert ended.status is Status.ERROR
    diagnosis = client.diagnose(job.id)
    assert diagnosis is not None
    assert "neither /bin/bash nor /bin/sh" in diagnosis.cause
    assert diagnosis.suggestion == "Use an image with a shell."


def test_secrets_a_long_command_and_the_meeting_point_of_ranks_go_with_it(
    client: Client, namespace: str
) -> None:
    command = (
        f"# {'x' * 200_000}\n" + 'test "$MY_TOKEN" = "$WANTED" && echo $NODE_RANK at $MASTER_ADDR'
    )
    values = {"MY_TOKEN": "canary-1", "WANTED": "canary-1"}
    job = submit(client, command, num_nodes=2, env_vars=values)
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    first = b"".join(client.follow_logs(job.id, follow=False, rank=1)).decode()
    assert first == f"1 at tao-job-{job.id}-sh-0.tao-job-{job.id}-sh\n"
    backend = client.engine.backend("kubernetes")
    row = client.store.attempt(job.id)
    assert row.ref is not None
    backend.release(row.ref)
    until(lambda: not left_of(backend, namespace, row.attempt))


def left_of(backend: Any, namespace: str, attempt: Attempt) -> list[str]:
    """The names of all objects of an attempt."""
    kinds = [core_path(namespace, kind) for kind in ("secrets", "configmaps", "services", "pods")]
    selector = f"tao-sdk-job-id={attempt.job_id}"
    return [
        item["metadata"]["name"]
        for path in [jobs_path(namespace), *kinds]
        for item in items(backend.kube, path, labelSelector=selector)
    ]


def test_one_that_its_ttl_removed_first_ends_with_the_reason(client: Client) -> None:
    spec = JobSpec(command="echo ran", image=BUSYBOX, gpu_count=0)
    job = client.submit(spec, "kubernetes", {"ttl": 0}).job
    row = client.store.attempt(job.id)
    assert row.ref is not None
    kube: Any = client.engine.backend("kubernetes").kube  # pyright: ignore
    until(lambda: get_job(kube, row.ref.namespace, row.ref.native_id) is None)  # pyright: ignore
    ended = client.wait(job.id, timeout=300)
    assert ended.status is Status.ERROR
    assert "(TTL)" in ended.message and "no /bin/bash" in ended.message


# The backend by itself


@pytest.fixture
def backend(surroundings: dict[str, str], tmp_path: Path) -> Iterator[KubernetesBackend]:
    made = KubernetesBackend(Settings(surroundings), tmp_path / "state")
    yield made
    made.close()


class Bare:
    """A job whose first Job has just failed for want of bash. Each run writes a line to a file."""

    def __init__(self, backend: KubernetesBackend, folder: Path, name: str, **options: Any) -> None:
        self.backend, self.marker = backend, folder / name
        command = f"echo ran >> {self.marker}"
        spec = JobSpec(
            image=BUSYBOX, command=command, gpu_count=0, mounts=[f"{folder}:{folder}"],
            env_vars={"MY_TOKEN": "canary-2"},
        )  # fmt: skip
        prepared, given = PreparedJob(spec, command), KubernetesOptions(**options)
        facts = backend.survey(prepared, given)
        self.attempt = Attempt(
            mint_id("bare"), 1, "kubernetes", backend.endpoint, "feedfeedfeedfeed"
        )
        plan = backend.plan(prepared, given, facts, self.attempt)
        self.ref: Ref = backend.submit(plan, dict.fromkeys(plan.secrets, "canary-2"))

    def seen(self) -> parse.Seen:
        found = look.see(self.backend.kube, self.ref)
        assert found is not None
        return found

    def until_it_fails(self) -> Bare:
        until(lambda: parse.lacks_bash(self.seen()))
        return self

    def runs(self) -> int:
        return len(self.marker.read_text().splitlines()) if self.marker.exists() else 0

    def second(self) -> Any:
        name = names.second_name(self.ref.native_id)
        return get_job(self.backend.kube, self.ref.namespace, name)


def submitted(backend: KubernetesBackend, folder: Path, count: int) -> list[Bare]:
    made = [Bare(backend, folder, f"marker-{number}") for number in range(count)]
    return [each.until_it_fails() for each in made]


def cut_after(backend: KubernetesBackend, questions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the client dies at its next question after so many."""
    ask, left = backend.kube.ask, questions

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return ask(*given, **more)

    monkeypatch.setattr(backend.kube, "ask", counted)


def start_and_die(bare: Bare, questions: int) -> bool:
    """True if the client died before the end."""
    with pytest.MonkeyPatch.context() as patched:
        cut_after(bare.backend, questions, patched)
        try:
            starting.start_with_sh(bare.backend.kube, bare.ref)
        except KeyboardInterrupt:
            return True
    return False


def test_a_client_that_dies_at_any_step_leaves_one_run(
    backend: KubernetesBackend, tmp_path: Path
) -> None:
    jobs = submitted(backend, tmp_path, STEPS)
    died = [start_and_die(job, questions + 2) for questions, job in enumerate(jobs)]
    assert died[0] and not died[-1]
    refs = [job.ref for job in jobs]
    until(lambda: all(seen.phase.ended for seen in backend.observe(refs).values()))
    assert {seen.phase for seen in backend.observe(refs).values()} == {Phase.SUCCEEDED}
    assert [job.runs() for job in jobs] == [1] * STEPS
    for job in jobs:
        assert get_job(backend.kube, job.ref.namespace, job.ref.native_id) is None
        backend.release(job.ref)


def test_a_cancel_at_any_step_leaves_nothing_that_runs(
    backend: KubernetesBackend, tmp_path: Path
) -> None:
    jobs = submitted(backend, tmp_path, STEPS - 3)
    for questions, job in enumerate(jobs):
        assert start_and_die(job, questions + 2)
    answers = backend.cancel([job.ref for job in jobs], timedelta(seconds=1))
    assert {answer.phase for answer in answers.values()} == {Phase.CANCELED}  # pyright: ignore
    for job in jobs:
        starting.start_with_sh(backend.kube, job.ref)
        assert job.runs() == 0
        until(lambda job=job: not left_of(backend, job.ref.namespace, job.attempt))


def test_of_many_clients_at_once_one_run_comes(backend: KubernetesBackend, tmp_path: Path) -> None:
    [job] = submitted(backend, tmp_path, 1)
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: backend.observe([job.ref]), range(6)))
    until(lambda: backend.observe([job.ref])[job.ref].phase is Phase.SUCCEEDED)
    assert job.runs() == 1
    backend.release(job.ref)


def test_a_client_that_comes_too_late_starts_nothing(
    backend: KubernetesBackend, tmp_path: Path
) -> None:
    [job] = submitted(backend, tmp_path, 1)
    first = job.seen().job
    until(lambda: backend.observe([job.ref])[job.ref].phase is Phase.SUCCEEDED)
    backend.release(job.ref)
    until(lambda: not left_of(backend, job.ref.namespace, job.attempt))
    assert starting.take_place(backend.kube, first) is None
    until(lambda: job.second() is None)
    assert job.runs() == 1


def test_where_it_cannot_be_made_anew_the_job_waits_and_says_why(
    backend: KubernetesBackend, tmp_path: Path, namespace: str
) -> None:
    [job] = submitted(backend, tmp_path, 1)
    quota = {"metadata": {"name": "full"}, "spec": {"hard": {"count/jobs.batch": "1"}}}
    path = core_path(namespace, "resourcequotas")
    backend.kube.ask("POST", path, quota)
    until(lambda: "used" in backend.kube.ask("GET", f"{path}/full").get("status", {}))
    seen = backend.observe([job.ref])[job.ref]
    assert seen.phase is Phase.PENDING
    assert "no /bin/bash" in seen.reason and "exceeded quota" in seen.reason
    backend.kube.ask("DELETE", f"{path}/full")
    until(lambda: backend.observe([job.ref])[job.ref].phase is Phase.SUCCEEDED)
    backend.release(job.ref)


def test_a_queue_starts_the_second_job_as_it_did_the_first(
    backend: KubernetesBackend, tmp_path: Path
) -> None:
    job = Bare(backend, tmp_path, "queued", queue="fast")
    path = jobs_path(job.ref.namespace, job.ref.native_id)
    admit = {"spec": {"suspend": False}}
    backend.kube.ask("PATCH", path, admit, content_type=MERGE)
    job.until_it_fails()
    until(lambda: "queue fast" in backend.observe([job.ref])[job.ref].reason)
    assert job.second()["spec"]["suspend"] is True
    assert job.runs() == 0
    backend.kube.ask("PATCH", f"{path}-sh", admit, content_type=MERGE)
    until(lambda: backend.observe([job.ref])[job.ref].phase is Phase.SUCCEEDED)
    assert job.runs() == 1
    backend.release(job.ref)
