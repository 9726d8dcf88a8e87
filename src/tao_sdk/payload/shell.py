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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tao_sdk.model.lazy_pattern import lazy_compile

KEYWORDS = frozenset("if then else elif fi do done while until ! { } time".split())
# all up to the closing word is one command
OPENING = frozenset("{ if while until for select case".split())
CLOSING = frozenset("} fi done esac".split())
HERE = lazy_compile(r"<<(-?)[ \t]*((?:'[^']*'|\"[^\"]*\"|\\.|[^\s;|&()<>'\"\\])+)", re.DOTALL)
QUOTED = lazy_compile(r"'([^']*)'|\"([^\"]*)\"|\\(.)", re.DOTALL)
FUNCTION = lazy_compile(r"\([ \t]*\)")
REDIRECTION = lazy_compile(r"&?(?:<>|>>|>\||[<>])&?")
NAME = lazy_compile(r"(?:[A-Za-z_]\w*)?")  # of an array; none in a list: a=([1]=b)
MARK = lazy_compile(r"&&|\|\||[()\n]|[<>](?!\()")  # separates words inside [[ ... ]]
DESCRIPTOR = lazy_compile(r"[0-9]+|\{\w+\}")  # 2>file, {log}>file


class QuoteState(Enum):
    """The syntax around a placeholder."""

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
    """A simple command: its words without redirections, the command it pipes into, its outer
    context, and the commands in it.

    A group, such as (...), { ...; } or a loop, has no words. Its `parts` are the commands in it.
    """

    outer: Outer | None = None
    words: list[Word] = field(default_factory=list[Word])
    parts: list[Simple] = field(default_factory=list["Simple"])
    read_words: list[Word] = field(default_factory=list[Word])  # of <<< word, and of < <(...)
    defines: bool = False  # a function: name() { ...
    fed: bool = False  # stands inside >(...): it reads what another command prints
    piped_to: Simple | None = None

    def __post_init__(self) -> None:
        if self.outer and not self.outer.word:
            self.outer.command.parts.append(self)


@dataclass(frozen=True, eq=False)
class Outer:
    """The context of commands: a word, such as "$(...)", or a group, such as (...) or { ...; }."""

    command: Simple
    word: Word | None


@dataclass(eq=False)
class HereDocument:
    """A here-document: its delimiter as written behind <<, and the position of its lines."""

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
    """One placeholder: its position, its syntax, the innermost word and command that hold it, and
    every command of the text.
    """

    start: int
    end: int
    quoting: QuoteState
    word: Word | None = None
    command: Simple | None = None
    document: HereDocument | None = None
    commands: Sequence[Simple] = ()


