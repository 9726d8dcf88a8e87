"""The little XML that S3 speaks, read without a parser: no attributes, no nesting
of equal names.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def inner(text: str, name: str) -> str:
    """The text of the first element of that name; "" when there is none."""
    start = text.find(f"<{name}>")
    stop = text.find(f"</{name}>", start)
    return plain_text(text[start + len(name) + 2 : stop]) if 0 <= start < stop else ""


def elements(text: str, name: str) -> Iterator[str]:
    """The inner XML of each element of that name."""
    opening, closing = f"<{name}>", f"</{name}>"
    at = text.find(opening)
    while at >= 0:
        start = at + len(opening)
        stop = text.find(closing, start)
        yield text[start:stop]
        at = text.find(opening, stop)


def plain_text(text: str) -> str:
    if "&" not in text:
        return text
    first, *rest = text.split("&")
    return first + "".join(map(decode_entity, rest))


def decode_entity(text: str) -> str:
    """What stands behind an ampersand."""
    name, _, rest = text.partition(";")
    if name.startswith("#"):
        return decode_character(name[1:]) + rest
    return ENTITIES.get(name, "") + rest


def decode_character(number: str) -> str:
    """Of &#65; and &#x41; what stands between # and the semicolon; the sign for an unknown one
    where it is none.
    """
    try:
        code = int(number[1:9], 16) if number[:1] in ("x", "X") else int(number[:9])
        return chr(code)
    except (ValueError, OverflowError):
        return "\ufffd"
