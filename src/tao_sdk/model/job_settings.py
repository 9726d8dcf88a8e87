"""Settings of a job by flat names: labels, parts of its command, specs, args and options. Pure.

Here: the settings that differ between jobs, and the setting that a word means. Not here: jobs side
by side (model/comparison.py).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from tao_sdk.model.errors import UsageError
from tao_sdk.model.job import Job
from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.model.secrets import is_secret_name

# Fields of a stored spec that say nothing about the training, or have names of their own below.
_NOT_COMPARED = frozenset({"name", "labels", "command", "packed", "files", "hooks", "secrets"})
_NUMBER = lazy_compile(r"-\.?\d")
PLAIN_WORD = lazy_compile(r"word \d+")  # the name of a command's word that is no flag's value
_HIDDEN = "***"
_SETTING_NAME = lazy_compile(r"[-+~]*[\w./@\[\]-]+")  # `--lr`, `+model.depth`; no shell text
_INTERPRETER = lazy_compile(r"(.*/)?(python[\d.]*|(ba|da|z|k)?sh|perl|ruby|node)")
_TAKES_PROGRAM = lazy_compile(r"-\w*[ce]")  # the next word is a program: `-c`, `-lc`, `-e`
_NAMED_VALUE = lazy_compile(  # `--api-key abc`, `API_KEY=abc`
    r"(?P<name>-[\w.-]+(?=[=\s])|\w+(?==))(?P<between>=|\s+)(?P<value>'[^']*'|\"[^\"]*\"|[^\s;|&-][^\s;|&]*)"
)
_NUMBERED_KEY = lazy_compile(r"-*key[_-]?\d+")  # one of several keys; `api_key1` is none
_SECRET_ENDS = ("key", "token", "secret", "password", "passwd")


def settings_of(job: Job) -> dict[str, Any]:
    """The labels, parts of the command, specs, args and options of a job by flat names. A secret's
    value is hidden.
    """
    spec = {name: value for name, value in job.spec.items() if name not in _NOT_COMPARED}
    found: dict[str, Any] = {f"label {name}": value for name, value in job.labels.items()}
    found.update(command_parts(str(job.spec.get("command") or "")))
    found.update(_flatten_settings(spec))
    found["platform"] = job.platform
    found.update(_flatten_settings(job.options, "option."))
    return {name: _HIDDEN if _is_secret(name) else value for name, value in found.items()}


def _is_secret(name: str) -> bool:
    """True for `env_vars.WANDB_API_KEY` and `--auth-token`. False for settings: `num_keypoints`,
    `max_tokens`, `tokenizer`, `key1`.
    """
    if name.startswith("env_vars."):
        return is_secret_name(name.removeprefix("env_vars."))
    parts = re.split(r"[. ]", name.lower())
    named = [part for part in parts if not _NUMBERED_KEY.fullmatch(part)]
    words = re.split(r"[^a-z]+", " ".join(named))
    return any(
        word.endswith(_SECRET_ENDS) or word.startswith(("secret", "password")) for word in words
    )


def _flatten_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten_settings(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def command_parts(command: str) -> dict[str, str]:
    """Split `train.py --lr 0.1 seed=3` into `word 1`: train.py, `--lr`: 0.1, `seed`: 3. A name that
    comes twice has both values.

    Of a pipeline, the first command is split; the rest is one word. A program in words (`python -c
    ...`, `for ...; do ...; done`) is one word and has no settings.
    """
    command, pipe, rest = _split_at_pipe(command)
    words = _split_words(command)
    if _is_program_text(command, words):
        return {"word 1": _without_secrets(f"{command}{pipe}{rest}".strip())}
    parts = _parts_of(words)
    if pipe:
        parts[f"word {1 + sum(map(_is_plain, parts))}"] = _without_secrets(f"| {rest.strip()}")
    return parts


def _is_plain(name: str) -> bool:
    return PLAIN_WORD.fullmatch(name) is not None


def _parts_of(words: list[str]) -> dict[str, str]:
    parts: dict[str, str] = {}
    plain = 0
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        equals = equals if _SETTING_NAME.fullmatch(name) else ""
        if _is_flag(word) and not equals and words and not _is_flag(words[0]):
            value = words.pop(0)
        elif not equals and not _is_flag(word):
            plain += 1
            name, value = f"word {plain}", word
        parts[name] = f"{parts[name]} {value}" if name in parts else value
    return parts


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.match(word)


def _split_at_pipe(command: str) -> tuple[str, str, str]:
    """Return (the command before its first `|`, that sign, the rest). A sign in quotes does not
    count, and a command with `;` is not split.
    """
    unquoted = _blank_quotes(command)
    found = re.search(r"(?<!\|)\|(?!\|)", unquoted)
    if found is None or ";" in unquoted:
        return command, "", ""
    return command[: found.start()].removesuffix("2>&1 "), "|", command[found.end() :]


def _blank_quotes(command: str) -> str:
    """Replace the quoted and escaped parts of the command by blanks. Its length stays the same."""
    quoted = r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\""
    return re.sub(quoted, lambda part: " " * len(part.group()), command, flags=re.DOTALL)


def _is_program_text(command: str, words: Sequence[str]) -> bool:
    """True for shell text of several commands, and for a program after `-c`."""
    if ";" in _blank_quotes(command):
        return True
    return any(
        _INTERPRETER.fullmatch(word) and _TAKES_PROGRAM.fullmatch(following)
        for word, following in pairwise(words)
    )


def _without_secrets(text: str) -> str:
    """Hide the values of secrets in the text, as in `--api-key abc` and `API_KEY=abc`."""

    def hide(found: re.Match[str]) -> str:
        name = found["name"]
        if _is_secret(name) or is_secret_name(name):
            return f"{name}{found['between']}{_HIDDEN}"
        return found.group()

    return _NAMED_VALUE.sub(hide, text)


def _split_words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quote: shell text that is no list of words
        return command.split()


def differing_settings(settings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names of the settings that are not the same in all, in the order in which they
    first come.
    """
    names = dict.fromkeys(name for own in settings for name in own)
    absent = object()
    return tuple(
        name
        for name in names
        if any(own.get(name, absent) != settings[0].get(name, absent) for own in settings)
    )


