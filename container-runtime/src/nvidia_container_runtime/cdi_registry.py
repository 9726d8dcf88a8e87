"""The CDI devices of a host: all spec folders read, conflicts settled, names turned into container
edits.
"""

from . import edits, paths, trusted
from .errors import RuntimeFault, reason
from .memory import Specs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .journal import Journal


REFUSED_SHOWN, WHY_SHOWN = 5, 200


class Registry:
    """Qualified name -> (its spec, its device). A later folder wins; two of one folder make the
    name unusable.
    """

    def __init__(
        self, folders: "Sequence[str]", journal: "Journal", specs: "Specs | None" = None
    ) -> None:
        self.devices: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.journal = journal
        self.specs = specs or Specs()
        self.refused: dict[str, str] = {}  # path of a spec that cannot be used -> why
        for folder in folders:
            self.read_folder(folder)
        self.specs.keep()

    def read_folder(self, folder: str) -> None:
        found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        conflicts: set[str] = set()
        files = [name for name in paths.names(folder) if name.endswith((".json", ".yaml"))]
        if files:
            trusted.check_folder(folder, "CDI spec")
        for file in files:
            path = paths.join(folder, file)
            if paths.is_dir(path):
                continue
            spec = self.read_spec(path)
            if not spec:
                continue
            for device in spec["devices"]:
                name = f"{spec['kind']}={device['name']}"
                if name in found:
                    conflicts.add(name)
                    self.journal.warning(f"conflicting device {name!r} in {folder}; it is not used")
                found[name] = (spec, device)
        self.devices.update(found)
        for name in conflicts:
            del self.devices[name]

    def read_spec(self, path: str) -> "dict[str, Any] | None":
        """A broken spec is no reason to refuse containers that do not need it; one of another user
        is.
        """
        try:
            content = trusted.read(path, "CDI spec")
        except OSError as error:
            return self.refuse(path, reason(error))
        return self.specs.get(path, content) or self.parse(path, content)

    def parse(self, path: str, content: bytes) -> "dict[str, Any] | None":
        from . import cdi_spec

        try:
            spec = cdi_spec.parse(content.decode(), path.endswith(".json"))
        except (cdi_spec.CdiFault, UnicodeDecodeError) as error:
            return self.refuse(path, str(error))
        self.specs.note(path, content, spec)
        return spec

    def refuse(self, path: str, why: str) -> None:
        self.refused[path] = why
        self.journal.warning(f"failed to load CDI spec {path}: {why}")

    def unresolvable(self, unknown: "Sequence[str]") -> RuntimeFault:
        """Names that no spec offers. One of a spec that is refused may be what was meant."""
        words = f"failed to inject CDI devices: unresolvable CDI devices {', '.join(unknown)}"
        for path, why in list(self.refused.items())[:REFUSED_SHOWN]:
            words += f"; refused CDI spec {path}: {why[:WHY_SHOWN]}"
        return RuntimeFault(words)

    def edits(self, names: "Sequence[str]") -> "dict[str, Any]":
        """The edits of these devices in their order, with those of a spec before
        its first device.
        """
        unknown = [name for name in names if name not in self.devices]
        if unknown:
            raise self.unresolvable(unknown)
        parts: list[dict[str, Any]] = []
        specs: list[dict[str, Any]] = []
        for name in names:
            spec, device = self.devices[name]
            if not any(spec is seen for seen in specs):
                specs.append(spec)
                parts.append(spec.get("containerEdits") or {})
            parts.append(device["containerEdits"])
        return edits.join_edits(parts)
