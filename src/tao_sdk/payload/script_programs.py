"""Programs that run code, and which of their words they read as a script. Pure.

A command is a list of its words without quotes. `at` is the index of a program's name in it. A
value stands in one of the words: an Argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tao_sdk.model.lazy_pattern import lazy_compile

SHELLS = frozenset("sh bash dash ash ksh mksh lksh rbash yash zsh fish csh tcsh".split())
A_SHELL = lazy_compile(r"[$`].*\b(SHELL|BASH|sh|bash)\b|\$0$")  # ${SHELL:-bash}, $(which bash)
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
# options in full that a script follows
LONG_OPTION = "--(?:expression|eval|print|source|split-string|command)"
SHELL_SCRIPT = lazy_compile(r"-\w*c\w*")
INTERPRETERS = frozenset(SCRIPT_OPTIONS) - {"sed", "awk", "gawk", "env"}
# an option of an interpreter whose script is not on standard input
NAMES_SCRIPT = lazy_compile(r"-\w*[cerm]")
VALUED = frozenset({"-W", "-X", "-I", "--rcfile", "--init-file"})
# an option of a shell that one more word follows: -euo pipefail
SETTING = lazy_compile(r"[-+]\w*[oO]\w*")
STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
# options of xargs: what it reads goes into the script of a shell
REPLACING = lazy_compile(r"-[Ii].*|--replace.*")
# programs whose -c may come behind other words
LATE_OPTION = frozenset({"su", "runuser", "script", "flock"})
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
SCRIPT_NAMED = lazy_compile(r"-\w*[ef]|--file|--expression")
EVERY_WORD = frozenset(
    "eval alias compgen complete bind fc ssh watch parallel tmux make gmake".split()
)
# the ones that no other program can start: `torchrun train.py --mode eval`
BUILTINS = frozenset("eval alias compgen complete bind fc".split())
RUNS_INPUT = frozenset("ssh parallel at batch sbatch qsub bsub".split())
SEVERAL_SCRIPTS = frozenset({"sed", "perl", "ruby"})  # each of their -e has one
SOURCING = frozenset({".", "source"})
WRAPPERS = frozenset(
    "sudo env timeout nohup nice ionice exec time stdbuf xargs setsid srun mpirun mpiexec numactl"
    " doas chroot unshare nsenter taskset chrt setpriv prlimit busybox toybox sshpass".split()
)
MODIFIERS = frozenset({"command", "builtin", "coproc"})  # stand before a program
ASSIGNMENT = lazy_compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
OPERATOR = lazy_compile(r"-[a-z]+|[=!]=|=~?|[<>\])]")  # behind a word of [ ... ]


@dataclass(frozen=True)
class Argument:
    """A value in one word of a command."""

    words: Sequence[str]
    index: int  # the index of the word that holds the value
    before: str  # the word's text in front of the value
    after: str = ""  # and behind it

    @property
    def first(self) -> int:
        """The index of the word that names the program to run."""
        return first_program(self.words)

    @property
    def program(self) -> str:
        """The word that names the program to run; "" if none does."""
        return next(iter(self.words[self.first :]), "")

    @property
    def precedent(self) -> Sequence[str]:
        """The words from the program on, up to the one that holds the value."""
        return self.words[self.first : self.index]


# Names and options


def program_name(word: str) -> str:
    """The program's plain name: python for /usr/bin/python3.11."""
    if A_SHELL.match(word):
        return "sh"
    return re.sub(r"[\d.]+$", "", word.rpartition("/")[2]) or word


def first_program(words: Sequence[str]) -> int:
    """The index of the word that names the program: behind the assignments, and behind `command` or
    `time` with its options. The number of words if none does.
    """
    for index, word in enumerate(words):
        if not precedes_program(word):
            return index
    return len(words)


def precedes_program(word: str) -> bool:
    if is_dashed(word) or word in MODIFIERS:
        return True
    return ASSIGNMENT.match(word) is not None


def is_dashed(word: str) -> bool:
    return word.startswith("-")


def is_option(word: str) -> bool:
    return word.startswith(("-", "+"))


def own_options(words: Sequence[str], at: int) -> Iterator[int]:
    """The indexes of the options of the program at `at`, which stand in front of its first other
    word.
    """
    index = at + 1
    while index < len(words) and is_option(words[index]):
        yield index
        index += 1 + count_values(program_name(words[at]), words[index])


def count_values(name: str, option: str) -> int:
    """The number of words behind an option that are its values. A script that -c announces is not
    one of them.
    """
    if name in SHELLS and SETTING.fullmatch(option):
        return len(re.findall("[oO]", option))
    if option in VALUED:
        return 1
    if name in SEVERAL_SCRIPTS and re.fullmatch(rf"-\w*[eE]|{LONG_OPTION}", option):
        return 1
    return 0


def end_of_options(words: Sequence[str], at: int) -> int:
    """The index of the first word of the program at `at` that is no option of it."""
    end = at + 1
    for option in own_options(words, at):
        end = option + 1 + count_values(program_name(words[at]), words[option])
    return end


def next_operand(words: Sequence[str], option: int) -> int:
    """The index of the first word behind an option that is no option itself; -1 for none."""
    behind = range(option + 1, len(words))
    return next((index for index in behind if not is_option(words[index])), -1)


def first_operand(words: Sequence[str], at: int, valued: str) -> int:
    """The index of the first word that is neither an option nor the value of one of the `valued`
    letters. -1 when an option has the script.
    """
    takes_value = lazy_compile(rf"-\w*[{valued}]")
    index = at + 1
    while index < len(words) and is_dashed(words[index]) and words[index] != "-":
        if SCRIPT_NAMED.match(words[index]):
            return -1
        if takes_value.fullmatch(words[index]):
            index += 1
        index += 1
    if index >= len(words):
        return -1
    return index


