"""File systems: the one that a path lies on, and whether SQLite's shared-memory journal works
there.

WAL needs memory that all processes with the database share. No network file system gives that.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

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
    deepest, nearest_file_system = -1, ""
    for mount_point, file_system in map(_parse_mount, mountinfo.splitlines()):
        depth = len(mount_point.parts)
        if depth >= deepest and PurePosixPath(path).is_relative_to(mount_point):
            deepest, nearest_file_system = depth, file_system
    return nearest_file_system


def _parse_mount(line: str) -> tuple[PurePosixPath, str]:
    """(mount point, type) of a line of mountinfo; proc_pid_mountinfo(5) names the fields."""
    before, _, after = line.partition(" - ")
    return PurePosixPath(_decode_octal(before.split(" ")[4])), after.split(" ")[0]


def _decode_octal(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
