"""From a Job and its pods, as the API server returns them, to an observation. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.job.manifests import BASH, QUEUE
from tao_sdk.model import words
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.reasons import Reason
from tao_sdk.model.units import format_duration
from tao_sdk.model.words import UNEXPLAINED, Why

Object = Mapping[str, Any]

# The conditions of an ended Job, the strongest first. FailureTarget comes as soon as a pod has
# failed. Failed follows when the other pods have ended; on a lost node that may be never.
ENDS: Mapping[str, Phase] = {
    "Failed": Phase.FAILED,
    "FailureTarget": Phase.FAILED,
    "Complete": Phase.SUCCEEDED,
}
PULLING = "Pulling"  # the reason of an event: a kubelet begins to pull an image
# A container's waiting reason, or its newest event's while it is created -> ours. Others are
# QUEUED.
WAITS: Mapping[str, Reason] = {
    "ImagePullBackOff": Reason.PULL_FAILED,
    "ErrImagePull": Reason.PULL_FAILED,
    "ErrImageNeverPull": Reason.PULL_FAILED,
    "InvalidImageName": Reason.PULL_FAILED,
    "ImageInspectError": Reason.PULL_FAILED,
    "RegistryUnavailable": Reason.PULL_FAILED,
    "ContainerCreating": Reason.PREPARING,
    "PodInitializing": Reason.PREPARING,
    PULLING: Reason.PREPARING,
}
# A pod's PodReadyToStartContainers condition -> what its node does. Before 1.29 there is none.
PREPARATIONS: Mapping[str, str] = {
    "False": "mounts its volumes and sets up its network",
    "True": "gets its image and makes its container",
}
# The reason of a pod's DisruptionTarget condition -> ours.
DISRUPTIONS: Mapping[str, Reason] = {
    "PreemptionByScheduler": Reason.PREEMPTED,
    "DeletionByTaintManager": Reason.NODE_FAILED,
    "DeletionByPodGC": Reason.NODE_FAILED,
    "EvictionByEvictionAPI": Reason.EVICTED,
    "TerminationByKubelet": Reason.EVICTED,
}
# Prefixes of a pod's reason when a kubelet rejects it for the node's current state. Another pod may
# be accepted.
NO_ROOM_ON_NODE = (
    "OutOf",
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "NodeAffinity",
    "NodePorts",
    "NodeShutdown",
)
DEADLINE = "DeadlineExceeded"  # the reason of a Job, and of a pod with a deadline of its own
NOT_BEGUN = ("StartError", "ContainerCannotRun", "CreateContainerError", "RunContainerError")
NO_BASH = "its image has no /bin/bash"  # the backend words of an attempt to restart with /bin/sh
MISSING = re.compile("no such file|not found", re.IGNORECASE)
NEVER = "1970-01-01"  # the start of a container that never started
WITHOUT_RANK0 = 200.0  # seconds; scripts/start.sh gives up after 300
TIMED_OUT = (124, 137, 143)
TOLD_TO_END = (137, 143)  # exit codes of a program that SIGKILL or SIGTERM ended
LATE = timedelta(seconds=2)
LONGEST_WORDS = 4_000  # characters
LONGEST_RANK = 9  # digits
SAME_TIME = timedelta(minutes=1)  # two nodes' clocks, and a peer that fails at once


@dataclass(frozen=True)
class Seen:
    """One Job with its pods, by rank, and the reasons from events and its queue."""

    job: Object
    pods: Sequence[Object]
    create_words: str = ""  # why its pods could not be created
    queue_words: str = ""  # why its queue does not start it

    @property
    def ranks(self) -> int:
        return int(part(self.job, "spec").get("completions") or 1)


def observation(seen: Seen) -> Observation:
    """The observation of an attempt that has a Job. Quoted texts are cut to LONGEST_WORDS."""
    said = unabridged(seen)
    return replace(
        said, reason=said.reason[:LONGEST_WORDS], backend_words=said.backend_words[:LONGEST_WORDS]
    )


def unabridged(seen: Seen) -> Observation:
    if given_up := part(seen.job["metadata"], "annotations").get(names.PULL_FAILED):
        return without_image(seen.job, str(given_up))
    if lacks_bash(seen) or waits_for_let_go(seen.job):
        return without_bash()
    if is_kept_by_its_pods(seen):
        return living(seen)
    for name, phase in ENDS.items():
        found = condition(seen.job, name)
        if found is not None:
            return ended(seen, phase, found)
    return living(seen)


# The end


def ended(seen: Seen, phase: Phase, found: Object) -> Observation:
    pod = deciding_pod(seen.pods)
    if (
        pod is not None
        and phase is Phase.FAILED
        and (is_peer_of_gone(seen, pod) or was_deleted_while_it_ran(pod))
    ):
        pod = None
    done: Object = terminated(pod) if pod else {}
    why = why_ended(seen, phase, found, pod)
    raw = f"{found['type']} ({found['reason']})" if found.get("reason") else str(found["type"])
    return Observation(
        Phase.FAILED if why.code is not None else phase,
        raw,
        exit_code=exit_code(done, phase),
        reason=why.text,
        started_at=moment(done.get("startedAt")),
        ended_at=moment(done.get("finishedAt")) or moment(found.get("lastTransitionTime")),
        reason_code=why.code,
        backend_words=str(found.get("message") or ""),
    )


def without_image(job: Object, why: str) -> Observation:
    """The failure of an attempt whose image no node could pull before its pull timeout."""
    seconds = pull_timeout(job)
    limit = f" in {format_duration(timedelta(seconds=seconds))}" if math.isfinite(seconds) else ""
    text = words.sentence(Reason.PULL_FAILED, what=f"no node could pull the image{limit}: {why}")
    return Observation(
        Phase.FAILED, "pull timeout", reason=text, reason_code=Reason.PULL_FAILED, backend_words=why
    )


# An image without bash: no part of the command has run


def without_bash() -> Observation:
    return Observation(
        Phase.PENDING,
        "StartError",
        reason=f"{NO_BASH}, so it is started with /bin/sh",
        reason_code=Reason.QUEUED,
        backend_words=NO_BASH,
    )


def lacks_bash(seen: Seen) -> bool:
    """True if no rank of the Job could start, because its image has no bash."""
    others = [pod for pod in seen.pods if not misses_bash(pod)]
    return len(others) < len(seen.pods) and not any(map(has_begun, others))


def misses_bash(pod: Object) -> bool:
    """True if the pod's container could not start without the bash that it names."""
    state = container_state(pod)
    why = part(state, "terminated") or part(state, "waiting")
    return why.get("reason") in NOT_BEGUN and names_missing_bash(str(why.get("message") or ""))