# Words that are read as code


def is_run(argument: Argument, at: int) -> bool:
    """True if the program at `at` reads the argument as code."""
    name = program_name(argument.words[at])
    if name in SCRIPT_OPTIONS and is_script(argument, at):
        return True
    if at != argument.first and argument.program not in WRAPPERS:
        return False  # a word such as `--mode eval`
    if name in EVERY_WORD:
        return at == argument.first or name not in BUILTINS
    if name in LATE_OPTION:
        return follows_late_option(argument)
    if name not in SCRIPT_FIRST:
        return False
    return argument.index == first_operand(argument.words, at, SCRIPT_FIRST[name])


def follows_late_option(argument: Argument) -> bool:
    """True behind -c, or in the word that begins with it."""
    if re.fullmatch(r"-\w*c|--command", argument.words[argument.index - 1]):
        return True
    return re.match(r"-\w*c|--command=", argument.before) is not None


def is_script(argument: Argument, at: int) -> bool:
    """True if an option of the interpreter at `at` announces the word as its script, or contains
    the script itself.
    """
    if program_name(argument.words[at]) in SHELLS:
        return is_shell_script(argument, at)
    return is_interpreter_script(argument, at)


def is_shell_script(argument: Argument, at: int) -> bool:
    words, index = argument.words, argument.index
    for option in own_options(words, at):
        if option == index:
            return False
        if SHELL_SCRIPT.fullmatch(words[option]):
            return index == end_of_options(words, at)
        if re.fullmatch(LONG_OPTION, words[option]):
            return index == next_operand(words, option)
    return False


def is_interpreter_script(argument: Argument, at: int) -> bool:
    words, index = argument.words, argument.index
    name = program_name(words[at])
    letters = rf"-\w*[{SCRIPT_OPTIONS[name]}]"
    for option in own_options(words, at):
        if option == index:
            return re.match(rf"{letters}|{LONG_OPTION}=", argument.before) is not None
        if not re.fullmatch(rf"{letters}|{LONG_OPTION}", words[option]):
            continue
        if index == next_operand(words, option):
            return True
        if name not in SEVERAL_SCRIPTS:
            return False
    return False


# Words that could be an option


def may_be_option(argument: Argument, several: bool) -> bool:
    """True if a value that begins with - would be an option, of a program that can run one: python
    {x}, sed p {x}, printf {x}, [ {x} {y} ]. `several`: more values follow it.
    """
    if argument.before or argument.index <= argument.first:
        return False
    if argument.program in ("test", "["):
        return not argument.after and may_be_test(argument, several)
    if argument.program == "printf":
        return is_format(argument)
    return any(may_take_option(argument, at) for at in possible_programs(argument))


def may_be_test(argument: Argument, several: bool) -> bool:
    """True for a word of [ ... ] without an operator behind it."""
    if several:
        return True
    following = (*argument.words[argument.index + 1 :], "]")[0]
    return OPERATOR.fullmatch(following) is None


def is_format(argument: Argument) -> bool:
    """True for the first operand of printf, unless it stands behind --."""
    words, index = argument.words, argument.index
    return index == first_operand(words, argument.first, "v") and words[index - 1] != "--"


def possible_programs(argument: Argument) -> Sequence[int]:
    """The indexes of the words that may name the program which gets the argument."""
    if argument.program in WRAPPERS:
        return range(argument.index)
    return [argument.first]


def may_take_option(argument: Argument, at: int) -> bool:
    """True if the program at `at` may take the argument for an option that runs code."""
    words, index = argument.words, argument.index
    name = program_name(words[at])
    if name not in SCRIPT_OPTIONS or "--" in words[at:index]:
        return False
    return name == "sed" or index <= end_of_options(words, at)


# Code on standard input


def takes_input(words: Sequence[str], at: int) -> bool:
    """True if the program at `at` takes code from standard input."""
    name = program_name(words[at])
    if name in RUNS_INPUT:
        return True
    if name in INTERPRETERS and lacks_script(words, at):
        return True
    if name in SCRIPT_FIRST:
        return names_input(words[at:])
    return name == "xargs" and fills_script(words[at + 1 :])


def names_input(words: Sequence[str]) -> bool:
    """True if -f names standard input as the script."""
    return any(option == "-f" and file in STANDARD_INPUT for option, file in pairwise(words))


def fills_script(words: Sequence[str]) -> bool:
    """True if xargs puts its input into a script: xargs -I% sh -c 'train %', xargs sh -c; or gives
    it to a shell as options: xargs sh.
    """
    interpreters = [at for at, word in enumerate(words) if program_name(word) in INTERPRETERS]
    if any(lacks_script(words, at) for at in interpreters):
        return True
    if words[-1:] == ["-c"]:
        return True
    if not any(map(REPLACING.fullmatch, words)):
        return False
    return any(is_dashed(words[at + 1]) for at in interpreters)


def lacks_script(words: Sequence[str], at: int) -> bool:
    """True if the interpreter at `at` takes its script from standard input."""
    name = program_name(words[at])
    for option in own_options(words, at):
        if words[option] in ("-", "-s"):
            return True
        if names_script(name, words[option]):
            return False
    end = end_of_options(words, at)
    return end >= len(words) or words[end] in STANDARD_INPUT


def names_script(name: str, option: str) -> bool:
    if not NAMES_SCRIPT.fullmatch(option):
        return False
    return name not in SHELLS or option.endswith("c")
