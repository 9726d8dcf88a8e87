"""Rereading: words that something reads a second time, as code, as a number, or as the name of a
variable.

What a shell quotes is safe from that shell only. `bash -c 'train {x}'` reads its script again,
`eval` its words, `[[ ]]` its numbers. A value may stand there when no reader can take it for more
than a plain word. The programs that everybody uses are known (script_programs.py); one that is not
known gets the value as any other argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.payload.script_programs import (
    INTERPRETERS,
    SOURCING,
    STANDARD_INPUT,
    WRAPPERS,
    Argument,
    end_of_options,
    first_program,
    is_dashed,
    is_run,
    may_be_option,
    program_name,
    takes_input,
)
from tao_sdk.payload.shell import Outer, QuoteState, Simple, Spot, Word


class Reading(Enum):
    """The ways in which a value is read once more."""

    CODE = "code"
    NUMBER = "number"
    NAME = "name"
    OPTION = "option"  # a word that would be an option when it begins with -


DECLARING = frozenset({"export", "readonly", "declare", "typeset", "local"})
FILLING = frozenset({"read", "mapfile", "readarray"})  # variables, from standard input
NAMING = frozenset({"unset", "getopts", "wait", *FILLING})
LOOPS = frozenset({"for", "select"})  # their first word is the name of a variable
HARMLESS_OPTIONS = lazy_compile(r"-[xrg]+|--")
INTEGERS = frozenset("OPTIND RANDOM SRANDOM SECONDS HISTCMD".split())  # in bash, from its start
VARIABLE = lazy_compile(r"[A-Za-z_]\w*")
LIST = lazy_compile(r"([A-Za-z_]\w*)\+?=\(")  # a=( and a+=(
ASSIGNED = lazy_compile(r"([A-Za-z_]\w*)(\[.*\])?\+?=")
NAME_BEGUN = lazy_compile(r"\w*")
NAME_ENDED = lazy_compile(r"\w*(\[[^\]]*\])?\+?=")
ELEMENT_BEGUN = lazy_compile(r"\w*\[[^=]*$")  # the index of an array
ELEMENT_ENDED = lazy_compile(r"\]\+?=")
SEPARATORS = frozenset({"&&", "||", "(", ")"})  # between the comparisons of [[ ... ]]
COMPARED = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
EXISTS = frozenset({"-v", "-R"})  # the name of a variable follows
# a shell reads the value of these as code
RUN_VARIABLE = lazy_compile(r"(PS[0-4]|PROMPT_COMMAND|BASH_ENV|ENV)\+?=")
PRINTING = frozenset("echo printf yes basename dirname realpath readlink expr seq date".split())
SUBSTITUTION = lazy_compile(r"\$\(|<\(")


def reading(text: str, spot: Spot, several: bool = False) -> Reading | None:
    """The way in which the value at this spot of the command `text` is read once more; None if it
    is only a value. `several`: more values follow it, each a word.
    """
    if spot.quoting is QuoteState.ARITHMETIC:
        return Reading.NUMBER
    command = holding_command(spot)
    if command is None:
        return None
    as_input = is_input(spot, command)
    if as_input and reads_input(text, command):
        return Reading.CODE
    as_argument = None
    if spot.word in command.words:
        as_argument = argument_reading(text, spot, command, several)
    if as_argument not in (None, Reading.OPTION):
        return as_argument
    if not as_input and not prints_words(text, command):
        return as_argument
    return printed_reading(text, spot, command) or as_argument


def holding_command(spot: Spot) -> Simple | None:
    """The command that gets the value, as a word or in a here-document."""
    if spot.document:
        return spot.document.command
    return spot.command


def is_input(spot: Spot, command: Simple) -> bool:
    """True if the value is in the standard input of the command."""
    return spot.document is not None or spot.word in command.read_words


# The words of a command, without quotes


def bare_words(text: str, command: Simple) -> list[str]:
    return [bare_word(text, word) for word in command.words]


def bare_word(text: str, word: Word) -> str:
    return unquoted(text[word.start : word.end])


def unquoted(text: str) -> str:
    return re.sub(r"['\"\\]", "", text)


def prints_words(text: str, command: Simple) -> bool:
    """True if one of the words names a program that prints the others."""
    return not PRINTING.isdisjoint(map(program_name, bare_words(text, command)))


# What a command prints


def printed_reading(text: str, spot: Spot, command: Simple) -> Reading | None:
    """The reading of a value that a command prints or takes as input; None if it is not read
    again.
    """
    if prints_code(text, command) or has_hidden_reader(text, spot.commands):
        return Reading.CODE
    names = filled_variables(text, spot.commands)
    return first_reading(variable_reading(text, spot.commands, name) for name in names)


def first_reading(readings: Iterable[Reading | None]) -> Reading | None:
    return next(filter(None, readings), None)


def filled_variables(text: str, commands: Sequence[Simple]) -> Iterator[str]:
    """The words of each `read`: the variables that it fills are among them."""
    for command in commands:
        words = bare_words(text, command)
        if not FILLING.isdisjoint(words):
            yield from words


def has_hidden_reader(text: str, commands: Sequence[Simple]) -> bool:
    """True if a program of the text reads code from a place that this module does not follow: a
    function, >(...), a coproc, a pipe in a folder, or an `exec` that redirects the commands behind
    it.
    """
    if not any(hides_reader(text, command) for command in commands):
        return False
    return any(reads_any_code(text, command) for command in commands)


def hides_reader(text: str, command: Simple) -> bool:
    if command.fed or command.defines:
        return True
    words = bare_words(text, command)
    return words == ["exec"] or words[:1] in (["function"], ["coproc"]) or "mkfifo" in words


def reads_any_code(text: str, command: Simple) -> bool:
    """True if the command reads code from its input, or from another command's output."""
    if reads_input(text, command):
        return True
    return any(runs_word(text, command, word) for word in substitutions(text, command))


