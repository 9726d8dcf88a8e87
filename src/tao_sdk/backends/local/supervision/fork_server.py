"""The fork server: a process that starts supervisors for one client, by forking itself.

A new Python takes 15 ms to start. A fork of a running one takes 2 ms, and the two share memory
until one of them writes to it. `supervisor_start.py` is the client's end.

A request is a folder and a message to its supervisor. The answer is an error text, or empty. Each
has its length before it. Without pathlib, to start quickly.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys

from tao_sdk.backends.local.supervision.supervisor import READY, supervise

REQUESTS, ANSWERS, WORDS = 0, 1, 2  # the descriptors that the client has given us
# The server ends after this time without a request, because a new one has the client's current
# umask and limits.
IDLE_SECONDS = 1.0
LENGTH_BYTES = 8
FOLDER_END = b"\0"


def main() -> int:
    """Go into the background and serve there. The parent need not wait for the server's end."""
    if os.fork():
        return 0
    close_words()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody needs a supervisor's exit status
    gc.freeze()
    while request := next_request():
        folder, _, message = request.partition(FOLDER_END)
        send_message(ANSWERS, start_supervisor(os.fsdecode(folder), message))
    os._exit(0)


def close_words() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, WORDS)
    os.close(null)


def next_request() -> bytes:
    """Read the next request. Empty once the client is gone or has been idle for IDLE_SECONDS."""
    if not select.select([REQUESTS], [], [], IDLE_SECONDS)[0]:
        return b""
    return receive_message(REQUESTS) or b""


def start_supervisor(folder: str, message: bytes) -> bytes:
    """Start a supervisor and return an error text.

    The text is empty once the supervisor is ready, or if none is needed.
    """
    words, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(words)
        become_supervisor(folder, message, tell)
    os.close(tell)
    said = read_to_end(words)
    os.close(words)
    if said == READY:
        return b""
    wait_for_end(child)
    return said.strip() or b"it ended before it was ready"


def wait_for_end(child: int) -> None:
    """Wait for the child's end, after which it holds no lock.

    Its exit status is lost, because SIGCHLD is ignored.
    """
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        return


def become_supervisor(folder: str, message: bytes, tell: int) -> None:
    """In the child: supervise the attempt, in a session of its own.

    Errors before the start go to stderr. The server reads it until the supervisor is ready.
    """
    try:
        os.setsid()
        os.dup2(tell, WORDS)
        supervise(folder, message, tell)
    except BaseException as error:  # noqa: BLE001  the child must not go on as a server
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        os._exit(0)


def send_message(pipe: int, content: bytes) -> None:
    """Send the content with its length before it."""
    left = len(content).to_bytes(LENGTH_BYTES, "big") + content
    while left:
        left = left[os.write(pipe, left) :]


def receive_message(pipe: int) -> bytes | None:
    """Receive what `send_message` sent. None if the other end closed before all of it came."""
    length = read_exactly(pipe, LENGTH_BYTES)
    return None if length is None else read_exactly(pipe, int.from_bytes(length, "big"))


def read_exactly(pipe: int, length: int) -> bytes | None:
    """Read `length` bytes. None if the other end closed before."""
    parts: list[bytes] = []
    while length:
        part = os.read(pipe, length)
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def read_to_end(pipe: int) -> bytes:
    parts: list[bytes] = []
    while part := os.read(pipe, 4096):
        parts.append(part)
    return b"".join(parts)
