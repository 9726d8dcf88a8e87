"""The first module to run in the job: the others are imported from the payload, compiled when they are first needed."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.abc import Loader
    from types import ModuleType
    from typing import Dict, Optional, cast

PACKAGE = "tao_runner"


class Payload:
    """A finder and loader of the modules that travelled with the job."""

    def __init__(self, sources: Dict[str, bytes]) -> None:
        self.sources = sources

    def find_spec(self, name: str, path: object = None, target: object = None) -> Optional[ModuleSpec]:  # noqa: ARG002
        package, _, module = name.rpartition(".")
        if name == PACKAGE or (package == PACKAGE and module in self.sources):
            return ModuleSpec(name, as_loader(self), is_package=name == PACKAGE)
        return None

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.rpartition(".")[2]
        if name in self.sources:
            exec(compile(self.sources[name], "<runner/%s.py>" % name, "exec"), module.__dict__)


def as_loader(payload: Payload) -> Loader:
    """Python asks a loader for two methods, not for a base class that takes milliseconds to import."""
    if TYPE_CHECKING:
        return cast("Loader", payload)
    return payload


def boot(data: bytes, at: int, locale: str) -> None:
    """Read the index that starts at `at` (lines `name size`, then an empty one) and the blobs behind it, and begin.

    The document is a Python literal of the packer's, as much ours as the modules beside it.
    """
    blobs: Dict[str, bytes] = {}
    end = data.index(b"\n\n", at)
    start = end + 2
    for line in data[at:end].decode().split("\n"):
        name, size = line.split(" ")
        blobs[name] = data[start : start + int(size)]
        start += int(size)
    files = [blobs[str(number)] for number in range(len(blobs)) if str(number) in blobs]
    sys.meta_path.insert(0, Payload(blobs))
    main = __import__(PACKAGE + ".main", fromlist=["start"])
    main.start(eval(blobs["document"], {}), files, locale)
