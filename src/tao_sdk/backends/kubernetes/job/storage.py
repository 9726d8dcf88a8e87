"""The mounts of a job as volumes of its pods. Pure.

Forms: a path of the node, and pvc://claim[/folder], configmap://name, secret://name and
nfs://server/path.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from tao_sdk.backends.mounts import SOURCE, TARGET, refuse_repeated, within
from tao_sdk.backends.results_place import RESULTS
from tao_sdk.model.fields import FieldError

SCHEMES = ("pvc", "configmap", "secret", "nfs")
EXAMPLE = (
    "Write pvc://claim/folder:/place[:ro], configmap://name:/place, secret://name:/place, "
    "nfs://server/path:/place, or /path/of/the/node:/place."
)
OWN_PLACES = ("/dev/shm", "/.tao-job")


@dataclass(frozen=True)
class VolumeMount:
    """One mount of the pods. `source` is a claim, an object's name, a server's path or a node's."""

    scheme: str  # "" for a path of the node
    source: str
    folder: str  # below the source; "" for all of it
    target: str
    read_only: bool

    def holds(self, path: str) -> bool:
        return posixpath.commonpath([path, self.target]) == self.target

    @property
    def storage(self) -> tuple[str, str]:
        """What is mounted, whichever folder of it."""
        return self.scheme, self.source

    def volume(self, name: str) -> dict[str, Any]:
        return {"name": name, **self.source_of_volume()}

    def source_of_volume(self) -> dict[str, Any]:
        if self.scheme == "pvc":
            return {"persistentVolumeClaim": {"claimName": self.source}}
        if self.scheme == "configmap":
            return {"configMap": {"name": self.source}}
        if self.scheme == "secret":
            return {"secret": {"secretName": self.source}}
        if self.scheme == "nfs":
            server, _, path = self.source.partition("/")
            return {"nfs": {"server": server, "path": f"/{path}"}}
        return {"hostPath": {"path": self.source}}

    def mount(self, name: str) -> dict[str, Any]:
        mount: dict[str, Any] = {"name": name, "mountPath": self.target}
        if self.folder:
            mount["subPath"] = self.folder
        if self.read_only:
            mount["readOnly"] = True
        return mount


def read_volume_mounts(given: Any) -> list[VolumeMount]:
    """Parse the mounts of a job. Raises FieldError with the mount that is invalid or duplicate."""
    mounts = [read_mount(one) for one in split_mounts(given)]
    refuse_repeated([mount.target for mount in mounts])
    return mounts


def split_mounts(given: Any) -> Iterator[Any]:
    if given is None:
        return
    if isinstance(given, str):
        yield given
    elif isinstance(given, Mapping):
        mapping = cast("Mapping[str, Any]", given)
        if any(name in mapping for name in SOURCE):
            yield mapping
        else:
            yield from ({"source": source, "target": to} for source, to in mapping.items())
    elif isinstance(given, (list, tuple)):
        yield from cast("Sequence[Any]", given)
    else:
        raise invalid_mount(given)


def read_mount(given: Any) -> VolumeMount:
    if isinstance(given, str):
        return mount_from_text(given)
    if isinstance(given, Mapping):
        return mount_from_mapping(cast("Mapping[str, Any]", given))
    raise invalid_mount(given)


def mount_from_text(text: str) -> VolumeMount:
    source, _, rest = text.partition(":/")
    scheme = ""
    if source in SCHEMES:  # `pvc` of pvc://claim:/place
        scheme, (source, _, rest) = source, rest.removeprefix("/").partition(":/")
    target, _, mode = rest.partition(":")
    if mode not in ("", "ro", "rw"):
        raise invalid_mount(text)
    whole = f"{scheme}://{source}" if scheme else source
    return checked_mount(text, whole, f"/{target}" if target else "", mode == "ro")


def mount_from_mapping(given: Mapping[str, Any]) -> VolumeMount:
    source = next((str(given[name]) for name in SOURCE if name in given), "")
    target: Any = next((given[name] for name in TARGET if name in given), "")
    if isinstance(target, Mapping):  # {src: {bind: dst, mode: ro}}
        return mount_from_mapping({"source": source, **cast("Mapping[str, Any]", target)})
    mode = str(given.get("mode", ""))
    if mode not in ("", "ro", "rw"):
        raise invalid_mount(dict(given))
    text, _, text_mode = str(target).partition(":")
    read_only = bool(given.get("read_only", given.get("readonly", "ro" in (mode, text_mode))))
    return checked_mount(given, source, text, read_only)


def checked_mount(given: Any, source: str, target: str, read_only: bool) -> VolumeMount:
    target = normal_path(target)
    if not may_be_target(target):
        raise invalid_mount(given)
    if source.startswith("/"):
        return VolumeMount("", posixpath.normpath(source), "", target, read_only)
    parts = urlsplit(source)
    path = normal_path(parts.path.strip("/"))
    if parts.scheme not in SCHEMES or not parts.netloc or ".." in path.split("/"):
        raise invalid_mount(given)
    if parts.scheme == "nfs":
        return VolumeMount("nfs", f"{parts.netloc}/{path}", "", target, read_only)
    if path and parts.scheme != "pvc":
        raise invalid_mount(given)
    return VolumeMount(parts.scheme, parts.netloc, path, target, read_only)


def normal_path(path: str) -> str:
    """The path with `.` and `..` resolved as far as possible; "" for an empty path."""
    if not path:
        return ""
    return posixpath.normpath(path)


def may_be_target(path: str) -> bool:
    """True for an absolute path in the pod, other than / and the SDK's own folders."""
    if not path.startswith("/") or path == "/":
        return False
    return not any(within(path, own) for own in OWN_PLACES)


def invalid_mount(given: Any) -> FieldError:
    return FieldError(
        "mounts",
        f"mounts has {given!r}.",
        "It names nothing that a pod can mount, or no place of its own in the job.",
        EXAMPLE,
    )


def results_mount(mounts: Sequence[VolumeMount]) -> VolumeMount | None:
    """The mount that stores the results: a writable one at /results. None without one."""
    found = (each for each in mounts if each.target == RESULTS and not each.read_only)
    return next(found, None)


def address_of(mount: VolumeMount) -> str:
    """The address of the mount's files, for people and for `files()`."""
    if mount.scheme:
        return "/".join(part for part in (f"{mount.scheme}://{mount.source}", mount.folder) if part)
    return mount.source
