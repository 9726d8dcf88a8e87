"""The command on a terminal: what it writes there, escape codes and all."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Callable

from support.tao_command import COMMAND, Tao

COLOR = re.compile(r"\x1b\[[0-9;]*(?:3[0-7]|9[0-7])[0-9;]*m")


def on_terminal(
    tao: Tao,
    *args: str,
    columns: int = 80,
    interrupt_after: str = "",
    seen: Callable[[str], None] | None = None,
    **env: str,
) -> tuple[int, str]:
    """The exit code, and everything that was written to a terminal of that width. `seen` gets all
    that was written so far whenever there is more.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    env = {
        **{name: value for name, value in tao.env.items() if name != "COLUMNS"},
        "TERM": "xterm-256color",
        **env,
    }
    running = subprocess.Popen(
        [*COMMAND, *args], cwd=tao.home, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = bytearray()
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the terminal's other end is closed
            piece = b""
        if not piece:
            break
        written += piece
        if seen:
            seen(written.decode(errors="replace"))
        if interrupt_after and interrupt_after.encode() in written:
            running.send_signal(signal.SIGINT)
            interrupt_after = ""
    os.close(ours)
    return running.wait(timeout=300), written.decode()