class Line:
    """The words read so far of one list of commands: the whole text, or the text inside one pair of
    parentheses.
    """

    def __init__(self, text: str, commands: list[Simple], outer: Outer | None = None) -> None:
        self.text = text
        self.commands = commands  # every one that was begun, of the whole text
        self.command = self.begin_command(outer)
        self.groups: list[Simple] = []  # open ones, but those in parentheses
        self.word: Word | None = None
        self.redirection = ""  # its target is the next word
        self.cases = 0  # open ones: an unmatched ) ends a pattern
        self.condition = False  # inside [[ ... ]], where && and ( belong to the command

    def begin_command(self, outer: Outer | None) -> Simple:
        command = Simple(outer)
        self.commands.append(command)
        return command

    def in_condition(self, at: int) -> bool:
        """True if the text at `at` is inside [[ ... ]]: not behind the closing ]]."""
        closing = self.word is not None and self.text[self.word.start : at] == "]]"
        return self.condition and not closing

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
            self.end_target(word, text)
            return
        if self.condition:
            self.condition = text != "]]"
            self.command.words.append(word)
            return
        self.condition = text == "[[" and self.begins_compound()
        self.name_group(text)
        if text in OPENING and not self.command.words:
            self.open_group()
        if not self.is_keyword(text):
            self.command.words.append(word)
        elif text in CLOSING and self.groups:
            self.command = self.groups.pop()

    def end_target(self, word: Word, text: str) -> None:
        """End the word behind a redirection. Behind <<<, and as `< <(...)`, the command reads it as
        input.
        """
        if self.redirection == "<<<" or (self.redirection == "<" and text.startswith("<(")):
            self.command.read_words.append(word)
        self.redirection = ""

    def name_group(self, text: str) -> None:
        """Begin a new command behind `function f` and `coproc C`: they name the group that follows,
        and are no part of it.
        """
        if text == "{" and self.first_word() in ("function", "coproc"):
            self.command = self.begin_command(self.command.outer)

    def begins_compound(self) -> bool:
        """True if [[ is a keyword here: the first word, or behind `coproc` and `function f`."""
        return not self.command.words or self.first_word() in ("coproc", "function")

    def open_group(self) -> None:
        self.groups.append(self.command)
        self.command = self.begin_command(Outer(self.command, None))

    def is_keyword(self, text: str) -> bool:
        """True for a word that another command follows. Counts the cases that it opens and
        closes.
        """
        first_word = self.first_word()
        if text == "esac" and first_word in ("", "case"):
            self.cases = max(0, self.cases - 1)
            return True
        if first_word:
            return False
        if text == "case":
            self.cases += 1
        return text in KEYWORDS

    def first_word(self) -> str:
        """The first word of the current command; "" before it has one."""
        if not self.command.words:
            return ""
        word = self.command.words[0]
        return self.text[word.start : word.end]

    def end_command(self, at: int, piped: bool = False) -> None:
        self.end_word(at)
        self.condition = False
        ended = self.command
        goes_on = not piped and not ended.words and not ended.parts  # `train |`, and below `tee`
        if not goes_on:
            self.command = self.begin_command(ended.outer)
        if piped:
            ended.piped_to = self.command

    def compares_pattern(self) -> bool:
        """True if the last word is =~, behind which a parenthesis belongs to a pattern."""
        if not self.command.words:
            return False
        word = self.command.words[-1]
        return self.text[word.start : word.end] == "=~"


