"""Pulls: end an attempt if no node reaches the image's registry within the pull timeout.

The end is written into the Job itself, so that every client sees it and the GPUs are free again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.look import core_path, patch_job
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.transports.kube import Kube, KubeError, ignored

NETWORK = re.compile(
    "dial (tcp|udp)|no such host|i/o timeout|connection (refused|reset)|TLS handshake timeout"
    "|no route to host|network is unreachable|context deadline exceeded|EOF|server misbehaving"
    "|429 Too Many|50[0234] [A-Z]"
)
LONGEST_WORDS = 2000  # characters of the registry's message to store


def end_overdue(kube: Kube, observed: Mapping[Ref, Observation]) -> None:
    """Give up the pulls that have failed for longer than their jobs' pull timeouts."""
    for ref, seen in observed.items():
        if is_unreachable(seen) and may_be_overdue(ref):
            with suppress(TaoError):  # the next look tries again
                give_up_overdue(kube, ref)


def is_unreachable(seen: Observation) -> bool:
    """True if the attempt waits for an image whose registry does not answer."""
    if seen.phase is not Phase.PENDING or seen.reason_code is not Reason.PULL_FAILED:
        return False
    return bool(NETWORK.search(seen.backend_words))


def may_be_overdue(ref: Ref) -> bool:
    """False while the Job is younger than its pull timeout, to save a query."""
    created = parse.moment(ref.details.get("created"))
    return created is None or has_passed(created, float(ref.details.get("pull_timeout") or 0))


def has_passed(since: datetime, seconds: float) -> bool:
    return (utc_now() - since).total_seconds() >= seconds


def give_up_overdue(kube: Kube, ref: Ref) -> None:
    seen = look.see(kube, ref)
    if seen is None:
        return
    said = look.parse_safely(seen)
    since = first_failure(kube, seen)
    if is_unreachable(said) and since and has_passed(since, parse.pull_timeout(seen.job)):
        give_up(kube, seen.job, said.backend_words)


def first_failure(kube: Kube, seen: Seen) -> datetime | None:
    """The time of the first failed pull of the attempt's pods, from the cluster's events; None
    without such an event or the right to list events.
    """
    pods = {pod["metadata"]["uid"] for pod in seen.pods}
    path = core_path(seen.job["metadata"]["namespace"], "events")
    try:
        events = look.items(kube, path, fieldSelector="involvedObject.kind=Pod,reason=Failed")
    except KubeError:  # the role may not list them
        return None
    own = [event for event in events if event["involvedObject"].get("uid") in pods]
    times = [parse.moment(event.get("firstTimestamp")) for event in own]
    return min(filter(None, times), default=None)


def give_up(kube: Kube, job: Object, why: str) -> None:
    """Write the reason into the Job with this uid, and let the cluster end it."""
    notes = {names.PULL_FAILED: why[:LONGEST_WORDS]}
    with ignored(403, 404, 409, 422):
        patch_job(kube, job, {"annotations": notes}, {"activeDeadlineSeconds": 1})
