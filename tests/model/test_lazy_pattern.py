"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tao_sdk.model.lazy_pattern import lazy_compile

# Prints the modules of the package that compile a pattern when they are imported.
COUNTER = """
import re, sys
compile_really = re._compile
def compile_noted(*arguments):
    names = (frame.f_globals["__name__"] for frame in frames(sys._getframe(1)))
    print(next(name for name in names if not name.startswith(("re", "functools"))))
    return compile_really(*arguments)
def frames(frame):
    while frame:
        yield frame
        frame = frame.f_back
re._compile = compile_noted
import tao_sdk.model.progress_lines, tao_sdk.engine.rules
"""


def test_a_lazy_pattern_answers_as_a_compiled_one() -> None:
    lazy = lazy_compile(r"epoch (\d+)", re.IGNORECASE)
    found = lazy.search("Epoch 12 of 20")
    assert found is not None
    assert found[1] == "12"
    assert lazy.pattern == r"epoch (\d+)"
    assert lazy.sub("step", "epoch 3, epoch 4") == "step, step"


def test_an_error_in_a_lazy_pattern_is_raised_at_its_first_use() -> None:
    with pytest.raises(re.error):
        lazy_compile("(").search("text")


def test_the_long_tables_of_patterns_are_not_compiled_at_the_start() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNTER], capture_output=True, text=True, check=True
    )
    ours = {name for name in done.stdout.split() if name.startswith("tao_sdk.")}
    assert not ours & {"tao_sdk.model.rule", "tao_sdk.model.progress_lines", "tao_sdk.engine.rules"}
