"""Rereading: words that something reads a second time, as code, as a number, or as the name of a variable.

What a shell quotes is safe from that shell only. `bash -c 'train {x}'` reads its script again, `eval` its words, `[[ ]]`
its numbers. A value may stand there when no reader can take it for more than a plain word. The programs that everybody
uses are known here; one that is not known gets the value as any other argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum

from tao_sdk.payload.shell import Place, Simple, Spot, Word


class Reading(Enum):
    """As what a value is read once more."""

    CODE = "code"
    NUMBER = "number"
    NAME = "name"


SHELLS = frozenset("sh bash dash ash ksh zsh fish csh tcsh $SHELL ${SHELL} $BASH ${BASH}".split())
# program -> the letters of its options that a script follows
SCRIPT_OPTIONS = {
    **dict.fromkeys(SHELLS, "c"),
    **dict.fromkeys(("python", "pypy"), "c"),
    **dict.fromkeys(("perl", "ruby"), "eE"),
    **dict.fromkeys(("lua", "Rscript", "julia"), "e"),
    "node": "ep",
    "php": "r",
    "sed": "e",
}
INTERPRETERS = frozenset(SCRIPT_OPTIONS) - {"sed"}
NAMES_SCRIPT = re.compile(r"-\w*[cerm]")  # an option of an interpreter whose script is not on standard input
VALUED = frozenset({"-o", "+o", "-O", "+O", "-W", "-X", "-I", "--rcfile", "--init-file"})
LATE_OPTION = frozenset({"su", "runuser", "script", "flock"})  # their -c may come behind other words
# program -> the letters of its options that a value follows; its first other word is the script, unless -f or -e names one
SCRIPT_FIRST = {"awk": "vFf", "gawk": "vFfe", "mawk": "vFf", "nawk": "vFf", "sed": "efl", "trap": "l"}
EVERY_WORD = frozenset({"eval", "alias", "ssh", "watch", "parallel", "tmux"})
SEVERAL_SCRIPTS = frozenset({"sed", "perl", "ruby"})  # each of their -e has one
SOURCING = frozenset({".", "source"})
WRAPPERS = frozenset("sudo env timeout nohup nice ionice exec time stdbuf xargs setsid srun mpirun numactl".split())
DECLARING = frozenset({"export", "readonly", "declare", "typeset", "local"})
NAMING = frozenset({"unset", "read", "mapfile", "readarray", "getopts"})
HARMLESS_OPTIONS = re.compile(r"-[xrg]+")
COMPARED = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
RUN_VARIABLE = re.compile(r"(PS[0-4]|PROMPT_COMMAND|BASH_ENV|ENV)\+?=")  # a shell reads its value as code
PRINTING = frozenset({"echo", "printf"})


def reading(text: str, spot: Spot) -> Reading | None:
    """As what the value at this spot of the command `text` is read once more; None where it is only a value."""
    if spot.place is Place.ARITHMETIC:
        return Reading.NUMBER
    command = spot.document.command if spot.document else spot.command
    if not command:
        return None
    as_input = spot.document is not None or spot.word in command.here_strings
    if as_input and reads_input(text, command):
        return Reading.CODE
    as_argument = of_argument(text, spot, command) if spot.word in command.words else None
    if as_argument:
        return as_argument
    prints = as_input or PRINTING.intersection(program(bare(text, each)) for each in command.words)
    return Reading.CODE if prints and printed_code(text, command) else None


def printed_code(text: str, command: Simple) -> bool:
    """Whether what a command prints is read as code: behind a pipe, or as the word "$(...)" that it is inside of."""
    if any(reads_input(text, each) for each in list(pipeline(command))[1:]):
        return True
    outer = command.outer
    if not outer:
        return False
    if outer.word and outer.word in outer.command.words:
        whole = Spot(outer.word.start, outer.word.end, Place.WORD, outer.word, outer.command)
        if of_argument(text, whole, outer.command) or runs_file(text, outer.command, outer.word):
            return True
    passes_on = not outer.word or PRINTING.intersection(program(bare(text, each)) for each in outer.command.words)
    return bool(passes_on) and printed_code(text, outer.command)


def runs_file(text: str, command: Simple, word: Word) -> bool:
    """Whether <(...) is the file that a command runs: bash <(...), source <(...)."""
    words = [bare(text, each) for each in command.words]
    index = command.words.index(word)
    programs = [at for at in range(index) if program(words[at]) in INTERPRETERS | SOURCING]
    return text.startswith("<(", word.start) and any(index == behind_options(words, at) for at in programs)


def of_argument(text: str, spot: Spot, command: Simple) -> Reading | None:
    assert spot.word
    words = [bare(text, each) for each in command.words]
    index = command.words.index(spot.word)
    before, after = text[spot.word.start : spot.start], text[spot.end : spot.word.end]
    if is_name(words, index, before, after) or (command.defines and index == len(words) - 1):
        return Reading.NAME
    if is_number(words, index, before, after):
        return Reading.NUMBER
    return Reading.CODE if is_code(words, index, before) else None


def bare(text: str, word: Word) -> str:
    """The word without its quotes."""
    return re.sub(r"['\"\\]", "", text[word.start : word.end])


def program(word: str) -> str:
    """/usr/bin/python3.11 is python."""
    return re.sub(r"[\d.]+$", "", word.rpartition("/")[2]) or word


def pipeline(command: Simple) -> Iterator[Simple]:
    """The command and those behind it that read what it prints."""
    following: Simple | None = command
    while following:
        yield following
        following = following.piped_to


def is_name(words: Sequence[str], index: int, before: str, after: str) -> bool:
    first = first_program(words)
    if index <= first:
        return bool(re.fullmatch(r"\w*", before) and re.match(r"\w*(\[[^\]]*\])?\+?=", after))
    name, previous = words[first], words[index - 1]
    if name in ("for", "select", "function"):
        return index == first + 1
    if name in DECLARING:
        return "=" not in before
    if name in NAMING:
        return True
    return name in ("printf", "test", "[", "[[") and previous in ("-v", "-R")


def first_program(words: Sequence[str]) -> int:
    """The index of the word that names what is run: behind the assignments, and `command`."""
    for index, word in enumerate(words):
        if not ASSIGNMENT.match(word) and word not in ("command", "builtin"):
            return index
    return len(words)


def is_number(words: Sequence[str], index: int, before: str, after: str) -> bool:
    first = first_program(words)
    if re.fullmatch(r"\w*\[[^\]]*", before) and re.match(r"[^\]]*\]\+?=", after):
        return True  # the index of an array
    if index <= first:
        return False
    return words[first] == "let" or (words[first] == "[[" and not COMPARED.isdisjoint(words))


def is_code(words: Sequence[str], index: int, before: str) -> bool:
    first = first_program(words)
    if index < first:
        return bool(RUN_VARIABLE.match(before))
    if words[first] in {*DECLARING, "env", "sudo"} and RUN_VARIABLE.match(before):
        return True
    if first < index and words[first] in DECLARING:
        options = [each for each in words[first + 1 : index] if each.startswith("-")]
        return not all(map(HARMLESS_OPTIONS.fullmatch, options))  # a list or a number, read once more
    return any(reads_word(words, at, index, before) for at in range(index))


def reads_word(words: Sequence[str], at: int, index: int, before: str) -> bool:
    """Whether the program at `at` reads the word at `index` as code."""
    name = program(words[at])
    if name in SCRIPT_OPTIONS and reads_option(words, at, index, before):
        return True
    first = first_program(words)
    if at != first and words[first] not in WRAPPERS:
        return False  # a word such as `--mode eval`
    if name in EVERY_WORD:
        return True
    if name in LATE_OPTION:
        return words[index - 1] in ("-c", "--command")
    return name in SCRIPT_FIRST and index == first_operand(words, at, SCRIPT_FIRST[name])


def reads_option(words: Sequence[str], at: int, index: int, before: str) -> bool:
    """Whether the word is the script that an option of the interpreter at `at` announces, or has in itself."""
    name = program(words[at])
    letters = SCRIPT_OPTIONS[name]
    for option in own_options(words, at):
        if option == index:
            return name not in SHELLS and bool(re.match(rf"-\w*[{letters}]", before))
        if re.fullmatch(rf"-\w*[{letters}]", words[option]):
            script = next((n for n in range(option + 1, len(words)) if not is_option(words[n])), -1)
            if index == script or name not in SEVERAL_SCRIPTS:
                return index == script
    return False


def own_options(words: Sequence[str], at: int) -> Iterator[int]:
    """The indexes of the options of the program at `at`: those in front of its first other word."""
    n = at + 1
    several = program(words[at]) in SEVERAL_SCRIPTS
    while n < len(words) and is_option(words[n]):
        yield n
        valued = words[n] in VALUED or (several and re.fullmatch(r"-\w*[eE]", words[n]))
        n += 2 if valued else 1


def behind_options(words: Sequence[str], at: int) -> int:
    """The index of the first word of the program at `at` that is no option of it."""
    end = at + 1
    for option in own_options(words, at):
        end = option + (2 if words[option] in VALUED else 1)
    return end


def is_option(word: str) -> bool:
    return word.startswith(("-", "+"))


def first_operand(words: Sequence[str], at: int, valued: str) -> int:
    """The index of the first word that is neither an option nor an option's value; -1 when an option has the script."""
    n = at + 1
    while n < len(words) and words[n].startswith("-") and words[n] != "-":
        if re.match(r"-\w*[ef]|--file|--expression", words[n]):
            return -1
        n += 2 if re.fullmatch(rf"-\w*[{valued}]", words[n]) else 1
    return n if n < len(words) else -1


def reads_input(text: str, command: Simple) -> bool:
    """Whether a program of this command reads code from its standard input."""
    words = [bare(text, each) for each in command.words]
    if SOURCING.intersection(words[:1]) and any(word.startswith("/dev/") for word in words):
        return True
    return any(
        program(word) == "ssh" or (program(word) in INTERPRETERS and no_script(words, at))
        for at, word in enumerate(words)
    )


def no_script(words: Sequence[str], at: int) -> bool:
    """Whether the interpreter at `at` takes its script from standard input."""
    name, end = program(words[at]), behind_options(words, at)
    for option in own_options(words, at):
        if words[option] in ("-", "-s"):
            return True
        if NAMES_SCRIPT.fullmatch(words[option]) and not (name in SHELLS and not words[option].endswith("c")):
            return False
    return end >= len(words) or words[end] == "/dev/stdin"
