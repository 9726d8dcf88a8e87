"""The request of a container, read from its OCI spec: its devices and extras. Its demands are in
demands.py.
"""

from . import paths
from .errors import RuntimeFault
from .sections import RUNTIME
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
NO_GPU = ""  # no device has this name, while a mounted path can be named none
MOUNTED_DEVICES = "/var/run/nvidia-container-devices"
GATED_FEATURES = {
    "NVIDIA_GDS": "gds",
    "NVIDIA_MOFED": "mofed",
    "NVIDIA_NVSWITCH": "nvswitch",
    "NVIDIA_GDRCOPY": "gdrcopy",
}


class Container:
    """The parts of an OCI spec that requests are read from."""

    def __init__(self, spec: "dict[str, Any]") -> None:
        process: dict[str, Any] = spec.get("process") or {}
        self.environment = environment(process.get("env") or ())
        self.privileged = is_privileged(process, str(spec.get("ociVersion", "")))
        self.mounts: list[dict[str, Any]] = spec.get("mounts") or []
        self.annotations: dict[str, Any] = spec.get("annotations") or {}

    @property
    def is_legacy_image(self) -> bool:
        """CUDA images before 2018 say what they need with CUDA_VERSION alone."""
        return bool(self.environment.get("CUDA_VERSION")) and not self.environment.get(
            "NVIDIA_REQUIRE_CUDA"
        )

    @property
    def has_conditions(self) -> bool:
        """True if there may be conditions on the driver. demands.py reads them."""
        return self.is_legacy_image or any(
            name.startswith("NVIDIA_REQUIRE_") for name in self.environment
        )


def environment(entries: "Any") -> "dict[str, str]":
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals:
            raise RuntimeFault(f"invalid environment variable: {entry}")
        found[name] = value
    return found


def is_privileged(process: "dict[str, Any]", version: str) -> bool:
    """CAP_SYS_ADMIN in the bounding set; the first drafts of the OCI spec had one plain list."""
    capabilities = process.get("capabilities")
    if isinstance(capabilities, dict):
        capabilities = capabilities.get("bounding")  # pyright: ignore
    elif version not in ("1.0.0-rc1", "1.0.0-rc2", "1.0.0-rc3", "1.0.0-rc4"):
        return False
    return isinstance(capabilities, list) and "CAP_SYS_ADMIN" in capabilities


# --- devices


class Devices:
    """The devices asked for. `ids` is ["all"], [NO_GPU] (driver files without a GPU) or names;
    empty: nothing asked.
    """

    def __init__(self, ids: "list[str]", warning: str = "") -> None:
        self.ids = ids
        self.warning = warning  # what was ignored, and why

    def __bool__(self) -> bool:
        return bool(self.ids)


def devices(container: Container, settings: Settings, with_annotations: bool = False) -> Devices:
    """Annotations (where a mode reads them) before volume mounts before the environment."""
    if with_annotations:
        annotated = from_annotations(
            container.annotations, settings[RUNTIME + "modes.cdi.annotation-prefixes"]
        )
        if annotated:
            return Devices(annotated)
    if settings["accept-nvidia-visible-devices-as-volume-mounts"]:
        mounted = from_mounts(container.mounts)
        if mounted:
            return Devices(mounted)
    asked = from_environment(container, settings)
    if (
        not asked
        or container.privileged
        or settings["accept-nvidia-visible-devices-envvar-when-unprivileged"]
    ):
        return Devices(asked)
    consulted = " ".join(consulted_variables(container, settings))
    return Devices(
        [],
        "Ignoring devices requested by environment variable(s) in "
        f"unprivileged container: [{consulted}]",
    )


def from_annotations(annotations: "dict[str, Any]", prefixes: "list[str]") -> "list[str]":
    found: list[str] = []
    for key in sorted(annotations):
        if any(key.startswith(prefix) for prefix in prefixes):
            found += str(annotations[key]).split(",")
    return without_repeats(found)


def from_mounts(mounts: "list[dict[str, Any]]") -> "list[str]":
    found = [name for name in mounted_names(mounts) if not name.startswith("imex/")]
    return without_repeats([cdi_name(name) for name in found])


def mounted_names(mounts: "list[dict[str, Any]]") -> "list[str]":
    """/dev/null mounted at a path below one folder: the rest of the path is a device name."""
    found: list[str] = []
    for mount in mounts:
        target = paths.clean(str(mount.get("destination", "")))
        if paths.clean(str(mount.get("source", ""))) == "/dev/null" and target.startswith(
            MOUNTED_DEVICES + "/"
        ):
            found.append(target[len(MOUNTED_DEVICES) + 1 :])
    return found


def cdi_name(mounted: str) -> str:
    """`cdi/vendor/class/device` stands for vendor/class=device, because a path is easier to make
    than a `=`.
    """
    if not mounted.startswith("cdi/"):
        return mounted
    parts = mounted[len("cdi/") :].split("/", 2)
    from . import names

    name = parts[0] + "/" + "=".join(parts[1:]) if len(parts) == 3 else "/".join(parts)
    return name if names.is_qualified(name) else mounted


def consulted_variables(container: Container, settings: Settings) -> "list[str]":
    swarm = [name.strip() for name in settings["swarm-resource"].split(",") if name.strip()]
    present = [name for name in swarm if name in container.environment]
    return present or [VISIBLE_DEVICES]


def from_environment(container: Container, settings: Settings) -> "list[str]":
    variables = consulted_variables(container, settings)
    given = [container.environment[name] for name in variables if name in container.environment]
    if not given:
        return ["all"] if container.is_legacy_image else []
    return decided(split(",".join(given)))


def split(value: str) -> "list[str]":
    return [item.strip() for item in value.split(",") if item.strip()]


def decided(asked: "list[str]") -> "list[str]":
    if not asked or "void" in asked:
        return []
    for word in asked:
        if word in ("all", "none"):
            return ["all" if word == "all" else NO_GPU]
    return without_repeats(asked)


def without_repeats(items: "list[str]") -> "list[str]":
    return list(dict.fromkeys(items))


# --- extras


def gated_features(container: Container) -> "list[str]":
    return [
        feature
        for name, feature in GATED_FEATURES.items()
        if container.environment.get(name) == "enabled"
    ]


def wants_graphics(container: Container) -> bool:
    if "NVIDIA_DRIVER_CAPABILITIES" not in container.environment and container.is_legacy_image:
        return True
    asked = split(container.environment.get("NVIDIA_DRIVER_CAPABILITIES", ""))
    return any(name in ("all", "graphics", "display") for name in asked)
