"""The first module to run in the job: the others are imported from the payload, compiled when they are first needed."""

import sys
from importlib.machinery import ModuleSpec

PACKAGE = "tao_runner"


class Payload:
    """A finder and loader of the modules that travelled with the job."""

    def __init__(self, sources):  # type: (dict[str, bytes]) -> None
        self.sources = sources

    def find_spec(self, name, path=None, target=None):  # type: (str, object, object) -> ModuleSpec | None
        package, _, module = name.rpartition(".")
        if name == PACKAGE:
            return ModuleSpec(name, self, is_package=True)
        return ModuleSpec(name, self) if package == PACKAGE and module in self.sources else None

    def create_module(self, spec):  # type: (ModuleSpec) -> None
        return None

    def exec_module(self, module):  # type: (object) -> None
        name = module.__name__.rpartition(".")[2]
        if name in self.sources:
            exec(compile(self.sources[name], "<runner/%s.py>" % name, "exec"), module.__dict__)


def boot(data, at, locale):  # type: (bytes, int, str) -> None
    """Read the index that starts at `at` (lines `name size`, then an empty one) and the blobs behind it, and begin."""
    blobs = {}
    end = data.index(b"\n\n", at)
    start = end + 2
    for line in data[at:end].decode().split("\n"):
        name, size = line.split(" ")
        blobs[name] = data[start : start + int(size)]
        start += int(size)
    files = [blobs[str(number)] for number in range(len(blobs)) if str(number) in blobs]
    sys.meta_path.insert(0, Payload(blobs))
    from json import loads

    main = __import__(PACKAGE + ".main", fromlist=["start"])
    main.start(loads(blobs["document"]), files, locale)
