"""What a job prints, or is called, cannot move the cursor, retitle the terminal, or turn the text around."""

from __future__ import annotations

import json
import re

from tao_command import Tao
from tao_terminal import COLOR, on_terminal

NASTY = "a\033]0;title\007b\033[2J\033[31mc\u202ed"


def test_no_escape_code_of_a_job_reaches_the_terminal(tao: Tao) -> None:
    ran = tao(
        "run", "--gpus", "0", "--name", "odd", "--image", NASTY, "--label", f"a={NASTY}\nend",
        "--", f"printf '%s\\n' 'ModuleNotFoundError: No module named {NASTY!r}' 'CUDA out of memory {NASTY}'; exit 1",
    )  # fmt: skip
    assert ran.code == 1
    shown = [ran, tao("why", "odd"), tao("status", "odd"), tao("events", "odd"), tao("ls"), tao("files", f"/{NASTY}")]
    for each in shown:
        assert not {"\033", "\007", "\u202e"} & set(each.out + each.err)
    assert "labels     a=abcd end" in shown[2].out


def test_no_escape_code_of_a_metric_or_a_file_reaches_the_terminal(tao: Tao) -> None:
    metrics = json.dumps({"epoch": 1, "max_epoch": 2, "kpi": {NASTY: 0.5}}).replace("'", "")
    write = f"printf '%s\\n' '{metrics}' > \"$TAO_RESULTS_DIR/status.json\"; echo x > \"$TAO_RESULTS_DIR/{NASTY}.pth\""
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
