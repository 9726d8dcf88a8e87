"""The first module to run in the job. It imports the others from the payload: each is expanded and
compiled when it is first needed.
"""

from __future__ import annotations

import sys
from _frozen_importlib import ModuleSpec  # importlib.machinery's, which takes longer to import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.abc import Loader
    from types import ModuleType
    from typing import cast

PACKAGE = "tao_sdk"
CODES = [
    bytes([code]) for code in (*range(1, 9), *range(14, 32), *range(128, 256))
]  # bytes that no source contains


class Payload:
    """A finder and loader of the modules in the payload: `net.web` is tao_sdk.net.web."""

    def __init__(self, sources: dict[str, bytes], pieces: list[bytes]) -> None:
        self.modules = {PACKAGE + "." + name: source for name, source in sources.items()}
        self.packages = {PACKAGE, *(name.rpartition(".")[0] for name in self.modules)}
        self.pieces = pieces

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        is_package = name in self.packages
        if is_package or name in self.modules:
            return ModuleSpec(name, as_loader(self), is_package=is_package)
        return None

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ in self.modules:
            # `compile` could set the file name, but first builds all classes of the syntax tree
            exec(written_out(self.modules[module.__name__], self.pieces), module.__dict__)


def as_loader(payload: Payload) -> Loader:
    """The payload as a Loader. Python needs only its two methods, not the base class, which takes
    milliseconds to import.
    """
    if TYPE_CHECKING:
        return cast("Loader", payload)
    return payload


def boot(modules: bytes, job: bytes, locale: str) -> None:
    """Make the modules importable, and begin the job.

    The document is a Python literal from the packer, as trusted as the modules beside it.
    """
    pieces, (listed, *texts) = (part.split(b"\0") for part in modules.split(b"\0\0"))
    names = written_out(listed, pieces).decode().split()
    sys.meta_path.insert(0, Payload(dict(zip(names, texts)), pieces))
    parts = split_contents(job)
    files = [parts[str(number)] for number in range(len(parts) - 1)]
    main = __import__(PACKAGE + ".runner.main", fromlist=["start"])
    main.start(eval(parts["document"], {}), files, locale)


def written_out(text: bytes, pieces: list[bytes]) -> bytes:
    """Expand a text in which the packer replaced each frequent piece by one byte."""
    for code, piece in reversed([*zip(CODES, pieces)]):
        text = text.replace(code, piece)
    return text


def split_contents(data: bytes) -> dict[str, bytes]:
    """Split the packer's joined files into name -> content. The format: an index of lines `name
    size`, an empty line, the contents.
    """
    end = data.index(b"\n\n")
    start = end + 2
    contents: dict[str, bytes] = {}
    for line in data[:end].decode().split("\n"):
        name, size = line.split(" ")
        contents[name] = data[start : start + int(size)]
        start += int(size)
    return contents
