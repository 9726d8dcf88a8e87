"""Copies of a job's results: whatever its files are called, and whatever becomes of
them meanwhile.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.backends.below import READ, LeadsOut
from tao_sdk.backends.this_machine import ResultFiles, looking_below
from tao_sdk.client.results import NotWritten
from tao_sdk.model.errors import PathNotFound
from tao_sdk.platforms.local import LocalSDK


def written(sdk: LocalSDK, command: str) -> tuple[str, Path]:
    """A job that wrote its results, and where they are."""
    job = sdk.create_job(
        command=f"mkdir -p $TAO_RESULTS_DIR; cd $TAO_RESULTS_DIR; {command}", gpu_count=0
    )
    assert sdk.wait(job.id, timeout=300).status == "Complete", sdk.get_job_logs(job.id)
    return job.id, Path(job.results_dir)


def test_a_file_whose_name_begins_with_two_dots_lies_among_the_results(sdk: LocalSDK) -> None:
    job, _ = written(sdk, "echo 1 > ..data; echo 2 > ok")
    assert [path.name for path in sdk.fetch_results(job, "here")] == ["..data", "ok"]


def test_files_with_the_longest_names_that_there_may_be_are_copied(sdk: LocalSDK) -> None:
    names = sorted(["模" * 85, "x" * 255])
    job, _ = written(sdk, f"touch {' '.join(names)}")
    assert [path.name for path in sdk.fetch_results(job, "here")] == sorted(names)


@pytest.fixture
def between_reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Sets what happens each time after the first piece of a file was read."""
    really_read = ResultFiles.read

    def set_up(happens: Callable[[], object]) -> None:
        def read(files: ResultFiles, path: str, offset: int = 0, limit: int | None = None) -> bytes:
            data = really_read(files, path, offset, limit)
            if path.endswith(("model.pth", "train.log")) and not offset:
                happens()
            return data

        monkeypatch.setattr(ResultFiles, "read", read)

    return set_up


@pytest.mark.slow
def test_a_checkpoint_that_is_replaced_while_it_is_copied_is_never_a_mixture(
    sdk: LocalSDK, between_reads: Callable[..., None]
) -> None:
    job, results = written(sdk, "head -c 9000000 /dev/zero > model.pth; echo 2 > other")
    new = [b"1" * 9_000_000]

    def replace() -> None:
        if new:
            Path("new").write_bytes(new.pop())
            Path("new").replace(results / "model.pth")

    between_reads(replace)
    assert len(sdk.fetch_results(job, "here")) == 2
    assert set(Path("here/model.pth").read_bytes()) == set(b"1")


def test_a_checkpoint_that_is_replaced_all_the_time_costs_only_itself_and_is_told(
    sdk: LocalSDK, between_reads: Callable[..., None]
) -> None:
    job, results = written(sdk, "head -c 9000000 /dev/zero > model.pth; echo 2 > other")

    def touch() -> None:
        os.utime(results / "model.pth", (0, next(times)))

    times = iter(range(1000))
    between_reads(touch)
    skipped: list[Any] = []
    paths = sdk.fetch_results(job, "here", on_skip=lambda name, why: skipped.append((name, why)))
    assert [path.name for path in paths] == ["other"]
    assert skipped == [("model.pth", f"{results}/model.pth changes while it is copied.")]
    assert [path.name for path in Path("here").iterdir()] == ["other"]


def test_a_log_that_grows_while_it_is_copied_is_copied_as_far_as_it_was(
    sdk: LocalSDK, between_reads: Callable[..., None]
) -> None:
    job, results = written(sdk, "head -c 9000000 /dev/zero > train.log")

    def grow() -> None:
        with (results / "train.log").open("ab") as log:
            log.write(b"more")

    between_reads(grow)
    assert [path.name for path in sdk.fetch_results(job, "here")] == ["train.log"]
    assert Path("here/train.log").read_bytes() == bytes(9_000_000) + b"more"


def test_a_checkpoint_replaced_by_one_of_its_size_within_a_second_is_copied_again_and_one_that_stands_still_is_not(
    sdk: LocalSDK,
) -> None:
    job, results = written(sdk, "echo 1 > model.pth")
    os.utime(results / "model.pth", (1_600_000_000.25, 1_600_000_000.25))
    sdk.fetch_results(job, "here")
    (results / "model.pth").write_text("2\n")
    os.utime(results / "model.pth", (1_600_000_000.75, 1_600_000_000.75))
    sdk.fetch_results(job, "here")
    copied = Path("here/model.pth").stat()
    assert Path("here/model.pth").read_text() == "2\n"
    sdk.fetch_results(job, "here")
    assert os.path.samestat(Path("here/model.pth").stat(), copied)


