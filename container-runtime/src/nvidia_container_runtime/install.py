"""Lay the programs out below a prefix, and pack the code: what `make install` and a distribution's
build run.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = "nvidia_container_runtime"
SOURCES = Path(__file__).resolve().parent
FRONTED = (
    "nvidia-container-runtime",
    "nvidia-container-runtime.cdi",
    "nvidia-container-runtime.legacy",
)
PLAIN = ("nvidia-container-runtime-hook", "nvidia-ctk")
DIRECT = """#!/bin/sh
[ -x @QUICK@ ] || exec /usr/bin/python3 -ISX utf8 @LIBRARY@/launch.py "${0##*/}" "$@"
exec @QUICK@ -ISX utf8 @LAUNCH@ "${0##*/}" "$@"
"""


def install(
    prefix: Path, python: Path, state: Path, fronted: bool = True, root: Path = Path("/")
) -> None:
    """`root` is a package builder's staging folder: files go below it, the paths in them do not
    name it.
    """
    library = prefix / "lib" / "nvidia-container-runtime"
    staged = root / library.relative_to("/")
    binaries = root / (prefix / "bin").relative_to("/")
    copy_sources(staged)
    pack(staged, python, state if fronted else "")
    words = {
        "@PYTHON@": str(python),
        "@QUICK@": str(library / "start" / python.name if (staged / "start").is_dir() else python),
        "@LAUNCH@": str(library / launcher(python)),
        "@LIBRARY@": str(library),
        "@STATE@": str(state),
        "@FOLDER@": str(state.parent),
    }
    forget(root / state.relative_to("/"))
    binaries.mkdir(parents=True, exist_ok=True)
    for name in (*FRONTED, *PLAIN):
        template = (SOURCES / "front.sh").read_text() if fronted and name in FRONTED else DIRECT
        if (
            name == "nvidia-ctk"
        ):  # it works at length, with streams and much of the standard library
            template = template.replace("@QUICK@", "@PYTHON@")
        for word, value in words.items():
            template = template.replace(word, value)
        write_program(binaries / name, template)


def uninstall(prefix: Path, state: Path, root: Path = Path("/")) -> None:
    """Take away what `install` put there, and what the shim remembers. The configuration is the
    administrator's.
    """
    for name in (*FRONTED, *PLAIN):
        (root / (prefix / "bin" / name).relative_to("/")).unlink(missing_ok=True)
    library = root / (prefix / "lib" / "nvidia-container-runtime").relative_to("/")
    if library.is_dir():
        shutil.rmtree(library)
    forget(root / state.relative_to("/"))


def forget(state: Path) -> None:
    """Remove the record of an earlier version. It may lie where others could change it, and the
    front cannot see that.
    """
    for suffix in ("", ".memory", ".specs", ".cli"):
        state.with_name(state.name + suffix).unlink(missing_ok=True)


def launcher(python: Path) -> str:
    """The compiled launcher fits every python3.N of one N: it is used where the interpreter's name
    says which it is.
    """
    version = subprocess.run(
        [str(python), "-IS", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    )
    return "launch.pyc" if python.name == version.stdout.strip() else "launch.py"


def copy_sources(staged: Path) -> None:
    target = staged / PACKAGE
    for folder in (target, staged / "start"):
        if folder.exists():
            shutil.rmtree(folder)
    shutil.copytree(
        SOURCES,
        target,
        ignore=shutil.ignore_patterns("__pycache__", "*.sh", "launch.py", "install.py", "pack.py"),
    )
    shutil.copyfile(SOURCES / "launch.py", staged / "launch.py")
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=SOURCES, capture_output=True, text=True, check=False
    )
    if commit.returncode == 0:
        (target / "commit.py").write_text(f'COMMIT = "{commit.stdout.strip()}"\n')


def pack(staged: Path, python: Path, state: Path | str) -> None:
    command = [python, "-I", SOURCES / "pack.py", staged / PACKAGE, staged, state]
    subprocess.run([str(word) for word in command], check=True)


def write_program(path: Path, text: str) -> None:
    """A running container engine may exec the old one at any moment: the new one takes its place in
    one step.
    """
    draft = path.with_name(path.name + ".new")
    draft.write_text(text)
    draft.chmod(0o755)
    draft.replace(path)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="nvidia-container-runtime-install", description=__doc__)
    parser.add_argument("--prefix", type=Path, default=Path("/usr/local"))
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="staging folder of a package build"
    )
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(sys.executable).resolve(),
        help="interpreter that runs the shim",
    )
    parser.add_argument(
        "--state", type=Path, default=Path("/run/nvidia-container-runtime/front-state")
    )
    parser.add_argument(
        "--no-front",
        action="store_true",
        help="always run Python, never the shell front's short cut",
    )
    parser.add_argument("--uninstall", action="store_true", help="take the programs away again")
    chosen = parser.parse_args(words)
    for name in ("prefix", "python", "state", "root"):
        if any(character in str(getattr(chosen, name)) for character in " \t\n'\"\\$`"):
            parser.error(
                f"--{name} must not hold blanks, quotes or dollar signs: it "
                "becomes part of a shell script"
            )
    if chosen.uninstall:
        uninstall(chosen.prefix.absolute(), chosen.state.absolute(), chosen.root.absolute())
        return 0
    install(
        chosen.prefix.absolute(),
        chosen.python,
        chosen.state.absolute(),
        not chosen.no_front,
        chosen.root.absolute(),
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
