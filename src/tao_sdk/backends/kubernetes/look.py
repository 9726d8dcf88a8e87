"""Read the Jobs and pods of attempts, with two lists a namespace for any number of attempts.

Here too: patching a Job, and reading its events and Workloads. Not here: what they mean (parse.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from tao_sdk.backends.asking import ask_side_by_side
from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.model import words
from tao_sdk.model.clock import utc_now
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.transports.kube import MERGE, Kube, KubeError

ABSENT = Observation(Phase.ABSENT, "no such Job")
MOST_EVENTS = 500  # read from one query
MOST_ASKED = 8  # objects whose events are queried one by one
MOUNT_SECONDS = 15.0  # after a pod has its node: its volumes may take this long to mount
# The events of a kubelet while a container is created. The newest of TOLD_STEPS says what the pod
# waits for; after one of PASSED_STEPS the pod's status says enough.
TOLD_STEPS = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", parse.PULLING)
PASSED_STEPS = ("Pulled", "Created", "Started")
KUEUE = "kueue.x-k8s.io"
KUEUE_VERSIONS = ("v1beta1", "v1beta2")
First, Second = TypeVar("First"), TypeVar("Second")
LONGEST_EVENT = 4 * 1024 * 1024  # bytes of one object that a watch sends


def jobs_path(namespace: str, name: str = "") -> str:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    return f"{path}/{name}" if name else path


def core_path(namespace: str, kind: str, name: str = "") -> str:
    path = f"/api/v1/namespaces/{namespace}/{kind}"
    return f"{path}/{name}" if name else path


def get_job(kube: Kube, namespace: str, name: str) -> Object | None:
    return get(kube, jobs_path(namespace, name))


def patch_job(kube: Kube, job: Object, metadata: Object, spec: Object) -> Object:
    """Merge `metadata` and `spec` into the Job and return it. Raises KubeError(409) if its uid is
    not that of `job`, or if `metadata` has a resourceVersion that is not the newest.
    """
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    patch = {"metadata": {**metadata, "uid": uid}, "spec": spec}
    path = jobs_path(job["metadata"]["namespace"], name)
    return kube.ask("PATCH", path, patch, content_type=MERGE)


def find_job(kube: Kube, namespace: str, attempt: Attempt) -> Object | None:
    """The attempt's Job, or the Job that took its place; None if there is neither."""
    first = names.job_name(attempt)
    for name in (first, names.second_name(first)):
        job = get_job(kube, namespace, name)
        if job is not None and names.is_of(job, attempt):
            return job
    return None


def get(kube: Kube, path: str) -> Object | None:
    """The object at a path; None if the server answers 404."""
    try:
        return kube.ask("GET", path)
    except KubeError as error:
        if error.status == 404:
            return None
        raise


def items(kube: Kube, path: str, **params: Any) -> list[Object]:
    """All objects of a kind. Parameters without a value are left out."""
    given = {name: value for name, value in params.items() if value}
    return kube.list(path, given).get("items") or []


def pods_of(
    kube: Kube, namespace: str, attempt: Attempt, job: Object | None = None
) -> list[Object]:
    """The pods of one attempt, one a rank. With `job`, only the pods that this Job made."""
    own = all_pods_of(kube, namespace, attempt)
    return parse.by_rank(own) if job is None else parse.pods_of_job(job, own)


def all_pods_of(kube: Kube, namespace: str, attempt: Attempt) -> list[Object]:
    """The pods of one attempt, of either of its Jobs."""
    found = items(kube, core_path(namespace, "pods"), labelSelector=selector_of(attempt))
    first = names.job_name(attempt)
    made = (first, names.second_name(first))
    return [pod for pod in found if names.is_of(pod, attempt) and parse.is_made_by(pod, made)]


def selector_of(attempt: Attempt) -> str:
    """The label selector that matches every object of an attempt."""
    return f"{names.JOB_ID}={attempt.job_id},{names.ATTEMPT}={attempt.number}"


