"""Read S3's simple XML without a parser. Elements have no attributes, and none is nested in
another of the same name.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def inner(text: str, name: str) -> str:
    """The text of the first element with that name; "" if there is none."""
    start = text.find(f"<{name}>")
    stop = text.find(f"</{name}>", start)
    return plain_text(text[start + len(name) + 2 : stop]) if 0 <= start < stop else ""


def elements(text: str, name: str) -> Iterator[str]:
    """The inner XML of each element with that name."""
    opening, closing = f"<{name}>", f"</{name}>"
    at = text.find(opening)
    while at >= 0:
        start = at + len(opening)
        stop = text.find(closing, start)
        yield text[start:stop]
        at = text.find(opening, stop)


def plain_text(text: str) -> str:
    """The text of an element, its entities decoded."""
    if "&" not in text:
        return text
    first, *rest = text.split("&")
    return first + "".join(map(decode_entity, rest))


def decode_entity(text: str) -> str:
    """The text after an ampersand, its entity decoded: `amp; b` becomes `& b`."""
    name, _, rest = text.partition(";")
    if name.startswith("#"):
        return decode_character(name[1:]) + rest
    return ENTITIES.get(name, "") + rest


def decode_character(number: str) -> str:
    """The character for `65` or `x41`, from &#65; and &#x41;; U+FFFD if there is none."""
    try:
        code = int(number[1:9], 16) if number[:1] in ("x", "X") else int(number[:9])
        return chr(code)
    except (ValueError, OverflowError):
        return "\ufffd"
