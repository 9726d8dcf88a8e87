"""One CDI spec file: read, checked as strictly as the specification asks, nothing unknown let
through.
"""

from . import json_text, names, yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOK_NAMES = (
    "prestart",
    "createRuntime",
    "createContainer",
    "startContainer",
    "poststart",
    "poststop",
)

# Field -> its type; a list of one type stands for a list of it, a dict for an object with those
# fields.
INTEL_RDT = {
    "closID": str, "l3CacheSchema": str, "memBwSchema": str, "enableCMT": bool, "enableMBM": bool,
    "schemata": [str], "enableMonitoring": bool,
}  # fmt: skip
NODE = {
    "path": str, "hostPath": str, "type": str, "major": int, "minor": int, "fileMode": int,
    "permissions": str,
    "uid": int, "gid": int,
}  # fmt: skip
EDITS = {
    "env": [str],
    "deviceNodes": [NODE],
    "netDevices": [{"hostInterfaceName": str, "name": str}],
    "hooks": [{"hookName": str, "path": str, "args": [str], "env": [str], "timeout": int}],
    "mounts": [{"hostPath": str, "containerPath": str, "options": [str], "type": str}],
    "intelRdt": INTEL_RDT,
    "additionalGids": [int],
}
DEVICE = {"name": str, "annotations": {"*": str}, "containerEdits": EDITS}
SPEC = {
    "cdiVersion": str,
    "kind": str,
    "annotations": {"*": str},
    "devices": [DEVICE],
    "containerEdits": EDITS,
}


class CdiFault(ValueError):
    """Why a text is no CDI spec that may be used."""


def parse(text: str, is_json: bool) -> "dict[str, Any]":
    try:
        spec = json_text.whole_value(text) if is_json else typed(yaml.parse_plain(text), SPEC)
    except (json_text.JsonFault, yaml.YamlFault) as error:
        raise CdiFault(str(error)) from None
    check_fields(spec, SPEC, "spec")
    check_spec(spec)
    return spec


def typed(value: "Any", shape: "Any") -> "Any":
    """What YAML holds, by what the field is: `true` is a text where a text is wanted. A null is no
    text of a list.
    """
    if isinstance(value, yaml.Plain):
        return value.text if shape is str else value.value
    if isinstance(value, list):
        item: Any = shape[0] if isinstance(shape, list) else None
        return [typed(one, item) for one in value if one is not None or item is not str]  # pyright: ignore
    if isinstance(value, dict):
        fields: dict[str, Any] = shape if isinstance(shape, dict) else {}
        return {key: typed(one, fields.get(key) or fields.get("*")) for key, one in value.items()}  # pyright: ignore
    return value


def check_fields(value: "Any", shape: "Any", where: str) -> None:
    """Every field is known and has its type; null counts as not given."""
    if value is None:
        return
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise CdiFault(f"{where} is no list")
        item_shape: Any = shape[0]
        if item_shape is str or item_shape is int:
            if any(type(item) is not item_shape for item in value):  # pyright: ignore[reportUnknownVariableType]
                raise CdiFault(f"{where} holds something that is no {item_shape.__name__}")
            return
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            check_fields(item, item_shape, where)
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            raise CdiFault(f"{where} is no object")
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            wanted: Any = shape.get(key) or shape.get("*")  # pyright: ignore
            if wanted is None:
                raise CdiFault(f"unknown field {key!r} in {where}")
            check_fields(item, wanted, f"{where}.{key}")
    elif type(value) is not shape:
        raise CdiFault(f"{where} is no {shape.__name__}")


def check_spec(spec: "Any") -> None:
    if not spec:
        raise CdiFault("empty spec")
    version = spec.get("cdiVersion") or ""
    if version.removeprefix("v") not in VERSIONS:
        raise CdiFault(f"invalid CDI version {version!r}")
    kind = spec.get("kind") or ""
    if not names.is_kind(kind):
        raise CdiFault(f"invalid kind {kind!r}")
    check_edits(spec.get("containerEdits") or {}, "containerEdits")
    devices = spec.get("devices") or []
    if not devices:
        raise CdiFault("no devices")
    seen: set[str] = set()
    for device in devices:
        name = (device or {}).get("name") or ""
        if not names.is_device(name):
            raise CdiFault(f"invalid device name {name!r}")
        if name in seen:
            raise CdiFault(f"device {name!r} is given twice")
        seen.add(name)
        edits = device.get("containerEdits") or {}
        if not any(edits.values()):
            raise CdiFault(f"invalid device {name!r}, empty device edits")
        check_edits(edits, f"device {name}")
        check_annotations(device.get("annotations") or {})
    check_annotations(spec.get("annotations") or {})
    if needed_version(spec, devices) > version_key(version):
        raise CdiFault(f"the spec's fields need a later version than {version}")


