from __future__ import annotations

import json
import math
import re
import tracemalloc
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tao_sdk.model import progress_lines
from tao_sdk.model.metric_names import smaller_is_better
from tao_sdk.model.progress import (
    Best,
    EpochMetrics,
    Progress,
    crossed_milestones,
    not_finite_words,
    richer_progress,
)
from tao_sdk.model.progress_lines import LineReader
from tao_sdk.model.progress_reader import HISTORY, ProgressReader

TEN_EPOCHS = "".join(
    f"epoch {n}/10  loss {1 / n:.3f}  accuracy {1 - 0.5 / n:.3f}\n" for n in range(1, 11)
).encode()


def read(*lines: str) -> Progress:
    reader = ProgressReader()
    reader.feed("".join(f"{line}\n" for line in lines).encode())
    return reader.progress


def epochs(updates: list[Progress]) -> list[int]:
    return [update.epoch for update in updates]


def test_every_epoch_is_reported_once_and_in_order_when_many_arrive_at_once():
    updates = ProgressReader().feed(TEN_EPOCHS)
    assert epochs(updates) == list(range(1, 11))
    assert [update.metrics["loss"] for update in updates] == [round(1 / n, 3) for n in range(1, 11)]


MIXED = b"""num_epochs: 7
Epoch 1/7\r1/9 - loss: 0.9\r5/9 - loss: 0.7\r9/9 - loss: 0.8 - accuracy: 0.5
Epoch 2/7\r1/9 - loss: 0.4\r9/9 - loss: 0.6 - accuracy: 0.6
epoch 1 val_loss 0.85
accuracy: 0.61
{"epoch": 3, "max_epoch": 7, "eta": "0:04:24", "kpi": {"val_accuracy": 0.7}}
Epoch 5/7 loss nan
metrics: loss 0.3
"""


@pytest.mark.slow
@given(st.lists(st.integers(0, len(MIXED)), max_size=20))
def test_the_lines_of_one_epoch_mean_the_same_together_and_apart(cuts: list[int]):
    reader = ProgressReader()
    for begin, end in pairwise([0, *sorted(cuts), len(MIXED)]):
        reader.feed(MIXED[begin:end])
    assert reader.progress == ProgressReader().feed(MIXED)[-1]
    assert [entry.epoch for entry in reader.progress.history] == [1, 2, 3, 5]
    assert reader.progress.history[0].metrics == {"loss": 0.8, "accuracy": 0.5, "val_loss": 0.85}
    assert reader.progress.history[1].metrics == {"loss": 0.6, "accuracy": 0.61}


@given(st.lists(st.integers(0, len(TEN_EPOCHS)), max_size=40))
def test_where_the_stream_is_cut_changes_nothing(cuts: list[int]):
    reader = ProgressReader()
    edges = [0, *sorted(cuts), len(TEN_EPOCHS)]
    updates = [
        update for begin, end in pairwise(edges) for update in reader.feed(TEN_EPOCHS[begin:end])
    ]
    assert epochs(updates) == list(range(1, 11))
    assert reader.progress == ProgressReader().feed(TEN_EPOCHS)[-1]


def test_a_chunk_that_says_nothing_new_reports_nothing():
    reader = ProgressReader()
    reader.feed(TEN_EPOCHS)
    assert reader.feed(b"saving model_epoch_010.npz\n") == []
    assert reader.feed(b"epoch 10/10  loss 0.100  accuracy 0.950\n") == []


def test_every_multiple_crossed_between_two_looks_is_a_milestone():
    assert list(crossed_milestones(9, 11, 10)) == [10]
    assert list(crossed_milestones(11, 21, 10)) == [20]
    assert list(crossed_milestones(0, 31, 10)) == [10, 20, 30]
    assert list(crossed_milestones(10, 19, 10)) == []


