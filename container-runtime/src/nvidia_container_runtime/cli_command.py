"""The command line of nvidia-container-cli for a container's request."""

from . import demands, request, schema
from .errors import RuntimeFault
from .sections import CLI, RUNTIME
from .settings import Settings

COMPATIBILITY = {
    "ldconfig": "ldconfig",
    "mount": "mount",
    "disabled": "disabled",
    "hook": "disabled",
}


class Call:
    """Everything that nvidia-container-cli's flags are made of."""

    def __init__(
        self,
        container: request.Container,
        config: Settings,
        devices: "list[str]",
        channels: "list[str]",
        debug: bool,
        known: str,
    ) -> None:
        self.container = container
        self.config = config
        self.devices = devices
        self.channels = channels
        self.debug = debug
        self.known = known

    def knows(self, flag: str) -> bool:
        return flag in self.known


def command(call: Call, pid: str, rootfs: str) -> "list[str]":
    """The words after the program's name, in the order that nvidia-container-cli is used to."""
    return [
        *common_flags(call),
        "configure",
        *configure_flags(call),
        f"--pid={pid}",
        rootfs,
    ]


def common_flags(call: Call) -> "list[str]":
    config = call.config
    user = config[CLI + "user"]
    user = schema.default_user() if user is None else user
    debug = "/dev/stderr" if call.debug else config[CLI + "debug"]
    creates_channels = not config.feature("disable-imex-channel-creation")
    flags = [
        (config[CLI + "root"], f"--root={config[CLI + 'root']}"),
        (config[CLI + "load-kmods"], "--load-kmods"),
        (
            not creates_channels and call.knows("--no-create-imex-channels"),
            "--no-create-imex-channels",
        ),
        (config[CLI + "no-pivot"], "--no-pivot"),
        (debug, f"--debug={debug}"),
        (config[CLI + "ldcache"], f"--ldcache={config[CLI + 'ldcache']}"),
        (user, f"--user={user}"),
    ]
    return [flag for wanted, flag in flags if wanted]


def configure_flags(call: Call) -> "list[str]":
    config, container = call.config, call.container
    devices = ",".join(call.devices)  # of NO_GPU nothing is left
    configured = mig(container, "CONFIG")
    monitored = mig(container, "MONITOR")
    channels = ",".join(call.channels)
    flags = [
        (compatibility(call), f"--cuda-compat-mode={compatibility(call)}"),
        (config[CLI + "ldconfig"], f"--ldconfig={config[CLI + 'ldconfig']}"),
        (config[CLI + "no-cgroups"], "--no-cgroups"),
        (devices, f"--device={devices}"),
        (configured, f"--mig-config={configured}"),
        (monitored, f"--mig-monitor={monitored}"),
        (channels and call.knows("--imex-channel"), f"--imex-channel={channels}"),
    ]
    capabilities = [f"--{name}" for name in demands.capabilities(container, config)]
    required = [f"--require={one}" for one in demands.requirements(container, config)]
    return [flag for wanted, flag in flags if wanted] + capabilities + required


def compatibility(call: Call) -> str:
    if not call.knows("--cuda-compat-mode"):
        return ""
    if call.config.feature("allow-cuda-compat-libs-from-container"):
        return COMPATIBILITY.get(call.config[RUNTIME + "modes.legacy.cuda-compat-mode"], "")
    return COMPATIBILITY.get(call.config[RUNTIME + "modes.legacy.cuda-compat-mode"], "disabled")


def mig(container: request.Container, purpose: str) -> str:
    """Changing and watching all of a GPU's slices is a privilege: CAP_SYS_ADMIN."""
    value = container.environment.get(f"NVIDIA_MIG_{purpose}_DEVICES", "")
    if value and not container.privileged:
        raise RuntimeFault(f"cannot set MIG_{purpose}_DEVICES in non privileged container")
    return value
