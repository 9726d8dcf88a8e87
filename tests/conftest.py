"""What holds for every test."""

from __future__ import annotations

import signal

# Who is started in the background by a script, or by nohup, ignores these, and so would everything that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # a handler is the tests' alone: what they start has none
