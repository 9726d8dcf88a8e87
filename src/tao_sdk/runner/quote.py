"""Quote a string for a shell command, JSON, YAML or TOML. Pure.

Used on both sides: by the packer for values that it knows, by the runner for paths that only the
job knows.
"""

from __future__ import annotations

from tao_sdk.runner import jsontext

PLAIN = frozenset("@%+=:,./-_").union(filter(str.isalnum, map(chr, range(128))))


def quote_word(text: str) -> str:
    """One word of a shell command."""
    if text and PLAIN.issuperset(text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def plain_word(text: str) -> str:
    """A word that stays one word, however often it is parsed. Raises ValueError otherwise."""
    if not PLAIN.issuperset(text):
        raise ValueError(text)
    return quote_word(text)


def double_quoted(text: str) -> str:
    """A string for YAML and TOML: double-quoted and ASCII only, so that the reader's locale does
    not matter.
    """
    return '"' + "".join(map(escape_char, text)) + '"'


def escape_char(char: str) -> str:
    """Escape as in JSON, except above 16 bits: YAML and TOML have no surrogate pairs."""
    if char <= "\uffff":
        return jsontext.escape_char(char)
    return f"\\U{ord(char):08X}"


def toml_string(text: str) -> str:
    """As `double_quoted`. Raises UnicodeEncodeError for a text that is not Unicode, which TOML
    forbids.
    """
    text.encode()
    return double_quoted(text)


def empty_text(_: str) -> str:
    """The text for a hole that only tests for a value."""
    return ""


STYLES = {
    "shell": quote_word,
    "plain": plain_word,
    "nothing": empty_text,
    "json": jsontext.quote_text,
    "yaml": double_quoted,
    "toml": toml_string,
}
