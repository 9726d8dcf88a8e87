"""`tao compare`: what differs between jobs, how they did, and a picture that never takes another
file's place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support import sweep
from support.tao_command import Ran, Tao

Typed = Callable[..., Ran]
FIRST, SECOND, EMPTY = "try-1111111111", "try-2222222222", "try-3333333333"
KEY = "sk-0123456789abcdef"


def spec(lr: float, command: str) -> dict[str, object]:
    return {"command": command, "specs": {"train": {"lr": lr, "epochs": 3}}, "args": {"depth": 50}}


@pytest.fixture
def tried(typed: Typed, tmp_path: Path) -> Typed:
    one, two = (f"python train.py --seed {seed} --api-key {KEY}{seed} -m x" for seed in (1, 2))
    sweep.add(
        tmp_path, FIRST, (0.5, 0.9, 0.7), spec=spec(0.1, one), labels={"sweep": "a", "lr": "0.1"}
    )
    sweep.add(
        tmp_path, SECOND, (0.4, 0.8), spec=spec(0.2, two), labels={"sweep": "a", "lr": "<0.2>"}
    )
    sweep.add(
        tmp_path, EMPTY, spec=spec(0.2, two), labels={"sweep": "a"}, options={"partition": "long"}
    )
    return typed


def test_only_what_differs_is_told_with_best_and_last_values(tried: Typed) -> None:
    ran = tried("compare", "--json", FIRST, SECOND, EMPTY)
    assert ran.code == 0, ran.err
    told = ran.json
    assert told["differ"] == ["label lr", "--seed", "specs.train.lr", "option.partition"]
    assert (told["metric"], told["smaller_is_better"]) == ("accuracy", False)
    assert [(job["best_value"], job["best_epoch"], job["last_value"]) for job in told["jobs"]] == [
        (0.9, 2, 0.7), (0.8, 2, 0.8), (None, None, None),
    ]  # fmt: skip
    assert told["jobs"][0]["settings"]["specs.train.lr"] == 0.1
    assert told["jobs"][2]["settings"]["option.partition"] == "long"


def test_jobs_are_compared_in_the_order_of_a_metric_or_a_name(tried: Typed) -> None:
    def order(sort: str) -> list[str]:
        told = tried("compare", "--json", "--sort", sort, EMPTY, SECOND, FIRST)
        return [job["id"] for job in told.json["jobs"]]

    assert order("accuracy") == [FIRST, SECOND, EMPTY]
    assert order("name")[0] != "" and len(order("name")) == 3
    refused = tried("compare", "--sort", "no_such", FIRST, SECOND)
    assert (refused.code, refused.out) == (2, "")


def test_the_jobs_with_a_label_are_compared_without_naming_them(tried: Typed) -> None:
    named = tried("compare", "--json", FIRST, SECOND, EMPTY).json
    chosen = tried("compare", "--json", "--label", "sweep=a").json
    assert sorted(job["id"] for job in chosen["jobs"]) == sorted(job["id"] for job in named["jobs"])
    assert [
        job["id"] for job in tried("compare", "--json", SECOND, "--label", "lr=0.1").json["jobs"]
    ] == [
        SECOND,
        FIRST,
    ]


def test_too_few_jobs_say_how_several_are_named(tried: Typed) -> None:
    none, one, nothing = (
        tried("compare", "--label", "sweep=b"),
        tried("compare", FIRST),
        tried("compare"),
    )
    assert [ran.code for ran in (none, one, nothing)] == [3, 2, 2]
    assert "--label NAME=VALUE" in none.err
    assert "--label NAME=VALUE" in one.err
    assert "--label NAME=VALUE" in nothing.err


def test_the_table_has_a_line_a_job(tried: Typed) -> None:
    lines = tried("compare", FIRST, SECOND).out.splitlines()
    assert lines[0].split("  ")[0] == "ID"
    assert "BEST accuracy  LAST accuracy  " in lines[0]
    assert "0.900 @2" in lines[1]
    assert "0.800 @2" in lines[2]


def test_the_value_of_a_secret_is_nowhere(tried: Typed, tmp_path: Path) -> None:
    ran = tried("compare", FIRST, SECOND), tried("compare", "--json", FIRST, SECOND)
    assert (
        KEY
        not in "".join(each.out + each.err for each in ran) + (tmp_path / "compare.svg").read_text()
    )


def test_the_picture_has_a_named_line_for_each_job_with_a_curve(
    tried: Typed, tmp_path: Path
) -> None:
    assert tried("compare", FIRST, SECOND, EMPTY, "--out", "sub.svg").code == 0
    texts = [
        element.text or ""
        for element in ElementTree.parse(tmp_path / "sub.svg").iter()
        if "text" in element.tag
    ]
    assert [any(text.startswith(job) for text in texts) for job in (FIRST, SECOND, EMPTY)] == [
        True,
        True,
        False,
    ]
    assert "accuracy" in texts


def test_a_picture_is_renewed_and_no_other_file_is_written_over(
    tried: Typed, tmp_path: Path
) -> None:
    assert (tried("compare", FIRST, SECOND).code, tried("compare", FIRST, SECOND).code) == (0, 0)
    (tmp_path / "mine.svg").write_text("mine")
    (tmp_path / "link.svg").symlink_to(tmp_path / "compare.svg")
    (tmp_path / "away.svg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    for name in ("mine.svg", "link.svg", "away.svg", "folder", "none/x.svg"):
        ran = tried("compare", "--json", FIRST, SECOND, "--out", name)
        assert (ran.code, ran.error["code"]) == (2, "results.not_written"), name
    assert (tmp_path / "mine.svg").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.slow
def test_fifty_jobs_are_fifty_named_lines(typed: Typed, tmp_path: Path) -> None:
    ids = [f"sweep-{number:010}" for number in range(50)]
    for number, job in enumerate(ids):
        sweep.add(tmp_path, job, (0.5, number / 100), labels={"lr": str(number)})
    assert typed("compare", *ids).code == 0
    texts = [element.text or "" for element in ElementTree.parse(tmp_path / "compare.svg").iter()]
    assert all(any(text.startswith(f"{job} lr=") for text in texts) for job in ids)


def test_jobs_without_curves_are_compared_without_a_picture(typed: Typed, tmp_path: Path) -> None:
    for job in (FIRST, SECOND):
        sweep.add(tmp_path, job)
    ran = typed("compare", FIRST, SECOND, "--json")
    assert (ran.code, ran.json["picture"], ran.json["metric"]) == (0, None, None)
    assert not (tmp_path / "compare.svg").exists()


def test_one_job_and_a_metric_that_none_has_are_refused(tried: Typed) -> None:
    assert tried("compare", FIRST).code == 2
    ran = tried("compare", FIRST, SECOND, "--metric", "wer")
    assert (ran.code, "accuracy" in ran.err) == (2, True)
    assert (
        tried("compare", "--json", FIRST, SECOND, "--metric", "loss").json["smaller_is_better"]
        is True
    )


def test_keypoints_and_tokens_are_settings_and_no_secrets(typed: Typed, tmp_path: Path) -> None:
    for job, number in ((FIRST, 1), (SECOND, 2)):
        args = {"num_keypoints": number, "max_tokens": number, "access_key": f"{KEY}{number}"}
        sweep.add(tmp_path, job, spec={"command": "x", "args": args})
    told = typed("compare", FIRST, SECOND, "--json").json
    assert told["differ"] == ["args.num_keypoints", "args.max_tokens"]


def test_numbered_keys_are_settings_and_a_numbered_access_key_is_a_secret(
    typed: Typed, tmp_path: Path
) -> None:
    for job, number in ((FIRST, "1"), (SECOND, "2")):
        args = {"key1": number, "api_key1": f"{KEY}{number}", "secrets": {"key1": KEY + number}}
        labels = {"key_3": number}
        command = f"train.py --key2 {number} --api-key2 {KEY}{number}"
        sweep.add(tmp_path, job, spec={"command": command, "args": args}, labels=labels)
    ran = typed("compare", FIRST, SECOND, "--json")
    shown = {"label key_3": "1", "--key2": "1", "args.key1": "1"}
    assert ran.json["jobs"][0]["settings"] == shown
    assert KEY not in ran.out + ran.err


def test_a_word_of_the_command_stands_below_a_head_that_names_the_command(
    typed: Typed, tmp_path: Path
) -> None:
    for job, size in ((FIRST, "small"), (SECOND, "large")):
        sweep.add(tmp_path, job, spec={"command": f"python train.py {size}"})
    assert typed("compare", FIRST, SECOND).out.splitlines()[0].endswith("  command, word 3")
    assert typed("compare", FIRST, SECOND, "--json").json["differ"] == ["word 3"]


def test_an_address_among_the_settings_is_shown_without_its_login_and_the_values_of_its_query(
    typed: Typed, tmp_path: Path
) -> None:
    for job, host in ((FIRST, "one"), (SECOND, "two")):
        sweep.add(
            tmp_path,
            job,
            (0.5, 0.6),
            spec={
                "command": "x",
                "specs": {"data": [{"from": f"https://me:{KEY}@{host}/a?sig={KEY}"}]},
            },
        )
    ran = typed("compare", FIRST, SECOND, "--json")
    assert ran.json["jobs"][1]["settings"]["specs.data"] == [{"from": "https://***@two/a?sig=***"}]
    assert (
        KEY
        not in ran.out
        + typed("compare", FIRST, SECOND).out
        + (tmp_path / "compare.svg").read_text()
    )


def test_running_jobs_are_compared_as_of_now(tao: Tao) -> None:
    jobs = [
        tao.run_detached(f"echo epoch 1/9 loss 0.{n}; echo epoch 2/9 loss 0.{n}; sleep 60")
        for n in (3, 5)
    ]
    deadline = time.monotonic() + 300
    while None in (
        told := [job["last_value"] for job in tao("compare", "--json", *jobs).json["jobs"]]
    ):
        assert time.monotonic() < deadline
    assert told == [0.3, 0.5]


def test_a_label_that_no_job_has_is_told_with_those_there_are(typed: Typed, tmp_path: Path) -> None:
    sweep.add(tmp_path, FIRST, (0.5, 0.6), labels={"sweep": "a", "lr": "1"})
    sweep.add(tmp_path, SECOND, (0.5, 0.6), labels={"sweep": "a", "lr": "2"})
    ran = typed("compare", "--label", "sweep=b")
    assert ran.code == 3
    assert ran.err.splitlines()[:2] == [
        "error: No job has the label sweep=b.",
        "why:   Jobs have: lr=1, lr=2, sweep=a.",
    ]
    assert typed("compare", FIRST, SECOND, "--label", "sweep=b").code == 3


def test_a_label_that_one_job_has_is_told_with_that_job(typed: Typed, tmp_path: Path) -> None:
    sweep.add(tmp_path, FIRST, (0.5, 0.6), labels={"sweep": "a", "lr": "1"})
    sweep.add(tmp_path, SECOND, (0.5, 0.6), labels={"sweep": "a", "lr": "2"})
    ran = typed("compare", "--label", "sweep=a", "--label", "lr=2")
    assert ran.code == 2
    assert ran.err.splitlines()[:2] == [
        f"error: Only {SECOND} has the labels sweep=a and lr=2; two jobs or more are compared.",
        "why:   Jobs have: lr=1, lr=2, sweep=a.",
    ]


def test_unlike_commands_are_compared_as_a_whole_and_flags_by_name(
    typed: Typed, tmp_path: Path
) -> None:
    commands = ("python train.py --lr 0.1", "bash run.sh 3 --lr 0.2")
    for job, command in zip((FIRST, SECOND), commands, strict=True):
        sweep.add(tmp_path, job, (0.5, 0.9), spec={"command": command})
    told = typed("compare", "--json", FIRST, SECOND).json
    assert told["differ"] == ["command", "--lr"]
    assert [job["settings"]["command"] for job in told["jobs"]] == [
        "python train.py",
        "bash run.sh 3",
    ]


PIPED = "python train.py --lr {} 2>&1 | tee log"
LOOP = "for i in 1 2; do echo $i --api-key KEY{}; done | cat -n"


@pytest.mark.parametrize(
    ("commands", "differ", "values"),
    [
        (("python3 -c 'a(-n)'", LOOP), ["command"], ["python3 -c 'a(-n)'", LOOP]),
        (("bash -lc 'a --lr 1'", "bash -lc 'a --lr 2'"), ["command"], None),
        (("x.py -c a.yaml", "x.py -c b.yaml"), ["-c"], ["a.yaml", "b.yaml"]),
        ((PIPED.format(1), PIPED.format(2)), ["--lr"], ["1", "2"]),
        ((PIPED.format(1), "python train.py --lr 1"), ["command"], None),
        (("a 'x;y|z' --lr 1", "a 'x;y|z' --lr 2"), ["--lr"], ["1", "2"]),
    ],
)
def test_a_program_in_words_is_one_setting_and_a_pipe_hides_no_flag(
    typed: Typed, tmp_path: Path, commands: tuple[str, str], differ: list[str], values: list[str]
) -> None:
    for job, command in zip((FIRST, SECOND), commands, strict=True):
        sweep.add(tmp_path, job, spec={"command": command.replace("{}", KEY)})
    told = typed("compare", "--json", FIRST, SECOND).json
    assert told["differ"] == differ
    if values:
        hidden = [value.replace("KEY{}", "***") for value in values]
        assert [job["settings"][differ[0]] for job in told["jobs"]] == hidden


def test_the_metric_that_jobs_are_sorted_by_has_a_column(tried: Typed) -> None:
    def head(*words: str) -> str:
        return tried("compare", FIRST, SECOND, *words).out.splitlines()[0]

    assert "BEST loss" in head("--sort", "loss")
    assert head("--sort", "accuracy").count("BEST") == 1
    assert head("--sort", "name").count("BEST") == 1
    rows = tried("compare", "--sort", "loss", FIRST, SECOND).out.splitlines()
    assert rows[1].split()[2:4] == ["1.100", "@2"]


@pytest.mark.parametrize("name", ["sub.png", "sub.PDF", "sub.v2"])
def test_a_picture_is_not_written_under_the_ending_of_another_format(
    tried: Typed, tmp_path: Path, name: str
) -> None:
    ran = tried("compare", FIRST, SECOND, "--out", name)
    assert (ran.code, ran.out, (tmp_path / name).exists()) == (2, "", False)
    assert ran.err.splitlines() == [
        f"error: The picture is an SVG, and {name} ends in {Path(name).suffix}.",
        "next:  Name it: --out sub.svg",
    ]


def test_one_job_under_several_words_is_told(tried: Typed) -> None:
    ran = tried("compare", FIRST, FIRST[:8])
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[0] == f"error: All the words name one job, {FIRST}."


def test_jobs_with_the_same_settings_are_said_to_have_them(typed: Typed, tmp_path: Path) -> None:
    for job in (FIRST, SECOND):
        sweep.add(tmp_path, job, (0.5, 0.9), spec=spec(0.1, "python train.py"))
    ran = typed("compare", FIRST, SECOND)
    assert (ran.code, "Their settings do not differ." in ran.err.splitlines()) == (0, True)


def test_of_many_settings_that_differ_the_table_shows_the_first(
    typed: Typed, tmp_path: Path
) -> None:
    for value, job in enumerate((FIRST, SECOND)):
        specs = {f"layer{number:03}": value for number in range(100)}
        sweep.add(tmp_path, job, (0.5, 0.9), spec={"command": "x", "specs": specs})
    ran = typed("compare", FIRST, SECOND)
    assert "specs.layer011" in ran.out
    assert "specs.layer012" not in ran.out
    assert f"88 more settings differ: tao compare --json {FIRST} {SECOND}" in ran.err
    assert len(typed("compare", "--json", FIRST, SECOND).json["differ"]) == 100
