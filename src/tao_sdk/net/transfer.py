"""Fetch many sources at once, in parts. A file is complete and verified before it gets its name.

This is the same for every scheme, after its module's `look` (source.py):

    fetch(found.sources, folder, tell)       each source to folder/source.path

Each complete part is noted with its checksum in a journal beside the folder (journal.py). A
restarted runner reads the journal and requests only the rest. Each version of a source has its own
temporary name, so bytes of two versions are never mixed in one file.
"""

from __future__ import annotations

import errno
import os
import zlib

from tao_sdk.net.atomic import PART_END, remove_file
from tao_sdk.net.crew import Crew
from tao_sdk.net.failure import Failure
from tao_sdk.net.hashing import Hashing
from tao_sdk.net.journal import Journal
from tao_sdk.net.reading import PART, Reading
from tao_sdk.net.retries import PATIENCE, Patience
from tao_sdk.net.web import Changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tao_sdk.net.source import Source

THREADS = 48
# threads; with more than these, each gets at least two parts: a new connection costs a few MB
FEW = 16
READINGS = 4  # of a source that keeps changing, or whose bytes do not match its checksum
LOOK = 0.5  # seconds between two reports of progress
SPARE = 16 << 20  # bytes of the disk that stay free
DEEPEST = 200  # nested folders


def fetch(
    sources: list[Source],
    folder: str,
    tell: Callable[[int, int], None],
    patience: float = PATIENCE,
    threads: int = THREADS,
) -> None:
    """Fetch each source to folder/path, calling `tell(bytes, files)` at times. Raises Failure."""
    Fetch(sources, folder, patience, threads).run(tell)


