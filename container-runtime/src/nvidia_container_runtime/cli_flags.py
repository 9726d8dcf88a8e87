"""The flags that the installed nvidia-container-cli understands, by its own help. Older ones
refuse the later flags.

The tool is asked once. The answer is remembered as long as the tool's file stays the same.
"""

import posix

from . import memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Environment = Mapping[bytes, bytes]


def help_text(cli: str, place: str, environment: "Environment") -> str:
    """The tool's help. `place` is where memory lies, "" for nowhere."""
    file = fingerprint(cli) if place else None
    record = memory.recalled(place + ".cli") if file else None
    if record and record[0] == file:
        return record[1]
    answers = [
        output_of(cli, words, environment)
        for words in ([cli, "--help"], [cli, "configure", "--help"])
    ]
    text = "\n".join(said for _, said in answers)
    if file and all(succeeded for succeeded, _ in answers):
        memory.keep_record(place + ".cli", (file, text))
    return text


def fingerprint(path: str) -> "tuple[str, int, int, int, int, int] | None":
    """The facts that tell a file from one that takes its place later."""
    try:
        seen = posix.stat(path)
    except OSError:
        return None
    return (path, seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def output_of(program: str, words: "list[str]", environment: "Environment") -> "tuple[bool, str]":
    """(True if a program succeeds, its output). A program that cannot be run has no output: its
    start tells why.
    """
    readable, writable = posix.pipe()
    silence = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
    wiring = [
        (posix.POSIX_SPAWN_DUP2, silence, 0),
        (posix.POSIX_SPAWN_DUP2, writable, 1),
        (posix.POSIX_SPAWN_DUP2, writable, 2),
    ]
    try:
        child = posix.posix_spawn(program, words, environment, file_actions=wiring)
    except OSError:
        child = 0
    posix.close(writable)
    posix.close(silence)
    status = 1
    pieces: list[bytes] = []
    while child:
        piece = posix.read(readable, 65536)
        if not piece:
            _, status = posix.waitpid(child, 0)
            break
        pieces.append(piece)
    posix.close(readable)
    return status == 0, b"".join(pieces).decode(errors="replace")
