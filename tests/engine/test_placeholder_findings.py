"""A placeholder that is not quite one stays in the command as it is: that is told before the job
starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tao_sdk.client import Client


def placeholders(client: Client, command: str, **fields: Any) -> list[str]:
    findings = client.plan({"command": command, "gpu_count": 0, **fields}, "local").findings
    return [
        f"{found.what} {found.fix}" for found in findings if found.code == "command.placeholder"
    ]


def test_an_input_in_braces_is_refused_where_it_is_a_path_in_the_job(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "best.pt").write_text("1")
    brought = {"ckpt": str(tmp_path / "best.pt")}
    (line,) = placeholders(client, "eval.py --ckpt {ckpt}", inputs=brought)
    assert "Write ckpt in the place of {ckpt}" in line
    assert not placeholders(client, "eval.py --ckpt ckpt ${ckpt}", inputs=brought)


@pytest.mark.parametrize(
    ("command", "fields", "told"),
    [
        (
            "train {config_pth}",
            {"specs": {"a": 1}},
            ["{config_pth}", "Did you mean {config_path}?"],
        ),
        ("train {configpath}", {}, ["{configpath}", "Did you mean {config_path}?"]),
        ("train {lerning_rate}", {"args": {"learning-rate": 1}}, ["Did you mean {learning_rate}?"]),
        ("train {config_path}", {}, ["{config_path}", "Give it specs."]),
        ("train {args}", {}, ["{args}", "--args NAME=VALUE"]),
        ("train {args}", {"args": {"lr": 1}}, ["{args}", "Leave {args} out", "{lr}"]),
    ],
)
def test_a_placeholder_that_nothing_replaces_is_told(
    client: Client, command: str, fields: dict[str, Any], told: list[str]
) -> None:
    (line,) = placeholders(client, command, **fields)
    assert all(word in line for word in told)


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("train {config_path}", {"specs": {"a": 1}}),
        ("train ${config_pth}", {"specs": {"a": 1}}),
        ("train {learning_rate} {learning-rate}", {"args": {"learning-rate": 1}}),
        ("awk '{print $1}' {a,b}.txt; function f { echo; }", {}),
    ],
)
def test_other_braces_are_the_commands_own(
    client: Client, command: str, fields: dict[str, Any]
) -> None:
    assert placeholders(client, command, **fields) == []
