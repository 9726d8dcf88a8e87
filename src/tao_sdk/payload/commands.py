"""Commands: `{name}` and `{config_path}` in a shell command, and the arguments that are appended to
it.

Only the named placeholders are touched, so every other brace survives. A value never becomes text
of the command: it is in a variable of the shell, TAO_ARG_1 and so on, and the name of that stands
where the placeholder was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeGuard

from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.payload.formats import json_line
from tao_sdk.payload.placeholders import CONFIG_PATH
from tao_sdk.payload.rereading import Reading, reading
from tao_sdk.payload.shell import HereDocument, QuoteState, Spot, Word, scan
from tao_sdk.payload.values import Hole, Tree
from tao_sdk.runner.document import Hole as Gap
from tao_sdk.runner.document import Template
from tao_sdk.runner.quote import PLAIN, quote_word

NUL = "\0"
VARIABLE = "TAO_ARG_"
NUMBER = lazy_compile(r"-?[0-9]+", re.ASCII)
# the text before the value in key=value, or in the value alone
ARGUMENT = lazy_compile(r"""["']?([\w.+~@/\[\]-]+=)?["']?""")
OPTION_BEFORE = lazy_compile(r"(?<!\S)--?[A-Za-z][\w.-]*[ \t]+$")
INTO = lazy_compile(r"[<>][&|]?[ \t]*$")  # before the target of a redirection
PROGRAM = lazy_compile(
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
# the words of an argument that has one of these values
CONSTANT_WORDS: Mapping[bool | None, Sequence[str]] = {None: (), False: (), True: ("true",)}
AROUND = 30  # characters of the command that an error shows on either side

Value = str | Hole  # a value, or one that only the job knows

# syntax -> how the shell is told to put a variable there
REFERENCES = {
    QuoteState.WORD: '"${%s}"',
    QuoteState.SINGLE: "'\"${%s}\"'",
    QuoteState.DOUBLE: "${%s}",
    QuoteState.HERE: "${%s}",
    QuoteState.QUOTED_HERE: "${%s}",
    QuoteState.ARITHMETIC: "${%s}",
}
# syntax in which no value can stand -> where that is, what to do
REFUSED: Mapping[QuoteState | Reading, tuple[str, str]] = {
    QuoteState.ANSI: ("inside $'...'", "Close the quote before it: $'...'{x}."),
    QuoteState.BACKQUOTE: ("inside backquotes", "Write $(...) instead of the backquotes."),
    QuoteState.EXPANSION: (
        "inside ${...}",
        "Give it to a variable of your own before, v={x}, and use that.",
    ),
    QuoteState.DELIMITER: (
        "in the delimiter of a here-document",
        "Write a fixed word, such as EOF.",
    ),
    QuoteState.ESCAPED: (
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
    """The variables of one command, a value each. `plain`: values that only the job knows and that
    are read as code.
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
        """Shell text in front of the command that sets the variables. A variable that was exported
        before would stay exported, so it is unset.
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
            return quote_word(value)
        return value.key, self.style(value), quote_word(value.given or ""), "", ""

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
    edits: list[Edit] = []
    for spot in spots:
        spot_values = values[placeholder_name(command, spot)]
        refuse_spot(command, spot, spot_values, variables)
        edits.append(edit_word(command, spot, spot_values, variables))
    for document in quoted_documents(spots):
        edits += unquote_document(command, document, spots)
    body = [*edited_pieces(command, sorted(edits, key=lambda each: each[:2]))]
    refuse_appended(command, appended, variables)
    for value in appended:
        body += appended_word(value, variables)
    return assemble_template([*variables.assignments(), *body])


def placeholder_name(command: str, spot: Spot) -> str:
    """`name` of `{name}`."""
    return command[spot.start + 1 : spot.end - 1]


def quoted_documents(spots: Sequence[Spot]) -> list[HereDocument]:
    """The here-documents with a quoted delimiter that hold placeholders, each once."""
    documents = dict.fromkeys(spot.document for spot in spots)
    return [document for document in documents if document and document.quoted]


def replaced_spots(command: str, values: Mapping[str, object]) -> list[Spot]:
    """The placeholders of a command. One in a comment stays as it is: nothing reads it."""
    spans = [match.span() for match in placeholders(command, values)]
    spots = scan(command, spans).spots if spans else []
    return [spot for spot in spots if spot.quoting is not QuoteState.COMMENT]


def refuse_spot(command: str, spot: Spot, values: Sequence[Value], variables: Variables) -> None:
    """Raise SpecError if a placeholder cannot have these values."""
    if not values:
        refuse_part_of_word(command, spot)
    refuse_place(command, spot, values, variables)


def refuse_place(command: str, spot: Spot, values: Sequence[Value], variables: Variables) -> None:
    """Raise SpecError if the shell, or the next reader of the word, would take a value for more
    than a value.
    """
    read_as = reading(command, spot, several=len(values) > 1)
    obstacle = forbidden_place(spot, read_as)
    if obstacle is not None:
        where, advice = REFUSED[obstacle]
        raise misplaced(command, spot, f"{where}, where no value can", advice)
    for value in values:
        if read_as is Reading.NUMBER:
            refuse_calculation(command, spot, value)
        if read_as is Reading.OPTION:
            refuse_option(command, spot, value)
        if read_as is Reading.CODE:
            refuse_code(command, spot, value, variables)


def forbidden_place(spot: Spot, read_as: Reading | None) -> QuoteState | Reading | None:
    """The syntax or reading that forbids a value here; None if a value can stand here."""
    if spot.document and spot.document.quoted and not PLAIN.issuperset(spot.document.delimiter):
        return QuoteState.DELIMITER
    if spot.quoting in REFUSED:
        return spot.quoting
    if read_as in REFUSED:
        return read_as
    return None


def refuse_calculation(command: str, spot: Spot, value: Value) -> None:
    if isinstance(value, str) and NUMBER.fullmatch(value):
        return
    where = "where the shell calculates, and its value is no whole number"
    raise misplaced(command, spot, where, CALCULATED)


def refuse_option(command: str, spot: Spot, value: Value) -> None:
    if isinstance(value, Hole) or not value.startswith("-"):
        return
    where = "where a program looks for its options, and its value begins with '-'"
    raise misplaced(command, spot, where, AS_OPERAND)


def refuse_code(command: str, spot: Spot, value: Value, variables: Variables) -> None:
    """Raise SpecError for a value with a character that code could use. A value that only the job
    knows is checked in the job.
    """
    if isinstance(value, Hole):
        variables.plain.add(value)
        return
    if PLAIN.issuperset(value):
        return
    character = next(each for each in value if each not in PLAIN)
    where = f"in text that another program reads as code, and its value has {character!r}"
    raise misplaced(command, spot, where, suggest_own_word(command, spot))


def refuse_appended(command: str, appended: Sequence[Value], variables: Variables) -> None:
    """Raise SpecError for an argument appended to a command that would read it once more: `ssh host
    train` gets --name {name}.
    """
    text = command
    spans: list[tuple[int, int]] = []
    risky_values: list[Value] = []
    for value in appended:
        if not is_risky(value):
            text += f" {value}"
            continue
        start = len(text) + 1
        text += f" {{{shown_name(value, text)}}}"
        spans.append((start, len(text)))
        risky_values.append(value)
    for spot, value in zip(scan(text, spans).spots, risky_values, strict=True):
        refuse_place(text, spot, [value], variables)


def is_risky(value: Value) -> bool:
    """True for a value that a shell could take for more than one plain word."""
    if isinstance(value, Hole) or not value:
        return True
    return not PLAIN.issuperset(value)


def shown_name(value: Value, text: str) -> str:
    """The name of the appended argument whose value comes behind `text`."""
    if isinstance(value, Hole):
        return value.key
    return text.rsplit(maxsplit=1)[-1].lstrip("-")


def suggest_own_word(command: str, spot: Spot) -> str:
    """Advice for a value that a program would read as code: pass it to that program as a word of
    its own. The program is the last one that is named before the value.
    """
    name = command[spot.start : spot.end]
    if spot.document:
        program = last_program(command[: spot.document.written[0]])
        example = document_example(program, name)
    else:
        program = last_program(command[: spot.start])
        example = word_example(program).replace("{x}", name)
    return f"Give it to that program as a word of its own: {example}"


def last_program(text: str) -> str:
    """The last program that the text names; "" if it names none."""
    programs: list[str] = PROGRAM.findall(text)
    return programs[-1] if programs else ""


def document_example(program: str, name: str) -> str:
    if program.startswith("python"):
        return f"python3 - {name} <<'EOF', and sys.argv[1] in its lines"
    return f"bash -s {name} <<'EOF', and \"$1\" in its lines"


def word_example(program: str) -> str:
    for kind, example in OWN_WORDS:
        if program.startswith(kind):
            return example
    return "bash -c 'train \"$1\"' _ {x}"


def refuse_part_of_word(command: str, spot: Spot) -> None:
    """Raise SpecError for a placeholder without a value if its word has other text: more than the
    argument would be dropped.
    """
    if spot.word is None or is_argument(command, spot, spot.word):
        return
    name = command[spot.start : spot.end]
    raise SpecError(
        f"The command has {name} as a part of {text_around(command, spot)}, and "
        f"args.{name[1:-1]} has no value.",
        "An argument without a value is left out with its whole word, which says more here.",
        f"Give it a value, or let the word be {name} or key={name} alone.",
    )


def is_argument(command: str, spot: Spot, word: Word) -> bool:
    """True if the word is the placeholder alone or key={placeholder}, and no redirection."""
    before, after = command[word.start : spot.start], command[spot.end : word.end]
    if after.strip("\"'") or not ARGUMENT.fullmatch(before):
        return False
    return not INTO.search(command[: word.start])


def misplaced(command: str, spot: Spot, where: str, advice: str) -> SpecError:
    what = f"The command has {command[spot.start : spot.end]} {where}: {text_around(command, spot)}"
    return SpecError(what, "Its value could be run as a command there.", advice)


def text_around(command: str, spot: Spot) -> str:
    """The placeholder with the text on either side of it."""
    left, right = max(0, spot.start - AROUND), spot.end + AROUND
    words = "".join(
        character if character.isprintable() else " " for character in command[left:right]
    )
    if left > 0:
        words = f"...{words}"
    if right < len(command):
        words = f"{words}..."
    return words


Edit = tuple[int, int, list[str | Gap]]  # from, to, what stands there instead


def edit_word(command: str, spot: Spot, values: Sequence[Value], variables: Variables) -> Edit:
    """The word around a placeholder, or the placeholder alone, with its values."""
    start, end = spot.start, spot.end
    if len(values) != 1 or is_whole(values[0]):
        start, end = word_around(command, spot)
    before, after = command[start : spot.start], command[spot.end : end]
    pieces: list[str | Gap] = []
    for value in values:
        if pieces:
            pieces.append(" ")
        reference = REFERENCES[spot.quoting] % variables.name(value)
        if is_whole(value):
            pieces.append(when_there(value, before + reference + after))
        else:
            pieces += [before, reference, after]
    return start, end, pieces


def edited_pieces(command: str, edits: Sequence[Edit]) -> Iterator[str | Gap]:
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


def unquote_document(command: str, document: HereDocument, spots: Sequence[Spot]) -> Iterator[Edit]:
    """A here-document with a quoted delimiter, rewritten so that the shell replaces variables in
    it, and nothing else.
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
    reference = REFERENCES[QuoteState.WORD] % variables.name(value)
    if is_whole(value):
        return [when_there(value, f" {quote_word(dashed(value.key))} {reference}")]
    return [" ", reference]


def when_there(value: Hole, text: str) -> Gap:
    """Text that is in the command only if the job has a value for it."""
    return value.key, "nothing", "", text, ""


def is_whole(value: Value) -> TypeGuard[Hole]:
    return isinstance(value, Hole) and value.whole_word


def placeholders(command: str, values: Mapping[str, object]) -> Iterator[re.Match[str]]:
    """Each {name} of `values`; ${name} is the shell's own."""
    if values:
        names = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
        yield from re.finditer(r"(?<!\$)\{(" + names + r")\}", command)


def word_around(command: str, spot: Spot) -> tuple[int, int]:
    """The word that holds the placeholder. If the word is nothing but the placeholder, with the
    option before it.
    """
    if spot.word is None:
        return spot.start, spot.end
    start, end = spot.word.start, spot.word.end
    beside = command[start : spot.start] + command[spot.end : end]
    if beside.strip("\"'"):
        return start, end
    option = OPTION_BEFORE.search(command[:start])
    if option:
        return option.start(), end
    return start, end


def assemble_template(pieces: Sequence[str | Gap]) -> Template:
    """Pieces as a template; values that are known already are filled in here."""
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
    """Config mode: replace only the literal {config_path}."""
    return command_template(command, {"config_path": [Hole(CONFIG_PATH, "")]})


def with_arguments(command: str, arguments: Mapping[str, Tree], flags: Sequence[str]) -> Template:
    """Args mode: replace `{name}` by the argument, and append an argument that is not named as
    --name value.
    """
    values = {name: argument_words(value) for name, value in arguments.items()}
    refuse_nul(values)
    values = {**{with_underscores(name): value for name, value in values.items()}, **values}
    spots = replaced_spots(command, values)
    named = {with_underscores(placeholder_name(command, spot)) for spot in spots}
    appended: list[Value] = []
    for name, value in arguments.items():
        if with_underscores(name) not in named:
            appended += option_words(name, value)
    appended += [dashed(flag) for flag in flags]
    if appended:
        command = command.rstrip()
        refuse_heredoc_end(command)
    return command_template(command, values, appended)


def with_underscores(name: str) -> str:
    """`batch_size` for `batch-size`: a placeholder may be written either way."""
    return name.replace("-", "_")


def refuse_nul(values: Mapping[str, Sequence[Value]]) -> None:
    """Raise FieldError for a name or a value with a NUL: no program can be given one."""
    for name, given in values.items():
        if any(map(holds_nul, (name, *given))):
            raise FieldError(
                "args",
                f"args.{name.replace(NUL, '?')} holds a NUL character.",
                "No argument of a program can.",
                "Remove it.",
            )


def holds_nul(value: Value) -> bool:
    return isinstance(value, str) and NUL in value


def option_words(name: str, value: Tree) -> list[Value]:
    """An argument as it is appended: `--name value`, once for each of its values."""
    if value is True:
        return [dashed(name)]
    if isinstance(value, Hole) and value.whole_word:
        return [value]
    appended: list[Value] = []
    for word in argument_words(value):
        appended += [dashed(name), word]
    return appended


def dashed(name: str) -> str:
    if name.startswith("-"):
        return name
    return f"--{name}"


def argument_words(value: Tree) -> list[Value]:
    """The words of an argument: none for None, "" and false; one for each item of a list."""
    if value is None or isinstance(value, bool):
        return list(CONSTANT_WORDS[value])
    if isinstance(value, list):
        return list(chain.from_iterable(map(argument_words, value)))
    if isinstance(value, dict):
        return [json_line(value)]
    if value == "":
        return []
    if isinstance(value, Hole | str):
        return [value]
    return [repr(value)]


def refuse_heredoc_end(command: str) -> None:
    if not scan(command).takes_more:
        raise SpecError(
            "The command ends in a comment or a here-document, so "
            "arguments cannot be appended to it.",
            next="Name them in the command as {name}.",
        )
