"""Quoting: how a string stands in a shell command, in JSON, and in YAML and TOML.

Pure, and used on both sides: by the packer for what it knows, by the runner for paths that only the
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
    """A word that nobody takes for more than a word, however often it is read. Raises ValueError
    for any other.
    """
    if not PLAIN.issuperset(text):
        raise ValueError(text)
    return quote_word(text)


def double_quoted(text: str) -> str:
    """A string of YAML and of TOML: double-quoted, ASCII only, so that a reader's locale does not
    matter.
    """
    return '"' + "".join(map(escape_char, text)) + '"'


def escape_char(char: str) -> str:
    """As in JSON, but for what is beyond 16 bits: neither knows two halves of a character."""
    if char <= "\uffff":
        return jsontext.escape_char(char)
    return f"\\U{ord(char):08X}"


def toml_string(text: str) -> str:
    """As `double_quoted`; a name that is not Unicode cannot stand in TOML: UnicodeEncodeError."""
    text.encode()
    return double_quoted(text)


def empty_text(_: str) -> str:
    """Of a hole that only asks whether there is a value."""
    return ""


STYLES = {
    "shell": quote_word,
    "plain": plain_word,
    "nothing": empty_text,
    "json": jsontext.quote_text,
    "yaml": double_quoted,
    "toml": toml_string,
}
