"""Reads one CDI spec file and checks it as strictly as the specification asks. Fields that the
specification does not know are refused.
"""

from . import json_text, names, yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOK_NAMES = (
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
)  # fmt: skip
NODE_TYPES = ("", "b", "c", "u", "p")
ANNOTATIONS_LIMIT = 256 * 1024

# The shape of each object: field -> its type. [str] is a list of texts, a dict an object with those
# fields, and "*" is any field.
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
    """Raised for a text that is no usable CDI spec, with the reason."""


def parse(text: str, is_json: bool) -> "dict[str, Any]":
    """The spec in that text. CdiFault if it may not be used."""
    try:
        spec = json_text.whole_value(text) if is_json else apply_shape(yaml.parse_plain(text), SPEC)
    except (json_text.JsonFault, yaml.YamlFault) as error:
        raise CdiFault(str(error)) from None
    check_fields(spec, SPEC, "spec")
    check_spec(spec)
    return spec


def apply_shape(value: "Any", shape: "Any") -> "Any":
    """The value with every Plain resolved: to its text where the shape wants a text, else to its
    number or boolean.
    """
    if isinstance(value, yaml.Plain):
        return value.text if shape is str else value.value
    if isinstance(value, list):
        return shape_items(value, shape)
    if isinstance(value, dict):
        fields: dict[str, Any] = shape if isinstance(shape, dict) else {}
        return {key: apply_shape(item, shape_of(key, fields)) for key, item in value.items()}
    return value


def shape_items(items: "list[Any]", shape: "Any") -> "list[Any]":
    """A null in a list of texts is left out."""
    item_shape: Any = shape[0] if isinstance(shape, list) else None
    if item_shape is str:
        items = [item for item in items if item is not None]
    return [apply_shape(item, item_shape) for item in items]


def shape_of(key: "Any", fields: "dict[str, Any]") -> "Any":
    return fields.get(key) or fields.get("*")


def check_fields(value: "Any", shape: "Any", where: str) -> None:
    """Every field is known and has its type. A null counts as not given."""
    if value is None:
        return
    if isinstance(shape, list):
        check_list(value, shape[0], where)
    elif isinstance(shape, dict):
        check_object(value, shape, where)
    elif type(value) is not shape:
        raise CdiFault(f"{where} is no {shape.__name__}")


def check_list(value: "Any", item_shape: "Any", where: str) -> None:
    """A null among texts or numbers is refused."""
    if not isinstance(value, list):
        raise CdiFault(f"{where} is no list")
    for item in value:
        if item_shape not in (str, int):
            check_fields(item, item_shape, where)
        elif type(item) is not item_shape:
            raise CdiFault(f"{where} holds something that is no {item_shape.__name__}")


def check_object(value: "Any", fields: "dict[str, Any]", where: str) -> None:
    if not isinstance(value, dict):
        raise CdiFault(f"{where} is no object")
    for key, item in value.items():
        shape = shape_of(key, fields)
        if shape is None:
            raise CdiFault(f"unknown field {key!r} in {where}")
        check_fields(item, shape, f"{where}.{key}")


def check_spec(spec: "Any") -> None:
    """Check the rules of the specification that go beyond the types of the fields."""
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
    check_devices(devices)
    check_annotations(spec.get("annotations") or {})
    if needed_version(spec, devices) > version_key(version):
        raise CdiFault(f"the spec's fields need a later version than {version}")


def check_devices(devices: "list[dict[str, Any]]") -> None:
    if not devices:
        raise CdiFault("no devices")
    used_names: set[str] = set()
    for device in devices:
        name = (device or {}).get("name") or ""
        if not names.is_device(name):
            raise CdiFault(f"invalid device name {name!r}")
        if name in used_names:
            raise CdiFault(f"device {name!r} is given twice")
        used_names.add(name)
        edits = device.get("containerEdits") or {}
        if not any(edits.values()):
            raise CdiFault(f"invalid device {name!r}, empty device edits")
        check_edits(edits, f"device {name}")
        check_annotations(device.get("annotations") or {})


def check_variable(entry: str, where: str) -> None:
    if "=" not in entry or entry.startswith("="):
        raise CdiFault(f"{where}: invalid environment variable {entry!r}")


