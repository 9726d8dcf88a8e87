"""A reader of the YAML that CDI specs are written in: block and flow collections, plain and quoted
scalars, literal blocks.

Not here: anchors, aliases, tags, directives, several documents. They are refused.
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
HEX_DIGITS = "0123456789abcdefABCDEF"
DEEPEST = 100
BLANK_OR_END = ("", " ")  # what may stand after a mark such as `-` or `:`
FLOW_ENDS = ("", ",", "[", "]", "{", "}")
AFTER_FLOW_COLON = (" ", *FLOW_ENDS)


class YamlFault(ValueError):
    """The text is not YAML, or is YAML that this reader refuses. The message names the line."""


class Plain:
    """A plain scalar that means a number or a boolean: its value, and its text."""

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: "Any") -> None:
        self.text = text
        self.value = value


def parse(text: str) -> "Any":
    return _Reader(text).read_document()


def parse_plain(text: str) -> "Any":
    """As `parse`, but numbers and booleans are Plain, and every key is its text."""
    return _Reader(text, keep_text=True).read_document()


class _Reader:
    """Reads line by line. `lines` holds (indent, text, number) of every line that is neither empty
    nor a comment, `at` is the index of the current one.
    """

    def __init__(self, text: str, keep_text: bool = False) -> None:
        self.keep_text = keep_text
        text = text.replace("\r\n", "\n")
        if not text.replace("\n", "").isprintable():
            refuse_controls(text)
        self.source = text.split("\n")
        self.lines = content_lines(self.source)
        self.drop_markers()
        self.at = 0
        self.depth = 0

    def drop_markers(self) -> None:
        """Take away `---` before the document and `...` after it."""
        if len(self.lines) > 1 and self.lines[-1][:2] == (0, "..."):
            self.lines.pop()
        if self.lines and self.lines[0][:2] == (0, "---"):
            del self.lines[0]
        for indent, line, number in self.lines:
            if indent == 0 and line.startswith(("---", "...")):
                raise YamlFault(f"line {number}: several documents are not read here")

    def fault(self, what: str) -> YamlFault:
        """The fault `what` in the current line."""
        number = self.lines[min(self.at, len(self.lines) - 1)][2] if self.lines else 1
        return YamlFault(f"line {number}: {what}")

    def next_indent(self) -> int:
        """The indent of the current line; -1 after the last one."""
        if self.at >= len(self.lines):
            return -1
        return self.lines[self.at][0]

    # --- block collections

    def read_document(self) -> "Any":
        if not self.lines:
            return None
        if self.lines[self.at][1].startswith("|"):
            raise self.fault("a document that is one block scalar is not read here")
        value = self.read_node(self.lines[self.at][0])
        if self.at < len(self.lines):
            raise self.fault(f"unexpected {self.lines[self.at][1]!r}")
        return value

    def read_node(self, indent: int) -> "Any":
        """The value that starts in the current line, at that indent."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.fault("nested more than 100 deep")
        value = self.read_block(self.lines[self.at][1], indent)
        self.depth -= 1
        return value

    def read_block(self, text: str, indent: int) -> "Any":
        if starts_item(text):
            return self.read_sequence(indent)
        if self.split_key(text):
            return self.read_mapping(indent)
        self.at += 1
        return self.read_scalar(text, indent - 1)

    def read_sequence(self, indent: int) -> "list[Any]":
        items: list[Any] = []
        while self.at < len(self.lines):
            here, text, _ = self.lines[self.at]
            if here != indent or not starts_item(text):
                break
            items.append(self.read_item(text, indent))
        self.check_indent(indent)
        return items

    def read_item(self, text: str, indent: int) -> "Any":
        """The value after a dash. It is read as a line that starts in the value's column."""
        rest = text[1:].lstrip(" ")
        if not rest or rest[0] == "#":
            self.at += 1
            return self.read_below(indent)
        column = indent + len(text) - len(rest)
        self.lines[self.at] = (column, rest, self.lines[self.at][2])
        return self.read_node(column)

    def read_mapping(self, indent: int) -> "dict[Any, Any]":
        table: dict[Any, Any] = {}
        while self.at < len(self.lines):
            here, text, _ = self.lines[self.at]
            if here != indent or starts_item(text):
                break
            entry = self.split_key(text)
            if entry is None:
                raise self.fault(f"expected a key, found {text!r}")
            key, rest = entry
            if key in table:
                raise self.fault(f"key {key!r} is given twice")
            self.at += 1
            if rest and rest[0] != "#":
                table[key] = self.read_scalar(rest, indent)
            else:
                table[key] = self.read_below(indent, sequences_at=indent)
        self.check_indent(indent)
        return table

    def check_indent(self, indent: int) -> None:
        if self.next_indent() > indent:
            raise self.fault("unexpected indentation")

    def read_below(self, indent: int, sequences_at: int = -1) -> "Any":
        """The value in the lines under a key or a dash, None if there is none. A sequence may start
        in column `sequences_at`, which is that of the key.
        """
        if self.at >= len(self.lines):
            return None
        here, text, _ = self.lines[self.at]
        if here > indent or (here == sequences_at and starts_item(text)):
            return self.read_node(here)
        return None

    # --- keys

    def split_key(self, text: str) -> "tuple[Any, str] | None":
        """(key, rest of the line) of a line that starts a mapping entry, None of any other."""
        first = text[0]
        if first == "\t":
            raise self.fault("a tab in the indentation")
        if first in "\"'":
            return self.split_quoted_key(text)
        if first in "[{|>#":
            return None
        parts = split_at_colon(text)
        if parts is None:
            return None
        name, rest = parts
        if " #" in name:
            return None
        if first in REFUSED or (first == "?" and name[1:2] in BLANK_OR_END):
            raise self.fault(f"{first!r} is not read here")
        return self.resolve_key(name.rstrip(" ")), rest.strip(" ")

    def split_quoted_key(self, text: str) -> "tuple[str, str] | None":
        end = quote_end(text)
        if end < 0 or text[end : end + 1] != ":" or text[end + 1 : end + 2] not in BLANK_OR_END:
            return None
        return self.unquote(text[:end]), text[end + 1 :].strip(" ")

    def resolve_key(self, plain: str) -> "Any":
        return plain if self.keep_text else resolve_plain(plain)

    # --- scalars and flow collections

    def read_scalar(self, text: str, indent: int) -> "Any":
        """A value that starts with `text`, in the line before the current one. It may go on in
        lines that are indented more than `indent`.
        """
        first = text[0]
        if first in "\"'":
            return self.read_quoted(text, indent)
        if first in "[{":
            return self.read_flow(text, indent)
        if first in "|>":
            return self.read_literal(text, indent)
        return self.read_plain(text, indent)

    def read_quoted(self, text: str, indent: int) -> str:
        end = quote_end(text)
        while end < 0:
            text = self.join_line(text, indent)
            end = quote_end(text)
        self.refuse_rest(text[end:])
        return self.unquote(text[:end])

    def read_flow(self, text: str, indent: int) -> "Any":
        while True:
            flow = _Flow(self, text)
            try:
                value = flow.read_value()
            except _Unfinished:
                text = self.join_line(text, indent)
                continue
            self.refuse_rest(text[flow.at :])
            return value

    def read_plain(self, text: str, indent: int) -> "Any":
        if starts_refused_scalar(text):
            raise self.fault(f"{text!r} is not read here")
        plain, comment, _ = text.partition(" #")
        plain = plain.rstrip(" ")
        while not comment and self.next_indent() > indent:
            plain = self.join_line(plain, indent)
        if ": " in plain or plain.endswith(":") or "\t" in plain or " #" in plain:
            raise self.fault(f"{plain!r} is not read here")
        return self.resolve(plain)

    def resolve(self, plain: str) -> "Any":
        value = resolve_plain(plain)
        if not self.keep_text or value is None or type(value) is str:
            return value
        return Plain(plain, value)

    def join_line(self, text: str, indent: int) -> str:
        """The text with the current line folded onto it."""
        if self.next_indent() <= indent:
            raise self.fault("a value that does not end")
        _, more, number = self.lines[self.at]
        if self.lines[self.at - 1][2] != number - 1:
            raise self.fault("an empty line or a comment inside a value")
        self.at += 1
        if not is_escaped(text, len(text)):
            return text + " " + more
        if text[0] != '"':
            raise self.fault("a line that ends in a backslash")
        return text[:-1] + more

    def refuse_rest(self, rest: str) -> None:
        """Only a comment may stand after a value."""
        if rest.strip(" ") and not rest.startswith(" #"):
            raise self.fault(f"unexpected {rest.strip()!r} after a value")

    # --- literal blocks

    def read_literal(self, header: str, indent: int) -> str:
        """The text under a `|` or `|-` whose key stands at `indent`."""
        chomp = header[1:].partition(" #")[0].strip()
        if header[0] == ">" or chomp not in ("", "-"):
            raise self.fault(f"block scalar {header!r} is not read here")
        start = self.lines[self.at - 1][2]
        block = self.deeper_lines(start, indent)
        body = self.cut_margin(block)
        end = start + len(block)
        while self.at < len(self.lines) and self.lines[self.at][2] <= end:
            self.at += 1
        text = "\n".join(body).rstrip("\n")
        if chomp == "-" or not text:
            return text
        if body[-1] and end == len(self.source):
            return text  # the file's last line has no newline to keep
        return text + "\n"

    def deeper_lines(self, start: int, indent: int) -> "list[str]":
        """The source's lines from `start` on that are blank or indented more than `indent`."""
        lines: list[str] = []
        for raw in self.source[start:]:
            if raw.strip() and indent_of(raw) <= indent:
                break
            lines.append(raw)
        return lines

    def cut_margin(self, block: "list[str]") -> "list[str]":
        """The lines without the indentation of the first that is not blank."""
        indents = [indent_of(raw) for raw in block if raw.strip()]
        if not indents:
            return []
        margin = indents[0]
        if min(indents) < margin:
            raise self.fault("a line of a block scalar is indented less than its first one")
        return [raw[margin:] for raw in block]

    # --- quotes

    def unquote(self, text: str) -> str:
        """The text that a quoted scalar, with its quotes, stands for."""
        inner = text[1:-1]
        if text[0] == "'":
            return inner.replace("''", "'")
        pieces: list[str] = []
        at = 0
        slash = inner.find("\\")
        while slash >= 0:
            letter = inner[slash + 1 : slash + 2]
            end = slash + 2 + HEX_ESCAPES.get(letter, 0)
            pieces += inner[at:slash], self.read_escape(inner[slash + 1 : end])
            at = end
            slash = inner.find("\\", at)
        return "".join([*pieces, inner[at:]])

    def read_escape(self, escape: str) -> str:
        """The text that the characters after a backslash stand for."""
        letter, digits = escape[:1], escape[1:]
        if letter in HEX_ESCAPES:
            return self.read_code_point(digits, HEX_ESCAPES[letter])
        if letter not in ESCAPES:
            raise self.fault(f"unknown escape \\{letter}")
        return ESCAPES[letter]

    def read_code_point(self, digits: str, size: int) -> str:
        is_hex = len(digits) == size and all(digit in HEX_DIGITS for digit in digits)
        if not is_hex or int(digits, 16) > 0x10FFFF:
            raise self.fault(f"invalid escape {digits!r}")
        return chr(int(digits, 16))