@pytest.mark.parametrize(
    ("line", "epoch", "total", "metrics"),
    [
        ("epoch 14/20  loss 0.093  accuracy 0.957", 14, 20, {"loss": 0.093, "accuracy": 0.957}),
        ("Epoch 3/20", 3, 20, {}),
        ("epoch 3 of 20", 3, 20, {}),
        ("epoch: 3", 3, None, {}),
        ("Epoch 3: loss=0.1", 3, None, {"loss": 0.1}),
        ("Epoch [3/20], Step [100/600], Loss: 0.2500", 3, 20, {"loss": 0.25}),
        ("Epoch: [3][ 10/100]  Time 0.1 (0.2)  Loss 1.5e-01 (2.0e-01)", 3, None, {"loss": 0.15}),
        ("Train Epoch: 9 [4200/60000 (7%)]\tLoss: 0.345", 9, None, {"loss": 0.345}),
        ("Epoch 00003: val_loss improved from 0.2 to 0.1, saving model", 3, None, {}),
        (
            "| epoch 003 | valid on 'valid' subset | loss 4.125 | ppl 17.45",
            3,
            None,
            {"loss": 4.125, "ppl": 17.45},
        ),
        (
            "Epoch(val) [4][50/50]  accuracy/top1: 95.5  data_time: 0.2",
            4,
            None,
            {"accuracy/top1": 95.5},
        ),
        ("{'loss': 0.25, 'learning_rate': 5e-05, 'epoch': 2.5}", 3, None, {"loss": 0.25}),
        ("{'loss': 1.2, 'epoch': 0.5}", 1, None, {"loss": 1.2}),
        ("{'loss': '1.2', 'grad_norm': '0.3', 'epoch': '2.0'}", 2, None, {"loss": 1.2}),
        (
            "Epoch 4:  50%|█████     | 50/100 [00:05<00:05, 10.0it/s, v_num=0, train_loss=0.512]",
            5,
            None,
            {"train_loss": 0.512},
        ),
        ("INFO:root:2026-11-21 epoch=7 val_loss=0.125 lr=1e-4", 7, None, {"val_loss": 0.125}),
        ("\x1b[32mEpoch 5/9\x1b[0m mAP: 0.41 mIoU=0.5", 5, 9, {"mAP": 0.41, "mIoU": 0.5}),
        (
            "Epoch 2: Test set: Average loss: 0.05, Accuracy: 9800/10000 (98%)",
            2,
            None,
            {"loss": 0.05, "accuracy": 0.98},
        ),
    ],
)
def test_the_epoch_lines_of_common_trainers_are_read(
    line: str, epoch: int, total: int | None, metrics: dict[str, float]
):
    seen = read(line)
    assert (seen.epoch, seen.epochs, dict(seen.metrics)) == (epoch, total, metrics)


@pytest.mark.parametrize(
    "line",
    [
        "will train until epoch 30",
        "max_epochs=20",
        "steps per epoch: 100",
        "time_per_epoch: 3",
        "saving a checkpoint every 5 epochs",
        "epoch: 1732167600",
        "best epoch: 17",
        "epochal 3",
        "loss_weight: 2.0",
        "",
        '@tao {"event": "epoch 3/20"}',
    ],
)
def test_what_only_resembles_an_epoch_is_not_one(line: str):
    assert read(line).epoch == 0
    assert read(line).metrics == {}


def test_how_many_epochs_there_will_be_is_taken_from_the_settings_that_a_job_prints():
    seen = read("num_epochs: 40", "epoch 3  loss 0.5")
    assert (seen.epoch, seen.epochs, seen.fraction) == (3, 40, 3 / 40)


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("epoch 1/3 loss 2", {"loss": 2.0}),
        ("epoch 1/3  loss 2  accuracy 1", {"loss": 2.0, "accuracy": 1.0}),
        ("epoch 1/3, loss 2, accuracy 0.5", {"loss": 2.0, "accuracy": 0.5}),
        ("[epoch 1 | loss 12 | mAP 0]", {"loss": 12.0, "mAP": 0.0}),
        ("epoch 1/3 top 5 accuracy 0.25", {"accuracy": 0.25}),
        ("epoch 1/3 loss 2 batches were skipped", {}),
        ("epoch 1/3 loader error 404", {}),
    ],
)
def test_a_whole_number_beside_an_epoch_is_a_value(line: str, metrics: dict[str, float]):
    assert read(line).metrics == metrics


def test_a_whole_number_in_prose_is_no_value():
    assert read("epoch 1/3 loss 0.5", "the accuracy 5 of them had").metrics == {"loss": 0.5}


def test_metrics_on_lines_of_their_own_belong_to_the_epoch_that_is_open():
    seen = read(
        "Epoch 1/2",
        " 1/45 [>.....] - ETA: 12s - loss: 2.3000",
        "45/45 [=====] - 1s 5ms/step - loss: 0.9000 - accuracy: 0.80 - "
        "val_loss: 1.0 - val_accuracy: 0.7",
        "Epoch 2/2",
        "45/45 [=====] - 1s 5ms/step - loss: 0.5000 - accuracy: 0.90 - "
        "val_loss: 0.6 - val_accuracy: 0.8",
    )
    assert [entry.metrics["loss"] for entry in seen.history] == [0.9, 0.5]
    assert seen.best == Best(2, "val_accuracy", 0.8)


def test_a_progress_bar_redrawn_with_carriage_returns_counts_its_epochs_from_one():
    bars = [(
        f"\rEpoch {n}: {share:3}%|###   | {share}/100 [00:01<00:09, 9.9it/s, "
        f"train_loss={1 - n / 10 - share / 1000:.3f}]"
    )
            for n in range(3) for share in (0, 50, 100)]  # fmt: skip
    reader = ProgressReader()
    updates = [update for bar in bars for update in reader.feed(bar.encode())] + reader.end()
    assert list(dict.fromkeys(epochs(updates))) == [1, 2, 3]
    assert reader.progress.counts_from_zero
    assert [entry.metrics["train_loss"] for entry in reader.progress.history] == [0.9, 0.8, 0.7]


