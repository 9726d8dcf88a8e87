"""TOML 1.0 without dates: what configuration files of container engines are written in.

tomllib came with Python 3.11 and imports re; this reader runs on 3.9 and costs a tenth of that
import.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
SIGNS = ("+", "-")
DIGITS = {"0x": (16, "0123456789abcdefABCDEF"), "0o": (8, "01234567"), "0b": (2, "01")}


class TomlFault(ValueError):
    """Raised where a text stops being TOML: (line, column), and what was found there."""


def parse(text: str) -> "dict[str, Any]":
    return Reader(text).read_document()


class Reader:
    """One pass over the text. `made` remembers how each container came to be, because TOML opens a
    table only once.

    `headers` and `assignments` tell where things stand, for those who edit the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.root: dict[str, Any] = {}
        # By id, which stays the container's own: root holds all of them while the reader lives.
        self.made: dict[int, str] = {}
        self.nesting = 0
        # (keys, start of the line)
        self.headers: list[tuple[tuple[str, ...], int]] = []
        # keys -> (start of the line, start of the value, end of the value)
        self.assignments: dict[tuple[str, ...], tuple[int, int, int]] = {}

    def fault(self, what: str) -> TomlFault:
        before = self.text[: self.at]
        return TomlFault(
            f"({before.count(chr(10)) + 1}, {self.at - before.rfind(chr(10))}): {what}"
        )

    # --- lines

    def read_document(self) -> "dict[str, Any]":
        table = self.root
        while True:
            self.pass_lines()
            if self.at >= len(self.text):
                return self.root
            start = self.text.rfind("\n", 0, self.at) + 1
            if self.text[self.at] == "[":
                table, keys = self.read_header()
                self.headers.append((keys, start))
            else:
                keys, value = self.read_assignment(table)
                header = self.headers[-1][0] if self.headers else ()
                self.assignments[(*header, *keys)] = (start, value, self.at)
            self.expect_line_end()

    def pass_blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1

    def pass_lines(self) -> None:
        """Over blanks, line ends and comments."""
        while True:
            self.pass_blanks()
            if self.peek() == "\n":
                self.at += 1
            elif self.peek() == "#":
                self.pass_comment()
            else:
                return

    def pass_comment(self) -> None:
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        self.refuse_controls(self.text[self.at : end])
        self.at = end

    def refuse_controls(self, piece: str, allowed: str = "\t") -> None:
        if piece.isprintable():
            return
        for character in piece:
            if (character < " " and character not in allowed) or character == "\x7f":
                raise self.fault(f"unexpected control character {character!r}")

    def expect_line_end(self) -> None:
        self.pass_blanks()
        if self.peek() == "#":
            self.pass_comment()
        if self.at < len(self.text) and self.text[self.at] != "\n":
            raise self.fault(
                f"unexpected token {self.text[self.at]!r}, was expecting the end of the line"
            )

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def expect(self, token: str, where: str) -> None:
        if not self.text.startswith(token, self.at):
            found = repr(self.peek()) if self.peek() else "end of file"
            raise self.fault(f"unexpected token {found}, was expecting {token!r} {where}")
        self.at += len(token)

    # --- tables

    def read_header(self) -> "tuple[dict[str, Any], tuple[str, ...]]":
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        keys = self.read_dotted_key()
        self.expect("]]" if array else "]", "after a table key")
        table = self.root
        for key in keys[:-1]:
            table = self.enter_table(table, key)
        opened = self.append_table(table, keys[-1]) if array else self.open_table(table, keys[-1])
        return opened, tuple(keys)

    def enter_table(self, table: "dict[str, Any]", key: str) -> "dict[str, Any]":
        """The table of that name on the way to a header's last key; made when it is not there."""
        if key not in table:
            return self.new_table(table, key, "on the way")
        found = table[key]
        if self.made.get(id(found)) == "array of tables":
            found = found[-1]
        if self.made.get(id(found), "value") in ("value", "inline"):
            raise self.fault(f"key {key} is no table that can be extended")
        return found

    def open_table(self, table: "dict[str, Any]", key: str) -> "dict[str, Any]":
        if key not in table:
            return self.new_table(table, key, "header")
        if self.made.get(id(table[key])) != "on the way":
            raise self.fault(f"duplicated tables: {key}")
        self.made[id(table[key])] = "header"
        return table[key]

    def append_table(self, table: "dict[str, Any]", key: str) -> "dict[str, Any]":
        if key not in table:
            table[key] = []
            self.made[id(table[key])] = "array of tables"
        if self.made.get(id(table[key])) != "array of tables":
            raise self.fault(f"key {key} is no array of tables")
        table[key].append({})
        self.made[id(table[key][-1])] = "header"
        return table[key][-1]

    def new_table(self, table: "dict[str, Any]", key: str, how: str) -> "dict[str, Any]":
        table[key] = {}
        self.made[id(table[key])] = how
        return table[key]

    # --- keys

    def read_assignment(self, table: "dict[str, Any]") -> "tuple[list[str], int]":
        """Read one assignment into the table: its keys, and where its value starts."""
        keys = self.read_dotted_key()
        self.expect("=", "after a key")
        self.pass_blanks()
        for key in keys[:-1]:
            if key not in table:
                self.new_table(table, key, "dotted")
            elif self.made.get(id(table[key])) not in ("dotted", "on the way"):
                raise self.fault(f"key {key} is already defined")
            table = table[key]
            self.made[id(table)] = "dotted"
        if keys[-1] in table:
            raise self.fault(f"the following key was defined twice: {keys[-1]}")
        start = self.at
        table[keys[-1]] = self.read_value()
        return keys, start

    def read_dotted_key(self) -> "list[str]":
        keys: list[str] = []
        while True:
            self.pass_blanks()
            keys.append(self.read_simple_key())
            self.pass_blanks()
            if self.peek() != ".":
                return keys
            self.at += 1

    def read_simple_key(self) -> str:
        if self.peek() == '"':
            return self.read_basic_string()
        if self.peek() == "'":
            return self.read_literal_string()
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in BARE:
            self.at += 1
        if self.at == start:
            found = repr(self.peek()) if self.peek() else "end of file"
            raise self.fault(f"unexpected token {found}, was expecting a key")
        return self.text[start : self.at]

    # --- values

    def read_value(self) -> "Any":
        self.nesting += 1
        if self.nesting > 100:
            raise self.fault("values are nested more than 100 deep")
        found = self.read_any_value()
        self.nesting -= 1
        return found

    def read_any_value(self) -> "Any":
        if self.text.startswith('"""', self.at):
            return self.read_long_basic_string()
        if self.text.startswith("'''", self.at):
            return self.read_long_literal_string()
        first = self.peek()
        if first == '"':
            return self.read_basic_string()
        if first == "'":
            return self.read_literal_string()
        if first == "[":
            return self.read_array()
        if first == "{":
            return self.read_inline_table()
        return self.read_word()

    def read_word(self) -> "Any":
        """A boolean or a number: whatever runs up to a separator."""
        start = self.at
        while self.at < len(self.text) and (
            self.text[self.at] in BARE or self.text[self.at] in "+.:"
        ):
            self.at += 1
        word = self.text[start : self.at]
        if word in ("true", "false"):
            return word == "true"
        found = read_number(word)
        if found is None:
            self.at = start
            raise self.fault(
                f"unexpected token {word or self.peek() or 'end of file'!r}, was expecting a value"
            )
        return found

    def read_array(self) -> "list[Any]":
        self.at += 1
        found: list[Any] = []
        while True:
            self.pass_lines()
            if self.peek() == "]":
                self.at += 1
                return found
            found.append(self.read_value())
            self.pass_lines()
            if self.peek() != "]":
                self.expect(",", "in an array")

    def read_inline_table(self) -> "dict[str, Any]":
        self.at += 1
        table: dict[str, Any] = {}
        self.pass_blanks()
        while self.peek() != "}" or table:
            self.read_assignment(table)
            self.pass_blanks()
            if self.peek() == "}":
                break
            self.expect(",", "in an inline table")
        self.at += 1
        self.made[id(table)] = "inline"
        return table

    # --- strings

    def read_literal_string(self) -> str:
        end = self.text.find("'", self.at + 1)
        piece = self.text[self.at + 1 : end]
        if end < 0 or "\n" in piece:
            raise self.fault("unclosed string")
        self.refuse_controls(piece)
        self.at = end + 1
        return piece

    def read_long_literal_string(self) -> str:
        end = self.text.find("'''", self.at + 3)
        if end < 0:
            raise self.fault("unclosed string")
        while self.text.startswith("''''", end) and end - self.text.find("'''", self.at + 3) < 2:
            end += 1  # up to two quotes may stand before the closing three
        piece = self.text[self.at + 3 : end]
        self.refuse_controls(piece, "\t\n")
        self.at = end + 3
        return piece[1:] if piece.startswith("\n") else piece

    def read_basic_string(self) -> str:
        self.at += 1
        pieces: list[str] = []
        start = self.at
        while True:
            character = self.peek()
            if character in ("", "\n"):
                raise self.fault("unclosed string")
            if character == '"':
                pieces.append(self.text[start : self.at])
                self.refuse_controls(pieces[-1])
                self.at += 1
                return "".join(pieces)
            if character == "\\":
                pieces.append(self.text[start : self.at])
                self.refuse_controls(pieces[-1])
                pieces.append(self.read_escape())
                start = self.at
            else:
                self.at += 1

    def read_long_basic_string(self) -> str:
        self.at += 3
        if self.peek() == "\n":
            self.at += 1
        pieces: list[str] = []
        while not self.text.startswith('"""', self.at):
            character = self.peek()
            if not character:
                raise self.fault("unclosed string")
            if character != "\\":
                self.refuse_controls(character, "\t\n")
                pieces.append(character)
                self.at += 1
            elif not self.pass_ending_backslash():
                pieces.append(self.read_escape())
        for _ in range(2):  # up to two quotes may stand before the closing three
            if self.text.startswith('""""', self.at):
                pieces.append('"')
                self.at += 1
        self.at += 3
        return "".join(pieces)

    def pass_ending_backslash(self) -> bool:
        """Over a backslash at a line's end and all blanks and lines after it, if that is what
        stands here.
        """
        line = self.text[self.at + 1 :].partition("\n")
        if line[0].strip(" \t") or not line[1]:
            return False
        self.at += 1
        while self.peek() and self.text[self.at] in " \t\n":
            self.at += 1
        return True

    def read_escape(self) -> str:
        letter = self.text[self.at + 1 : self.at + 2]
        if letter in ESCAPES and letter:
            self.at += 2
            return ESCAPES[letter]
        size = {"u": 4, "U": 8}.get(letter, 0)
        digits = self.text[self.at + 2 : self.at + 2 + size]
        if not size or len(digits) < size or any(digit not in DIGITS["0x"][1] for digit in digits):
            raise self.fault(f"invalid escape sequence: \\{letter}")
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self.fault(f"invalid escape sequence: \\{letter}{digits} is no character")
        self.at += 2 + size
        return chr(code)


