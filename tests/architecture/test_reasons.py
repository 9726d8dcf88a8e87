"""No decision reads our own sentences: they are made in model/words.py, and compared nowhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk.model import words
from tao_sdk.model.reasons import Reason

SRC = Path(__file__).parents[2] / "src" / "tao_sdk"
MODULES = sorted(path for path in SRC.rglob("*.py") if SRC / "runner" not in path.parents)
# Of our records, errors, findings and diagnoses: what people read.
SENTENCE_FIELDS = frozenset(
    {
        "message",
        "reason",
        "cause",
        "suggestion",
        "what",
        "why",
        "next",
        "fix",
        "evidence",
        "hint",
        "raw",
    }
)
READS_TEXT = frozenset(
    {
        "startswith",
        "endswith",
        "partition",
        "rpartition",
        "split",
        "find",
        "search",
        "match",
        "fullmatch",
    }
    | {"removeprefix", "removesuffix", "replace", "index", "count"}
)
OF_OTHERS = frozenset(
    {"row", "job"}
)  # in backends/slurm/parse.py: rows of squeue and sacct, whose reason is SLURM's
MADE_HERE = frozenset(
    {"model/words.py", "store/schema.py"}
)  # the second brings old stores up to date
SHORTEST = 12  # characters of a sentence that no other text has by chance


@pytest.mark.slow
def test_no_module_compares_or_searches_a_sentence_of_ours() -> None:
    found = [
        f"{path.relative_to(SRC)}:{node.lineno}: {ast.unparse(node)}"
        for path in MODULES
        for node in readings(ast.parse(path.read_text()), path)
    ]
    assert found == []


def test_a_comparison_with_a_sentence_is_found() -> None:
    for text in (
        '"time limit" in evidence.reason',
        'job.message == "removed outside"',
        'job.message.startswith("not seen")',
        're.search("oom", seen.reason)',
        'error.next.partition("Run: ")',
        'error.next == "Start Docker."',
        "error.next == DENIED",
        "NO_PROGRAM in error.what",
        "error.what.replace(name, flag)",
        "compiled.search(evidence.raw)",
    ):
        assert list(readings(ast.parse(text), SRC / "engine" / "look.py")), text


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_every_reason_has_its_sentence(reason: Reason) -> None:
    assert words.SENTENCES[reason]


@pytest.mark.slow
def test_a_sentence_of_a_reason_stands_in_one_place() -> None:
    texts = {
        path: path.read_text()
        for path in MODULES
        if path.relative_to(SRC).as_posix() not in MADE_HERE
    }
    fixed = {
        part
        for sentence in sentences()
        for part in re.split(r"\{\w+\}", sentence)
        if len(part) >= SHORTEST
    }
    again = [
        f"{path.relative_to(SRC)}: {part!r}"
        for path, text in texts.items()
        for part in fixed
        if re.search(rf"""["']{re.escape(part)}""", text)
    ]
    assert not again


def sentences() -> list[str]:
    return [*words.SENTENCES.values(), *words.IN_PLACE.values()]


def readings(tree: ast.AST, path: Path) -> Iterator[ast.expr]:
    """The expressions that decide by a sentence: a comparison with a text, or a search in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and is_compared(node, path):
            yield node
        if isinstance(node, ast.Call) and is_searched(node, path):
            yield node


def is_compared(node: ast.Compare, path: Path) -> bool:
    if isinstance(node.ops[0], ast.In) and is_sentence(node.comparators[0], path):
        return True
    sides = [node.left, *node.comparators]
    return any(map(is_text, sides)) and any(is_sentence(side, path) for side in sides)


def is_text(node: ast.expr) -> bool:
    """A text, or the name of a constant, which may be one."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and bool(node.value)
    return isinstance(node, ast.Name) and node.id.isupper()


def is_searched(node: ast.Call, path: Path) -> bool:
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in READS_TEXT:
        return False
    arguments = [ast.unparse(part) for part in node.args]
    only_lines = arguments == ["'\\n'"]  # cut for a line of the terminal
    fills_template = node.func.attr == "replace" and "".join(arguments[:1]).startswith("'{")
    return not (only_lines or fills_template) and any(
        is_sentence(part, path) for part in (node.func.value, *node.args)
    )


def is_sentence(node: ast.expr, path: Path) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr not in SENTENCE_FIELDS:
        return False
    of_slurm = path == SRC / "backends" / "slurm" / "parse.py" and isinstance(node.value, ast.Name)
    return not (of_slurm and isinstance(node.value, ast.Name) and node.value.id in OF_OTHERS)
