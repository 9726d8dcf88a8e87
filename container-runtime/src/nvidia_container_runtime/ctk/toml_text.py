"""Changes to a TOML file's text: what a person wrote, comments and order included,
stays as it is.
"""

from __future__ import annotations

from typing import Any

from .. import toml

Path = tuple[str, ...]


class Edit:
    """A text, changed step by step. After each step it is read again, so that no change can break
    the file unseen.
    """

    def __init__(self, text: str) -> None:
        self.take(text.replace("\r\n", "\n"))

    def take(self, text: str) -> None:
        """This text from now on, if it can be read; else the old one stays."""
        reader = toml.Reader(text)
        self.value = reader.read_document()
        self.reader = reader
        self.text = text

    def get(self, path: Path) -> Any:
        found: Any = self.value
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None  # pyright: ignore
        return found  # pyright: ignore[reportUnknownVariableType]

    def replace(self, start: int, end: int, new: str) -> None:
        self.take(self.text[:start] + new + self.text[end:])

    def set(self, path: Path, value: Any) -> None:
        if self.get(path) == value and type(self.get(path)) is type(value):
            return
        if path in self.reader.assignments:
            _, start, end = self.reader.assignments[path]
            self.replace(start, end, literal(value))
        else:
            self.add(path, value)
        if self.get(path) != value:
            raise ValueError(
                f"cannot set {'.'.join(path)}: its table is written inline; write it as a "
                "[table] of its own"
            )

    def add(self, path: Path, value: Any) -> None:
        """A new line at the end of its table, or a new table at the end of the file."""
        table, line = path[:-1], f"{bare(path[-1])} = {literal(value)}\n"
        last = [places for key, places in self.reader.assignments.items() if key[:-1] == table]
        if last:
            start, _, end = last[-1]
            self.insert_after(end, self.text[start:], line)
            return
        headers = [start for keys, start in self.reader.headers if keys == table]
        if headers:
            self.insert_after(headers[-1], self.text[headers[-1] :], line)
        elif not table:
            self.replace(0, 0, line)
        else:
            header = f"[{'.'.join(map(bare, table))}]"
            self.replace(len(self.text), len(self.text), f"{self.gap_at_end()}{header}\n{line}")

    def gap_at_end(self) -> str:
        """The line breaks that leave an empty line between the text and a new table."""
        if not self.text:
            return ""
        return "\n" if self.text.endswith("\n") else "\n\n"

    def insert_after(self, position: int, like: str, line: str) -> None:
        """Below the line of that position, indented as the line that `like` starts with."""
        end = self.text.find("\n", position)
        indent = like[: len(like) - len(like.lstrip(" \t"))]
        if end < 0:
            self.replace(len(self.text), len(self.text), "\n" + indent + line)
        else:
            self.replace(end + 1, end + 1, indent + line)

    def remove_table(self, path: Path) -> None:
        """The table and those below it, up to the comment that stands over the next one."""
        while True:
            headers = self.reader.headers
            at = next((n for n, (keys, _) in enumerate(headers) if keys[: len(path)] == path), None)
            if at is None:
                return
            end = headers[at + 1][1] if at + 1 < len(headers) else len(self.text)
            body = self.text[headers[at][1] : end]
            kept = self.comment_above_next(body) if at + 1 < len(headers) else ""
            self.replace(headers[at][1], end, kept)

    def comment_above_next(self, body: str) -> str:
        lines = body.splitlines(keepends=True)
        kept: list[str] = []
        while len(lines) > 1 and lines[-1].lstrip().startswith("#"):
            kept.insert(0, lines.pop())
        return "".join(kept)

    def remove(self, path: Path) -> None:
        if path in self.reader.assignments:
            start, _, end = self.reader.assignments[path]
            line_end = self.text.find("\n", end)
            self.replace(start, len(self.text) if line_end < 0 else line_end + 1, "")


def bare(key: str) -> str:
    return key if key and all(character in toml.BARE for character in key) else literal(key)


def literal(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return '"' + "".join(map(escaped, value)) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{bare(key)} = {literal(one)}" for key, one in value.items()) + "}"
    raise TypeError(type(value).__name__)


def escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character < " " or character == "\x7f":
        return f"\\u{ord(character):04x}"
    return character


def written(tables: dict[str, Any], path: Path = ()) -> str:
    """A whole document, tables as [tables]."""
    plain = {key: value for key, value in tables.items() if not isinstance(value, dict)}
    lines = [f"{bare(key)} = {literal(value)}\n" for key, value in plain.items()]
    header = (
        f"\n[{'.'.join(map(bare, path))}]\n"
        if path and (lines or len(plain) == len(tables))
        else ""
    )
    below = [
        written(value, (*path, key)) for key, value in tables.items() if isinstance(value, dict)
    ]  # pyright: ignore
    return header + "".join(lines) + "".join(below)
