"""nvidia-ctk system create-dev-char-symlinks: /dev/char/MAJOR:MINOR for the driver's nodes.

systemd-managed cgroups look devices up there, and the driver's own nodes do not get these links
from udev.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from .. import edits, paths

PREFIXES_LEFT_OUT = ("nvidia-fs", "nvidia-nvswitch", "nvidia-nvlink")
FRONTEND, UVM = ("nvidia-frontend", "nvidia"), "nvidia-uvm"
VENDOR, DISPLAY_CLASSES = "0x10de", ("0x0300", "0x0302")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dev-char-path", default="/dev/char")
    parser.add_argument("--driver-root", default="/")
    parser.add_argument(
        "--create-all",
        action="store_true",
        help="for nodes that could be there too, by the host's GPUs",
    )
    parser.add_argument("--dry-run", action="store_true")


def run(options: argparse.Namespace) -> int:
    nodes = existing_nodes(options.driver_root)
    if options.create_all:
        nodes = {**possible_nodes(), **nodes}
    for (major, minor), node in sorted(nodes.items()):
        create_link(Path(options.dev_char_path) / f"{major}:{minor}", node, options.dry_run)
    return 0


def existing_nodes(root: str) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    for folder in ("/dev", "/dev/nvidia-caps"):
        for name in paths.names(paths.join(root, folder)):
            if name.startswith("nvidia") and not name.startswith(PREFIXES_LEFT_OUT):
                path = paths.join(root, f"{folder}/{name}")
                if paths.kind(path, follow=False) == paths.TYPE_CHAR:
                    number = os.lstat(path).st_rdev
                    found[edits.major(number), edits.minor(number)] = path
    return found


def possible_nodes() -> dict[tuple[int, int], str]:
    """By the driver's major numbers, the number of GPUs on the PCI bus, and the MIG capabilities it
    lists.
    """
    majors = device_majors()
    found: dict[tuple[int, int], str] = {}
    frontend = next((majors[name] for name in FRONTEND if name in majors), None)
    if frontend is not None:
        found.update({(frontend, minor): f"/dev/nvidia{minor}" for minor in range(gpu_count())})
        found.update({(frontend, 255): "/dev/nvidiactl", (frontend, 254): "/dev/nvidia-modeset"})
    if UVM in majors:
        found.update(
            {(majors[UVM], 0): "/dev/nvidia-uvm", (majors[UVM], 1): "/dev/nvidia-uvm-tools"}
        )
    if "nvidia-caps" in majors:
        from ..jit import mig_minors

        found.update(
            {
                (majors["nvidia-caps"], int(m)): f"/dev/nvidia-caps/nvidia-cap{m}"
                for m in mig_minors().values()
            }
        )
    return found


def device_majors() -> dict[str, int]:
    try:
        lines = paths.read_bytes("/proc/devices").decode().splitlines()
    except OSError:
        return {}
    words = [line.split() for line in lines]
    return {pair[1]: int(pair[0]) for pair in words if len(pair) == 2 and pair[0].isdigit()}


def gpu_count() -> int:
    count = 0
    for device in paths.names("/sys/bus/pci/devices"):
        folder = Path("/sys/bus/pci/devices") / device
        try:
            vendor, kind = (
                (folder / "vendor").read_text().strip(),
                (folder / "class").read_text()[:6],
            )
        except OSError:
            continue
        count += vendor == VENDOR and kind in DISPLAY_CLASSES
    return count


def create_link(link: Path, node: str, dry_run: bool) -> None:
    if dry_run:
        print(f"Would create {link} -> {node}")
        return
    if link.is_symlink() and os.readlink(link) == node:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    draft = link.with_name(f".{link.name}.{os.getpid()}")
    draft.symlink_to(node)
    draft.replace(link)
