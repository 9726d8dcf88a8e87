"""Errors say what to do next: the places that make one without it are counted, and become fewer."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import tao_sdk

MOST_WITHOUT = 9
# What is passed before `what`, `why` and `next`.
OWN_ARGUMENTS = {"FieldError": 1, "DocumentError": 1}
# They make their text themselves: of a server's words, of other errors, of the way back.
MAKE_THEIR_TEXT = {"DaemonError", "KubeError", "Mistakes", "Detached"}
# Words with which a text says what is allowed: to write that is the next step.
SAYS_IT = (
    *("must be", "has to be", "It can be", "are allowed", "Did you mean", "Keys are strings."),
    *("It is an absolute path", "An input is a", "An output is a", "a key is a path"),
)
INSIDE_THE_JOB = ("net", "runner")  # their errors are no TaoError


@pytest.mark.slow
def test_errors_without_a_next_step_become_fewer() -> None:
    found = list(without_next(Path(tao_sdk.__path__[0])))
    assert len(found) <= MOST_WITHOUT, "\n".join(found)


def without_next(source: Path) -> Iterator[str]:
    modules = {
        file.relative_to(source): ast.parse(file.read_text())
        for file in sorted(source.rglob("*.py"))
        if file.relative_to(source).parts[0] not in INSIDE_THE_JOB
    }
    errors = error_classes(modules.values()) - MAKE_THEIR_TEXT
    for path, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and called_name(node) in errors and not says_next(node):
                yield f"{path}:{node.lineno} {ast.unparse(node)}"


def error_classes(trees: Iterable[ast.Module]) -> set[str]:
    """TaoError and the names of all classes below it."""
    bases = {
        node.name: {name_of(base) for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"TaoError"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def name_of(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def called_name(call: ast.Call) -> str:
    """The class that is called; "" for one of another library."""
    return "" if ast.unparse(call.func).startswith("click.") else name_of(call.func)


def says_next(call: ast.Call) -> bool:
    """True if `next` or `command` is given, or the text itself says what to write."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return True
    if {each.arg for each in call.keywords} & {"next", "command", None}:
        return True
    if len(call.args) >= 3 + OWN_ARGUMENTS.get(name_of(call.func), 0):
        return True
    return any(words in ast.unparse(call) for words in SAYS_IT)