def substitutions(text: str, command: Simple) -> Iterator[Word]:
    """The words that hold $(...) or <(...)."""
    return (word for word in command.words if SUBSTITUTION.search(text[word.start : word.end]))


def runs_word(text: str, command: Simple, word: Word) -> bool:
    return runs_file(text, command, word) or rereads_word(text, command, word)


def rereads_word(text: str, command: Simple, word: Word) -> bool:
    """True if a whole word of the command is read once more."""
    start = max(word.start, text.find("$(", word.start, word.end))  # OPTIND=$(echo 1)
    spot = Spot(start, word.end, QuoteState.WORD, word, command)
    return argument_reading(text, spot, command) not in (None, Reading.OPTION)


def prints_code(text: str, command: Simple) -> bool:
    """True if the output of a command is read as code: behind a pipe, or as the word "$(...)" that
    holds it.
    """
    if any(reads_input(text, reader) for reader in piped_commands(command)):
        return True
    outer = command.outer
    if not outer:
        return False
    if reads_printed(text, outer.command, outer.word):
        return True
    return passes_on(text, outer) and prints_code(text, outer.command)


def piped_commands(command: Simple) -> Iterator[Simple]:
    """The commands behind one that read what it prints."""
    following = command.piped_to
    while following:
        yield following
        following = following.piped_to


def reads_printed(text: str, command: Simple, word: Word | None) -> bool:
    """True if the command reads output in this word, or in the lines of its here-document, as
    code.
    """
    if word is None:
        return runs_input(text, command)
    if word in command.read_words:
        return reads_input(text, command)
    if word not in command.words:
        return False
    if text.startswith("$(", word.start) and names_program(text, command, word):
        return True
    return runs_word(text, command, word)


def names_program(text: str, command: Simple, word: Word) -> bool:
    """True if words without quotes around them name a program, or its options: $(echo {x}) 1."""
    words, index = bare_words(text, command), command.words.index(word)
    first = first_program(words)
    if index <= first or words[first] in WRAPPERS:
        return True
    spot = Spot(word.start, word.end, QuoteState.WORD, word, command)
    return argument_reading(text, spot, command, several=True) is not None


