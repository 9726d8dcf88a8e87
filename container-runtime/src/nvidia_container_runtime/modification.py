"""The changes that creating a container makes to its OCI spec, mode by mode. Every mode's
modifiers are in order here.
"""

from . import legacy, lowlevel, mode, request
from . import spec as places
from .sections import RUNTIME
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .journal import Journal
    from .memory import Specs

    Spec = dict[str, Any]


class Context:
    """The facts that a modifier works with beside the spec."""

    def __init__(
        self,
        settings: Settings,
        journal: "Journal",
        variable: "Callable[[str], str]",
        specs: "Specs",
    ) -> None:
        self.settings = settings
        self.journal = journal
        self.variable = variable  # of the shim's own environment, by its name
        self.path = variable("PATH")
        self.specs = specs

    @property
    def ctk(self) -> str:
        return lowlevel.find_helper(self.settings["nvidia-ctk.path"], "nvidia-ctk", self.path)

    @property
    def hook(self) -> str:
        name = "nvidia-container-runtime-hook"
        return lowlevel.find_helper(self.settings[name + ".path"], name, self.path)


class Plan:
    """The steps of a creation, decided before anything of the spec is changed."""

    def __init__(
        self, mode: str, container: request.Container, devices: "list[str]", context: Context
    ) -> None:
        self.mode = mode
        self.container = container
        self.devices = devices
        self.context = context

    def apply(self, spec: "Spec") -> bool:
        """Change the spec in memory. False: nothing was asked for, the file shall stay as it is."""
        return MODIFIERS[self.mode](spec, self.container, self.devices, self.context)


def plan(spec: "Spec", context: Context) -> Plan:
    container = request.Container(spec)
    wanted = request.devices(container, context.settings, with_annotations=True)
    chosen = mode.resolve(context.settings, wanted.ids, context.journal, context.path)
    if chosen not in ("cdi", "jit-cdi"):
        wanted = request.devices(container, context.settings)
    if wanted.warning:
        context.journal.warning(wanted.warning)
    if not wanted:
        context.journal.info("No modification required; no devices requested")
    return Plan(chosen, container, wanted.ids, context)


def modify_legacy(
    spec: "Spec", container: request.Container, devices: "list[str]", context: Context
) -> bool:
    if devices:
        add_extras(spec, container, context)
        add_graphics(spec, container, devices, context)
        add_compatibility(spec, context)
    legacy.add_hook(spec, context.hook, context.variable, context.journal)
    return True


def add_extras(spec: "Spec", container: request.Container, context: Context) -> None:
    """GPUDirect storage, network devices and the like, where the container enables them."""
    features = request.gated_features(container)
    if not features:
        return
    from . import edits, gated

    edits.apply(spec, gated.container_edits(features, context.settings, context.journal))


def add_graphics(
    spec: "Spec", container: request.Container, devices: "list[str]", context: Context
) -> None:
    if not request.wants_graphics(container):
        context.journal.info("No graphics modifier required; no graphics capabilities requested")
        return
    from . import edits, graphics

    edits.apply(
        spec, graphics.container_edits(devices, context.settings, context.journal, context.ctk)
    )


def add_compatibility(spec: "Spec", context: Context) -> None:
    """Add the hook that decides if the container's own CUDA libraries are the newer ones, if the
    configuration wants it.
    """
    settings = context.settings
    if settings[RUNTIME + "modes.legacy.cuda-compat-mode"] != "hook" or settings.feature(
        "disable-cuda-compat-lib-hook"
    ):
        return
    from . import driver_files, edits

    version = driver_files.version(settings.driver_root)
    if not version:
        context.journal.warning(
            "No driver version found; the container's CUDA compatibility libraries are not used"
        )
        return
    hook = edits.ctk_hook(context.ctk, "enable-cuda-compat", f"--host-driver-version={version}")
    edits.apply(spec, {"hooks": [hook]})


def modify_csv(
    spec: "Spec", container: request.Container, devices: "list[str]", context: Context
) -> bool:
    if not devices:
        return False
    from . import csv_mode, edits

    found = csv_mode.container_edits(
        container, devices, context.settings, context.journal, context.ctk
    )
    places.remove_old_hooks(spec)
    add_extras(spec, container, context)
    edits.apply(spec, found)
    return True


def modify_cdi(
    spec: "Spec", container: request.Container, devices: "list[str]", context: Context
) -> bool:
    return inject(
        spec, container, devices, context.settings[RUNTIME + "modes.cdi.default-kind"], context
    )


def modify_jit_cdi(
    spec: "Spec", container: request.Container, devices: "list[str]", context: Context
) -> bool:
    from .cdi_mode import JIT_KIND

    return inject(spec, container, devices, JIT_KIND, context)


def inject(
    spec: "Spec", container: request.Container, devices: "list[str]", kind: str, context: Context
) -> bool:
    if not devices:
        return False
    from . import cdi_mode, edits

    if container.has_conditions:
        from . import conditions

        conditions.check_by_nvml(container, context.settings, context.journal)
    names = cdi_mode.qualified(devices, kind)
    found = cdi_mode.container_edits(
        names, container, context.settings, context.journal, context.ctk, context.specs
    )
    places.remove_old_hooks(spec)
    edits.apply(spec, found)
    return True


MODIFIERS = {
    "legacy": modify_legacy,
    "csv": modify_csv,
    "cdi": modify_cdi,
    "jit-cdi": modify_jit_cdi,
}
