"""nvidia-container-runtime-hook: a prestart hook that becomes nvidia-container-cli with a
container's flags.
"""

import posix

from . import (
    VERSION,
    cli_command,
    cli_flags,
    demands,
    host,
    json_text,
    lowlevel,
    mode,
    paths,
    request,
    settings,
)
from .errors import RuntimeFault, reason
from .sections import CLI, RUNTIME
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DRIVER_CONTAINER_CONFIG = "/run/nvidia/driver/etc/nvidia-container-runtime/config.toml"
USAGE = """Usage of nvidia-container-runtime-hook:
  -config string
    \tconfiguration file
  -debug
    \tenable debug output
  -version
    \tenable version output

Commands:
  prestart
        run the prestart hook
  poststart
        no-op
  poststop
        no-op
"""
UNSUPPORTED = (
    "invoking the NVIDIA Container Runtime Hook directly "
    "(e.g. specifying the docker --gpus flag) is not supported."
    " Please use the NVIDIA Container Runtime instead."
)


class Options:
    """The hook's own command line."""

    def __init__(self, words: "list[str]") -> None:
        self.config = ""
        self.debug = False
        self.version = False
        self.command = ""
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] != "--":
            name, equals, value = rest.pop(0).lstrip("-").partition("=")
            if name == "config" and (equals or rest):
                self.config = value if equals else rest.pop(0)
            elif name == "debug":
                self.debug = value not in ("false", "0")
            elif name == "version":
                self.version = True
            else:
                return
        self.command = rest[0] if rest else ""


def main(words: "list[str]", place: str = "") -> int:
    """The exit code of a run that failed or had nothing to do. `place` is where memory lies, "" for
    nowhere.
    """
    options = Options(words)
    if options.version:
        posix.write(1, f"NVIDIA Container Runtime Hook version {VERSION}\n".encode())
        return 0
    if options.command in ("poststart", "poststop"):
        return 0
    if options.command != "prestart":
        tell(USAGE)
        return 2
    try:
        prestart(options, lowlevel.inherited_environment(), place)
    except RuntimeFault as fault:
        tell(f"{fault}\n")
        return 1
    return 0


def tell(text: str) -> None:
    """The runtime shows a failed hook's stderr to people, so it holds plain words."""
    posix.write(2, text.encode(errors="surrogateescape"))


def prestart(options: Options, environment: "Mapping[bytes, bytes]", place: str) -> None:
    config = load_config(options.config, environment)
    state = read_state()
    spec = read_spec(str(state.get("bundle") or state.get("bundlePath") or ""))
    container = request.Container(spec)
    wanted = request.devices(container, config)
    channels = demands.imex_channels(container, config)
    if not wanted:
        return
    check_mode(config, wanted.ids)
    cli = find_cli(config, search_path(environment))
    full = {
        **cli_environment(config, environment),
        **extra_environment(config[CLI + "environment"]),
    }
    help_text = cli_flags.help_text(cli, place, full)
    rootfs = paths.absolute(str(spec["root"].get("path", "")))
    flags = cli_command.command(
        cli_command.Call(container, config, wanted.ids, channels, options.debug, help_text),
        str(process_id(state)),
        rootfs,
    )
    lowlevel.become(cli, [word.encode(errors="surrogateescape") for word in [cli, *flags]], full)


def load_config(given: str, environment: "Mapping[bytes, bytes]") -> Settings:
    """The file named on the command line must be there; else what the environment names, the
    driver's own, /etc.
    """
    try:
        if given:
            if not paths.exists(given):
                raise RuntimeFault("couldn't open required configuration file: file does not exist")
            return settings.load(given)
        names = ("NVIDIA_CTK_CONFIG_FILE_PATH", "XDG_CONFIG_HOME")
        chosen = {
            name: environment.get(name.encode(), b"").decode(errors="surrogateescape")
            for name in names
        }
        if not any(chosen.values()) and paths.exists(DRIVER_CONTAINER_CONFIG):
            return settings.load(DRIVER_CONTAINER_CONFIG)
        return settings.load(settings.config_path(chosen))
    except RuntimeFault as fault:
        raise RuntimeFault(f"error getting hook config: failed to load config: {fault}") from None


