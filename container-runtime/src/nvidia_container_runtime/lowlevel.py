"""The low-level runtime: which program it is, and becoming it."""

import posix
import sys

from . import paths
from .errors import RuntimeFault, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
SIGPIPE, SIGXFSZ, SIG_DFL = 13, 25, 0


def search_folders(path: str) -> "list[str]":
    """$PATH, then the usual folders that it lacks."""
    given = path.split(":") if path else []
    return given + [folder for folder in DEFAULT_FOLDERS if folder not in given]


def find(candidates: "Sequence[str]", path: str) -> "tuple[str, list[str]]":
    """The first candidate that is there, and the places looked at in vain before it was."""
    if not candidates:
        raise RuntimeFault("at least one runtime candidate must be specified")
    missed: list[str] = []
    for candidate in candidates:
        places = (
            [candidate]
            if "/" in candidate
            else [paths.join(folder, candidate) for folder in search_folders(path)]
        )
        for place in places if candidate else ():
            if paths.is_executable(place):
                return place, missed
            missed.append(place)
    raise RuntimeFault(
        "error locating runtime: no runtime binary found from candidate list: "
        f"[{' '.join(candidates)}]"
    )


def find_helper(name: str, default: str, path: str) -> str:
    """A program that a hook will run: an absolute path is taken at its word, a name is looked up in
    PATH.

    A relative path would be the image's file: a hook may run in the container's root folder.
    """
    name = name or default
    if name.startswith("/"):
        return name
    for folder in search_folders(path):
        place = paths.join(folder, name)
        if folder.startswith("/") and paths.is_executable(place):
            return place
    return "/usr/bin/" + name


def become(program: str, words: "list[bytes]", environment: "Mapping[bytes, bytes]") -> None:
    """Replace this process. Returns never; what Python changed in the process is changed back
    first.
    """
    if "_signal" in sys.modules:  # else a quick start: Python has not come to its signals
        import _signal  # pyright: ignore[reportMissingImports]

        _signal.signal(SIGPIPE, SIG_DFL)
        _signal.signal(SIGXFSZ, SIG_DFL)
    try:
        posix.execve(program, words, environment)
    except OSError as error:
        raise RuntimeFault(f"could not exec '{program}': {reason(error)}") from None


def inherited_environment() -> "dict[bytes, bytes]":
    """The environment as this process got it. Python's own copy may hold an LC_CTYPE that Python
    itself put there.
    """
    if b"LC_CTYPE" not in posix.environ:
        return dict(posix.environ)
    try:
        block = paths.read_bytes("/proc/self/environ")
    except OSError:
        return dict(posix.environ)
    environment: dict[bytes, bytes] = {}
    for entry in block.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name:
            environment.setdefault(name, value)
    return environment
