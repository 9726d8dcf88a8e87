"""Container edits: what a mode adds to a container, in CDI's own form, and how that gets into an
OCI spec.
"""

import posix

from . import paths
from .errors import RuntimeFault, reason
from .spec import HOOK_ENVIRONMENT, entries, section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Spec = dict[str, Any]
    Edits = dict[str, Any]

MOUNT_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")
STAGES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
LISTS = ("env", "deviceNodes", "netDevices", "hooks", "mounts", "additionalGids")
LINUX_TYPES = {paths.TYPE_CHAR: "c", paths.TYPE_BLOCK: "b", paths.TYPE_FIFO: "p"}


def join_edits(parts: "list[Edits]") -> "Edits":
    """Several edits as one, in their order."""
    whole: Edits = {name: [] for name in LISTS}
    for part in parts:
        for name in LISTS:
            whole[name] += part.get(name) or []
        if part.get("intelRdt"):
            whole["intelRdt"] = part["intelRdt"]
    return whole


def is_empty(edits: "Edits") -> bool:
    return not any(edits.values())


def apply(spec: "Spec", edits: "Edits") -> None:
    """Change the spec. Whatever can fail comes first, so that an error leaves it as it was."""
    nodes = [device_node(node) for node in edits.get("deviceNodes") or []]
    add_environment(spec, edits.get("env") or [])
    add_device_nodes(spec, nodes)
    for device in edits.get("netDevices") or []:
        section(spec, "linux", "netDevices")[device["hostInterfaceName"]] = {"name": device["name"]}
    add_mounts(spec, edits.get("mounts") or [])
    add_hooks(spec, edits.get("hooks") or [])
    if edits.get("intelRdt"):
        section(spec, "linux")["intelRdt"] = dict(edits["intelRdt"])
    add_groups(spec, edits.get("additionalGids") or [])


def add_hooks(spec: "Spec", hooks: "list[dict[str, Any]]") -> None:
    """A hook that an earlier creation from the same bundle left is there already."""
    if not hooks:
        return
    present = {stage: list(found or ()) for stage, found in section(spec, "hooks").items()}
    for hook in hooks:
        whole = with_environment(hook)
        kept = {key: whole[key] for key in ("path", "args", "env", "timeout") if whole.get(key)}
        stage = hook["hookName"]
        if kept not in present.get(stage, ()):
            entries(spec["hooks"], stage).append(kept)


def add_environment(spec: "Spec", additions: "list[str]") -> None:
    """Each NAME=VALUE takes the place of the container's own NAME; what else the container sets
    stays as it is.
    """
    if not additions:
        return
    new = {entry.partition("=")[0]: entry for entry in additions}
    process = section(spec, "process")
    present: list[str] = []
    for entry in entries(process, "env"):
        name = entry.partition("=")[0]
        if name not in new:
            present.append(entry)
        elif new[name] not in present:
            present.append(new[name])
    process["env"] = present + [entry for entry in new.values() if entry not in present]


def device_node(node: "dict[str, Any]") -> "dict[str, Any]":
    """A node with what its host file knows: type, numbers, mode."""
    full = dict(node)
    host = full.get("hostPath") or full["path"]
    if full.get("type") == "p" or (
        full.get("type") and full.get("major") and full.get("fileMode") is not None
    ):
        return full
    try:
        seen = posix.lstat(host)
    except OSError as error:
        raise RuntimeFault(
            "failed to inject CDI devices: failed to stat CDI host "
            f"device {host!r}: {reason(error)}"
        ) from None
    found = LINUX_TYPES.get(seen.st_mode & paths.TYPE_MASK, "")
    if not found:
        raise RuntimeFault(f"failed to inject CDI devices: {host!r} is not a device node")
    if full.get("type") not in (None, "", found):
        raise RuntimeFault(
            f"failed to inject CDI devices: CDI device ({full['path']!r}, {host!r}),"
            f" host type mismatch ({full['type']}, {found})"
        )
    full["type"] = found
    if not full.get("major") and found != "p":
        full["major"], full["minor"] = major(seen.st_rdev), minor(seen.st_rdev)
    if full.get("fileMode") is None:
        full["fileMode"] = seen.st_mode & 0o777
    return full


def major(number: int) -> int:
    return (number >> 8) & 0xFFF | (number >> 32) & ~0xFFF


