"""What a Job and its pods, as the API server shows them, mean to us."""

from __future__ import annotations

from typing import Any

import pytest

from tao_sdk.backends.kubernetes import parse, rules
from tao_sdk.backends.kubernetes.parse import Seen
from tao_sdk.backends.kubernetes.pods import parking, pulls
from tao_sdk.backends.kubernetes.pods.events import events_of_pod
from tao_sdk.model.clock import utc_now
from tao_sdk.model.diagnosis import Evidence
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.reasons import Reason


def job(*conditions: str, completions: int = 1, **status: Any) -> dict[str, Any]:
    found = [{"type": name, "status": "True", "reason": "R"} for name in conditions]
    return {
        "metadata": {"name": "tao-job-a", "uid": "u", "annotations": {}},
        "spec": {"completions": completions},
        "status": {"conditions": found, **status},
    }


def pod(state: dict[str, Any] | None = None, rank: int = 0, **status: Any) -> dict[str, Any]:
    containers = [{"name": "tao", "state": state}] if state else []
    return {
        "metadata": {
            "name": f"p{rank}",
            "labels": {"batch.kubernetes.io/job-completion-index": str(rank)},
        },
        "spec": {"nodeName": "node-a"},
        "status": {"phase": "Pending", "containerStatuses": containers, **status},
    }


def done(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"}
    return {"terminated": {"exitCode": code, "reason": reason, **times, **more}}


RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def seen(job: dict[str, Any], *pods: dict[str, Any], **more: Any) -> Observation:
    return parse.observation(Seen(job, pods, **more))


def test_a_job_whose_command_ended_well_has_succeeded() -> None:
    told = seen(job("SuccessCriteriaMet", "Complete"), pod(done(0, "Completed")))
    assert (told.phase, told.exit_code, told.reason_code) == (Phase.SUCCEEDED, 0, None)


def test_failure_target_is_an_end_although_the_lost_node_never_says_so() -> None:
    told = seen(job("FailureTarget"), pod(RUNNING))
    assert (told.phase, told.reason_code) == (Phase.FAILED, Reason.NODE_FAILED)
    assert "node-a" in told.reason


@pytest.mark.parametrize(
    ("state", "code", "reason"),
    [
        (done(3), 3, Reason.EXIT_CODE),
        (done(137, "OOMKilled"), 137, Reason.OUT_OF_MEMORY),
        (done(128, "StartError", message='exec: "/bin/bash"'), None, Reason.NOT_STARTED),
    ],
)
def test_the_end_of_the_container_says_why_the_job_failed(
    state: dict[str, Any], code: int | None, reason: Reason
) -> None:
    told = seen(job("Failed"), pod(state))
    assert (told.phase, told.exit_code, told.reason_code) == (Phase.FAILED, code, reason)


CONTAINERD = 'runc create failed: exec: "/bin/bash": stat /bin/bash: no such file or directory'
CRIO = "container create failed: executable file `/bin/bash` not found: No such file or directory"
WITHOUT_BASH = done(128, "StartError", message=CONTAINERD)


@pytest.mark.parametrize(
    "state",
    [WITHOUT_BASH, {"waiting": {"reason": "CreateContainerError", "message": CRIO}}],
)
def test_an_attempt_whose_image_has_no_bash_waits_to_be_made_anew(state: dict[str, Any]) -> None:
    for given in (job(), job("FailureTarget"), job("Failed")):
        told = seen(given, pod(state))
        assert (told.phase, told.backend_words) == (Phase.PENDING, parse.NO_BASH)


def test_an_attempt_is_not_made_anew_once_a_rank_of_it_has_begun() -> None:
    for other in (RUNNING, done(0, "Completed"), done(3)):
        told = seen(job("Failed", completions=2), pod(other), pod(WITHOUT_BASH, rank=1))
        assert told.phase is Phase.FAILED
    told = seen(job("Failed", completions=2), pod(WITHOUT_BASH), pod(rank=1))
    assert told.phase is Phase.PENDING


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ('exec: "/bin/sh": stat /bin/sh: no such file or directory', "kubernetes.no_shell"),
        ('exec: "/bin/sh": permission denied', "kubernetes.not_started"),
        ('exec: "/bin/bash": permission denied', "kubernetes.not_started"),
    ],
)
def test_an_image_is_said_to_have_no_shell_only_where_sh_is_missing(words: str, rule: str) -> None:
    broken = pod(done(128, "StartError", message=words))
    told = Evidence.of_observation(seen(job("Failed"), broken), tuple(events_of_pod(broken)))
    diagnosis = rules.diagnose(told)
    assert diagnosis is not None and diagnosis.rule == rule