def setting_meant(known: Iterable[str], word: str) -> str:
    """The flat name that a word means: itself, a label, or the only name with that last part, such
    as `specs.train.lr` or `--lr` for `lr`. "" if it means none.

    Raises UsageError if it is the last part of several names.
    """
    names = list(dict.fromkeys(known))
    for name in (word, f"label {word}"):
        if name in names:
            return name
    meant = [name for name in names if ends_as(name, word)]
    if len(meant) > 1:
        what = f"{word!r} can mean several settings."
        raise UsageError(what, f"They are {', '.join(sorted(meant))}.", "Write one of these names.")
    return meant[0] if meant else ""


def ends_as(name: str, word: str) -> bool:
    """True for `train.lr` and `lr` with `specs.train.lr`, and for `lr` with `--lr`."""
    return name.lstrip("-") == word or name.endswith(f".{word}")


def near_setting(known: Iterable[str], word: str) -> str:
    """The flat name whose last part is like the word, or that the word abbreviates; "" if there is
    none. The word itself means no setting.
    """
    from difflib import get_close_matches

    last_parts = {re.split(r"[. ]", name)[-1].lstrip("-"): name for name in known}
    short = [name for part, name in last_parts.items() if is_short_for(word, part)]
    near = get_close_matches(word, last_parts, n=1, cutoff=0.7)
    return next(iter([*short, *(last_parts[part] for part in near)]), "")


def is_short_for(short: str, name: str) -> bool:
    """True for the first letters of a name's words: `lr` for `learning_rate`."""
    return "_" in name and short == "".join(word[:1] for word in name.split("_"))


def number_or_text(value: Any) -> tuple[bool, float, str]:
    """A sort key: first numbers by size, even if they are written as text, then other text by its
    letters.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        return (True, 0.0, str(value))
    if math.isnan(number):
        return (True, 0.0, str(value))
    return (False, number, "")
