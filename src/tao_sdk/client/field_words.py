"""Field words: advice that names a flag of the command, as the keyword that a Python caller writes.

Diagnoses say `--memory 64g`. A Python caller of an SDK reads `memory="64g"`. The other direction is
cli/flag_words.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tao_sdk.client.typed_values import typed_flag
from tao_sdk.model.diagnosis import Diagnosis
from tao_sdk.model.fields import Kind, settings_of
from tao_sdk.model.spec import JobSpec

# A word behind a flag is its value where it has a digit, a sign of a path or of NAME=VALUE, or
# stands for one in capitals.
VALUE = r"[^\s,;()]*[\d=/.][^\s,;()]*[^\s,;().:]|\d|[A-Z]{2,}\b"
FLAG = re.compile(rf"(?:\btao run )?(?<![\w-])(--[a-z][a-z-]*)(?: ({VALUE}))?(?![\w-])")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class FieldWords:
    """The words of an SDK: the job's fields and those of its platform's options."""

    def __init__(self, options: type[Any]) -> None:
        self.kinds: dict[str, tuple[str, Kind]] = {}  # flag -> field and its kind
        for record in (JobSpec, options):
            for name, setting in settings_of(record).items():
                self.kinds[typed_flag(record, name)] = (name, setting.metadata["kind"])

    def in_fields(self, advice: str) -> str:
        """The advice with `memory="64g"` for `--memory 64g`. Flags of other programs stay."""
        return FLAG.sub(self.field_for, advice)

    def field_for(self, found: re.Match[str]) -> str:
        flag, value = found.groups()
        if flag not in self.kinds:
            return found[0]
        name, kind = self.kinds[flag]
        if value is None:
            return name
        return f"{name}={written(name, value, kind)}"

    def diagnosis(self, found: Diagnosis) -> Diagnosis:
        return replace(found, next=self.in_fields(found.next))


def written(name: str, value: str, kind: Kind) -> str:
    """The value of a flag as Python writes it."""
    if name == "files":
        return f'{{"{value}": Path("{value}")}}'
    if kind.pairs or name == "inputs":
        key, _, content = value.partition("=")
        return f'{{"{key}": "{content}"}}'
    if NUMBER.fullmatch(value) and kind.schema.get("type") != "string":
        return value
    return f'["{value}"]' if kind.multiple else f'"{value}"'