def test_a_copy_leaves_out_what_a_link_of_the_job_leads_to_and_says_so(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("mine")
    planted = (
        "ln -s ../../secret dir; ln -s ../../secret/key model.pth; mkdir .tao; ln -s "
        "../../../secret/key .tao/manifest.json"
    )
    job, _ = written(sdk, f"{planted}; echo 1 > ok; ln -s ok also")
    skipped: dict[str, str] = {}
    paths = sdk.fetch_results(job, "here", on_skip=lambda name, why: skipped.update({name: why}))
    assert sorted(path.name for path in paths) == ["also", "ok"]
    assert set(skipped) == {".tao/manifest.json", "dir", "model.pth"}
    assert all("leads out" in why for why in skipped.values())
    assert sdk.results(job).manifest is None


def test_results_that_the_job_put_a_link_in_the_place_of_are_not_followed(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("mine")
    job, _ = written(sdk, "cd ..; mv $TAO_RESULTS_DIR away; ln -s ../secret $TAO_RESULTS_DIR")
    with pytest.raises(LeadsOut, match="is a link"):
        sdk.fetch_results(job, "here")
    assert not Path("here/key").exists()


def test_copying_results_onto_themselves_writes_through_no_link(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    job, _ = written(sdk, "mkdir train; echo 1 > train/model.pth")
    sdk.fetch_results(job, "here")
    (tmp_path / "here" / "train" / "model.pth").unlink()
    (tmp_path / "here" / "train").rmdir()
    (tmp_path / "here" / "train").symlink_to(tmp_path / "secret")
    skipped: list[str] = []
    assert sdk.fetch_results(job, "here", on_skip=lambda name, _: skipped.append(name)) == []
    assert (skipped, list((tmp_path / "secret").iterdir())) == (["train/model.pth"], [])


@pytest.mark.slow
def test_folders_in_one_another_without_an_end_do_not_keep_the_rest_from_being_seen(
    sdk: LocalSDK,
) -> None:
    deep = "import os; [(os.mkdir('d'), os.chdir('d')) for _ in range(3000)]"
    job, results = written(sdk, f'(python3 -c "{deep}"); echo 1 > ok')
    try:
        assert [path.name for path in sdk.fetch_results(job, "here")] == ["ok"]
    finally:
        subprocess.run(["rm", "-rf", results / "d"], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a file system of its own needs root, and leave to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_holes_of_a_sparse_file_take_no_room_in_its_copy(sdk: LocalSDK, small_disk: Path) -> None:
    job, _ = written(sdk, "echo begin > model.pth; truncate -s 1T model.pth; echo end >> model.pth")
    sdk.fetch_results(job, small_disk)
    with (small_disk / "model.pth").open("rb") as copy:
        assert copy.read(6) == b"begin\n"
        assert copy.seek(-5, os.SEEK_END) == 2**40 - 1
        assert copy.read() == b"\0end\n"


def test_zeros_that_are_written_out_are_copied_as_they_are(sdk: LocalSDK) -> None:
    job, results = written(
        sdk, "(head -c 9000000 /dev/zero; echo middle; head -c 3000000 /dev/zero) > model.pth"
    )
    sdk.fetch_results(job, "here")
    assert Path("here/model.pth").read_bytes() == (results / "model.pth").read_bytes()


@pytest.mark.slow
def test_results_that_do_not_fit_are_refused_before_any_is_copied(
    sdk: LocalSDK, small_disk: Path
) -> None:
    job, _ = written(sdk, "echo 1 > a; head -c 20000000 /dev/urandom > model.pth")
    with pytest.raises(
        NotWritten, match=r"do not fit on the disk of .*small: 20\.0 MB to copy, 8\.4 MB free"
    ) as told:
        sdk.fetch_results(job, small_disk)
    assert "model.pth (20.0 MB)" in told.value.why
    assert not list(small_disk.iterdir())
    assert [path.name for path in sdk.fetch_results(job, small_disk, only=["a"])] == ["a"]
    assert [path.name for path in sdk.fetch_results(job, small_disk, only="a")] == ["a"]


def test_a_disk_that_becomes_full_is_told_with_the_file_and_keeps_no_half_of_it(
    sdk: LocalSDK, small_disk: Path, between_reads: Callable[..., None]
) -> None:
    job, _ = written(sdk, "echo 1 > a; head -c 8200000 /dev/urandom > model.pth")
    between_reads(lambda: (small_disk / "other").write_bytes(b"x" * 1_000_000))
    with pytest.raises(NotWritten, match=r"became full while model\.pth \(8\.2 MB\) was copied"):
        sdk.fetch_results(job, small_disk)
    assert sorted(path.name for path in small_disk.iterdir()) == ["a", "other"]


def test_what_a_killed_fetch_left_of_a_file_is_removed_by_the_next(sdk: LocalSDK) -> None:
    job, _ = written(sdk, "mkdir train; echo 1 > train/model.pth")
    dead = subprocess.Popen(["true"])
    dead.wait()
    Path("here/train").mkdir(parents=True)
    alive = os.getppid()
    for kept in (
        f".model.pth.{alive}.part",
        f".mine.{dead.pid}.part",
        f".model.pth.{dead.pid}.part",
    ):
        Path("here/train", kept).touch()
    sdk.fetch_results(job, "here")
    left = {path.name for path in Path("here/train").iterdir()}
    assert left == {"model.pth", f".model.pth.{alive}.part", f".mine.{dead.pid}.part"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "nothing"])
def test_a_file_that_becomes_another_thing_while_it_is_copied_costs_only_itself(
    sdk: LocalSDK, between_reads: Callable[..., None], kind: str
) -> None:
    job, results = written(
        sdk, "echo 0 > before; head -c 9000000 /dev/urandom > model.pth; echo 2 > other"
    )

    def swap() -> None:
        (results / "model.pth").unlink()
        made = {"folder": "mkdir", "link": "ln -s other", "pipe": "mkfifo", "nothing": ":"}[kind]
        subprocess.run(f"{made} model.pth", shell=True, cwd=results, check=True)

    between_reads(swap)
    skipped: dict[str, str] = {}
    paths = sdk.fetch_results(job, "here", on_skip=lambda name, why: skipped.update({name: why}))
    assert [path.name for path in paths] == [
        "before",
        *(["model.pth"] if kind == "link" else []),
        "other",
    ]
    assert kind == "link" or "model.pth" in skipped["model.pth"]


def test_a_link_that_takes_a_files_place_just_before_it_is_opened_is_no_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "model.pth").symlink_to("elsewhere")
    with (
        pytest.raises(PathNotFound, match="another thing was put in its place"),
        looking_below("model.pth"),
    ):
        os.open(tmp_path / "model.pth", READ)
