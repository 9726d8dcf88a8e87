"""The screen of a running job, drawn from recorded bytes at every width: pure, so
no job runs here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from tao_sdk.cli import end_screen, screen, show
from tao_sdk.cli.plain_scene import PlainScene
from tao_sdk.cli.styled_line import Line, line_length, text_of
from tao_sdk.cli.wait import standing_message
from tao_sdk.client.scene import Scene
from tao_sdk.model.checkpoints import Checkpoint
from tao_sdk.model.job import Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.progress import Best, Progress
from tao_sdk.model.status import Status

BEGAN = datetime(2026, 11, 21, 5, 0, tzinfo=timezone.utc)
DIGITS = Job(
    id="digits-7f3k2q9d1x", name="digits", platform="local", status=Status.RUNNING, created=BEGAN,
    started=BEGAN,
    spec={"inputs": {"/data": "s3://b/x"}, "files": ["train.py"]},
)  # fmt: skip


def event(name: str, **facts: object) -> bytes:
    return b"@tao " + json.dumps({"event": name, "time": 1.0, **facts}).encode() + b"\n"


STARTED = (
    event("stage", stage="files")
    + event("fetched", what="files", bytes=1200)
    + event("stage", stage="inputs")
    + event("fetched", what="inputs", bytes=300_000)
    + event("stage", stage="spec")
    + event("stage", stage="command")
)
EPOCHS = [
    f"epoch {epoch}/20  loss {1 / epoch:.3f}  accuracy {1 - 0.3 / epoch:.3f}\n".encode()
    for epoch in range(1, 21)
]


def scene(*chunks: bytes, job: Job = DIGITS) -> Scene:
    made = Scene(job)
    for second, chunk in enumerate(chunks):
        made.take_log(chunk, float(second))
    return made


def lines(made: Scene, width: int = 80, at: float = 0.0) -> list[str]:
    return [text_of(line) for line in screen.scene_lines(made, width, at)]


def test_the_header_tells_each_stage_with_its_size() -> None:
    assert (
        lines(scene(STARTED))[0]
        == "digits-7f3k2q9d1x  local  ▸ files 1.2 kB  ▸ inputs 0.3 MB  ▸ running"
    )


def test_the_progress_line_is_the_documented_one() -> None:
    made = scene(STARTED, *EPOCHS[:14])
    assert (
        lines(made)[-1]
        == "epoch 14/20  loss 0.071  accuracy 0.979  ███████████████▍░░░░░░   70 %  ETA 0:06"
    )


@pytest.mark.parametrize("width", [1, 8, 20, 40, 60, 80, 200])
@pytest.mark.parametrize(
    "chunks", [(), (STARTED,), (STARTED, *EPOCHS[:7]), (STARTED, b"x" * 500 + b"\n"), tuple(EPOCHS)]
)
def test_no_line_is_wider_than_the_screen(width: int, chunks: tuple[bytes, ...]) -> None:
    waiting = replace(DIGITS, status=Status.PENDING, message="QOSMaxGRESPerUser " * 9)
    for job in (DIGITS, waiting):
        assert max(map(len, lines(scene(*chunks, job=job), width))) <= width


def test_a_narrow_screen_loses_the_bar_first_then_metrics_and_keeps_the_time_left() -> None:
    made = scene(STARTED, *EPOCHS[:14])
    assert lines(made, 57)[-1] == "epoch 14/20  loss 0.071  accuracy 0.979   70 %  ETA 0:06"
    assert lines(made, 42)[-1] == "epoch 14/20  loss 0.071   70 %  ETA 0:06"
    assert lines(made, 29)[-1] == "epoch 14/20   70 %  ETA 0:06"


def test_the_time_left_is_counted_down_between_two_epochs() -> None:
    made = scene(STARTED, *EPOCHS[:14])
    shown = [lines(made, at=14.0 + second)[-1] for second in (0, 1, 5)]
    assert [line[-4:] for line in shown] == ["0:06", "0:05", "0:01"]


def test_no_time_left_is_shown_once_it_has_run_out() -> None:
    made = scene(STARTED, *EPOCHS[:14])
    assert "ETA" in lines(made, at=14.0)[-1]
    assert "ETA" not in lines(made, at=74.0)[-1]


def test_a_job_that_may_hang_shows_since_when_no_epoch_came_and_no_time_left() -> None:
    made = scene(STARTED, *EPOCHS[:4])
    assert "ETA" in lines(made, at=5.0)[-1]
    shown = lines(made, at=18.0)[-1]
    assert "no epoch for 14s" in shown
    assert "ETA" not in shown
    made.take_log(EPOCHS[4], 19.0)
    assert "ETA" in lines(made, at=19.0)[-1]


def test_a_paused_job_has_no_time_left_and_says_that_it_is_paused() -> None:
    made = scene(STARTED, *EPOCHS[:14])
    assert "ETA" in lines(made)[-1]
    made.take_job(replace(DIGITS, status=Status.PAUSED, message="process 7 is stopped (SIGSTOP)"))
    assert "ETA" not in lines(made, at=20.0)[-1]
    assert "▸ paused  process 7 is stopped (SIGSTOP)" in lines(made, at=20.0)[0]
    made.take_job(replace(DIGITS, status=Status.RUNNING))
    assert "ETA" in lines(made)[-1]


def test_a_narrow_header_keeps_the_stage_that_is_under_way() -> None:
    assert lines(scene(STARTED), 40)[0] == "digits-7f3k2q9d1x  local  ▸ running"


def test_a_pending_job_shows_what_it_waits_for() -> None:
    job = replace(DIGITS, status=Status.PENDING, message="QOSMaxGRESPerUser")
    assert lines(scene(job=job))[0] == "digits-7f3k2q9d1x  local  ▸ pending  QOSMaxGRESPerUser"


def test_until_epochs_come_the_end_of_what_the_job_prints_is_shown_without_its_escape_codes() -> (
    None
):
    made = scene(
        STARTED,
        b"\x1b[31mred\x1b[0m\n"
        + b"".join(b"line %d\n" % n for n in range(10))
        + b"\x1b[2J\x07beep\r50%\rdone\n",
    )
    assert lines(made)[1:-1] == ["  line 7", "  line 8", "  line 9", "  beep", "  50%", "  done"]
    assert lines(scene(STARTED, *EPOCHS[:1]))[1].startswith("epoch 1/20")


def test_a_new_attempt_starts_its_stages_anew() -> None:
    made = scene(STARTED)
    made.take_job(replace(DIGITS, attempt=2))
    assert lines(made)[0] == "digits-7f3k2q9d1x  local  attempt 2  ▸ running"
    made.take_log(event("stage", stage="files") + event("fetched", what="files", bytes=1200))
    assert lines(made)[0] == "digits-7f3k2q9d1x  local  attempt 2  ▸ files 1.2 kB"


def test_warnings_of_the_job_are_shown() -> None:
    made = scene(
        STARTED,
        event(
            "warning",
            code="output.ephemeral",
            what="RESULTS WILL BE LOST",
            why="No mount.",
            next="Mount one.",
        ),
    )
    assert "  ! RESULTS WILL BE LOST. No mount. Mount one." in lines(made)


def test_a_warning_names_the_first_of_its_paths() -> None:
    made = scene(
        STARTED,
        event(
            "warning", code="output.left_out", what="5 paths left.", paths=["a", "b", "c", "d", "e"]
        ),
    )
    assert "  ! 5 paths left. a; b; c; and 2 more" in lines(made)


def test_a_log_that_is_cut_anywhere_gives_the_same_screen() -> None:
    whole = STARTED + b"".join(EPOCHS[:5])
    expected = lines(scene(whole))
    for size in (1, 2, 3, 7, 100):
        made = Scene(DIGITS)
        for start in range(0, len(whole), size):
            made.take_log(whole[start : start + size])
        assert lines(made) == expected


def plain(*chunks: bytes, at: float = 0.0) -> list[str]:
    made, told, printed = Scene(DIGITS), PlainScene(), list[str]()
    for chunk in chunks:
        printed += told.lines(made, made.take_log(chunk), at)
    made.take_job(replace(DIGITS, status=Status.COMPLETE))
    return printed + told.lines(made, made.end_log(), at)


def test_plain_lines_tell_every_stage_and_every_epoch_once() -> None:
    printed = plain(*[bytes([byte]) for byte in STARTED + b"".join(EPOCHS)])
    assert printed[:4] == ["digits-7f3k2q9d1x  local", "files 1.2 kB", "inputs 0.3 MB", "running"]
    assert [line.split()[1] for line in printed if line.startswith("epoch")] == [
        f"{epoch}/20" for epoch in range(1, 21)
    ]
    assert len(printed) == len(set(printed))


def test_plain_lines_do_not_repeat_a_head_that_was_told_before() -> None:
    assert PlainScene("digits-7f3k2q9d1x  local").lines(Scene(DIGITS)) == []


def test_plain_lines_of_a_job_that_is_seen_running_wait_for_its_log_but_not_for_ever() -> None:
    made, told = Scene(DIGITS), PlainScene()
    assert told.lines(made, [], 0.0) == ["digits-7f3k2q9d1x  local"]
    assert told.lines(made, [], 9.0) == []
    assert told.lines(made, [], 11.0) == ["running"]


def test_plain_lines_announce_a_stage_that_takes_long() -> None:
    made, told = Scene(DIGITS), PlainScene()
    begun = event("stage", stage="inputs")
    assert told.lines(made, made.take_log(begun), 0.0) == ["digits-7f3k2q9d1x  local"]
    assert told.lines(made, [], 2.0) == ["inputs ..."]
    assert told.lines(made, made.take_log(event("fetched", what="inputs", bytes=300_000)), 3.0) == [
        "inputs 0.3 MB"
    ]


def moving(size: float, **facts: object) -> bytes:
    known = {"total_bytes": 4e9, "files": 1, "total_files": 2, "rate": 85e6, "eta": 33.2}
    return event(
        "transfer", stage="outputs", what="s3://b/results/j", **{"bytes": size, **known, **facts}
    )


def test_a_transfer_shows_its_bytes_rate_and_the_time_left_until_it_is_over() -> None:
    job = replace(DIGITS, spec={"outputs": {"results_dir": {}}})
    made = scene(event("stage", stage="outputs") + moving(1.2e9), job=job)
    assert lines(made, 120)[0].endswith("▸ saving outputs 1.2 GB of 4.0 GB  85.0 MB/s  ETA 0:33")
    made.take_log(moving(1.3e9, total_bytes=-1, rate=0, eta=-1))
    assert lines(made, 120)[0].endswith("▸ saving outputs 1.3 GB")
    made.take_log(event("sent", what="outputs", bytes=4e9))
    assert lines(made, 120)[0].endswith("▸ outputs 4.0 GB")


def test_plain_lines_tell_a_transfer_now_and_then() -> None:
    made, told = scene(job=replace(DIGITS, spec={"outputs": ["o"]})), PlainScene()
    made.take_log(event("stage", stage="outputs") + moving(1e9))
    told.lines(made, [], 0.0)
    assert told.lines(made, made.take_log(moving(2e9)), 5.0)[-1:] != [
        "outputs 2.0 GB of 4.0 GB  85.0 MB/s  ETA 0:33"
    ]
    assert told.lines(made, made.take_log(moving(3e9)), 11.0) == [
        "outputs 3.0 GB of 4.0 GB  85.0 MB/s  ETA 0:33"
    ]
    assert told.lines(made, made.take_log(moving(3.1e9)), 12.0) == []


def test_plain_lines_give_an_epoch_the_values_it_ended_with() -> None:
    printed = plain(
        STARTED, b"epoch 1/2 loss 5.0\n", b"epoch 1/2 loss 4.0\n", b"epoch 2/2 loss 3.0\n"
    )
    assert [line for line in printed if line.startswith("epoch")] == [
        "epoch 1/2  loss 4.000",
        "epoch 2/2  loss 3.000",
    ]


def test_an_epoch_that_has_settled_is_told_before_the_next_one_begins() -> None:
    made, told = Scene(DIGITS), PlainScene()
    assert (
        told.lines(made, made.take_log(STARTED + b"epoch 1/9 loss 5.0\n"), 0.0)[-1]
        != "epoch 1/9  loss 5.000"
    )
    assert told.lines(made, [], 0.5) == []
    assert told.lines(made, [], 1.5) == ["epoch 1/9  loss 5.000"]
    assert told.lines(made, [], 3.0) == []


def test_plain_lines_tell_steps_ever_more_rarely_and_the_last() -> None:
    made, told = Scene(DIGITS), PlainScene()
    times, printed = list[int](), list[str]()
    for second in range(600):
        text = b"iter %d loss %.4f\n" % (second * 10, 1 / (second + 1))
        new = told.lines(made, made.take_log(text), float(second))
        times += [second] * any(line.startswith("step") for line in new)
        printed += new
    assert times[:4] == [0, 3, 8, 15] and 12 <= len(times) <= 20
    assert printed[1:3] == ["step 0  loss 1.000", "step 30  loss 0.250"]
    made.take_job(replace(DIGITS, status=Status.COMPLETE))
    assert told.lines(made, made.end_log(), 600.0) == ["step 5990  loss 0.002"]
    assert told.lines(made, [], 700.0) == []


KERAS_BAR = b"\r1/8 - accuracy: 0.90 - loss: 0.20\r8/8 - accuracy: 0.91 - loss: 0.19"
KERAS_END = b" - val_accuracy: 0.%d - val_loss: 0.%d\n"


def test_the_line_of_an_epoch_has_no_value_of_the_epoch_before() -> None:
    made, told = Scene(DIGITS), PlainScene()
    printed = list[str]()
    for epoch, last in ((1, (70, 50)), (2, (74, 45))):
        text = b"Epoch %d/3\n" % epoch + KERAS_BAR + KERAS_END % last
        printed += told.lines(made, made.take_log(text), epoch * 10.0)
    printed += told.lines(made, made.take_log(b"Epoch 3/3\n" + KERAS_BAR), 30.0)
    printed += told.lines(made, made.take_log(b"\r8/8"), 40.0)
    assert not [line for line in printed if "3/3" in line]
    printed = told.lines(made, made.take_log(KERAS_END % (86, 30)), 41.0)
    assert printed == ["epoch 3/3  val_loss 0.300  val_accuracy 0.860"]


def test_the_line_of_an_epoch_that_told_no_values_has_none() -> None:
    printed = plain(b"epoch 1/3 loss 5.0\n", b"epoch 2/3\nepoch 3/3 loss 3.0\n")
    assert "epoch 2/3" in printed


NOTHING = Progress()


def end_of(
    status: Status,
    progress: Progress = NOTHING,
    count: int = 0,
    width: int = 80,
    code: int | None = 0,
    whole: int = 99,
) -> list[str]:
    job = replace(DIGITS, status=status, exit_code=code, ended=BEGAN + timedelta(seconds=21))
    left = [
        Checkpoint(f"model_epoch_{each}.pth", 1, each, complete=each < whole)
        for each in range(count)
    ]
    return [text_of(line) for line in end_screen.end_lines(job, progress, left, width)]


def test_the_final_line_is_the_documented_one() -> None:
    progress = Progress(
        epoch=20,
        epochs=20,
        metrics={"loss": 0.05, "accuracy": 0.972},
        best=Best(17, "accuracy", 0.975),
    )
    assert end_of(Status.COMPLETE, progress, 20) == [
        "✓ Complete in 0:21 · accuracy 0.972 · 20 checkpoints, best is epoch 17 (0.975)"
    ]
    assert end_of(Status.COMPLETE, progress, 20, width=40) == [
        "✓ Complete in 0:21", "  accuracy 0.972", "  20 checkpoints, best is epoch 17 (0.975)",
    ]  # fmt: skip


def test_a_failed_and_a_canceled_job_say_so() -> None:
    assert end_of(Status.ERROR, code=137) == ["✗ Error after 0:21 · exit code 137"]
    assert end_of(Status.CANCELED, code=None) == ["■ Canceled after 0:21"]


def test_a_job_that_was_ended_says_how_many_of_its_checkpoints_are_known_to_be_whole() -> None:
    reached = Progress(epoch=6, best=Best(6, "accuracy", 0.944))
    assert end_of(Status.ERROR, reached, 6, whole=0)[0].endswith(
        "· 6 checkpoints, none known to be whole"
    )
    assert end_of(Status.CANCELED, reached, 6, whole=4)[0].endswith(
        "· 6 checkpoints, 4 known to be whole"
    )
    assert (
        "6 checkpoints, best is epoch 6 (accuracy 0.944)"
        in end_of(Status.CANCELED, reached, 6, width=100)[0]
    )


def test_places_share_a_line_where_there_is_room() -> None:
    both = [("results", "runs/digits-7f3k2q9d1x/"), ("curve", "runs/digits-7f3k2q9d1x/curve.svg")]

    def drawn(width: int) -> list[str]:
        made: list[Line] = end_screen.place_lines(both, width)
        return [text_of(line) for line in made]

    assert drawn(80) == [
        "  results  runs/digits-7f3k2q9d1x/      curve  runs/digits-7f3k2q9d1x/curve.svg"
    ]
    assert drawn(50) == [
        "  results  runs/digits-7f3k2q9d1x/",
        "  curve  runs/digits-7f3k2q9d1x/curve.svg",
    ]


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("cells", [6, 7, 22])
def test_a_bar_is_as_long_as_it_was_asked_to_be(fraction: float, cells: int) -> None:
    assert line_length(screen.progress_bar(fraction, cells)) == cells + 2


def test_who_watches_is_not_told_to_start_a_watcher_for_the_next_attempt() -> None:
    job = replace(DIGITS, status=Status.PENDING, message="(noise)", next_attempt_at=DIGITS.created)
    assert lines(scene(job=job))[0] == "digits-7f3k2q9d1x  local  ▸ pending  attempt 2 follows"


def test_who_waits_for_a_server_sees_for_which_until_something_else_is_told() -> None:
    asked = event("stage", stage="files") + event("waiting", host="127.0.0.1:1")
    made = scene(asked, job=replace(DIGITS, spec={}))
    assert lines(made, 120)[0].endswith("local  ▸ waiting for 127.0.0.1:1, which does not answer")
    plain = PlainScene()
    assert plain.lines(made)[1:] == ["waiting for 127.0.0.1:1, which does not answer"]
    assert plain.lines(made, at=60.0) == []
    made.take_log(event("stage", stage="command"))
    assert lines(made, 120)[0].endswith("local  ▸ running")


def test_who_waits_for_another_job_that_fetches_sees_for_what() -> None:
    job = replace(DIGITS, spec={"inputs": {"weights": {}}})
    made = scene(event("stage", stage="inputs") + event("waiting", what="weights"), job=job)
    assert lines(made, 120)[0].endswith("▸ inputs waiting for another job that fetches weights")
    made.take_log(event("fetched", what="inputs", bytes=1e6))
    assert lines(made, 120)[0].endswith("▸ inputs 1.0 MB")


@pytest.mark.parametrize(
    "told",
    [
        event("fetched", what="no stage", bytes=3),
        event("sent", bytes=None),
        event("transfer", stage="no stage", bytes=1, total_bytes=2),
        event("transfer", stage="inputs", bytes=None, total_bytes=None, rate=None, eta=None),
        event("transfer", stage="inputs", bytes="x", eta=float("inf")),
        event("waiting", host="a\x1b[2Jb\x07", what="c"),
        event("warning", what=None, paths=3),
        event("stage", stage=None),
        event("stage", stage={}),
        b'@tao {"event": "stage", "time": 1, "stage": ' + b"[" * 7000 + b"]" * 7000 + b"}\n",
    ],
)
def test_an_event_line_that_is_not_the_runners_does_not_end_the_screen(told: bytes) -> None:
    made = scene(
        event("stage", stage="inputs"), told, event("stage", stage="command"), told, *EPOCHS[:2]
    )
    shown = [*lines(made), *PlainScene().lines(made, at=0.0), *PlainScene().lines(made, at=99.0)]
    assert any("epoch 2/20" in line for line in shown)
    assert all(line.isprintable() for line in shown)


def test_on_a_large_terminal_the_curve_grows_and_the_time_and_the_way_out_are_told() -> None:
    made = scene(STARTED, *EPOCHS[:5])
    shown = [text_of(line) for line in screen.scene_lines(made, 80, 62.0, 30)]
    assert any("┤" in line for line in shown)
    assert shown[-1].endswith("1:02  Ctrl-C detaches, the job goes on")
    small = [text_of(line) for line in screen.scene_lines(made, 80, 62.0, 10)]
    assert not any("┤" in line for line in small)
    assert small[-1] == shown[-1]


def test_outputs_that_are_on_their_way_are_told_as_being_saved() -> None:
    made, told = Scene(replace(DIGITS, spec={"outputs": ["out"]})), PlainScene()
    made.take_log(STARTED + event("stage", stage="outputs"))
    assert "▸ saving outputs" in lines(made)[0]
    told.lines(made, [], 0.0)
    assert told.lines(made, [], 2.0) == ["saving outputs ..."]
    made.take_log(event("stage", stage="done"))
    assert "▸ outputs" in lines(made)[0]


def test_the_end_names_checkpoints_of_steps_by_their_own_names_beside_the_best_epoch() -> None:
    progress = Progress(epoch=3, epochs=3, metrics={"loss": 0.2}, best=Best(3, "eval_loss", 0.18))
    job = replace(DIGITS, status=Status.COMPLETE, exit_code=0, ended=BEGAN + timedelta(seconds=21))
    left = [
        Checkpoint(f"out/checkpoint-{n}00", 1, n, step=n * 100, is_dir=True, complete=True)
        for n in (1, 2, 3)
    ]
    assert [text_of(line) for line in end_screen.end_lines(job, progress, left, 120)] == [
        "✓ Complete in 0:21 · loss 0.200 · best eval_loss 0.180 @3 · "
        "3 checkpoints, the newest is checkpoint-300"
    ]


def test_the_screen_of_a_job_without_epochs_shows_its_steps() -> None:
    made = scene(STARTED, b"step 100/1000 loss 1.23\n")
    assert lines(made)[1].startswith("step 100/1000  loss 1.230  ██")


def test_a_job_without_epochs_that_is_waited_for_shows_its_steps() -> None:
    progress = Progress(metrics={"loss": 1.23}, step=100, steps=1000)
    job = replace(DIGITS, reading=LogReading(progress))
    assert standing_message(job, BEGAN).startswith("step  100/1000  loss 1.230")


def test_an_epoch_is_shown_by_the_number_that_the_log_gives_it() -> None:
    made = scene(STARTED, b"epoch 0/3 loss 1.5\n")
    assert lines(made)[1].startswith("epoch 0/3  loss 1.500")
    made = scene(STARTED, b"epoch 0/3 acc 0.5\nepoch 1/3 acc 0.9\nepoch 2/3 acc 0.8\n")
    assert lines(made)[1].startswith("epoch 2/3  acc 0.800")
    assert made.progress.best is not None
    assert show.best_number(made.progress, made.progress.best) == "0.900 @1"
