"""Where `tao` begins: until the program is loaded, Ctrl-C ends it without a word. Not here: what it
does then (main.py).
"""

from __future__ import annotations

import gc
import signal


def main() -> None:
    """What the script `tao` runs. Who ignores Ctrl-C, as nohup has it, goes on ignoring it."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # what is loaded stays: to search it for garbage takes a tenth of a short command
    from tao_sdk.cli import main as command

    gc.freeze()
    gc.enable()
    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command.main()