class Fetch:
    """Fetches sources into a folder."""

    def __init__(self, sources: list[Source], folder: str, patience: float, threads: int) -> None:
        self.sources, self.folder, self.patience, self.threads = (
            check_paths(sources),
            folder,
            patience,
            threads,
        )
        self.bytes = self.files = self.wanted = (
            0  # bytes and files not reported yet; bytes still needed on the disk
        )
        self.crew = Crew()
        self.lock = self.more = self.crew.changed
        self.readings: list[Reading] = []
        self.queue: Iterator[tuple[Reading, int, int]] = iter(())
        self.extra: list[tuple[Reading, int, int]] = []  # parts of files that were restarted
        self.open = 0  # readings that are not complete
        self.renewed = False
        self.folders: set[str] = set()

    def run(self, tell: Callable[[int, int], None]) -> None:
        """Fetch all sources. Raises Failure.

        This thread calls `tell` now and then with the bytes and files that arrived since the last
        call; first with those of an earlier attempt. Bytes that turn out useless are subtracted.
        """
        os.makedirs(self.folder, exist_ok=True)
        with Journal(self.folder + ".tao-journal") as self.journal:
            self.readings = [Reading(source, self.folder) for source in self.sources]
            waiting = [each for each in self.readings if not self.restore_parts(each)]
            self.open = len(waiting)
            self.check_space()
            self.tell_progress(tell)
            self.queue = (
                (each, start, stop)
                for each in waiting
                for start, stop in list(each.missing_parts())
            )
            parts = sum(max(1, each.source.size // PART) for each in waiting)
            self.crew.start(min(self.threads, max(min(parts, FEW), parts // 2)), self.fetch_parts)
            try:
                self.wait_for_end(tell)
            finally:
                self.crew.stop(Failure("fetch.stopped", "The transfer was stopped."))
                for each in self.readings:
                    self.close_file(each)
            self.remove_leftovers()

    def wait_for_end(self, tell: Callable[[int, int], None]) -> None:
        with self.more:
            while self.open and not self.crew.broken:
                self.more.wait(LOOK)
                self.tell_progress(tell)
            self.tell_progress(tell)
        if self.open and self.crew.broken:
            raise self.crew.broken

    def tell_progress(self, tell: Callable[[int, int], None]) -> None:
        bytes_, files, self.bytes, self.files = self.bytes, self.files, 0, 0
        tell(bytes_, files)

    def restore_parts(self, reading: Reading) -> bool:
        """Reuse the parts of an earlier attempt. True if nothing is missing."""
        done = False
        if reading.source.known:
            done, reading.parts = self.journal.recover_parts(reading)
        here = sum(length for length, _ in reading.parts.values())
        self.wanted += 0 if done else max(0, reading.source.size - max(here, reading.on_disk()))
        self.bytes += here
        self.files += done
        return done

    def check_space(self) -> None:
        wanted = self.wanted
        disk = os.statvfs(self.folder)
        free = disk.f_bavail * disk.f_frsize
        if wanted + (SPARE if wanted else 0) > free:
            raise Failure(
                "disk.full",
                f"The inputs do not fit: they need {amount(wanted)} more, {amount(free)} is free.",
                f"They would be written to {self.folder}.",
                "Free space there, mount a larger disk at that path, or name fewer inputs.",
            )

    def fetch_parts(self) -> None:
        """Fetch part after part, until there are no more."""
        while True:
            with self.lock:
                part = self.next_part()
                if part:
                    part[0].writers += 1
            if part:
                try:
                    self.fetch_part(*part)
                finally:
                    self.leave_file(part[0])
            elif not self.wait_for_more():
                return

    def next_part(self) -> tuple[Reading, int, int] | None:
        """(reading, start, stop) of the part to fetch next, or None. The lock must be held."""
        if self.crew.broken:
            return None
        return self.extra.pop() if self.extra else next(self.queue, None)

    def wait_for_more(self) -> bool:
        """Wait for other threads: a changed source may add parts. False once no part can come."""
        with self.lock:
            while self.open and not self.crew.broken and not self.extra:
                self.more.wait(LOOK)
            return bool(self.open and not self.crew.broken)

    def leave_file(self, reading: Reading) -> None:
        """Close a file that is complete or given up, if no other thread writes to it."""
        with self.lock:
            reading.writers -= 1
        self.close_file(reading)

    def close_file(self, reading: Reading) -> None:
        with self.lock:
            over = reading.stale or reading.is_complete or self.crew.broken
            if reading.writers == 0 and reading.fd >= 0 and over:
                os.close(reading.fd)
                reading.fd = -1

    def fetch_part(self, reading: Reading, start: int, stop: int) -> None:
        """Fetch one part and note it. The last part gives the file its name."""
        try:
            length, checksum = self.read_part(reading, start, stop)
        except Changed:
            self.start_anew(reading)
            return
        with self.lock:
            if reading.stale:
                return
            reading.parts[start] = length, checksum
            last = reading.is_complete
            if reading.source.known and not reading.is_single:
                self.journal.note_part(reading, start, length, checksum)
        if last:
            self.finish_file(reading)
        elif reading.source.known:
            self.continue_hash(reading)

    def continue_hash(self, reading: Reading) -> None:
        """Hash the bytes that have arrived, unless another thread does. The first thread asks the
        source for the kind of checksum.
        """
        if reading.looked.acquire(blocking=False):
            kind, _ = reading.source.proof()
            reading.hashing = new_hashing(kind, reading.source.size)
        if reading.hashing:
            reading.hashing.hash_arrived(reading.fd, reading.end_from)

    def read_part(self, reading: Reading, start: int, stop: int) -> tuple[int, int]:
        """Read a part into the file: (number of bytes, CRC-32). After a break, it requests the rest
        from there; a source without a known version is read again from the start. Raises Failure.
        """
        fd = self.open_temporary(reading)
        at, checksum = start, 0
        patience = Patience(self.patience)
        while True:
            try:
                for view in reading.source.read(at, stop):
                    if 0 <= stop < at + len(view):
                        raise OSError(errno.EPROTO, "more came than was asked for")
                    write_view(fd, view, at, reading.path)
                    checksum = zlib.crc32(view, checksum)
                    at += len(view)
                    self.count_bytes(len(view))
                    patience.reset()
                    if self.crew.broken or reading.stale:
                        raise Changed(reading.path)
                if stop < 0 or at >= stop:
                    return at - start, checksum
                raise OSError(errno.EPIPE, "it ended early")
            except OSError as error:
                if not reading.source.known:
                    os.ftruncate(fd, max(0, reading.source.size))
                    self.count_bytes(start - at)
                    at, checksum = start, 0
                if not patience.wait():
                    raise Failure(
                        "fetch.broken",
                        f"{reading.source.path} cannot be read to its end.",
                        f"It broke again and again, last at byte {at}: {error.strerror or error}.",
                        "Start the job again: it goes on from what is complete.",
                    ) from error

    def count_bytes(self, count: int) -> None:
        with self.lock:
            self.bytes += count

    def open_temporary(self, reading: Reading) -> int:
        """The descriptor of the temporary file. The first part creates it; threads with other files
        continue while a slow disk creates it.
        """
        with reading.opening:
            if reading.stale or self.crew.broken:
                raise Changed(reading.path)
            if reading.fd < 0:
                try:
                    self.make_temporary(reading)
                except OSError as error:
                    raise write_failure(error, reading.path) from error
            return reading.fd

    def make_temporary(self, reading: Reading) -> None:
        self.make_folder(os.path.dirname(reading.path))
        reading.fd = os.open(reading.temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not reading.is_single or not reading.source.known:
            os.ftruncate(reading.fd, max(0, reading.source.size))

    def make_folder(self, folder: str) -> None:
        if folder not in self.folders:
            os.makedirs(folder, exist_ok=True)
            self.folders.add(folder)

    def start_anew(self, reading: Reading) -> None:
        """Restart a file from its beginning, with the source as it is now. Drop the parts so far.
        Raises Failure after READINGS tries.
        """
        with self.lock:
            if reading.stale or self.crew.broken:
                return
            reading.stale = self.renewed = True
            self.journal.note_drop(reading)
            self.bytes -= sum(length for length, _ in reading.parts.values())
        if reading.number == READINGS:
            raise Failure(
                "fetch.changing",
                f"{reading.source.path} changes while it is read.",
                f"It was another one after each of {READINGS} readings.",
                "Wait until whoever writes it has finished, or read a copy that stands still.",
            )
        now = reading.source.again()
        now.path = reading.source.path
        fresh = Reading(now, self.folder, reading.number + 1)
        fresh.digest = reading.digest
        remove_file(reading.temporary)
        with self.lock:
            self.readings[self.readings.index(reading)] = fresh
            self.extra += [
                (fresh, start, stop) for start, stop in reversed(list(fresh.missing_parts()))
            ]
            self.more.notify_all()

    def finish_file(self, reading: Reading) -> None:
        """Verify the file and give it its name. If its checksum is wrong, restart it; raise Failure
        after READINGS tries.
        """
        kind, wanted = reading.source.proof()
        if kind and not self.fits_checksum(reading, kind, wanted):
            if reading.number < READINGS:
                self.start_anew(reading)
                return
            raise Failure(
                "fetch.damaged",
                f"{reading.source.path} arrives damaged.",
                f"Its bytes never fit its checksum ({kind}), in {READINGS} readings.",
                "The copy at the source may be damaged: store it there anew.",
            )
        if reading.source.known:
            self.journal.note_done(reading, os.fstat(reading.fd))
        try:
            os.replace(reading.temporary, reading.path)
        except OSError as error:
            raise write_failure(error, reading.path) from error
        with self.lock:
            self.files += 1
            self.open -= 1
            if not self.open:
                self.more.notify_all()

    def fits_checksum(self, reading: Reading, kind: str, wanted: str) -> bool:
        """True if the file has this checksum. If the same bytes arrive twice and do not match an
        ETag, the ETag is no MD5, and the file counts as good.
        """
        try:
            before, reading.digest = reading.digest, read_digest(reading, kind)
        except ValueError:  # this Python has no MD5, so that one proves nothing
            return True
        return reading.digest == wanted or (kind == "etag" and reading.digest == before)

    def remove_leftovers(self) -> None:
        """Remove the unfinished files of other versions and earlier attempts."""
        if not (self.renewed or self.journal.resumed):
            return
        for top, _, names in os.walk(self.folder):
            for name in names:
                if name.endswith(PART_END):
                    remove_file(os.path.join(top, name))


def new_hashing(kind: str, size: int) -> Hashing | None:
    """A running checksum of that kind; None for "" and CRC-32, or if this Python lacks the kind."""
    try:
        return Hashing(kind, size) if kind not in ("", "crc32") else None
    except ValueError:
        return None


def read_digest(reading: Reading, kind: str) -> str:
    """The checksum of a complete file, in hex. Raises ValueError if this Python lacks the kind."""
    if kind == "crc32":
        return f"{reading.crc32:08x}"
    if reading.hashing is None or reading.hashing.kind != kind:
        reading.hashing = Hashing(kind, os.fstat(reading.fd).st_size)
    return reading.hashing.finish_hash(reading.fd)


def check_paths(sources: list[Source]) -> list[Source]:
    """Return the sources with normalized paths. Raises Failure for a path that leaves the folder or
    clashes with another.
    """
    files: dict[str, str] = {}
    folders: set[str] = set()
    for source in sources:
        steps = [step for step in source.path.split("/") if step not in ("", ".")]
        if ".." in steps or "\0" in source.path or not 0 < len(steps) <= DEEPEST:
            deep = len(steps) > DEEPEST
            raise Failure(
                "fetch.path",
                f"{source.path[:200]!r} cannot be a file here.",
                f"It lies in more than {DEEPEST} folders."
                if deep
                else "Its name leads out of the folder that it belongs into.",
                "Rename it at the source, or name the objects that you need one by one.",
            )
        path = "/".join(steps)
        if path in files:
            raise path_clash(source.path, files[path])
        files[path] = source.path
        folders.update("/".join(steps[:length]) for length in range(1, len(steps)))
        source.path = path
    for path in sorted(folders & set(files)):
        raise path_clash(files[path], path + "/…")
    return sources


def path_clash(one: str, other: str) -> Failure:
    """The Failure for two sources with the same path, or with one below the other."""
    return Failure(
        "fetch.clash",
        f"{one} and {other} cannot both be files here.",
        "In a file system they are one path, or one is the folder of the other.",
        "Rename one of them at the source, or name the inputs one by one.",
    )


def write_view(fd: int, view: memoryview, at: int, path: str) -> None:
    """Write all of a view at an offset. Raises Failure."""
    try:
        while view:
            count = os.pwrite(fd, view, at)
            view, at = view[count:], at + count
    except OSError as error:
        raise write_failure(error, path) from error


def write_failure(error: OSError, path: str) -> Failure:
    """The Failure for a file that could not be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return Failure(
        "disk.full" if full else "fetch.unwritable",
        f"The disk is full: {path}" if full else f"An input cannot be written: {path}",
        f"{error.strerror}.",
        "Free space there, or mount a larger disk at that path."
        if full
        else "Check who may write there.",
    )


def amount(size: float) -> str:
    """A size for people: `1.5 GB` for 1500000000 bytes."""
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000.0
        del units[0]
    decimals = 0 if units[0] == "bytes" else 1
    return f"{size:.{decimals}f} {units[0]}"
