"""What the shell of a command does with the end and the output of its programs."""

from __future__ import annotations

import pytest

from tao_sdk.payload.pipelines import cut_by_signal, hidden_exit_code, holding_filter

SCRIPTS = {"job.sh": "#!/bin/bash\nset -u\npython train.py 2>&1 | tee log\n"}


def read(path: str) -> str:
    return SCRIPTS.get(path.removeprefix("./"), "")


@pytest.mark.parametrize(
    "command",
    [
        "python t.py 2>&1 | tee log.txt",
        "t |& tee -i a",
        "t|tee a",
        "for i in 1 2; do python t.py; done | tee log",
        "bash -c 'python t.py | tee -a log'",
        "bash job.sh",
        "./job.sh",
    ],
)
def test_a_tee_that_the_signal_ends_is_found_in_scripts_too(command: str) -> None:
    assert cut_by_signal(command, read)


@pytest.mark.parametrize(
    "command",
    ["python t.py", "trap : TERM; t | (trap '' TERM; exec tee log)", "t | teehee", "bash other.sh"],
)
def test_a_command_without_such_a_tee_has_none(command: str) -> None:
    assert not cut_by_signal(command, read)


@pytest.mark.parametrize(
    ("command", "last"),
    [
        ("python t.py | tee log", "tee"),
        ("python t.py 2>&1 | grep loss | sed s/a/b/", "sed"),
        ("bash -c 'python t.py 2>&1 | tee -a log'", "tee"),
        ("bash job.sh", "tee"),
        ("python t.py | (trap '' TERM; exec tee log)", "tee"),
        ("python t.py; echo done", "echo"),
        ("python t.py & wait", "wait"),
        ("python t.py > log 2>&1 & python u.py & wait", "wait"),
        ("python t.py & wait; echo done", "echo"),
        ("X=1 python t.py\nls", "ls"),
        ("python t.py || true", "true"),
        ("set -e; python t.py | tee log", "tee"),
    ],
)
def test_the_last_program_hides_how_another_ended(command: str, last: str) -> None:
    hiding = hidden_exit_code(command, read)
    assert hiding is not None
    assert hiding.last == last


@pytest.mark.parametrize(
    "command",
    [
        "python t.py",
        "python t.py && echo done",
        "python a.py; python b.py",
        "mkdir -p a; cd a; python t.py",
        "set -o pipefail; python t.py | tee log",
        "bash -eo pipefail -c 'python t.py | tee log'",
        "set -e; python t.py; echo done",
        "python t.py; exit $?",
        "echo y | tee answer",
        "python t.py --note 'a; b | c'",
    ],
)
def test_a_command_that_ends_as_its_program_does_hides_nothing(command: str) -> None:
    assert hidden_exit_code(command, read) is None


@pytest.mark.parametrize(
    ("command", "helps"),
    [
        ("python t.py | grep loss", "--line-buffered"),
        ("python t.py 2>&1 | sed s/a/b/ | tee log", "-u"),
        ("python t.py | awk '{print $1}'", "fflush()"),
        ("bash -c 'python t.py | tr a b'", "stdbuf -oL tr"),
    ],
)
def test_a_filter_that_holds_lines_back_is_named_with_what_helps(command: str, helps: str) -> None:
    found = holding_filter(command, read)
    assert found is not None
    assert found[1] == helps


@pytest.mark.parametrize(
    "command",
    [
        "python t.py | tee log",
        "python t.py | grep --line-buffered loss",
        "python t.py | sed -u s/a/b/",
        "python t.py | awk '{print; fflush()}'",
        "python t.py | stdbuf -oL tr a b",
        "grep loss old.log; python t.py",
    ],
)
def test_a_filter_that_prints_each_line_at_once_is_not_named(command: str) -> None:
    assert holding_filter(command, read) is None
