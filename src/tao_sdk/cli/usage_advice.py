"""Usage advice: the messages about words and flags that no verb can read.

Here: a click error in this program's words, with what to type instead. Not here: the habits of
other tools (habits.py), errors of everything else (failure.py).
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tao_sdk.cli.click_words import EXTRA_WORD, told_error
from tao_sdk.cli.command import JobId
from tao_sdk.cli.habits import UNKNOWN_FLAG, flag_instead, word_instead
from tao_sdk.cli.verbs import VERBS
from tao_sdk.model.errors import UsageError
from tao_sdk.model.lazy_pattern import lazy_compile

if TYPE_CHECKING:
    from tao_sdk.client.job_request import NotAJobFile

PAIR_FLAGS = frozenset({"--set", "--label", "--option"})  # NAME=VALUE, and never NAME alone
MOUNT = lazy_compile(r"mounts: \[([^\]<>]+)\]")  # a mount as a job file writes it; <folder> is none
# flags of run and plan that take no value
FLAGS_ALONE = frozenset(
    {"--detach", "--full", "--json", "--jsonl", "--keep-results", "--no-keep-results"}
)
DOCUMENT_ENDS = (".yaml", ".yml", ".json")


def usage_error(error: click.UsageError, argv: Sequence[str]) -> UsageError:
    """The error in this program's words, with what to type instead."""
    verb = verb_of(error, argv)
    what = told_words(error, verb)
    if pair := pair_with_blank(argv):
        return UsageError(what, "", f"Write {pair}")
    return UsageError(what, "", *advice(error, verb))


def verb_of(error: click.UsageError, argv: Sequence[str]) -> str:
    """The verb that could not read its words; "" if none was reached."""
    if error.ctx is None:  # a flag without its value
        return next((word for word in argv if word in VERBS), "")
    if not error.ctx.parent:
        return ""
    return str(error.ctx.info_name)


def told_words(error: click.UsageError, verb: str) -> str:
    """The message of the error, without click's guess at a flag if this program knows better."""
    if isinstance(error, click.NoSuchOption) and flag_instead(verb, error.option_name):
        return f"No such option: {error.option_name}"
    return told_error(error)


def advice(error: click.UsageError, verb: str) -> tuple[str, str]:
    """What to do next: the advice, and the command that it ends with, if any."""
    if words := known_habit(error, verb):
        return words, ""
    if isinstance(error, click.MissingParameter) and is_job(error.param):
        return "The jobs there are:", "tao ls"
    help_command = f"tao {verb} --help" if verb else "tao --help"
    if isinstance(error, click.NoSuchOption) and verb in UNKNOWN_FLAG:
        return UNKNOWN_FLAG[verb], help_command
    return "Help:", help_command


def is_job(param: click.Parameter | None) -> bool:
    return param is not None and isinstance(param.type, JobId)


def known_habit(error: click.UsageError, verb: str) -> str:
    """The advice in the tables of habits for this error; "" if they have none."""
    if isinstance(error, click.NoSuchOption):
        return flag_instead(verb, error.option_name)
    if isinstance(error, click.BadParameter) and error.param is not None:
        flag = error.param.opts[0]
        if not flag.startswith("-"):
            return ""
        return flag_instead(verb, flag)
    if extra := EXTRA_WORD.search(error.format_message()):
        return word_instead(verb, extra["first"])
    return ""


def pair_with_blank(argv: Sequence[str]) -> str:
    """`--set lr=3` for a typed `--set lr 3`; "" for anything else."""
    before_dashes, _ = split_at_dashes(argv)
    flags_and_names = pairwise(before_dashes)
    for (flag, name), value in zip(flags_and_names, before_dashes[2:], strict=False):
        if flag in PAIR_FLAGS and "=" not in name and not value.startswith("-"):
            return f"{flag} {shlex.quote(f'{name}={value}')}"
    return ""


