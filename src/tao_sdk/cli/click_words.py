"""Click words: click's messages about flags and words that it cannot read, in this program's style.

Not here: what to type instead (usage_advice.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from tao_sdk.model.lazy_pattern import lazy_compile

LIKE = 0.7  # the similarity from which a flag counts as a mistyped one
# the value in click's sentence
TYPED = lazy_compile(r"(?s)('(?P<quoted>.*)'|(?P<bare>.*)) is not (a valid|in the range|one of)")
EXTRA_WORD = lazy_compile(r"unexpected extra arguments? \((?P<first>\S+?)[ )]")


def told_error(error: click.UsageError) -> str:
    """The error in one sentence; click's own sentence if that is as good."""
    said = str(error.message)
    if isinstance(error, click.MissingParameter):
        return missing_words(error.param)
    if isinstance(error, click.BadParameter) and error.param is not None:
        return wrong_value_words(said, error.param)
    if isinstance(error, click.NoSuchOption):
        return unknown_flag_words(error)
    if isinstance(error, click.BadOptionUsage):
        return lone_flag_words(said, error.option_name) or error.format_message()
    if extra := EXTRA_WORD.search(said):
        return f"One word too many: {extra['first']!r}."
    return error.format_message()


def missing_words(param: click.Parameter | None) -> str:
    if param is None:
        return "A word is missing."
    what = f"{shown_name(param)} is missing."
    if wanted := allowed_values(param.type):
        return f"{what} It is {wanted}."
    return what


def wrong_value_words(said: str, param: click.Parameter) -> str:
    """`--limit is 'x'; it must be a whole number of 0 or more.`"""
    typed, wanted = TYPED.match(said), allowed_values(param.type)
    if typed is None:  # our own words: a type of ours
        return f"{shown_name(param)}: {said}"
    value = typed["quoted"] if typed["quoted"] is not None else typed["bare"]
    return f"{shown_name(param)} is {value!r}; it must be {wanted or 'another value'}."


def unknown_flag_words(error: click.NoSuchOption) -> str:
    """The message for an unknown flag, with the flags that are much like it. The flags that click
    guesses may have only a letter in common (`--args` for `--lr`).
    """
    from difflib import get_close_matches

    known = list(error.possibilities or ())
    near = get_close_matches(error.option_name, known, cutoff=LIKE)
    guess = f" Did you mean {one_of(near)}?" if near else ""
    return f"No such option: {error.option_name}.{guess}"


def lone_flag_words(said: str, flag: str) -> str:
    """The message for a flag without the value that it takes, or with a value although it takes
    none; "" for any other error.
    """
    if "not take a value" in said:
        return f"{flag} takes no value."
    if "requires" in said:
        return f"{flag} needs a value."
    return ""


def shown_name(param: click.Parameter) -> str:
    """`--limit`; for a word without a flag its name: `URI`, `shell`."""
    if isinstance(param, click.Option):
        return param.opts[0]
    name = str(param.name)
    return name if isinstance(param.type, click.Choice) else name.upper()


def allowed_values(kind: object) -> str:
    """The values that a click type allows: `stdout or stderr`, `a whole number of 0 or more`; "" if
    they are not known.
    """
    choices: Sequence[object] = getattr(kind, "choices", ())
    if choices:
        return one_of([str(choice) for choice in choices])
    if isinstance(kind, click.IntRange):
        return f"a whole number of {kind.min:g} or more"
    return getattr(kind, "allowed", "")


def one_of(names: Sequence[str]) -> str:
    """`bash, zsh or fish`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
