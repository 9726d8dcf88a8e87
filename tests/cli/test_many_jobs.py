"""Many jobs at a glance: `tao ls` and `status` with metrics and labels, sorted, and readable with
fifty of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support import sweep
from support.tao_command import Ran, Tao
from support.tao_terminal import on_terminal

Typed = Callable[..., Ran]


@pytest.fixture
def swept(typed: Typed, tmp_path: Path) -> Typed:
    sweep.add(tmp_path, "a-1111111111", (0.5, 0.9, 0.7), labels={"sweep": "a", "lr": "0.1"})
    sweep.add(tmp_path, "c-2222222222", (0.4, 0.8), labels={"sweep": "a", "lr": "0.2"})
    sweep.add(tmp_path, "b-3333333333", labels={"sweep": "a", "lr": "0.3"})
    sweep.add(tmp_path, "d-4444444444", (0.95,), labels={"sweep": "b"})
    return typed


def listed(tao: Typed, *flags: str) -> list[str]:
    return [job["name"] for job in tao("ls", "--json", *flags).json]


def test_ls_shows_the_best_value_its_epoch_and_the_labels(swept: Typed) -> None:
    ran = swept("ls")
    assert "accuracy 0.900 @2  sweep=a lr=0.1" in ran.out
    assert "BEST" in ran.out.splitlines()[0]


def test_by_a_metric_the_best_comes_first_and_a_job_without_it_last(swept: Typed) -> None:
    assert listed(swept, "--label", "sweep=a", "--sort", "accuracy") == ["a", "c", "b"]
    assert listed(swept, "--sort", "accuracy") == ["d", "a", "c", "b"]
    assert listed(swept, "--sort", "loss") == ["d", "a", "c", "b"]  # the smallest loss is the best
    assert listed(swept, "--sort", "accuracy", "--limit", "1") == ["d"]


def test_the_best_value_shown_is_that_of_the_metric_that_sorts(swept: Typed) -> None:
    assert "loss 1.100 @2" in swept("ls", "--sort", "loss").out


def test_jobs_are_sorted_by_name_and_status_as_well(swept: Typed) -> None:
    assert listed(swept, "--sort", "name") == ["a", "b", "c", "d"]
    assert listed(swept, "--sort", "created") == listed(swept) == ["d", "b", "c", "a"]
    assert listed(swept, "--sort", "status") == ["d", "b", "c", "a"]


def test_a_metric_that_no_job_has_is_refused_with_those_there_are(swept: Typed) -> None:
    ran = swept("ls", "--sort", "acuracy")
    assert (ran.code, ran.out) == (2, "")
    assert "accuracy, precision, loss" in ran.err
    for word, meant in (
        ("acuracy", "accuracy"),
        ("acc", "accuracy"),
        ("los", "loss"),
        ("creatd", "created"),
    ):
        assert swept("ls", "--sort", word).err.endswith(f"next:  Did you mean {meant}?\n")


def test_labels_that_were_asked_for_and_columns_that_are_empty_for_all_are_left_out(
    swept: Typed,
) -> None:
    ran = swept("ls", "--label", "sweep=a", "--label", "lr=0.3")
    assert ran.out.splitlines()[0].split() == ["ID", "PLATFORM", "STATUS", "AGE"]
    assert "sweep=a" not in ran.out


def test_status_shows_the_best_value_and_the_other_metrics(swept: Typed) -> None:
    ran = swept("status", "a-1111111111")
    assert "accuracy 0.900 @2" in ran.out
    assert re.search(r"metrics +precision 0.300", ran.out)


def test_a_list_in_json_has_no_histories_unless_they_are_asked_for(swept: Typed) -> None:
    short, full = (
        swept("ls", "--json", "--sort", "name").json[0],
        swept("ls", "--json", "--full", "--sort", "name").json[0],
    )
    assert "history" not in short["progress"]
    assert [entry["epoch"] for entry in full["progress"]["history"]] == [1, 2, 3]
    assert {**short["progress"], "history": None} == {**full["progress"], "history": None}
    assert swept("status", "--json", "a-1111111111").json == full
    assert [job["progress"].get("history") for job in swept("ls", "--jsonl").json_lines] == [
        None
    ] * 4


def test_fifty_jobs_with_long_labels_stay_readable_on_a_terminal(tao: Tao, tmp_path: Path) -> None:
    for number in range(50):
        labels = {"note": "a very long note that says everything about the run", "lr": str(number)}
        sweep.add(tmp_path, f"sweep-{number:010}", (0.5, number / 100), labels=labels)
    code, written = on_terminal(tao, "ls", "--sort", "accuracy", columns=140)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", written).splitlines()
    assert (code, len(lines)) == (0, 51)
    assert max(map(len, lines)) <= 140
    assert lines[0].split() == ["ID", "PLATFORM", "STATUS", "AGE", "PROGRESS", "BEST", "LABELS"]
    assert all("…" in line and "@" in line for line in lines[1:])


def test_a_list_that_a_metric_sorts_shows_the_setting_that_was_swept(
    typed: Typed, tmp_path: Path
) -> None:
    for number, rate in enumerate((0.1, 0.2)):
        spec = {"command": f"train --seed {number}", "specs": {"train": {"lr": rate}}}
        sweep.add(tmp_path, f"rate-{number:010}", (0.5 + rate,), spec=spec)
    head, *rows = typed("ls", "--sort", "accuracy").out.splitlines()
    assert "--seed  specs.train.lr" in head
    assert [row.split()[-2:] for row in rows] == [["1", "0.2"], ["0", "0.1"]]
    assert "specs.train.lr" not in typed("ls").out


def test_settings_are_not_shown_where_a_label_tells_them_or_jobs_differ_in_many(
    typed: Typed, tmp_path: Path
) -> None:
    def shown(label: str) -> str:
        return typed("ls", "--label", f"of={label}", "--sort", "accuracy").out.splitlines()[0]

    for number in range(2):
        labels = {"of": "told", "lr": str(number)}
        spec = {"specs": {"lr": number}}
        sweep.add(tmp_path, f"told-{number:010}", (0.5,), labels=labels, spec=spec)
        spec = {"specs": dict.fromkeys("abcd", number)}
        sweep.add(tmp_path, f"many-{number:010}", (0.5,), labels={"of": "many"}, spec=spec)
    assert "specs." not in shown("told")
    assert "specs." not in shown("many")


def test_jobs_are_sorted_by_a_label_with_numbers_as_numbers(typed: Typed, tmp_path: Path) -> None:
    for number, rate in enumerate(("0.01", "1e-3", "0.1", "auto")):
        sweep.add(tmp_path, f"rate-{number:010}", labels={"sweep": "a", "lr": rate})
    sweep.add(tmp_path, "none-1111111111", labels={"sweep": "a"})
    listed = typed("ls", "--label", "sweep=a", "--sort", "lr").out.splitlines()
    assert "label lr" in listed[0]
    assert [line.split()[-1] for line in listed[1:]] == ["1e-3", "0.01", "0.1", "auto", "0s"]


def test_jobs_are_sorted_by_a_setting_which_has_a_column(typed: Typed, tmp_path: Path) -> None:
    for number, rate in enumerate((0.01, 0.001, 0.1)):
        spec = {"specs": {"train": {"learning_rate": rate}}}
        sweep.add(tmp_path, f"rate-{number:010}", (0.5, 0.9), spec=spec)
    for sort in ("learning_rate", "train.learning_rate", "specs.train.learning_rate"):
        head, *rows = typed("ls", "--sort", sort).out.splitlines()
        assert "specs.train.learning_rate" in head
        assert [row.split()[-1] for row in rows] == ["0.001", "0.01", "0.1"]
    named = [f"rate-{number:010}" for number in range(3)]
    told = typed("compare", "--json", "--sort", "learning_rate", *named).json
    assert [job["id"] for job in told["jobs"]] == [named[1], named[0], named[2]]


def test_a_setting_of_the_command_sorts_without_its_dashes(typed: Typed, tmp_path: Path) -> None:
    for number, rate in enumerate(("0.2", "0.1")):
        command = {"command": f"train.py --lr {rate}"}
        sweep.add(tmp_path, f"rate-{number:010}", spec=command)
    assert [job["id"][-1] for job in typed("ls", "--json", "--sort", "lr").json] == ["1", "0"]


def test_a_word_that_can_mean_several_settings_is_answered_with_their_names(
    typed: Typed, tmp_path: Path
) -> None:
    sweep.add(tmp_path, "a-1111111111", spec={"specs": {"head": {"lr": 1}, "body": {"lr": 2}}})
    ran = typed("ls", "--sort", "lr")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "error: 'lr' can mean several settings.",
        "why:   They are specs.body.lr, specs.head.lr.",
        "next:  Write one of these names.",
    ]


def test_a_word_by_which_nothing_can_be_sorted_lists_what_can_be(swept: Typed) -> None:
    ran = swept("ls", "--sort", "learning_rate")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "error: None of these jobs has a metric, a setting or a label 'learning_rate'.",
        "why:   They have: accuracy, precision, loss.",
        "next:  Settings in which they differ: label sweep, label lr.",
    ]


def test_words_and_shell_text_of_a_command_are_no_settings_to_sort_by(
    typed: Typed, tmp_path: Path
) -> None:
    text = "for e in 1 2; do echo epoch $e/4 loss $([ $e = 1 ] && echo {}); done"
    commands = ("train.py small --lr 1", "train.py large --lr 2", text.format(1), text.format(2))
    for number, command in enumerate(commands):
        sweep.add(tmp_path, f"try-{number:010}", spec={"command": command})
    told = typed("ls", "--sort", "width").err
    assert told.endswith("next:  Settings in which they differ: --lr.\n")


def test_labels_that_tell_jobs_apart_stand_before_those_that_all_have(
    typed: Typed, tmp_path: Path
) -> None:
    for number in range(2):
        labels = {"team": "vision", "lr": str(number)}
        sweep.add(tmp_path, f"rate-{number:010}", labels=labels)
    assert "lr=1 team=vision" in typed("ls").out


def test_a_setting_that_a_word_is_short_for_is_named(typed: Typed, tmp_path: Path) -> None:
    for number, rate in enumerate((0.01, 0.001)):
        spec = {"specs": {"train": {"learning_rate": rate}}}
        sweep.add(tmp_path, f"rate-{number:010}", spec=spec)
    for word in ("lr", "learningrate"):
        told = typed("ls", "--sort", word).err
        assert told.endswith("next:  Did you mean specs.train.learning_rate?\n")