def split_at_dashes(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """(the words before `--`, the words after it)."""
    if "--" not in args:
        return list(args), []
    at = list(args).index("--")
    return list(args[:at]), list(args[at + 1 :])


def whole_line(
    error: NotAJobFile, verb: str, args: Sequence[str], words: Sequence[str]
) -> UsageError:
    """The error with the whole line to type: the typed flags, and the words behind them. `args`
    stand before `--`, `words` after it.
    """
    if platform := platform_as_word(verb, args, words):
        return platform
    flags = list(args)
    flags.remove(error.typed)
    command = shlex.join(["tao", verb, *flags, *error.words, *words])
    return UsageError(error.what, error.why, error.advice, command)


def line_with_mount(advice: str, verb: str, args: Sequence[str], words: Sequence[str]) -> str:
    """The whole command to type, with the mount that an advice gives as a job file writes it. "" if
    it gives none. `args` stand before `--`, `words` after it.
    """
    mount = MOUNT.search(advice)
    if not mount:
        return ""
    command = ["--", *words] if words else []
    return shlex.join(["tao", verb, *args, "--mounts", mount[1], *command])


def platform_as_word(verb: str, args: Sequence[str], words: Sequence[str]) -> UsageError | None:
    """The error for a platform or endpoint that was typed without its flag, as in `tao run docker
    job.yaml`. None if no word is one, or it begins a command.
    """
    from tao_sdk.client.place_names import place_names

    places = set(place_names())
    bare = bare_words(args)
    at = next((index for index in bare if args[index] in places), None)
    if at is None or Path(args[at]).exists():
        return None
    others = [args[index] for index in bare if index != at]
    if not all(other.endswith(DOCUMENT_ENDS) for other in others):
        return None
    rest = [*args[:at], *args[at + 1 :]]
    if words:
        rest += ["--", *words]
    elif not others:
        rest.append("job.yaml")
    command = shlex.join(["tao", verb, "--platform", args[at], *rest])
    what = f"{args[at]} is a platform, not a job file."
    return UsageError(what, "", "To run a job there:", command)


def refuse_flag_as_command(verb: str, args: Sequence[str], words: Sequence[str]) -> None:
    """Raise UsageError for flags of the verb behind `--`, where the command stands."""
    if len(words) < 2 or not words[0].startswith("-"):
        return
    what = f"The command begins with a flag: {words[0]}."
    at = next((index for index, word in enumerate(words) if is_program(word)), None)
    if at is None:
        raise UsageError(what, "", f"Flags of tao {verb} stand before --, the command after it.")
    command = shlex.join(["tao", verb, *args, *words[:at], "--", *words[at:]])
    raise UsageError(what, "", "Flags stand before --:", command)


def command_without_dashes(verb: str, args: Sequence[str]) -> UsageError | None:
    """The error for a command typed without dashes before it, such as `tao run python x.py --lr 3`
    or `tao run x.py --lr 3`. None if no word is a program or a script.
    """
    at = next((index for index in bare_words(args) if is_program(args[index])), None)
    if at is None:
        return script_without_dashes(verb, args)
    flags = list(args[:at])
    first = args[at]
    if at - 1 in bare_words(args) and may_be_image(args[at - 1]):
        first = args[at - 1]
        flags[-1:] = ["--image", first]
    if sends_nothing(flags) and is_script(args[at + 1 : at + 2]):
        flags += ["--files", args[at + 1]]
    command = shlex.join(["tao", verb, *flags, "--", *args[at:]])
    return UsageError(f"not a job file: {first}", "", "To run it as a command:", command)


def sends_nothing(flags: Sequence[str]) -> bool:
    return not any(flag == "--files" or flag.startswith("--files=") for flag in flags)


def is_script(words: Sequence[str]) -> bool:
    """True if the first word is a script of this folder: a job has its results if it is sent."""
    from tao_sdk.client.job_request import INTERPRETERS

    return any(Path(word).suffix in INTERPRETERS and Path(word).is_file() for word in words)


def script_without_dashes(verb: str, args: Sequence[str]) -> UsageError | None:
    """The error for a script and its flags in the place of the job file. None if no word is an
    existing script.
    """
    from tao_sdk.client.job_request import INTERPRETERS

    bare = bare_words(args)
    at = next((i for i in bare if Path(args[i]).suffix in INTERPRETERS), None)
    if at is None or not Path(args[at]).is_file():
        return None
    script = Path(args[at])
    words = [INTERPRETERS[script.suffix], script.name, *args[at + 1 :]]
    command = shlex.join(["tao", verb, *args[:at], "--files", args[at], "--", *words])
    return UsageError(f"{args[at]} is not a job file.", "", "To run it:", command)


def bare_words(args: Sequence[str]) -> list[int]:
    """The indexes of the words that are neither flags nor values of flags."""
    return [
        index
        for index, word in enumerate(args)
        if not word.startswith("-") and not (index and takes_value(args[index - 1]))
    ]


def takes_value(word: str) -> bool:
    """True for `--gpus`; False for `--gpus=2` and `--detach`."""
    return word.startswith("--") and "=" not in word and word not in FLAGS_ALONE


def is_program(word: str) -> bool:
    return shutil.which(word) is not None and not Path(word).is_file()


def may_be_image(word: str) -> bool:
    """True for a word that is no flag and no file: `docker run ubuntu python` has one."""
    return not (word.startswith("-") or word.endswith(DOCUMENT_ENDS) or Path(word).exists())
