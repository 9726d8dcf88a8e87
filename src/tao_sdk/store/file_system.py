"""File systems: the one that a path lies on, and whether SQLite's shared-memory journal works
there.

WAL needs memory that all processes with the database share. No network file system gives that.
"""

from __future__ import annotations

import re
from pathlib import Path

NETWORK = frozenset(
    (
        "nfs nfs4 lustre gpfs cifs smb3 smbfs beegfs ceph glusterfs afs 9p fuse pvfs2 orangefs "
        "ocfs2 gfs2 virtiofs"
    ).split()
)
MOUNTINFO = Path("/proc/self/mountinfo")


def on_network(directory: Path) -> bool:
    """True if `directory` lies on a network file system. False if that cannot be found out."""
    try:
        mountinfo = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    return is_network(file_system_of(str(directory.resolve()), mountinfo))


def is_network(file_system: str) -> bool:
    """True for a network file system. Every `fuse.*` counts: its name does not say what is behind
    it.
    """
    return file_system in NETWORK or file_system.startswith("fuse.")


def file_system_of(path: str, mountinfo: str) -> str:
    """The type of the file system that holds `path`: that of the longest mount point above it, and
    of the last one if several are as long.
    """
    longest, nearest_file_system = 0, ""
    for mount_point, file_system in map(_parse_mount, mountinfo.splitlines()):
        if len(mount_point) >= longest and lies_below(path, mount_point):
            longest, nearest_file_system = len(mount_point), file_system
    return nearest_file_system


def lies_below(path: str, mount_point: str) -> bool:
    """True if an absolute path is the mount point or lies below it."""
    return f"{path}/".startswith(f"{mount_point.rstrip('/')}/")


def _parse_mount(line: str) -> tuple[str, str]:
    """(mount point, type) of a line of mountinfo; proc_pid_mountinfo(5) names the fields."""
    before, _, after = line.partition(" - ")
    return _decode_octal(before.split(" ")[4]), after.split(" ")[0]


def _decode_octal(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
