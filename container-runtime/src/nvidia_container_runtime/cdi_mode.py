"""cdi and jit-cdi mode: devices by their CDI names, from spec files or from the driver itself."""

from . import edits, names, request
from .errors import RuntimeFault
from .sections import RUNTIME
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .journal import Journal
    from .memory import Specs

JIT_KIND = "runtime.nvidia.com/gpu"


def qualified(devices: "list[str]", kind: str) -> "list[str]":
    """Whole names; the device that stands for no GPU is called none."""
    return list(
        dict.fromkeys(
            name if names.is_qualified(name) else f"{kind}={name or 'none'}" for name in devices
        )
    )


def container_edits(
    devices: "list[str]",
    container: request.Container,
    settings: Settings,
    journal: "Journal",
    ctk: str,
    specs: "Specs",
) -> "dict[str, Any]":
    """The edits that give a container these devices. Edits made from the driver itself also give
    the driver files that the container asks for.
    """
    generated = [name for name in devices if names.split(name)[0] == JIT_KIND]
    if not generated:
        from .cdi_registry import Registry

        return Registry(settings[RUNTIME + "modes.cdi.spec-dirs"], journal, specs).edits(devices)
    if len(generated) < len(devices):
        others = ", ".join(name for name in devices if name not in generated)
        raise RuntimeFault(
            f"mixing CDI devices of {JIT_KIND} with others is not supported: {others}"
        )
    try:
        return generated_edits(
            [names.split(name)[1] for name in generated], container, settings, journal, ctk
        )
    except RuntimeFault as fault:
        raise RuntimeFault(f"failed to create the automatic CDI modifier: {fault}") from None


def generated_edits(
    ids: "list[str]", container: request.Container, settings: Settings, journal: "Journal", ctk: str
) -> "dict[str, Any]":
    from . import demands, jit

    extras = request.gated_features(container)
    extras += ["imex/" + channel for channel in demands.imex_channels(container, settings)]
    return edits.join_edits(
        [
            jit.container_edits(ids, settings, journal, ctk),
            *jit.extra_edits(extras, settings, journal),
        ]
    )