def check_edits(edits: "dict[str, Any]", where: str) -> None:
    for entry in edits.get("env") or []:
        if "=" not in entry or entry.startswith("="):
            raise CdiFault(f"{where}: invalid environment variable {entry!r}")
    for node in edits.get("deviceNodes") or []:
        if not (node or {}).get("path"):
            raise CdiFault(f"{where}: a device node without a path")
        if (node.get("type") or "") not in ("", "b", "c", "u", "p"):
            raise CdiFault(f"{where}: device {node['path']!r} has invalid type {node['type']!r}")
        if any(letter not in "rwm" for letter in node.get("permissions") or ""):
            raise CdiFault(
                f"{where}: device {node['path']!r} has invalid permissions {node['permissions']!r}"
            )
    for hook in edits.get("hooks") or []:
        if (hook or {}).get("hookName") not in HOOK_NAMES:
            raise CdiFault(f"{where}: invalid hook name {(hook or {}).get('hookName')!r}")
        if not hook.get("path"):
            raise CdiFault(f"{where}: a hook without a path")
        if not hook["path"].startswith("/"):
            raise CdiFault(f"{where}: hook path {hook['path']!r} is not absolute")
        if any("=" not in entry for entry in hook.get("env") or []):
            raise CdiFault(f"{where}: a hook with an invalid environment variable")
    for mount in edits.get("mounts") or []:
        if not (mount or {}).get("hostPath") or not mount.get("containerPath"):
            raise CdiFault(f"{where}: a mount without hostPath or containerPath")
    for device in edits.get("netDevices") or []:
        if not (device or {}).get("hostInterfaceName") or not device.get("name"):
            raise CdiFault(f"{where}: a network device without hostInterfaceName or name")


def check_annotations(annotations: "dict[str, str]") -> None:
    """Kubernetes' rules: an optional DNS prefix, a short name, 256 KiB in all."""
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        prefix, slash, name = key.rpartition("/")
        if (slash and not prefix) or "/" in prefix or not 0 < len(name) <= 63 or len(prefix) > 253:
            raise CdiFault(f"invalid annotation key {key!r}")
        if (
            name[0] not in names.WORD
            or name[-1] not in names.WORD
            or any(c not in names.WORD and c not in "-_." for c in name)
        ):
            raise CdiFault(f"invalid annotation key {key!r}")
    if size > 256 * 1024:
        raise CdiFault("annotations are larger than 256 KiB")


def version_key(version: str) -> "tuple[int, ...]":
    return tuple(int(part) for part in version.removeprefix("v").split("."))


def needed_version(spec: "dict[str, Any]", devices: "list[dict[str, Any]]") -> "tuple[int, ...]":
    """The earliest version of the specification that has every field used here."""
    needed = (0, 3, 0)
    for edits in [
        spec.get("containerEdits") or {},
        *(device.get("containerEdits") or {} for device in devices),
    ]:
        rdt = edits.get("intelRdt") or {}
        if edits.get("netDevices") or rdt.get("schemata") or rdt.get("enableMonitoring"):
            return (1, 1, 0)
        if rdt or edits.get("additionalGids"):
            needed = max(needed, (0, 7, 0))
        if any(node.get("hostPath") for node in edits.get("deviceNodes") or []):
            needed = max(needed, (0, 5, 0))
        if any(mount.get("type") for mount in edits.get("mounts") or []):
            needed = max(needed, (0, 4, 0))
    if (
        spec.get("annotations")
        or any(device.get("annotations") for device in devices)
        or "." in spec["kind"].partition("/")[2]
    ):
        needed = max(needed, (0, 6, 0))
    if any(device["name"][0] not in names.LETTERS for device in devices):
        needed = max(needed, (0, 5, 0))
    return needed
