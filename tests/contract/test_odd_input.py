"""Spaces, quotes, newlines, dollars and unicode arrive as they were given, in every field, and a
full disk is told.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.places import Place
from tao_sdk.client import Client
from tao_sdk.model.errors import SpecError, TaoError
from tao_sdk.model.spec import JobSpec

ODD = (
    "a b\t'q' \"d\" $HOME $(id) `id` \\ ; & | < > * ? [x] {y} ~ # ! % ü 日本 \u2028 \n second line"
)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40)


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS, min_size=6, max_size=6))
def test_any_text_arrives_in_an_environment_variable_and_an_argument(
    client: Client, place: Place, tmp_path: Path, texts: list[str]
) -> None:
    out = tmp_path / "out"
    out.unlink(missing_ok=True)
    both = "[os.environ[f'ODD{i}'] for i in range(len(sys.argv) // 2)] + sys.argv[2::2]"
    write = f"import os, sys; open({str(out)!r}, 'wb').write(os.fsencode(chr(0).join({both})))"
    spec = JobSpec(
        command=f'python3 -c "{write}"', gpu_count=0,
        env_vars={f"ODD{i}": text for i, text in enumerate(texts)},
        args={f"text{i}": "=" + text for i, text in enumerate(texts)},
    )  # fmt: skip
    client.wait(client.submit(spec, place.platform).job.id, timeout=300)
    assert out.read_bytes().decode().split("\0") == [*texts, *("=" + text for text in texts)]


def test_a_folder_name_full_of_traps_is_just_a_folder(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not place.reads_results:
        pytest.skip(f"results on {place.platform} are read from here only if a bucket has them")
    folder = tmp_path / 'it\'s a "folder" $(id)\n ü'
    folder.mkdir()
    monkeypatch.chdir(folder)
    with place.client(TAO_SDK_STATE_DIR=str(folder / "state")) as client:
        outputs, specs = {"results_dir": {"type": "folder"}}, {"odd": ODD, "results_dir": ""}
        copy = 'cp {config_path} "$TAO_RESULTS_DIR/results_dir/"'
        spec = JobSpec(
            command=copy, specs=specs, outputs=outputs, config_format="json", gpu_count=0
        )
        job = client.submit(spec, place.platform).job
        assert client.wait(job.id, timeout=300).status == "Complete", client.get_job_logs(job.id)
        found = [stat.path for stat in client.results(job.id).files if "/results_dir/" in stat.path]
        assert json.loads(client.engine.backend_of(job).files().read(found[0]))["odd"] == ODD
        assert Path(found[0]).is_relative_to(folder) or not place.results_here


def test_labels_and_names_may_hold_anything_and_are_found_again(
    client: Client, place: Place
) -> None:
    spec = JobSpec(name="Mein Job: ü 日本!", command="true", labels={"team": ODD}, gpu_count=0)
    job = client.submit(spec, place.platform).job
    assert [found.id for found in client.list_jobs(labels={"team": ODD})] == [job.id]
    assert client.get_job(job.id).name == "Mein Job: ü 日本!"


def test_a_spec_that_contains_itself_is_refused_and_leaves_no_job(
    client: Client, place: Place
) -> None:
    endless: dict[str, Any] = {"train": {}}
    endless["train"]["again"] = endless
    with pytest.raises(SpecError):
        client.submit(
            JobSpec(command="cat {config_path}", specs=endless, gpu_count=0), place.platform
        )
    assert client.list_jobs() == []


def test_an_environment_that_no_process_can_have_is_refused_and_leaves_no_job(
    client: Client, place: Place
) -> None:
    with pytest.raises(SpecError):
        client.submit(
            JobSpec(command="true", env_vars={"A": "\ud800"}, gpu_count=0), place.platform
        )
    assert client.list_jobs() == []


def test_a_spec_of_4_mb_works(client: Client, place: Place, tmp_path: Path) -> None:
    out = tmp_path / "size"
    spec = JobSpec(
        command=f"wc -c < {{config_path}} > {out}",
        specs={"text": "x" * 4_000_000},
        config_format="json",
        gpu_count=0,
    )
    assert client.wait(client.submit(spec, place.platform).job.id, timeout=300).status == "Complete"
    assert int(out.read_text()) > 4_000_000


@pytest.fixture
def small_disk(place: Place, tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        if os.environ.get("CI"):
            pytest.fail("a full disk needs root: a small tmpfs is mounted")
        pytest.skip("a full disk needs root: a small tmpfs is mounted")
    folder = tmp_path / "small"
    folder.mkdir()
    views: list[list[str]] = [[]]
    if node_command := place.node_command():
        views.append(node_command)
    for view in views:
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
        subprocess.run([*view, *mount], check=True)
    yield folder
    for view in views:
        subprocess.run([*view, "umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as out:
        try:
            while out.write(b"\0" * 4096):
                pass
        except OSError:
            return


def test_a_full_disk_for_the_state_is_one_clear_error_and_no_job(
    place: Place, small_disk: Path
) -> None:
    state = small_disk / "state"
    with place.client(TAO_SDK_STATE_DIR=str(state)) as client:
        fill(small_disk)
        with pytest.raises(TaoError, match="(?i)space|full|disk"):
            client.submit(
                JobSpec(
                    command="true", specs={"a": "x" * 100_000}, config_format="json", gpu_count=0
                ),
                place.platform,
            )
        (small_disk / "filler").unlink()
        assert client.list_jobs() == []
        assert (
            client.wait(
                client.submit(JobSpec(command="true", gpu_count=0), place.platform).job.id,
                timeout=300,
            ).status
            == "Complete"
        )


def test_a_full_disk_in_the_job_is_the_diagnosis(
    client: Client, place: Place, small_disk: Path
) -> None:
    job = client.submit(
        JobSpec(command=f"head -c 9000000 /dev/zero > {small_disk}/results", gpu_count=0),
        place.platform,
    ).job
    assert client.wait(job.id, timeout=300).status == "Error"
    assert client.diagnose(job.id).rule == "disk_full"  # pyright: ignore[reportOptionalMemberAccess]
