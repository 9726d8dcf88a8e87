"""The volumes of a job: what its mounts name, and the volume that keeps its results. Pure.

Forms of a mount: volume:/place, volume/folder:/place[:ro], and the workspace's own mapping (path,
from, mount_path).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.backends.mounts import SOURCE, TARGET, refuse_repeated, split_mounts
from tao_sdk.model.fields import FieldError

FROM = "node-nfs:"
EXAMPLE = "Write volume:/place, volume/folder:/place or volume/folder:/place:ro."
MODES = ("", "ro", "rw")
KEYS = {*SOURCE, *TARGET, "mode", "read_only", "readonly", "type"}  # of a mapping of our form
PREFERRED = ("lustre", "filestore")
SYSTEM_FOLDERS = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin",
    "/sys", "/usr", "/var",
)  # fmt: skip


@dataclass(frozen=True)
class VolumeMount:
    """A folder of a volume at a place of the job."""

    volume: str
    folder: str  # an absolute path in the volume
    target: str
    read_only: bool = False

    def request(self) -> dict[str, Any]:
        """The mount as the workspace takes it."""
        mount: dict[str, Any] = {
            "path": self.folder,
            "from": f"{FROM}{self.volume}",
            "mount_path": self.target,
        }
        if self.read_only:
            mount["mount_options"] = {"read_only": True}
        return mount


def read_volume_mounts(given: Any) -> list[VolumeMount]:
    """Read the mounts of a job. Raises FieldError with the mount that is invalid or repeated."""
    mounts = [read_mount(one) for one in split_mounts(given)]
    refuse_repeated([mount.target for mount in mounts])
    return mounts


def read_mount(given: Any) -> VolumeMount:
    if isinstance(given, tuple):  # of a mapping: source -> target
        source, target = cast("tuple[str, Any]", given)
        given = f"{source}:{target}" if isinstance(target, str) else {"source": source, **target}
    if isinstance(given, Mapping):
        return mount_from_mapping(cast("Mapping[str, Any]", given))
    source, _, rest = str(given).partition(":/")
    target, _, mode = rest.partition(":")
    if mode not in MODES:
        raise invalid_mount(given)
    return checked_mount(given, source, f"/{target}", mode == "ro")


def mount_from_mapping(given: Mapping[str, Any]) -> VolumeMount:
    if "from" in given and "mount_path" in given:  # the workspace's own form
        kind, _, volume = str(given["from"]).partition(":")
        if f"{kind}:" != FROM:
            raise invalid_mount(dict(given))
        folder = str(given.get("path") or "/").strip("/")
        options = cast("Mapping[str, Any]", given.get("mount_options") or {})
        is_read_only = bool(options.get("read_only"))
        return checked_mount(given, f"{volume}/{folder}", str(given["mount_path"]), is_read_only)
    source = next((str(given[name]) for name in SOURCE if name in given), "")
    target = next((str(given[name]) for name in TARGET if name in given), "")
    mode = str(given.get("mode") or "").lower()
    if mode not in MODES or set(given) - KEYS:
        raise invalid_mount(dict(given))
    read_only = mode == "ro" or bool(given.get("read_only")) or bool(given.get("readonly"))
    return checked_mount(given, source, target, read_only)


def checked_mount(given: Any, source: str, target: str, read_only: bool) -> VolumeMount:
    volume, _, folder = source.partition("/")
    target = posixpath.normpath(target)
    if not volume or ".." in folder.split("/") or not target.startswith("/"):
        raise invalid_mount(given)
    if target == "/" or any(within_folder(target, each) for each in SYSTEM_FOLDERS):
        raise FieldError(
            "mounts",
            f"mounts has the place {target}.",
            "The workspace lets no job mount anything there.",
            "Use another place, such as /data.",
        )
    return VolumeMount(volume, posixpath.normpath(f"/{folder}"), target, read_only)


def within_folder(path: str, folder: str) -> bool:
    return posixpath.commonpath([path, folder]) == folder


def invalid_mount(given: Any) -> FieldError:
    return FieldError(
        "mounts",
        f"mounts has {given!r}.",
        "It names no volume of a workspace, or no place in the job.",
        EXAMPLE,
    )


def preferred_volume(volumes: Mapping[str, str]) -> str:
    """The volume that keeps results unless the job says otherwise; "" if there is none."""
    known = [name for name in PREFERRED if name in volumes]
    return next(iter([*known, *volumes]), "")
