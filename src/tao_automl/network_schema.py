"""The space of a network: the parameters of its action's schema, cut to a spec and custom ranges.

Here: which schema that is, what stands in the spec, and which of its keys says how long it trains.
Not here: what a schema means (space/train_schema.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tao_automl.space.space import Space
from tao_automl.space.train_schema import SchemaRequest, read_schema_space
from tao_sdk.model.errors import TaoError, UsageError

# Last parts of the keys that say how many epochs to train, the usual ones first.
EPOCH_NAMES = ("num_epochs", "max_epochs", "epochs", "n_epochs", "epoch", "max_iters")


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
    schema = request.schema or bank_schema(request.network, request.action)
    return read_schema_space(
        SchemaRequest(
            schema,
            request.action,
            request.keys,
            request.custom_ranges,
            dict(dotted_values(request.spec)),
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


def dotted_values(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of a spec with its dotted key. Lists are values."""
    for name, value in tree.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping):
            yield from dotted_values(cast("Mapping[str, Any]", value), f"{key}.")
        else:
            yield key, value


def find_epochs_key(spec: Mapping[str, Any], action: str) -> str:
    """The key that says how many epochs to train: of the action's own block if there, else the
    first; "" where there is none.
    """
    keys = [key for key, value in dotted_values(spec) if isinstance(value, int)]
    for name in EPOCH_NAMES:
        found = [key for key in keys if key.rpartition(".")[2] == name]
        own = [key for key in found if key.startswith(f"{action}.")]
        if found:
            return (own or found)[0]
    return ""