def passes_on(text: str, outer: Outer) -> bool:
    """True if output printed inside is printed once more: by a group, by `echo "$(...)"`, by a
    filter of <(...).
    """
    if not outer.word or text.startswith("<(", outer.word.start):
        return True
    return prints_words(text, outer.command)


def runs_file(text: str, command: Simple, word: Word) -> bool:
    """True if <(...) is the file that a command runs: bash <(...), source <(...)."""
    if not text.startswith("<(", word.start):
        return False
    words, index = bare_words(text, command), command.words.index(word)
    runners = INTERPRETERS | SOURCING
    programs = [at for at in range(index) if program_name(words[at]) in runners]
    return any(index == end_of_options(words, at) for at in programs)


# Code on standard input


def reads_input(text: str, command: Simple) -> bool:
    """True if a program of this command, or of a group's, reads code from its standard input."""
    if any(reads_input(text, part) for part in command.parts):
        return True
    return runs_input(text, command)


def runs_input(text: str, command: Simple) -> bool:
    """True if a word of the command names a program that reads code from its standard input."""
    words = bare_words(text, command)
    if SOURCING.intersection(words[:1]) and not STANDARD_INPUT.isdisjoint(words):
        return True
    return any(takes_input(words, at) for at in range(len(words)))


# A value as an argument


def argument_reading(
    text: str, spot: Spot, command: Simple, several: bool = False
) -> Reading | None:
    """The way in which the command reads the argument that holds the value; None if it takes it as
    text.
    """
    argument = argument_at(text, spot, command)
    stored = stored_reading(text, spot, argument)
    if stored:
        return stored
    if list_start(text, command):
        return None
    if command.defines and argument.index == len(argument.words) - 1:
        return Reading.NAME
    return word_reading(argument, several)


def argument_at(text: str, spot: Spot, command: Simple) -> Argument:
    assert spot.word
    before = unquoted(text[spot.word.start : spot.start])
    after = unquoted(text[spot.end : spot.word.end])
    return Argument(bare_words(text, command), command.words.index(spot.word), before, after)


def word_reading(argument: Argument, several: bool) -> Reading | None:
    if is_name(argument):
        return Reading.NAME
    if is_number(argument):
        return Reading.NUMBER
    if argument.program == "[[":
        return condition_reading(argument)
    if is_code(argument):
        return Reading.CODE
    if may_be_option(argument, several):
        return Reading.OPTION
    return None


def is_name(argument: Argument) -> bool:
    """True if the name of a variable or a function has to stand there."""
    if argument.index <= argument.first:
        return begins_assignment(argument)
    name, previous = argument.program, argument.words[argument.index - 1]
    if name in LOOPS or name == "function":
        return argument.index == argument.first + 1
    if name in DECLARING:
        return "=" not in argument.before
    if name in NAMING:
        return True
    if name == "printf" and argument.before.startswith("-v"):
        return True
    return name in ("printf", "test", "[") and previous in EXISTS


def begins_assignment(argument: Argument) -> bool:
    """True in the name of NAME=value and NAME[1]=value."""
    if not NAME_BEGUN.fullmatch(argument.before):
        return False
    return NAME_ENDED.match(argument.after) is not None


def is_number(argument: Argument) -> bool:
    """True in the index of an array, and behind `let`."""
    if ELEMENT_BEGUN.match(argument.before) and ELEMENT_ENDED.search(argument.after):
        return True
    return argument.index > argument.first and argument.program == "let"


def is_code(argument: Argument) -> bool:
    is_run_variable = RUN_VARIABLE.match(argument.before) is not None
    if argument.index < argument.first:
        return is_run_variable
    if is_run_variable and sets_variables(argument.precedent):
        return True
    if argument.first < argument.index and argument.program in DECLARING:
        return rereads_declared(argument)
    return any(is_run(argument, at) for at in range(argument.index))


