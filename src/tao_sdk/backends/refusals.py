"""Refusals: errors that all backends share, in the same words.

Here: a job or files that are elsewhere, a secret without a value, and the observation of a job
that a backend cannot see (it lives elsewhere, or nobody answers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tao_sdk.model.errors import Refused, Unreachable
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref


def must_live_at(endpoint: str, ref: Ref) -> None:
    """Raise Unreachable for a job of another machine, daemon or cluster."""
    if ref.endpoint != endpoint:
        raise Unreachable(
            f"The job lives on {ref.endpoint}, this is {endpoint}.", "", "Ask from there."
        )


def seen_elsewhere(endpoint: str, refs: Sequence[Ref]) -> dict[Ref, Observation]:
    """Observations (UNREACHABLE) for the refs of another machine, daemon or cluster."""
    return {ref: elsewhere(endpoint, ref) for ref in refs if ref.endpoint != endpoint}


def elsewhere(endpoint: str, ref: Ref) -> Observation:
    return Observation(
        Phase.UNREACHABLE, "", reason=f"it lives on {ref.endpoint}, this is {endpoint}"
    )


def seen_unreachable(refs: Iterable[Ref], why: str) -> dict[Ref, Observation]:
    """Observations (UNREACHABLE) for refs that live here while nobody answers."""
    return dict.fromkeys(refs, Observation(Phase.UNREACHABLE, "", reason=why))


def must_look_at(endpoint: str, asked: str) -> None:
    """Raise Unreachable for files of another endpoint than this; "" means this one."""
    if asked and asked != endpoint:
        raise Unreachable(f"The files are on {asked}, this is {endpoint}.", "", "Look from there.")


def still_runs(job: str) -> Unreachable:
    """The error of a release that could not end the job in time."""
    return Unreachable(f"{job} still runs.", "It could not be ended in time.", "Try again.")


def missing_secret(names: Iterable[str], secrets: Mapping[str, str]) -> str:
    """The first secret in `names` without a value in `secrets`; "" if all have one."""
    return next((name for name in names if name not in secrets), "")


def adopted(found: Ref | None, refusal: Refused) -> Ref:
    """The Ref of an attempt that has already started, else raise `refusal`: without what is missing
    it cannot be started.
    """
    if found is None or not found.ready:
        raise refusal
    return found


def no_value(secret: str) -> Refused:
    return Refused(
        f"The secret {secret} has no value.", "", f"Export {secret}, or give it in env_vars."
    )