def test_a_pod_without_bash_stands_for_its_rank_only_while_there_is_no_other() -> None:
    first, second = pod(WITHOUT_BASH), pod(RUNNING)
    for one in (first, second):
        one["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert parse.by_rank([second, first]) == parse.by_rank([first, second]) == [second]
    assert parse.by_rank([first]) == [first]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("PreemptionByScheduler", Reason.PREEMPTED),
        ("EvictionByEvictionAPI", Reason.EVICTED),
        ("TerminationByKubelet", Reason.EVICTED),
        ("DeletionByTaintManager", Reason.NODE_FAILED),
    ],
)
def test_a_disrupted_pod_failed_by_the_cluster_even_if_its_program_ended_with_0(
    word: str, reason: Reason
) -> None:
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": word}
    told = seen(job("Complete"), pod(done(0, "Completed"), conditions=[disrupted]))
    assert (told.phase, told.reason_code) == (Phase.FAILED, reason)
    diagnosis = rules.diagnose(Evidence.of_observation(told))
    assert diagnosis is not None and diagnosis.retryable


OUT_OF_GPUS = "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 8"


@pytest.mark.parametrize(
    ("word", "message", "reason", "helps"),
    [
        ("OutOfnvidia.com/gpu", OUT_OF_GPUS, Reason.NODE_REFUSED, True),
        ("UnexpectedAdmissionError", "Allocate failed", Reason.NODE_REFUSED, True),
        ("NodeAffinity", "Predicate NodeAffinity failed", Reason.NODE_REFUSED, True),
        ("AppArmor", "Cannot enforce AppArmor", Reason.NOT_STARTED, False),
        ("DeadlineExceeded", "Pod was active on the node too long", Reason.TIME_LIMIT, False),
    ],
)
def test_a_pod_that_its_node_did_not_take_is_told_in_the_nodes_words(
    word: str, message: str, reason: Reason, helps: bool
) -> None:
    refused = pod(phase="Failed", reason=word, message=message)
    peer = pod(done(143, finishedAt="2026-01-01T00:01:01Z"), rank=1)
    for told in (seen(job("Failed"), refused), seen(job("Failed", completions=2), refused, peer)):
        assert (told.phase, told.reason_code) == (Phase.FAILED, reason)
        assert "lost" not in told.reason
        assert (f"{word}: {message}" in told.reason) == (reason is not Reason.TIME_LIMIT)
        diagnosis = rules.diagnose(Evidence.of_observation(told))
        assert diagnosis is not None and diagnosis.retryable is helps


def test_a_pod_that_its_own_deadline_has_killed_reached_its_time_limit() -> None:
    told = seen(job("Failed"), pod(done(137), phase="Failed", reason="DeadlineExceeded"))
    assert told.reason_code is Reason.TIME_LIMIT


def test_a_failed_job_whose_pod_is_gone_failed_by_the_cluster() -> None:
    """Its program's own failure would have left the pod there."""
    found = seen(job("Failed"))
    assert (found.phase, found.reason_code) == (Phase.FAILED, Reason.EVICTED)
    diagnosis = rules.diagnose(Evidence.of_observation(found, ()))
    assert diagnosis is not None
    assert diagnosis.retryable
    assert seen(job("Complete")).phase is Phase.SUCCEEDED


def test_of_several_ranks_the_one_that_failed_first_says_why() -> None:
    late = done(143, finishedAt="2026-01-01T00:02:00Z")
    told = seen(job("Failed", completions=2), pod(late), pod(done(7), rank=1))
    assert told.exit_code == 7


def disrupted(word: str, at: str = "2026-01-01T00:01:00Z") -> dict[str, Any]:
    """The conditions of a pod that the cluster takes away."""
    given = {"type": "DisruptionTarget", "status": "True", "reason": word}
    return {"conditions": [{**given, "lastTransitionTime": at}]}


@pytest.mark.parametrize("code", [0, 143])
def test_a_rank_that_was_taken_away_says_why_and_not_the_peer_that_failed_without_it(
    code: int,
) -> None:
    evicted = pod(
        done(code, finishedAt="2026-01-01T00:01:12Z"), **disrupted("EvictionByEvictionAPI")
    )
    peer = pod(done(1, finishedAt="2026-01-01T00:01:01Z"), rank=1)
    told = seen(job("Failed", completions=2), evicted, peer)
    assert (told.phase, told.reason_code) == (Phase.FAILED, Reason.EVICTED)
    diagnosis = rules.diagnose(Evidence.of_observation(told))
    assert diagnosis is not None and diagnosis.retryable