class Scanner:
    """Reads a command once, from its start to its end. A placeholder is opaque, whatever its name
    is.

    `read_commands` is the state between words, `read_piece` the one inside a word; the tables
    behind this class say which character leads to which reader. `read_region` passes over text
    whose inside is nothing to us.
    """

    def __init__(self, text: str, spans: Sequence[tuple[int, int]]) -> None:
        self.text, self.spans = text, dict(spans)
        self.at, self.stop = 0, len(text)
        self.spots: list[Spot] = []
        self.commands: list[Simple] = []
        self.announced: list[HereDocument] = []  # their lines come behind the next newline
        self.takes_more = True  # False: the text ends in a comment or a here-document

    def read_commands(self, around: Line | None = None) -> None:
        """Read commands to the end. Inside the parentheses of a line `around` them, read up to the
        closing one.
        """
        outer = Outer(around.command, around.word) if around else None
        line = Line(self.text, self.commands, outer)
        while self.at < self.stop:
            char = self.text[self.at]
            closes = char == ")" and self.is_operator(line)
            self.reader_of(char, line)(self, line)
            if closes and around and not line.cases:
                return
        line.end_command(self.at)

    def is_operator(self, line: Line) -> bool:
        """True if a character of the shell's syntax has its meaning here."""
        return self.at not in self.spans and not line.in_condition(self.at)

    def reader_of(self, char: str, line: Line) -> Reader:
        """The method that reads the token that starts here."""
        if self.at in self.spans:
            return Scanner.read_placeholder
        if char == "#" and line.word:
            return Scanner.read_word
        if line.in_condition(self.at) and MARK.match(self.text, self.at):
            return Scanner.read_mark
        if char == "&" and REDIRECTION.match(self.text, self.at):
            return Scanner.read_redirection
        return TOKENS.get(char, Scanner.read_word)

    def read_placeholder(self, line: Line) -> None:
        line.begin_word(self.at)
        self.note_placeholder(QuoteState.WORD, line)

    def read_blank(self, line: Line) -> None:
        line.end_word(self.at)
        self.at += 1

    def read_newline(self, line: Line) -> None:
        line.end_command(self.at)
        self.at += 1
        self.read_here_documents()

    def read_closing(self, line: Line) -> None:
        line.end_command(self.at)
        self.at += 1

    def read_word(self, line: Line) -> None:
        word = line.begin_word(self.at)
        end = self.subscript_end(word)
        if end:
            self.read_region(QuoteState.ARITHMETIC, end, line)
        else:
            self.read_piece(line, UNQUOTED)

    def subscript_end(self, word: Word) -> int:
        """The position behind the [...] of `name[...]=` that starts here; 0 if there is none.
        Blanks may be in it.
        """
        if self.text[self.at] != "[" or not NAME.fullmatch(self.text, word.start, self.at):
            return 0
        end = self.bracket_end(self.at, "[", "]")
        return end if self.text.startswith(("=", "+="), end) else 0

    def read_mark(self, line: Line) -> None:
        """Read a separator inside [[ ... ]] as a word of its own, or a pattern: =~ (a|b)."""
        start = self.at
        if self.text[start] == "(" and (line.word or line.compares_pattern()):
            line.begin_word(start)
            self.read_pattern(line)
            return
        line.end_word(start)
        self.at += 2 if self.text[start] in "&|" else 1
        line.command.words.append(Word(start, self.at))
        if self.text[start] == "\n":
            self.read_here_documents()

    def read_pattern(self, line: Line) -> None:
        """Read to the parenthesis that closes the one that starts here."""
        depth = 0
        while self.at < self.stop:
            if self.at in self.spans:
                self.note_placeholder(QuoteState.WORD, line)
                continue
            char = self.text[self.at]
            self.read_piece(line, UNQUOTED)
            depth += (char == "(") - (char == ")")
            if depth == 0:
                return

    def read_comment(self, _: Line) -> None:
        end = self.text.find("\n", self.at, self.stop)
        self.read_region(QuoteState.COMMENT, self.stop if end < 0 else end)
        self.takes_more = self.at < len(self.text)

    def read_operator(self, line: Line) -> None:
        operator = self.text[self.at : self.at + 2]
        if operator not in LONG_OPERATORS:
            operator = operator[0]
        line.end_command(self.at, piped=operator in PIPES)
        self.at += len(operator)

    def read_redirection(self, line: Line) -> None:
        """Read <<, <<<, <( and >(, or a redirection that a file follows."""
        rest = self.text[self.at : self.at + 3]
        if rest == "<<<":
            self.read_target(line, "<<<")
        elif here := HERE.match(self.text, self.at):
            self.read_delimiter(line, here)
        elif rest[:2] in ("<(", ">("):
            line.begin_word(self.at)
            self.read_substitution(line)
        elif operator := REDIRECTION.match(self.text, self.at):
            self.read_target(line, operator[0])

    def read_substitution(self, line: Line) -> None:
        """Read <(...) or >(...). The commands inside >(...) read another command's output."""
        feeds, first = self.text[self.at] == ">", len(self.commands)
        self.at += 2
        self.read_commands(line)
        for command in self.commands[first:]:
            command.fed = command.fed or feeds

    def read_delimiter(self, line: Line, here: re.Match[str]) -> None:
        """Read the delimiter of <<EOF. The lines of the here-document are read when this line is
        over.
        """
        self.end_descriptor(line)
        delimiter = QUOTED.sub(lambda match: match[1] or match[2] or match[3] or "", here[2])
        document = HereDocument(delimiter, here.span(2), bool(here[1]), line.command)
        self.announced.append(document)
        self.read_region(QuoteState.DELIMITER, here.end())

    def read_target(self, line: Line, operator: str) -> None:
        self.end_descriptor(line)
        self.at += len(operator)
        line.redirection = operator

    def end_descriptor(self, line: Line) -> None:
        """End the word in front of < or >, unless it is the number of the redirected descriptor."""
        word = line.word
        own_text = word is not None and word.start not in self.spans
        if word and own_text and DESCRIPTOR.fullmatch(self.text, word.start, self.at):
            line.word = None
        line.end_word(self.at)

    def read_parenthesis(self, line: Line) -> None:
        """Read a function, an arithmetic command, or commands in parentheses: a subshell, an array,
        a pattern.
        """
        end = 0 if line.word else self.arithmetic_end(self.at)
        if end:
            self.read_region(QuoteState.ARITHMETIC, end, line)
        elif function := FUNCTION.match(self.text, self.at):
            line.end_word(self.at)
            line.command.defines = True
            line.end_command(self.at)
            self.at = function.end()
        else:
            self.at += 1
            self.read_commands(line)

    def read_piece(self, line: Line, pieces: Mapping[str, Reader]) -> None:
        """Read one character, or the piece that starts with it by the table `pieces`."""
        read = pieces.get(self.text[self.at])
        if read is None:
            self.at += 1
        else:
            read(self, line)

    def read_escape(self, line: Line) -> None:
        self.at += 1
        if self.at in self.spans:
            self.note_placeholder(QuoteState.ESCAPED, line)
        else:
            self.at += 1

    def read_backquotes(self, line: Line) -> None:
        self.read_region(QuoteState.BACKQUOTE, self.quote_end(self.at + 1, "`", escapes=True), line)

    def read_single_quotes(self, line: Line) -> None:
        self.read_region(QuoteState.SINGLE, self.quote_end(self.at + 1, "'", escapes=False), line)

    def read_double_quotes(self, line: Line) -> None:
        self.at += 1
        while self.at < self.stop:
            if self.at in self.spans:
                self.note_placeholder(QuoteState.DOUBLE, line)
            elif self.text[self.at] == '"':
                self.at += 1
                return
            else:
                self.read_piece(line, EXPANDED)

    def read_dollar(self, line: Line) -> None:
        """Read $((...)), $(...), ${...}, $[...], or a variable."""
        start = self.text[self.at : self.at + 2]
        if end := self.arithmetic_end(self.at + 1):
            self.read_region(QuoteState.ARITHMETIC, end, line)
        elif start == "$(":
            self.at += 2
            self.read_commands(line)
        elif start == "${":
            self.read_region(QuoteState.EXPANSION, self.bracket_end(self.at + 1, "{", "}"), line)
        elif start == "$[":
            self.read_region(QuoteState.ARITHMETIC, self.bracket_end(self.at + 1, "[", "]"), line)
        else:
            self.at += 1

    def read_unquoted_dollar(self, line: Line) -> None:
        """Read the same, and $'...', which is nothing special inside quotes."""
        if self.text.startswith("$'", self.at):
            self.read_region(QuoteState.ANSI, self.quote_end(self.at + 2, "'", escapes=True), line)
        else:
            self.read_dollar(line)

    def read_here_documents(self) -> None:
        """Read the lines of the here-documents that the line before announced."""
        announced, self.announced = self.announced, []
        for document in announced:
            stop, after = self.find_delimiter(document)
            document.body = (self.at, stop)
            if document.quoted:
                self.read_region(QuoteState.QUOTED_HERE, stop, document=document)
            else:
                self.read_expanded_lines(document)
            self.at = after
            self.takes_more = after < len(self.text)

    def find_delimiter(self, document: HereDocument) -> tuple[int, int]:
        """The start and the end of the delimiter's line."""
        at = self.at
        while at < self.stop:
            newline = self.text.find("\n", at, self.stop)
            end = self.stop if newline < 0 else newline
            line = self.text[at:end]
            if document.tabs:
                line = line.lstrip("\t")
            if line == document.delimiter:
                return at, end
            at = end + 1
        return self.stop, self.stop

    def read_expanded_lines(self, document: HereDocument) -> None:
        """Read the lines of a here-document in which the shell replaces variables."""
        stop, self.stop = self.stop, document.body[1]
        line = Line(self.text, [], document.command.outer)
        line.command = document.command
        while self.at < self.stop:
            if self.at in self.spans:
                self.note_placeholder(QuoteState.HERE, document=document)
            else:
                self.read_piece(line, EXPANDED)
        self.stop = stop

    def note_placeholder(
        self, quoting: QuoteState, line: Line | None = None, document: HereDocument | None = None
    ) -> None:
        """Note the placeholder that starts here, and go behind it."""
        word, command = (line.word, line.command) if line else (None, None)
        end = self.spans[self.at]
        self.spots.append(Spot(self.at, end, quoting, word, command, document, self.commands))
        self.at = end

    def read_region(
        self,
        quoting: QuoteState,
        end: int,
        line: Line | None = None,
        document: HereDocument | None = None,
    ) -> None:
        """Read text up to `end`, all of it in the one QuoteState."""
        while self.at < end:
            if self.at in self.spans:
                self.note_placeholder(quoting, line, document)
            else:
                self.at += 1

    def arithmetic_end(self, at: int) -> int:
        """The position behind the (( ... )) that starts at `at`; 0 if there is none."""
        if not self.text.startswith("((", at):
            return 0
        end = self.bracket_end(at, "(", ")")
        inner_end = self.bracket_end(at + 1, "(", ")")
        return end if inner_end == end - 1 else 0

    def bracket_end(self, at: int, opening: str, closing: str) -> int:
        """The position behind the bracket that closes the one at `at`; the end of the text if none
        does.
        """
        depth = 0
        while at < self.stop:
            char = self.text[at]
            depth += (char == opening) - (char == closing)
            at = self.piece_end(at)
            if depth == 0:
                return at
        return self.stop

    def piece_end(self, at: int) -> int:
        """The position behind the piece at `at`: a placeholder, an escape, a quoted text, or one
        character.
        """
        char = self.text[at]
        if at in self.spans:
            return self.spans[at]
        if char == "\\":
            return self.escape_end(at)
        if char in "'\"":
            return self.quote_end(at + 1, char, escapes=char == '"')
        return at + 1

    def escape_end(self, at: int) -> int:
        """The position behind the backslash at `at` and the escaped character, but in front of a
        placeholder.
        """
        return at + 1 if at + 1 in self.spans else at + 2

    def quote_end(self, at: int, quote: str, escapes: bool) -> int:
        """The position behind the quote that closes a text which starts at `at`."""
        while at < self.stop:
            char = self.text[at]
            if at in self.spans:
                at = self.spans[at]
            elif char == quote:
                break
            elif escapes and char == "\\":
                at = self.escape_end(at)
            else:
                at += 1
        return min(at + 1, self.stop)


