"""Sources of modules as they travel: without the parts that Python does not need, line numbers
kept; and the modules that they import.

A module is named from the package down: `net.web` is tao_sdk.net.web.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterable, Iterator, Set
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from tao_sdk.payload.local_names import Use, positional_names, shortened

if TYPE_CHECKING:
    from importlib.abc import Traversable

# CPython 3.11 counts the depth of all threads that parse as one, and fails now and then (its issue
# 106905).
PARSING = threading.Lock()


PACKAGE = "tao_sdk"
PACKED_ROOMS = ("net", "runner")


@cache
def source(module: str) -> bytes:
    """The packed text of one module. It is ASCII, so that bytes are left that stand for words."""
    return slim(written(module), packed_positionals()).encode("ascii", "backslashreplace")


def written(module: str) -> str:
    """The text of the module's file."""
    return (files(PACKAGE) / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")


@cache
def packed_positionals() -> frozenset[str]:
    """The names of parameters that packed modules pass by position only."""
    return positional_names(
        file.read_text(encoding="utf-8")
        for room in PACKED_ROOMS
        for file in modules_below(files(PACKAGE) / room)
    )


def modules_below(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from modules_below(entry)
        elif entry.name.endswith(".py"):
            yield entry


class Imports(NamedTuple):
    """The modules that one needs."""

    at_once: frozenset[str]  # when it is imported itself
    later: frozenset[str]  # in functions, which may never be called


@cache
def imports(module: str) -> Imports:
    tree = parsed(source(module).decode())
    at_once, everything = modules_in(tree.body), modules_in(ast.walk(tree))
    return Imports(at_once, everything - at_once)


def modules_in(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The modules of this package that import statements among the nodes name."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names.update(imported(node))
    own = f"{PACKAGE}."
    return frozenset(name.removeprefix(own) for name in names if name.startswith(own))


def imported(statement: ast.ImportFrom) -> Iterator[str]:
    """The modules of `from package import module` and of `from package.module import name`."""
    origin = statement.module or ""
    if origin.count(".") and not is_package(origin):
        yield origin
        return
    yield from (f"{origin}.{alias.name}" for alias in statement.names)


def is_package(name: str) -> bool:
    return (files(PACKAGE) / name.removeprefix(PACKAGE + ".").replace(".", "/")).is_dir()


def parsed(text: str) -> ast.Module:
    with PARSING:
        return ast.parse(text)


def slim(text: str, positional: Set[str] = frozenset()) -> str:
    """The same program on the same lines, shorter. No call passes a parameter of the names in
    `positional` as a keyword.
    """
    lines = [line.encode() for line in text.splitlines()]
    for (row, start), (last, stop), instead in reversed(outermost([*syntax(text, positional)])):
        head, rest = lines[row - 1][:start], lines[last - 1][stop:]
        emptied = [b""] * (last - row)
        lines[row - 1 : last] = [head + instead + rest, *emptied]
    text = joined(squeezed("\n".join(line.decode().rstrip() for line in lines)))
    return text.rstrip("\n") + "\n"


def outermost(cuts: list[Cut]) -> list[Cut]:
    """The cuts in their order, without cuts inside another."""
    kept: list[Cut] = []
    for each in sorted(cuts, key=lambda cut: (cut[0], (-cut[1][0], -cut[1][1]))):
        if not kept or each[0] >= kept[-1][1]:
            kept.append(each)
    return kept


# from (line, byte), to (line, byte), what stands there instead
Cut = tuple[tuple[int, int], tuple[int, int], bytes]


def syntax(text: str, positional: Set[str]) -> Iterator[Cut]:
    """Yield the cuts for docstrings, annotations, code that only a type checker reads, and the
    names of local variables.
    """
    tree = parsed(text)
    for use, letter in shortened(tree, text, positional):
        yield (use.lineno, use.col_offset), end_of_name(use), letter.encode()
    for node in (tree, *statements(tree)):
        yield from docstring(node)
        if isinstance(node, ast.stmt) and is_for_checkers(node):
            yield cut(node, instead=b"")
        elif isinstance(node, ast.AnnAssign) and node.value:
            yield end(node.target), end(node.annotation), b""
        elif isinstance(node, ast.FunctionDef):
            yield from signature(text, node)


def docstring(node: ast.AST) -> Iterator[Cut]:
    """The cut for the docstring of a module, class or function. A body of nothing else becomes
    `0`.
    """
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        return
    if ast.get_docstring(node, clean=False) is None:
        return
    yield cut(node.body[0], instead=b"" if len(node.body) > 1 else b"0")


def statements(parent: ast.AST) -> Iterator[ast.stmt]:
    """Every statement, at any depth. There is nothing to cut inside an expression."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from statements(node)


def signature(text: str, function: ast.FunctionDef) -> Iterator[Cut]:
    """The annotations of a function's parameters and of its result."""
    given = function.args
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if each and each.annotation:
            start = (each.lineno, each.col_offset + len(each.arg.encode()))
            yield start, end(each.annotation), b""
    if function.returns:
        yield arrow(text, function.returns), end(function.returns), b""


def is_for_checkers(node: ast.stmt) -> bool:
    """True for a statement that has no meaning once the annotations are gone."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    if isinstance(node, ast.If):
        name = node.test
    elif isinstance(node, ast.Assign):
        name = node.targets[0]
    else:
        return False
    return isinstance(name, ast.Name) and name.id == "TYPE_CHECKING"


def cut(node: ast.stmt, instead: bytes) -> Cut:
    return (node.lineno, node.col_offset), end(node), instead


def end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def end_of_name(use: Use) -> tuple[int, int]:
    """The end of a name, in front of a parameter's annotation."""
    name = use.arg if isinstance(use, ast.arg) else use.id
    return use.lineno, use.col_offset + len(name.encode())


def arrow(text: str, returns: ast.expr) -> tuple[int, int]:
    """The line and the column of ` ->`. It stands on the line of the annotation after it."""
    line = text.splitlines()[returns.lineno - 1].encode()
    return returns.lineno, line.rindex(b" ->", 0, returns.col_offset)


STRING = r"""[rbfu]*(?:\"{3}(?:\\.|[^\\])*?\"{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
TOKEN = re.compile(
    rf"(?P<string>{STRING})|(?P<comment>#.*)|(?P<blanks> +)|(?P<opens>[(\[{{])|(?P<closes>[)\]}}])"
)


def squeezed(text: str) -> str:
    """The text without comments, and without blanks that separate nothing. A line begins with one
    blank for each level of its block.
    """
    depth = 0

    def shorter(token: re.Match[str]) -> str:
        nonlocal depth
        kind = token.lastgroup
        depth += (kind == "opens") - (kind == "closes")
        if kind == "comment":
            return ""
        if kind == "blanks":
            return parting(text, token, depth)
        return token[0]

    return re.sub(r" +$", "", TOKEN.sub(shorter, text), flags=re.MULTILINE)


BREAKS = re.compile(
    rf"(?P<string>{STRING})|(?P<opens>[(\[{{])|(?P<closes>[)\]}}])|(?P<lines>,?\n\s*)"
)


def joined(text: str) -> str:
    """The text with each statement of several lines on its first line, without a last comma in its
    brackets. As many empty lines follow it.
    """
    depth = dropped = 0

    def on_one_line(token: re.Match[str]) -> str:
        nonlocal depth, dropped
        kind = token.lastgroup
        depth += (kind == "opens") - (kind == "closes")
        if kind != "lines":
            return token[0]
        if depth:
            dropped += token[0].count("\n")
            if token[0][0] == ",":
                return "" if text[token.end()] in ")]}" else ","
            return parting(text, token, depth)
        empty, dropped = "\n" * dropped, 0
        return empty + token[0]

    return BREAKS.sub(on_one_line, text) + "\n" * dropped


def parting(text: str, blanks: re.Match[str], depth: int) -> str:
    """The blanks to keep between two tokens, or at the start of a line."""
    start, end = blanks.span()
    if start == 0 or text[start - 1] == "\n":
        return indentation(end - start, depth)
    if is_wordlike(text[start - 1]) and is_wordlike(text[end : end + 1]):
        return " "
    return ""


def indentation(blanks: int, depth: int) -> str:
    """One blank for each level of a block; none inside brackets."""
    if depth:
        return ""
    return " " * (blanks // 4)


def is_wordlike(character: str) -> bool:
    return character.isalnum() or character in ("_", '"', "'")
