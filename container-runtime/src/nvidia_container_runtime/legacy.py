"""legacy mode: a prestart hook that has nvidia-container-cli do the work."""

from . import paths
from .spec import OLD_HOOKS, entries, section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .journal import Journal


def add_hook(spec: "dict[str, Any]", hook: str, journal: "Journal") -> None:
    """The hook goes into every container; the hook itself finds out whether there is something to do."""
    prestart = entries(section(spec, "hooks"), "prestart")
    for present in prestart:
        if paths.base(str(present.get("path", ""))) in OLD_HOOKS:
            journal.info(f"Existing nvidia prestart hook ({present['path']}) found in OCI spec")
            return
    journal.info(f"Using prestart hook path: {hook}")
    prestart.append({"path": hook, "args": [paths.base(hook), "prestart"]})
