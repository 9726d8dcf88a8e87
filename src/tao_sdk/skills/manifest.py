"""The bank's list of models, schemas.manifest.json: their actions, and what failed when their
schemas were made. The file of a skill counts where the list says something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tao_sdk.skills.bank_file import LARGEST_SCHEMA, read_bank_document, require_mapping

if TYPE_CHECKING:
    from pathlib import Path

    from tao_sdk.skills.bank import Bank

MANIFEST = "schemas.manifest.json"


@dataclass(frozen=True)
class ListedModel:
    """A model as the list has it."""

    actions: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=lambda: {})  # by action


def manifest_file(bank: Bank) -> Path:
    return bank.skills / "models" / MANIFEST


def listed_models(bank: Bank) -> dict[str, ListedModel]:
    """The models of the list, by folder; none if the bank has no list. Raises SkillError."""
    path = manifest_file(bank)
    if not path.is_file():
        return {}
    document = read_bank_document(bank.root, path, LARGEST_SCHEMA)
    require_mapping(document, path, "a list of models")
    return {
        name: read_listed_model(about)
        for name, about in mapping_of(document.plain(), "models").items()
    }


def read_listed_model(about: Any) -> ListedModel:
    actions: Any = cast("dict[str, Any]", about).get("actions") if isinstance(about, dict) else ()
    is_list = isinstance(actions, (list, dict))
    names = map(str, cast("Iterable[Any]", actions)) if is_list else ()
    failures = {name: str(why) for name, why in mapping_of(about, "failures").items()}
    return ListedModel(tuple(names), failures)


def mapping_of(value: Any, key: str) -> dict[str, Any]:
    """The mapping at a key; empty if there is none."""
    found: Any = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
