"""`tao run --model`: the digits model of the packaged bank, with nothing but the package."""

from __future__ import annotations

import json
import os
import re
import runpy
from collections.abc import Callable

import pytest

from support.pages import ROOT
from support.tao_command import Ran, Tao

TRAIN = ("--model", "digits", "--action", "train")
PROGRAM = ROOT / "src/tao_sdk/skill_bank/skills/models/tao-train-digits/program"


def test_a_model_is_trained_evaluated_and_resumed_without_a_path_typed(tao: Tao) -> None:
    trained = tao("run", *TRAIN, "--set", "num_epochs=2", "--name", "learn", PATH="/usr/bin:/bin")
    assert trained.code == 0, trained.err
    evaluate = ("--model", "digits", "--action", "evaluate", "--parent", "learn")
    tested = tao("run", *evaluate, "--checkpoint", "epoch:2", PATH="/usr/bin:/bin")
    assert tested.code == 0, tested.err
    assert "accuracy 0.9" in tested.out
    taken = re.search(
        r"note: evaluate\.checkpoint: (\S*002\S*), from (learn-\w+)$", tested.err, re.M
    )
    assert taken, tested.err
    refused = tao("run", *evaluate, "--checkpoint", "epoch:3")
    assert (refused.code, refused.err.splitlines()[0]) == (
        3,
        "error: There is no checkpoint of epoch 3.",
    )
    assert f"tao results {taken[2]}" in refused.err
    path = os.path.relpath(taken[1], tao.home)
    again = tao("run", "--model", "digits", "--action", "evaluate", "--checkpoint", path)
    assert again.code == 0, again.err
    tao.write("job.yaml", "model: digits\naction: evaluate\nparent: learn\n")
    assert tao("doctor", "job.yaml").code == 0
    assert tao("run", "job.yaml").code == 0
    resumed = tao("run", *TRAIN, "--set", "num_epochs=3", "--parent", "learn", "--name", "more")
    assert resumed.code == 0, resumed.err
    printed = tao("logs", "more").out.splitlines()
    assert printed[0] == "resumed after epoch 2"
    assert [line.split()[1] for line in printed if line.startswith("epoch")] == ["3/3"]


def test_the_predictions_of_a_model_are_the_digits_that_the_images_show(tao: Tao) -> None:
    trained = tao("run", *TRAIN, "--set", "num_epochs=2", "--name", "learn")
    assert trained.code == 0, trained
    ran = tao("run", "--model", "digits", "--action", "inference", "--parent", "learn")
    assert ran.code == 0, ran
    [predictions] = tao.home.rglob("predictions.csv")
    head, *lines = predictions.read_text().splitlines()
    digits = runpy.run_path(str(PROGRAM / "digits.py"))["read_digits"](PROGRAM / "digits.npz")
    shown = [f"{number},{digit}" for number, (_, digit) in enumerate(digits.test)]
    assert (head, len(lines)) == ("image,digit", len(shown))
    right = sum(line == truth for line, truth in zip(lines, shown, strict=True))
    assert right / len(shown) > 0.9
    assert f"{len(shown)} images read: predictions.csv" in ran.out


def test_a_parent_that_failed_is_refused(tao: Tao) -> None:
    tao("run", "--gpus", "0", "--name", "broken", "--", "exit 3")
    refused = tao("run", "--model", "digits", "--action", "evaluate", "--parent", "broken")
    assert refused.code == 2
    assert "is Error, not Complete" in refused.err


@pytest.mark.slow
def test_a_plan_says_where_values_came_from(typed: Callable[..., Ran]) -> None:
    ran = typed("plan", *TRAIN, "--set", "num_epochs=3", "--time-limit", "1h")
    lines = ran.out.splitlines()
    assert "  origins  set train.num_epochs · template 5 values" in lines
    assert len(lines) <= 12
    for line in ("  gpus     0", "  command  python3 digits.py train -e {config_path}"):
        assert line in lines
    for start in ("digits-train-", "  image    nvcr.io/", "  specs    ", "  results  "):
        assert [line for line in lines if line.startswith(start)]
    assert "train.num_epochs=3" in ran.out
    plan = json.loads(typed("plan", "--json", *TRAIN, "--set", "num_epochs=3").out)
    assert plan["origins"]["specs.train.num_epochs"] == "set"
    assert plan["origins"]["specs.train.seed"] == "template spec_template_train.yaml"
    assert plan["origins"]["image"].startswith("tao_toolkit.pyt in ")


def test_a_relative_dataset_is_refused_where_jobs_do_not_see_it(typed: Callable[..., Ran]) -> None:
    model = ("--model", "segformer", "--action", "train")
    ran = typed("plan", *model, "--data", "train=segments", "--platform", "docker")
    assert ran.code == 2
    assert "data train is a path of this machine, which jobs on docker do not see" in ran.err


def test_a_dataset_without_a_name_says_how_to_write_it(typed: Callable[..., Ran]) -> None:
    ran = typed("plan", *TRAIN, "--data", "s3://b/x")
    assert ran.code == 2
    assert "--data is 's3://b/x'; it must be NAME=VALUE." in ran.err