class _Unfinished(Exception):
    """A flow collection goes on in the next line."""


class _Flow:
    """Reads [a, b] and {a: b} within one line of text. `at` is the current position in it."""

    def __init__(self, reader: _Reader, text: str) -> None:
        self.reader = reader
        self.text = text
        self.at = 0
        self.depth = 0

    def peek(self) -> str:
        """The next character that is no blank."""
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1
        if self.at >= len(self.text):
            raise _Unfinished
        return self.text[self.at]

    def read_value(self) -> "Any":
        first = self.peek()
        if first not in "[{":
            return self.read_flow_scalar()
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.reader.fault("nested more than 100 deep")
        value: Any = self.read_flow_sequence() if first == "[" else self.read_flow_mapping()
        self.depth -= 1
        return value

    def read_flow_sequence(self) -> "list[Any]":
        self.at += 1
        items: list[Any] = []
        while self.peek() != "]":
            items.append(self.read_value())
            self.pass_comma("]")
        self.at += 1
        return items

    def read_flow_mapping(self) -> "dict[Any, Any]":
        self.at += 1
        table: dict[Any, Any] = {}
        while self.peek() != "}":
            key = self.read_flow_scalar()
            key = key.text if isinstance(key, Plain) else key
            if key in table:
                raise self.reader.fault(f"key {key!r} is given twice")
            if self.peek() != ":":
                raise self.reader.fault("a flow mapping wants `key: value`")
            self.at += 1
            table[key] = None if self.peek() in ",}" else self.read_value()
            self.pass_comma("}")
        self.at += 1
        return table

    def pass_comma(self, closing: str) -> None:
        """Go over a comma. Where there is none, the collection must end here."""
        character = self.peek()
        if character == ",":
            self.at += 1
        elif character != closing:
            raise self.reader.fault(f"expected ',' or {closing!r}, found {character!r}")

    def read_flow_scalar(self) -> "Any":
        if self.peek() in "\"'":
            return self.reader.unquote(self.pass_quoted())
        start = self.at
        while not self.ends_plain():
            self.at += 1
        plain = self.text[start : self.at].rstrip(" ")
        if is_refused_in_flow(plain):
            raise self.reader.fault(f"{plain!r} is not read here")
        return self.reader.resolve(plain)

    def pass_quoted(self) -> str:
        """Go over a quoted scalar and return it with its quotes."""
        length = quote_end(self.text[self.at :])
        if length < 0:
            raise _Unfinished
        self.at += length
        return self.text[self.at - length : self.at]

    def ends_plain(self) -> bool:
        """True where a plain scalar cannot go on."""
        character = self.text[self.at : self.at + 1]
        if character == ":":
            return self.text[self.at + 1 : self.at + 2] in AFTER_FLOW_COLON
        return character in FLOW_ENDS


