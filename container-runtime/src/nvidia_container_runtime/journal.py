"""The log: lines in the text or JSON form that container engines read back from a runtime's log
file.
"""

import posix
import time

from . import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS = {
    "trace": 6,
    "debug": 5,
    "info": 4,
    "warn": 3,
    "warning": 3,
    "error": 2,
    "fatal": 1,
    "panic": 0,
}
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/@^+")
STDERR = 2


def quoted(text: str) -> str:
    """Text between double quotes on one line, whatever is in it."""
    pieces: list[str] = []
    for character in text:
        if character in '"\\':
            pieces.append("\\" + character)
        elif character in "\n\r\t":
            pieces.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character])
        elif character.isprintable():
            pieces.append(character)
        elif 0xDC80 <= ord(character) <= 0xDCFF:  # a byte that was no UTF-8
            pieces.append(f"\\x{ord(character) - 0xDC00:02x}")
        else:
            pieces.append(
                f"\\u{ord(character):04x}"
                if ord(character) < 0x10000
                else f"\\U{ord(character):08x}"
            )
    return '"' + "".join(pieces) + '"'


def timestamp() -> str:
    now = time.localtime()
    return time.strftime("%Y-%m-%dT%H:%M:%S", now) + zone_name(now.tm_gmtoff // 60)


def zone_name(offset: int) -> str:
    """`Z`, or `+01:00` for an offset from UTC of 60 minutes."""
    if offset == 0:
        return "Z"
    sign = "-" if offset < 0 else "+"
    hours, minutes = divmod(abs(offset), 60)
    return f"{sign}{hours:02d}:{minutes:02d}"


def text_line(level: str, message: str) -> str:
    shown = (
        message if message and all(character in PLAIN for character in message) else quoted(message)
    )
    return f'time="{timestamp()}" level={level} msg={shown}\n'


def json_line(level: str, message: str) -> str:
    from .json_text import dumps

    return dumps({"level": level, "msg": message, "time": timestamp()}) + "\n"


class Journal:
    """Appends to its files what is important enough. A file is opened when there is something to
    write.
    """

    def __init__(
        self, files: "Sequence[str]" = (), level: str = "info", as_json: bool = False
    ) -> None:
        self.files = [name for name in files if name not in ("", "/dev/null")]
        self.level = LEVELS.get(level.lower(), LEVELS["info"])
        self.as_json = as_json
        self.opened: dict[str, int] = {}

    def note(self, level: str, message: str) -> None:
        if LEVELS[level] > self.level or not self.files:
            return
        line = (json_line if self.as_json else text_line)(level, message).encode(
            errors="surrogateescape"
        )
        for name in list(self.files):
            try:
                if name not in self.opened:
                    self.opened[name] = opened(name)
                posix.write(
                    self.opened[name], line
                )  # one write, so that lines of concurrent runtimes do not mix
            except (OSError, ValueError):
                self.files.remove(
                    name
                )  # a container is worth more than a line of a log, and stderr is the runtime's

    def debug(self, message: str) -> None:
        self.note("debug", message)

    def info(self, message: str) -> None:
        self.note("info", message)

    def warning(self, message: str) -> None:
        self.note("warning", message)

    def error(self, message: str) -> None:
        """An error goes to stderr too: that is where a person or an engine without a log file
        looks.
        """
        self.note("error", message)
        complain("error", message)


def complain(level: str, message: str) -> None:
    try:
        posix.write(STDERR, text_line(level, message).encode(errors="surrogateescape"))
    except OSError:
        return  # nobody reads it; the exit code still says that it failed


def opened(name: str) -> int:
    """The file for appending. Its descriptor is closed by the exec that ends this
    program's part.
    """
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOCTTY
    try:
        return posix.open(name, flags, 0o644)
    except FileNotFoundError:
        paths.make_folders(paths.parent(name))
        return posix.open(name, flags, 0o644)
