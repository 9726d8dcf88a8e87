"""Shell text: where the placeholders of a command stand, by the grammar that bash and the POSIX
shells share.

Here: quotes, comments, here-documents, substitutions, and the words of simple commands. Not here:
what is put in a placeholder's place (commands.py), and which programs read a word as code
(rereading.py).

A mistake here cannot run a value: it travels in a variable, and what is inserted is only the
variable's name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

KEYWORDS = frozenset("if then else elif fi do done while until ! { } time".split())
OPENING = frozenset(
    "{ if while until for select case".split()
)  # what is up to the closing word is one command
CLOSING = frozenset("} fi done esac".split())
HERE = re.compile(r"<<(-?)[ \t]*((?:'[^']*'|\"[^\"]*\"|\\.|[^\s;|&()<>'\"\\])+)", re.DOTALL)
QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"|\\(.)", re.DOTALL)
FUNCTION = re.compile(r"\([ \t]*\)")
REDIRECTION = re.compile(r"&?(?:<>|>>|>\||[<>])&?")
DESCRIPTOR = re.compile(r"[0-9]+|\{\w+\}")  # 2>file, {log}>file


class Place(Enum):
    """What a placeholder stands in."""

    WORD = "word"  # no quotes
    SINGLE = "single"
    DOUBLE = "double"
    HERE = "here"  # a here-document that the shell expands
    QUOTED_HERE = "quoted here"  # one whose delimiter is quoted
    ARITHMETIC = "arithmetic"
    COMMENT = "comment"
    ANSI = "ansi"  # $'...'
    BACKQUOTE = "backquote"
    EXPANSION = "expansion"  # ${...}
    DELIMITER = "delimiter"  # of a here-document
    ESCAPED = "escaped"  # behind a backslash


@dataclass(eq=False)
class Word:
    """One word of a command; `end` is set when it is over."""

    start: int
    end: int = -1


@dataclass(eq=False)
class Simple:
    """A command: its words without redirections, the one that reads what it prints, what it stands
    in, and its parts.

    A group, such as (...), { ...; } or a loop, has no words of its own, but the commands in it as
    its parts.
    """

    outer: Outer | None = None
    words: list[Word] = field(default_factory=list[Word])
    parts: list[Simple] = field(default_factory=list["Simple"])
    read_words: list[Word] = field(default_factory=list[Word])  # of <<< word, and of < <(...)
    defines: bool = False  # a function: name() { ...
    piped_to: Simple | None = None

    def __post_init__(self) -> None:
        if self.outer and not self.outer.word:
            self.outer.command.parts.append(self)


@dataclass(frozen=True, eq=False)
class Outer:
    """What commands stand in: a word, such as "$(...)", or a group, such as (...) or { ...; }."""

    command: Simple
    word: Word | None


@dataclass(eq=False)
class HereDocument:
    """A here-document: its delimiter as it stands behind <<, and where its lines are."""

    delimiter: str
    written: tuple[int, int]
    tabs: bool
    command: Simple
    body: tuple[int, int] = (0, 0)

    @property
    def quoted(self) -> bool:
        return self.written[1] - self.written[0] != len(self.delimiter)


@dataclass(frozen=True, eq=False)
class Spot:
    """One placeholder: where it is, what it stands in, and the innermost word and command that hold
    it.
    """

    start: int
    end: int
    place: Place
    word: Word | None = None
    command: Simple | None = None
    document: HereDocument | None = None


class Line:
    """The words read so far of one list of commands: the whole text, or what is inside one pair of
    parentheses.
    """

    def __init__(self, text: str, outer: Outer | None = None) -> None:
        self.text = text
        self.command = Simple(outer)
        self.groups: list[Simple] = []  # open ones, but those in parentheses
        self.word: Word | None = None
        self.redirection = ""  # whose target the next word is
        self.cases = 0  # open ones: an unmatched ) ends a pattern

    def begin_word(self, at: int) -> Word:
        self.word = self.word or Word(at)
        return self.word

    def end_word(self, at: int) -> None:
        if self.word is None:
            return
        word, self.word = self.word, None
        word.end = at
        text = self.text[word.start : at]
        if self.redirection:
            if self.redirection == "<<<" or (self.redirection == "<" and text.startswith("<(")):
                self.command.read_words.append(word)
            self.redirection = ""
            return
        self.name_group(text)
        if text in OPENING and not self.command.words:
            self.open_group()
        if not self.is_keyword(text):
            self.command.words.append(word)
        elif text in CLOSING and self.groups:
            self.command = self.groups.pop()

    def name_group(self, text: str) -> None:
        """function f { and coproc C { name what follows, and are no part of it."""
        words = [self.text[each.start : each.end] for each in self.command.words]
        if text == "{" and words and words[0] in ("function", "coproc"):
            self.command = Simple(self.command.outer)

    def open_group(self) -> None:
        self.groups.append(self.command)
        self.command = Simple(Outer(self.command, None))

    def is_keyword(self, text: str) -> bool:
        """A word that another command follows. Counts the cases that it opens and closes."""
        words = self.command.words
        first = self.text[words[0].start : words[0].end] if words else ""
        if text == "esac" and first in ("", "case"):
            self.cases = max(0, self.cases - 1)
            return True
        if text == "case" and not words:
            self.cases += 1
        return not words and text in KEYWORDS

    def end_command(self, at: int, piped: bool = False) -> None:
        self.end_word(at)
        ended = self.command
        if (
            piped or ended.words or ended.parts
        ):  # else the line goes on: `train |`, and below it `tee log`
            self.command = Simple(ended.outer)
        if piped:
            ended.piped_to = self.command

    def end_descriptor(self, at: int) -> None:
        """The word in front of < or >, unless it is the number of what is redirected."""
        if self.word and DESCRIPTOR.fullmatch(self.text, self.word.start, at):
            self.word = None
        self.end_word(at)


class Scanner:
    """Reads a command once, from its start to its end. A placeholder is opaque, whatever its name
    is.
    """

    def __init__(self, text: str, spans: Sequence[tuple[int, int]]) -> None:
        self.text, self.spans = text, dict(spans)
        self.at, self.stop = 0, len(text)
        self.spots: list[Spot] = []
        self.waiting: list[HereDocument] = []  # their lines come behind the next newline
        self.takes_more = True  # False: the text ends in a comment or a here-document

    def script(self, around: Line | None = None) -> None:
        """Commands to the end, or, inside the parentheses of a line `around` them, up to the one
        that closes them.
        """
        line = Line(self.text, Outer(around.command, around.word) if around else None)
        while self.at < self.stop:
            at, char = self.at, self.text[self.at]
            if at in self.spans:
                line.begin_word(at)
                self.take(Place.WORD, line)
            elif char in " \t":
                line.end_word(at)
                self.at += 1
            elif char == "\n":
                line.end_command(at)
                self.at += 1
                self.here_documents()
            elif char == "#" and not line.word:
                self.comment()
            elif REDIRECTION.match(self.text, at):
                self.redirection(line)
            elif char in ";|&":
                self.operator(line)
            elif char == "(":
                self.parenthesis(line)
            elif char == ")":
                line.end_command(at)
                self.at += 1
                if around and not line.cases:
                    return
            else:
                line.begin_word(at)
                self.piece(line, quoted=False)
        line.end_command(self.at)

    def take(
        self, place: Place, line: Line | None = None, document: HereDocument | None = None
    ) -> None:
        """Note the placeholder that starts here, and go behind it."""
        word, command = (line.word, line.command) if line else (None, None)
        end = self.spans[self.at]
        self.spots.append(Spot(self.at, end, place, word, command, document))
        self.at = end

    def region(
        self, place: Place, end: int, line: Line | None = None, document: HereDocument | None = None
    ) -> None:
        """Text up to `end` that is nothing else to us than that place."""
        while self.at < end:
            if self.at in self.spans:
                self.take(place, line, document)
            else:
                self.at += 1

    def comment(self) -> None:
        end = self.text.find("\n", self.at, self.stop)
        self.region(Place.COMMENT, self.stop if end < 0 else end)
        self.takes_more = self.at < len(self.text)

    def operator(self, line: Line) -> None:
        text = self.text[self.at : self.at + 2]
        length = 2 if text in ("&&", "||", ";;", "|&") else 1
        line.end_command(self.at, piped=text[0] == "|" and text != "||")
        self.at += length

    def redirection(self, line: Line) -> None:
        """<<, <<<, <( and >(, and those that a file follows."""
        at = self.at
        if self.text.startswith("<<<", at):
            self.target(line, 3, "<<<")
        elif here := HERE.match(self.text, at):
            line.end_descriptor(at)
            delimiter = QUOTED.sub(lambda match: match[1] or match[2] or match[3] or "", here[2])
            self.waiting.append(HereDocument(delimiter, here.span(2), bool(here[1]), line.command))
            self.region(Place.DELIMITER, here.end())
        elif self.text[at : at + 2] in ("<(", ">("):
            line.begin_word(at)
            self.at += 2
            self.script(line)
        else:
            operator = REDIRECTION.match(self.text, at)
            self.target(line, len(operator[0]) if operator else 1, operator[0] if operator else ">")

    def target(self, line: Line, length: int, operator: str) -> None:
        line.end_descriptor(self.at)
        self.at += length
        line.redirection = operator

    def parenthesis(self, line: Line) -> None:
        """A function, an arithmetic command, or commands of their own: a subshell, an array, a
        pattern.
        """
        at = self.at
        if not line.word and (end := self.arithmetic_end(at)):
            self.region(Place.ARITHMETIC, end, line)
        elif function := FUNCTION.match(self.text, at):
            line.end_word(at)
            line.command.defines = True
            line.end_command(at)
            self.at = function.end()
        else:
            self.at += 1
            self.script(line)

    def arithmetic_end(self, at: int) -> int:
        """Behind the (( ... )) that starts here; 0 when there is none."""
        if not self.text.startswith("((", at):
            return 0
        end = self.balanced(at, "(", ")")
        return end if self.balanced(at + 1, "(", ")") == end - 1 else 0

    def balanced(self, at: int, opening: str, closing: str) -> int:
        """Behind the bracket that closes the one at `at`, be it the end of the text."""
        depth = 0
        while at < self.stop:
            char = self.text[at]
            depth += (char == opening) - (char == closing)
            at = self.behind(at)
            if depth == 0:
                return at
        return self.stop

    def behind(self, at: int) -> int:
        """Behind what starts at `at`: a placeholder, an escape, a quoted text, or one character."""
        char = self.text[at]
        if at in self.spans:
            return self.spans[at]
        if char == "\\":
            return at + 1 if at + 1 in self.spans else at + 2
        if char in "'\"":
            return self.closing(at + 1, char, escapes=char == '"')
        return at + 1

    def closing(self, at: int, quote: str, escapes: bool) -> int:
        """Behind the quote that closes a text which starts at `at`."""
        while at < self.stop and (self.text[at] != quote or at in self.spans):
            at = (
                self.behind(at)
                if at in self.spans or (escapes and self.text[at] == "\\")
                else at + 1
            )
        return min(at + 1, self.stop)

    def piece(self, line: Line, quoted: bool) -> None:
        """One character, or what starts with it; `quoted` inside "..." and in a here-document."""
        char = self.text[self.at]
        if char == "\\":
            self.escape(line)
        elif char == "`":
            self.region(Place.BACKQUOTE, self.closing(self.at + 1, "`", escapes=True), line)
        elif char == "$":
            self.dollar(line, quoted)
        elif char == "'" and not quoted:
            self.region(Place.SINGLE, self.closing(self.at + 1, "'", escapes=False), line)
        elif char == '"' and not quoted:
            self.double(line)
        else:
            self.at += 1

    def escape(self, line: Line) -> None:
        self.at += 1
        if self.at in self.spans:
            self.take(Place.ESCAPED, line)
        else:
            self.at += 1

    def double(self, line: Line) -> None:
        self.at += 1
        while self.at < self.stop:
            if self.at in self.spans:
                self.take(Place.DOUBLE, line)
            elif self.text[self.at] == '"':
                self.at += 1
                return
            else:
                self.piece(line, quoted=True)

    def dollar(self, line: Line, quoted: bool) -> None:
        at = self.at
        start = self.text[at : at + 2]
        if end := self.arithmetic_end(at + 1):
            self.region(Place.ARITHMETIC, end, line)
        elif start == "$(":
            self.at += 2
            self.script(line)
        elif start == "${":
            self.region(Place.EXPANSION, self.balanced(at + 1, "{", "}"), line)
        elif start == "$[":
            self.region(Place.ARITHMETIC, self.balanced(at + 1, "[", "]"), line)
        elif start == "$'" and not quoted:
            self.region(Place.ANSI, self.closing(at + 2, "'", escapes=True), line)
        else:
            self.at += 1

    def here_documents(self) -> None:
        """The lines of the here-documents that the line before announced."""
        waiting, self.waiting = self.waiting, []
        for document in waiting:
            stop, after = self.last_line(document)
            document.body = (self.at, stop)
            if document.quoted:
                self.region(Place.QUOTED_HERE, stop, document=document)
            else:
                self.expanded(document)
            self.at = after
            self.takes_more = after < len(self.text)

    def last_line(self, document: HereDocument) -> tuple[int, int]:
        """Where the line of the delimiter starts, and where it ends."""
        at = self.at
        while at < self.stop:
            end = self.text.find("\n", at, self.stop)
            end = self.stop if end < 0 else end
            line = self.text[at:end]
            if (line.lstrip("\t") if document.tabs else line) == document.delimiter:
                return at, end
            at = end + 1
        return self.stop, self.stop

    def expanded(self, document: HereDocument) -> None:
        """The lines of a here-document in which the shell replaces variables."""
        stop, self.stop = self.stop, document.body[1]
        line = Line(self.text, document.command.outer)
        line.command = document.command
        while self.at < self.stop:
            if self.at in self.spans:
                self.take(Place.HERE, document=document)
            else:
                self.piece(line, quoted=True)
        self.stop = stop


def scan(text: str, spans: Sequence[tuple[int, int]] = ()) -> Scanner:
    """A command that was read: each of the placeholders at `spans` has its spot, in their order."""
    scanner = Scanner(text, spans)
    scanner.script()
    scanner.spots.sort(key=lambda spot: spot.start)
    return scanner
