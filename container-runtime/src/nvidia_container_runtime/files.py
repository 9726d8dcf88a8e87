"""Host files that go into containers: devices, libraries and their links, found below a driver
root.
"""

import posix

from . import edits, paths
from .errors import RuntimeFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

GLOB = "*?["
LIBRARY_FOLDERS = (
    "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current", "/lib64", "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
)  # fmt: skip
CONFIG_FOLDERS = ("/etc", "/usr/local/share", "/usr/share")


def below(root: str, path: str) -> str:
    """The path in the root; `..` does not lead out of it."""
    return paths.join("/", path) if root in ("", "/") else paths.join(root, paths.clean("/" + path))


def inside(root: str, path: str) -> str:
    """The path as the container will see it: without the driver root."""
    root = root.rstrip("/")
    return path[len(root) :] if root and path.startswith(root + "/") else path


def placed(root: str, path: str) -> str:
    """The place on the host of a path below the root. Links of its folders are followed as a
    process inside the root would follow them.

    The last part is not followed. What the host's own links lead to is the kernel's business.
    """
    if root in ("", "/"):
        return path
    return paths.join(paths.real(paths.parent(path), root), paths.base(path))


def matches(pattern: str, root: str) -> "list[str]":
    """The paths that a path with glob characters matches, sorted; without them, the path
    if it is there.
    """
    if not any(character in pattern for character in GLOB):
        return [pattern] if is_there(root, pattern) else []
    import fnmatch

    found = [""]
    for part in [piece for piece in pattern.split("/") if piece]:
        if any(character in part for character in GLOB):
            found = [
                f"{folder}/{name}"
                for folder in found
                for name in fnmatch.filter(list_names(root, folder), part)
            ]
        else:
            found = [f"{folder}/{part}" for folder in found if is_there(root, f"{folder}/{part}")]
    return sorted(found)


def is_there(root: str, path: str) -> bool:
    inner = path.startswith(root.rstrip("/") + "/")  # else it is a part of the root's own path
    return paths.kind(placed(root, path) if inner else path, follow=False) != 0


def list_names(root: str, folder: str) -> "list[str]":
    if root in ("", "/"):
        return paths.names(folder or "/")
    return paths.names(paths.real(folder, root))


def resolved(root: str, path: str) -> "list[str]":
    """Existing files that a pattern below the root names. Links are followed as a process inside
    the root would.
    """
    found: list[str] = []
    for match in matches(below(root, path), root):
        target = paths.real(match, root)
        if paths.exists(target):
            found.append(target)
    return list(dict.fromkeys(found))


def device_node(root: str, path: str) -> "dict[str, Any] | None":
    """The edit for a character device at that path of the root, or of the root's dev folder.

    The node keeps its group: mode 0660 without it would be root's alone.
    """
    clean = paths.clean("/" + path)
    for inner in (clean, paths.join("/dev", clean)):
        host = placed(root, below(root, inner))
        if paths.kind(host, follow=False) != paths.TYPE_CHAR:
            continue
        node: dict[str, Any] = {"path": inner}
        if host != node["path"]:
            node["hostPath"] = host
        group = posix.lstat(host).st_gid
        if group:
            node["gid"] = group
        return node
    return None


def chain(root: str, path: str) -> "list[tuple[str, str]]":
    """(link, where it points) from a path below the root to the file at its end."""
    found: list[tuple[str, str]] = []
    while paths.kind(placed(root, path), follow=False) == paths.TYPE_LINK:
        if len(found) > 40:
            raise RuntimeFault(f"too many levels of symbolic links: {path}")
        target = posix.readlink(placed(root, path))
        found.append((path, target))
        inner = (
            target
            if target.startswith("/")
            else paths.join(paths.parent(inside(root, path)), target)
        )
        path = below(root, paths.clean(inner))
    return found


def library_links(mounted: "Sequence[str]") -> "list[str]":
    """TARGET::LINK for the names that programs load a driver library by and that no
    mount provides.
    """
    links: list[str] = []
    for path in mounted:
        name, folder = paths.base(path), paths.parent(path)
        for prefix, target, link in (
            ("libcuda.so.", "libcuda.so.1", "libcuda.so"),
            ("libGLX_nvidia.so.", name, "libGLX_indirect.so.0"),
            ("libnvidia-opticalflow.so.", "libnvidia-opticalflow.so.1", "libnvidia-opticalflow.so"),
        ):
            if name.startswith(prefix) and "." in name[len(prefix) :]:
                links.append(f"{target}::{paths.join(folder, link)}")
    return links


def is_library(path: str) -> bool:
    name = paths.base(path)
    return name.startswith("lib") and (name.endswith(".so") or ".so." in name)


def library_folders(mounts: "Sequence[dict[str, Any]]") -> "list[str]":
    found = {
        paths.parent(mount["containerPath"])
        for mount in mounts
        if is_library(mount["containerPath"])
    }
    return sorted(found)


def link_hooks(ctk: str, links: "Sequence[str]") -> "list[dict[str, Any]]":
    """One hook that makes the links; none when there is none to make."""
    words = [word for link in dict.fromkeys(links) for word in ("--link", link)]
    return [edits.ctk_hook(ctk, "create-symlinks", *words)] if words else []


def ldcache_hooks(ctk: str, folders: "Sequence[str]") -> "list[dict[str, Any]]":
    words = [word for folder in folders for word in ("--folder", folder)]
    return [edits.ctk_hook(ctk, "update-ldcache", *words)] if words else []


def groups(nodes: "Sequence[dict[str, Any]]") -> "list[int]":
    """The groups a process must be in to use nodes that are not open to everybody."""
    found: list[int] = []
    for node in nodes:
        seen = posix.stat(node.get("hostPath") or node["path"])
        if seen.st_gid and seen.st_mode & 0o006 != 0o006:
            found.append(seen.st_gid)
    return list(dict.fromkeys(found))
