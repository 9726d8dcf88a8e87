"""Sources of the runner's modules as they travel: without comments and docstrings, line numbers kept."""

from __future__ import annotations

import ast
import io
import tokenize
from functools import cache
from importlib.resources import files


@cache
def source(module: str) -> bytes:
    """What is packed of one module of the runner."""
    text = (files("tao_sdk.runner") / f"{module}.py").read_text(encoding="utf-8")
    return slim(text).encode()


def slim(text: str) -> str:
    """The same program on the same lines, shorter."""
    cuts = [*docstrings(text), *comments(text)]
    lines = [line.encode() for line in text.splitlines()]
    for (row, start), (last, end), instead in sorted(cuts, reverse=True):
        tail = lines[last - 1][end:]
        lines[row - 1] = lines[row - 1][:start] + instead
        for between in range(row, last):
            lines[between] = b""
        lines[last - 1] += tail
    return "\n".join(shallow(line.decode().rstrip()) for line in lines) + "\n"


def shallow(line: str) -> str:
    """One space of indentation a level instead of four."""
    body = line.lstrip(" ")
    return " " * ((len(line) - len(body)) // 4) + body if (len(line) - len(body)) % 4 == 0 else line


Cut = tuple[tuple[int, int], tuple[int, int], bytes]  # from (line, byte), to (line, byte), what stands there instead


def docstrings(text: str) -> list[Cut]:
    cuts: list[Cut] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            doc = node.body[0]
            assert doc.end_lineno is not None and doc.end_col_offset is not None
            cuts.append(((doc.lineno, doc.col_offset), (doc.end_lineno, doc.end_col_offset), b"" if len(node.body) > 1 else b"0"))
    return cuts


def comments(text: str) -> list[Cut]:
    cuts: list[Cut] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            start = len(token.line[:column].encode())
            cuts.append(((row, start), (row, len(token.line.rstrip("\n").encode())), b""))
    return cuts
