"""Sources of the runner's modules as they travel: without what Python does not need, line numbers kept."""

from __future__ import annotations

import ast
import io
import threading
import tokenize
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

# CPython 3.11 counts the depth of all threads that parse as one, and fails now and then (its issue 106905).
PARSING = threading.Lock()


@cache
def source(module: str) -> bytes:
    """What is packed of one module of the runner."""
    text = (files("tao_sdk.runner") / f"{module}.py").read_text(encoding="utf-8")
    return slim(text).encode()


def slim(text: str) -> str:
    """The same program on the same lines, shorter."""
    cuts = [*syntax(text), *blanks(text)]
    lines = [line.encode() for line in text.splitlines()]
    for (row, start), (last, stop), instead in reversed(outermost(cuts)):
        tail = lines[last - 1][stop:]
        lines[row - 1] = lines[row - 1][:start] + instead
        for between in range(row, last):
            lines[between] = b""
        lines[last - 1] += tail
    return "\n".join(shallow(line.decode().rstrip()) for line in lines) + "\n"


def outermost(cuts: list[Cut]) -> list[Cut]:
    """The cuts in their order, without those inside another."""
    kept: list[Cut] = []
    for each in sorted(cuts, key=lambda cut: (cut[0], (-cut[1][0], -cut[1][1]))):
        if not kept or each[0] >= kept[-1][1]:
            kept.append(each)
    return kept


def shallow(line: str) -> str:
    """One space of indentation a level instead of four."""
    body = line.lstrip(" ")
    return " " * ((len(line) - len(body)) // 4) + body if (len(line) - len(body)) % 4 == 0 else line


Cut = tuple[tuple[int, int], tuple[int, int], bytes]  # from (line, byte), to (line, byte), what stands there instead


def syntax(text: str) -> Iterator[Cut]:
    """Docstrings, annotations, and what only a type checker reads."""
    with PARSING:
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            yield cut(node.body[0], instead=b"" if len(node.body) > 1 else b"0")
        if isinstance(node, ast.stmt) and is_for_checkers(node):
            yield cut(node, instead=b"")
        elif isinstance(node, ast.arg) and node.annotation:
            start = (node.lineno, node.col_offset + len(node.arg.encode()))
            yield start, end(node.annotation), b""
        elif isinstance(node, ast.AnnAssign) and node.value:
            yield end(node.target), end(node.annotation), b""
        elif isinstance(node, ast.FunctionDef) and node.returns:
            yield arrow(text, node.returns), end(node.returns), b""


def is_for_checkers(node: ast.stmt) -> bool:
    """What no longer says anything once the annotations are gone."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    name = node.test if isinstance(node, ast.If) else node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(name, ast.Name) and name.id == "TYPE_CHECKING"


def cut(node: ast.stmt, instead: bytes) -> Cut:
    return (node.lineno, node.col_offset), end(node), instead


def end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def arrow(text: str, returns: ast.expr) -> tuple[int, int]:
    """Where ` ->` starts; it stands on the line of what it points to."""
    line = text.splitlines()[returns.lineno - 1].encode()
    return returns.lineno, line.rindex(b" ->", 0, returns.col_offset)


OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")


def blanks(text: str) -> Iterator[Cut]:
    """Comments, and the blanks of a line that part nothing: inside brackets also those it begins with."""
    before, depth = None, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        start = len(token.line[:column].encode())
        if token.type == tokenize.COMMENT:
            yield (row, start), (row, len(token.line.rstrip("\n").encode())), b""
        elif before and before.end[0] == row and token.string.strip() and before.string.strip():
            apart = is_wordlike(before.string[-1]) and is_wordlike(token.string[0])
            yield (row, start - (column - before.end[1])), (row, start), b" " if apart else b""
        elif depth and before and before.end[0] < row and token.string.strip():
            yield (row, 0), (row, start), b""
        if token.type == tokenize.OP:
            depth += (token.string in OPENING) - (token.string in CLOSING)
        before = token


def is_wordlike(character: str) -> bool:
    return character.isalnum() or character in "_\"'"
