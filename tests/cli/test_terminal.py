"""The command on a terminal: what is drawn there, and what is not."""

from __future__ import annotations

import re

from tao_command import TRAINING, Ended, Tao
from tao_terminal import COLOR, on_terminal


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
