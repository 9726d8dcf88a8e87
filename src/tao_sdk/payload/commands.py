"""Commands: `{name}` and `{config_path}` in a shell command, and the arguments that are appended to it.

Only the named placeholders are touched, so every other brace survives. A value is quoted for the place it stands in: as a
word of its own, or inside the quotes that the command already has there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeGuard

from tao_sdk.model.errors import SpecError
from tao_sdk.payload.values import Hole, Tree
from tao_sdk.runner.document import Hole as Gap
from tao_sdk.runner.document import Template
from tao_sdk.runner.quote import STYLES

CONFIG_PATH = "{config_path}"
BREAKS = " \t\n;|&()<>"
HEREDOC = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|\\?([^\s;|&()<>'\"]+))")

Word = str | Hole  # a value, or one that only the job knows


@dataclass(frozen=True, slots=True)
class Mark:
    """One character of a command: how it is quoted ("shell" = not at all), and whether a new word starts after it."""

    style: str
    breaks: bool


def marks(command: str) -> list[Mark]:
    """How each character of a command stands in it: the quotes, comments and here-documents of a POSIX shell."""
    result: list[Mark] = []
    bodies: list[tuple[str, bool]] = []
    while len(result) < len(command):
        at = len(result)
        length, style, breaks = step(command, at, bodies)
        result += [Mark(style, breaks)] * max(1, length)
    return result[: len(command)]


def step(command: str, at: int, bodies: list[tuple[str, bool]]) -> tuple[int, str, bool]:  # noqa: PLR0911  a table
    """The length, quoting and effect of what starts at `at`, outside of quotes. `bodies`: here-documents still to come."""
    char = command[at]
    if char == "'":
        return quoted(command, at, "'"), "single", False
    if char == '"':
        return quoted(command, at, '"'), "double", False
    if char == "\\":
        return 2, "shell", False
    if char == "#" and (at == 0 or command[at - 1] in BREAKS):
        return line_length(command, at), "text", True
    if char == "\n" and bodies:
        return body_length(command, at, *bodies.pop(0)), "text", True
    here = HEREDOC.match(command, at) if char == "<" and command[at : at + 3] != "<<<" else None
    if here:
        bodies.append((here[2] or here[3] or here[4] or "", bool(here[1])))
        return here.end() - at, "shell", True
    if command.startswith("<<<", at):
        return 3, "shell", True
    return 1, "shell", char in BREAKS


def quoted(command: str, at: int, quote: str) -> int:
    end = at + 1
    while end < len(command) and command[end] != quote:
        end += 2 if command[end] == "\\" and quote == '"' else 1
    return end + 1 - at


def line_length(command: str, at: int) -> int:
    end = command.find("\n", at)
    return (len(command) if end < 0 else end) - at


def body_length(command: str, at: int, delimiter: str, tabs: bool) -> int:
    """The here-document that starts behind the newline at `at`; its last newline is left for what follows."""
    end = at + 1
    while end < len(command):
        length = line_length(command, end)
        line = command[end : end + length]
        end += length
        if (line.lstrip("\t") if tabs else line) == delimiter:
            break
        end += 1
    return min(end, len(command)) - at


def command_template(command: str, values: Mapping[str, Sequence[Word]], appended: Sequence[Word] = ()) -> Template:
    """The command with each `{name}` of `values` replaced.

    A word that holds a placeholder stands once for each of its values: not at all when there is none (with the option
    before it), several times for a list.
    """
    pieces: list[str | Gap] = []
    done = 0
    how = marks(command)
    for match in placeholders(command, values):
        words, style = values[match[1]], how[match.start()].style
        alone = len(words) == 1 and not is_whole(words[0])
        start, end = (match.start(), match.end()) if alone else word_around(command, how, match)
        if start < done:
            raise SpecError(
                f"One word of the command names {match[0]} and another placeholder that stands for several values."
            )
        pieces.append(command[done:start])
        before, after = command[start : match.start()], command[match.end() : end]
        for index, word in enumerate(words):
            pieces += [" "] if index else []
            pieces += [gap(word, style, before, after)] if is_whole(word) else [before, gap(word, style), after]
        done = end
    pieces.append(command[done:])
    for word in appended:
        pieces += [gap(word, "shell", f" {dashed(word.key)} ")] if is_whole(word) else [" ", gap(word, "shell")]
    return assembled(pieces)


def is_whole(word: Word) -> TypeGuard[Hole]:
    return isinstance(word, Hole) and word.whole_word


def placeholders(command: str, values: Mapping[str, object]) -> Iterator[re.Match[str]]:
    """Each {name} of `values`; ${name} is the shell's own."""
    if values:
        names = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
        yield from re.finditer(r"(?<!\$)\{(" + names + r")\}", command)


