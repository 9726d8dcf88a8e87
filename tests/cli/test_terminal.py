"""The command on a terminal: what is drawn there, and what is not."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios

from tao_command import COMMAND, TRAINING, Ended, Tao

COLOR = re.compile(r"\x1b\[[0-9;]*(?:3[0-7]|9[0-7])[0-9;]*m")


def on_terminal(tao: Tao, *args: str, columns: int = 80, interrupt_after: str = "", **env: str) -> tuple[int, str]:
    """The exit code, and everything that was written to a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    env = {**{name: value for name, value in tao.env.items() if name != "COLUMNS"}, "TERM": "xterm-256color", **env}
    running = subprocess.Popen([*COMMAND, *args], cwd=tao.home, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
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
        if interrupt_after and interrupt_after.encode() in written:
            running.send_signal(signal.SIGINT)
            interrupt_after = ""
    os.close(ours)
    return running.wait(timeout=30), written.decode()


def test_a_running_job_is_drawn_with_bar_curve_and_colour(tao: Tao) -> None:
    code, written = on_terminal(tao, "run", "--gpus", "0", "--", TRAINING.replace("done", "sleep 0.2; done"))
    assert code == 0
    assert "░" in written
    assert COLOR.search(written)
    assert "epoch 3" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written)
    assert "┤" in written  # the axis of the curve
    assert written.rindex("Complete in") > written.rindex("┤")
    assert written.endswith("\r\n")
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h")  # the cursor is shown again


def test_no_color_is_honoured(tao: Tao) -> None:
    code, written = on_terminal(tao, "run", "--gpus", "0", "--", TRAINING, NO_COLOR="1")
    assert code == 0
    assert not COLOR.search(written)


def test_a_dumb_terminal_gets_plain_lines(tao: Tao) -> None:
    code, written = on_terminal(tao, "run", "--gpus", "0", "--", TRAINING, TERM="dumb")
    assert code == 0
    assert "\x1b" not in written


def test_ctrl_c_gives_the_cursor_back_and_says_how_to_come_back(tao: Tao) -> None:
    code, written = on_terminal(tao, "run", "--gpus", "0", "--", "echo begun; sleep 30", interrupt_after="begun")
    assert code == 130
    assert "Come back: tao logs -f" in written
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")
    assert "Traceback" not in written


def test_a_table_is_cut_at_the_edge_of_the_terminal_and_coloured(ended: Ended) -> None:
    code, written = on_terminal(ended.tao, "ls", columns=60)
    assert code == 0
    assert COLOR.search(written)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written)
    assert max(map(len, plain.splitlines())) <= 60


def test_with_json_a_terminal_is_no_different_from_a_pipe(ended: Ended) -> None:
    code, written = on_terminal(ended.tao, "status", "--json", ended.complete)
    assert (code, "\x1b" in written) == (0, False)
