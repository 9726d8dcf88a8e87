"""Places in an OCI spec."""

from . import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Spec = dict[str, Any]

# runc gives a hook without an environment the image's: LD_PRELOAD there would be code of the image
# as root of the host.
HOOK_ENVIRONMENT = ("NVIDIA_CTK_DEBUG=false",)
OLD_HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")


def section(spec: "Spec", *names: str) -> "dict[str, Any]":
    """The object at that place of the spec, made when it is not there (null counts
    as not there).
    """
    for name in names:
        if spec.get(name) is None:
            spec[name] = {}
        spec = spec[name]
    return spec


def entries(parent: "dict[str, Any]", name: str) -> "list[Any]":
    if parent.get(name) is None:
        parent[name] = []
    return parent[name]


def remove_old_hooks(spec: "Spec") -> None:
    """Take out the prestart hook of `docker run --gpus`, which would inject the devices a second
    time.
    """
    hooks = spec.get("hooks") or {}
    if not hooks.get("prestart"):
        return
    hooks["prestart"] = [
        hook for hook in hooks["prestart"] if paths.base(str(hook.get("path", ""))) not in OLD_HOOKS
    ]
    if not hooks["prestart"]:
        del hooks["prestart"]
