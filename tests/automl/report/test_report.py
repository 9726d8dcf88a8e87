"""What a search shows: its table, picture, lines and JSON, and which parameter matters."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from support.simulated_search import SimulatedDriver, loss_of, new_search
from tao_automl.decisions import Known, Outcome
from tao_automl.report.csv_table import trials_csv
from tao_automl.report.importance import importance_of
from tao_automl.report.picture import search_svg
from tao_automl.report.summary import end_line, eta_seconds, head_line, trial_line
from tao_automl.report.terminal import search_plot
from tao_automl.report.view import SearchView, view_of
from tao_automl.space.search_block import read_parameters
from tao_automl.state import Search

SVG = "{http://www.w3.org/2000/svg}"


def searched(
    values: Callable[[Mapping[str, Any], int], Any] = lambda params, _: loss_of(params),
    space: Any = None,
    seed: int = 1,
    **settings: Any,
) -> Search:
    """A search that has ended. `values` gives each trial's loss or its values; None: it fails."""
    driver = SimulatedDriver(new_search(seed, space, **{"algorithm": "random", **settings}))
    driver.look()
    while not driver.end:
        job = next(iter(driver.live))
        found = values(driver.live[job].params, job[0])
        if found is None:
            told = {"outcome": Outcome.FAILED, "values": None, "reason": f"killed {job[0]}"}
        else:
            told = {"values": found if isinstance(found, dict) else {"val_loss": found}}
        driver.look(Known((driver.finish(job, **told),)))
    return driver.search


def shown(search: Search, **more: Any) -> SearchView:
    jobs = {trial.number: [f"first-{trial.number}-x0rt2"] for trial in search.trials}
    return view_of(search, "first-4k1m9x0rt2", "first", jobs, **more)


def rows_of(view: SearchView) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(trials_csv(view), newline="")))


def texts(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def small() -> SearchView:
    search = searched(lambda params, n: None if n == 3 else loss_of(params), max_trials=12)
    return shown(search, ended={n: 40.0 * n for n in range(1, 13)})


def test_the_table_has_a_line_for_each_trial_with_its_metrics_and_parameters(
    small: SearchView,
) -> None:
    header, *lines = trials_csv(small).splitlines()
    assert header == (
        "trial,job,status,val_loss,lr,layers,optimizer,momentum,epoch,proposed_by,reason"
    )
    assert lines[0] == "1,first-1-x0rt2,complete,0.46,0.001,2,adam,,,spec,"
    rows = rows_of(small)
    assert [row["trial"] for row in rows] == [str(n) for n in range(1, 13)]
    assert (rows[2]["status"], rows[2]["val_loss"], rows[2]["reason"]) == ("failed", "", "killed 3")
    for row, trial in zip(rows, small.trials, strict=True):
        assert float(row["lr"]) == trial.params["lr"]
        assert (row["momentum"] == "") == (trial.params["optimizer"] == "adam")


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "@SUM(A1)",
        "+1",
        "-2+3",
        'he said "no", twice',
        "two\nlines\r\nand more",
        "a;b,c",
        "ø→",
    ],
)
def test_a_table_with_any_words_is_read_back_and_is_no_formula(text: str) -> None:
    space = read_parameters(
        {text.replace(" ", "").replace("\r\n", "").replace("\n", ""): [text, "b"]}
    )
    search = searched(lambda params, n: None if n == 2 else n, space, max_trials=2)
    failed = replace(search.trials[1], reason=text, params={space.keys[0]: text})
    rows = rows_of(shown(search.with_trial(failed)))
    key = next(name for name in rows[1] if name.endswith(space.keys[0]))
    for cell in (rows[1]["reason"], rows[1][key]):
        assert cell.removeprefix("'") == text
        assert not cell.startswith(("=", "+", "-", "@"))


def test_a_parameter_that_is_called_like_a_metric_has_a_column_of_its_own() -> None:
    space = read_parameters({"val_loss": {"min": -1.0, "max": 1.0}, "status": ["a", "b"]})
    view = shown(searched(lambda params, _: params.get("val_loss", 0.5), space, max_trials=3))
    row = rows_of(view)[2]
    assert row["param.status"] in "ab"
    assert float(row["param.val_loss"]) == float(row["val_loss"]), "a negative number stays one"


def test_the_picture_shows_the_best_so_far_over_trials_and_time_and_each_parameter(
    small: SearchView,
) -> None:
    svg = search_svg(small)
    said = texts(svg)
    for words in ("best val_loss so far", "best val_loss over time", "minutes", "lr", "optimizer"):
        assert any(text.startswith(words) for text in said), words
    assert "prefers-color-scheme: dark" in svg
    assert "<script" not in svg
    dots = [one.get("cx", "") for one in ElementTree.fromstring(svg).iter(f"{SVG}circle")]
    sgd = sum("momentum" in trial.params for trial in small.trials if trial.value is not None)
    assert len(dots) == 5 * 11 + sgd, "a dot for each trial that has a value, in each panel"


def test_the_line_of_the_best_only_goes_down_where_less_is_better(small: SearchView) -> None:
    (path, *_) = [
        one.get("d", "") for one in ElementTree.fromstring(search_svg(small)).iter(f"{SVG}path")
        if one.get("class") == "line a"
    ]  # fmt: skip
    heights = [float(point.split()[1]) for point in path.removeprefix("M").split("L")]
    assert heights == sorted(heights), "y grows downwards"
    assert len(set(heights)) > 1