def check_node(node: "dict[str, Any] | None", where: str) -> None:
    if not node or not node.get("path"):
        raise CdiFault(f"{where}: a device node without a path")
    if (node.get("type") or "") not in NODE_TYPES:
        raise CdiFault(f"{where}: device {node['path']!r} has invalid type {node['type']!r}")
    if any(letter not in "rwm" for letter in node.get("permissions") or ""):
        raise CdiFault(
            f"{where}: device {node['path']!r} has invalid permissions {node['permissions']!r}"
        )


def check_hook(hook: "dict[str, Any] | None", where: str) -> None:
    hook = hook or {}
    if hook.get("hookName") not in HOOK_NAMES:
        raise CdiFault(f"{where}: invalid hook name {hook.get('hookName')!r}")
    if not hook.get("path"):
        raise CdiFault(f"{where}: a hook without a path")
    if not hook["path"].startswith("/"):
        raise CdiFault(f"{where}: hook path {hook['path']!r} is not absolute")
    if any("=" not in entry for entry in hook.get("env") or []):
        raise CdiFault(f"{where}: a hook with an invalid environment variable")


def check_mount(mount: "dict[str, Any] | None", where: str) -> None:
    if not mount or not mount.get("hostPath") or not mount.get("containerPath"):
        raise CdiFault(f"{where}: a mount without hostPath or containerPath")


def check_net_device(device: "dict[str, Any] | None", where: str) -> None:
    if not device or not device.get("hostInterfaceName") or not device.get("name"):
        raise CdiFault(f"{where}: a network device without hostInterfaceName or name")


# Field of container edits -> the check of each of its entries.
ENTRY_CHECKS: "dict[str, Callable[[Any, str], None]]" = {
    "env": check_variable,
    "deviceNodes": check_node,
    "hooks": check_hook,
    "mounts": check_mount,
    "netDevices": check_net_device,
}


def check_edits(edits: "dict[str, Any]", where: str) -> None:
    for field, check_entry in ENTRY_CHECKS.items():
        for entry in edits.get(field) or []:
            check_entry(entry, where)


def check_annotations(annotations: "dict[str, str]") -> None:
    """Kubernetes' rules: an optional DNS prefix, a short name, 256 KiB in all."""
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        if not is_annotation_key(key):
            raise CdiFault(f"invalid annotation key {key!r}")
    if size > ANNOTATIONS_LIMIT:
        raise CdiFault("annotations are larger than 256 KiB")


def is_annotation_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return False
    if "/" in prefix or len(prefix) > 253 or not 0 < len(name) <= 63:
        return False
    if name[0] not in names.WORD or name[-1] not in names.WORD:
        return False
    return all(letter in names.WORD or letter in "-_." for letter in name)


def version_key(version: str) -> "tuple[int, ...]":
    return tuple(int(part) for part in version.removeprefix("v").split("."))


def needed_version(spec: "dict[str, Any]", devices: "list[dict[str, Any]]") -> "tuple[int, ...]":
    """The earliest version of the specification that has every field used here."""
    versions = [edits_version(device.get("containerEdits") or {}) for device in devices]
    versions.append(edits_version(spec.get("containerEdits") or {}))
    versions.append(frame_version(spec, devices))
    return max(versions)


def edits_version(edits: "dict[str, Any]") -> "tuple[int, ...]":
    """The version that container edits need."""
    rdt = edits.get("intelRdt") or {}
    if edits.get("netDevices") or rdt.get("schemata") or rdt.get("enableMonitoring"):
        return (1, 1, 0)
    if rdt or edits.get("additionalGids"):
        return (0, 7, 0)
    if any(node.get("hostPath") for node in edits.get("deviceNodes") or []):
        return (0, 5, 0)
    if any(mount.get("type") for mount in edits.get("mounts") or []):
        return (0, 4, 0)
    return (0, 3, 0)


def frame_version(spec: "dict[str, Any]", devices: "list[dict[str, Any]]") -> "tuple[int, ...]":
    """The version that annotations and names need."""
    if spec.get("annotations") or any(device.get("annotations") for device in devices):
        return (0, 6, 0)
    if "." in spec["kind"].partition("/")[2]:
        return (0, 6, 0)
    if any(device["name"][0] not in names.LETTERS for device in devices):
        return (0, 5, 0)
    return (0, 3, 0)
