"""Start a program of this package: from the packed code when it fits this interpreter, else from the sources.

Called as `python3 -IS launch.py NAME WORD...`. No site, no os, no importlib: each would cost more than a creation.
"""

import marshal
import posix
import sys

PACKAGE = "nvidia_container_runtime"
ModuleSpec = type(sys.__spec__)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportAttributeAccessIssue]


class Packed:
    """Imports the package's modules from one file of precompiled code."""

    def __init__(self, modules):  # type: ignore[no-untyped-def]
        self.modules = modules

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name not in self.modules:
            return None
        return ModuleSpec(name, self, is_package=self.modules[name][0])

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        return None

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        exec(marshal.loads(self.modules[module.__name__][1]), module.__dict__)


def read(path: str) -> bytes:
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    content = posix.read(descriptor, posix.fstat(descriptor).st_size)
    posix.close(descriptor)
    return content


def main() -> int:
    folder = sys.argv[0].rpartition("/")[0]
    try:
        tag, modules = marshal.loads(read(f"{folder}/{sys.implementation.cache_tag}.pack"))
    except (OSError, ValueError, EOFError, TypeError):
        tag, modules = "", {}
    if tag == sys.version:
        sys.meta_path.insert(0, Packed(modules))
    else:  # the interpreter was replaced since the package was installed
        sys.path.insert(0, folder)
    name, words = sys.argv[1], [word.encode("utf-8", "surrogateescape") for word in sys.argv[2:]]
    from nvidia_container_runtime.program import run

    return run(name, words, folder)


if __name__ == "__main__":
    code = main()
    try:
        sys.stdout.flush()
    except OSError:
        code = code or 1
    posix._exit(code)