def read_state() -> "dict[str, Any]":
    pieces: list[bytes] = []
    while True:
        piece = posix.read(0, 65536)
        if not piece:
            break
        pieces.append(piece)
    try:
        state = json_text.first_value(b"".join(pieces).decode())
    except (json_text.JsonFault, UnicodeDecodeError) as error:
        raise RuntimeFault(f"could not decode container state: {error}") from None
    if not isinstance(state, dict):
        raise RuntimeFault("could not decode container state: it is no object")
    return state  # pyright: ignore[reportUnknownVariableType]


def process_id(state: "dict[str, Any]") -> int:
    pid = state.get("pid")
    if pid is None:
        return 0
    if type(pid) is not int or pid < 0:
        raise RuntimeFault(f"could not decode container state: pid {pid!r} is no process id")
    return pid


def read_spec(folder: str) -> "dict[str, Any]":
    path = paths.join(folder, "config.json") if folder else "config.json"
    try:
        spec = json_text.first_value(paths.read_bytes(path).decode())
    except OSError as error:
        raise RuntimeFault(f"could not open OCI spec: open {path}: {reason(error)}") from None
    except (json_text.JsonFault, UnicodeDecodeError) as error:
        raise RuntimeFault(f"could not decode OCI spec: {error}") from None
    if not isinstance(spec, dict) or not spec.get("ociVersion"):
        raise RuntimeFault("Version is empty in OCI spec")
    for name, title in (("process", "Process"), ("root", "Root")):
        if not isinstance(spec.get(name), dict):  # pyright: ignore[reportUnknownMemberType]
            raise RuntimeFault(f"{title} is empty in OCI spec")
    from . import bundle

    try:
        bundle.check_shape(spec)  # pyright: ignore[reportUnknownArgumentType]
    except json_text.JsonFault as error:
        raise RuntimeFault(f"could not decode OCI spec: {error}") from None
    return spec  # pyright: ignore[reportUnknownVariableType]


def check_mode(config: Settings, devices: "list[str]") -> None:
    """In every other mode the runtime has done, or would do, what this hook does: both together are
    a mistake.
    """
    if config["nvidia-container-runtime-hook.skip-mode-detection"]:
        return
    chosen = config[RUNTIME + "mode"]
    said = ""
    if chosen == "auto":
        chosen = mode.hook_mode(devices)
        said = f"Auto-detected mode as '{chosen}'\n"
    if chosen != "legacy":
        raise RuntimeFault(said + UNSUPPORTED)


def search_path(environment: "Mapping[bytes, bytes]") -> str:
    return environment.get(b"PATH", b"").decode(errors="surrogateescape")


def cli_environment(config: Settings, environment: "Mapping[bytes, bytes]") -> "dict[bytes, bytes]":
    """The environment of the tool. It runs programs of the driver root, and fails without a
    PATH.
    """
    path = search_path(environment)
    if path and "/" in config[CLI + "path"]:
        return dict(environment)
    folders = host.cli_folders(config[CLI + "root"], path)
    return {**environment, b"PATH": ":".join(folders).encode(errors="surrogateescape")}


def find_cli(config: Settings, search: str) -> str:
    name = config[CLI + "path"]
    if "/" in name:
        return name
    found = host.find_container_cli(name, config[CLI + "root"], search)
    if not found:
        raise RuntimeFault(
            "couldn't find binary nvidia-container-cli in PATH:"
            ' exec: "nvidia-container-cli": executable file not found in $PATH'
        )
    return found


def extra_environment(entries: "list[str]") -> "dict[bytes, bytes]":
    pairs = [entry.encode(errors="surrogateescape").partition(b"=") for entry in entries]
    return {name: value for name, equals, value in pairs if name and equals}