def test_the_front_is_drawn_where_there_are_several_goals() -> None:
    def both(params: Mapping[str, Any], number: int) -> dict[str, float]:
        return {"accuracy": params["x"], "latency": params["x"] ** 2 + number % 2}

    space = read_parameters({"x": {"min": 0.0, "max": 1.0, "default": 0.5}})
    view = shown(searched(both, space, objectives=["accuracy", "latency"], max_trials=12))
    assert len(view.front) > 1
    assert "accuracy and latency" in texts(search_svg(view))
    assert view.to_json()["pareto"] == [trial.number for trial in view.front]


@pytest.mark.parametrize("value", [0.5, 0.0, 1e300, math.nan, None])
def test_every_search_can_be_drawn(value: Any) -> None:
    for trials in (1, 2):
        view = shown(searched(lambda params, _: value, max_trials=trials))
        ElementTree.fromstring(search_svg(view))
        trials_csv(view)
        for line in [*search_plot(view, 40), head_line(view), trial_line(view), end_line(view)]:
            assert line.isprintable()


def test_odd_names_make_a_picture_that_can_be_read() -> None:
    space = read_parameters({'a<b&"c': ["<script>", "x\x00y"], "env.LR": {"min": 1, "max": 3}})
    search = searched(lambda params, n: float(n), space, max_trials=8)
    ElementTree.fromstring(search_svg(shown(search)))


def test_the_terminal_has_the_best_so_far_in_lines_that_fit(small: SearchView) -> None:
    lines = search_plot(small, 60)
    assert "best val_loss" in lines[0]
    assert "trial 12" in lines[-1]
    assert all(len(line) <= 60 for line in lines)
    assert search_plot(small, 10) == []


def test_the_lines_say_what_it_is_where_it_stands_and_how_it_ended(small: SearchView) -> None:
    assert head_line(small) == (
        "first-4k1m9x0rt2  random  val_loss (minimize)  12 trials, 1 at once  ·  4 parameters"
    )
    best = small.best
    assert best is not None
    line = trial_line(small)
    assert line.startswith("trial 12/12  val_loss ")
    assert f"(trial {best.number}: " in line
    end = end_line(small, 31.4)
    assert end.startswith("✓ Complete in 0:31 · val_loss ")
    assert ", as it stood 0.46 · 11 complete, 1 failed" in end
    failed = end_line(shown(searched(lambda params, _: None, max_trials=4)))
    assert failed.startswith("✗ Error · 4 failed · no trial succeeded")


def test_a_search_as_json_has_the_documented_names(small: SearchView) -> None:
    found = json.loads(json.dumps(small.to_json()))
    assert found.keys() == {
        "id", "name", "status", "message", "algorithm", "metric", "direction", "objectives", "seed",
        "counts", "trials", "best", "baseline", "pareto", "importance",
    }  # fmt: skip
    assert found["counts"] == {
        "total": 12, "running": 0, "complete": 11, "failed": 1, "stopped": 0, "waiting": 0,
    }  # fmt: skip
    assert found["trials"][0].keys() == {
        "number", "status", "job", "jobs", "params", "value", "values", "epoch", "reason",
        "proposed_by",
    }  # fmt: skip
    assert found["baseline"]["trial"] == 1
    assert found["best"]["value"] == min(
        trial["value"] for trial in found["trials"] if trial["value"] is not None
    )


def noise(seed: int) -> Callable[[Mapping[str, Any], int], float]:
    chance = random.Random(seed)
    return lambda params, _: chance.random()


def test_what_the_results_depend_on_matters_most() -> None:
    """A valley of the learning rate, a slope of the layers, and two parameters without a part."""

    def loss(params: Mapping[str, Any], number: int) -> float:
        valley = (math.log10(params["lr"]) + 3) ** 2
        return math.exp(3 * valley + 0.1 * params["layers"])  # explodes far from the valley

    space = read_parameters(
        {
            "lr": {"min": 1e-5, "max": 1e-1}, "layers": {"min": 1, "max": 8},
            "optimizer": ["adam", "sgd"], "dropout": {"min": 0.0, "max": 0.9},
        }
    )  # fmt: skip
    for seed in range(5):
        search = searched(loss, space, seed, max_trials=40, first_as_is=False)
        found = importance_of(search)
        assert next(iter(found)) == "lr"
        assert found["lr"] > 0.5
        assert found["dropout"] + found["optimizer"] < 0.3
        assert math.isclose(sum(found.values()), 1.0)


def test_a_choice_that_decides_matters_and_counts_where_it_applies() -> None:
    search = searched(lambda params, n: float(params["optimizer"] == "sgd"), max_trials=30)
    assert importance_of(search)["optimizer"] > 0.5


def test_of_very_few_trials_nothing_is_said() -> None:
    assert importance_of(searched(max_trials=5)) == {}
    assert importance_of(searched(lambda params, _: 1.0, max_trials=4)) == {}


def test_results_of_one_rung_are_compared() -> None:
    """Longer trainings are better whatever their values: that is no importance of a parameter."""
    driver = SimulatedDriver(new_search(3, algorithm="asha", max_trials=27, max_epochs=9))
    found = importance_of(driver.run())
    assert found["lr"] > 0.4


def test_the_time_that_is_left_follows_from_the_trials_that_have_ended(small: SearchView) -> None:
    numbers = small.counts
    done = numbers["complete"] + numbers["failed"] + numbers["stopped"]
    assert eta_seconds(small, 10.0 * done) == pytest.approx(10.0 * (numbers["total"] - done))
    assert eta_seconds(replace(small, trials=()), 10.0) is None
