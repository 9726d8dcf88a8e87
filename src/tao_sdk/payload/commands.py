"""Commands: `{name}` and `{config_path}` in a shell command, and the arguments that are appended to
it.

Only the named placeholders are touched, so every other brace survives. A value never becomes text
of the command: it is in a variable of the shell, TAO_ARG_1 and so on, and the name of that stands
where the placeholder was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TypeGuard

from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.payload.rereading import Reading, reading
from tao_sdk.payload.shell import HereDocument, Place, Spot, Word, scan
from tao_sdk.payload.values import Hole, Tree
from tao_sdk.runner.document import Hole as Gap
from tao_sdk.runner.document import Template
from tao_sdk.runner.quote import PLAIN, shell

NUL = "\0"
CONFIG_PATH = "{config_path}"
VARIABLE = "TAO_ARG_"
NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
ARGUMENT = re.compile(
    r"""["']?([\w.+~@/\[\]-]+=)?["']?"""
)  # what stands before the value in key=value, or in the value alone
INTO = re.compile(r"[<>][&|]?[ \t]*$")  # before the target of a redirection
PROGRAM = re.compile(
    r"(?<![\w.-])(python[\d.]*|[gmn]?awk|perl|ruby|node|sed|ssh|(?:ba|da|z|k)?sh)(?![\w.-])"
)
# program -> how a value reaches its script as a word of its own
OWN_WORDS = (
    ("python", "python3 -c 'import sys; train(sys.argv[1])' {x}"),
    ("awk", "awk -v x={x} '{print x}'"),
    ("gawk", "gawk -v x={x} '{print x}'"),
    ("mawk", "mawk -v x={x} '{print x}'"),
    ("nawk", "nawk -v x={x} '{print x}'"),
    ("perl", "perl -e 'train($ARGV[0])' {x}"),
    ("ruby", "ruby -e 'train(ARGV[0])' {x}"),
    ("node", "node -e 'train(process.argv[1])' {x}"),
)
AROUND = 30  # characters of the command that an error shows on either side

Value = str | Hole  # a value, or one that only the job knows

# place -> how the shell is told to put a variable there
REFERENCES = {
    Place.WORD: '"${%s}"',
    Place.SINGLE: "'\"${%s}\"'",
    Place.DOUBLE: "${%s}",
    Place.HERE: "${%s}",
    Place.QUOTED_HERE: "${%s}",
    Place.ARITHMETIC: "${%s}",
}
# place where no value can stand -> where that is, what to do
REFUSED: Mapping[Place | Reading, tuple[str, str]] = {
    Place.ANSI: ("inside $'...'", "Close the quote before it: $'...'{x}."),
    Place.BACKQUOTE: ("inside backquotes", "Write $(...) instead of the backquotes."),
    Place.EXPANSION: (
        "inside ${...}",
        "Give it to a variable of your own before, v={x}, and use that.",
    ),
    Place.DELIMITER: ("in the delimiter of a here-document", "Write a fixed word, such as EOF."),
    Place.ESCAPED: (
        "behind a backslash",
        "Leave the backslash out, or write '...' around what is not a placeholder.",
    ),
    Reading.NAME: (
        "where the name of a variable or a function has to stand",
        "Write a fixed name.",
    ),
}
CALCULATED = "Give it a whole number, or calculate before and give the result."
AS_OPERAND = "Put a fixed word before it, such as -- or '%s\\n'."