def test_epochs_counted_from_zero_never_pass_the_total():
    logs = [[f"Epoch {n}/24" for n in range(last + 1)] for last in (0, 10, 23, 24)]
    seen = [read(*log, log[-1]) for log in logs]
    assert [progress.epoch for progress in seen] == [1, 11, 24, 25]
    assert [progress.epochs for progress in seen] == [24, 24, 24, 25]
    assert [(progress.number, progress.total) for progress in seen] == [
        (0, 24), (10, 24), (23, 24), (24, 24),
    ]  # fmt: skip


def status(**fields: object) -> str:
    return json.dumps(
        {"date": "11/21/2026", "time": "5:4:3", "status": "RUNNING", "verbosity": "INFO", **fields}
    )


def test_tao_status_lines_give_epoch_metrics_and_the_time_left():
    seen = read(
        status(status="STARTED", message="Starting Training Loop."),
        status(epoch=3, max_epoch=20, time_per_epoch="0:00:10.5", eta="0:02:58.500000", lr=0.001,
               graphical={"loss": 0.5}, kpi={"val_accuracy": 0.9, "mean average precision": 0.4}),
        status(message="Evaluation finished.", kpi={"val_accuracy": 0.91}),
    )  # fmt: skip
    assert (seen.epoch, seen.epochs, seen.eta_seconds) == (3, 20, 178.5)
    assert seen.metrics == {"loss": 0.5, "val_accuracy": 0.91, "mean average precision": 0.4}


@pytest.mark.parametrize(
    ("told", "seconds"), [("0:06", 6), ("0:04:24", 264), ("1 day, 2:00:00", 93600), (12.5, 12.5)]
)
def test_the_time_left_is_read_however_it_is_written(told: object, seconds: float):
    assert read(status(epoch=1, eta=told)).eta_seconds == seconds


def test_the_time_left_is_estimated_where_the_job_does_not_tell_it():
    reader = ProgressReader()
    reader.feed(b"epoch 1/10 loss 0.9\nepoch 2/10 loss 0.8\n", at=100.0)
    assert reader.progress.eta_seconds is None
    reader.feed(b"epoch 4/10 loss 0.7\n", at=106.0)
    assert reader.progress.eta_seconds == 18.0


def test_a_job_that_tells_the_time_left_is_believed():
    reader = ProgressReader()
    reader.feed(b"epoch 1/10 eta: 0:50\n", at=0.0)
    reader.feed(b"epoch 2/10 eta: 0:40\n", at=500.0)
    assert reader.progress.eta_seconds == 40.0


def test_the_best_epoch_is_the_one_of_the_largest_accuracy_or_of_the_smallest_loss():
    accuracies = read("epoch 1 accuracy 0.8", "epoch 2 accuracy 0.95", "epoch 3 accuracy 0.9")
    losses = read("epoch 1 val_loss=0.8", "epoch 2 val_loss=0.5", "epoch 3 val_loss=0.6")
    assert accuracies.best == Best(2, "accuracy", 0.95)
    assert losses.best == Best(2, "val_loss", 0.5)


def test_of_equally_good_epochs_the_first_is_the_best():
    assert read("epoch 1 accuracy 0.9", "epoch 2 accuracy 0.9").best_epoch == 1


def test_a_value_halfway_through_an_epoch_is_not_its_result():
    seen = read(
        "Epoch 1/3", "loss: 0.5", "loss: 0.9", "Epoch 2/3", "loss: 0.8", "Epoch 3/3", "loss: 0.85"
    )
    assert seen.best == Best(2, "loss", 0.8)


def test_a_final_test_score_does_not_displace_the_metric_of_the_run():
    seen = read(*[f"epoch {n} accuracy {0.5 + n / 10}" for n in (1, 3, 2)], "test accuracy 0.61")
    assert seen.best == Best(3, "accuracy", 0.8)
    assert seen.metrics["test_accuracy"] == 0.61


def test_late_news_of_an_earlier_epoch_goes_to_that_epoch():
    seen = read("epoch 3/9 loss 0.3", "epoch 4/9 loss 0.2", "epoch 3 val_loss 0.35")
    assert seen.epoch == 4
    assert seen.metrics == {"loss": 0.2}
    assert seen.history == (
        EpochMetrics(3, {"loss": 0.3, "val_loss": 0.35}),
        EpochMetrics(4, {"loss": 0.2}),
    )


@pytest.mark.parametrize(
    "metric",
    ["loss", "val_loss", "box_error", "WER", "test_cer", "perplexity", "rmse", "time", "clsloss"],
)
def test_less_is_better_for_errors_and_costs(metric: str):
    assert smaller_is_better(metric)


