"""The fork server: a process that starts supervisors for one client, by forking itself.

A new Python takes 15 ms to start, a fork of one that runs takes 2, and the memory of both is the
same until one of them writes to it. `supervisor_start.py` is the client's end.

A request is a folder and a message to its supervisor; the answer is what went wrong, or nothing.
Both have their length before them. Without pathlib, to start quickly.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys

from tao_sdk.backends.local.supervision.supervisor import READY, supervise

REQUESTS, ANSWERS, WORDS = 0, 1, 2  # the descriptors that the client has given us
# Without a request for so long it ends: a new one has the client's umask and limits of that time.
IDLE_SECONDS = 1.0
LENGTH_BYTES = 8
FOLDER_END = b"\0"


def main() -> int:
    """Go into the background, and serve there. Our parent need not wait for our end."""
    if os.fork():
        return 0
    close_words()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a supervisor ended
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
    """Empty once the client is gone, or has asked for nothing for a while."""
    if not select.select([REQUESTS], [], [], IDLE_SECONDS)[0]:
        return b""
    return receive_message(REQUESTS) or b""


def start_supervisor(folder: str, message: bytes) -> bytes:
    """What went wrong, in words. Empty when the supervisor is ready, or none is needed."""
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
    """Until it holds no lock any more. How it ended is thrown away, as SIGCHLD is ignored."""
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        return


def become_supervisor(folder: str, message: bytes, tell: int) -> None:
    """In the child: supervise, in a session of its own. Why it could not begin is said on stderr,
    which the server reads until the supervisor is ready.
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
    """Content with its length before it."""
    left = len(content).to_bytes(LENGTH_BYTES, "big") + content
    while left:
        left = left[os.write(pipe, left) :]


def receive_message(pipe: int) -> bytes | None:
    """What `send_message` sent. None when the other end was closed before all of it came."""
    length = read_exactly(pipe, LENGTH_BYTES)
    return None if length is None else read_exactly(pipe, int.from_bytes(length, "big"))


def read_exactly(pipe: int, length: int) -> bytes | None:
    """So many bytes. None when the other end was closed before."""
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