@dataclass
class Variables:
    """The variables of one command, a value each. `plain`: the values that only the job knows and
    that are read as code.
    """

    command: str
    names: dict[Value, str] = field(default_factory=dict[Value, str])
    plain: set[Value] = field(default_factory=set[Value])
    count: int = 0

    def name(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = self.free_name()
        return self.names[value]

    def free_name(self) -> str:
        """The next name that the command does not use itself."""
        while True:
            self.count += 1
            name = f"{VARIABLE}{self.count}"
            if not re.search(name + r"(?!\d)", self.command):
                return name

    def assignments(self) -> Iterator[str | Gap]:
        """Shell text that sets them, in front of the command. One that was exported before would
        stay so: it is unset.
        """
        if self.names:
            yield f"unset -v {' '.join(self.names.values())}; "
        for value, name in self.names.items():
            if is_whole(value):
                yield value.key, self.style(value), "", f"{name}=", "; "
            else:
                yield from (f"{name}=", self.set_to(value), "; ")

    def set_to(self, value: Value) -> str | Gap:
        if isinstance(value, str):
            return shell(value)
        return value.key, self.style(value), shell(value.given or ""), "", ""

    def style(self, value: Value) -> str:
        return "plain" if value in self.plain else "shell"


def command_template(
    command: str, values: Mapping[str, Sequence[Value]], appended: Sequence[Value] = ()
) -> Template:
    """The command with each `{name}` of `values` replaced.

    A word that holds a placeholder stands once for each of its values: not at all when there is
    none (with the option before it), several times for a list. Raises SpecError for a placeholder
    where no value can stand.
    """
    variables = Variables(command)
    spots = replaced_spots(command, values)
    for spot in spots:
        if not values[command[spot.start + 1 : spot.end - 1]]:
            refuse_part_of_word(command, spot)
        refuse_place(command, spot, values[command[spot.start + 1 : spot.end - 1]], variables)
    edits = [
        edit(command, spot, values[command[spot.start + 1 : spot.end - 1]], variables)
        for spot in spots
    ]
    documents = dict.fromkeys(
        spot.document for spot in spots if spot.document and spot.document.quoted
    )
    edits += [each for document in documents for each in unquoted(command, document, spots)]
    body = [*edited(command, sorted(edits, key=lambda each: each[:2]))]
    refuse_appended(command, appended, variables)
    for value in appended:
        body += appended_word(value, variables)
    return assembled([*variables.assignments(), *body])


def replaced_spots(command: str, values: Mapping[str, object]) -> list[Spot]:
    """The placeholders of a command. One in a comment stays as it is: nothing reads it."""
    spans = [match.span() for match in placeholders(command, values)]
    spots = scan(command, spans).spots if spans else []
    return [spot for spot in spots if spot.place is not Place.COMMENT]


def refuse_place(command: str, spot: Spot, values: Sequence[Value], variables: Variables) -> None:
    """Raise SpecError where the shell, or who reads the word after it, would take a value for more
    than a value.
    """
    read_as = reading(command, spot, several=len(values) > 1)
    why: Place | Reading | None = read_as if spot.place not in REFUSED else spot.place
    if spot.document and spot.document.quoted and not PLAIN.issuperset(spot.document.delimiter):
        why = Place.DELIMITER
    if why and why in REFUSED:
        where, advice = REFUSED[why]
        raise misplaced(command, spot, f"{where}, where no value can", advice)
    for value in values:
        if read_as is Reading.NUMBER and not (isinstance(value, str) and NUMBER.fullmatch(value)):
            where = "where the shell calculates, and its value is no whole number"
            raise misplaced(command, spot, where, CALCULATED)
        if read_as is Reading.OPTION and isinstance(value, str) and value.startswith("-"):
            where = "where a program looks for its options, and its value begins with '-'"
            raise misplaced(command, spot, where, AS_OPERAND)
        if read_as is Reading.CODE and isinstance(value, Hole):
            variables.plain.add(value)
        elif read_as is Reading.CODE and isinstance(value, str) and not PLAIN.issuperset(value):
            character = next(each for each in value if each not in PLAIN)
            where = f"in text that another program reads as code, and its value has {character!r}"
            raise misplaced(command, spot, where, own_word(command, spot))


def refuse_appended(command: str, appended: Sequence[Value], variables: Variables) -> None:
    """Raise SpecError for an argument that is appended where it would be read once more: `ssh host
    train` gets --name {name}.
    """
    text, spans = command, list[tuple[int, int]]()
    for value in appended:
        start = len(text) + 1
        text += f" {{{shown_name(value, text)}}}" if is_risky(value) else f" {value}"
        spans.append((start, len(text)))
    risky = [span for span, value in zip(spans, appended, strict=True) if is_risky(value)]
    given = [[value] for value in appended if is_risky(value)]
    for spot, values in zip(scan(text, risky).spots, given, strict=True):
        refuse_place(text, spot, values, variables)


def is_risky(value: Value) -> bool:
    return isinstance(value, Hole) or not value or not PLAIN.issuperset(value)


def shown_name(value: Value, text: str) -> str:
    """The name of the appended argument whose value comes behind `text`."""
    return value.key if isinstance(value, Hole) else text.rsplit(maxsplit=1)[-1].lstrip("-")


def own_word(command: str, spot: Spot) -> str:
    """What to write instead, for the program that reads the text as code: the last one that is
    named before it.
    """
    before = command[: spot.document.written[0] if spot.document else spot.start]
    programs: list[str] = PROGRAM.findall(before)
    name = command[spot.start : spot.end]
    if spot.document:
        example = f"bash -s {name} <<'EOF', and \"$1\" in its lines"
        if programs and programs[-1].startswith("python"):
            example = f"python3 - {name} <<'EOF', and sys.argv[1] in its lines"
    else:
        forms = (each for kind, each in OWN_WORDS if programs and programs[-1].startswith(kind))
        example = next(forms, "bash -c 'train \"$1\"' _ {x}").replace("{x}", name)
    return f"Give it to that program as a word of its own: {example}"


def refuse_part_of_word(command: str, spot: Spot) -> None:
    """Raise SpecError for a placeholder without a value that has other text in its word: more than
    an argument would go.
    """
    if spot.word is None:
        return
    before, after = command[spot.word.start : spot.start], command[spot.end : spot.word.end]
    if (
        ARGUMENT.fullmatch(before)
        and not after.strip("\"'")
        and not INTO.search(command[: spot.word.start])
    ):
        return
    name = command[spot.start : spot.end]
    raise SpecError(
        f"The command has {name} as a part of {around(command, spot)}, and "
        f"args.{name[1:-1]} has no value.",
        "An argument without a value is left out with its whole word, which says more here.",
        f"Give it a value, or let the word be {name} or key={name} alone.",
    )


def misplaced(command: str, spot: Spot, where: str, advice: str) -> SpecError:
    what = f"The command has {command[spot.start : spot.end]} {where}: {around(command, spot)}"
    return SpecError(what, "Its value could be run as a command there.", advice)


def around(command: str, spot: Spot) -> str:
    """The placeholder with the text on either side of it."""
    left, right = max(0, spot.start - AROUND), spot.end + AROUND
    words = "".join(each if each.isprintable() else " " for each in command[left:right])
    return f"{'...' * (left > 0)}{words}{'...' * (right < len(command))}"


Edit = tuple[int, int, list[str | Gap]]  # from, to, what stands there instead


def edit(command: str, spot: Spot, values: Sequence[Value], variables: Variables) -> Edit:
    """The word around a placeholder, or the placeholder alone, with its values."""
    alone = len(values) == 1 and not is_whole(values[0])
    start, end = (spot.start, spot.end) if alone else word_around(command, spot)
    before, after = command[start : spot.start], command[spot.end : end]
    pieces: list[str | Gap] = []
    for index, value in enumerate(values):
        reference = REFERENCES[spot.place] % variables.name(value)
        pieces += [" "] if index else []
        pieces += (
            [when_there(value, before + reference + after)]
            if is_whole(value)
            else [before, reference, after]
        )
    return start, end, pieces


def edited(command: str, edits: Sequence[Edit]) -> Iterator[str | Gap]:
    done = 0
    for start, end, pieces in edits:
        if start < done:
            raise SpecError(
                f"One word of the command has two placeholders, and one of them "
                f"has no value or several: {command[start:end]}",
                next="Give each a word of its own.",
            )
        yield command[done:start]
        yield from pieces
        done = end
    yield command[done:]


def unquoted(command: str, document: HereDocument, spots: Sequence[Spot]) -> Iterator[Edit]:
    """A here-document whose delimiter is quoted, as one in which the shell replaces variables, and
    nothing else.
    """
    start, end = document.written
    yield start, end, [document.delimiter]
    inside = [(spot.start, spot.end) for spot in spots if spot.document is document]
    for match in re.finditer(r"[\\$`]", command[slice(*document.body)]):
        at = document.body[0] + match.start()
        if not any(start <= at < end for start, end in inside):
            yield at, at, ["\\"]


def appended_word(value: Value, variables: Variables) -> list[str | Gap]:
    if isinstance(value, str) and value and PLAIN.issuperset(value):
        return [" ", value]
    reference = REFERENCES[Place.WORD] % variables.name(value)
    if is_whole(value):
        return [when_there(value, f" {shell(dashed(value.key))} {reference}")]
    return [" ", reference]


def when_there(value: Hole, text: str) -> Gap:
    """Text that stands in the command when the job has a value for it."""
    return value.key, "nothing", "", text, ""


def is_whole(value: Value) -> TypeGuard[Hole]:
    return isinstance(value, Hole) and value.whole_word


def placeholders(command: str, values: Mapping[str, object]) -> Iterator[re.Match[str]]:
    """Each {name} of `values`; ${name} is the shell's own."""
    if values:
        names = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
        yield from re.finditer(r"(?<!\$)\{(" + names + r")\}", command)


def names_in_braces(command: str) -> list[str]:
    """Each {name} of a command that is no ${variable}."""
    return re.findall(r"(?<!\$)\{([A-Za-z_][\w-]*)\}", command)


def misspelt(command: str, known: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each {name} of a command that is nearly one of the `known`, with that one: it stays as it is,
    and is hardly meant to.
    """
    known = list(known)
    for name in dict.fromkeys(names_in_braces(command)):
        meant = get_close_matches(name, known, n=1, cutoff=0.8)
        if meant and name not in known:
            yield name, meant[0]


def word_around(command: str, spot: Spot) -> tuple[int, int]:
    """The word that holds the placeholder, with the option before it when the word is nothing but
    the placeholder.
    """
    word = spot.word or Word(spot.start, spot.end)
    option = re.search(r"(?<!\S)--?[A-Za-z][\w.-]*[ \t]+$", command[: word.start])
    alone = not f"{command[word.start : spot.start]}{command[spot.end : word.end]}".strip("\"'")
    return (option.start() if option and alone and spot.word else word.start), word.end


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
    """Args mode: `{name}` is replaced by the argument; an argument that is not named is appended as
    --name value.
    """
    values = {name: words(value) for name, value in arguments.items()}
    refuse_nul(values)
    values = {**{name.replace("-", "_"): value for name, value in values.items()}, **values}
    named = {
        command[spot.start + 1 : spot.end - 1].replace("-", "_")
        for spot in replaced_spots(command, values)
    }
    appended: list[Value] = []
    for name, value in arguments.items():
        if name.replace("-", "_") not in named:
            appended += option(name, value)
    appended += [dashed(flag) for flag in flags]
    if appended:
        command = command.rstrip()
        refuse_heredoc_end(command)
    return command_template(command, values, appended)


def refuse_nul(values: Mapping[str, Sequence[Value]]) -> None:
    for name, given in values.items():
        if any(NUL in text for text in (name, *given) if isinstance(text, str)):
            raise FieldError(
                "args",
                f"args.{name.replace(NUL, '?')} holds a NUL character.",
                "No argument of a program can.",
            )


def option(name: str, value: Tree) -> list[Value]:
    if value is True:
        return [dashed(name)]
    if isinstance(value, Hole) and value.whole_word:
        return [value]
    return [each for word in words(value) for each in (dashed(name), word)]


def dashed(name: str) -> str:
    return name if name.startswith("-") else f"--{name}"


def words(value: Tree) -> list[Value]:
    """The words an argument stands for: none for None, "" and false; one each for the items of a
    list.
    """
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
    if not scan(command).takes_more:
        raise SpecError(
            "The command ends in a comment or a here-document, so "
            "arguments cannot be appended to it.",
            next="Name them in the command as {name}.",
        )
