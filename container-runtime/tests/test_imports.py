"""Which way the shim's imports run."""

from __future__ import annotations

import ast
from pathlib import Path

from conftest import PACKAGE

SOURCE = PACKAGE / "src" / "nvidia_container_runtime"


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported_names(path: Path) -> set[str]:
    """Everything that a file imports, wherever in the file, for type checkers as well."""
    package = path.relative_to(SOURCE.parent).with_suffix("").parts
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level] if node.level else ()
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{origin}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """`from a.b import c` names the module a.b.c if there is one, else something of a.b."""
    names = imported_names(path)
    origins = {name.rpartition(".")[0] for name in names - modules}
    return (names | origins) & modules


def reachable_modules(name: str, imports: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = set(imports[name])
    while ahead:
        reached |= ahead
        ahead = {further for module in ahead for further in imports[module]} - reached
    return reached


def test_no_module_imports_itself_by_way_of_others() -> None:
    files = {module_name(path): path for path in SOURCE.rglob("*.py")}
    imports = {name: imported_modules(path, set(files)) for name, path in files.items()}
    assert "nvidia_container_runtime.errors" in imports["nvidia_container_runtime.settings"]
    circles = sorted(name for name in imports if name in reachable_modules(name, imports))
    assert not circles, f"these import each other: {', '.join(circles)}"
