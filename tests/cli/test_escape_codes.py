"""What a job prints, or is called, cannot move the cursor, retitle the terminal, or turn the text around."""

from __future__ import annotations

from tao_command import Tao

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


def test_the_log_itself_is_printed_unchanged(tao: Tao) -> None:
    job = tao.run_detached(f"printf '%s' '{NASTY}'")
    assert tao("wait", job).code == 0
    assert tao.bytes("logs", job) == NASTY.encode()
