"""legacy mode: a prestart hook that has nvidia-container-cli do the work."""

from . import paths
from .spec import HOOK_ENVIRONMENT, OLD_HOOKS, entries, section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .journal import Journal

# Of the shim's own environment, which is the engine's: what says where the hook's configuration and
# programs are.
HOOK_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "NVIDIA_CTK_CONFIG_FILE_PATH", "XDG_CONFIG_HOME")


def add_hook(
    spec: "dict[str, Any]", hook: str, variable: "Callable[[str], str]", journal: "Journal"
) -> None:
    """The hook goes into every container; the hook itself finds out whether there is something to
    do.
    """
    prestart = entries(section(spec, "hooks"), "prestart")
    for present in prestart:
        if paths.base(str(present.get("path", ""))) in OLD_HOOKS:
            journal.info(f"Existing nvidia prestart hook ({present['path']}) found in OCI spec")
            return
    journal.info(f"Using prestart hook path: {hook}")
    prestart.append(
        {"path": hook, "args": [paths.base(hook), "prestart"], "env": hook_environment(variable)}
    )


def hook_environment(variable: "Callable[[str], str]") -> "list[str]":
    """config.json is text: a value that is none is left out."""
    given = [(name, variable(name)) for name in HOOK_VARIABLES]
    return [
        *HOOK_ENVIRONMENT,
        *(f"{name}={value}" for name, value in given if value and is_text(value)),
    ]


def is_text(value: str) -> bool:
    return value.encode(errors="ignore").decode() == value