def rereads_declared(argument: Argument) -> bool:
    """True if `declare` has options by which it reads its values once more: as a list, a number."""
    options = filter(is_dashed, argument.precedent[1:])
    return not all(map(HARMLESS_OPTIONS.fullmatch, options))


def sets_variables(words: Sequence[str]) -> bool:
    """True if these words stand before assignments: export, env -i, nohup sudo."""
    if not words:
        return False
    if words[0] in DECLARING:
        return True
    return words[0] in WRAPPERS and not {"env", "sudo"}.isdisjoint(words)


# The value of a variable


def stored_reading(text: str, spot: Spot, argument: Argument) -> Reading | None:
    """The way in which the shell reads the value again, once a variable holds it. None if it does
    not.
    """
    name = assigned_variable(argument)
    start = list_start(text, spot.command) if spot.command else None
    if start:
        name = start[1]
    if not name:
        return None
    return variable_reading(text, spot.commands, name)


def list_start(text: str, command: Simple) -> re.Match[str] | None:
    """The start of the list that the words of a command stand in: a=(."""
    outer = command.outer
    if not outer or not outer.word:
        return None
    return LIST.match(text, outer.word.start)


def assigned_variable(argument: Argument) -> str:
    """The name of the variable that gets the word as its value; "" if none does."""
    words, index, first = argument.words, argument.index, argument.first
    assignment = ASSIGNED.match(argument.before)
    if assignment and (index < first or sets_variables(argument.precedent)):
        return assignment[1]
    if index <= first + 1:
        return ""
    if argument.program in LOOPS:
        return words[first + 1]
    if argument.program == "printf":
        return printed_variable(words[first + 1 :])
    return ""


def printed_variable(words: Sequence[str]) -> str:
    """The name behind -v, which printf sets; "" without that."""
    option = words[0]
    if option == "-v":
        return words[1]
    if option.startswith("-v"):
        return option[2:]
    return ""


def variable_reading(text: str, commands: Sequence[Simple], name: str) -> Reading | None:
    """The way in which a variable reads each value that is assigned to it; None if it takes it as
    text.
    """
    if RUN_VARIABLE.match(f"{name}="):
        return Reading.CODE
    name = name.partition("[")[0]
    if name in INTEGERS:
        return Reading.NUMBER
    attributes = "".join(declared_attributes(text, commands, name))
    if "i" in attributes:
        return Reading.NUMBER
    if "n" in attributes:
        return Reading.NAME
    return None


def declared_attributes(text: str, commands: Sequence[Simple], name: str) -> Iterator[str]:
    """The options of each `declare` that names the variable, or one that is not known here."""
    for command in commands:
        words = bare_words(text, command)
        declaration = words[first_program(words) :]
        if not is_declaration(declaration):
            continue
        options = list(filter(is_dashed, declaration[1:]))
        names = [re.split(r"[\[+=]", word)[0] for word in declaration[1:] if word not in options]
        if name in names or not all(map(VARIABLE.fullmatch, names)):
            yield from options


def is_declaration(words: Sequence[str]) -> bool:
    return bool(words) and words[0] in DECLARING - {"export"}


# Inside [[ ... ]]


def condition_reading(argument: Argument) -> Reading | None:
    """The reading inside [[ ... ]]. A shell without [[ runs the words behind && and ||."""
    comparison, _ = segment_around(argument, SEPARATORS)
    if not EXISTS.isdisjoint(comparison):
        return Reading.NAME
    if not COMPARED.isdisjoint(comparison):
        return Reading.NUMBER
    command, index = segment_around(argument, SEPARATORS | {"\n"})
    if is_code(Argument(command, index, argument.before)):
        return Reading.CODE
    return None


def segment_around(argument: Argument, separators: frozenset[str]) -> tuple[list[str], int]:
    """(the words around an argument as far as a separator, the index of its own among them)."""
    words, index = argument.words, argument.index
    before = (at for at in range(index - 1, -1, -1) if words[at] in separators)
    behind = (at for at in range(index, len(words)) if words[at] in separators)
    start = next(before, -1) + 1
    end = next(behind, len(words))
    return list(words[start:end]), index - start
