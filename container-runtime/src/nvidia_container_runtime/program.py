"""Which program a name stands for, and the outermost edge of each: nothing leaves a traceback on a container's log."""

from .journal import complain


def run(name: str, words: "list[bytes]", folder: str) -> int:
    try:
        if name == "nvidia-container-runtime-hook":
            from . import hook

            return hook.main(words)
        if name == "nvidia-ctk":
            from .ctk import command

            return command.main([word.decode(errors="surrogateescape") for word in words])
        from . import front, shim

        return shim.main(name, words, front.Memory(folder).keep)
    except Exception as error:  # noqa: BLE001 - the process ends here, in one line
        complain("error", f"internal error: {type(error).__name__}: {error}")
        return 1
