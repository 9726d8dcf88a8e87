"""The start of `tao`: until the program is loaded, Ctrl-C ends it without a word. Not here: what it
does then (main.py).
"""

from __future__ import annotations

import gc
import signal


def main() -> None:
    """Load and run the command: this is the script `tao`. If SIGINT is ignored, as under nohup, it
    stays ignored.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # loaded modules stay: a garbage search takes a tenth of a short command
    from tao_sdk.cli import main as command

    gc.freeze()
    gc.enable()
    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command.main()