def names_missing_bash(words: str) -> bool:
    """True if a container runtime's message says that it did not find bash."""
    return BASH in words and bool(MISSING.search(words))


def waits_for_let_go(job: Object) -> bool:
    """True for a second Job that no client has started yet."""
    is_queued = QUEUE in part(job["metadata"], "labels")
    is_suspended = bool(job["spec"].get("suspend")) and not is_parked(job)
    return names.is_second(job) and is_suspended and not is_queued


def pull_timeout(job: Object) -> float:
    """The pull timeout in seconds; infinite for a Job without one."""
    return noted_seconds(job, names.PULL_TIMEOUT)


def exit_code(done: Object, phase: Phase) -> int | None:
    if "exitCode" in done and done.get("reason") not in NOT_BEGUN:
        return int(done["exitCode"])
    return 0 if phase is Phase.SUCCEEDED else None


def deciding_pod(pods: Sequence[Object]) -> Object | None:
    """The pod that decides why the Job ended; None without pods.

    That is a pod that the cluster took away (its peers fail without it), else the pod that failed
    first, else the first pod.
    """
    failed = [pod for pod in pods if terminated(pod).get("exitCode")]
    first = min(failed, key=lambda pod: str(terminated(pod).get("finishedAt") or "~"), default=None)
    for pod in pods:
        if was_taken(pod) and not was_disrupted_later(pod, first):
            return pod
    if first is not None:
        return first
    return pods[0] if pods else None


