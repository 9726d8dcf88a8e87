"""The program that a name stands for, and the outermost edge of each: nothing leaves a traceback
on a container's log.
"""

import sys

from .journal import complain

SIGINT, SIG_DFL = 2, 0


def main(words: "list[str]", state: str = "") -> int:
    """Run the program named by the first word. `state` is where memory lies, "" for nowhere."""
    leave_interrupts_alone()
    name, encoded = words[0], [word.encode("utf-8", "surrogateescape") for word in words[1:]]
    try:
        if name == "nvidia-container-runtime-hook":
            from . import hook

            return hook.main(words[1:], state)
        if name == "nvidia-ctk":
            from .ctk import command

            return command.main(words[1:])
        from . import memory, shim

        return shim.main(name, encoded, memory.Memory(state))
    except Exception as error:  # noqa: BLE001 - the process ends here, in one line
        complain("error", f"internal error: {type(error).__name__}: {error}")
        return 1


def leave_interrupts_alone() -> None:
    """An interrupt ends this program as it would end any other: Python's own way prints a
    traceback.
    """
    if "_signal" not in sys.modules:
        return  # a quick start: Python has not come to its signals
    import _signal  # pyright: ignore[reportMissingImports]

    if callable(_signal.getsignal(SIGINT)):
        _signal.signal(SIGINT, SIG_DFL)
