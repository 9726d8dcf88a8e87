"""The first module to run in the job: the others are imported from the payload, compiled when they are first needed."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.abc import Loader
    from types import ModuleType
    from typing import cast

PACKAGE = "tao_sdk"


class Payload:
    """A finder and loader of the modules that travelled with the job: `net.web` is tao_sdk.net.web."""

    def __init__(self, sources: dict[str, bytes]) -> None:
        self.modules = {PACKAGE + "." + name: source for name, source in sources.items()}
        self.packages = {parent for name in self.modules for parent in parents(name)}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        if name in self.modules or name in self.packages:
            return ModuleSpec(name, as_loader(self), is_package=name in self.packages)
        return None

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name in self.modules:
            exec(compile(self.modules[name], f"<{name.replace('.', '/')}.py>", "exec"), module.__dict__)


def parents(name: str) -> Iterator[str]:
    """`a.b` and `a` of a.b.c."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def as_loader(payload: Payload) -> Loader:
    """Python asks a loader for two methods, not for a base class that takes milliseconds to import."""
    if TYPE_CHECKING:
        return cast("Loader", payload)
    return payload


def boot(modules: bytes, job: bytes, locale: str) -> None:
    """Make the modules importable, and begin the job.

    The document is a Python literal of the packer's, as much ours as the modules beside it.
    """
    sys.meta_path.insert(0, Payload(divided(modules)))
    parts = divided(job)
    files = [parts[str(number)] for number in range(len(parts) - 1)]
    main = __import__(PACKAGE + ".runner.main", fromlist=["start"])
    main.start(eval(parts["document"], {}), files, locale)


def divided(data: bytes) -> dict[str, bytes]:
    """Name -> content of what the packer joined: an index of lines `name size`, an empty line, the contents."""
    end = data.index(b"\n\n")
    start = end + 2
    contents: dict[str, bytes] = {}
    for line in data[:end].decode().split("\n"):
        name, size = line.split(" ")
        contents[name] = data[start : start + int(size)]
        start += int(size)
    return contents