def see(kube: Kube, ref: Ref) -> Seen | None:
    """One attempt's Job and pods; None without a Job."""
    job = find_job(kube, ref.namespace, ref.attempt)
    if job is None:
        return None
    found = pods_of(kube, ref.namespace, ref.attempt, job)
    pods = with_step_words(kube, ref.namespace, found)
    return seen_of(job, pods, said_of(kube, ref.namespace, [] if pods else [job]))


def look(kube: Kube, refs: Sequence[Ref]) -> dict[Ref, Seen | None]:
    """The Job and pods of each attempt; None for an attempt without a Job."""
    groups: dict[str, list[Ref]] = defaultdict(list)
    for ref in refs:
        groups[ref.namespace].append(ref)
    found: dict[Ref, Seen | None] = {}
    for namespace, group in groups.items():
        found |= look_at_namespace(kube, namespace, group)
    return found


def look_at_namespace(kube: Kube, namespace: str, refs: Sequence[Ref]) -> dict[Ref, Seen | None]:
    if len(refs) == 1:
        return {refs[0]: see(kube, refs[0])}
    list_all = partial(items, kube, labelSelector=store_selector(refs))
    pods_path = core_path(namespace, "pods")
    jobs, pods = ask_side_by_side(list_all, [jobs_path(namespace), pods_path])
    if Lists(refs, jobs, pods).pods_are_older:
        pods = list_all(pods_path)
    lists = Lists(refs, jobs, with_step_words(kube, namespace, pods))
    return seen_in_lists(kube, namespace, lists)


def observations(kube: Kube, found: Mapping[Ref, Seen | None]) -> dict[Ref, Observation]:
    """The observation of each attempt of a look, with or without a Job."""
    missing: dict[str, list[Ref]] = defaultdict(list)
    answers: dict[Ref, Observation] = {}
    for ref, seen in found.items():
        if seen is None:
            missing[ref.namespace].append(ref)
        else:
            answers[ref] = parse_safely(seen)
    for namespace, refs in missing.items():
        answers |= absent(kube, namespace, refs)
    return answers


def absent(kube: Kube, namespace: str, refs: Sequence[Ref]) -> dict[Ref, Observation]:
    """The observation of each attempt without a Job. If the attempt is older than its ttl, the
    ttl removed the Job, and the attempt ended before `ended_by`: now minus the ttl. An attempt
    that was seen alive after that moment was not removed by its ttl.
    """
    now = utc_now()
    expired = [ref for ref in refs if is_expired(ref, now)]
    no_bash = pods_without_bash(kube, namespace) if expired else []
    answers = dict.fromkeys(refs, replace(ABSENT, seen_at=now))
    for ref in expired:
        reason = words.sentence(Reason.REMOVED_OUTSIDE, "ttl")
        if any(pod.startswith(f"{ref.native_id}-") for pod in no_bash):
            reason = f"{reason}; {parse.NO_BASH}, and nobody could start it with /bin/sh in time"
        ended_by = now - timedelta(seconds=ref.details["ttl"])
        answers[ref] = replace(ABSENT, seen_at=now, reason=reason, ended_by=ended_by)
    return answers


def is_expired(ref: Ref, now: datetime) -> bool:
    """True if the attempt's Job may have been removed by its ttl."""
    created = parse.moment(ref.details.get("created"))
    ttl = ref.details.get("ttl")
    return created is not None and ttl is not None and now >= created + timedelta(seconds=ttl)


def pods_without_bash(kube: Kube, namespace: str) -> list[str]:
    """The names of pods that could not start for want of bash, deleted pods too. None if the role
    may not list events.
    """
    selector = "involvedObject.kind=Pod,reason=Failed"
    path = core_path(namespace, "events")
    try:
        events = items(kube, path, fieldSelector=selector, limit=MOST_EVENTS)
    except KubeError:  # the role may not list them
        return []
    failed = (event for event in events if parse.names_missing_bash(str(event.get("message"))))
    return [str(event.get("involvedObject", {}).get("name")) for event in failed]