def is_peer_of_gone(seen: Seen, pod: Object) -> bool:
    """True for a pod that the Job's controller deletes because another pod was taken away. That
    other pod is gone already.
    """
    return len(seen.pods) < seen.ranks and is_being_deleted(pod) and not was_taken(pod)


def was_deleted_while_it_ran(pod: Object) -> bool:
    """True for a pod that somebody deleted, and whose program ended because of that. A moment later
    the pod is gone, with its exit code.
    """
    done = terminated(pod)
    if done.get("exitCode") not in TOLD_TO_END or done.get("reason") == "OOMKilled":
        return False
    due, ended_at = moment(pod["metadata"].get("deletionTimestamp")), moment(done.get("finishedAt"))
    if due is None or ended_at is None:
        return False
    grace = timedelta(seconds=int(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
    return due - grace <= ended_at


def was_taken(pod: Object) -> bool:
    """True for a pod that the cluster ended or its kubelet rejected, or whose node is silent."""
    return bool(disruption(pod)) or is_on_silent_node(pod) or is_refused(pod)


def was_disrupted_later(pod: Object, failed: Object | None) -> bool:
    """True if the other pod had failed long before this one was taken. False for a pod on a lost
    node: the moment of the loss is not known.
    """
    if failed is None or has_lost_its_node(pod):
        return False
    failed_at = moment(terminated(failed).get("finishedAt"))
    taken_at = moment((disruption(pod) or {}).get("lastTransitionTime"))
    if is_refused(pod):
        taken_at = moment(pod["status"].get("startTime"))
    return bool(failed_at and taken_at and taken_at > failed_at + SAME_TIME)


def why_ended(seen: Seen, phase: Phase, found: Object, pod: Object | None) -> Why:
    """Why the attempt failed; UNEXPLAINED for a success."""
    if found.get("reason") == DEADLINE:
        return words.why(Reason.TIME_LIMIT, "kubernetes")
    if pod is not None:
        return why_of_pod(seen.job, pod, phase)
    if phase is Phase.SUCCEEDED:
        return UNEXPLAINED
    # A pod whose program failed stays as long as its Job. A missing pod was taken away: evicted,
    # preempted or deleted. No trace of the exact reason is left.
    what = str(found.get("message") or found.get("reason") or "no pod of it is left")
    return words.why(Reason.EVICTED, "gone", what=what)


def why_of_pod(job: Object, pod: Object, phase: Phase) -> Why:
    if disruption(pod):
        return disrupted(pod)
    by_kubelet = why_of_kubelet(pod)
    if by_kubelet is not None:
        return by_kubelet
    done = terminated(pod)
    if done:
        return why_of_container(job, done, phase)
    if phase is Phase.SUCCEEDED:
        return UNEXPLAINED
    return words.why(Reason.NODE_FAILED, "kubernetes", node=node_of(pod))


def is_refused(pod: Object) -> bool:
    """True for a pod that its kubelet rejected: it never created a container for it."""
    status = pod["status"]
    has_failed = status.get("phase") == "Failed" and bool(status.get("reason"))
    return has_failed and not container_state(pod)


def why_of_kubelet(pod: Object) -> Why | None:
    """Why a kubelet ended or rejected the whole pod; None for a pod that ended by itself."""
    reason = str(pod["status"].get("reason") or "")
    if reason == "Evicted":
        return words.why(Reason.EVICTED, what=pod_words(pod), node=node_of(pod))
    if reason == DEADLINE:
        return words.why(Reason.TIME_LIMIT, "kubernetes")
    if not is_refused(pod):
        return None
    what = f"{reason}: {pod_words(pod)}" if pod_words(pod) else reason
    if reason.startswith(NO_ROOM_ON_NODE):
        return words.why(Reason.NODE_REFUSED, node=node_of(pod), what=what)
    return words.why(Reason.NOT_STARTED, "kubernetes", node=node_of(pod), what=what)


def why_of_container(job: Object, done: Object, phase: Phase) -> Why:
    """Why a container ended. `done`: its terminated state."""
    code = int(done.get("exitCode") or 0)
    if done.get("reason") == "OOMKilled":
        return words.why(Reason.OUT_OF_MEMORY, "kubernetes")
    if done.get("reason") in NOT_BEGUN:
        return words.why(Reason.NOT_STARTED, what=str(done.get("message") or done["reason"]))
    limit = time_limit(job)
    if limit and code in TIMED_OUT and lasted(done) >= limit - min(LATE, limit / 2):
        return words.why(Reason.TIME_LIMIT, limit=format_duration(limit))
    if code:
        return words.why(Reason.EXIT_CODE, code=code)
    if phase is Phase.SUCCEEDED:
        return UNEXPLAINED
    return words.why(Reason.EXIT_UNKNOWN, "gone", what=str(done.get("message") or ""))


def disrupted(pod: Object) -> Why:
    """Why the cluster took a pod away."""
    found = disruption(pod) or {}
    code = DISRUPTIONS.get(str(found.get("reason")), Reason.EVICTED)
    if code is Reason.NODE_FAILED:
        return words.why(code, "kubernetes", node=node_of(pod))
    what = str(found.get("message") or found.get("reason") or "")
    if code is Reason.PREEMPTED:
        return words.why(code)
    return words.why(code, what=pod_words(pod) or what, node=node_of(pod))


def disruption(pod: Object) -> Object | None:
    return condition(pod, "DisruptionTarget")


def has_lost_its_node(pod: Object) -> bool:
    """True if the cluster gave up the pod because its node does not answer."""
    found = disruption(pod) or {}
    was_given_up = DISRUPTIONS.get(str(found.get("reason"))) is Reason.NODE_FAILED
    return was_given_up or (is_on_silent_node(pod) and is_being_deleted(pod))


def is_on_silent_node(pod: Object) -> bool:
    """True if the pod's node does not answer. The cluster then marks the pod not ready without a
    reason; a kubelet would give one.
    """
    ready = pod_condition(pod, "Ready") or {}
    is_not_ready = ready.get("status") == "False" and not ready.get("reason")
    return is_not_ready and "running" in container_state(pod)


def runs_undisturbed(pod: Object) -> bool:
    """True if the pod runs and nothing is about to end it. Its Job has not ended either then."""
    disturbed = is_being_deleted(pod) or disruption(pod) or is_on_silent_node(pod)
    return "running" in container_state(pod) and not disturbed


def is_being_deleted(thing: Object) -> bool:
    return bool(thing["metadata"].get("deletionTimestamp"))


# Before the end


def living(seen: Seen) -> Observation:
    if is_being_deleted(seen.job):
        return being_deleted(seen)
    if seen.job["spec"].get("suspend"):
        return suspended(seen)
    if not seen.pods:
        return without_pods(seen)
    running = [pod for pod in seen.pods if has_begun(pod)]
    if len(running) >= seen.ranks:
        started = [moment(begun_at(pod)) for pod in running]
        return Observation(
            Phase.RUNNING, "Running", started_at=max(filter(None, started), default=None)
        )
    return waiting(seen, len(running))


def being_deleted(seen: Seen) -> Observation:
    """The observation of a deleted Job, which stays until its pods are gone."""
    phase = Phase.RUNNING if seen.pods else Phase.PENDING
    return Observation(phase, "being deleted", reason=why_not_gone(seen.pods))


def is_kept_by_its_pods(seen: Seen) -> bool:
    """True for a Job that is being deleted while all its pods still run. The cluster calls such a
    Job failed because its pods were deleted.
    """
    running = ["running" in container_state(pod) for pod in seen.pods]
    return is_being_deleted(seen.job) and len(running) > 0 and all(running)


def why_not_gone(pods: Sequence[Object]) -> str:
    """Why a deleted Job is still there; "" if it waits only for the cluster."""
    left = [pod for pod in pods if "running" in container_state(pod)]
    silent = [pod for pod in left if is_on_silent_node(pod) or has_lost_its_node(pod)]
    names = ", ".join(dict.fromkeys(node_of(pod) for pod in silent or left))
    if silent:
        return f"it is being deleted, and its node {names} does not answer"
    return f"it is being deleted, and runs on at its node {names}" if left else ""


def suspended(seen: Seen) -> Observation:
    text = why_suspended(seen)
    return Observation(
        Phase.PENDING,
        "Suspended",
        reason=text,
        reason_code=Reason.QUEUED,
        backend_words=seen.queue_words,
    )


def why_suspended(seen: Seen) -> str:
    if queue := queue_of(seen.job):
        text = f"it waits in the queue {queue}"
        return f"{text}: {seen.queue_words}" if seen.queue_words else text
    if is_parked(seen.job):
        return f"it holds no node until all {seen.ranks} ranks find room"
    return "it is suspended"


def queue_of(job: Object) -> str:
    """The name of the queue that starts the Job, or ""."""
    return str(part(job["metadata"], "labels").get(QUEUE) or "")


def workload_words(workload: Object) -> str:
    """Kueue's message for a Workload that it has not admitted, or ""."""
    if not workload["spec"].get("active", True):
        return str((condition(workload, "Evicted") or {}).get("message") or "")
    waits = [pod_condition(workload, name) or {} for name in ("QuotaReserved", "Admitted")]
    told = [each.get("message") for each in waits if each.get("status") == "False"]
    return str(next(filter(None, told), ""))


# Ranks that wait for each other


def is_parked(job: Object) -> bool:
    """True if the Job is suspended because only some of its ranks found room."""
    noted = names.PARKED_AT in part(job["metadata"], "annotations")
    return noted and bool(job["spec"].get("suspend"))


def parked_at(job: Object) -> datetime | None:
    return moment(part(job["metadata"], "annotations").get(names.PARKED_AT))


def gang_timeout(job: Object) -> float:
    """The gang timeout in seconds; infinite for a Job whose ranks do not wait for each other."""
    return noted_seconds(job, names.GANG_TIMEOUT)


def noted_seconds(job: Object, name: str) -> float:
    """The seconds in an annotation of the Job; infinite if it is missing or not a number."""
    try:
        return float(part(job["metadata"], "annotations").get(name) or "inf")
    except ValueError:
        return float("inf")


def patience(seen: Seen) -> float:
    """The seconds for which ranks hold their nodes while other ranks have none. Ranks without rank
    0 fail after a while, so they have to give up their nodes before that.
    """
    has_rank0 = any(rank_of(pod) == 0 and pod["spec"].get("nodeName") for pod in seen.pods)
    limit = gang_timeout(seen.job)
    return limit if has_rank0 else min(limit, WITHOUT_RANK0)


def held_since(seen: Seen) -> datetime | None:
    """The time since which some ranks hold nodes while others have none; None if no rank waits for
    others, or a rank has ended.
    """
    placed = [pod for pod in seen.pods if pod["spec"].get("nodeName")]
    if len(placed) >= seen.ranks or any(map(terminated, placed)):
        return None
    since = [pod_condition(pod, "PodScheduled") or {} for pod in placed]
    times = [moment(each.get("lastTransitionTime")) for each in since]
    return min(filter(None, times), default=None)


def without_pods(seen: Seen) -> Observation:
    if not seen.create_words:
        return Observation(Phase.PENDING, "no pod yet")
    return Observation(
        Phase.PENDING,
        "FailedCreate",
        reason=f"its pod cannot be created: {seen.create_words}",
        reason_code=Reason.QUEUED,
        backend_words=seen.create_words,
    )


def waiting(seen: Seen, running: int) -> Observation:
    """The observation while some ranks have not started, with the reason of the first of them."""
    pod = next(pod for pod in seen.pods if not has_begun(pod)) if running < len(seen.pods) else None
    own = waiting_pod(pod) if pod is not None else without_pods(seen)
    if seen.ranks == 1:
        return own
    counted = f"{running} of {seen.ranks} ranks run"
    reason = f"{counted}; {own.reason}" if own.reason else counted
    return replace(own, reason=reason, reason_code=own.reason_code or Reason.QUEUED)


def waiting_pod(pod: Object) -> Observation:
    """The observation of a pod that has not started, with the reason."""
    name, message = readiness_issue(pod)
    code = WAITS.get(name, Reason.QUEUED)
    text = f"{name}: {message}" if message else name
    return Observation(Phase.PENDING, name, reason=text, reason_code=code, backend_words=message)


def readiness_issue(pod: Object) -> tuple[str, str]:
    """(why a pod waits, the cluster's message about it)."""
    scheduled = pod_condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        return str(scheduled.get("reason") or "Unscheduled"), str(scheduled.get("message") or "")
    waits = part(container_state(pod), "waiting")
    if waits:
        name = str(waits.get("reason") or "Waiting")
        return name, str(waits.get("message") or preparation_words(pod, name))
    if terminated(pod):
        return "Terminated", ""
    status = pod["status"]
    return str(status.get("reason") or status.get("phase") or "Pending"), pod_words(pod)


def preparation_words(pod: Object, name: str) -> str:
    """What the node does for a pod whose container waits for the reason `name`; "" for a reason
    that is no step of the node.
    """
    if name == PULLING:
        return f"its node {node_of(pod)} pulls the image {image_of_pod(pod)}"
    if WAITS.get(name) is not Reason.PREPARING:
        return ""
    is_ready = (pod_condition(pod, "PodReadyToStartContainers") or {}).get("status")
    step = PREPARATIONS.get(str(is_ready), "prepares it: volumes, network, image")
    return f"its node {node_of(pod)} {step}"


def is_unschedulable(pod: Object) -> bool:
    """True if the scheduler has found no node for the pod."""
    return (pod_condition(pod, "PodScheduled") or {}).get("reason") == "Unschedulable"


def with_more_words(pod: Object, words: str) -> Object:
    """The pod with `words` appended to the scheduler's message. A schedulable pod is unchanged."""
    if not is_unschedulable(pod):
        return pod
    said = pod_condition(pod, "PodScheduled") or {}
    more = {**said, "message": f"{said.get('message') or ''} ({words})".strip()}
    others = [each for each in pod["status"]["conditions"] if each is not said]
    return {**pod, "status": {**pod["status"], "conditions": [*others, more]}}


def waiting_for(pod: Object, reason: str, message: str) -> Object:
    """The pod with another waiting reason for its container; unchanged if `reason` is empty."""
    if not reason:
        return pod
    state = {"waiting": {"reason": reason, "message": message}}
    statuses = [{"name": names.CONTAINER, "state": state}]
    return {**pod, "status": {**pod["status"], "containerStatuses": statuses}}


def has_begun(pod: Object) -> bool:
    state = container_state(pod)
    return "running" in state or "terminated" in state


def may_have_log(pod: Object) -> bool:
    return has_begun(pod) and not misses_bash(pod)


def begun_at(pod: Object) -> str | None:
    state = container_state(pod)
    return part(state, "running" if "running" in state else "terminated").get("startedAt")


# Parts of an object


def part(thing: Object, name: str) -> Object:
    """The mapping under `name` in an object, or an empty one."""
    found: Any = thing.get(name)
    return cast("Object", found) if isinstance(found, Mapping) else {}


def condition(thing: Object, name: str) -> Object | None:
    """The condition `name` if its status is True, else None."""
    found = pod_condition(thing, name)
    return found if found is not None and found.get("status") == "True" else None


def pod_condition(thing: Object, name: str) -> Object | None:
    for found in thing.get("status", {}).get("conditions") or ():
        if found.get("type") == name:
            return found
    return None


def container_state(pod: Object) -> Object:
    for status in pod["status"].get("containerStatuses") or ():
        if status.get("name") == names.CONTAINER:
            return part(status, "state")
    return {}


def terminated(pod: Object) -> Object:
    return part(container_state(pod), "terminated")


def pod_words(pod: Object) -> str:
    return str(pod["status"].get("message") or "")


def node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "no node")


def rank_of(pod: Object) -> int:
    labels, annotations = (part(pod["metadata"], name) for name in ("labels", "annotations"))
    found = str(labels.get(names.RANK) or annotations.get(names.RANK))
    is_number = found.isascii() and found.isdigit() and len(found) <= LONGEST_RANK
    return int(found) if is_number else 0


def image_of(job: Object) -> str:
    """The image of the command's container; "" if the Job has no such container."""
    return image_of_pod(part(part(job, "spec"), "template"))


def image_of_pod(pod: Object) -> str:
    """The image of the command's container; "" if the pod, or template, has no such container."""
    spec = part(pod, "spec")
    containers = [each for each in spec.get("containers") or () if each["name"] == names.CONTAINER]
    return str(containers[0].get("image") or "") if containers else ""


def pods_of_job(job: Object, pods: Sequence[Object]) -> list[Object]:
    """The pods that this Job made, one a rank, in order of ranks."""
    uid = job["metadata"]["uid"]
    return by_rank([pod for pod in pods if uid in owners_of(pod)])


def job_of_pods(pods: Sequence[Object]) -> Object | None:
    """A Job object built from the pods' owner references; None if they do not have one owner."""
    owners = [owner for pod in pods for owner in pod["metadata"].get("ownerReferences") or ()]
    owned = {(owner["name"], owner["uid"]) for owner in owners if owner.get("kind") == "Job"}
    if len(owned) != 1:
        return None
    [(name, uid)] = owned
    metadata = {"name": name, "uid": uid, "namespace": pods[0]["metadata"]["namespace"]}
    return {"metadata": metadata, "spec": {"completions": len(pods)}, "status": {}}


def is_made_by(pod: Object, jobs: Sequence[str]) -> bool:
    """True if a Job with one of these names made the pod. Labels do not prove it: anybody may set
    them.
    """
    owners: Sequence[Object] = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") == "Job" and owner.get("name") in jobs for owner in owners)


def owners_of(thing: Object) -> list[str]:
    """The uids of the object's owners."""
    return [owner["uid"] for owner in thing["metadata"].get("ownerReferences") or ()]


def by_rank(pods: Sequence[Object]) -> list[Object]:
    """The newest pod of each rank, in order of ranks.

    A pod that misses bash counts only while its rank has no other pod.
    """
    newest: dict[int, Object] = {}
    for pod in sorted(pods, key=age_of):
        newest[rank_of(pod)] = pod
    return [newest[rank] for rank in sorted(newest)]


def age_of(pod: Object) -> tuple[bool, str]:
    """A sort key: larger for a newer pod, smallest for a pod that misses bash."""
    return not misses_bash(pod), str(pod["metadata"].get("creationTimestamp"))


def time_limit(job: Object) -> timedelta | None:
    text = part(job["metadata"], "annotations").get(names.TIME_LIMIT)
    return timedelta(seconds=float(text)) if text else None


def lasted(done: Object) -> timedelta:
    started, finished = moment(done.get("startedAt")), moment(done.get("finishedAt"))
    return finished - started if started and finished else timedelta(0)


def moment(text: Any) -> datetime | None:
    """Parse a Kubernetes timestamp, in UTC; None if there is none or it is not one."""
    if not text or str(text).startswith(NEVER):
        return None
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
