"""The build step: all modules as one file of code, without what only people and debuggers read.

Run by the interpreter that will run the shim, because bytecode is its own:  python3 -I pack.py
SOURCES TARGET STATE The file: the length of the head in 8 digits, the head, the code of the
modules. The head is (interpreter's version, loader.py's code, where the front's state lies, where
_json lies, where the standard library lies, {module: (is a package, offset, size)}); what every
creation imports is one piece, named "".

Beside it lies the quick start, `start/`: a link to the interpreter, a file `pythonX.Y._pth` that
makes this folder all of its path, and launch.py's code as `encodings.pyc`. The first module that
CPython imports from its path is `encodings`, so the shim runs before half of the interpreter's own
start. What does not know `._pth` files (before 3.11) is started the ordinary way.
"""

from __future__ import annotations

import ast
import marshal
import py_compile
import subprocess
import sys
import tempfile
from pathlib import Path
from types import CodeType
from typing import Any

PACKAGE = "nvidia_container_runtime"
PROBE_PASSED = 77
# What every creation imports, in an order in which each finds what it imports: they are loaded as
# one piece.
ALWAYS = (
    "", "errors", "paths", "journal", "sections", "settings", "memory", "json_text", "bundle",
    "lowlevel", "argv", "shim", "program", "spec", "legacy", "mode", "request", "modification",
)  # fmt: skip


class Strip(ast.NodeTransformer):
    """Takes out annotations, and what is there for the type checker."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        arguments = node.args
        for argument in [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]:
            if argument:
                argument.annotation = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class's own annotations stay: they may be its fields."""
        node.body = [
            one if isinstance(one, ast.AnnAssign) else self.visit(one) for one in node.body
        ]
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)


def without_lines(code: CodeType) -> CodeType:
    """The same code without its line numbers: a third of its size, and only tracebacks would show
    them.
    """
    constants = tuple(
        without_lines(one) if isinstance(one, CodeType) else one for one in code.co_consts
    )
    lines: Any = {"co_linetable": b""} if sys.version_info >= (3, 10) else {"co_lnotab": b""}
    return code.replace(co_consts=constants, co_filename="", **lines)


def compiled(path: Path, name: str) -> CodeType:
    tree: Any = ast.fix_missing_locations(Strip().visit(ast.parse(path.read_text())))
    return without_lines(compile(tree, name, "exec", optimize=2, dont_inherit=True))


def module_name(path: Path, sources: Path) -> str:
    parts = (PACKAGE, *path.relative_to(sources).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def pack(sources: Path, target: Path, state: str) -> None:
    modules: dict[str, tuple[bool, CodeType]] = {}
    for path in sorted(sources.rglob("*.py")):
        name = module_name(path, sources)
        modules[name] = (path.stem == "__init__", compiled(path, name))
    always = [f"{PACKAGE}.{name}".rstrip(".") for name in ALWAYS]
    pieces = {"": marshal.dumps([(name, *modules.pop(name)) for name in always])}
    pieces |= {name: marshal.dumps(code) for name, (_, code) in modules.items()}
    index: dict[str, tuple[bool, int, int]] = {}
    offset = 0
    for name, piece in pieces.items():
        index[name] = (name in modules and modules[name][0], offset, len(piece))
        offset += len(piece)
    loader = compiled(sources / "loader.py", "loader")
    head = marshal.dumps((sys.version, loader, state, json_library(), library(), index))
    content = b"%8d" % len(head) + head + b"".join(pieces.values())
    (target / f"{sys.implementation.cache_tag}.pack").write_bytes(content)
    py_compile.compile(str(target / "launch.py"), str(target / "launch.pyc"), doraise=True)
    quick_start(target)


def library() -> list[str]:
    """The folders of the standard library, and no others."""
    return [folder for folder in sys.path if folder.startswith("/") and "packages" not in folder]


def quick_start(target: Path) -> None:
    """Make `start/`, if this interpreter really takes its `encodings` from there."""
    python = Path(sys.executable)
    if python.name != f"python{sys.version_info[0]}.{sys.version_info[1]}":
        # a name that may stand for another version one day, which could not read the compiled code
        return
    with tempfile.TemporaryDirectory() as name:
        probe = Path(name)
        (probe / "probe.py").write_text(f"import posix\nposix._exit({PROBE_PASSED})\n")
        fill_start(probe, python, probe / "probe.py")
        tried = subprocess.run(
            [probe / python.name, "-ISX", "utf8", "-c", ""], capture_output=True, check=False
        )
    if tried.returncode == PROBE_PASSED:
        (target / "start").mkdir(exist_ok=True)
        fill_start(target / "start", python, target / "launch.py")


def fill_start(folder: Path, python: Path, source: Path) -> None:
    """The link comes last: without what it needs the interpreter would start the ordinary way, or
    not at all.
    """
    py_compile.compile(str(source), str(folder / "encodings.pyc"), doraise=True, optimize=2)
    (folder / f"{python.name}._pth").write_text(".\n")
    draft = folder / "python.new"
    draft.symlink_to(python)
    draft.replace(folder / python.name)


def json_library() -> str:
    """The path of the C half of json; none when it is part of the interpreter."""
    import _json

    return getattr(_json, "__file__", "")


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
