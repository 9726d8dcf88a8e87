"""nvidia-ctk runtime configure: read an engine's configuration, change it, show it
or put it back.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from itertools import dropwhile
from pathlib import Path

from ..errors import RuntimeFault
from ..toml import TomlFault
from . import engines

RUNTIME_NAME = "nvidia-container-runtime"
USUAL_PLACE = "the usual place"  # --drop-in-config without a value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runtime", choices=sorted(engines.ADD), default="docker")
    parser.add_argument("--config", help="the engine's configuration file")
    parser.add_argument(
        "--config-source",
        choices=("file", "command"),
        default="file",
        help="where the engine's other runtimes are looked up: its file, or what it says itself",
    )
    parser.add_argument(
        "--executable-path", default="", help="the engine's program, for --config-source command"
    )
    parser.add_argument("--config-mode", choices=("config-file", "oci-hook"), default="config-file")
    parser.add_argument(
        "--drop-in-config",
        nargs="?",
        default="",
        const=USUAL_PLACE,
        help=(
            "write a file of our own instead of changing the engine's; with an empty value the "
            "engine's is changed"
        ),
    )
    parser.add_argument("--nvidia-runtime-name", default="nvidia")
    parser.add_argument("--nvidia-runtime-path", "--runtime-path", default=RUNTIME_NAME)
    parser.add_argument(
        "--nvidia-runtime-hook-path", default="/usr/bin/nvidia-container-runtime-hook"
    )
    parser.add_argument(
        "--oci-hook-path",
        default="",
        help="the file to write with --config-mode oci-hook; without one it is printed",
    )
    parser.add_argument(
        "--hook-dir", "--hooks-dir", default="", help="its folder; the file is oci-nvidia-hook.json"
    )
    parser.add_argument("--set-as-default", "--nvidia-set-as-default", action="store_true")
    parser.add_argument(
        "--cdi.enabled", "--cdi.enable", "--enable-cdi", dest="cdi", action="store_true"
    )
    parser.add_argument("--remove", action="store_true", help="take the runtime out again")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be written, write nothing"
    )


def run(options: argparse.Namespace) -> int:
    check_paths(options)
    if options.config_mode == "oci-hook":
        return write_oci_hook(options)
    for path, text in changes(options):
        if options.dry_run:
            print(text, end="")
        elif text:
            write(path, text)
            print(f"Wrote {path}; restart {options.runtime} to have it read.")
        else:
            path.unlink(missing_ok=True)
    return 0


def check_paths(options: argparse.Namespace) -> None:
    """Engines and hooks run with working folders of their own: a relative path would mean another
    file to each.
    """
    paths = {"--nvidia-runtime-hook-path": options.nvidia_runtime_hook_path}
    if options.runtime != "docker":
        runtime = options.nvidia_runtime_path
        paths["--nvidia-runtime-path"] = "" if runtime == RUNTIME_NAME else runtime
        paths["--drop-in-config"] = (
            "" if options.drop_in_config == USUAL_PLACE else options.drop_in_config
        )
    for flag, path in paths.items():
        if path and not path.startswith("/"):
            raise RuntimeFault(f"{flag} {path!r} is not an absolute path")


def write_oci_hook(options: argparse.Namespace) -> int:
    """A hook for every container of the host is printed: it is written where somebody names the
    file or the folder.
    """
    path = options.oci_hook_path or (
        f"{options.hook_dir}/oci-nvidia-hook.json" if options.hook_dir else ""
    )
    text = engines.podman_hook(options.nvidia_runtime_hook_path)
    if options.remove:
        if not path:
            raise RuntimeFault("--remove needs the hook's file: give --oci-hook-path FILE")
        Path(path).unlink(missing_ok=True)
    elif path and not options.dry_run:
        write(Path(path), text)
        print(f"Wrote {path}.")
    else:
        print(text, end="")
    return 0


def changes(options: argparse.Namespace) -> list[tuple[Path, str]]:
    """Files and their new text; an empty text means that the file goes."""
    main = Path(options.config or engines.DEFAULT_FILES[options.runtime])
    try:
        if not options.drop_in_config:
            return [(main, changed(options, read(main)))]
        return drop_in_changes(options, main)
    except (TomlFault, ValueError) as error:
        raise RuntimeFault(f"{main}: {error}") from None


def changed(options: argparse.Namespace, text: str) -> str:
    if options.remove:
        return engines.REMOVE[options.runtime](text, options.nvidia_runtime_name)
    return engines.ADD[options.runtime](text, registration(options), in_force(options))


def in_force(options: argparse.Namespace) -> str:
    """The configuration that the engine itself says it works with; nothing where its file is to be
    asked.
    """
    if options.config_source == "file":
        return ""
    if options.runtime not in engines.DUMPS:
        raise RuntimeFault(
            f"{options.runtime} has no command that prints its configuration: use "
            "--config-source file"
        )
    program, *words = engines.DUMPS[options.runtime]
    command = [options.executable_path or program, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (
            error.stderr.strip()
            if isinstance(error, subprocess.CalledProcessError)
            else error.strerror
        )
        raise RuntimeFault(
            f"`{' '.join(command)}` failed ({said}); use --config-source file"
        ) from None
    if options.runtime == "containerd":
        return done.stdout
    return "\n".join(
        dropwhile(lambda line: not line.startswith("["), done.stdout.splitlines())
    )  # log lines come first


def registration(options: argparse.Namespace) -> engines.Registration:
    path = (
        found_program(options.nvidia_runtime_path)
        if options.runtime != "docker"
        else options.nvidia_runtime_path
    )
    return engines.Registration(
        options.nvidia_runtime_name, path, options.set_as_default, options.cdi
    )


def found_program(name: str) -> str:
    """containerd and cri-o want a path; where the name is not found yet it will be in /usr/bin."""
    import shutil

    return name if "/" in name else shutil.which(name) or f"/usr/bin/{name}"


def drop_in_changes(options: argparse.Namespace, main: Path) -> list[tuple[Path, str]]:
    if options.runtime == "docker":
        raise RuntimeFault("docker reads one file only: leave out --drop-in-config")
    given = options.drop_in_config
    target = Path(engines.DEFAULT_DROP_INS[options.runtime] if given == USUAL_PLACE else given)
    if options.remove:
        return [(target, "")]
    if options.runtime == "crio":
        return [(target, engines.crio("", registration(options), in_force(options) or read(main)))]
    text = read(main)
    return [
        (target, engines.containerd_drop_in(in_force(options) or text, registration(options))),
        (main, engines.with_import(text, str(target))),
    ]


def read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def write(path: Path, text: str) -> None:
    """In one step, with the old file's mode and owner, through a link to the file behind it."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
        if path.exists():
            old = path.stat()
            os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, old.st_mode & 0o7777)
        else:
            os.fchmod(descriptor, 0o644)
    Path(draft).replace(path)