@pytest.mark.parametrize("state", [RUNNING, done(143), done(0, "Completed")])
def test_a_rank_that_is_gone_says_why_and_not_the_peer_that_is_being_deleted(
    state: dict[str, Any],
) -> None:
    peer = pod(state, rank=1)
    peer["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:02Z"
    told = seen(job("FailureTarget", completions=2), peer)
    assert (told.phase, told.reason_code, told.exit_code) == (Phase.FAILED, Reason.EVICTED, None)
    failed = pod(done(7, finishedAt="2026-01-01T00:00:59Z"))
    told = seen(job("FailureTarget", completions=2), failed, peer)
    assert (told.reason_code, told.exit_code) == (Reason.EXIT_CODE, 7)


@pytest.mark.parametrize(
    ("state", "due", "reason"),
    [
        (done(143, finishedAt="2026-01-01T00:01:10Z"), "2026-01-01T00:01:30Z", Reason.EVICTED),
        (done(137, finishedAt="2026-01-01T00:01:31Z"), "2026-01-01T00:01:30Z", Reason.EVICTED),
        (done(137, finishedAt="2026-01-01T00:00:10Z"), "2026-01-01T00:01:30Z", Reason.EXIT_CODE),
        (done(3, finishedAt="2026-01-01T00:01:10Z"), "2026-01-01T00:01:30Z", Reason.EXIT_CODE),
        (
            done(137, "OOMKilled", finishedAt="2026-01-01T00:01:10Z"),
            "2026-01-01T00:01:30Z",
            Reason.OUT_OF_MEMORY,
        ),
    ],
)
def test_a_pod_that_somebody_deleted_says_so_before_it_is_gone_as_after(
    state: dict[str, Any], due: str, reason: Reason
) -> None:
    """It was asked to end 30 s before it was due."""
    deleted = pod(state)
    deleted["metadata"] |= {"deletionTimestamp": due, "deletionGracePeriodSeconds": 30}
    assert seen(job("Failed"), deleted).reason_code is reason
    peer = pod(done(1, finishedAt="2026-01-01T00:01:40Z"), rank=1)
    assert seen(job("Failed", completions=2), deleted, peer).reason_code is reason


def test_a_lost_node_says_why_however_late_the_cluster_gave_it_up() -> None:
    lost = pod(RUNNING, **disrupted("DeletionByTaintManager", "2026-01-01T00:06:00Z"))
    told = seen(job("FailureTarget", completions=2), lost, pod(done(1), rank=1))
    assert (told.exit_code, told.reason_code) == (None, Reason.NODE_FAILED)


def test_a_rank_that_failed_long_before_another_was_taken_away_says_why() -> None:
    evicted = pod(RUNNING, **disrupted("EvictionByEvictionAPI", "2026-01-01T00:10:00Z"))
    told = seen(job("FailureTarget", completions=2), evicted, pod(done(7), rank=1))
    assert (told.exit_code, told.reason_code) == (7, Reason.EXIT_CODE)


# As the cluster writes it, without a reason, once a node does not answer.
SILENT = {"conditions": [{"type": "Ready", "status": "False"}]}


def test_a_node_that_does_not_answer_says_why_before_the_cluster_gives_it_up() -> None:
    told = seen(job("FailureTarget", completions=2), pod(RUNNING, **SILENT), pod(done(1), rank=1))
    assert told.reason_code is Reason.NODE_FAILED


@pytest.mark.parametrize("conditions", [[], ["FailureTarget"]])
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (SILENT, "it is being deleted, and its node node-a does not answer"),
        ({}, "it is being deleted, and runs on at its node node-a"),
    ],
)
def test_a_job_that_is_being_deleted_names_the_node_that_holds_it(
    status: dict[str, Any], words: str, conditions: list[str]
) -> None:
    deleted = job(*conditions)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    told = seen(deleted, pod(RUNNING, **status))
    assert (told.phase, told.reason) == (Phase.RUNNING, words)


def test_a_pod_that_no_node_takes_is_pending_with_the_schedulers_numbers() -> None:
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    told = seen(job(), pod(conditions=[waits]))
    assert (told.phase, told.reason) == (Phase.PENDING, f"Unschedulable: {words}")


