"""Three learning rates, the best of them, and an evaluation of its checkpoint in a
job of its own.
"""

from __future__ import annotations

import pytest

from support.tao_command import Tao

pytestmark = pytest.mark.slow

RATES = ("0.00001", "0.0001", "0.001")


def started(tao: Tao, example: str, rate: str) -> str:
    flags = ("--label", "sweep=rate", "--label", f"rate={rate}")
    values = ("--set", f"train.learning_rate={rate}", "--set", "train.seconds_per_epoch=0")
    ran = tao("run", example, "--detach", "--json", "--name", "rate", *flags, *values)
    assert ran.code == 0, ran.err
    return ran.json["id"]


def test_a_sweep_is_sorted_compared_and_its_best_checkpoint_evaluated(
    tao: Tao, example: str
) -> None:
    jobs = [started(tao, example, rate) for rate in RATES]
    assert tao("wait", *jobs).code == 0
    best = tao("ls", "--label", "sweep=rate", "--sort", "accuracy", "--limit", "1", "--json").json[
        0
    ]
    assert best["labels"]["rate"] == "0.001"

    compared = tao("compare", "--label", "sweep=rate", "--json").json
    assert sorted(job["id"] for job in compared["jobs"]) == sorted(jobs)
    assert {job["settings"]["specs.train.learning_rate"] for job in compared["jobs"]} == {
        1e-05,
        0.0001,
        0.001,
    }

    checkpoint = tao("results", best["id"], "--json").json["best"]
    code = "import numpy; print('epoch', numpy.load('model.npz')['epoch'])"
    ran = tao(
        "run",
        "--gpus",
        "0",
        "--name",
        "eval",
        "--inputs",
        f"model.npz={checkpoint}",
        "--",
        "python3",
        "-c",
        code,
    )
    assert ran.code == 0, ran.err
    assert tao("logs", "eval").out.startswith("epoch ")


def test_a_short_name_of_a_setting_starts_no_job(tao: Tao, example: str) -> None:
    ran = tao("run", example, "--detach", "--set", "train.lr=0.1")
    assert (ran.code, "Did you mean train.learning_rate?" in ran.err) == (2, True)
    assert tao("ls", "--json").json == []
