"""Events: the cluster's reports on an attempt's Job, its pods and their nodes."""

from __future__ import annotations

from collections.abc import Iterator

from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.model.diagnosis import NodeEvent
from tao_sdk.model.plan import Ref
from tao_sdk.transports.kube import Kube

MOST = 50  # events of one attempt


def node_events(kube: Kube, ref: Ref, seen: Seen) -> tuple[NodeEvent, ...]:
    """Events from the pods' own status, then the cluster's recorded warnings; MOST at most."""
    own = [event for pod in seen.pods for event in events_of_pod(pod)]
    return (*own, *recorded_events(kube, ref, seen))[:MOST]


def events_of_pod(pod: Object) -> Iterator[NodeEvent]:
    done = parse.terminated(pod)
    if done.get("exitCode"):
        yield NodeEvent(str(done.get("reason") or "Error"), end_words(pod, done))
    found = parse.disruption(pod)
    if found is not None:
        yield NodeEvent(str(found.get("reason") or "Disrupted"), str(found.get("message") or ""))
    if pod["status"].get("reason"):
        yield NodeEvent(str(pod["status"]["reason"]), parse.pod_words(pod))
    if not parse.has_begun(pod):
        yield NodeEvent(*parse.readiness_issue(pod))


def end_words(pod: Object, done: Object) -> str:
    """A text for a failed container: the exit code, or the message if the container never began.
    Otherwise its message would be only the end of its log.
    """
    if done.get("reason") in parse.NOT_BEGUN and done.get("message"):
        return str(done["message"])
    return f"exit code {done['exitCode']} on {parse.node_of(pod)}"


def recorded_events(kube: Kube, ref: Ref, seen: Seen) -> Iterator[NodeEvent]:
    """The warnings about the Job and its pods, the newest first; none without the right to list."""
    things = [seen.job["metadata"]["uid"], *(pod["metadata"]["uid"] for pod in seen.pods)]
    events = look.events_about(kube, ref.namespace, things, "type=Warning")
    told: set[tuple[str, str]] = set()
    for event in reversed(events):
        key = str(event.get("reason") or ""), str(event.get("message") or "")
        if event.get("type") == "Warning" and key not in told:
            told.add(key)
            yield NodeEvent(*key)
