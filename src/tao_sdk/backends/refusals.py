"""What every backend refuses, in the same words: a job or files that are elsewhere, and a secret without its value."""

from __future__ import annotations

from tao_sdk.model.errors import Refused, Unreachable
from tao_sdk.model.plan import Ref


def must_live_at(endpoint: str, ref: Ref) -> None:
    """Raises Unreachable for a job of another machine, daemon or cluster."""
    if ref.endpoint != endpoint:
        raise Unreachable(f"The job lives on {ref.endpoint}, this is {endpoint}.", "", "Ask from there.")


def must_look_at(endpoint: str, asked: str) -> None:
    """Raises Unreachable for files of another one; "" asks for those of this."""
    if asked and asked != endpoint:
        raise Unreachable(f"The files are on {asked}, this is {endpoint}.", "", "Look from there.")


def no_value(secret: str) -> Refused:
    return Refused(f"The secret {secret} has no value.", "", f"Export {secret}, or give it in env_vars.")
