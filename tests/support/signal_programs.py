"""Programs that say what signals they get, once they have printed `up`."""

from __future__ import annotations

# waits a while for a further signal, and prints `told N`
COUNTS_SIGNALS = """
import signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
print("up", flush=True)
while not told:
    time.sleep(0.1)
for _ in range(15):
    time.sleep(0.1)
print("told", len(told), flush=True)
"""

# for /bin/sh: the program saves when it is told to end; the shell above it ends at once
SAVES_BELOW_A_SHELL = (
    """sh -c "trap 'sleep 1; echo saved; exit' TERM; echo up; sleep 300 & wait"; echo more"""
)