@pytest.mark.parametrize(
    "metric", ["accuracy", "mAP", "val_acc", "IoU", "answer_score", "power", "f1"]
)
def test_more_is_better_for_scores(metric: str):
    assert not smaller_is_better(metric)


def test_a_loss_that_became_nan_is_named_and_not_shown_as_its_last_value():
    seen = read("epoch 1/3 loss 0.5 accuracy 0.8", "epoch 2/3 loss nan accuracy 0.7")
    assert seen.not_finite == ("loss",)
    assert seen.metrics == {"accuracy": 0.7}
    assert json.loads(json.dumps(seen.to_json(), allow_nan=False))["not_finite"] == ["loss"]


def test_a_metric_that_recovers_is_no_longer_named():
    assert read("epoch 1 loss nan", "epoch 2 loss 0.5").not_finite == ()
    assert read(
        status(epoch=1, kpi={"loss": math.inf}), status(epoch=2, kpi={"loss": 1.5})
    ).metrics == {"loss": 1.5}


@given(st.binary(max_size=400))
def test_garbage_is_survived_and_the_next_line_is_read(garbage: bytes):
    reader = ProgressReader()
    reader.feed(garbage)
    reader.feed(b"\nepoch 9999999 loss 0.5\n")
    assert reader.progress.epoch == 9999999


