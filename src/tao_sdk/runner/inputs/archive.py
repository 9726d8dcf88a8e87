"""Archives: .tar, .tar.gz, .tgz and .zip, unpacked whole into a folder or not at all.

An archive is not trusted. No entry may be outside its folder, neither by its name nor through a
link. Devices, pipes and sockets are refused. So is an archive that would fill the disk or the
memory: bytes, entries, folders, links and headers have limits. TAO_UNPACK_BYTES and
TAO_UNPACK_FILES raise the limits for a large honest archive.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import zlib
from itertools import chain

from tao_sdk.net.failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    import zipfile
    from collections.abc import Iterator, Mapping
    from typing import IO, Any

CHUNK = 1 << 20
BLOCK = 512
ALLOWED = 256 << 20  # bytes that any archive may unpack to,
RATIO = 200  # plus this many times its own size; honest archives (text) reach 30 at most
MOST_FILES = 10_000_000
MOST_NOTED = 1_000_000  # folders, and links: each is checked again at the end
# bytes that describe one entry of a tar: long names, attributes, the holes of a sparse file
LONGEST_HEAD = 256 << 10
LARGEST_DIRECTORY = 256 << 20  # bytes of the directory of a zip
LARGEST_END = 1 << 17  # bytes at a zip's end that are searched for its directory
DEEPEST = 200  # nested folders
LONGEST_LINK = 4096  # bytes
# bytes of a zip's entry to unpack at once, if its compression does not limit the size of the result
FEW = 4096
MOST_STEPS = 40  # links that lead to links; the kernel does not follow more
RIGHTS = 0o755  # no setuid, and nobody else can write
SPARE = 64 << 20  # bytes of the disk that stay free
BROKEN = (  # errors of Python's own modules for damaged or malicious archives
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # also for deep nesting
    ArithmeticError,
    LookupError,
    MemoryError,
    struct.error,
    zlib.error,
)


def unpack_archive(path: str, folder: str, env: Mapping[str, str], inner: str = "") -> str:
    """Unpack everything into a new folder, and return the folder with the content. `inner`: the
    name of a single top folder to skip, or "".

    Raises Failure; the folder's content is useless then.
    """
    os.makedirs(folder)
    tree = Unpacked(path, folder, env)
    try:
        (unpack_zip if path.lower().endswith(".zip") else unpack_tar)(path, tree)
        top = content_folder(folder, inner) if inner else folder
        tree.finish(top)
    except Failure:
        raise
    except ImportError as error:
        raise tree.broken_failure(
            f"The image's python3 cannot read this kind of archive ({error.name})."
        ) from error
    except BROKEN as error:
        # EINVAL comes from a seek to an invalid offset
        if isinstance(error, OSError) and error.errno and error.errno != errno.EINVAL:
            raise
        raise tree.broken_failure(f"{(str(error) or type(error).__name__).rstrip('.')}.") from error
    return top


def content_folder(folder: str, name: str) -> str:
    """The folder with the content: `name` in `folder`, if nothing else is there, else `folder`."""
    inner = os.path.join(folder, name)
    alone = os.listdir(folder) == [name] and os.path.isdir(inner) and not os.path.islink(inner)
    if alone:
        return inner
    return folder


class Unpacked:
    """The folder that is being filled, with the limits and checks for it."""

    def __init__(self, path: str, folder: str, env: Mapping[str, str]) -> None:
        self.name, self.folder = os.path.basename(path), folder
        self.most_bytes = env_number(env, "TAO_UNPACK_BYTES") or ALLOWED + RATIO * os.path.getsize(
            path
        )
        self.most_files = env_number(env, "TAO_UNPACK_FILES") or MOST_FILES
        self.most_noted = env_number(env, "TAO_UNPACK_FILES") or MOST_NOTED
        self.bytes = self.files = 0
        self.folders = {""}  # folders that are already checked
        self.late_folders: list[
            tuple[str, int, float]
        ] = []  # (folder, mode, time), to set at the end
        self.links: list[tuple[str, str]] = []

    def broken_failure(self, why: str) -> Failure:
        return Failure(
            "archive.broken",
            f"The archive {self.name} cannot be unpacked.",
            why,
            "Make the archive again, or declare the input with extract: "
            "false to hand it over packed.",
        )

    def entry_path(self, name: str) -> str:
        """The path for an entry, with its folder created. Raises Failure for a path outside, too
        deep, or below something that is not a folder.
        """
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise self.broken_failure(f"Its entry {name[:200]!r} would lie outside of its folder.")
        if len(parts) > DEEPEST:
            raise self.broken_failure(
                f"Its entry {name[:200]!r} lies in more than {DEEPEST} folders."
            )
        self.make_folder(parts[:-1], name)
        return os.path.join(self.folder, *parts)

    def make_folder(self, parts: list[str], name: str) -> None:
        if "/".join(parts) in self.folders:
            return
        self.make_folder(parts[:-1], name)
        self.check_limits(("folders", self.most_noted, len(self.folders)))
        path = os.path.join(self.folder, *parts)
        try:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise self.broken_failure(f"Its entry {name[:200]!r} lies below what is no folder.")
        except FileNotFoundError:
            os.mkdir(path)
        self.folders.add("/".join(parts))

    def count_entry(self, size: int) -> None:
        """Count an entry of `size` bytes. Raises Failure if it exceeds a limit or the disk."""
        self.files += 1
        self.bytes += size
        self.check_limits(
            ("entries", self.most_files, self.files), ("bytes", self.most_bytes, self.bytes)
        )
        if size >= CHUNK or self.files % 1000 == 1:
            self.check_space(size)

    def check_limits(self, *limits: tuple[str, int, int]) -> None:
        for what, limit, count in limits:
            if count > limit:
                raise Failure(
                    "archive.limit",
                    f"The archive {self.name} holds more than {limit} {what}.",
                    "That is far more than an honest one of its size does: it "
                    "may be made to fill the disk.",
                    "If it is what it should be, set TAO_UNPACK_BYTES and TAO_UNPACK_FILES "
                    "for the job to what it holds.",
                )

    def check_space(self, size: int) -> None:
        disk = os.statvfs(self.folder)
        if disk.f_bavail * disk.f_frsize < size + SPARE:
            raise Failure(
                "disk.full",
                f"The disk has no room for what is in the archive {self.name}.",
                f"{disk.f_bavail * disk.f_frsize} bytes are free where it "
                f"is unpacked: {self.folder}",
                "Free space there, or set mount_path, or the input's "
                "container_path, to a larger disk.",
            )

    def add_folder(self, name: str, mode: int, time: float) -> None:
        self.count_entry(0)
        path = self.entry_path(name)
        self.make_folder(
            path[len(self.folder) :].strip("/").split("/") if path != self.folder else [], name
        )
        self.late_folders.append((path, stat.S_IMODE(mode) & RIGHTS | 0o700, time))

    def add_file(
        self, name: str, size: int, mode: int, time: float, source: IO[bytes], piece: int = CHUNK
    ) -> None:
        """Write a file of `size` bytes, `piece` bytes at a time. Raises Failure."""
        if size < 0:
            raise self.broken_failure(f"{name[:200]!r} has less than no bytes.")
        self.count_entry(size)
        path = self.free_path(name)
        left = size
        with open(path, "xb", buffering=0) as file:
            while left:
                data = source.read(min(left, piece))
                if not data:
                    raise self.broken_failure(f"It ends in the middle of {name[:200]!r}.")
                file.write(data)
                left -= len(data)
        if source.read(1):
            raise self.broken_failure(f"{name[:200]!r} is longer than it says.")
        os.chmod(path, stat.S_IMODE(mode) & RIGHTS | 0o600)
        set_time(path, time)

    def free_path(self, name: str) -> str:
        """The path for an entry, free: of two entries with one name, the later one replaces the
        earlier.
        """
        path = self.entry_path(name)
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                raise self.broken_failure(f"{name[:200]!r} is a folder and something else in it.")
            os.unlink(path)
        except FileNotFoundError:
            pass
        return path

    def add_link(self, name: str, target: str) -> None:
        self.count_entry(0)
        path = self.free_path(name)
        os.symlink(target, path)
        self.links.append((name, path))
        self.check_limits(("links", self.most_noted, len(self.links)))

    def add_twin(self, name: str, other: str) -> None:
        """Add a hard link to an earlier file of the archive. Raises Failure if there is none."""
        self.count_entry(0)
        first, path = self.entry_path(other), self.free_path(name)
        if not os.path.isfile(first) or os.path.islink(first):
            raise self.broken_failure(
                f"Its entry {name[:200]!r} is a link to {other[:200]!r}, which is not in it."
            )
        os.link(first, path)

    def finish(self, top: str) -> None:
        """Check all links, and set the folders' modes and times. Links can be checked only now,
        when all entries exist. `top` is the folder that will be moved. Raises Failure.
        """
        for name, path in self.links:
            if os.path.islink(path) and not stays_inside(path, top):
                raise self.broken_failure(f"Its link {name[:200]!r} leads out of its folder.")
        for path, mode, time in reversed(self.late_folders):
            os.chmod(path, mode)
            set_time(path, time)


def stays_inside(link: str, top: str) -> bool:
    """True if no step of a link leads outside `top`, even if its target is created later."""
    at = os.path.relpath(os.path.dirname(link), top).split("/")
    at = [] if at == ["."] else at
    steps, links, missing = [os.path.basename(link)], 0, False
    while steps:
        step = steps.pop()
        if step in ("", "."):
            continue
        if step == "..":
            if missing or not at:
                return False
            at.pop()
            continue
        at.append(step)
        target = target_of(os.path.join(top, *at))
        if target is None:
            missing = missing or not os.path.lexists(os.path.join(top, *at))
            continue
        links += 1
        if target.startswith("/") or links > MOST_STEPS:
            return False
        at.pop()
        steps += reversed(target.split("/"))
    return True


def target_of(path: str) -> str | None:
    """The target of a link; None if the path is not a link."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def set_time(path: str, time: float) -> None:
    with contextlib.suppress(OverflowError, ValueError):  # a time that no file can have
        os.utime(path, (time, time))


