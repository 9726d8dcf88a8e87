"""Rereading: words that something reads a second time, as code, as a number, or as the name of a
variable.

What a shell quotes is safe from that shell only. `bash -c 'train {x}'` reads its script again,
`eval` its words, `[[ ]]` its numbers. A value may stand there when no reader can take it for more
than a plain word. The programs that everybody uses are known here; one that is not known gets the
value as any other argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise

from tao_sdk.payload.shell import Outer, Place, Simple, Spot, Word


class Reading(Enum):
    """As what a value is read once more."""

    CODE = "code"
    NUMBER = "number"
    NAME = "name"
    OPTION = "option"  # a word that would be an option when it begins with -


SHELLS = frozenset("sh bash dash ash ksh mksh lksh rbash yash zsh fish csh tcsh".split())
A_SHELL = re.compile(r"[$`].*\b(SHELL|BASH|sh|bash)\b|\$0$")  # ${SHELL:-bash}, $(which bash)
# program -> the letters of its options that a script follows
SCRIPT_OPTIONS = {
    **dict.fromkeys(SHELLS, "c"),
    **dict.fromkeys(("python", "pypy"), "c"),
    "perl": "eEMmF",
    "ruby": "eE",
    **dict.fromkeys(("lua", "R", "Rscript"), "e"),
    "julia": "eE",
    "node": "ep",
    "php": "rBRE",
    **dict.fromkeys(("sed", "awk", "gawk"), "e"),
    "env": "S",
}
# that a script follows
LONG_OPTION = "--(?:expression|eval|print|source|split-string|command)"
INTERPRETERS = frozenset(SCRIPT_OPTIONS) - {"sed", "awk", "gawk", "env"}
NAMES_SCRIPT = re.compile(
    r"-\w*[cerm]"
)  # an option of an interpreter whose script is not on standard input
VALUED = frozenset({"-W", "-X", "-I", "--rcfile", "--init-file"})
SETTING = re.compile(
    r"[-+]\w*[oO]\w*"
)  # an option of a shell that one more word follows: -euo pipefail
STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
REPLACING = re.compile(
    r"-[Ii].*|--replace.*"
)  # of xargs: what it reads goes into the script of a shell
LATE_OPTION = frozenset(
    {"su", "runuser", "script", "flock"}
)  # their -c may come behind other words
# program -> the letters of its options that a value follows; its first other word is the script,
# unless -f or -e names one
SCRIPT_FIRST = {
    "awk": "vFf",
    "gawk": "vFfe",
    "mawk": "vFf",
    "nawk": "vFf",
    "sed": "efl",
    "trap": "l",
}
EVERY_WORD = frozenset(
    "eval alias compgen complete bind fc ssh watch parallel tmux make gmake".split()
)
# those of them that no other program can start: `torchrun train.py --mode eval`
BUILTINS = frozenset("eval alias compgen complete bind fc".split())
RUNS_INPUT = frozenset("ssh parallel at batch sbatch qsub bsub".split())
SEVERAL_SCRIPTS = frozenset({"sed", "perl", "ruby"})  # each of their -e has one
SOURCING = frozenset({".", "source"})
WRAPPERS = frozenset(
    "sudo env timeout nohup nice ionice exec time stdbuf xargs setsid srun mpirun mpiexec numactl"
    " doas chroot unshare nsenter taskset chrt setpriv prlimit busybox toybox sshpass".split()
)
DECLARING = frozenset({"export", "readonly", "declare", "typeset", "local"})
FILLING = frozenset({"read", "mapfile", "readarray"})  # variables, from standard input
NAMING = frozenset({"unset", "getopts", "wait", *FILLING})
HARMLESS_OPTIONS = re.compile(r"-[xrg]+|--")
INTEGERS = frozenset("OPTIND RANDOM SRANDOM SECONDS HISTCMD".split())  # in bash, from its start
VARIABLE = re.compile(r"[A-Za-z_]\w*")
LIST = re.compile(r"([A-Za-z_]\w*)\+?=\(")  # a=( and a+=(
OPERATOR = re.compile(r"-[a-z]+|[=!]=|=~?|[<>\])]")  # behind a word of [ ... ]
SEPARATORS = frozenset({"&&", "||", "(", ")"})  # between the comparisons of [[ ... ]]
COMPARED = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
RUN_VARIABLE = re.compile(
    r"(PS[0-4]|PROMPT_COMMAND|BASH_ENV|ENV)\+?="
)  # a shell reads its value as code
PRINTING = frozenset("echo printf yes basename dirname realpath readlink expr seq date".split())


def reading(text: str, spot: Spot, several: bool = False) -> Reading | None:
    """As what the value at this spot of the command `text` is read once more; None where it is only
    a value. `several`: more values follow it, each a word.
    """
    if spot.place is Place.ARITHMETIC:
        return Reading.NUMBER
    command = spot.document.command if spot.document else spot.command
    if not command:
        return None
    as_input = spot.document is not None or spot.word in command.read_words
    if as_input and reads_input(text, command):
        return Reading.CODE
    as_argument = of_argument(text, spot, command, several) if spot.word in command.words else None
    if as_argument and as_argument is not Reading.OPTION:
        return as_argument
    prints = as_input or PRINTING.intersection(program(bare(text, each)) for each in command.words)
    return (printed_reading(text, spot, command) if prints else None) or as_argument


def printed_reading(text: str, spot: Spot, command: Simple) -> Reading | None:
    """As what a value is read that a command prints, or reads."""
    if printed_code(text, command) or hidden_reader(text, spot.commands):
        return Reading.CODE
    filled = (
        bare(text, word)
        for each in spot.commands
        if FILLING.intersection(bare(text, word) for word in each.words)
        for word in each.words
    )
    readings = (variable_reading(text, spot.commands, name) for name in filled)
    return next((each for each in readings if each), None)


def hidden_reader(text: str, commands: Sequence[Simple]) -> bool:
    """Whether a program of the text reads code, from where this module does not follow: a function,
    >(...), a coproc, a pipe in a folder, or an `exec` that redirects what comes behind it.
    """
    hidden = any(each.fed or each.defines or begins_hidden(text, each) for each in commands)
    return hidden and any(reads_any_code(text, each) for each in commands)


def begins_hidden(text: str, command: Simple) -> bool:
    words = [bare(text, each) for each in command.words]
    return words == ["exec"] or words[:1] in (["function"], ["coproc"]) or "mkfifo" in words


def reads_any_code(text: str, command: Simple) -> bool:
    """Whether the command reads code from its input, or from what another one prints."""
    if reads_input(text, command):
        return True
    printed = [
        each for each in command.words if re.search(r"\$\(|<\(", text[each.start : each.end])
    ]
    return any(
        runs_file(text, command, each) or reads_whole(text, command, each) for each in printed
    )


def reads_whole(text: str, command: Simple, word: Word) -> bool:
    """Whether a whole word of the command is read once more."""
    start = max(word.start, text.find("$(", word.start, word.end))  # OPTIND=$(echo 1)
    spot = Spot(start, word.end, Place.WORD, word, command)
    found = of_argument(text, spot, command)
    return found is not None and found is not Reading.OPTION


def printed_code(text: str, command: Simple) -> bool:
    """Whether what a command prints is read as code: behind a pipe, or as the word "$(...)" that it
    is inside of.
    """
    if any(reads_input(text, each) for each in list(pipeline(command))[1:]):
        return True
    outer = command.outer
    if not outer:
        return False
    if reads_printed(text, outer.command, outer.word):
        return True
    return passes_on(text, outer) and printed_code(text, outer.command)


def reads_printed(text: str, command: Simple, word: Word | None) -> bool:
    """Whether the command reads as code what is printed in this word of it, or in the lines of its
    here-document.
    """
    if word is None:
        return runs_input(text, command)
    if word in command.read_words:
        return reads_input(text, command)
    if word not in command.words:
        return False
    if text.startswith("$(", word.start) and runs_words(text, command, word):
        return True
    return reads_whole(text, command, word) or runs_file(text, command, word)


def runs_words(text: str, command: Simple, word: Word) -> bool:
    """Whether words without quotes around them name a program, or its options: $(echo {x}) 1."""
    words, index = [bare(text, each) for each in command.words], command.words.index(word)
    first = first_program(words)
    if index <= first or words[first] in WRAPPERS:
        return True
    spot = Spot(word.start, word.end, Place.WORD, word, command)
    return of_argument(text, spot, command, several=True) is not None


def passes_on(text: str, outer: Outer) -> bool:
    """Whether what is printed inside is printed once more: by a group, by `echo "$(...)"`, by a
    filter of <(...).
    """
    if not outer.word or text.startswith("<(", outer.word.start):
        return True
    return bool(PRINTING.intersection(program(bare(text, each)) for each in outer.command.words))


def runs_file(text: str, command: Simple, word: Word) -> bool:
    """Whether <(...) is the file that a command runs: bash <(...), source <(...)."""
    words = [bare(text, each) for each in command.words]
    index = command.words.index(word)
    programs = [at for at in range(index) if program(words[at]) in INTERPRETERS | SOURCING]
    return text.startswith("<(", word.start) and any(
        index == behind_options(words, at) for at in programs
    )


def of_argument(text: str, spot: Spot, command: Simple, several: bool = False) -> Reading | None:
    assert spot.word
    words = [bare(text, each) for each in command.words]
    index = command.words.index(spot.word)
    before, after = (
        unquoted(text[spot.word.start : spot.start]),
        unquoted(text[spot.end : spot.word.end]),
    )
    stored = of_variable(text, spot, words, index, before)
    if stored:
        return stored
    if in_list(text, command):
        return None
    if command.defines and index == len(words) - 1:
        return Reading.NAME
    return of_word(words, index, before, after, several)


def of_word(
    words: Sequence[str], index: int, before: str, after: str, several: bool
) -> Reading | None:
    if is_name(words, index, before, after):
        return Reading.NAME
    if is_number(words, index, before, after):
        return Reading.NUMBER
    if words[first_program(words) :][:1] == ["[["]:
        return of_condition(words, index, before)
    if is_code(words, index, before):
        return Reading.CODE
    return Reading.OPTION if may_be_option(words, index, before, after, several) else None


def of_variable(
    text: str, spot: Spot, words: Sequence[str], index: int, before: str
) -> Reading | None:
    """As what a variable reads the value that this word gives it."""
    name = assigned_variable(words, index, before)
    element_of = in_list(text, spot.command) if spot.command else None
    name = element_of[1] if element_of else name
    return variable_reading(text, spot.commands, name) if name else None


def in_list(text: str, command: Simple) -> re.Match[str] | None:
    """The start of the list that the words of a command stand in: a=(."""
    outer = command.outer
    return LIST.match(text, outer.word.start) if outer and outer.word else None


def assigned_variable(words: Sequence[str], index: int, before: str) -> str:
    """The name of the variable that gets the word as its value, "" when none does."""
    first = first_program(words)
    assignment = re.match(r"([A-Za-z_]\w*)(\[.*\])?\+?=", before)
    if assignment and (index < first or sets_variables(words[first:index])):
        return assignment[1]
    if words[first : first + 1] in (["for"], ["select"]) and index > first + 1:
        return words[first + 1]
    if words[first : first + 1] == ["printf"] and index > first + 1:
        option = words[first + 1]
        return words[first + 2] if option == "-v" else option[2:] * option.startswith("-v")
    return ""


def variable_reading(text: str, commands: Sequence[Simple], name: str) -> Reading | None:
    """As what a variable reads each value that it gets."""
    if RUN_VARIABLE.match(f"{name}="):
        return Reading.CODE
    name = name.partition("[")[0]
    if name in INTEGERS:
        return Reading.NUMBER
    attributes = "".join(declared_attributes(text, commands, name))
    if "i" in attributes:
        return Reading.NUMBER
    return Reading.NAME if "n" in attributes else None


def declared_attributes(text: str, commands: Sequence[Simple], name: str) -> Iterator[str]:
    """The options of each `declare` that names the variable, or one that is not known here."""
    for command in commands:
        words = [bare(text, each) for each in command.words]
        words = words[first_program(words) :]
        if not words or words[0] not in DECLARING or words[0] == "export":
            continue
        options = [each for each in words[1:] if each.startswith("-")]
        names = [re.split(r"[\[+=]", each)[0] for each in words[1:] if each not in options]
        if name in names or not all(map(VARIABLE.fullmatch, names)):
            yield from options


def of_condition(words: Sequence[str], index: int, before: str) -> Reading | None:
    """Inside [[ ... ]]. A shell without it runs what stands behind && and ||."""
    comparison = segment(words, index, SEPARATORS)
    if not {"-v", "-R"}.isdisjoint(comparison):
        return Reading.NAME
    if not COMPARED.isdisjoint(comparison):
        return Reading.NUMBER
    command = segment(words, index, SEPARATORS | {"\n"})
    at = next(n for n, each in enumerate(command) if each is words[index])
    return Reading.CODE if is_code(command, at, before) else None


def segment(words: Sequence[str], index: int, separators: frozenset[str]) -> list[str]:
    """The words around one of them, as far as a separator."""
    start = next((n + 1 for n in range(index - 1, -1, -1) if words[n] in separators), 0)
    end = next((n for n in range(index, len(words)) if words[n] in separators), len(words))
    return list(words[start:end])


def bare(text: str, word: Word) -> str:
    """The word without its quotes."""
    return unquoted(text[word.start : word.end])


def unquoted(text: str) -> str:
    return re.sub(r"['\"\\]", "", text)


def program(word: str) -> str:
    """/usr/bin/python3.11 is python."""
    if A_SHELL.match(word):
        return "sh"
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
    if name in NAMING or (name == "printf" and before.startswith("-v")):
        return True
    return name in ("printf", "test", "[") and previous in ("-v", "-R")


def first_program(words: Sequence[str]) -> int:
    """The index of the word that names what is run: behind the assignments, and `command` or `time`
    with its options.
    """
    for index, word in enumerate(words):
        if (
            not ASSIGNMENT.match(word)
            and not word.startswith("-")
            and word not in ("command", "builtin", "coproc")
        ):
            return index
    return len(words)


def is_number(words: Sequence[str], index: int, before: str, after: str) -> bool:
    first = first_program(words)
    if re.match(r"\w*\[[^=]*$", before) and re.search(r"\]\+?=", after):
        return True  # the index of an array
    return index > first and words[first] == "let"


def is_code(words: Sequence[str], index: int, before: str) -> bool:
    first = first_program(words)
    if index < first:
        return bool(RUN_VARIABLE.match(before))
    if RUN_VARIABLE.match(before) and sets_variables(words[first:index]):
        return True
    if first < index and words[first] in DECLARING:
        options = [each for each in words[first + 1 : index] if each.startswith("-")]
        return not all(
            map(HARMLESS_OPTIONS.fullmatch, options)
        )  # a list or a number, read once more
    return any(reads_word(words, at, index, before) for at in range(index))


def sets_variables(words: Sequence[str]) -> bool:
    """Whether these words stand before assignments: export, env -i, nohup sudo."""
    return words[0] in DECLARING or (words[0] in WRAPPERS and not {"env", "sudo"}.isdisjoint(words))


def reads_word(words: Sequence[str], at: int, index: int, before: str) -> bool:
    """Whether the program at `at` reads the word at `index` as code."""
    name = program(words[at])
    if name in SCRIPT_OPTIONS and reads_option(words, at, index, before):
        return True
    first = first_program(words)
    if at != first and words[first] not in WRAPPERS:
        return False  # a word such as `--mode eval`
    if name in EVERY_WORD:
        return at == first or name not in BUILTINS
    if name in LATE_OPTION:
        announced = re.fullmatch(r"-\w*c|--command", words[index - 1])
        return bool(announced or re.match(r"-\w*c|--command=", before))
    return name in SCRIPT_FIRST and index == first_operand(words, at, SCRIPT_FIRST[name])


def may_be_option(words: Sequence[str], index: int, before: str, after: str, several: bool) -> bool:
    """Whether a value that begins with - would be an option, of a program that can run one: python
    {x}, sed p {x}, printf {x}, [ {x} {y} ].
    """
    first = first_program(words)
    if before or index <= first:
        return False
    if words[first] in ("test", "["):
        following = (*words[index + 1 :], "]")[0]
        return not after and (several or not OPERATOR.fullmatch(following))
    if words[first] == "printf":
        return index == first_operand(words, first, "v") and words[index - 1] != "--"
    programs = range(index) if words[first] in WRAPPERS else [first]
    return any(reads_options(words, at, index) for at in programs)


def reads_options(words: Sequence[str], at: int, index: int) -> bool:
    """Whether the program at `at` may take the word at `index` for an option that runs code."""
    name = program(words[at])
    if name not in SCRIPT_OPTIONS or "--" in words[at:index]:
        return False
    return name == "sed" or index <= behind_options(words, at)


def reads_option(words: Sequence[str], at: int, index: int, before: str) -> bool:
    """Whether the word is the script that an option of the interpreter at `at` announces, or has in
    itself.
    """
    name = program(words[at])
    announcing = rf"-\w*[{SCRIPT_OPTIONS[name]}]"
    for option in own_options(words, at):
        if option == index:
            return name not in SHELLS and bool(re.match(rf"{announcing}|{LONG_OPTION}=", before))
        if name in SHELLS and re.fullmatch(r"-\w*c\w*", words[option]):
            return index == behind_options(words, at)
        if re.fullmatch(rf"{announcing}|{LONG_OPTION}", words[option]):
            script = next((n for n in range(option + 1, len(words)) if not is_option(words[n])), -1)
            if index == script or name not in SEVERAL_SCRIPTS:
                return index == script
    return False


def own_options(words: Sequence[str], at: int) -> Iterator[int]:
    """The indexes of the options of the program at `at`: those in front of its first other word."""
    n = at + 1
    while n < len(words) and is_option(words[n]):
        yield n
        n += 1 + option_values(program(words[at]), words[n])


def option_values(name: str, option: str) -> int:
    """How many words behind an option are its values; a script that -c announces is
    none of them.
    """
    if name in SHELLS and SETTING.fullmatch(option):
        return len(re.findall("[oO]", option))
    several = name in SEVERAL_SCRIPTS and re.fullmatch(rf"-\w*[eE]|{LONG_OPTION}", option)
    return 1 if several or option in VALUED else 0


def behind_options(words: Sequence[str], at: int) -> int:
    """The index of the first word of the program at `at` that is no option of it."""
    end = at + 1
    for option in own_options(words, at):
        end = option + 1 + option_values(program(words[at]), words[option])
    return end


def is_option(word: str) -> bool:
    return word.startswith(("-", "+"))


def first_operand(words: Sequence[str], at: int, valued: str) -> int:
    """The index of the first word that is neither an option nor an option's value; -1 when an
    option has the script.
    """
    n = at + 1
    while n < len(words) and words[n].startswith("-") and words[n] != "-":
        if re.match(r"-\w*[ef]|--file|--expression", words[n]):
            return -1
        n += 2 if re.fullmatch(rf"-\w*[{valued}]", words[n]) else 1
    return n if n < len(words) else -1


def reads_input(text: str, command: Simple) -> bool:
    """Whether a program of this command, or of a group's, reads code from its standard input."""
    return any(reads_input(text, part) for part in command.parts) or runs_input(text, command)


def runs_input(text: str, command: Simple) -> bool:
    """Whether a word of the command names a program that reads code from its standard input."""
    words = [bare(text, each) for each in command.words]
    if SOURCING.intersection(words[:1]) and not STANDARD_INPUT.isdisjoint(words):
        return True
    return any(takes_input(words, at) for at in range(len(words)))


def takes_input(words: Sequence[str], at: int) -> bool:
    """Whether the program at `at` takes code from standard input."""
    name = program(words[at])
    if name in RUNS_INPUT or (name in INTERPRETERS and no_script(words, at)):
        return True
    if name in SCRIPT_FIRST:
        return any(
            option == "-f" and file in STANDARD_INPUT for option, file in pairwise(words[at:])
        )
    return name == "xargs" and fills_script(words[at + 1 :])


def fills_script(words: Sequence[str]) -> bool:
    """Whether xargs puts what it reads into a script: xargs -I% sh -c 'train %', xargs sh -c, or
    gives it to a shell as its options: xargs sh.
    """
    if any(program(word) in INTERPRETERS and no_script(words, at) for at, word in enumerate(words)):
        return True
    runs_script = any(
        program(word) in INTERPRETERS and not no_script(words, at) and words[at + 1].startswith("-")
        for at, word in enumerate(words)
    )
    return words[-1:] == ["-c"] or (runs_script and any(map(REPLACING.fullmatch, words)))


def no_script(words: Sequence[str], at: int) -> bool:
    """Whether the interpreter at `at` takes its script from standard input."""
    name, end = program(words[at]), behind_options(words, at)
    for option in own_options(words, at):
        if words[option] in ("-", "-s"):
            return True
        if NAMES_SCRIPT.fullmatch(words[option]) and not (
            name in SHELLS and not words[option].endswith("c")
        ):
            return False
    return end >= len(words) or words[end] in STANDARD_INPUT
