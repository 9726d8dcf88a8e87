"""JSON by the interpreter's C routines alone: the json package imports re, which costs more than a
whole creation.
"""

import _json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLANKS = " \t\r\n"


class JsonFault(ValueError):
    """Text that is no JSON, or a value that JSON cannot hold."""


class _Options:
    """The options, in the form that the C scanner reads."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_int = int

    @staticmethod
    def parse_float(text: str) -> float:
        """A number that a float holds: one that it does not could not be written again."""
        number = float(text)
        if number - number != 0:
            raise JsonFault(f"number {text[:40]} is out of range")
        return number

    @staticmethod
    def parse_constant(name: str) -> float:
        raise JsonFault(f"invalid character {name[0]!r} looking for beginning of value")


def first_value(text: str) -> "Any":
    """The first JSON value of a text; what follows it is ignored, as the runtimes' own decoder
    does.
    """
    return _scan(text)[0]


def whole_value(text: str) -> "Any":
    """The only JSON value of a text: more text after it is an error."""
    value, end = _scan(text)
    rest = text[end:].strip(BLANKS)
    if rest:
        raise JsonFault(f"invalid character {rest[0]!r} after top-level value")
    return value


def _scan(text: str) -> "tuple[Any, int]":
    start = len(text) - len(text.lstrip(BLANKS))
    if start == len(text):
        raise JsonFault("EOF")
    try:
        return _json.make_scanner(_Options())(text, start)  # pyright: ignore[reportArgumentType]
    except StopIteration as stop:
        at = int(stop.value)
        found = (
            "unexpected EOF"
            if at >= len(text)
            else f"invalid character {text[at]!r} looking for beginning of value"
        )
        raise JsonFault(found) from None
    except RecursionError:
        raise JsonFault("exceeded max depth") from None
    except (
        SystemError
    ):  # the scanner found a fault and wants json.decoder's exception, which nobody has imported
        import json.decoder  # noqa: F401  # pyright: ignore[reportUnusedImport]

        return _scan(text)
    except ValueError as error:
        raise JsonFault(str(error)) from None


def _refuse(value: object) -> "Any":
    raise TypeError(f"{type(value).__name__} is no JSON value")


def dumps(value: "Any") -> str:
    """Compact JSON in plain ASCII, so that no byte of the input can make it undecodable."""
    encode = _json.make_encoder(
        None, _refuse, _json.encode_basestring_ascii, None, ":", ",", False, False, False
    )
    try:
        return "".join(encode(value, 0))
    except (ValueError, RecursionError) as error:
        raise JsonFault(str(error)) from None
