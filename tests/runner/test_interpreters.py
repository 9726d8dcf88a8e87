"""The entrypoint under every shell and every Python that is here."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tao_sdk
from support.pythons import NEW_ENOUGH, TOO_OLD, alone
from tao_sdk.runner.events import EventFilter
from tao_sdk.script_runner import build_entrypoint

PACKAGE = Path(tao_sdk.__file__).parent
PACKED = [path for room in ("net", "runner") for path in (PACKAGE / room).rglob("*.py")]
SHELLS = [
    shell
    for shell in (["bash"], ["dash"], ["busybox", "sh"], ["sh"], ["bash", "--posix"])
    if shutil.which(shell[0])
]


def everything(data: Path) -> str:
    """An entrypoint that needs every part of the runner."""
    specs = {
        "in": {"data": [str(data)]},
        "out": "",
        "train": {"resume_training_checkpoint_path": None, "lr": 1e-05},
    }
    return build_entrypoint(
        command="cat {config_path}; cat hello.txt; printf 'no newline' >&2",
        specs=specs,
        inputs={"in.data": {"type": "file"}},
        outputs={"out": {"type": "folder"}},
        config_format="yaml",
        files={"hello.txt": "héllo\n"},
    )["command"]


@pytest.mark.parametrize("version", sorted(NEW_ENOUGH))
def test_a_job_runs_under_every_python_from_3_8_on(version, jobs, tmp_path):
    (tmp_path / "d.txt").write_text("x")
    ran = jobs.run_text(
        everything(tmp_path / "d.txt"), env={"PATH": alone(tmp_path, NEW_ENOUGH[version])}
    )
    assert ran.code == 0, ran.raw
    assert "héllo".encode() in ran.out and b"lr: 1.0e-05" in ran.out
    assert ran.err == b"no newline"
    assert ran.stages == ["files", "inputs", "spec", "command", "outputs", "done"]


@pytest.mark.parametrize("version", sorted(NEW_ENOUGH))
def test_a_passthrough_job_is_kept_under_every_python_from_3_8_on(version, jobs, tmp_path):
    ran = jobs.run(
        f"mkdir -p {tmp_path}/o; echo 1 > {tmp_path}/o/a; sleep 0.3; echo 2 >> {tmp_path}/o/a.log",
        outputs=[f"{tmp_path}/o"],
        env={
            "PATH": f"{alone(tmp_path, NEW_ENOUGH[version])}:/usr/bin:/bin",
            "TAO_SYNC_SECONDS": "0.05",
        },
    )
    assert ran.code == 0, ran.raw
    assert set(ran.files) == {"o/a", "o/a.log"}


def said(raw: bytes) -> tuple[str, list[tuple[str, str, str]]]:
    """The lines for people, and of each event its name, code and what."""
    divider = EventFilter()
    text, events = divider.feed(raw)
    return text.decode(), [
        (event.name, event.facts["code"], event.facts["what"]) for event in events
    ]


@pytest.mark.parametrize("version", sorted(TOO_OLD))
def test_a_python_that_is_too_old_is_told_in_one_line(version, jobs, tmp_path):
    ran = jobs.run_text(everything(tmp_path), env={"PATH": alone(tmp_path, TOO_OLD[version])})
    assert ran.code == 127
    what = f"this job needs python3 3.8 or later, the image has {version}."
    assert said(ran.raw) == (f"tao: {what}\n", [("failed", "python3.missing", what)])


@pytest.mark.skipif(not TOO_OLD, reason="no Python older than 3.8 is here")
def test_a_newer_python_beside_one_that_is_too_old_is_found(jobs, tmp_path):
    (tmp_path / "d.txt").write_text("x")
    path = alone(tmp_path, next(iter(TOO_OLD.values())))
    version, newer = next(iter(NEW_ENOUGH.items()))
    Path(path, f"python{version}").symlink_to(newer)
    assert jobs.run_text(everything(tmp_path / "d.txt"), env={"PATH": path}).code == 0


def test_an_image_without_python_gets_one_plain_line_and_127(jobs, tmp_path):
    text = build_entrypoint(command="true")["command"]
    for fixed in ("/usr/bin/python3", "/usr/local/bin/python3", "/opt/conda/bin/python3"):
        text = text.replace(fixed, "/nowhere/python3")
    empty = tmp_path / "empty"
    empty.mkdir()
    ran = jobs.run_text(text, env={"PATH": str(empty)})
    assert ran.code == 127
    what = "this job needs python3 (3.8 or later) in its image, and there is none."
    assert said(ran.raw) == (f"tao: {what}\n", [("failed", "python3.missing", what)])


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_text_works_as_an_argument_and_as_a_file_of_every_shell(shell, jobs, tmp_path):
    (tmp_path / "d.txt").write_text("x")
    text = everything(tmp_path / "d.txt")
    (tmp_path / "job.sh").write_text(text)
    assert jobs.run_text(text, shell=(*shell, "-c")).code == 0
    assert jobs.run_text(str(tmp_path / "job.sh"), shell=tuple(shell)).code == 0


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_spec_of_four_megabytes_works_as_a_file_of_every_shell(shell, jobs, tmp_path):
    specs = {f"key{number}": f"{number * 7919:032x}" * 8 for number in range(15_000)}
    text = build_entrypoint(command="wc -c < {config_path}", specs=specs, config_format="json")[
        "command"
    ]
    (tmp_path / "job.sh").write_text(text)
    ran = jobs.run_text(str(tmp_path / "job.sh"), shell=tuple(shell))
    assert (ran.code, ran.err) == (0, b"")
    assert int(ran.out) > 4_000_000


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_files_too_large_for_a_pipe_travel_whole_and_stdin_stays_the_callers(shell, jobs, tmp_path):
    content = bytes(range(256)) * 4096
    text = build_entrypoint(command="cat big.bin; cat", files={"big.bin": content})["command"]
    (tmp_path / "job.sh").write_text(text)
    ran = jobs.run_text(str(tmp_path / "job.sh"), shell=tuple(shell), stdin=b"from stdin")
    assert ran.out == content + b"from stdin"


def test_the_command_runs_under_bash_even_when_the_entrypoint_is_started_by_sh(jobs):
    text = build_entrypoint(command='a=(1 2); [[ ${a[1]} == 2 ]] && echo "$BASH"')["command"]
    ran = jobs.run_text(text, shell=("sh", "-c"))
    assert (ran.code, ran.out) == (0, b"/bin/bash\n")


def test_no_value_is_in_an_argument_and_no_file_lies_at_a_guessable_name(jobs):
    ran = jobs.run(
        "tr '\\0' ' ' < /proc/$PPID/cmdline; echo; ls -A $TMPDIR",
        specs={"token": "s3cr3t-value"},
        config_format="yaml",
    )
    assert b"s3cr3t-value" not in ran.out
    assert ran.out.endswith(b"\nresults\n")


def test_the_commands_environment_is_the_jobs_and_nothing_more(jobs):
    ran = jobs.run("env -0", env={"LANG": "C", "ODD": "a\nb 'c' \"d\""})
    seen = dict(line.split(b"=", 1) for line in ran.out.split(b"\0") if line)
    for shells_own in (b"PWD", b"SHLVL", b"_", b"OLDPWD"):
        seen.pop(shells_own, None)
    expected = {
        **jobs.env,
        "LANG": "C",
        "ODD": "a\nb 'c' \"d\"",
        "TAO_RESULTS_DIR": str(jobs.results),
    }
    assert seen == {name.encode(): value.encode() for name, value in expected.items()}


def modules_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    return names | {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
    }


# What a python3 cut down to its minimum does not have (Debian's python3-minimal), and what is slow
# to import.
ABSENT = {"json", "shutil", "base64", "dataclasses", "uuid", "queue", "csv"}
SLOW = {
    "typing",
    "subprocess",
    "tempfile",
    "logging",
    "pathlib",
    "inspect",
    "asyncio",
    "urllib",
    "site",
}


def test_a_job_needs_no_module_that_a_minimal_python_lacks_and_none_that_is_slow(jobs, tmp_path):
    (tmp_path / "d.txt").write_text("x")
    python3 = tmp_path / "python3"
    python3.write_text(f'#!/bin/sh\nexec {sys.executable} -X importtime "$@"\n')
    python3.chmod(0o755)
    ran = jobs.run_text(everything(tmp_path / "d.txt"), env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert ran.code == 0
    loaded = {
        line.split("|")[-1].strip().split(".")[0]
        for line in ran.err.decode().splitlines()
        if "|" in line
    }
    assert {"tao_sdk", "os", "threading"} <= loaded
    assert not loaded & (ABSENT | SLOW)


@pytest.mark.slow
def test_the_runner_imports_only_the_standard_library():
    for path in PACKED:
        assert modules_of(path) <= {*sys.stdlib_module_names, "tao_sdk"}, path.name


def test_the_runner_is_written_in_the_syntax_of_python_3_8():
    for path in PACKED:
        ast.parse(path.read_text(), feature_version=(3, 8))


def test_importing_the_script_runner_leaves_logging_as_it_was():
    code = (
        "import sys, logging; import tao_sdk.script_runner; print(logging.root.handlers, "
        "logging.root.level)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] 30"
