"""What help(Client) shows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tao_sdk.client import Client
from tao_sdk.model import errors

TEXT = Client.__doc__ or ""


@pytest.mark.slow
def test_the_example_of_a_client_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TAO_SDK_STATE_DIR", str(tmp_path / "state"))
    example = doctest.DocTestParser().get_doctest(TEXT, {}, "Client", None, None)
    assert doctest.DocTestRunner().run(example) == (0, len(example.examples))
    assert example.examples


def test_the_calls_and_errors_that_a_client_names_are_there() -> None:
    calls = re.findall(r"`(\w+)`[,.]", TEXT)
    assert len(calls) > 15
    assert [name for name in calls if not hasattr(Client, name)] == []
    named = re.findall(r"\b[A-Z]\w+(?:Error|Found|Timeout)\b|Refused|Unreachable", TEXT)
    assert {"TaoError", "JobNotFound"} <= set(named)
    assert [name for name in named if not hasattr(errors, name)] == []