def misspelt(command: str, known: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each {name} of a command that is nearly one of the `known`, with that one: it stays as it is, and is hardly meant to."""
    known = list(known)
    written: list[str] = re.findall(r"(?<!\$)\{([A-Za-z_][\w-]*)\}", command)
    for name in dict.fromkeys(written):
        meant = get_close_matches(name, known, n=1, cutoff=0.8)
        if meant and name not in known:
            yield name, meant[0]


def word_around(command: str, how: Sequence[Mark], match: re.Match[str]) -> tuple[int, int]:
    """The word that holds the placeholder, with the option before it when the word is nothing but the placeholder."""
    start, end = match.span()
    while start and not how[start - 1].breaks:
        start -= 1
    while end < len(command) and not how[end].breaks:
        end += 1
    option = re.search(r"(?<!\S)--?[A-Za-z][\w.-]*[ \t]+$", command[:start])
    return (option.start() if option and (start, end) == match.span() else start), end


def gap(word: Word, style: str, before: str = "", after: str = "") -> Gap:
    key, value = (word.key, word.given or "") if isinstance(word, Hole) else ("", word)
    return key, style, "" if is_whole(word) else STYLES[style](value), before, after


def assembled(pieces: Sequence[str | Gap]) -> Template:
    """Pieces as a template; what is known already is filled in here."""
    parts, holes = [""], list[Gap]()
    for piece in pieces:
        if isinstance(piece, str):
            parts[-1] += piece
        elif not piece[0]:
            parts[-1] += piece[2]
        else:
            holes.append(piece)
            parts.append("")
    return Template(parts=parts, holes=holes)


def with_config_path(command: str) -> Template:
    """Config mode: nothing but the literal {config_path} is replaced."""
    return command_template(command, {"config_path": [Hole(CONFIG_PATH, "")]})


def with_arguments(command: str, arguments: Mapping[str, Tree], flags: Sequence[str]) -> Template:
    """Args mode: `{name}` is replaced by the argument; an argument that is not named is appended as --name value."""
    values = {name: words(value) for name, value in arguments.items()}
    values = {**{name.replace("-", "_"): value for name, value in values.items()}, **values}
    named = {match[1].replace("-", "_") for match in placeholders(command, values)}
    appended: list[Word] = []
    for name, value in arguments.items():
        if name.replace("-", "_") not in named:
            appended += option(name, value)
    appended += [dashed(flag) for flag in flags]
    if appended:
        command = command.rstrip()
        refuse_heredoc_end(command)
    return command_template(command, values, appended)


def option(name: str, value: Tree) -> list[Word]:
    if value is True:
        return [dashed(name)]
    if isinstance(value, Hole) and value.whole_word:
        return [value]
    return [each for word in words(value) for each in (dashed(name), word)]


def dashed(name: str) -> str:
    return name if name.startswith("-") else f"--{name}"


def words(value: Tree) -> list[Word]:
    """The words an argument stands for: none for None, "" and false; one each for the items of a list."""
    if value is None or value == "" or value is False:
        return []
    if isinstance(value, Hole | str):
        return [value]
    if isinstance(value, list):
        return [word for item in value for word in words(item)]
    if isinstance(value, dict):
        from tao_sdk.payload.formats import json_line

        return [json_line(value)]
    return ["true" if value is True else repr(value)]


def refuse_heredoc_end(command: str) -> None:
    how = marks(command)
    if how and how[-1].style == "text":
        raise SpecError(
            "The command ends in a comment or a here-document, so arguments cannot be appended to it.",
            next="Name them in the command as {name}.",
        )