def minor(number: int) -> int:
    return number & 0xFF | (number >> 12) & ~0xFF


def add_device_nodes(spec: "Spec", nodes: "list[dict[str, Any]]") -> None:
    """Add the nodes, and a rule for each that lets the container's cgroup use it."""
    if not nodes:
        return
    user: dict[str, Any] = (spec.get("process") or {}).get("user") or {}
    linux = section(spec, "linux")
    rules = entries(section(linux, "resources"), "devices")
    present = list(rules)
    for node in nodes:
        device = linux_device(node, user)
        linux["devices"] = replace_item(entries(linux, "devices"), device, "path")
        if node["type"] not in ("c", "b"):
            continue
        rule = device_rule(device, node.get("permissions") or "rwm")
        if not in_force(rule, present):
            rules.append(rule)


def linux_device(node: "dict[str, Any]", user: "dict[str, Any]") -> "dict[str, Any]":
    """An entry of linux.devices. A node without an owner belongs to the container's user."""
    device: dict[str, Any] = {"path": node["path"], "type": node["type"]}
    if node["type"] != "p":
        device["major"], device["minor"] = node.get("major", 0), node.get("minor", 0)
    if node.get("fileMode") is not None:
        device["fileMode"] = node["fileMode"]
    for key in ("uid", "gid"):
        if node.get(key) is not None:
            device[key] = node[key]
        elif user.get(key):
            device[key] = user[key]
    return device


def device_rule(device: "dict[str, Any]", access: str) -> "dict[str, Any]":
    """An entry of linux.resources.devices that allows this access to the device."""
    return {
        "allow": True,
        "type": device["type"],
        "major": device["major"],
        "minor": device["minor"],
        "access": access,
    }


def in_force(rule: "dict[str, Any]", rules: "list[dict[str, Any]]") -> bool:
    """True if an earlier creation from the same bundle allowed it, and nothing
    after that denies.
    """
    for present in reversed(rules):
        if present == rule:
            return True
        if not present.get("allow"):
            return False
    return False


def replace_item(
    items: "list[dict[str, Any]]", item: "dict[str, Any]", key: str
) -> "list[dict[str, Any]]":
    """The items with this one in the place of the one with the same key, else at the end."""
    for at, one in enumerate(items):
        if one.get(key) == item[key]:
            return [*items[:at], item, *items[at + 1 :]]
    return [*items, item]


def add_mounts(spec: "Spec", mounts: "list[dict[str, Any]]") -> None:
    """New mounts go in, and all are put in an order in which no mount hides another that came
    deeper before it.
    """
    if not mounts:
        return
    mounted = entries(spec, "mounts")
    for mount in mounts:
        target = mount["containerPath"]
        mounted = [one for one in mounted if one.get("destination") != target]
        new: dict[str, Any] = {"destination": target}
        if mount.get("type"):
            new["type"] = mount["type"]
        new["source"] = mount["hostPath"]
        if mount.get("options"):
            new["options"] = list(mount["options"])
        mounted.append(new)
    spec["mounts"] = sorted(mounted, key=lambda one: paths.depth(str(one.get("destination", ""))))


def add_groups(spec: "Spec", groups: "list[int]") -> None:
    new = [group for group in dict.fromkeys(groups) if group]
    if not new:
        return
    present = entries(section(spec, "process", "user"), "additionalGids")
    present += [group for group in new if group not in present]


def mount(
    host: str, container: str = "", options: "tuple[str, ...]" = MOUNT_OPTIONS
) -> "dict[str, Any]":
    return {"hostPath": host, "containerPath": container or host, "options": list(options)}


def ctk_hook(program: str, name: str, *words: str) -> "dict[str, Any]":
    """A createContainer hook that our own nvidia-ctk carries out (or a hook program of another
    name, by itself).
    """
    base = paths.base(program)
    verbs = [base, "hook", name] if base == "nvidia-ctk" else [base, name]
    return with_environment(
        {"hookName": "createContainer", "path": program, "args": [*verbs, *words]}
    )


def with_environment(hook: "dict[str, Any]") -> "dict[str, Any]":
    """The hook with an environment of its own, never an empty one: the low-level runtime would take
    another for it.
    """
    return hook if hook.get("env") else {**hook, "env": list(HOOK_ENVIRONMENT)}
