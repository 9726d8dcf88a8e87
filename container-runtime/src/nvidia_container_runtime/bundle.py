"""config.json of a bundle: read whole, changed in memory, replaced in one step or not at all."""

import posix

from . import json_text, paths
from .errors import RuntimeFault, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def config_file(bundle: str) -> str:
    return paths.join(bundle, "config.json") if bundle else "config.json"


def load(path: str) -> "dict[str, Any]":
    try:
        raw = paths.read_bytes(path)
    except OSError as error:
        raise RuntimeFault(
            f"error opening OCI specification file: open {path}: {reason(error)}"
        ) from None
    try:
        return spec_of(raw)
    except (json_text.JsonFault, UnicodeDecodeError) as error:
        raise RuntimeFault(
            "error loading OCI specification from file: error reading OCI "
            f"specification: {error} ({path})"
        ) from None


def spec_of(raw: bytes) -> "dict[str, Any]":
    spec = json_text.first_value(raw.decode())
    if spec is None:
        return {}
    if not isinstance(spec, dict):
        raise json_text.JsonFault(f"json: cannot unmarshal {type(spec).__name__} into an OCI spec")
    check_shape(spec)  # pyright: ignore[reportUnknownArgumentType]
    return spec  # pyright: ignore[reportUnknownVariableType]


# The parts that the shim reads or extends, and what each must be for that. The low-level runtime
# judges the rest.
SHAPES: "tuple[tuple[str, type], ...]" = (
    ("ociVersion", str),
    ("annotations", dict),
    ("hooks", dict),
    ("hooks.prestart", list),
    ("hooks.createRuntime", list),
    ("hooks.createContainer", list),
    ("hooks.startContainer", list),
    ("hooks.poststart", list),
    ("hooks.poststop", list),
    ("linux", dict),
    ("linux.devices", list),
    ("linux.intelRdt", dict),
    ("linux.netDevices", dict),
    ("linux.resources", dict),
    ("linux.resources.devices", list),
    ("mounts", list),
    ("process", dict),
    ("process.args", list),
    ("process.env", list),
    ("process.user", dict),
    ("process.user.additionalGids", list),
    ("root", dict),
    ("root.path", str),
)
ITEMS = {"process.args": str, "process.env": str, "process.user.additionalGids": int}


def check_shape(spec: "dict[str, Any]") -> None:
    """Refuse a spec whose parts have the wrong type, as the low-level runtime will, before anything
    is changed.
    """
    for name, wanted in SHAPES:
        found: Any = spec
        for key in name.split("."):
            found = found.get(key) if isinstance(found, dict) else None  # pyright: ignore
        if found is None:
            continue
        item = ITEMS.get(name, dict)
        if not isinstance(found, wanted) or (
            wanted is list and not all(isinstance(one, item) for one in found)
        ):
            raise json_text.JsonFault(f"{name} has the wrong type")


def save(path: str, spec: "dict[str, Any]") -> None:
    """Put the spec in the file's place: a reader sees the old text or the new one, with the same
    owner and mode.

    Not synced to disk: a bundle does not outlive the boot that made it.
    """
    try:
        replace(paths.real(path), json_text.dumps(spec).encode() + b"\n")
    except (OSError, json_text.JsonFault) as error:
        words = reason(error) if isinstance(error, OSError) else str(error)
        raise RuntimeFault(f"error writing OCI specification to {path}: {words}") from None


def replace(target: str, content: bytes) -> None:
    old = posix.stat(target)
    posix.close(
        posix.open(target, posix.O_WRONLY | posix.O_CLOEXEC)
    )  # who may not write it may not replace it either
    draft = f"{target}.{posix.getpid()}.tmp"
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW
    descriptor = posix.open(draft, flags, 0o600)
    try:
        try:
            written = 0
            while written < len(content):
                written += posix.write(descriptor, content[written:])
            if (old.st_uid, old.st_gid) != (posix.geteuid(), posix.getegid()):
                posix.fchown(descriptor, old.st_uid, old.st_gid)
            posix.fchmod(descriptor, old.st_mode & 0o7777)
        finally:
            posix.close(descriptor)
        posix.rename(draft, target)
    except OSError:
        posix.unlink(draft)
        raise
