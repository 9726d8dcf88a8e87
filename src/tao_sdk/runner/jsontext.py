"""Write JSON for the runner. Python's own module takes as long to import as the rest of the runner,
and a minimal Python (python3-minimal) does not have it.
"""

from __future__ import annotations

SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def dumps(value: object) -> str:
    """The JSON of a value, in ASCII on one line. The value may have dicts with string keys, lists,
    strings, finite numbers, booleans and None.
    """
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, dict):
        items = [f"{quote_text(key)}: {dumps(item)}" for key, item in value.items()]  # pyright: ignore
        return f"{{{', '.join(items)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(dumps, value))}]"  # pyright: ignore
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def quote_text(text: str) -> str:
    """A string as JSON, with its quotes."""
    return '"%s"' % "".join(map(escape_char, text))


def escape_char(char: str) -> str:
    if char in SHORT or " " <= char <= "~":
        return SHORT.get(char, char)
    code = ord(char)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
