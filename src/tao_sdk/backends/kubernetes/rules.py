"""Diagnosis rules for failures that only Kubernetes causes. They run before the general rules.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tao_sdk.backends.kubernetes.job.manifests import create_secret, secret_name
from tao_sdk.backends.kubernetes.parse import PULLING
from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence
from tao_sdk.model.errors import Refused
from tao_sdk.model.reasons import Reason
from tao_sdk.model.rule import (
    Condition,
    Rule,
    all_of,
    any_of,
    backend_says,
    event_named,
    first_match,
    reason_is,
    runner_failed,
)

INFRA, PROGRAM, USER = ErrClass.INFRA, ErrClass.PROGRAM, ErrClass.USER


def while_waiting(condition: Condition) -> Condition:
    """The condition, but blind to events once the attempt has ended: by then the events only show
    an earlier wait.
    """

    def seen(evidence: Evidence) -> str | None:
        return condition(evidence if evidence.waits else replace(evidence, events=()))

    return seen


def cluster_says(*patterns: str) -> Condition:
    """True if the cluster's message on a waiting or refused attempt matches one of the patterns."""
    return while_waiting(backend_says(*patterns))


NO_CLUSTER_ROOM = while_waiting(event_named("FailedScheduling", "Unschedulable"))
# The start of the API server's message for a pod that it rejects.
NOT_TAKEN = r'"[^"]*" is (forbidden|invalid):'
NO_SHELL = r"/bin/sh\b.*(no such file|not found)"
PULL = reason_is(Reason.PULL_FAILED)