def content_lines(source: "list[str]") -> "list[tuple[int, str, int]]":
    """(indent, text, number) of every line that is neither empty nor a comment."""
    lines: list[tuple[int, str, int]] = []
    for number, raw in enumerate(source, 1):
        line = raw.strip(" ")
        if line and line[0] != "#":
            lines.append((indent_of(raw), line, number))
    return lines


def indent_of(raw: str) -> int:
    return len(raw) - len(raw.lstrip(" "))


def starts_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def split_at_colon(text: str) -> "tuple[str, str] | None":
    """(name, rest) around the colon that ends a plain key, None if there is no such colon."""
    name, colon, rest = text.partition(": ")
    if colon:
        return name, rest
    if text.endswith(":"):
        return text[:-1], ""
    head, comment, _ = text.partition(" #")
    head = head.rstrip(" ")
    if comment and head.endswith(":"):
        return head[:-1], ""
    return None


def starts_refused_scalar(text: str) -> bool:
    first = text[0]
    if first in REFUSED or first in ",]}":
        return True
    return first in "-?:" and text[1:2] in BLANK_OR_END


def is_refused_in_flow(plain: str) -> bool:
    if not plain or plain[0] in REFUSED:
        return True
    if plain[0] in "#|>-" and plain[1:2] in BLANK_OR_END:
        return True
    # YAML 1.1 and 1.2 differ in what a question mark means here.
    return "?" in plain or " #" in plain or "\t" in plain