def env_number(env: Mapping[str, str], name: str) -> int:
    text = env.get(name, "")
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text)
    return 0


class Watched:
    """A stream that remembers the last block, to distinguish the end of a tar from a break.

    At most `left` bytes may be read until `left` is set again: an entry's header is short.
    """

    def __init__(self, stream: IO[bytes], tree: Unpacked) -> None:
        self.stream, self.tree, self.last = stream, tree, b""
        self.left = LONGEST_HEAD
        self.seek, self.tell, self.close = stream.seek, stream.tell, stream.close

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self.left:
            raise self.tree.broken_failure(
                f"What describes one of its entries is longer than {LONGEST_HEAD} bytes."
            )
        self.left -= size
        self.last = self.stream.read(size)
        return self.last


def unpack_tar(path: str, tree: Unpacked) -> None:
    import tarfile

    with open_tar(path) as stream:
        watched = Watched(stream, tree)
        try:
            with tarfile.TarFile(fileobj=watched, mode="r") as tar:  # type: ignore[arg-type]
                for entry in tar_entries(tar, watched, tree):
                    watched.left = entry.size + BLOCK
                    add_tar_entry(entry, tar, tree)
        except tarfile.TarError as error:
            raise tree.broken_failure(f"{error}.") from error
        if watched.last != bytes(BLOCK):  # tarfile treats anything but a header as the end
            raise tree.broken_failure(
                "It has no end mark: it is cut off, or damaged in the middle."
            )
        read_to_end(stream, tree)


