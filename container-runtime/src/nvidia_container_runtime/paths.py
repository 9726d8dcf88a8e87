"""Paths as text. posixpath is not used: importing it costs more than all that the shim does with
paths.
"""

import posix

TYPE_FILE, TYPE_DIR, TYPE_LINK, TYPE_CHAR, TYPE_BLOCK, TYPE_FIFO = (
    0o100000,
    0o040000,
    0o120000,
    0o020000,
    0o060000,
    0o010000,
)
TYPE_MASK = 0o170000
SIZE_LIMIT = (
    64 << 20
)  # of a file that is read whole; the largest OCI and CDI specs have a few megabytes


def join(folder: str, name: str) -> str:
    """`name` below `folder`, also when name starts with a slash (a path inside a
    driver root does).
    """
    if not folder or folder == "/":
        return name if not folder or name.startswith("/") else "/" + name
    return folder.rstrip("/") + "/" + name.lstrip("/")


def base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def parent(path: str) -> str:
    head = path.rstrip("/").rpartition("/")[0]
    return head or ("/" if path.startswith("/") else ".")


def clean(path: str) -> str:
    """The shortest path that means the same, by text alone: no `.`, no doubled slash, `..` resolved
    where it can be.
    """
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".." or not rooted:
            parts.append(part)
    text = "/".join(parts)
    return "/" + text if rooted else text or "."


def absolute(path: str) -> str:
    return clean(path if path.startswith("/") else posix.getcwd() + "/" + path)


def depth(path: str) -> int:
    """The depth of a cleaned path below the root: `/` is 0 deep, `/a/b` is 2."""
    return len([part for part in clean(path).split("/") if part])


def kind(path: str, follow: bool = True) -> int:
    """The file type bits of what is at `path`, 0 when nothing is there or it may
    not be looked at.
    """
    try:
        return (posix.stat(path) if follow else posix.lstat(path)).st_mode & TYPE_MASK
    except (OSError, ValueError):
        return 0


def exists(path: str) -> bool:
    return kind(path) != 0


def is_file(path: str) -> bool:
    return kind(path) == TYPE_FILE


def is_dir(path: str) -> bool:
    return kind(path) == TYPE_DIR


def is_device(path: str) -> bool:
    return kind(path) in (TYPE_CHAR, TYPE_BLOCK)


def is_executable(path: str) -> bool:
    """A file that is no folder and has an execute bit set for anybody, as Go's lookup sees it."""
    try:
        mode = posix.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return mode & TYPE_MASK != TYPE_DIR and mode & 0o111 != 0


def names(folder: str) -> "list[str]":
    """The names in a folder, sorted; none when it cannot be read."""
    try:
        return sorted(posix.listdir(folder))
    except OSError:
        return []


def read_bytes(path: str, limit: int = SIZE_LIMIT) -> bytes:
    """All of a plain file; OSError as it comes, EFBIG once more than `limit` bytes are there."""
    descriptor = open_plain(path)
    try:
        return read_all(descriptor, limit)
    finally:
        posix.close(descriptor)


def open_plain(path: str) -> int:
    """A descriptor to read from. What may have no end, or none for a long time, is refused: pipes,
    devices, sockets.
    """
    descriptor = posix.open(
        path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOCTTY
    )
    found = posix.fstat(descriptor).st_mode & TYPE_MASK
    if found in (TYPE_FILE, TYPE_DIR):  # to read a folder is an error with its own words
        return descriptor
    posix.close(descriptor)
    raise OSError(22, "no plain file", path)


def read_all(descriptor: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = posix.read(descriptor, 65536)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise OSError(27, "file too large")


def make_folders(folder: str, mode: int = 0o755) -> None:
    if is_dir(folder):
        return
    above = parent(folder)
    if above != folder:
        make_folders(above, mode)
    try:
        posix.mkdir(folder, mode)
    except FileExistsError:
        return


def real(path: str, root: str = "") -> str:
    """The path with every link resolved, as far as it exists; never out of the root, if it lies in
    one.
    """
    root = root.rstrip("/")
    todo = [part for part in absolute(path)[len(root) :].split("/") if part][::-1]
    done = root
    links = 0
    while todo:
        part = todo.pop()
        here = done + "/" + part
        if part == "..":
            done = done.rpartition("/")[0] if len(done) > len(root) else root
        elif part != "." and kind(here, follow=False) == TYPE_LINK:
            links += 1
            if links > 40:
                raise OSError(40, "too many levels of symbolic links", path)
            target = posix.readlink(here)
            if target.startswith("/"):
                done = root
            todo += [piece for piece in target.split("/") if piece][::-1]
        elif part != ".":
            done = here
    return done or "/"