@pytest.mark.parametrize(
    "line",
    [
        "{" + '"a":[' * 20_000,
        '{"epoch": 1e999, "kpi": {"loss": 1}}',
        '{"epoch": "three", "kpi": [1], "graphical": null}',
        '{"epoch": -4, "max_epoch": 0}',
        '{"epoch": ' + "9" * 6000 + "}",
        "epoch " + " " * 30_000 + "3",
        "loss" * 12_000,
        "epoch " * 10_000,
        "loss 1" * 10_000,
        "epoch\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    ],
)
def test_hostile_lines_neither_raise_nor_become_progress(line: str):
    assert read(line).epoch == 0


def test_a_gigabyte_without_a_line_end_takes_no_memory():
    reader = ProgressReader()
    piece = b"x" * (1 << 20)
    tracemalloc.start()
    reader.feed(b"\n" + piece)
    for _ in range(1024):
        reader.feed(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    assert epochs(reader.feed(b"\nepoch 1/2\n")) == [1]


def test_a_long_run_keeps_a_bounded_history_that_spans_all_of_it_and_the_true_best():
    reader = ProgressReader()
    for n in range(1, 5001):
        reader.feed(f"epoch {n} accuracy {0.99 if n == 1234 else 0.5}\n".encode())
    history = reader.progress.history
    gaps = [later.epoch - earlier.epoch for earlier, later in pairwise(history)]
    assert len(history) <= HISTORY
    assert (history[0].epoch, history[-1].epoch) == (1, 5000)
    assert max(gaps) <= 32
    assert reader.progress.best == Best(1234, "accuracy", 0.99)


def test_progress_survives_json_and_a_new_reader_goes_on_from_it():
    first, second = TEN_EPOCHS[: len(TEN_EPOCHS) // 2], TEN_EPOCHS[len(TEN_EPOCHS) // 2 :]
    line_end = first.rindex(b"\n") + 1
    reader = ProgressReader()
    reader.feed(first[:line_end])
    stored = json.loads(json.dumps(reader.progress.to_json()))
    assert Progress.from_json(stored) == reader.progress
    resumed = ProgressReader(Progress.from_json(stored))
    resumed.feed(first[line_end:] + second)
    assert resumed.progress == ProgressReader().feed(TEN_EPOCHS)[-1]


def test_nothing_stored_is_no_progress():
    assert Progress.from_json({}) == Progress()


def test_of_two_streams_the_one_that_is_further_is_told():
    ahead, behind = read("epoch 4/9 loss 0.5"), read("epoch 3/9 loss 0.5 accuracy 0.6")
    assert richer_progress(behind, ahead) is ahead
    assert (
        richer_progress(ahead, read("epoch 4/9 loss 0.5 accuracy 0.6")).metrics["accuracy"] == 0.6
    )


def test_metrics_of_a_thousand_classes_are_bounded():
    assert len(read(status(epoch=1, kpi={f"ap_{n}": 0.5 for n in range(1000)})).metrics) == 64


@pytest.mark.parametrize(
    ("line", "step", "steps", "metrics"),
    [
        ("step 100 loss 1.23", 100, None, {"loss": 1.23}),
        ("step 200/1000 loss 0.5", 200, 1000, {"loss": 0.5}),
        ("iter 10: loss 2.3, time 12ms, mfu 3.45%", 10, None, {"loss": 2.3}),
        (
            "step 250: train loss 2.3012, val loss 2.4",
            250,
            None,
            {"train_loss": 2.3012, "val_loss": 2.4},
        ),
        (
            "Iter(train) [  100/40000]  lr: 1e-2  eta: 3:00:00  time: 0.3  loss: 1.25",
            100,
            40000,
            {"loss": 1.25},
        ),
        (
            " iteration   100/  5000 | lm loss: 6.2E+00 | loss scale: 4096.0 |",
            100,
            5000,
            {"loss": 6.2},
        ),
        ("eta: 1:00:00  iter: 19  total_loss: 2.9  time: 0.5", 19, None, {"total_loss": 2.9}),
        (
            "  10%|█         | 100/1000 [00:10<01:30, 9.91it/s, loss=0.512]",
            100,
            1000,
            {"loss": 0.512},
        ),
        (
            "[10]\ttrain-rmse:0.51\ttest-rmse:0.62",
            10,
            None,
            {"train-rmse": 0.51, "test-rmse": 0.62},
        ),
        ('{"step": 300, "loss": 0.25, "lr": 0.1}', 300, None, {"loss": 0.25}),
        ("{'step': 300, 'loss': 0.25}", 300, None, {"loss": 0.25}),
        ("step=0, loss=4.2", 0, None, {"loss": 4.2}),
        ("train_step 100 | loss 0.5", 100, None, {"loss": 0.5}),
    ],
)
def test_of_a_log_without_epochs_the_step_of_its_metrics_is_read(
    line: str, step: int, steps: int | None, metrics: dict[str, float]
):
    seen = read(line)
    assert (seen.epoch, seen.step, seen.steps) == (0, step, steps)
    assert seen.metrics == metrics


def test_the_best_step_and_the_steps_of_a_curve_are_kept():
    seen = read(*[f"step {n}00/500 val_loss {abs(n - 3) + 0.5}" for n in range(1, 6)])
    assert seen.best == Best(0, "val_loss", 0.5, 300)
    assert [(entry.epoch, entry.step) for entry in seen.history] == [
        (0, step) for step in (100, 200, 300, 400, 500)
    ]
    assert (seen.best_epoch, seen.unit, seen.number, seen.total, seen.fraction) == (
        None, "step", 500, 500, 1.0,
    )  # fmt: skip


def test_steps_that_begin_anew_show_what_is_newest():
    seen = read("step 10 loss 0.5", "step 20 loss 0.4", "step 10 loss 0.3")
    assert (seen.step, seen.metrics) == (10, {"loss": 0.3})
    assert [entry.step for entry in seen.history] == [10]


def test_steps_of_an_evaluation_are_not_those_of_the_training():
    seen = read(
        "step 400 loss 0.5",
        "eval step 10 loss 0.6",
        "Validation:  50%|█████     | 5/10 [00:01<00:01, 9.91it/s, val_loss=0.7]",
    )
    assert (seen.step, seen.metrics["val_loss"]) == (400, 0.7)


def test_an_epoch_counts_more_than_the_steps_before_it():
    seen = read("step 10 loss 0.5", "step 20 loss nan", "epoch 1 loss 0.3", "step 90 loss 0.2")
    assert (seen.epoch, seen.step, seen.metrics) == (1, None, {"loss": 0.2})
    assert seen.history == (EpochMetrics(1, {"loss": 0.2}),)
    assert seen.best == Best(1, "loss", 0.2)


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("accuracy: 0.93", {"accuracy": 0.93}),
        ("Test accuracy 93.1%", {"test_accuracy": 93.1}),
        ("Test accuracy: 93%", {"test_accuracy": 93.0}),
        ("test_loss=0.31 test_acc=0.9", {"test_loss": 0.31, "test_acc": 0.9}),
        ("2026-11-21 10:00:00,123 - INFO - Final accuracy = 0.93", {"accuracy": 0.93}),
        (
            "Test set: Average loss: 0.05, Accuracy: 9800/10000 (98%)",
            {"loss": 0.05, "accuracy": 0.98},
        ),
        ("Accuracy of the network on the 10000 test images: 55 %", {"test_accuracy": 55.0}),
        ("eval_loss: 0.5", {"eval_loss": 0.5}),
        ("mAP: 0.41", {"mAP": 0.41}),
        (
            "│        test_acc         │    0.9312000274658203     │",
            {"test_acc": 0.9312000274658203},
        ),
        ("        val_loss             0.2134", {"val_loss": 0.2134}),
    ],
)
def test_an_evaluation_without_an_epoch_is_read(line: str, metrics: dict[str, float]):
    seen = read(line)
    assert seen.metrics == metrics
    assert not seen.is_counted


def test_a_final_evaluation_belongs_to_the_newest_epoch_or_step():
    by_epoch = read("epoch 1/2 loss 0.5", "epoch 2/2 loss 0.4", "Test accuracy 93.1%")
    by_step = read("step 100 loss 0.5", "Test accuracy 93.1%")
    assert by_epoch.history[-1] == EpochMetrics(2, {"loss": 0.4, "test_accuracy": 93.1})
    assert by_step.history[-1] == EpochMetrics(0, {"loss": 0.5, "test_accuracy": 93.1}, 100)


NO_METRICS = [
    "loss function: mse",
    "loss: mse",
    "precision: 16",
    "  mse: 1.0",
    "precision: 0.5",
    "loss_weight: 2.0",
    "target_accuracy: 0.95",
    "target accuracy: 0.95",
    "loss scale: 4096.0",
    "saving to /runs/val_loss=0.12.ckpt",
    "saved model_acc=0.93.pth",
    "loaded weights from /models/acc 0.93/epoch_3.pth",
    "torchmetrics acc 1.4.0",
    "iou==0.9.4",
    "accuracy: 2026-11-21",
    "map 10.30.2.1",
    "error: 404",
    "Error: 2 files were not found",
    "score: 3",
    "top: 5",
    "accuracy 5 MB",
    "dice: 12 files",
    "Best accuracy: 0.95",
    "Loading best model from ./out/checkpoint-50 (score: 0.93).",
    "Max accuracy: 93.2%",
    "f: 0.5",
    "map: 0.5",
    "step 3: download the data",
    "step 1/5 unpack 0.5 GB",
    "1 0.5 0.8",
    "|  1 | 0.5 | 0.8 |",
    '{"port": 8080, "seed": 0.5}',
    '{"precision": "16-mixed", "workers": 4}',
    "the accuracy was 0.93 in an earlier paper",
    "Downloading:  10%|█         | 100/1000 [00:10<01:30, 9.91MB/s]",
]


@pytest.mark.parametrize("line", NO_METRICS)
def test_what_is_not_surely_a_metric_is_not_read(line: str):
    assert read(line) == Progress()


@pytest.mark.parametrize(
    "line",
    [
        "loss function: mse",
        "saving to /runs/val_loss=0.12.ckpt",
        "torchmetrics acc 1.4.0",
        "Error: 2 files were not found",
        "accuracy: 2026-11-21",
        "Best accuracy: 0.95",
        "Loading best model from ./out/checkpoint-50 (score: 0.93).",
        "Restoring states from /x/epoch=7-step=400.ckpt",
        "loss scale: 4096.0",
        "accuracy: 5 MB",
        "1 0.5 0.8",
    ],
)
@pytest.mark.parametrize("known", ["epoch 3 loss 0.5", "step 30 loss 0.5"])
def test_what_is_no_metric_is_not_read_beside_epochs_or_steps_either(known: str, line: str):
    assert read(known, line) == read(known)


ROWS = [(1, 0.52, 0.83), (2, 0.41, 0.87), (3, 0.33, 0.91)]
TABLES = {
    "bars": "| epoch | loss | accuracy |\n|---|---|---|\n"
    + "".join(f"| {n:<5} | {loss} | {acc} |\n" for n, loss, acc in ROWS),
    "boxes": "┃ Epoch ┃ Loss ┃ Accuracy ┃\n"
    + "".join(f"│ {n}/3   │ {loss} │ {acc}     │\n" for n, loss, acc in ROWS),
    "commas": "epoch,loss,accuracy,lr\n"
    + "".join(f"{n},{loss},{acc},0.001\n" for n, loss, acc in ROWS),
    "columns": "  epoch    loss    accuracy     time\n-------  ------  ----------  -------\n"
    + "".join(f"      {n}  \x1b[36m{loss}\x1b[0m  {acc}      00:12\n" for n, loss, acc in ROWS),
    "blanks": "epoch loss accuracy\n" + "".join(f"{n} {loss} {acc}\n" for n, loss, acc in ROWS),
    "bar behind": "   Epoch   GPU_mem   Loss   Accuracy   Size\n"
    + "".join(
        f"     {n}/3     2.61G   {loss}   {acc}   640: 100%|████| 8/8 [00:02<00:00, 3.9it/s]\n"
        for n, loss, acc in ROWS
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_rows_of_a_table_are_read_by_its_header(kind: str):
    reader = ProgressReader()
    for line in TABLES[kind].splitlines(keepends=True):
        reader.feed(line.encode())
    seen = reader.progress
    assert [entry.epoch for entry in seen.history] == [1, 2, 3]
    assert seen.history[1].metrics == {"loss": 0.41, "accuracy": 0.87}
    assert seen.best == Best(3, "accuracy", 0.91)


def test_a_table_of_steps_counts_steps():
    seen = read("Step | Training Loss | Validation Loss", "500 | 0.5 | 0.61", "1000 | 0.4 | 0.55")
    assert (seen.epoch, seen.step) == (0, 1000)
    assert seen.metrics == {"training_loss": 0.4, "validation_loss": 0.55}


def test_numbers_below_a_table_that_are_no_rows_of_it_are_left():
    table = ["epoch loss accuracy", "1 0.5 0.8"]
    seen = read(*table)
    for line in ("90 5 5", "2 0.4", "2 0.4 0.9 0.1", "2.5 0.4 0.9", "total 0.4 0.9"):
        assert read(*table, line) == seen


def test_a_second_table_replaces_the_first():
    seen = read("epoch,loss", "1,0.5", "epoch,wer", "2,0.4")
    assert seen.metrics == {"loss": 0.5, "wer": 0.4}


LOGS_BESIDE_EPOCHS = {
    **TABLES,
    "steps": "".join(f"step {n}0/500 loss {1 / n:.3f}\n" for n in range(1, 9)),
    "steps and an epoch": "step 5 loss 0.5\nloss: nan\nepoch 0/2 loss 0.4\nEpoch 2/2 loss 0.3\n",
    "an evaluation": "accuracy: 0.5\nstep 3 loss nan\nstep 4 loss 0.5\nTest accuracy 93.1%\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOGS_BESIDE_EPOCHS)
@given(data=st.data())
def test_tables_and_steps_mean_the_same_in_pieces_to_readers_that_follow_one_another(
    kind: str, data: st.DataObject
):
    log = LOGS_BESIDE_EPOCHS[kind].encode()
    cuts = data.draw(st.lists(st.integers(0, len(log)), max_size=8))
    alone, last = ProgressReader(), ProgressReader()
    alone.feed(log)
    for begin, end in pairwise([0, *sorted(cuts), len(log)]):
        stored = json.loads(json.dumps(last.progress.to_json()))
        last = ProgressReader(Progress.from_json(stored), last.unfinished)
        last.feed(log[begin:end])
    assert last.progress == alone.progress


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("epoch 1 loss 0.5", "epoch 2 loss nan"), "loss is NaN or infinite from epoch 2 on"),
        (("epoch 0 loss 0.5", "epoch 1 loss nan"), "loss is NaN or infinite from epoch 1 on"),
        (("step 10 loss 0.5", "step 20 loss inf"), "loss is NaN or infinite from step 20 on"),
        (("test accuracy: nan",), "test_accuracy is NaN or infinite"),
        (("epoch 1 loss nan", "epoch 2 loss 0.5"), ""),
    ],
)
def test_a_metric_that_is_no_number_is_named_with_where_it_began(
    lines: tuple[str, ...], words: str
):
    assert not_finite_words(read(*lines)) == words


LIKE_EACH_OTHER = [
    "epoch 0/0  loss 0.000  top0 00.0",
    "Epoch 0:  00%|████▌     | 0/00 [00:00<00:00, loss=0.000, v_num=0]",
    "{'loss': 0.0000, 'learning_rate': 0e-00, 'epoch': 0.00}",
    '{"epoch": 0, "max_epoch": 00, "kpi": {"val_accuracy": 0.00}}',
    "\x1b[00mEpoch(val) [0][00/00]\x1b[0m  eta: 0:00:00  top0_acc: 0.0000  f0: 0.00",
    "num_epochs: 00",
    "best epoch 0, waits until epoch 00 [wer: 0/00]",
    "step 0 loss: 0.00 eta 0 days, 00:00:00",
]


def with_digits(kind: str, random: Random) -> bytes:
    return re.sub("0", lambda _: random.choice("0123456789"), kind).encode()


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(LIKE_EACH_OTHER), st.randoms(use_true_random=False)), max_size=12
    ),
    st.booleans(),
)
def test_a_line_means_the_same_whatever_lines_of_its_kind_were_read_before(
    kinds, epoch_known: bool
):
    lines = [with_digits(kind, random) for kind, random in kinds]
    reader = LineReader()
    assert [reader.read(line, epoch_known) for line in lines] == [
        LineReader().read(line, epoch_known) for line in lines
    ]