def read_to_end(stream: IO[bytes], tree: Unpacked) -> None:
    """Read to the end, where a .gz has its checksum. Raises Failure for too many bytes."""
    most, size = tree.most_bytes + ALLOWED, 0
    data = stream.read(CHUNK)
    while data:
        size += len(data)
        tree.check_limits(("bytes", most, size))
        data = stream.read(CHUNK)


def open_tar(path: str) -> IO[bytes]:
    """Open the tar, decompressed if its content is gzip, whatever its name is."""
    with open(path, "rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    if not compressed:
        return open(path, "rb")
    import gzip

    return gzip.open(path, "rb")  # type: ignore[return-value]


def tar_entries(
    tar: tarfile.TarFile, watched: Watched, tree: Unpacked
) -> Iterator[tarfile.TarInfo]:
    """The entries one by one. They are not kept: there may be millions. Raises Failure."""
    before = -1
    while True:
        watched.left = LONGEST_HEAD
        entry = tar.next()
        if entry is None:
            return
        if tar.offset <= before or len("".join(chain(*tar.pax_headers.items()))) > LONGEST_HEAD:
            raise tree.broken_failure("What it says of all its entries makes no sense.")
        before = tar.offset
        yield entry
        tar.members = []  # type: ignore[attr-defined]


def add_tar_entry(entry: tarfile.TarInfo, tar: tarfile.TarFile, tree: Unpacked) -> None:
    if entry.isdir():
        tree.add_folder(entry.name, entry.mode, entry.mtime)
    elif entry.isfile():
        source = tar.extractfile(entry)
        assert source is not None
        tree.add_file(entry.name, entry.size, entry.mode, entry.mtime, source)
    elif entry.issym():
        tree.add_link(entry.name, entry.linkname)
    elif entry.islnk():
        tree.add_twin(entry.name, entry.linkname)
    else:
        raise tree.broken_failure(
            f"Its entry {entry.name[:200]!r} is a device, a pipe or of a kind that nobody knows."
        )


class Bounded:
    """A stream that limits each read to the size of an honest zip's directory."""

    def __init__(self, stream: IO[bytes], tree: Unpacked) -> None:
        self.stream, self.tree = stream, tree
        self.seek, self.tell, self.close, self.seekable = (
            stream.seek,
            stream.tell,
            stream.close,
            stream.seekable,
        )

    def read(self, size: int = -1) -> bytes:
        if size > LARGEST_DIRECTORY:
            raise self.tree.broken_failure(
                f"Its directory is larger than {LARGEST_DIRECTORY} bytes."
            )
        return self.stream.read(size if size >= 0 else LARGEST_END)


def unpack_zip(path: str, tree: Unpacked) -> None:
    import zipfile

    lzma: Any = getattr(zipfile, "lzma", None)  # some pythons have none
    damaged: tuple[type[Exception], ...] = (
        (zipfile.BadZipFile, lzma.LZMAError) if lzma else (zipfile.BadZipFile,)
    )
    try:
        with open(path, "rb") as stream, zipfile.ZipFile(Bounded(stream, tree)) as archive:  # type: ignore[arg-type]
            entries = archive.infolist()
            size = sum(member.file_size for member in entries)
            tree.check_limits(
                ("entries", tree.most_files, len(entries)), ("bytes", tree.most_bytes, size)
            )
            tree.check_space(size)
            for entry in entries:
                add_zip_entry(entry, archive, tree)
    except damaged as error:
        raise tree.broken_failure(f"{str(error).rstrip('.')}.") from error


def add_zip_entry(entry: zipfile.ZipInfo, archive: zipfile.ZipFile, tree: Unpacked) -> None:
    import time

    mode = entry.external_attr >> 16
    kind = stat.S_IFMT(mode)
    when = time.mktime((*entry.date_time, 0, 0, -1))
    if entry.filename.endswith("/"):
        tree.add_folder(entry.filename, mode or 0o755, when)
    elif kind == stat.S_IFLNK:
        if entry.file_size > LONGEST_LINK:
            raise tree.broken_failure(f"Its link {entry.filename[:200]!r} is none.")
        with archive.open(entry) as source:
            tree.add_link(
                entry.filename, source.read(entry.file_size).decode("utf-8", "surrogateescape")
            )
    elif kind in (0, stat.S_IFREG):
        with archive.open(entry) as source:
            tree.add_file(
                entry.filename, entry.file_size, mode or 0o644, when, source, piece_size(entry)
            )
    else:
        raise tree.broken_failure(f"Its entry {entry.filename[:200]!r} is a device or a pipe.")


def piece_size(entry: zipfile.ZipInfo) -> int:
    """The bytes to read at once. Python unpacks all LZMA and BZIP2 data that it has read: 1 MB may
    become 40 GB of memory.
    """
    stored, deflated = 0, 8
    if entry.compress_type in (stored, deflated):
        return CHUNK
    return FEW
