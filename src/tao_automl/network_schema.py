"""The space of a network: the parameters of its action's schema, cut to a spec and custom ranges.

Here: which schema that is. Not here: what a schema means (space/train_schema.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tao_automl.space.space import Space
from tao_automl.space.train_schema import SchemaRequest, read_schema_space
from tao_automl.template import keys_in, value_at
from tao_sdk.model.errors import TaoError, UsageError


@dataclass(frozen=True)
class NetworkRequest:
    """What a caller says of the network that it trains."""

    network: str
    action: str
    spec: Mapping[str, Any]
    keys: Sequence[str] = ()
    custom_ranges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])
    schema: Mapping[str, Any] | None = None
    override_disabled: bool = False


def network_space(request: NetworkRequest) -> Space:
    """What is searched. Raises SpaceError, UsageError where no schema is known."""
    return schema_space(request.schema or bank_schema(request.network, request.action), request)


def schema_space(schema: Mapping[str, Any], request: NetworkRequest) -> Space:
    """What is searched by this schema, whatever the request has. Raises SpaceError."""
    return read_schema_space(
        SchemaRequest(
            schema,
            request.action,
            request.keys,
            request.custom_ranges,
            {key: value_at(request.spec, key) for key in keys_in(request.spec)},
            request.override_disabled,
        )
    )


def bank_schema(network: str, action: str) -> Mapping[str, Any]:
    """The schema that the skill bank has for a network. Raises UsageError where it has none."""
    from tao_sdk.skills.bank import choose_bank
    from tao_sdk.skills.names import load_named
    from tao_sdk.skills.schema import read_schema

    what = f"no schema is known for the action {action} of {network!r}."
    advice = "Give one: search_schema=, or set TAO_SKILL_BANK_PATH to a skill bank that has it."
    try:
        bank = choose_bank()
        schema = read_schema(bank.root, load_named(bank, network), action)
    except TaoError as error:
        raise UsageError(what, str(error), advice) from error
    if schema is None:
        raise UsageError(what, f"The skill bank {bank.root} has none.", advice)
    return schema
