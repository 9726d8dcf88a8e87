"""What a job prints, or is called, cannot move the cursor, retitle the terminal, or turn the text
around.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.tao_command import Tao
from support.tao_terminal import COLOR, on_terminal
from tao_sdk.backends.contract import FileStat
from tao_sdk.cli import output
from tao_sdk.cli.results import file_line
from tao_sdk.client.views import file_view

NASTY = "a\033]0;title\007b\033[2J\033[31mc\u202ed"


def test_no_escape_code_of_a_job_reaches_the_terminal(tao: Tao) -> None:
    ran = tao(
        "run", "--gpus", "0", "--name", "odd", "--image", NASTY, "--label", f"a={NASTY}\nend",
        "--",
            f"printf '%s\\n' 'ModuleNotFoundError: No module named {NASTY!r}' 'CUDA out of "
            f"memory {NASTY}'; exit 1",
    )  # fmt: skip
    assert ran.code == 1
    shown = [
        ran,
        tao("why", "odd"),
        tao("status", "odd"),
        tao("events", "odd"),
        tao("ls"),
        tao("files", f"/{NASTY}"),
    ]
    for each in shown:
        assert not {"\033", "\007", "\u202e"} & set(each.out + each.err)
    assert "labels     a=abcd end" in shown[2].out


def test_no_escape_code_of_a_metric_or_a_file_reaches_the_terminal(tao: Tao) -> None:
    metrics = json.dumps({"epoch": 1, "max_epoch": 2, "kpi": {NASTY: 0.5}}).replace("'", "")
    write = (
        f"printf '%s\\n' '{metrics}' > \"$TAO_RESULTS_DIR/status.json\"; echo x > "
        f'"$TAO_RESULTS_DIR/{NASTY}.pth"'
    )
    job = tao.run_detached(write)
    assert tao("wait", job).code == 0
    for verb in ("ls", "status", "results", "why"):
        _, written = on_terminal(tao, verb, *([job] if verb != "ls" else []))
        shown = COLOR.sub("", written)
        assert not {"\007", "\u202e"} & set(shown), verb
        assert not re.search(r"\x1b(?!\[[0-9;]*m)", shown), verb
        assert "\x1b[31mc" not in written, verb


def test_the_log_itself_is_printed_unchanged(tao: Tao) -> None:
    job = tao.run_detached(f"printf '%s' '{NASTY}'")
    assert tao("wait", job).code == 0
    assert tao.bytes("logs", job) == NASTY.encode()


def test_names_of_files_that_a_job_wrote_are_shown_without_escape_codes(tao: Tao) -> None:
    job = tao.run_detached(
        f"cd $TAO_RESULTS_DIR; mkdir -p train; echo 1 > $'train/model_{NASTY}_epoch_1.pth'; touch z"
    )
    assert tao("wait", job).code == 0
    shown = [
        tao("results", job),
        tao("files", f"runs/{job}/train"),
        tao("results", job, "--fetch", "here"),
    ]
    assert "model_abcd_epoch_1.pth" in shown[1].out
    for each in shown:
        assert each.code == 0
        assert not {"\033", "\007", "\u202e"} & set(each.out + each.err)


def test_an_error_that_quotes_what_was_given_is_shown_without_escape_codes(tao: Tao) -> None:
    tao.write("job.yaml", "command: 'true'\n")
    shown = [
        tao("run", f"{NASTY}.yaml"),
        tao("run", "job.yaml", "--set", f"{NASTY}=1"),
        tao(NASTY),
        tao("status", NASTY),
        tao("plan", "--gpus", "0", "--", f"echo {NASTY}"),
    ]
    for each in shown:
        assert each.out + each.err
        assert not {"\033", "\007", "\u202e"} & set(each.out + each.err)


def test_only_what_writes_to_a_terminal_filters_what_it_is_given() -> None:
    """What a line says is made elsewhere, and may hold anything: one place stands between."""
    sources = Path(output.__file__).parent.glob("*.py")
    filtering = {source.name for source in sources if "import printable" in source.read_text()}
    assert filtering == {"output.py", "watching.py"}


@pytest.mark.parametrize("mtime", [1e15, -1e15, 1e300])
def test_a_time_that_no_calendar_has_does_not_keep_a_file_from_being_listed(mtime: float) -> None:
    stat = FileStat("/x", False, 3, mtime)
    assert file_line(stat).split() == ["3", "B", "/x"]
    assert file_view(stat)["mtime"] is None
