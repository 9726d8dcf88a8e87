"""What holds for every test."""

from __future__ import annotations

import signal

# Who is started in the background by a script ignores these, and so would everything that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
