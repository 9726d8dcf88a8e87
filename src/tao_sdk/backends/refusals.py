"""What every backend refuses, in the same words: a job or files that are elsewhere, and a secret
without its value.

And what every backend says of a job that it cannot see, because it lives elsewhere or because
nobody answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tao_sdk.model.errors import Refused, Unreachable
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref


def must_live_at(endpoint: str, ref: Ref) -> None:
    """Raises Unreachable for a job of another machine, daemon or cluster."""
    if ref.endpoint != endpoint:
        raise Unreachable(
            f"The job lives on {ref.endpoint}, this is {endpoint}.", "", "Ask from there."
        )


def seen_elsewhere(endpoint: str, refs: Sequence[Ref]) -> dict[Ref, Observation]:
    """What is said of those that live on another machine, daemon or cluster: they were not looked
    at.
    """
    return {ref: elsewhere(endpoint, ref) for ref in refs if ref.endpoint != endpoint}


def elsewhere(endpoint: str, ref: Ref) -> Observation:
    return Observation(
        Phase.UNREACHABLE, "", reason=f"it lives on {ref.endpoint}, this is {endpoint}"
    )


def seen_unreachable(refs: Iterable[Ref], why: str) -> dict[Ref, Observation]:
    """What is said of those that live here while nobody answers."""
    return dict.fromkeys(refs, Observation(Phase.UNREACHABLE, "", reason=why))


def must_look_at(endpoint: str, asked: str) -> None:
    """Raises Unreachable for files of another one; "" asks for those of this."""
    if asked and asked != endpoint:
        raise Unreachable(f"The files are on {asked}, this is {endpoint}.", "", "Look from there.")


def still_runs(job: str) -> Unreachable:
    """For a release that could not end the job before it removes what is left."""
    return Unreachable(f"{job} still runs.", "It could not be ended in time.", "Try again.")


def missing_secret(names: Iterable[str], secrets: Mapping[str, str]) -> str:
    """The first secret that a plan names and whose value is not given; "" when all are."""
    return next((name for name in names if name not in secrets), "")


def no_value(secret: str) -> Refused:
    return Refused(
        f"The secret {secret} has no value.", "", f"Export {secret}, or give it in env_vars."
    )
