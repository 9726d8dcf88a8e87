"""What holds for every test."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from hypothesis import settings

from support import marks

# Who is started in the background by a script, or by nohup, ignores these, and so would everything
# that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(
        signal.SIGHUP, lambda *_: None
    )  # a handler is the tests' alone: what they start has none

# Each test that starts a program would compile the whole package anew, and each start of pytest all
# tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example takes is the machine's business.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    marks.running[:] = [item]
