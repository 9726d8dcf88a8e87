"""Select the attempts with `gang: wait` that may have to be parked or resumed now. Pure.

The input is a look at all attempts. Each step reads its attempt again first, so only the attempts
that may need a step are selected. Not here: the steps (parking.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.parse import Seen
from tao_sdk.backends.kubernetes.pods.parking import MALFORMED, has_rested, is_gang
from tao_sdk.model.clock import utc_now
from tao_sdk.model.plan import Ref


def due_steps(found: Mapping[Ref, Seen | None]) -> Iterator[Ref]:
    for ref, seen in found.items():
        if seen is not None and is_gang(ref) and may_need_step(seen):
            yield ref


def may_need_step(seen: Seen) -> bool:
    """True for a Job to park, and for a parked Job whose pods are gone and whose rest is over."""
    try:
        if parse.is_parked(seen.job):
            return not seen.pods and has_rested(seen)
        since = parse.held_since(seen)
        return since is not None and (utc_now() - since).total_seconds() >= parse.patience(seen)
    except MALFORMED:  # somebody has written into the Job
        return False