def store_selector(refs: Iterable[Ref]) -> str:
    stores = {ref.attempt.store_id for ref in refs}
    return f"{names.STORE}={stores.pop()}" if len(stores) == 1 else names.OURS


class Lists:
    """The Jobs and pods of a namespace, matched to the attempts in `refs`."""

    def __init__(self, refs: Sequence[Ref], jobs: Sequence[Object], pods: Sequence[Object]) -> None:
        by_name = {job["metadata"]["name"]: job for job in jobs}
        self.jobs = {ref: pick_job(by_name, ref.attempt) for ref in refs}
        self._of_attempt: dict[tuple[str, ...], list[Object]] = defaultdict(list)
        for pod in pods:
            self._of_attempt[key_of(pod)].append(pod)

    def pods_of(self, job: Object) -> list[Object]:
        return parse.pods_of_job(job, self._of_attempt[key_of(job)])

    @property
    def pods_are_older(self) -> bool:
        """True if a Job has ended and its pods, listed at the same time, had not. Without a new
        list of pods, how they ended would be missed for good.
        """
        ended = [job for job in self.jobs.values() if job is not None and has_end(job)]
        return any(not all(map(parse.terminated, self.pods_of(job) or [{}])) for job in ended)


def seen_in_lists(kube: Kube, namespace: str, lists: Lists) -> dict[Ref, Seen | None]:
    jobs = {ref: job for ref, job in lists.jobs.items() if job is not None}
    pods_of = {ref: lists.pods_of(job) for ref, job in jobs.items()}
    said = said_of(kube, namespace, [job for ref, job in jobs.items() if not pods_of[ref]])
    seen = {ref: seen_of(job, pods_of[ref], said) for ref, job in jobs.items()}
    return {ref: seen.get(ref) for ref in lists.jobs}


def pick_job(by_name: Mapping[str, Object], attempt: Attempt) -> Object | None:
    """Like find_job, among listed Jobs."""
    first = names.job_name(attempt)
    found = (by_name.get(name) for name in (first, names.second_name(first)))
    return next((job for job in found if job is not None and names.is_of(job, attempt)), None)


def key_of(thing: Object) -> tuple[str, ...]:
    labels: Mapping[str, str] = thing["metadata"].get("labels") or {}
    return tuple(labels.get(name, "") for name in (names.JOB_ID, names.ATTEMPT, names.STORE))


def parse_safely(seen: Seen) -> Observation:
    """The observation; UNREACHABLE for objects that cannot be parsed, so that one bad Job does
    not spoil the answers about others.
    """
    try:
        return parse.observation(seen)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = (
            f"what the cluster says of it cannot be understood ({type(error).__name__}: {error})"
        )
        return Observation(Phase.UNREACHABLE, "", reason=reason)


@dataclass(frozen=True)
class Said:
    """Why Jobs have no pods, by the Jobs' names."""

    by_events: Mapping[str, str]
    by_queues: Mapping[str, str]


def said_of(kube: Kube, namespace: str, jobs: Sequence[Object]) -> Said:
    return Said(create_words(kube, namespace, jobs), queue_words(kube, namespace, jobs))


def seen_of(job: Object, pods: Sequence[Object], said: Said) -> Seen:
    name = job["metadata"]["name"]
    return Seen(job, pods, said.by_events.get(name, ""), said.by_queues.get(name, ""))


def has_end(job: Object) -> bool:
    return any(parse.condition(job, name) for name in parse.ENDS)


def is_bare(job: Object) -> bool:
    """True if the Job should have pods. A Job that was suspended for a moment counts too: it keeps
    a Suspended condition, but with status False.
    """
    return not job["spec"].get("suspend") and not has_end(job)


def create_words(kube: Kube, namespace: str, jobs: Sequence[Object]) -> dict[str, str]:
    """Job name -> why its pods could not be created, from the newest event."""
    wanted = {job["metadata"]["uid"]: job["metadata"]["name"] for job in jobs if is_bare(job)}
    if not wanted:
        return {}
    events = events_about(kube, namespace, list(wanted), "involvedObject.kind=Job", "FailedCreate")
    found: dict[str, str] = {}
    for event in events:
        name = wanted.get(event.get("involvedObject", {}).get("uid"))
        if name:
            found[name] = str(event.get("message") or "").removeprefix("Error creating: ")
    return found