def test_an_image_that_cannot_be_pulled_is_pending_with_the_registrys_words() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "denied: no access"}}
    told = seen(job(), pod(waiting))
    assert (told.phase, told.reason_code) == (Phase.PENDING, Reason.PULL_FAILED)
    diagnosis = rules.diagnose(Evidence.of_observation(told))
    assert diagnosis is not None and "image-pull-secret" in diagnosis.next


@pytest.mark.parametrize(
    ("step", "ready", "words"),
    [
        ("ContainerCreating", "False", "its node a mounts its volumes and sets up its network"),
        ("ContainerCreating", "True", "its node a gets its image and makes its container"),
        ("ContainerCreating", "", "its node a prepares it: volumes, network, image"),
        ("Pulling", "True", "its node a pulls the image i:1"),
    ],
)
def test_a_container_that_is_being_created_says_what_its_node_does(
    step: str, ready: str, words: str
) -> None:
    conditions = [{"type": "PodReadyToStartContainers", "status": ready}] if ready else []
    waits = pod({"waiting": {"reason": step}}, conditions=conditions)
    waits["spec"] |= {"nodeName": "a", "containers": [{"name": "tao", "image": "i:1"}]}
    told = seen(job(), waits)
    assert (told.phase, told.reason_code) == (Phase.PENDING, Reason.PREPARING)
    assert told.reason == f"{step}: {words}"


def test_a_job_runs_once_all_of_its_ranks_do() -> None:
    half = seen(job(completions=2), pod(RUNNING), pod({"waiting": {"reason": "W"}}, rank=1))
    assert (half.phase, half.reason) == (Phase.PENDING, "1 of 2 ranks run; W")
    assert seen(job(completions=2), pod(RUNNING), pod(RUNNING, rank=1)).phase is Phase.RUNNING


def test_pods_that_a_quota_forbids_are_told_by_the_jobs_event() -> None:
    told = seen(job(), create_words='pods "x" is forbidden: exceeded quota: q')
    assert told.phase is Phase.PENDING
    diagnosis = rules.diagnose(Evidence.of_observation(told))
    assert diagnosis is not None and diagnosis.rule == "kubernetes.quota"


def test_a_suspended_job_names_its_queue() -> None:
    waiting = job()
    waiting["spec"]["suspend"] = True
    waiting["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    assert "team-a" in seen(waiting).reason


def workload(*conditions: tuple[str, str, str], **spec: Any) -> dict[str, Any]:
    told = [{"type": name, "status": is_so, "message": why} for name, is_so, why in conditions]
    return {"spec": spec, "status": {"conditions": told}}


# What Kueue 0.17.0 has written into the Workload of a job that ran when its queue was stopped.
KUEUE_STOPPED = workload(
    ("QuotaReserved", "False", "ClusterQueue all is inactive"),
    ("Evicted", "True", "The ClusterQueue is stopped"),
    ("Admitted", "False", "The workload has no reservation"),
    ("Requeued", "False", "The ClusterQueue is stopped"),
)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (workload(("QuotaReserved", "False", "no quota")), "no quota"),
        (workload(("QuotaReserved", "True", ""), ("Admitted", "False", "a check")), "a check"),
        (workload(("Evicted", "True", "old"), ("QuotaReserved", "False", "new")), "new"),
        (workload(("Evicted", "True", "deactivated"), active=False), "deactivated"),
        (KUEUE_STOPPED, "ClusterQueue all is inactive"),
        (workload(), ""),
    ],
)
def test_kueue_says_in_its_workload_why_it_does_not_start_a_job(
    said: dict[str, Any], words: str
) -> None:
    assert parse.workload_words(said) == words


# Ranks that wait for each other


def placed(rank: int, at: str = "", state: Any = None) -> dict[str, Any]:
    """A pod that has its node since then; without a time it has none."""
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    found = pod(state, rank, conditions=[scheduled if at else refused])
    return {**found, "spec": {"nodeName": "node-a"} if at else {}}


EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"


@pytest.mark.parametrize(
    ("pods", "since"),
    [
        ([placed(0, LATE), placed(1, EARLY), placed(2)], EARLY),
        ([placed(0, EARLY)], EARLY),  # the others' pods could not even be created
        ([placed(0), placed(1), placed(2)], None),
        ([placed(0, EARLY), placed(1, EARLY), placed(2, LATE)], None),
        ([placed(0, EARLY, done(0)), placed(1), placed(2)], None),
    ],
)
def test_a_job_holds_nodes_in_vain_while_only_some_of_its_ranks_have_one(
    pods: list[dict[str, Any]], since: str | None
) -> None:
    assert parse.held_since(Seen(job(completions=3), pods)) == parse.moment(since)