def test_what_lines_that_differ_in_digits_say_is_searched_for_once(monkeypatch: pytest.MonkeyPatch):
    searched: list[str] = []
    search = progress_lines.shape_of_text
    monkeypatch.setattr(
        progress_lines,
        "shape_of_text",
        lambda text, **more: searched.append(text) or search(text, **more),
    )
    log = "".join(
        f"epoch {n // 1000 + 1}/20  step {n % 1000:03}  loss {1 / (n + 1):.4f}\n"
        for n in range(20_000)
    )
    reader = ProgressReader()
    reader.feed(log.encode())
    assert (reader.progress.epoch, reader.progress.epochs) == (20, 20)
    assert len(searched) <= 4


@pytest.mark.slow
def test_many_epochs_in_one_piece_take_no_more_memory_than_their_lines():
    data = b"".join(b"epoch %d  loss 0.5\n" % n for n in range(1, 20_001))
    reader = ProgressReader()
    tracemalloc.start()
    updates = reader.feed(data)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(updates) == 20_000
    assert most < 100 * len(data)
    assert [len(update.history) for update in updates[:-1]] == [1] * 19_999
    assert len(updates[-1].history) > 200


ODD_LINES = [
    *LIKE_EACH_OTHER,
    "epoch 0 loss nan",
    "epochs: 0",
    "Epoch 0/0",
    "loss 0.0 accuracy nan",
    "f0 0.0",
    "sample f0 top0 of the score",
    "epoch 00 of 0 val_loss inf",
    '{"epoch": 0.0, "kpi": {"loss": NaN}}',
    '{"epoch": 0, "max_epoch": 0, "graphical": {"loss": 0.0}}',
    "Epoch 0: 00%|  | 0/00 loss=nan",
]


