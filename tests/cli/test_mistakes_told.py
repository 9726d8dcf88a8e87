"""Several mistakes of one job file: each is told for people and for programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.tao_command import Ran

WRONG = "command: x\ngpu_cont: 0\nenv_vars: {A-B: c}\noptions:\n  local: {venv_pth: /v}\n"


def test_every_mistake_has_lines_of_its_own(typed: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    ran = typed("run", "wrong.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "error: wrong.yaml:2:1: unknown key 'gpu_cont'.",
        "next:  Did you mean gpu_count?",
        "error: wrong.yaml:3:11: env_vars has the name 'A-B'; letters, digits and _ are allowed.",
        "error: wrong.yaml:5:11: unknown key 'venv_pth' of local.",
        "next:  Did you mean venv_path?",
    ]


def test_programs_get_the_list_with_line_and_key(typed: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    ran = typed("plan", "--json", "wrong.yaml")
    assert ran.code == 2
    error = ran.error
    assert error["code"] == "job_file.invalid"
    assert "gpu_cont" in error["message"]
    assert [(one["file"], one["line"], one["key"]) for one in error["mistakes"]] == [  # pyright: ignore
        ("wrong.yaml", 2, "gpu_cont"), ("wrong.yaml", 3, "env_vars"),
        ("wrong.yaml", 5, "options.local.venv_pth"),
    ]  # fmt: skip


def test_the_doctor_tells_all_of_them_too(typed: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    ran = typed("doctor", "wrong.yaml")
    assert ran.code == 2
    assert ran.err.count("error: ") == 3
