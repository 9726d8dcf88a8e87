"""What is kept of a run, and the page that is written from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from bench.figure import Figure, ratio
from bench.machine import Machine
from bench.measurement import Measurement, keep, kept
from bench.page import page
from bench.rivals import Rivals
from bench.rounds import ContenderFailed
from bench.scale import Scale

from bench import __main__ as command

MACHINE = Machine(2, "a processor", "24 GiB", "Linux 6.1", "3.11.7", "2026-01-02 03:04 UTC", 0.5)


def figure(group: str, seconds: float = 1.0) -> Figure:
    return ratio(f"{group}.key", f"title of {group}", "A meaning.", [seconds], [2.0], "the other")


def measurement(group: str, moment: str = MACHINE.moment, **more: object) -> Measurement:
    known = Measurement(group, replace(MACHINE, moment=moment), 0.75, [figure(group)], {}, [])
    return replace(known, **more)  # pyright: ignore[reportArgumentType]


def test_a_measurement_that_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    one = measurement("store", failed=["s5cmd in “a title”: it hung"], missing={"absent 1.0": "no"})
    keep(one, tmp_path)
    assert kept(["store", "docker"], tmp_path) == {"store": one}


def test_a_later_measurement_of_a_group_takes_the_place_of_the_earlier(tmp_path: Path) -> None:
    for moment in ("earlier", "later"):
        keep(measurement("store", moment), tmp_path)
    assert kept(["store"], tmp_path)["store"].machine.moment == "later"
    assert [path.name for path in tmp_path.iterdir()] == ["store.json"]


def test_what_another_version_of_the_bench_has_kept_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text(json.dumps({"schema": 0, "group": "store"}))
    assert kept(["store"], tmp_path) == {}


def test_the_page_says_when_each_group_was_measured_and_which_was_not() -> None:
    text = page([measurement("store", "at noon"), measurement("start", "at night")], ["s3"])
    assert "| store | at noon | 0.5 | 0.75 | 2 cores of a processor" in text
    assert "| start | at night |" in text
    assert "Not measured: s3." in text


def test_the_page_tells_of_rivals_that_failed_or_could_not_be_had() -> None:
    complaint = "it ended with 1: " + "words of the rival\n" * 100
    one = measurement("s3", failed=[f"s5cmd in “a title”: {complaint}"], missing={"absent 1.0": ""})
    text = page([one], ["s3"])
    assert "Not compared, because it could not be installed: absent 1.0." in text
    told = next(line for line in text.splitlines() if line.startswith("Left out"))
    assert told.startswith(
        "Left out, because it failed: s5cmd in “a title”: it ended with 1: words of the rival words"
    )
    assert len(told) < 250


Group = Callable[[Scale, Rivals], Iterator[Figure]]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Run the command with these groups; the page that it writes."""
    monkeypatch.setattr(command, "KEPT", tmp_path / "figures")
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)

    def run(groups: Mapping[str, Group], *arguments: str) -> str:
        monkeypatch.setattr(command, "GROUPS", groups)
        command.main(["--write", str(tmp_path / "page.md"), *arguments])
        return (tmp_path / "page.md").read_text()

    return run


def group(name: str, seconds: float = 1.0) -> Group:
    return lambda scale, rivals: iter([figure(name, seconds)])


def broken(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    yield figure("half", 1.0)
    raise ContenderFailed("ours failed")


def test_a_group_that_is_measured_alone_renews_its_rows_and_leaves_the_others(
    bench: Callable[..., str],
) -> None:
    bench({"store": group("store", 3.0), "start": group("start", 5.0)})
    text = bench({"store": group("store", 7.0), "start": broken}, "--only", "store")
    assert "| title of store | 7.00 s |" in text
    assert "| title of start | 5.00 s |" in text
    assert text.index("title of store") < text.index("title of start")


def test_a_group_that_fails_loses_nothing_of_the_others_nor_what_it_measured_before(
    bench: Callable[..., str], tmp_path: Path
) -> None:
    bench({"start": group("start", 5.0)})
    with pytest.raises(SystemExit, match="these groups failed, see above: start"):
        bench({"start": broken, "store": group("store", 7.0)})
    text = (tmp_path / "page.md").read_text()
    assert "| title of store | 7.00 s |" in text
    assert "| title of start | 5.00 s |" in text


def test_a_quick_run_is_neither_kept_nor_mixed_with_what_is(bench: Callable[..., str]) -> None:
    bench({"store": group("store", 3.0), "start": group("start", 5.0)})
    both = {"store": group("store", 7.0), "start": group("start", 7.0)}
    assert "title of start" not in bench(both, "--quick", "--only", "store")
    assert "| title of store | 3.00 s |" in bench(both, "--only", "start")
