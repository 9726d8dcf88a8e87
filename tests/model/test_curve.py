from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tao_sdk.model.curve import panels_of
from tao_sdk.model.curve_plot import curve_text
from tao_sdk.model.curve_svg import curve_svg
from tao_sdk.model.progress import Best, EpochMetrics, Progress, telling_metrics
from tao_sdk.model.progress_reader import ProgressReader

SVG = "{http://www.w3.org/2000/svg}"


def training(epochs: int, *, of: int | None = None) -> Progress:
    reader = ProgressReader()
    for n in range(1, epochs + 1):
        reader.feed(
            (
                f"epoch {n}/{of or epochs} loss {2 / n:.4f} val_loss {2.2 / n:.4f} accuracy "
                f"{1 - 0.5 / n:.4f}\n"
            ).encode()
        )
    return reader.progress


def of_values(values: list[float]) -> Progress:
    history = tuple(EpochMetrics(n, {"loss": value}) for n, value in enumerate(values, 1))
    return Progress(
        epoch=len(values),
        metrics=history[-1].metrics,
        history=history,
        best=Best(1, "loss", values[0]),
    )


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def lines(svg: str) -> list[list[tuple[float, float]]]:
    drawn = [
        path.get("d", "")
        for path in ElementTree.fromstring(svg).iter(f"{SVG}path")
        if "line" in path.get("class", "")
    ]
    return [
        [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)]
        for path in drawn
    ]


def test_the_picture_names_its_curves_their_last_values_and_the_best_epoch():
    said = texts(curve_svg(training(20)))
    assert {
        "val_loss 0.11",
        "loss 0.1",
        "accuracy 0.975",
        "best 0.975 in epoch 20",
        "epoch",
    } <= set(said)


def test_a_loss_goes_down_and_an_accuracy_up():
    val_loss, loss, accuracy = lines(curve_svg(training(20)))
    assert val_loss[0][1] < val_loss[-1][1]
    assert loss[0][1] < loss[-1][1]
    assert accuracy[0][1] > accuracy[-1][1]


def test_a_curve_has_a_point_for_every_epoch_and_leaves_room_for_those_to_come():
    whole, half = lines(curve_svg(training(20)))[0], lines(curve_svg(training(10, of=20)))[0]
    assert (len(whole), len(half)) == (20, 10)
    assert half[-1][0] == pytest.approx(whole[9][0])


def test_the_picture_needs_nothing_from_elsewhere_and_knows_the_dark():
    svg = curve_svg(training(5))
    assert "prefers-color-scheme: dark" in svg
    assert re.findall(r"https?://\S+?[\"']", svg) == ['http://www.w3.org/2000/svg"']
    assert not re.search(r"<script|<image|@import|url\(", svg)


def test_names_from_a_log_cannot_break_out_of_the_picture():
    name = 'x</text><script>alert("1")</script>&'
    history = tuple(EpochMetrics(n, {name: float(n)}) for n in (1, 2))
    svg = curve_svg(Progress(epoch=2, history=history))
    assert "<script" not in svg
    assert f"{name} 2" in texts(svg)


@pytest.mark.parametrize("odd", ["\x1b[31m", "\ud800", "\x00", "\ufffe", "\u202e", "a\nb"])
def test_letters_that_no_document_can_hold_leave_a_picture_that_can_be_read(odd: str):
    history = tuple(EpochMetrics(n, {f"acc{odd}": float(n), f"loss{odd}": 1.0 / n}) for n in (1, 2))
    svg = curve_svg(Progress(epoch=2, history=history, best=Best(2, f"acc{odd}", 2.0)))
    ElementTree.fromstring(svg.encode())
    assert odd not in svg
    broken = Progress(
        epoch=2,
        history=(EpochMetrics(1, {f"loss{odd}": 1.0}), EpochMetrics(2, {f"loss{odd}": math.nan})),
    )
    ElementTree.fromstring(curve_svg(broken).encode())


def test_before_the_first_epoch_the_picture_says_so():
    assert texts(curve_svg(Progress())) == ["No epoch has ended yet."]
    assert curve_text(Progress()) == []


@example([0.0, 5e-324])
@example([2e-320] * 3)
@example([-1e29, 1e29])
@example([3.0, 3.0])
@given(st.lists(st.floats(), min_size=1, max_size=30))
def test_any_values_make_a_picture_with_everything_inside(values: list[float]):
    svg = curve_svg(of_values(values))
    box = ElementTree.fromstring(svg).get("viewBox", "").split()
    for x, y in (point for line in lines(svg) for point in line):
        assert 0 <= x <= float(box[2])
        assert 0 <= y <= float(box[3])
    assert not re.search(r"\b(nan|inf)\b", svg)


@given(st.lists(st.floats(), min_size=1, max_size=30), st.integers(0, 200))
def test_the_plot_is_never_wider_than_it_may_be(values: list[float], width: int):
    assert all(len(line) <= width for line in curve_text(of_values(values), width))


def test_panels_stand_side_by_side_where_there_is_room():
    wide, narrow = curve_text(training(20), 100), curve_text(training(20), 50)
    assert "val_loss" in wide[0] and "accuracy" in wide[0]
    assert (len(wide), len(narrow)) == (8, 16)


