"""The command on a terminal: what is drawn there, and what is not."""

from __future__ import annotations

import re

from support.tao_command import TRAINING, Ended, Tao
from support.tao_terminal import COLOR, on_terminal


def test_a_running_job_is_drawn_with_bar_curve_and_colour(tao: Tao) -> None:
    go_on = tao.home / "go-on"
    command = TRAINING.replace(
        "done", f'while [ $i = 2 ] && [ ! -e "{go_on}" ]; do sleep 0.1; done; done'
    )

    def seen(written: str) -> None:
        if "░" in written and "┤" in written:  # the unfinished bar, and the axis of the curve
            go_on.touch()

    code, written = on_terminal(
        tao, "run", "--gpus", "0", "--time-limit", "2m", "--", command, seen=seen
    )
    assert code == 0
    assert COLOR.search(written)
    assert "Ctrl-C detaches" in written
    head, _, scene = written.partition("\x1b[1A\x1b[2K")  # the scene takes the place of the head
    assert re.fullmatch(r"job-\w{10}  local\r\n", head)
    assert head.split()[0] in scene
    assert "epoch 3" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written)
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
    code, written = on_terminal(
        tao, "run", "--gpus", "0", "--", "echo begun; sleep 30", interrupt_after="begun"
    )
    assert code == 130
    assert "Come back: tao attach " in written
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


def test_a_job_that_was_left_is_shown_again_with_the_screen_of_run(tao: Tao) -> None:
    job = tao.run_detached(TRAINING.replace("done", "sleep 0.2; done"), "--name", "left")
    code, written = on_terminal(tao, "attach", "left")
    assert code == 0
    assert "Complete in" in written
    assert job in written
    code, again = on_terminal(tao, "attach", job)
    assert (code, "Complete in" in again, "accuracy 0.900" in again) == (0, True, True)


def test_ctrl_c_leaves_an_attached_job_running(tao: Tao) -> None:
    job = tao.run_detached("echo begun; sleep 30")
    code, written = on_terminal(tao, "attach", job, interrupt_after="begun")
    assert (code, f"Come back: tao attach {job}" in written) == (130, True)
    assert tao("status", "--json", job).json["status"] == "Running"


def test_who_follows_a_silent_job_is_told_so_and_that_it_can_be_left(tao: Tao) -> None:
    job = tao.run_detached("echo begun; sleep 300")
    left = "Ctrl-C leaves it running."
    _, written = on_terminal(
        tao, "logs", "-f", job, columns=200, interrupt_after="What it does meanwhile"
    )
    assert f"begun\r\n{job} is silent since " in re.sub(r"\x1b\[[0-9;]*m", "", written)
    assert left in written
    assert tao("status", "--json", job).json["status"] == "Running"
    assert "silent" not in tao("logs", job).out
    tao("cancel", "--grace", "0s", job)


def test_who_cancels_sees_at_once_how_long_the_job_has_to_end(tao: Tao) -> None:
    job = tao.run_detached("sleep 300")
    _, written = on_terminal(tao, "cancel", "--grace", "90s", job)
    assert "Telling 1 job to end, within 1:30 (--grace)." in written


PRINTS_MORE = """
for e in 1 2 3; do
  echo "epoch $e/3 loss 0.$e"
  echo "saved to out/model_$e.pt"
  sleep 0.3
done
"""


def test_lines_of_the_program_that_are_no_epochs_are_shown_above_the_screen(tao: Tao) -> None:
    code, written = on_terminal(tao, "run", "--gpus", "0", "--", PRINTS_MORE)
    assert code == 0
    assert [written.count(f"saved to out/model_{epoch}.pt") for epoch in (1, 2, 3)] == [1, 1, 1]
    assert "tao logs" not in written


def test_a_flood_of_lines_is_cut_and_the_end_names_the_log(tao: Tao) -> None:
    flood = "echo epoch 1/2 loss 0.5; seq -f 'noise %.0f' 200000; echo epoch 2/2 loss 0.4"
    code, written = on_terminal(tao, "run", "--gpus", "0", "--", flood)
    assert code == 0
    assert 1 <= written.count("noise ") <= 60
    assert "tao logs " in written


def test_a_note_on_a_terminal_shows_no_mark_of_a_colour(tao: Tao) -> None:
    job = tao.run_detached("sleep 600")
    code, written = on_terminal(tao, "wait", "--timeout", "4s", job)
    assert code == 5
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written)
    assert f"{job}  Running for " in plain
    assert "<" not in plain


FAILS = (
    "for i in 1 2 3; do echo epoch $i/3 loss 0.$i; done; python3 -c 'import json; json.loads(1)'"
)


def test_what_was_shown_as_it_came_is_not_shown_again_at_the_end(tao: Tao) -> None:
    ran = tao("run", "--gpus", "0", "--", FAILS)
    assert ran.code == 1
    assert ran.out.count("Traceback (most recent call last)") == 1
    assert "The program raised TypeError" in ran.out
    assert "The end of its log" not in ran.out


def test_the_end_of_a_log_that_was_not_shown_is_shown(tao: Tao) -> None:
    ran = tao("run", "--gpus", "0", "--", "echo first; echo boom: last; exit 3")
    assert "The end of its log" in ran.out
    assert "| boom: last" in ran.out


def test_a_cancel_of_no_job_tells_no_job_to_end(ended: Ended) -> None:
    code, written = on_terminal(ended.tao, "cancel", "no-such-job-at-all")
    assert code == 3
    assert "Telling" not in written