def events_about(
    kube: Kube, namespace: str, uids: Sequence[str], kind: str = "", *reasons: str
) -> list[Object]:
    """The events about these objects, the oldest first; an empty list without the right to list.

    For a few objects, one query each, so that a busy namespace costs nothing. For many, one query
    that `kind` narrows.
    """
    selectors = [f"involvedObject.uid={uid}" for uid in uids]
    if len(uids) > MOST_ASKED:
        selectors = [kind]
    path = core_path(namespace, "events")
    try:
        found = [event for each in selectors for event in items(kube, path, fieldSelector=each)]
    except KubeError:  # the role may not list them
        return []
    own = [event for event in found if event.get("involvedObject", {}).get("uid") in uids]
    chosen = [event for event in own if not reasons or event.get("reason") in reasons]
    return sorted(chosen, key=lambda event: str(event.get("lastTimestamp") or ""))


def with_step_words(kube: Kube, namespace: str, pods: Sequence[Object]) -> list[Object]:
    """The pods. A pod whose node pulls its image, or cannot mount its volumes or set up its
    network, gets that as its waiting reason, from its newest event: its own status does not say so.
    """
    waiting = {pod["metadata"]["uid"] for pod in pods if is_long_created(pod)}
    if not waiting:
        return list(pods)
    newest: dict[str, Object] = {}
    known = (*TOLD_STEPS, *PASSED_STEPS)
    for event in events_about(kube, namespace, list(waiting), "involvedObject.kind=Pod", *known):
        newest[event["involvedObject"]["uid"]] = event
    return [parse.waiting_for(pod, *step_of(newest, pod)) for pod in pods]


def step_of(events: Mapping[str, Object], pod: Object) -> tuple[str, str]:
    """(reason, message) of the pod's newest event if it says what the pod waits for, else
    ("", ""). A pull's own message is no more than the image's name.
    """
    event = events.get(pod["metadata"]["uid"], {})
    reason = str(event.get("reason") or "")
    if reason not in TOLD_STEPS:
        return "", ""
    return reason, "" if reason == parse.PULLING else str(event.get("message") or "")


def is_long_created(pod: Object) -> bool:
    """True for a pod that has had its node for MOUNT_SECONDS and is still ContainerCreating."""
    waits = parse.part(parse.container_state(pod), "waiting").get("reason") == "ContainerCreating"
    placed = parse.pod_condition(pod, "PodScheduled") or {}
    since = parse.moment(placed.get("lastTransitionTime"))
    is_young = since is not None and utc_now() < since + timedelta(seconds=MOUNT_SECONDS)
    return waits and not is_young


def queue_words(kube: Kube, namespace: str, jobs: Sequence[Object]) -> dict[str, str]:
    """Job name -> why Kueue does not start the Job, from its Workload."""
    wanted = {
        job["metadata"]["uid"]: job["metadata"]["name"]
        for job in jobs
        if job["spec"].get("suspend") and parse.queue_of(job)
    }
    if not wanted:
        return {}
    found: dict[str, str] = {}
    for workload in workloads(kube, namespace, list(wanted)):
        for uid in wanted.keys() & parse.owners_of(workload):
            found[wanted[uid]] = parse.workload_words(workload)
    return found


def workloads(kube: Kube, namespace: str, uids: Sequence[str]) -> list[Object]:
    """Kueue's Workloads of these Jobs; an empty list without Kueue or the right to list them."""
    selector = f"{KUEUE}/job-uid={uids[0]}" if len(uids) == 1 else ""
    for version in KUEUE_VERSIONS:
        path = f"/apis/{KUEUE}/{version}/namespaces/{namespace}/workloads"
        with suppress(KubeError):
            return items(kube, path, labelSelector=selector)
    return []