def refuse_controls(text: str) -> None:
    """Refuse characters that YAML forbids or that some readers take for the end of a line."""
    for character in text:
        if (
            (character < " " and character not in "\t\n")
            or character in "\x7f\x85\u2028\u2029\ufeff"
            or "\ud800" <= character <= "\udfff"
        ):
            raise YamlFault(f"character {character!r} is not read here")


def quote_end(text: str) -> int:
    """The position after the closing quote of a text that starts with a quote; -1 if none."""
    quote = text[0]
    at = text.find(quote, 1)
    while at >= 0:
        if quote == "'" and text[at + 1 : at + 2] == "'":
            at = text.find(quote, at + 2)
        elif quote == '"' and is_escaped(text, at):
            at = text.find(quote, at + 1)
        else:
            return at + 1
    return -1


def is_escaped(text: str, at: int) -> bool:
    """True if an odd number of backslashes stands before that position."""
    start = at
    while text[start - 1 : start] == "\\":
        start -= 1
    return (at - start) % 2 == 1


def resolve_plain(plain: str) -> "Any":
    """The value of a plain scalar: null, a boolean, a number, else its text."""
    if plain in NULLS:
        return None
    first = plain[0]
    if first.isdigit() or first in "+-.":
        number = read_number(plain)
        return plain if number is None else number
    return BOOLS.get(plain, plain)


def read_number(plain: str) -> "int | float | None":
    """The number that a plain scalar means, None if it means none."""
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
