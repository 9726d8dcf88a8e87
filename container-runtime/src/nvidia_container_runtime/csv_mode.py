"""csv mode: lists of device nodes, folders, libraries and links, as Tegra systems ship them."""

from . import conditions, edits, files, paths, request, trusted
from .errors import RuntimeFault, reason
from .sections import RUNTIME
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .journal import Journal

BASE_FILES = ("l4t.csv", "drivers.csv", "devices.csv")
KINDS = ("dev", "dir", "lib", "sym")
RELEASE = "/etc/nv_tegra_release"


class Item:
    """One line: what kind of thing, and its path on the host."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: str, path: str) -> None:
        self.kind = kind
        self.path = path


def parse(text: str) -> "tuple[list[Item], list[str]]":
    """The items of a file, and the lines that are none."""
    items: list[Item] = []
    skipped: list[str] = []
    for line in text.split("\n"):
        kind, comma, path = line.partition(",")
        if comma and kind.strip() in KINDS and path.strip() and "\0" not in path:
            items.append(Item(kind.strip(), path.strip()))
        elif line.strip():
            skipped.append(line)
    return items, skipped


def csv_files(folder: str, all_of_them: bool) -> "list[str]":
    if not paths.exists(folder):
        return []
    names = [
        name
        for name in paths.names(folder)
        if name.lower().endswith(".csv") and name.lower() != ".csv"
    ]
    chosen = [
        name
        for name in names
        if not paths.is_dir(paths.join(folder, name)) and (all_of_them or name in BASE_FILES)
    ]
    return [paths.join(folder, name) for name in chosen]


def read_items(
    container: request.Container, settings: Settings, journal: "Journal"
) -> "list[Item]":
    everything = container.environment.get("NVIDIA_REQUIRE_JETPACK") == "csv-mounts=all"
    folder = settings[RUNTIME + "modes.csv.mount-spec-path"]
    lists = csv_files(folder, everything)
    if lists:
        trusted.check_folder(folder, "CSV file")
    return read_lists(lists, journal)


def read_lists(lists: "list[str]", journal: "Journal") -> "list[Item]":
    items: list[Item] = []
    for file in lists:
        try:
            found, skipped = parse(trusted.read(file, "CSV file").decode(errors="surrogateescape"))
        except OSError as error:
            raise RuntimeFault(f"failed to read CSV file {file}: {reason(error)}") from None
        for line in skipped:
            journal.debug(f"Skipping CSV line: {line}")
        items += found
    return items


def container_edits(
    container: request.Container,
    devices: "list[str]",
    settings: Settings,
    journal: "Journal",
    ctk: str,
) -> "dict[str, Any]":
    check_devices(devices)
    conditions.check_by_cuda(container, settings, journal)
    return edits_of(read_items(container, settings, journal), settings, journal, ctk)


def check_devices(devices: "list[str]") -> None:
    for device in devices:
        if device not in ("all", "0", request.NO_GPU):
            raise RuntimeFault(
                'failed to generate CDI spec for mode "csv": '
                "failed to construct device spec generators:"
                f" unsupported device id: {device}"
            )


def edits_of(
    items: "list[Item]", settings: Settings, journal: "Journal", ctk: str
) -> "dict[str, Any]":
    found = collect(items, settings.driver_root, journal)
    if settings.feature("no-additional-gids-for-device-nodes"):
        found["additionalGids"] = []
    found["hooks"] += compatibility_hooks(settings, journal, ctk)
    links = found.pop("links")
    found["hooks"] = (
        files.link_hooks(ctk, found.pop("libraryLinks"))
        + files.link_hooks(ctk, links)
        + found["hooks"]
    )
    found["hooks"] += files.ldcache_hooks(ctk, files.library_folders(found["mounts"]))
    return found


def collect(items: "list[Item]", root: str, journal: "Journal") -> "dict[str, Any]":
    """The items that exist, as edits; what is missing is told and left out."""
    nodes: list[dict[str, Any]] = []
    mounted: list[str] = []
    links: list[str] = []
    for item in items:
        if item.kind == "dev":
            found = [
                node
                for path in node_paths(root, item.path)
                for node in [files.device_node(root, path)]
                if node
            ]
            nodes += found
        elif item.kind == "sym":
            found = symlink(root, item.path, mounted, links)
        else:
            found = [
                path
                for path in files.resolved(root, item.path)
                if paths.is_dir(path) == (item.kind == "dir")
            ]
            mounted += found
        if not found:
            journal.warning(f"Could not locate {item.path}")
    if not paths.is_dir(RELEASE) and paths.exists(RELEASE):
        mounted.append(RELEASE)
    unique = list({node["path"]: node for node in nodes}.values())
    inner = list(dict.fromkeys(mounted))
    mounts = [edits.mount(path, files.inside(root, path)) for path in sorted(inner)]
    return {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": unique,
        "mounts": mounts,
        "hooks": [],
        "additionalGids": files.groups(unique),
        "links": links,
        "libraryLinks": files.library_links([mount["containerPath"] for mount in mounts]),
    }


def node_paths(root: str, path: str) -> "list[str]":
    if not any(character in path for character in files.GLOB):
        return [path]
    patterns = (files.below(root, path), files.below(root, paths.join("/dev", path)))
    return [
        files.inside(root, found) for pattern in patterns for found in files.matches(pattern, root)
    ]


def symlink(root: str, path: str, mounted: "list[str]", links: "list[str]") -> "list[str]":
    """Mount the file at the end of a chain of links; each link of the chain is made anew in the
    container.
    """
    found = files.matches(files.below(root, path), root)
    good = [match for match in found if paths.exists(paths.real(match, root))]
    for match in good:
        mounted.append(paths.real(match, root))
        links += [
            f"{target}::{files.inside(root, link)}" for link, target in files.chain(root, match)
        ]
    return good


def compatibility_hooks(settings: Settings, journal: "Journal", ctk: str) -> "list[dict[str, Any]]":
    """The hooks that use a container's own newer CUDA libraries; none on a host without NVML."""
    from . import host

    library = host.nvml_library(settings.driver_root)
    if settings.feature("disable-cuda-compat-lib-hook") or not host.can_load(library):
        return []
    from . import nvml

    try:
        with nvml.Driver(library) as driver:
            words = ["--host-cuda-version=" + driver.cuda_version]
            if any("Orin (nvgpu)" in gpu.name for gpu in driver.gpus()):
                place = (
                    settings[RUNTIME + "modes.csv.compat-container-root"]
                    or "/usr/local/cuda/compat_orin"
                )
                words.append("--cuda-compat-container-root=" + place)
    except nvml.DriverFault as fault:
        journal.warning(f"Failed to get the CUDA version of the driver: {fault}")
        return []
    return [edits.ctk_hook(ctk, "enable-cuda-compat", *words)]
