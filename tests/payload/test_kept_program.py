"""The packed program that an earlier process has kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tao_sdk.payload import kept_program
from tao_sdk.payload.kept_program import find_program

# Prints the command of a job, then whether it had to pack for it.
PACKS = """
import sys
from tao_sdk.script_runner import build_entrypoint
print(build_entrypoint(command="true {config_path}", specs={"a": 1})["command"])
print("packed" if "tao_sdk.payload.program" in sys.modules else "kept")
"""


def pack_in(cache: Path) -> tuple[str, str]:
    """(the command, how it was made) in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PACKS],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    command, _, how = done.stdout.rstrip("\n").rpartition("\n")
    return command, how


def kept_file(cache: Path) -> Path:
    [kept] = (cache / "tao" / "packed").glob("*.json")
    return kept


@pytest.mark.slow
def test_the_next_process_packs_nothing_and_makes_the_same_command(tmp_path: Path) -> None:
    first, how = pack_in(tmp_path)
    assert how == "packed"
    assert kept_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert pack_in(tmp_path) == (first, "kept")


def of_other_sources(kept: Path) -> None:
    data = json.loads(kept.read_text())
    kept.write_text(json.dumps({**data, "made_from": "0" * 64, "modules": "echo planted"}))


def without_its_modules(kept: Path) -> None:
    data = json.loads(kept.read_text())
    del data["modules"]
    kept.write_text(json.dumps(data))


def cut_off(kept: Path) -> None:
    kept.write_bytes(kept.read_bytes()[:1000])


def no_object(kept: Path) -> None:
    kept.write_text("[" * 200_000)


def too_large(kept: Path) -> None:
    kept.write_bytes(b" " * 2**21 + kept.read_bytes())


def for_others_to_write(kept: Path) -> None:
    kept.parent.chmod(0o777)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil",
    [
        of_other_sources,
        without_its_modules,
        cut_off,
        no_object,
        too_large,
        for_others_to_write,
    ],
)
def test_a_kept_program_that_cannot_be_trusted_is_packed_anew(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    first, _ = pack_in(tmp_path)
    spoil(kept_file(tmp_path))
    assert pack_in(tmp_path) == (first, "packed")


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_costs_time_alone(tmp_path: Path) -> None:
    (tmp_path / "tao").write_text("a file in the place of the folder")
    assert pack_in(tmp_path)[1] == "packed"


def test_a_changed_source_is_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept_program.fingerprint()
    for room in kept_program.SOURCES:
        (tmp_path / room).mkdir()
    (tmp_path / "net" / "web.py").write_text("changed = True")
    monkeypatch.setattr(kept_program, "PACKAGE", tmp_path)
    assert kept_program.fingerprint() != before


def test_it_is_looked_for_once_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    find_program.cache_clear()
    first = find_program(())
    kept_file(tmp_path).unlink()
    assert find_program(()) is first