def read_number(word: str) -> "int | float | None":
    """An integer or a float as TOML writes them; None for any other word."""
    if word[:2] in DIGITS:
        return read_radix_number(word)
    digits = word[1:] if word[:1] in SIGNS else word
    if digits in ("inf", "nan"):
        return float(word)
    if not is_decimal(digits):
        return None
    plain = word.replace("_", "")
    if any(mark in plain for mark in ".eE"):
        return float(plain)
    return int(plain) if len(plain) < 4000 else None


def read_radix_number(word: str) -> "int | None":
    """The integer after 0x, 0o or 0b."""
    radix, allowed = DIGITS[word[:2]]
    if not is_grouped(word[2:], allowed):
        return None
    return int(word[2:].replace("_", ""), radix)


def is_decimal(digits: str) -> bool:
    """True for 1, 1.5, 1e3 and 1.5e-3, without a sign of their own."""
    mantissa, exponent_mark, exponent = digits.replace("E", "e").partition("e")
    whole, point, fraction = mantissa.partition(".")
    if not is_grouped(whole) or (len(whole) > 1 and whole[0] == "0"):
        return False
    if point and not is_grouped(fraction):
        return False
    return not exponent_mark or is_exponent(exponent)


def is_exponent(exponent: str) -> bool:
    return is_grouped(exponent[1:] if exponent[:1] in SIGNS else exponent)


def is_grouped(digits: str, allowed: str = "0123456789") -> bool:
    """Digits, with single underscores between some of them."""
    return all(group and all(digit in allowed for digit in group) for group in digits.split("_"))
