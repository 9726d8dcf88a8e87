"""Where `tao` begins: until the program is loaded, Ctrl-C ends it without a word. Not here: what it
does then (main.py).
"""

from __future__ import annotations

import signal


def main() -> None:
    """What the script `tao` runs. Who ignores Ctrl-C, as nohup has it, goes on ignoring it."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tao_sdk.cli import main as command

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command.main()
