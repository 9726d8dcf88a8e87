"""Jobs on a real cluster: they run, are seen, explained, ended, and none is lost."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.kubernetes import starting
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.look import core_path, get_job, items
from tao_sdk.backends.kubernetes.options import KubernetesOptions
from tao_sdk.client import Client
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import Refused, TaoError, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.reasons import Reason
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.model.status import Status
from tao_sdk.transports.kube import KubeError

IMAGE = "tests.local/python:1"
CANARY = "canary-9f8e7d6c5b4a"


def submit(client: Client, command: str, options: Any = None, **spec: Any) -> Job:
    given = {"image": IMAGE, "gpu_count": 0, **spec}
    return client.submit(JobSpec(command=command, **given), "kubernetes", options or {}).job


def log_of(client: Client, job: Job) -> str:
    return b"".join(client.follow_logs(job.id, follow=False)).decode()


def test_a_job_runs_and_its_log_and_exit_code_come_back(client: Client) -> None:
    job = submit(client, 'echo "out $(echo sub) ${TAO_JOB_ID}"; echo err >&2; exit 3')
    client.wait(job.id, timeout=300)
    ended = client.get_job(job.id)
    assert (ended.status, ended.exit_code) == (Status.ERROR, 3)
    assert sorted(log_of(client, job).splitlines()) == ["err", f"out sub {job.id}"]


def test_a_long_command_and_a_secret_reach_the_program(client: Client) -> None:
    command = f"# {'x' * 200_000}\ntest $MY_TOKEN = {CANARY} && echo same"
    job = submit(
        client, command.replace(CANARY, "$WANTED"), env_vars={"MY_TOKEN": CANARY, "WANTED": CANARY}
    )
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert log_of(client, job) == "same\n"


@pytest.mark.parametrize("length", [1, 200_000], ids=["short", "in-parts"])
def test_a_secrets_value_is_in_its_secret_and_nowhere_else(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path, length: int
) -> None:
    """Not even encoded: a packed command is, and so are the values of a Secret."""
    job = submit(client, f"# {'x' * length}\necho $MY_TOKEN | wc -c", env_vars={"MY_TOKEN": CANARY})
    client.wait(job.id, timeout=300)
    assert log_of(client, job) == f"{len(CANARY) + 1}\n"  # the program has it
    secrets = kept_by(cluster, namespace, "secrets")
    assert list(forms_in(secrets)) == ["in base64"]
    kinds = "jobs,pods,configmaps,events,services,endpointslices,controllerrevisions"
    shown = kept_by(cluster, namespace, kinds)
    assert job.id in shown
    assert list(forms_in(shown)) == []
    own = [path for path in tmp_path.rglob("*") if path.is_file()]
    store = [path for path in own if path.name.startswith("jobs.db")]
    assert store
    assert [path for path in own if any(forms_in(path.read_bytes().decode("latin-1")))] == []


def kept_by(cluster: Cluster, namespace: str, kinds: str) -> str:
    """All that the cluster keeps of these kinds, with who has written which field."""
    return cluster.kubectl("get", "-ojson", "--show-managed-fields", "-n", namespace, kinds)


def forms_in(text: str) -> Iterator[str]:
    """In which forms the canary is in a text. What stands before it in a longer value shifts its
    base64 by up to two bytes.
    """
    if CANARY in text:
        yield "as it is"
    for shift in range(3):
        encoded = base64.b64encode(b"-" * shift + CANARY.encode()).decode()
        whole_groups = encoded[4 * bool(shift) : len(encoded) // 4 * 4 - 4]
        if whole_groups in text:
            yield "in base64"
    if CANARY.encode().hex() in text:
        yield "in hex"


def test_a_canary_is_found_in_every_form() -> None:
    for before in ("", "a", "ab", "abc"):
        value = f"{before}{CANARY} and more".encode()
        assert list(forms_in(value.decode())) == ["as it is"]
        assert list(forms_in(base64.b64encode(value).decode())) == ["in base64"]
        assert list(forms_in(value.hex())) == ["in hex"]
    assert list(forms_in("canary-of-another")) == []


def test_a_job_that_is_silent_tells_since_when_and_how_to_look_into_it_until_it_is_canceled(
    client: Client, cluster: Cluster
) -> None:
    command = "trap 'echo last words; exit 0' TERM; echo begun; while :; do sleep 0.1; done"
    job = submit(client, command)
    until(lambda: "begun" in log_of(client, job))
    known = client.activity(job.id)
    assert known is not None
    assert known.log_changed_at is not None
    assert abs((known.log_changed_at - utc_now()).total_seconds()) < 300
    kubectl, *words = shlex.split(known.enter)
    assert kubectl == "kubectl"
    context = words.index("--context")
    del words[context : context + 2]  # another file has it
    entered = cluster.kubectl(*words, given="echo $TAO_JOB_ID\n")
    assert job.id in entered
    assert client.cancel_job(job.id, grace=10)
    assert client.get_job(job.id).status is Status.CANCELED
    assert "last words" in log_of(client, job).splitlines()


def test_a_program_that_was_told_to_end_did_not_succeed_even_if_it_says_so(
    client: Client, kubeconfig: Path
) -> None:
    job = submit(client, "trap 'exit 0' TERM; echo begun; while :; do sleep 0.1; done")
    until(lambda: "begun" in log_of(client, job))
    subprocess.run(
        ["kubectl", f"--kubeconfig={kubeconfig}", "delete", "pod", "--wait=false", "-l", f"tao-sdk-job-id={job.id}"],
        check=True, capture_output=True,
    )  # fmt: skip
    assert client.wait(job.id, timeout=300).status is Status.ERROR


def test_a_job_that_somebody_deletes_is_told_as_lost(client: Client, kubeconfig: Path) -> None:
    job = submit(client, "sleep 300")
    until(lambda: client.get_job(job.id).status is Status.RUNNING)
    subprocess.run(
        ["kubectl", f"--kubeconfig={kubeconfig}", "delete", "job", "--now", f"tao-job-{job.id}"],
        check=True, capture_output=True,
    )  # fmt: skip
    until(lambda: client.get_job(job.id).status.terminal)
    ended = client.get_job(job.id)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.REMOVED_OUTSIDE)
    assert ended.message == "removed outside"


def test_a_job_that_its_ttl_removed_before_anyone_looked_is_told_so(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    job = submit(client, "exit 3", {"ttl": 0})
    jobs = f"{namespaced(namespace, 'batch/v1')}/jobs"
    until(lambda: cluster.api.get(jobs)["items"] == [])
    until(lambda: client.get_job(job.id).status.terminal)
    ended = client.get_job(job.id)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.REMOVED_OUTSIDE)
    assert "removed by the cluster (TTL) before anyone looked" in ended.message


def test_a_job_that_its_ttl_removed_was_not_canceled_by_a_later_cancel(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    job = submit(client, "exit 3", {"ttl": 0})
    jobs = f"{namespaced(namespace, 'batch/v1')}/jobs"
    until(lambda: cluster.api.get(jobs)["items"] == [])
    assert client.cancel_job(job.id)
    ended = client.get_job(job.id, look=False)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.REMOVED_OUTSIDE)
    assert "removed by the cluster (TTL)" in ended.message


def test_a_registry_that_does_not_answer_for_the_pull_timeout_ends_the_attempt(
    client: Client,
) -> None:
    job = submit(client, "true", {"pull_timeout": "5s"}, image="127.0.0.1:9/none:1")
    ended = client.wait(job.id, timeout=300)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.PULL_FAILED)
    assert "connection refused" in client.get_job(job.id).message
    diagnosis = client.diagnose(job.id)
    assert diagnosis is not None and diagnosis.retryable


def test_a_time_limit_ends_the_command(client: Client) -> None:
    job = submit(client, "echo begun; sleep 300", time_limit=timedelta(seconds=4))
    ended = client.wait(job.id, timeout=300)
    assert (ended.status, ended.reason_code) == (Status.ERROR, Reason.TIME_LIMIT)


def test_memory_that_runs_out_is_told_in_the_documents_words(client: Client) -> None:
    job = submit(client, "python3 -c 'x = bytearray(300 << 20)'", memory="40m")
    assert client.wait(job.id, timeout=300).status is Status.ERROR
    diagnosis = client.diagnose(job.id)
    assert diagnosis is not None
    assert diagnosis.to_json()["job_failure_by_node_event"][0]["node_event_name"] == "OOMKilled"
    assert "Reduce batch size" in diagnosis.next


def test_two_ranks_meet_by_name(client: Client) -> None:
    program = (
        "import os, socket, time\n"
        "rank, port = int(os.environ['NODE_RANK']), int(os.environ['MASTER_PORT'])\n"
        "if rank == 0:\n"
        "    door = socket.create_server(('', port)); guest, _ = door.accept()\n"
        "    print(guest.recv(100).decode())\n"
        "else:\n"
        "    for _ in range(300):\n"
        "        try:\n"
        "            line = socket.create_connection((os.environ['MASTER_ADDR'], port)); break\n"
        "        except OSError:\n"
        "            time.sleep(0.2)\n"
        "    line.sendall(b'met')\n"
    )
    # the shell goes on after these, as it does on one node
    command = f'false; : "$NOT_SET"; false | true\npython3 -c "{program}"'
    job = submit(client, command, num_nodes=2)
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    header, met = log_of(client, job).splitlines()
    assert header.startswith("==> rank 0 (") and met == "met"


def test_when_one_rank_fails_its_log_is_kept_and_the_lost_one_is_told(client: Client) -> None:
    command = "echo rank $NODE_RANK; test $NODE_RANK = 0 && sleep 300; sleep 3; exit 5"
    job = submit(client, command, num_nodes=2)
    client.wait(job.id, timeout=300)
    assert client.get_job(job.id).exit_code == 5
    logs = b"".join(client.follow_logs(job.id, follow=False, rank=1)).decode()
    assert logs == "rank 1\n"
    first = log_of(client, job)
    assert "\nrank 0\n" in first or "was removed with its pod" in first


def test_an_evicted_job_is_tried_again_where_retries_are_left(
    surroundings: dict[str, str], kubeconfig: Path
) -> None:
    with Client(settings=Settings(surroundings), watch=True, poll_interval=1) as client:
        command = "echo attempt $TAO_ATTEMPT; test $TAO_ATTEMPT = 2 || sleep 300"
        job = submit(client, command, retries=1)
        until(lambda: "attempt 1" in log_of(client, job))
        evict(kubeconfig, f"tao-sdk-job-id={job.id}")
        assert client.wait(job.id, timeout=300).status is Status.COMPLETE
        assert client.get_job(job.id).attempt == 2
        told = [line for line in log_of(client, job).splitlines() if "attempt" in line]
        assert told == ["attempt 1", "attempt 2"]
        client.remove(job.id)


def test_the_failure_analysis_of_an_evicted_job_names_the_cluster_and_not_the_program(
    surroundings: dict[str, str], kubeconfig: Path
) -> None:
    with Client(settings=Settings(surroundings), watch=False) as client:
        job = submit(client, "echo begun; exec sleep 300")
        until(lambda: "begun" in log_of(client, job))
        evict(kubeconfig, f"tao-sdk-job-id={job.id}")
        assert client.wait(job.id, timeout=300).reason_code is Reason.EVICTED
        told = client.get_failure_analysis(job.id)
        assert told is not None
        assert (told["err_class"], told["fault"]) == ("ERR_INFRA", "the place")
        assert "evict" in json.dumps(told["job_failure_by_node_event"]).lower()
        assert "retries" in told["suggestion"], told
        client.remove(job.id)


def evict(kubeconfig: Path, selector: str) -> None:
    def kubectl(*words: str, text: str = "") -> str:
        command = ["kubectl", f"--kubeconfig={kubeconfig}", *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return done.stdout

    pods = json.loads(kubectl("get", "pod", "-l", selector, "-ojson"))["items"]
    meta = {key: pods[0]["metadata"][key] for key in ("name", "namespace")}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
    kubectl("create", f"--raw={path}", "-f-", text=json.dumps(body))


# The backend by itself


@pytest.fixture
def backend(surroundings: dict[str, str], tmp_path: Path) -> KubernetesBackend:
    return KubernetesBackend(Settings(surroundings), tmp_path / "state")


def attempt_of(backend: KubernetesBackend) -> Attempt:
    return Attempt(mint_id("life"), 1, "kubernetes", backend.endpoint, "feedfeedfeedfeed")


def planned(
    backend: KubernetesBackend, command: str, options: KubernetesOptions | None = None, **spec: Any
) -> Any:
    job = JobSpec(image=IMAGE, command=command, gpu_count=0, **spec)
    prepared = PreparedJob(job, command)
    options = options or backend.Options()
    return backend.plan(prepared, options, backend.survey(prepared, options), attempt_of(backend))


def test_a_submit_that_was_cut_short_at_any_step_is_finished_by_the_next(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(1, 4):
        plan = planned(backend, "x" * 100_000, num_nodes=2)
        calls = 0

        def cut(*given: Any, step: int = step, ask: Any = backend.kube.ask, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > step:
                raise KeyboardInterrupt
            return ask(*given, **more)

        with monkeypatch.context() as patched:
            patched.setattr(backend.kube, "ask", cut)
            with pytest.raises(KeyboardInterrupt):
                starting.start_attempt(backend.kube, plan, {})
        found = backend.find(plan.attempt, plan)
        assert found is not None and not found.ready
        ref = backend.submit(plan, {})
        assert ref.unique_id == found.unique_id
        job = get_job(backend.kube, ref.namespace, ref.native_id)
        assert job is not None and job["spec"]["suspend"] is False
        backend.release(ref)


@pytest.mark.parametrize("error", [KubeError(403, "Forbidden", "no"), Unreachable("gone")])
def test_a_job_of_which_the_rest_is_refused_is_taken_back_and_else_kept(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch, error: TaoError
) -> None:
    plan = planned(backend, "true", num_nodes=2)
    if isinstance(error, Unreachable):
        error.nothing_sent = True
    ask = backend.kube.ask

    def failing(method: str, path: str, *given: Any, **more: Any) -> Any:
        if path.endswith("/services"):
            raise error
        return ask(method, path, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(backend.kube, "ask", failing)
        with pytest.raises((Refused, Unreachable)) as told:
            backend.submit(plan, {})
    if isinstance(error, KubeError):
        until(lambda: backend.find(plan.attempt, plan) is None)
        return
    assert isinstance(told.value, Unreachable) and not told.value.nothing_sent
    found = backend.find(plan.attempt, plan)
    assert found is not None and not found.ready
    backend.release(found)


def test_what_a_job_owns_goes_with_it(backend: KubernetesBackend) -> None:
    plan = planned(backend, f"# {'x' * 100_000}")
    ref = backend.submit(plan, {})
    until(lambda: backend.observe([ref])[ref].phase.ended)
    backend.release(ref)
    selector = f"tao-sdk-job-id={plan.attempt.job_id}"
    left = lambda: [  # noqa: E731
        item
        for kind in ("configmaps", "secrets", "pods")
        for item in items(backend.kube, core_path(ref.namespace, kind), labelSelector=selector)
    ]
    until(lambda: not left())
    until(lambda: backend.observe([ref])[ref].phase is Phase.ABSENT)  # the Job goes last
    backend.release(ref)


def test_many_jobs_are_seen_with_two_questions(backend: KubernetesBackend) -> None:
    refs = [backend.submit(planned(backend, "echo hello"), {}) for _ in range(3)]
    until(lambda: all(seen.phase.ended for seen in backend.observe(refs).values()))
    before = backend.kube.requests
    assert {seen.phase for seen in backend.observe(refs).values()} == {Phase.SUCCEEDED}
    assert backend.kube.requests - before == 2
    assert b"".join(chunk.data for chunk in backend.logs(refs[0], LogRequest())) == b"hello\n"
    for ref in refs:
        backend.release(ref)


def test_a_tail_that_is_followed_goes_on_without_a_repeat(backend: KubernetesBackend) -> None:
    command = "for i in 1 2 3 4 5; do echo $i; done; sleep 2; echo 6"
    ref = backend.submit(planned(backend, command), {})
    request = LogRequest(tail=2, follow=True)
    until(lambda: b"5" in b"".join(chunk.data for chunk in backend.logs(ref, LogRequest())))
    assert b"".join(chunk.data for chunk in backend.logs(ref, request)) == b"4\n5\n6\n"
    assert b"".join(chunk.data for chunk in backend.logs(ref, LogRequest(tail=1))) == b"6\n"
    backend.release(ref)


def test_who_listens_hears_of_a_change_and_asks_nothing_while_there_is_none(
    backend: KubernetesBackend,
) -> None:
    ref = backend.submit(planned(backend, "sleep 300"), {})
    news = backend.news()
    assert list(news.changed([ref], 0)) == [ref]
    until(lambda: backend.observe([ref])[ref].phase is Phase.RUNNING)
    until(lambda: not news.changed([ref], 2))
    assert news.tells
    before = backend.kube.requests
    assert list(news.changed([ref], 2)) == []
    assert backend.kube.requests == before
    ending = threading.Thread(target=backend.cancel, args=([ref], timedelta(seconds=1)))
    ending.start()
    until(lambda: news.changed([ref], 5))
    ending.join()
    assert backend.observe([ref])[ref].phase is Phase.ABSENT
    backend.close()


def test_the_end_of_a_job_that_goes_at_once_is_the_one_that_the_watches_told(
    backend: KubernetesBackend,
) -> None:
    plan = planned(backend, "exit 3", KubernetesOptions(ttl=0))
    for watch in backend.watches.of(plan.request.namespace):
        watch.begin()
    news, ref = backend.news(), backend.submit(plan, {})

    def is_gone() -> bool:
        news.changed([ref], 0.1)  # else the watches end, as nobody asks
        return get_job(backend.kube, ref.namespace, ref.native_id) is None

    until(is_gone)
    until(lambda: backend.observe([ref])[ref].phase is Phase.FAILED)
    assert backend.observe([ref])[ref].exit_code == 3
    canceled = backend.cancel([ref], timedelta(seconds=1))[ref]
    assert isinstance(canceled, Observation) and canceled.exit_code == 3
    backend.close()


def test_who_listens_to_no_job_hears_nothing(backend: KubernetesBackend) -> None:
    assert list(backend.news().changed([], 0.1)) == []
    backend.close()


def test_a_cluster_that_does_not_answer_leaves_a_job_as_it_was(
    backend: KubernetesBackend, tmp_path: Path, kubeconfig: Path
) -> None:
    ref = backend.submit(planned(backend, "true"), {})
    text = kubeconfig.read_text()
    server = backend.cluster.server
    (tmp_path / "silent").write_text(text.replace(server, "https://127.0.0.1:9"))
    silent = KubernetesBackend(Settings({"KUBECONFIG": str(tmp_path / "silent")}), tmp_path)
    assert silent.endpoint == backend.endpoint
    assert silent.observe([ref])[ref].phase is Phase.UNREACHABLE
    backend.release(ref)