@st.composite
def odd_logs(draw: st.DrawFn) -> bytes:
    kinds = draw(
        st.lists(
            st.tuples(st.sampled_from(ODD_LINES), st.sampled_from("\n\r\b"), st.integers()),
            max_size=20,
        )
    )
    return b"".join(with_digits(kind, Random(seed)) + end.encode() for kind, end, seed in kinds)


@st.composite
def pieces_of_logs(draw: st.DrawFn) -> list[bytes]:
    log = draw(odd_logs())
    edges = [0, *sorted(draw(st.lists(st.integers(0, len(log)), max_size=12))), len(log)]
    return [log[begin:end] for begin, end in pairwise(edges)]


@pytest.mark.slow
@settings(max_examples=300)
@given(pieces_of_logs())
def test_an_odd_log_means_the_same_in_pieces_and_as_a_whole(pieces: list[bytes]):
    whole, reader = ProgressReader(), ProgressReader()
    whole.feed(b"".join(pieces))
    for piece in pieces:
        reader.feed(piece)
    assert reader.progress == whole.progress


def test_epochs_that_lie_at_uneven_distances_keep_an_entry_each() -> None:
    reader = ProgressReader()
    reader.feed(b"".join(b"epoch %d/20 loss 0.%d\n" % (epoch, epoch) for epoch in (1, 9, 10, 11)))
    assert [entry.epoch for entry in reader.progress.history] == [1, 9, 10, 11]


