"""What each of the cluster's words for a job that waits or has failed is taken for, and what is advised."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tao_sdk.backends.kubernetes import rules
from tao_sdk.backends.kubernetes.job.manifests import registry_of
from tao_sdk.model.diagnosis import Diagnosis, Evidence, NodeEvent
from tao_sdk.model.reasons import Reason

POD = 'pods "tao-job-a-" is forbidden'
# What Kubernetes 1.36 says where it does not create a pod -> the rule that knows it.
REFUSED_PODS = {
    f"{POD}: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2": "quota",
    f"{POD}: failed quota: q: must specify limits.cpu for: tao": "quota_asks",
    f"{POD}: maximum memory usage per Container is 1Gi, but limit is 2Gi": "limit_range",
    f"{POD}: minimum cpu usage per Pod is 1, but request is 100m": "limit_range",
    f"{POD}: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000": (
        "limit_range"
    ),
    'Pod "tao-job-a-x" is invalid: spec.containers[0].resources.requests: Invalid value: "4": '
    "must be less than or equal to cpu limit of 2": "limit_range",
    f'{POD}: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
    '(container "tao" must set securityContext.allowPrivilegeEscalation=false)': "pod_security",
    f'{POD}: violates PodSecurity "baseline:latest": hostPath volumes (volume "mount-0")': (
        "pod_security"
    ),
    'admission webhook "a.b.c" denied the request: no team label': "webhook",
    f"{POD}: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no": "webhook",
    'Internal error occurred: failed calling webhook "a.b.c": failed to call webhook: Post '
    '"https://a.b.svc:443/?timeout=5s": service "a" not found': "webhook_down",
    f'{POD}: error looking up service account ns/me: serviceaccount "me" not found': "unknown_name",
    f"{POD}: no PriorityClass with name high was found": "unknown_name",
    f'{POD}: pod rejected: RuntimeClass "nvidia" not found': "unknown_name",
    f"{POD}: unable to validate against any security context constraint": "not_created",
    'Pod "tao-job-a-x" is invalid: spec.hostname: Invalid value: "A_B"': "not_created",
}
# What a kubelet or a scheduler says of a pod that is there.
STUCK_PODS = {
    "couldn't find key token in Secret ns/login": "no_key",
    "couldn't find key token in ConfigMap ns/settings": "no_key",
    'MountVolume.SetUp failed for volume "a" : references non-existent secret key: b': "no_key",
    'secret "login" not found': "no_secret",
    'configmap "settings" not found': "no_secret",
    'persistentvolumeclaim "data" not found': "no_claim",
    "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.": "no_claim",
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.": "unschedulable",
    # Of Kueue 0.17.0.
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor any, "
    "previously considered podsets requests (0) + current podset request (5) > maximum capacity "
    "(4)": "queue_too_small",
    "ClusterQueue all is inactive": "queue_stopped",
    "LocalQueue team doesn't exist": "queue_stopped",
}


# What is known of an attempt that waits for its image, or that has ended -> the rule that knows it.
OTHERS = {
    "oom": Evidence("failed", reason="OOMKilled", reason_code=Reason.OUT_OF_MEMORY),
    "evicted": Evidence("failed", reason="low on memory", reason_code=Reason.EVICTED),
    "preempted": Evidence("failed", reason_code=Reason.PREEMPTED),
    "node_lost": Evidence("failed", reason="node a was lost", reason_code=Reason.NODE_FAILED),
    "node_refused": Evidence("failed", reason="OutOfcpu", reason_code=Reason.NODE_REFUSED),
    "no_rank_0": Evidence("failed", runner=({"event": "failed", "code": "start.no_rank_0"},)),
    "no_shell": Evidence(
        "failed",
        reason_code=Reason.NOT_STARTED,
        events=(NodeEvent("StartError", "stat /bin/sh: no such file or directory"),),
    ),
    "not_started": Evidence("failed", reason="exec: permission", reason_code=Reason.NOT_STARTED),
    "deadline": Evidence("failed", reason_code=Reason.TIME_LIMIT),
    "pull_login": Evidence(
        "pending", reason_code=Reason.PULL_FAILED, backend_words="401 Unauthorized"
    ),
    "no_image": Evidence(
        "pending", reason_code=Reason.PULL_FAILED, backend_words="registry.test/a:9: not found"
    ),
    "plain_registry": Evidence(
        "pending",
        reason_code=Reason.PULL_FAILED,
        backend_words="http: server gave HTTP response to HTTPS client",
    ),
    "pull": Evidence(
        "pending", reason_code=Reason.PULL_FAILED, backend_words="dial tcp: i/o timeout"
    ),
    "mount": Evidence("pending", events=(NodeEvent("FailedMount", "no such host"),)),
    "queue": Evidence("pending", reason="it waits in a queue", reason_code=Reason.QUEUED),
    "preparing": Evidence("pending", reason="it is prepared", reason_code=Reason.PREPARING),
    # Its volumes were mounted late, which is over.
    "pulling": Evidence(
        "pending",
        reason="its node a pulls the image i",
        reason_code=Reason.PREPARING,
        events=(NodeEvent("Pulling", "i"), NodeEvent("FailedMount", "timed out")),
    ),
    "sandbox": Evidence("pending", events=(NodeEvent("FailedCreatePodSandBox", "cni failed"),)),
}


def waiting(words: str, *events: tuple[str, str]) -> Evidence:
    """Of a job that waits, in the cluster's words."""
    return Evidence(
        "pending",
        "waiting",
        reason=f"it waits: {words}",
        reason_code=Reason.QUEUED,
        backend_words=words,
        events=tuple(NodeEvent(*event) for event in events),
    )


