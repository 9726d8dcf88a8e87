"""Pipelines: how a command's shell handles the end and the output of its programs. Pure.

The text is read as far as it can be read before it runs: scripts of `bash -c` too, and script files
that the caller can read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tao_sdk.payload.rereading import bare_words
from tao_sdk.payload.script_programs import (
    SHELL_SCRIPT,
    SHELLS,
    end_of_options,
    first_program,
    own_options,
    program_name,
)
from tao_sdk.payload.shell import Simple, Word, scan

ReadScript = Callable[[str], str]
"""The text of a script file by its path in the command; "" where it cannot be read."""

DEEPEST = 3  # scripts inside scripts
PIPEFAIL = re.compile(r"\bpipefail\b")
ENDS_AT_FAILURE = re.compile(r"\bset\s+-\w*e|\bset\s+-o\s+errexit")
BACKGROUND = re.compile(r"(?<![&>])&(?![&>\d])")  # none of `&&`, `2>&1` and `&>log`
WRAPS = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
# programs whose own end says nothing of a training: as the last ones they give a 0 to any command
REPORTERS = frozenset(
    "echo printf true : ls date cat cp mv rm touch sync du df tar chmod nvidia-smi".split()
)
# filters that keep what they print in a buffer, unless their output is a terminal: the option that
# each one has against that
LINE_BY_LINE = {
    "grep": ("--line-buffered", r"--line-buffered"),
    "egrep": ("--line-buffered", r"--line-buffered"),
    "sed": ("-u", r"-\w*u\w*|--unbuffered|-l|--line-buffered"),
    "awk": ("fflush()", r".*fflush.*"),
    "gawk": ("fflush()", r".*fflush.*"),
    "mawk": ("-W interactive", r"interactive|.*fflush.*"),
    "tr": ("stdbuf -oL tr", r"(?!)"),
    "cut": ("stdbuf -oL cut", r"(?!)"),
    "uniq": ("stdbuf -oL uniq", r"(?!)"),
}


@dataclass(frozen=True)
class Step:
    """A simple command: its words without quotes, the program that they name, and the programs that
    read what it prints, in order. `behind` is the text between it and the next command.
    """

    words: tuple[str, ...]
    program: str
    readers: tuple[Step, ...] = ()
    behind: str = ""


@dataclass(frozen=True)
class Script:
    """One text that a shell runs, and its steps."""

    text: str
    steps: tuple[Step, ...]


def scripts_of(text: str, read: ReadScript, depth: int = DEEPEST) -> Iterator[Script]:
    """The command itself, and the scripts that its shells run."""
    commands = [command for command in scan(text).commands if command.words]
    steps = [
        step_of(text, command, behind(text, commands, at)) for at, command in enumerate(commands)
    ]
    yield Script(text, tuple(steps))
    if depth == 0:
        return
    for command in commands:
        if inner := inner_script(text, command, read):
            yield from scripts_of(inner, read, depth - 1)


def step_of(text: str, command: Simple, following: str = "") -> Step:
    words = tuple(bare_words(text, command))
    first = first_program(words)
    if words[first : first + 1] == ("exec",):
        first += 1
    name = program_name(words[first]) if first < len(words) else ""
    readers = tuple(step_of(text, reader) for reader in readers_of(command))
    return Step(words, name, readers, following)


def readers_of(command: Simple) -> Iterator[Simple]:
    """The simple commands that read the output of a command, or of its group."""
    printing: Simple | None = command
    while printing is not None and printing.piped_to is None:
        outer = printing.outer
        printing = outer.command if outer and not outer.word else None
    reader = printing.piped_to if printing else None
    while reader is not None:
        yield from with_parts(reader)
        reader = reader.piped_to


def with_parts(command: Simple) -> Iterator[Simple]:
    """The command, or the commands of a group."""
    if command.words:
        yield command
    for part in command.parts:
        yield from with_parts(part)


def behind(text: str, commands: Sequence[Simple], at: int) -> str:
    """The text from a command's last word to the next command; "" behind the last one."""
    if at + 1 == len(commands):
        return ""
    return text[commands[at].words[-1].end : commands[at + 1].words[0].start]


def inner_script(text: str, command: Simple, read: ReadScript) -> str:
    """The script that a shell is started with: behind -c, or in a file that can be read."""
    words = bare_words(text, command)
    first = first_program(words)
    if first == len(words):
        return ""
    if program_name(words[first]) not in SHELLS:
        return read(words[first]) if words[first].endswith(".sh") else ""
    operand = end_of_options(words, first)
    if operand >= len(words):
        return ""
    if any(SHELL_SCRIPT.fullmatch(words[option]) for option in own_options(words, first)):
        return without_quotes(text, command.words[operand])
    return read(words[operand])


def without_quotes(text: str, word: Word) -> str:
    """The word without the quotes around it."""
    found = WRAPS.fullmatch(text, word.start, word.end)
    if found is None:
        return text[word.start : word.end]
    if found[1] is not None:
        return found[1]
    return re.sub(r"\\([\"$`\\])", r"\1", found[2])


# What follows from them


def cut_by_signal(text: str, read: ReadScript) -> bool:
    """True if a program prints into a tee that SIGTERM ends: the program then fails at its next
    line.
    """
    for script in scripts_of(text, read):
        for step in script.steps:
            if any(reader.program == "tee" for reader in step.readers):
                return "trap" not in text + script.text
    return False


@dataclass(frozen=True)
class Hiding:
    """A program whose exit code is not the command's. `last` is the program whose exit code is."""

    program: str
    last: str
    by_pipe: bool
    in_background: bool = False


def hidden_exit_code(text: str, read: ReadScript) -> Hiding | None:
    """The first program of the command whose failure does not show in its exit code."""
    for script in scripts_of(text, read):
        if hiding := hidden_in_pipe(script, text) or hidden_in_list(script, text):
            return hiding
    return None


def hidden_in_pipe(script: Script, command: str) -> Hiding | None:
    if PIPEFAIL.search(command + script.text):
        return None
    for step in script.steps:
        if step.readers and step.program not in REPORTERS:
            return Hiding(step.program, step.readers[-1].program, by_pipe=True)
    return None


def hidden_in_list(script: Script, command: str) -> Hiding | None:
    """A program before the last command. That last command only reports, or the program runs in the
    background before a `wait` for all.
    """
    if not script.steps:
        return None
    last = script.steps[-1]
    waits = last.words == ("wait",)
    if last.program not in REPORTERS and not waits:
        return None
    ends_at_failure = ENDS_AT_FAILURE.search(command + script.text)
    for step in script.steps[:-1]:
        if step.program in REPORTERS or step.program == "cd" or step.readers:
            continue
        in_background = BACKGROUND.search(step.behind) is not None
        goes_on = "&&" not in step.behind and not waits and not ends_at_failure
        if in_background or goes_on:
            return Hiding(step.program, last.program, by_pipe=False, in_background=in_background)
    return None


def holding_filter(text: str, read: ReadScript) -> tuple[str, str] | None:
    """A filter that holds its input in a buffer, and the option that makes it print each line at
    once.
    """
    for script in scripts_of(text, read):
        for step in script.steps:
            for reader in step.readers:
                if reader.program in LINE_BY_LINE and holds_back(reader):
                    return reader.program, LINE_BY_LINE[reader.program][0]
    return None


def holds_back(step: Step) -> bool:
    """True for a filter that no option and no stdbuf makes print each line at once."""
    _, options = LINE_BY_LINE[step.program]
    return not any(re.fullmatch(options, word, re.DOTALL) for word in step.words)