def test_a_falling_loss_falls_in_the_plot():
    rows = curve_text(of_values([8.0, 4.0, 2.0, 1.0, 0.5, 0.1]), 40)[1:-1]
    filled = [[column for column, char in enumerate(row) if "⠀" < char <= "⣿"] for row in rows]
    assert min(filled[0]) < 10
    assert max(filled[-1]) == 39
    assert max(filled[0]) < max(filled[-1])


def test_the_plot_labels_its_axes():
    plot = curve_text(training(20), 50)
    assert plot[0].split() == ["val_loss", "0.11"]
    assert plot[7].split() == ["1", "epoch", "20"]


def test_what_cannot_share_an_axis_is_not_drawn_on_one():
    history = tuple(
        EpochMetrics(n, {"accuracy": 0.9, "f1": 0.8, "perplexity": 40.0}) for n in (1, 2)
    )
    ((_, series),) = panels_of(Progress(epoch=2, history=history))
    assert [some.name for some in series] == ["accuracy", "f1"]


def test_no_panel_has_more_lines_than_can_be_told_apart():
    history = tuple(EpochMetrics(n, {f"loss_{k}": 1.0 / n for k in "abcdefgh"}) for n in (1, 2, 3))
    assert len(lines(curve_svg(Progress(epoch=3, history=history)))) == 4


def test_a_value_that_diverged_does_not_press_the_rest_flat():
    ys = [y for _, y in lines(curve_svg(of_values([1.0, 0.5, math.inf, 0.25, 1e300])))[0]]
    assert len(ys) == 3
    assert max(ys) - min(ys) > 50


def test_every_line_has_its_name_in_the_legend_and_inside_the_picture():
    names = [f"val_a_rather_long_name_of_a_loss_{k}" for k in "abcd"]
    history = tuple(EpochMetrics(n, dict.fromkeys(names, 1.0 / n)) for n in (1, 2, 3))
    svg = curve_svg(Progress(epoch=3, history=history))
    assert len(lines(svg)) == 4
    assert all(any(said.startswith(name[:39]) for said in texts(svg)) for name in names)


def test_the_total_loss_comes_before_its_parts():
    metrics = {"box_loss": 1.0, "class_loss": 0.5, "total_loss": 1.5, "mAP": 0.3}
    assert telling_metrics(Progress(epoch=1, metrics=metrics)) == ["total_loss", "mAP"]
    assert telling_metrics(Progress(metrics={"bbox_loss": 1.0, "loss": 2.0})) == ["loss"]


def test_the_metric_on_the_screen_is_the_one_by_which_the_best_epoch_is_chosen():
    seen = Progress(epoch=2, metrics={"accuracy": 0.5, "f1": 0.7}, best=Best(2, "f1", 0.7))
    assert telling_metrics(seen) == ["f1"]


def test_an_epoch_of_nan_stands_in_the_picture_although_later_ones_are_finite():
    reader = ProgressReader()
    for n, loss in enumerate(["1.0", "0.5", "nan", "0.4", "0.3"], 1):
        reader.feed(f"epoch {n}/5 loss {loss}\n".encode())
    assert reader.progress.not_finite == ()
    assert "NaN in epoch 3" in texts(curve_svg(reader.progress))
    assert "NaN in epoch 3: loss" in curve_text(reader.progress)
    read_back = Progress.from_json(reader.progress.to_json())
    assert "NaN in epoch 3" in texts(curve_svg(read_back))
    later = ProgressReader(read_back)
    later.feed(b"epoch 6/6 loss nan\nepoch 7/7 loss 0.2\n")
    assert "NaN in epoch 3" in texts(curve_svg(later.progress))


def test_where_a_loss_became_nan_stands_in_the_picture():
    reader = ProgressReader()
    for n, loss in enumerate(["1.0", "0.5", "nan", "nan"], 1):
        reader.feed(f"epoch {n}/9 loss {loss}\n".encode())
    assert "NaN in epoch 3" in texts(curve_svg(reader.progress))
    assert "NaN in epoch 3: loss" in curve_text(reader.progress)


def test_a_loss_that_was_never_a_number_is_told_too():
    reader = ProgressReader()
    for n in (1, 2):
        reader.feed(f"epoch {n}/9 loss nan\n".encode())
    assert any("NaN in epoch 1: loss" in said for said in texts(curve_svg(reader.progress)))


def test_the_picture_of_a_log_without_epochs_counts_its_steps():
    reader = ProgressReader()
    reader.feed(b"".join(b"step %d00/900 loss 0.%d\n" % (n, 9 - n) for n in range(1, 6)))
    reader.feed(b"step 600/900 loss nan\n")
    said = texts(curve_svg(reader.progress))
    assert {"step", "100", "best 0.4 in step 500", "NaN in step 600"} <= set(said)
    assert any(line.endswith("step 500") for line in curve_text(reader.progress))


def test_the_picture_of_a_log_that_counts_from_zero_has_its_numbers():
    reader = ProgressReader()
    reader.feed(b"".join(b"epoch %d/4 acc 0.%d\n" % (n, n + 1) for n in range(4)))
    said = texts(curve_svg(reader.progress))
    assert {"0", "3", "best 0.4 in epoch 3"} <= set(said)
    assert "4" not in said