def diagnosed(evidence: Evidence) -> Diagnosis:
    found = rules.diagnose(evidence)
    assert found is not None
    return found


@pytest.mark.parametrize(("words", "rule"), [*REFUSED_PODS.items(), *STUCK_PODS.items()])
def test_a_job_that_waits_in_vain_is_told_what_to_change(words: str, rule: str) -> None:
    """Who may see a Job's events alone, of which some pods are there, reads the same."""
    event = "FailedCreate" if words in REFUSED_PODS else "Failed"
    for evidence in (waiting(words), waiting("", (event, f"Error creating: {words}"))):
        found = diagnosed(evidence)
        assert found.rule == f"kubernetes.{rule}"
        assert found.next != "Wait."
        assert words in found.what


@pytest.mark.parametrize("rule", OTHERS)
def test_a_reason_or_an_event_is_explained_by_its_rule(rule: str) -> None:
    assert diagnosed(OTHERS[rule]).rule == f"kubernetes.{rule}"


def test_no_rule_is_without_words_that_reach_it() -> None:
    tried = {*REFUSED_PODS.values(), *STUCK_PODS.values(), *OTHERS}
    assert {f"kubernetes.{rule}" for rule in tried} == {rule.code for rule in rules.RULES}


@pytest.mark.parametrize("words", REFUSED_PODS)
def test_what_the_cluster_refuses_at_once_has_the_same_advice(words: str) -> None:
    evidence = replace(waiting(words), names={"namespace": "team"})
    assert rules.refused(words, "team").next == diagnosed(evidence).next


def test_a_path_of_the_node_that_the_namespace_forbids_is_better_a_claim() -> None:
    [words] = [words for words in REFUSED_PODS if "hostPath" in words]
    assert "pvc://" in diagnosed(waiting(words)).next


@pytest.mark.parametrize(
    ("image", "login"),
    [
        ("nvcr.io/team/a:1", "nvcr.io --docker-username='$oauthtoken' --docker-password=$NGC_KEY"),
        ("ghcr.io/team/a:1", "ghcr.io --docker-username=USER --docker-password=PASSWORD"),
        ("team/a:1", "https://index.docker.io/v1/ --docker-username=USER"),
    ],
)
def test_a_registry_that_wants_a_login_is_the_one_of_the_advice(image: str, login: str) -> None:
    refused = Evidence("pending", reason_code=Reason.PULL_FAILED, backend_words="401 Unauthorized")
    names = rules.names_for(registry_of(image), "team")
    found = diagnosed(replace(refused, names=names))
    assert found.rule == "kubernetes.pull_login"
    assert f"--docker-server={login}" in found.next
    assert found.next.startswith("Log in here (docker login")
    assert found.next.endswith("-n team")


def test_a_queue_that_has_no_room_yet_is_waited_for() -> None:
    assert diagnosed(waiting("insufficient unused quota in ClusterQueue")).next == "Wait."


@pytest.mark.parametrize(
    "event",
    [
        ("FailedScheduling", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
        ("FailedCreate", f"Error creating: {POD}: exceeded quota: q"),
        ("FailedMount", 'MountVolume.SetUp failed : configmap "kube-root-ca.crt" not found'),
    ],
)
def test_what_a_job_waited_for_once_is_not_why_its_program_failed(event: tuple[str, str]) -> None:
    failed = Evidence(
        "failed",
        "Failed (BackoffLimitExceeded)",
        exit_code=1,
        reason="exit code 1",
        reason_code=Reason.EXIT_CODE,
        events=(NodeEvent("Error", "exit code 1 on a"), NodeEvent(*event)),
    )
    assert rules.diagnose(failed) is None
