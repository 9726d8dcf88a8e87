"""The journal of a fetch: the complete parts of each file, so that the next attempt fetches only
the rest.

It is append-only, one line a part; a line that a crash cut off is ignored. After a reboot, or on
another machine, a part counts only if its bytes still have their checksum.
"""

from __future__ import annotations

import os
import zlib

from tao_sdk.net.percent import quote
from tao_sdk.net.reading import PART, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    Parts = dict[int, tuple[int, int]]

BLOCK = 1 << 20


class Journal:
    """One journal, open for appending. The lines of earlier attempts are read first."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.parts: dict[str, Parts] = {}  # file and version -> start -> length, crc32
        self.finished: dict[str, str] = {}  # file and version -> its size and time
        # files whose lines were all written since this machine booted
        self.trusted: set[str] = set()
        self.resumed = False
        self.boot = boot_id()
        self.fd = -1

    def __enter__(self) -> Journal:
        self.load()
        self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.fd)

    def load(self) -> None:
        try:
            with open(self.path, encoding="ascii", errors="replace") as file:
                text = file.read()
        except FileNotFoundError:
            return
        self.resumed = True
        for line in text.split("\n")[:-1]:
            fields = line.split(" ")
            try:
                self.take_line(fields)
            except (ValueError, IndexError):
                continue

    def take_line(self, fields: list[str]) -> None:
        """Apply one line: `part boot name start length crc32`, `done boot name size time` or `drop
        boot name`.
        """
        word, when, name = fields[:3]
        if word == "part":
            start, length, checksum = map(int, fields[3:6])
            if name not in self.parts:
                self.trusted.add(name)
            self.parts.setdefault(name, {})[start] = length, checksum
        elif word == "done":
            self.finished[name] = " ".join(fields[3:5])
        elif word == "drop":
            self.parts.pop(name, None)
            self.finished.pop(name, None)
        if when != self.boot:
            self.trusted.discard(name)

    def recover_parts(self, reading: Reading) -> tuple[bool, Parts]:
        """(True if the file is complete under its name, the parts that are certainly present)."""
        name, size = version_name(reading), reading.source.size
        parts = self.parts.get(name, {})
        if not parts or any(
            start % PART or length != min(PART, size - start)
            for start, (length, _) in parts.items()
        ):
            return False, {}
        for path, done in ((reading.path, True), (reading.temporary, False)):
            try:
                with open(path, "rb", buffering=0) as file:
                    if done and self.finished.get(name) != size_and_time(os.fstat(file.fileno())):
                        continue
                    good = parts if name in self.trusted else intact_parts(file.fileno(), parts)
            except OSError:
                continue
            good = dict(good)
            if done and len(good) == len(parts):
                return True, good
            if not done and len(good) == -(-size // PART):
                good.pop(0)  # leave a part to fetch: the last part gives the file its name
            if not done:
                return False, good
        return False, {}

    def note_part(self, reading: Reading, start: int, length: int, checksum: int) -> None:
        self.add_lines(
            self.format_line("part", version_name(reading), f"{start} {length} {checksum}")
        )

    def note_done(self, reading: Reading, found: os.stat_result) -> None:
        """Note that a file has all its parts. A file's only part is noted here too, because it
        counts only once the file has its name.
        """
        name = version_name(reading)
        single = [
            " ".join(map(str, (start, *part)))
            for start, part in reading.parts.items()
            if reading.is_single
        ]
        parts = [self.format_line("part", name, each) for each in single]
        self.add_lines("".join([*parts, self.format_line("done", name, size_and_time(found))]))

    def note_drop(self, reading: Reading) -> None:
        self.add_lines(self.format_line("drop", version_name(reading), ""))

    def format_line(self, word: str, name: str, rest: str) -> str:
        return f"{word} {self.boot} {name} {rest}\n"

    def add_lines(self, lines: str) -> None:
        os.write(self.fd, lines.encode("ascii"))


def version_name(reading: Reading) -> str:
    """The file and its version in one word."""
    return f"{quote(reading.source.path, '/')}@{quote(reading.source.version)}"


def size_and_time(found: os.stat_result) -> str:
    """The size and the change time of a file, as the journal writes them."""
    return f"{found.st_size} {found.st_mtime_ns}"


def intact_parts(fd: int, parts: Parts) -> Parts:
    """The parts whose bytes have their checksum."""
    return {
        start: (length, crc)
        for start, (length, crc) in parts.items()
        if part_checksum(fd, start, length) == crc
    }


def part_checksum(fd: int, start: int, length: int) -> int:
    """The CRC-32 of `length` bytes from `start` on."""
    crc = 0
    for at in range(start, start + length, BLOCK):
        crc = zlib.crc32(os.pread(fd, min(BLOCK, start + length - at), at), crc)
    return crc


def boot_id() -> str:
    """An id of this boot of this machine; `-` if the machine has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "-"
