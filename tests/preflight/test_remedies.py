"""Every finding of preflight says what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tao_sdk

PREFLIGHT = Path(tao_sdk.__file__).parent / "preflight"
# call -> how many arguments stand before the advice
BEFORE_ADVICE = {"error": 3, "warning": 3, "severity": 3, "NotSeen": 1}


def advice_of(call: ast.Call, before: int) -> list[ast.expr]:
    named = [each.value for each in call.keywords if each.arg in ("next", "command")]
    return [each for each in (*call.args[before:], *named) if ast.unparse(each) != "''"]


def calls(path: Path) -> Iterator[tuple[ast.Call, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in BEFORE_ADVICE:
                yield node, BEFORE_ADVICE[name]
            case _:
                pass


@pytest.mark.parametrize("path", sorted(PREFLIGHT.glob("*.py")), ids=lambda path: path.name)
def test_each_error_and_warning_has_a_remedy(path: Path) -> None:
    silent = [ast.unparse(call) for call, before in calls(path) if not advice_of(call, before)]
    assert silent == []
