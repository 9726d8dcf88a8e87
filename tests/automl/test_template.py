"""The job of a trial: how values go into it."""

from __future__ import annotations

import subprocess

from tao_automl.template import with_params
from tao_sdk.model.spec import JobSpec


def test_what_stands_in_a_value_is_no_placeholder_of_the_command() -> None:
    spec = JobSpec(command="printf '%s|' {a} {b}")
    values = {"{a}": "x {b}", "{b}": "; echo taken"}
    command = with_params(spec, values).command
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert run.stdout == "x {b}|; echo taken|"
