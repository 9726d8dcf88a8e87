"""The importer of packed code, and the start of a program from it. launch.py runs this out of the
pack.

No site, no os, no importlib: each would cost more than all of a creation. pack.py makes the pack
and describes it.
"""

import gc
import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Module: "Any" = type(sys)
ModuleSpec: "Any" = type(sys.__spec__)  # pyright: ignore


class Pack:
    """One file of precompiled code; what a module imports beyond the usual is read when it does."""

    def __init__(
        self, descriptor: int, start: int, json: str, index: "dict[str, tuple[bool, int, int]]"
    ) -> None:
        self.descriptor = descriptor
        self.start = start
        self.json = json
        self.index = index

    def read(self, name: str) -> "Any":
        _, offset, size = self.index[name]
        return marshal.loads(posix.pread(self.descriptor, size, self.start + offset))

    def load_always(self) -> None:
        """The modules of every creation, made here in order: the import system would take longer
        for each.
        """
        for name, package, code in self.read(""):
            module = sys.modules[name] = Module(name)
            parent, _, last = name.rpartition(".")
            module.__package__ = name if package else parent
            if package:
                module.__path__ = []
            else:
                setattr(sys.modules[parent], last, module)
            exec(code, module.__dict__)

    def find_spec(self, name: str, path: object = None, target: object = None) -> "Any":
        if name == "_json" and self.json:
            loader = sys.modules["_frozen_importlib_external"].ExtensionFileLoader(name, self.json)
            return ModuleSpec(name, loader, origin=self.json)
        entry = self.index.get(name)
        return entry and ModuleSpec(name, self, is_package=entry[0])

    def create_module(self, spec: object) -> None:
        """As the import system makes modules."""

    def exec_module(self, module: "Any") -> None:
        exec(self.read(module.__name__), module.__dict__)


class StandardLibrary:
    """The finder before the last, in a quick start: the first import that needs a folder completes
    what was skipped.
    """

    def __init__(self, folders: "list[str]") -> None:
        self.folders = folders

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if sys.path == self.folders:
            return
        sys.path[:] = self.folders
        del sys.modules["encodings"]  # launch.py's code; the real one knows all codecs
        import encodings  # noqa: F401  # pyright: ignore


def start(
    quick: bool,
    descriptor: int,
    offset: int,
    state: str,
    json: str,
    folders: "list[str]",
    index: "dict[str, tuple[bool, int, int]]",
) -> int:
    """Run the program that the command line names. The pack is open as `descriptor`; its code
    starts at `offset`.
    """
    gc.disable()  # the process lives for milliseconds
    pack = Pack(descriptor, offset, json, index)
    sys.meta_path.insert(0, pack)
    if quick:
        sys.meta_path.insert(-1, StandardLibrary(folders))
    pack.load_always()
    from nvidia_container_runtime.program import main

    return main(sys.argv[1:], state)
