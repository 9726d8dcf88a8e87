"""The YAML that CDI specs are written in: block and flow collections, plain and quoted scalars,
literal blocks.

Not here: anchors, aliases, tags, directives, several documents. They are refused, never guessed at.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NULLS = frozenset(("", "~", "null", "Null", "NULL"))
BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
REFUSED = "&*!%@`"
ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f",
    "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028",
    "P": "\u2029",
}  # fmt: skip
HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


class YamlFault(ValueError):
    """The line that is no YAML, or is YAML that this reader refuses."""


class Plain:
    """A plain scalar that means a number or a boolean: its value, and its text for where a text is
    wanted.
    """

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: "Any") -> None:
        self.text = text
        self.value = value


def parse(text: str) -> "Any":
    return _Reader(text).document()


def parse_plain(text: str) -> "Any":
    """As `parse`, but with Plain in the place of numbers and booleans, and the text
    of every key.
    """
    return _Reader(text, keep_text=True).document()


class _Reader:
    """Works on lines: `lines` holds (indent, text, number) of every line that says something."""

    def __init__(self, text: str, keep_text: bool = False) -> None:
        self.keep_text = keep_text
        text = text.replace("\r\n", "\n")
        if not text.replace("\n", "").isprintable():
            refuse_controls(text)
        self.source = text.split("\n")
        self.lines: list[tuple[int, str, int]] = []
        for number, raw in enumerate(self.source, 1):
            line = raw.strip(" ")
            if line and line[0] != "#":
                self.lines.append((len(raw) - len(raw.lstrip(" ")), line, number))
        if len(self.lines) > 1 and self.lines[-1][:2] == (0, "..."):
            self.lines.pop()
        if self.lines and self.lines[0][:2] == (0, "---"):
            del self.lines[0]
        for indent, line, number in self.lines:
            if indent == 0 and line.startswith(("---", "...")):
                raise YamlFault(f"line {number}: several documents are not read here")
        self.at = 0
        self.depth = 0

    def fault(self, what: str) -> YamlFault:
        number = self.lines[min(self.at, len(self.lines) - 1)][2] if self.lines else 1
        return YamlFault(f"line {number}: {what}")

    def document(self) -> "Any":
        if not self.lines:
            return None
        if self.lines[self.at][1].startswith("|"):
            raise self.fault("a document that is one block scalar is not read here")
        value = self.node(self.lines[self.at][0])
        if self.at < len(self.lines):
            raise self.fault(f"unexpected {self.lines[self.at][1]!r}")
        return value

    def node(self, indent: int) -> "Any":
        """The value whose first line is the current one, at that indent."""
        self.depth += 1
        if self.depth > 100:
            raise self.fault("nested more than 100 deep")
        text = self.lines[self.at][1]
        if text == "-" or text.startswith("- "):
            value: Any = self.sequence(indent)
        elif self.key(text):
            value = self.mapping(indent)
        else:
            self.at += 1
            value = self.scalar(text, indent - 1)
        self.depth -= 1
        return value

    def sequence(self, indent: int) -> "list[Any]":
        items: list[Any] = []
        while self.at < len(self.lines):
            here, text, number = self.lines[self.at]
            if here != indent or not (text == "-" or text.startswith("- ")):
                break
            rest = text[1:].lstrip(" ")
            if not rest or rest[0] == "#":
                self.at += 1
                items.append(self.below(indent))
            else:
                self.lines[self.at] = (indent + len(text) - len(rest), rest, number)
                items.append(self.node(indent + len(text) - len(rest)))
        self.check_indent(indent)
        return items

    def mapping(self, indent: int) -> "dict[Any, Any]":
        table: dict[Any, Any] = {}
        lines = self.lines
        while self.at < len(lines):
            here, text, _ = lines[self.at]
            if here != indent or text.startswith("- ") or text == "-":
                break
            split = self.key(text)
            if split is None:
                raise self.fault(f"expected a key, found {text!r}")
            key, rest = split
            if key in table:
                raise self.fault(f"key {key!r} is given twice")
            self.at += 1
            if rest and rest[0] != "#":
                table[key] = self.scalar(rest, indent)
            else:
                table[key] = self.below(indent, sequences_at=indent)
        self.check_indent(indent)
        return table

    def check_indent(self, indent: int) -> None:
        if self.at < len(self.lines) and self.lines[self.at][0] > indent:
            raise self.fault("unexpected indentation")

    def below(self, indent: int, sequences_at: int = -1) -> "Any":
        """The value on the lines under a key or a dash; a list may start in the
        column of its key.
        """
        if self.at < len(self.lines):
            here, text, _ = self.lines[self.at]
            if here > indent or (here == sequences_at and (text == "-" or text.startswith("- "))):
                return self.node(here)
        return None

    def key(self, text: str) -> "tuple[Any, str] | None":
        """(key, rest of the line) of a line that starts a mapping entry, None of any other."""
        first = text[0]
        if first == "\t":
            raise self.fault("a tab in the indentation")
        if first in "\"'":
            end = quote_end(text)
            if end < 0 or text[end : end + 1] != ":" or text[end + 1 : end + 2] not in ("", " "):
                return None
            return self.unquoted(text[:end]), text[end + 1 :].strip(" ")
        if first in "[{|>#":
            return None
        name, colon, rest = text.partition(": ")
        if not colon:
            if not text.endswith(":"):
                head = text.partition(" #")[0].rstrip(" ")
                if head == text or not head.endswith(":"):
                    return None
                text = head
            name, rest = text[:-1], ""
        if " #" in name:
            return None
        if first in REFUSED or (first == "?" and name[1:2] in ("", " ")):
            raise self.fault(f"{first!r} is not read here")
        return self.resolved_key(name.rstrip(" ")), rest.strip(" ")

    def resolved_key(self, plain: str) -> "Any":
        return plain if self.keep_text else resolved(plain)

    def resolved(self, plain: str) -> "Any":
        value = resolved(plain)
        return (
            Plain(plain, value)
            if self.keep_text and value is not None and type(value) is not str
            else value
        )

    # --- scalars and flow collections

    def scalar(self, text: str, indent: int) -> "Any":
        """A value that starts on a key's own line and may go on below it, on lines indented more
        than `indent`.
        """
        first = text[0]
        if first in "\"'":
            while quote_end(text) < 0:
                text = self.joined(text, indent)
            end = quote_end(text)
            self.only_comment(text[end:])
            return self.unquoted(text[:end])
        if first in "[{":
            return self.flow_value(text, indent)
        if first in "|>":
            return self.block_scalar(text, indent)
        if first in REFUSED or (first in "-?:" and text[1:2] in ("", " ")) or first in ",]}":
            raise self.fault(f"{text!r} is not read here")
        plain = text.partition(" #")[0].rstrip(" ")
        if plain == text:
            while self.at < len(self.lines) and self.lines[self.at][0] > indent:
                plain = self.joined(plain, indent)
        if ": " in plain or plain.endswith(":") or "\t" in plain or " #" in plain:
            raise self.fault(f"{plain!r} is not read here")
        return self.resolved(plain)

    def joined(self, text: str, indent: int) -> str:
        """The text with the next line folded onto it."""
        if self.at >= len(self.lines) or self.lines[self.at][0] <= indent:
            raise self.fault("a value that does not end")
        _, more, number = self.lines[self.at]
        if self.lines[self.at - 1][2] != number - 1:
            raise self.fault("an empty line or a comment inside a value")
        self.at += 1
        if (len(text) - len(text.rstrip("\\"))) % 2:
            if text[0] != '"':
                raise self.fault("a line that ends in a backslash")
            return text[:-1] + more
        return text + " " + more

    def only_comment(self, rest: str) -> None:
        if rest.strip(" ") and not rest.startswith(" #"):
            raise self.fault(f"unexpected {rest.strip()!r} after a value")

    def block_scalar(self, header: str, indent: int) -> str:
        style, chomp = header[0], header[1:].partition(" #")[0].strip()
        if style == ">" or chomp not in ("", "-", "+") or chomp == "+":
            raise self.fault(f"block scalar {header!r} is not read here")
        start = self.lines[self.at - 1][2]
        margin, end = -1, start
        for raw in self.source[start:]:
            here = len(raw) - len(raw.lstrip(" "))
            if raw.strip() and here <= indent:
                break
            if raw.strip() and margin < 0:
                margin = here
            if raw.strip() and here < margin:
                raise self.fault("a line of a block scalar is indented less than its first one")
            end += 1
        body = [raw[margin:] for raw in self.source[start:end]] if margin >= 0 else []
        while self.at < len(self.lines) and self.lines[self.at][2] <= end:
            self.at += 1
        text = "\n".join(body).rstrip("\n")
        unended = bool(body and body[-1]) and end == len(
            self.source
        )  # the file's last line has no newline to keep
        return text if chomp == "-" or not text or unended else text + "\n"

    def unquoted(self, text: str) -> str:
        inner = text[1:-1]
        if text[0] == "'":
            return inner.replace("''", "'")
        if "\\" not in inner:
            return inner
        pieces: list[str] = []
        at = 0
        while at < len(inner):
            slash = inner.find("\\", at)
            if slash < 0:
                pieces.append(inner[at:])
                break
            pieces.append(inner[at:slash])
            letter = inner[slash + 1 : slash + 2]
            size = HEX_ESCAPES.get(letter, 0)
            digits = inner[slash + 2 : slash + 2 + size]
            if size:
                pieces.append(self.code_point(digits, size))
            elif letter and letter in ESCAPES:
                pieces.append(ESCAPES[letter])
            else:
                raise self.fault(f"unknown escape \\{letter}")
            at = slash + 2 + size
        return "".join(pieces)

    def code_point(self, digits: str, size: int) -> str:
        if (
            len(digits) < size
            or any(digit not in "0123456789abcdefABCDEF" for digit in digits)
            or int(digits, 16) > 0x10FFFF
        ):
            raise self.fault(f"invalid escape {digits!r}")
        return chr(int(digits, 16))

    def flow_value(self, text: str, indent: int) -> "Any":
        while True:
            flow = _Flow(self, text)
            try:
                value = flow.value()
            except _Unfinished:
                text = self.joined(text, indent)
                continue
            self.only_comment(text[flow.at :])
            return value


class _Unfinished(Exception):
    """A flow collection goes on in the next line."""


class _Flow:
    """[a, b] and {a: b}, within one line of text."""

    def __init__(self, reader: _Reader, text: str) -> None:
        self.reader = reader
        self.text = text
        self.at = 0
        self.depth = 0

    def peek(self) -> str:
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1
        if self.at >= len(self.text):
            raise _Unfinished
        return self.text[self.at]

    def value(self) -> "Any":
        first = self.peek()
        if first in "[{":
            self.depth += 1
            if self.depth > 100:
                raise self.reader.fault("nested more than 100 deep")
            found: Any = self.sequence() if first == "[" else self.mapping()
            self.depth -= 1
            return found
        return self.scalar()

    def sequence(self) -> "list[Any]":
        self.at += 1
        items: list[Any] = []
        while self.peek() != "]":
            items.append(self.value())
            self.separator("]")
        self.at += 1
        return items

    def mapping(self) -> "dict[Any, Any]":
        self.at += 1
        table: dict[Any, Any] = {}
        while self.peek() != "}":
            key = self.scalar()
            key = key.text if isinstance(key, Plain) else key
            if key in table:
                raise self.reader.fault(f"key {key!r} is given twice")
            if self.peek() != ":":
                raise self.reader.fault("a flow mapping wants `key: value`")
            self.at += 1
            table[key] = None if self.peek() in ",}" else self.value()
            self.separator("}")
        self.at += 1
        return table

    def separator(self, closing: str) -> None:
        found = self.peek()
        if found == ",":
            self.at += 1
        elif found != closing:
            raise self.reader.fault(f"expected ',' or {closing!r}, found {found!r}")

    def scalar(self) -> "Any":
        first = self.peek()
        if first in "\"'":
            end = quote_end(self.text[self.at :])
            if end < 0:
                raise _Unfinished
            piece = self.text[self.at : self.at + end]
            self.at += end
            return self.reader.unquoted(piece)
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in ",[]{}":
            if self.text[self.at] == ":" and self.text[self.at + 1 : self.at + 2] in (
                "",
                " ",
                ",",
                "[",
                "]",
                "{",
                "}",
            ):
                break
            self.at += 1
        plain = self.text[start : self.at].rstrip(" ")
        if (
            not plain
            or plain[0] in REFUSED
            or (plain[0] in "#|>-" and plain[1:2] in ("", " "))
            or "?" in plain  # the two YAMLs differ in what it means here
            or " #" in plain
            or "\t" in plain
        ):
            raise self.reader.fault(f"{plain!r} is not read here")
        return self.reader.resolved(plain)


def refuse_controls(text: str) -> None:
    """Characters that YAML forbids, and those that some readers take for the end of a line."""
    for character in text:
        if (
            (character < " " and character not in "\t\n")
            or character in "\x7f\x85\u2028\u2029\ufeff"
            or "\ud800" <= character <= "\udfff"
        ):
            raise YamlFault(f"character {character!r} is not read here")


def quote_end(text: str) -> int:
    """The position after the closing quote of a text that starts with a quote; -1 when it is not
    closed.
    """
    quote = text[0]
    at = 1
    while True:
        at = text.find(quote, at)
        if at < 0:
            return -1
        if quote == "'":
            if text[at + 1 : at + 2] == "'":
                at += 2
                continue
            return at + 1
        slashes = 0
        while text[at - 1 - slashes] == "\\":
            slashes += 1
        at += 1
        if slashes % 2 == 0:
            return at


def resolved(plain: str) -> "Any":
    """What a plain scalar means: null, a boolean, a number, else its text."""
    if plain in NULLS:
        return None
    first = plain[0]
    if first.isdigit() or first in "+-.":
        number = as_number(plain)
        return plain if number is None else number
    return BOOLS.get(plain, plain)


def as_number(plain: str) -> "int | float | None":
    sign, digits = (plain[0], plain[1:]) if plain[0] in "+-" else ("", plain)
    if not digits or not digits.isascii() or len(digits) > 300:
        return None
    try:
        if digits[0] == "0" and digits[1:].isdigit():
            return int(sign + digits, 8)
        if digits.isdigit():
            return int(sign + digits)
        if digits[:2] in ("0x", "0o", "0b") and digits[2:].isalnum():
            return int(sign + digits, 0)
        if "." in digits and digits[0] in "0123456789." and digits.strip("0123456789.eE+-") == "":
            return float(sign + digits)
    except ValueError:
        return None
    return None