def test_ranks_that_cannot_find_rank_0_are_parked_before_they_fail() -> None:
    waiting = job(completions=2)
    waiting["metadata"]["annotations"] = {"tao-sdk/gang-timeout": "300"}
    assert parse.patience(Seen(waiting, [placed(0, EARLY), placed(1)])) == 300
    assert parse.patience(Seen(waiting, [placed(0), placed(1, EARLY)])) < 300


def filling(ready: int, **more: Any) -> dict[str, Any]:
    """A Job that has just been resumed, of which so many ranks run."""
    found = job(completions=2, ready=ready, startTime=utc_now().isoformat())
    found["metadata"]["annotations"] = {"tao-sdk/gang-timeout": "300"}
    return {**found, **more}


@pytest.mark.parametrize(
    ("ready", "more", "fills"),
    [
        (1, {}, True),
        (2, {}, False),
        (0, {"spec": {"suspend": True, "completions": 2}}, False),
        (1, {"status": {"ready": 1, "startTime": EARLY}}, False),  # nobody watches it
        (1, {"metadata": {"annotations": {}}}, False),
        (1, {"metadata": {"annotations": {"tao-sdk/gang-timeout": "x"}}}, True),
    ],
)
def test_a_job_is_not_resumed_while_another_ones_ranks_find_their_nodes(
    ready: int, more: dict[str, Any], fills: bool
) -> None:
    assert parking.is_filling(filling(ready, **more)) is fills


def parked(name: str = "tao-job-a") -> dict[str, Any]:
    found = job(completions=2)
    found["metadata"] |= {"name": name, "annotations": {"tao-sdk/parked-at": EARLY}}
    found["spec"]["suspend"] = True
    return found


@pytest.mark.parametrize("name", ["tao-job-a", "tao-job-a-sh"])
def test_a_parked_job_waits_until_all_its_ranks_find_room(name: str) -> None:
    told = seen(parked(name))
    assert (told.phase, told.raw) == (Phase.PENDING, "Suspended")
    assert told.reason == "it holds no node until all 2 ranks find room"


def test_two_jobs_that_were_parked_at_once_run_again_at_different_times() -> None:
    jobs = [parked() for _ in range(20)]
    for number, each in enumerate(jobs):
        each["metadata"]["uid"] = str(number)
    assert len(set(map(parking.rest_of, jobs))) > 10


def test_a_container_that_never_started_has_no_time_of_start() -> None:
    epoch = {"startedAt": "1970-01-01T00:00:00Z"}
    assert seen(job("Failed"), pod(done(128, "StartError", **epoch))).started_at is None


def test_a_time_limit_is_told_from_an_exit_code_of_the_programs_own() -> None:
    limited = job("Failed")
    limited["metadata"]["annotations"] = {"tao-sdk/time-limit": "60"}
    assert seen(limited, pod(done(124))).reason_code is Reason.TIME_LIMIT
    limited["metadata"]["annotations"] = {"tao-sdk/time-limit": "600"}
    assert seen(limited, pod(done(124))).reason_code is Reason.EXIT_CODE


def test_a_pull_that_was_given_up_is_a_failure_of_the_place_in_the_registrys_words() -> None:
    given_up = job("Failed")
    why = "dial tcp 10.0.0.1:443: i/o timeout"
    given_up["metadata"]["annotations"] = {
        "tao-sdk/pull-failed": why,
        "tao-sdk/pull-timeout": "600",
    }
    told = seen(given_up)
    assert (told.phase, told.reason_code) == (Phase.FAILED, Reason.PULL_FAILED)
    assert why in told.reason
    diagnosis = rules.diagnose(Evidence.of_observation(told))
    assert diagnosis is not None and diagnosis.retryable


@pytest.mark.parametrize(
    ("message", "unreachable"),
    [
        ("dial tcp 10.0.0.1:443: connect: connection refused", True),
        ("unexpected status from HEAD request: 503 Service Unavailable", True),
        ("401 Unauthorized", False),
        ("docker.io/library/none:1: not found", False),
    ],
)
def test_only_a_registry_that_does_not_answer_is_given_up(message: str, unreachable: bool) -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": message}}
    assert pulls.is_unreachable(seen(job(), pod(waiting))) is unreachable