@pytest.mark.slow
@settings(max_examples=300)
@given(pieces_of_logs())
def test_readers_that_follow_one_another_come_to_what_one_alone_does(pieces: list[bytes]):
    alone, last = ProgressReader(), ProgressReader()
    alone.feed(b"".join(pieces))
    for piece in pieces:
        stored = json.loads(json.dumps(last.progress.to_json()))
        last = ProgressReader(Progress.from_json(stored), last.unfinished)
        last.feed(piece)
    assert last.progress == alone.progress


@pytest.mark.slow
@given(pieces_of_logs())
def test_the_epochs_alone_are_those_of_the_whole_progress(pieces: list[bytes]):
    reader, quick = ProgressReader(), ProgressReader()
    for piece in pieces:
        updates = reader.feed(piece)
        epochs = {update.epoch: update.metrics for update in quick.feed_epochs(piece)}
        assert epochs.items() <= {update.epoch: update.metrics for update in updates}.items()
        assert [update.epoch for update in updates][-1:] == list(epochs)[-1:]
    assert quick.progress == reader.progress


@pytest.mark.slow
def test_metrics_of_endless_names_are_bounded_in_each_epoch_and_in_all():
    reader = ProgressReader()
    names = ("".join("abcdefghij"[int(digit)] for digit in str(n)) for n in range(20_000))
    reader.feed(
        "".join(
            f"epoch {n // 100 + 1}: loss_{name} {n}.5\n" for n, name in enumerate(names)
        ).encode()
    )
    assert reader.progress.epoch == 200
    assert max(len(entry.metrics) for entry in reader.progress.history) <= 64


TRACEBACK = b"""epoch 4/10  loss 0.4  accuracy 0.8
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    train(epoch=99, loss=0, lr=0.01)
  File "train.py", line 7, in train
    accuracy = 100 * correct / totl
                               ^^^^
RuntimeError: loss: 0 is not expected here, accuracy 100
"""


def test_a_traceback_says_nothing_of_the_training():
    told = read(*TRACEBACK.decode().splitlines())
    assert (told.epoch, told.metrics) == (4, {"loss": 0.4, "accuracy": 0.8})
    assert read(*TRACEBACK.decode().splitlines(), "epoch 5/10 loss 0.3").metrics["loss"] == 0.3


@given(st.integers(0, len(TRACEBACK)))
def test_a_traceback_that_is_read_in_two_pieces_says_nothing_either(cut: int):
    first = ProgressReader()
    first.feed(TRACEBACK[:cut])
    second = ProgressReader(first.progress, first.unfinished)
    second.feed(TRACEBACK[cut:])
    assert second.progress.metrics == {"loss": 0.4, "accuracy": 0.8}


def test_an_error_that_is_a_metric_is_still_one():
    told = read("epoch 1/2 loss 0.5", "MeanError: 0.25, loss: 0.3")
    assert told.metrics["loss"] == 0.3
