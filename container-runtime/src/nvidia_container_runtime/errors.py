"""The one error that ends a command: its text is what the log line says."""


class RuntimeFault(Exception):
    """Something the caller of the shim has to know: printed as one line, exit code 1, nothing else
    done.
    """


def reason(error: OSError) -> str:
    """An operating system's error in the words Go programs use, which is what people search their
    logs for.
    """
    return (error.strerror or str(error)).lower()