Reader = Callable[[Scanner, Line], None]

LONG_OPERATORS = ("&&", "||", ";;", "|&")
PIPES = ("|", "|&")

# between words: the first character of a token -> what reads it; any other begins a word
TOKENS: Mapping[str, Reader] = {
    " ": Scanner.read_blank,
    "\t": Scanner.read_blank,
    "\n": Scanner.read_newline,
    "#": Scanner.read_comment,
    "<": Scanner.read_redirection,
    ">": Scanner.read_redirection,
    ";": Scanner.read_operator,
    "|": Scanner.read_operator,
    "&": Scanner.read_operator,
    "(": Scanner.read_parenthesis,
    ")": Scanner.read_closing,
}
# inside "..." and in a here-document: what is special there; any other character is itself
EXPANDED: Mapping[str, Reader] = {
    "\\": Scanner.read_escape,
    "`": Scanner.read_backquotes,
    "$": Scanner.read_dollar,
}
# in a word without quotes
UNQUOTED: Mapping[str, Reader] = {
    **EXPANDED,
    "$": Scanner.read_unquoted_dollar,
    "'": Scanner.read_single_quotes,
    '"': Scanner.read_double_quotes,
}


def scan(text: str, spans: Sequence[tuple[int, int]] = ()) -> Scanner:
    """Read a command. Return a spot for each of the placeholders at `spans`, in their order."""
    scanner = Scanner(text, spans)
    scanner.read_commands()
    scanner.spots.sort(key=lambda spot: spot.start)
    return scanner
