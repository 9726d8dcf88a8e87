"""The demands of a container beside devices: driver capabilities, conditions on the driver, IMEX
channels.
"""

from .errors import RuntimeFault
from .request import Container, decided, mounted_names, split, without_repeats
from .schema import CAPABILITIES
from .settings import Settings

TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
NOT_CHANNELS = (["all"], [""])


def imex_channels(container: Container, settings: Settings) -> "list[str]":
    if settings.feature("ignore-imex-channel-requests"):
        return []
    if settings["accept-nvidia-visible-devices-as-volume-mounts"]:
        mounted = [
            name[len("imex/") :]
            for name in mounted_names(container.mounts)
            if name.startswith("imex/")
        ]
        if mounted:
            return without_repeats(mounted)
    if (
        not container.privileged
        and not settings["accept-nvidia-visible-devices-envvar-when-unprivileged"]
    ):
        return []
    asked = decided(split(container.environment.get("NVIDIA_IMEX_CHANNELS", "")))
    return [] if asked in NOT_CHANNELS else asked


def supported_capabilities(settings: Settings) -> "list[str]":
    value = settings["supported-driver-capabilities"]
    asked = split(value)
    if asked == ["all"]:
        return list(CAPABILITIES)
    if not set(asked) <= set(CAPABILITIES):
        raise RuntimeFault(
            f"Invalid value for config option 'supported-driver-capabilities'; {value}"
            f" (supported: {','.join(CAPABILITIES)})"
        )
    return sorted(asked)


def capabilities(container: Container, settings: Settings) -> "list[str]":
    """The driver capabilities that the container gets, sorted; an error names those that this host
    does not support.
    """
    supported = supported_capabilities(settings)
    value = container.environment.get("NVIDIA_DRIVER_CAPABILITIES", "")
    if "NVIDIA_DRIVER_CAPABILITIES" not in container.environment and container.is_legacy_image:
        return supported
    if not value:
        return sorted({"utility", "compute"} & set(supported))
    asked = split(value)
    if "all" in asked:
        return supported
    allowed = sorted(set(asked) & set(supported))
    if len(allowed) < len(set(asked)):
        raise RuntimeFault(
            f"unsupported capabilities found in '{','.join(sorted(set(asked)))}' (allowed "
            f"'{','.join(allowed)}')"
        )
    return allowed


def requirements(container: Container, settings: Settings) -> "list[str]":
    """The conditions on the driver, sorted: the values of NVIDIA_REQUIRE_*, and an old image's CUDA
    version.
    """
    if (
        settings["disable-require"]
        or container.environment.get("NVIDIA_DISABLE_REQUIRE", "") in TRUE
    ):
        return []
    found = [
        value
        for name, value in container.environment.items()
        if name.startswith("NVIDIA_REQUIRE_") and not name.startswith("NVIDIA_REQUIRE_JETPACK")
    ]
    if container.is_legacy_image:
        found.append(cuda_requirement(container.environment["CUDA_VERSION"]))
    return sorted(found)


def cuda_requirement(version: str) -> str:
    parts = [*version.removeprefix("v").split("."), "0"][:2]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise RuntimeFault(f"invalid CUDA version: {version}")
    return f"cuda>={int(parts[0])}.{int(parts[1])}"