RULES: Sequence[Rule] = (
    Rule(
        code="kubernetes.oom",
        when=any_of(reason_is(Reason.OUT_OF_MEMORY), event_named("OOMKilled")),
        what="Container OOM-killed: its memory{limit} ran out.",
        fault=PROGRAM,
        next="Container OOM-killed. Reduce batch size, or ask for more memory (--memory 64g).",
        limit="memory",
        after="it is given more",
    ),
    Rule(
        code="kubernetes.evicted",
        when=reason_is(Reason.EVICTED),
        what="The cluster took the pod off its node: {seen}.",
        fault=INFRA,
        next="Submit it again, or with --retries 3; cpus and memory that are asked for protect it.",
        retryable=True,
    ),
    Rule(
        code="kubernetes.preempted",
        when=reason_is(Reason.PREEMPTED),
        what="A pod of higher priority took the place of the job's.",
        fault=INFRA,
        next="Submit it again, or with --retries 3; priority_class gives it a higher priority.",
        retryable=True,
    ),
    Rule(
        code="kubernetes.node_lost",
        when=reason_is(Reason.NODE_FAILED),
        what="A node of the job was lost: {seen}.",
        fault=INFRA,
        next="Submit it again, or with --retries 3, so that a watcher starts it elsewhere.",
        retryable=True,
    ),
    Rule(
        code="kubernetes.node_refused",
        when=reason_is(Reason.NODE_REFUSED),
        what="What a node has changed after it was chosen: {seen}",
        fault=INFRA,
        next="Submit it again, or with --retries 3, so that a watcher starts it elsewhere.",
        retryable=True,
    ),
    Rule(
        code="kubernetes.no_rank_0",
        when=runner_failed("start.no_rank_0"),
        what="{seen}",
        fault=INFRA,
        next="See whether the cluster's DNS works (tao doctor kubernetes), and whether rank 0 ran.",
        retryable=True,
    ),
    Rule(
        code="kubernetes.no_shell",
        when=all_of(reason_is(Reason.NOT_STARTED), backend_says(NO_SHELL)),
        what="The image has neither /bin/bash nor /bin/sh, and nothing was run: {seen}",
        fault=USER,
        next="Use an image with a shell.",
        after="the image has one",
    ),
    Rule(
        code="kubernetes.not_started",
        when=reason_is(Reason.NOT_STARTED),
        what="{seen}",
        fault=USER,
        next="Look at what its words name: the image, the command, or what the node does not take.",
        after="that is mended",
    ),
    Rule(
        code="kubernetes.deadline",
        when=reason_is(Reason.TIME_LIMIT),
        what="The job reached its time limit{limit}.",
        fault=USER,
        next="Give it more (--time-limit).",
        limit="time_limit",
        after="it is given more time",
    ),
    Rule(
        code="kubernetes.pull_login",
        when=all_of(
            PULL,
            backend_says("401|403|unauthorized|denied|authentication required|no basic auth"),
        ),
        what="The registry does not let the cluster have the image: {seen}",
        fault=USER,
        next=(
            "Log in here (docker login REGISTRY, or NGC_KEY for nvcr.io) and submit again: your "
            "login goes into a Secret of the job. Or create a secret with the log-in and name it "
            "(--image-pull-secret): {create_secret}"
        ),
        after="the cluster can log in",
    ),
    Rule(
        code="kubernetes.no_image",
        when=all_of(
            PULL, backend_says("not found|manifest unknown|InvalidImageName|invalid reference")
        ),
        what="There is no such image: {seen}",
        fault=USER,
        next="Correct the image's name or tag.",
        after="the name is corrected",
    ),
    Rule(
        code="kubernetes.plain_registry",
        when=all_of(PULL, backend_says("gave HTTP response to HTTPS client")),
        what="The registry speaks http, and the nodes ask by https: {seen}",
        fault=USER,
        next=(
            "Waiting does not help. Use a registry with https, or ask who runs the cluster to let "
            "the nodes' containerd use this one without (hosts.toml)."
        ),
        after="the nodes may use it so",
    ),
    Rule(
        code="kubernetes.pull",
        when=PULL,
        what="The image cannot be pulled: {seen}",
        fault=INFRA,
        next=(
            "See whether the nodes reach the registry; the cluster goes on trying. An image that "
            "is on this machine alone has to be pushed to a registry that they reach."
        ),
        retryable=True,
    ),
    Rule(
        code="kubernetes.pulling",
        when=all_of(event_named(PULLING), reason_is(Reason.PREPARING)),
        what="{seen}",
        fault=INFRA,
        next="Wait: a large image takes minutes. A node that has the image starts at once.",
        after="the image is there",
    ),
    Rule(
        code="kubernetes.preparing",
        when=reason_is(Reason.PREPARING),
        what="{seen}",
        fault=INFRA,
        next=(
            "If it takes more than a minute, see what its node says: "
            "kubectl describe pods -l tao-sdk-job-id={job} -n {namespace}"
        ),
        after="its node has prepared it",
    ),
    Rule(
        code="kubernetes.quota_asks",
        when=cluster_says("failed quota: .*must specify"),
        what="The namespace's quota counts what the job does not ask for: {seen}",
        fault=USER,
        next="Ask for what its words name: --cpus, --memory, or resources for anything else.",
        after="the job asks for it",
    ),
    Rule(
        code="kubernetes.quota",
        when=cluster_says("exceeded quota"),
        what="The namespace's quota is used up: {seen}",
        fault=USER,
        next="Wait, or ask for less, or for a larger quota: kubectl describe quota -n {namespace}",
        after="there is room in the quota",
    ),
    Rule(
        code="kubernetes.limit_range",
        when=cluster_says(
            "(maximum|minimum) .* usage per",
            "max limit to request ratio",
            r"must be less than or equal to \S+ limit",
            "LimitRange",
        ),
        what="The namespace's limits do not allow the pod: {seen}",
        fault=USER,
        next="Ask for what they allow: kubectl describe limitrange -n {namespace}",
        after="it asks for what they allow",
    ),
    Rule(
        code="kubernetes.pod_security",
        when=cluster_says("violates PodSecurity"),
        what="The namespace's pod security level does not allow the pod: {seen}",
        fault=USER,
        next=(
            "Set the securityContext that its words name (native), and mount a claim "
            "(pvc://claim:/place) instead of a folder of the node. Or use another namespace "
            "(--namespace)."
        ),
        after="the pod keeps to that level",
    ),
    Rule(
        code="kubernetes.webhook_down",
        when=cluster_says("failed calling webhook", "failed to call webhook"),
        what="A webhook that the cluster asks about each pod does not answer: {seen}",
        fault=INFRA,
        next="Tell who runs the cluster. A job that is there is tried again by the cluster.",
        after="the webhook answers",
    ),
    Rule(
        code="kubernetes.webhook",
        when=cluster_says("admission webhook", "admission ?policy"),
        what="A rule of the cluster does not allow the pod: {seen}",
        fault=USER,
        next="Do what its words say, or ask who runs the cluster.",
        after="the pod keeps the rule",
    ),
    Rule(
        code="kubernetes.no_claim",
        when=cluster_says(
            "unbound immediate PersistentVolumeClaims", "persistentvolumeclaim .* not found"
        ),
        what="A claim that the job mounts has no volume: {seen}",
        fault=USER,
        next="See what it waits for: kubectl describe pvc -n {namespace}",
        after="the claim is bound",
    ),
    Rule(
        code="kubernetes.no_key",
        when=cluster_says(
            "couldn't find key .* in (Secret|ConfigMap)", "non-existent (secret|config) key"
        ),
        what="A Secret or ConfigMap lacks a key that the pod names: {seen}",
        fault=USER,
        next="Add the key, or correct its name: kubectl describe secret,configmap -n {namespace}",
        after="the key is there",
    ),
    Rule(
        code="kubernetes.no_secret",
        when=cluster_says(r'secret "[^"]+" not found', r'configmap "[^"]+" not found'),
        what="Something that the pod names is not there: {seen}",
        fault=USER,
        next="Create it in the job's namespace, or correct the name.",
        after="it is there",
    ),
    Rule(
        code="kubernetes.unknown_name",
        when=cluster_says(
            r'serviceaccount "[^"]*" not found',
            "no PriorityClass with name",
            r'RuntimeClass "[^"]*" not found',
        ),
        what="The cluster does not know a name that the pod uses: {seen}",
        fault=USER,
        next=(
            "Correct service_account, priority_class or the runtimeClassName (native): "
            "kubectl get serviceaccounts,priorityclasses,runtimeclasses -n {namespace}"
        ),
        after="the cluster knows it",
    ),
    Rule(
        code="kubernetes.mount",
        when=while_waiting(event_named("FailedMount", "FailedAttachVolume")),
        what="A volume of the job cannot be mounted: {seen}",
        fault=USER,
        next=(
            "See what its words name: the claim (kubectl describe pvc -n {namespace}), or the NFS "
            "server."
        ),
        after="the volume can be mounted",
    ),
    Rule(
        code="kubernetes.sandbox",
        when=while_waiting(event_named("FailedCreatePodSandBox")),
        what="A node cannot set up the pod's network: {seen}",
        fault=INFRA,
        next=(
            "Tell who runs the cluster what its words name, such as the network plugin. The "
            "cluster goes on trying; node_selector keeps the next job off that node."
        ),
        after="the node is mended",
    ),
    Rule(
        code="kubernetes.unschedulable",
        when=any_of(NO_CLUSTER_ROOM, cluster_says("nodes are available")),
        what="No node can take the pod now: {seen}",
        fault=INFRA,
        next="Wait, or ask for less; change node_selector or tolerations where they are named.",
        after="a node has room",
    ),
    Rule(
        code="kubernetes.not_created",
        when=cluster_says(NOT_TAKEN, "^FailedCreate: .*not found"),
        what="The cluster does not take the pod: {seen}",
        fault=USER,
        next="Change what its words name, or ask who runs the cluster.",
        after="that is changed",
    ),
    Rule(
        code="kubernetes.queue_too_small",
        when=cluster_says(r"insufficient quota .*> maximum capacity"),
        what="The queue never has room for the job: {seen}",
        fault=USER,
        next="Ask for less, or for a larger quota of the queue: kubectl get clusterqueues -o yaml",
        after="the queue's quota holds it",
    ),
    Rule(
        code="kubernetes.queue_stopped",
        when=cluster_says(r"(Cluster|Local)Queue .*(is inactive|is stopped|doesn't exist)"),
        what="The queue takes no job now: {seen}",
        fault=INFRA,
        next="Ask who runs the cluster, or name another: kubectl get localqueues -n {namespace}",
        after="the queue takes jobs",
    ),
    Rule(
        code="kubernetes.queue",
        when=reason_is(Reason.QUEUED),
        what="{seen}",
        fault=INFRA,
        next="Wait.",
        after="the cluster has room",
    ),
)


def diagnose(evidence: Evidence) -> Diagnosis | None:
    names = {**names_for("REGISTRY", "NAMESPACE"), **evidence.names}
    return first_match(RULES, replace(evidence, names=names))


def names_for(registry: str, namespace: str) -> dict[str, str]:
    """The values for the placeholders in the rules' advice."""
    command = create_secret(registry, namespace, secret_name(registry))
    return {"namespace": namespace, "create_secret": command}


def refused(words: str, namespace: str) -> Refused:
    """The error for a refusal of the API server, with advice."""
    error = Refused("The cluster refused the job.", words, advice_on(words, namespace))
    error.backend_words = words
    return error


def advice_on(refusal: str, namespace: str) -> str:
    """The advice for a refusal of the API server; "" if no rule matches it."""
    evidence = Evidence(backend_words=refusal, names={"namespace": namespace})
    found = first_match(OF_REFUSALS, evidence)
    return found.next if found else ""


NAMES_OF_REFUSALS = (
    "kubernetes.quota_asks",
    "kubernetes.quota",
    "kubernetes.limit_range",
    "kubernetes.pod_security",
    "kubernetes.webhook_down",
    "kubernetes.webhook",
    "kubernetes.unknown_name",
    "kubernetes.not_created",
)
OF_REFUSALS = [rule for rule in RULES if rule.code in NAMES_OF_REFUSALS]
