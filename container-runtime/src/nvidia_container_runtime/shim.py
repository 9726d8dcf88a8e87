"""nvidia-container-runtime: change the OCI spec when a container is created, then become the
low-level runtime.
"""

from . import VERSION, bundle, lowlevel, settings
from .argv import CommandLine
from .errors import RuntimeFault
from .journal import LEVELS, Journal
from .sections import RUNTIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import modification
    from .memory import Memory
    from .settings import Settings

FIXED_MODES = {"nvidia-container-runtime.cdi": "cdi", "nvidia-container-runtime.legacy": "legacy"}
NOT_PLANNED = "failed to create NVIDIA Container Runtime: failed to construct OCI spec modifier"
STDOUT = 1


class Invocation:
    """One run of the shim: under which name, with which words, in which environment."""

    def __init__(self, name: str, words: "list[bytes]", environment: "dict[bytes, bytes]") -> None:
        self.name = name
        self.words = words
        self.environment = environment
        self.line = CommandLine([word.decode(errors="surrogateescape") for word in words])

    def variable(self, name: str) -> str:
        return self.environment.get(name.encode(), b"").decode(errors="surrogateescape")


def main(name: str, words: "list[bytes]", memory: "Memory") -> int:
    """The exit code of a run that failed; one that succeeds never comes back."""
    call = Invocation(name, words, lowlevel.inherited_environment())
    journal = Journal([call.line.log], as_json=call.line.log_format == "json")
    try:
        if call.line.version:
            say_version()
        config = load_config(call, memory)
        values = dict(config.values)
        fix_mode(call.name, config)
        journal = open_journal(call, config)
        search = call.variable("PATH")
        program, missed = locate(config, search)
        if call.line.command == "create":
            create(call, config, journal, memory)
        memory.keep(config, values, search, program, missed)
        journal.debug(f"Forwarding command to runtime {program}")
        if call.line.version:
            write_out("\n")
        encoded = program.encode(errors="surrogateescape")
        lowlevel.become(program, [encoded, *words], call.environment)
    except RuntimeFault as fault:
        journal.error(str(fault))
    return 1


def load_config(call: Invocation, memory: "Memory") -> "Settings":
    path = settings.config_path(
        {name: call.variable(name) for name in ("NVIDIA_CTK_CONFIG_FILE_PATH", "XDG_CONFIG_HOME")}
    )
    try:
        return settings.load(path, memory.values)
    except RuntimeFault as fault:
        raise RuntimeFault(f"error loading config: {fault}") from None


def fix_mode(name: str, config: "Settings") -> None:
    """Two of the shim's names stand for a mode."""
    if name in FIXED_MODES:
        config.values[RUNTIME + "mode"] = FIXED_MODES[name]


def open_journal(call: Invocation, config: "Settings") -> Journal:
    files = () if call.line.version else (config[RUNTIME + "debug"], call.line.log)
    level = "debug" if call.line.debug else config[RUNTIME + "log-level"]
    journal = Journal(files, level, call.line.log_format == "json")
    if level.lower() not in LEVELS:
        journal.warning(f"Error getting log level: invalid log-level '{level}'")
    return journal


def locate(config: "Settings", path: str) -> "tuple[str, list[str]]":
    try:
        return lowlevel.find(config[RUNTIME + "runtimes"], path)
    except RuntimeFault as fault:
        raise RuntimeFault(
            "failed to create NVIDIA Container Runtime: error "
            f"constructing low-level runtime: {fault}"
        ) from None


def create(call: Invocation, config: "Settings", journal: Journal, memory: "Memory") -> None:
    """Change config.json where the container asks for something; leave it byte for byte where it
    does not.
    """
    if call.line.missing_bundle:
        raise RuntimeFault(
            "failed to create NVIDIA Container Runtime: "
            "error constructing OCI specification: error getting bundle"
            " directory: error getting bundle dir from args: bundle option requires an argument"
        )
    path = bundle.config_file(call.line.bundle)
    journal.info(f"Using OCI specification file path: {path}")
    spec = load_spec(path)
    planned = plan(spec, call, config, journal, memory)
    try:
        if planned.apply(spec):
            bundle.save(path, spec)
            journal.debug("Applied required modification to OCI specification")
    except RuntimeFault as fault:
        raise RuntimeFault(
            "could not apply required modification to OCI specification: "
            f"error modifying OCI spec: {fault}"
        ) from None


def load_spec(path: str) -> "dict[str, Any]":
    try:
        return bundle.load(path)
    except RuntimeFault as fault:
        raise RuntimeFault(f"{NOT_PLANNED}: failed to load OCI spec: {fault}") from None


def plan(
    spec: "dict[str, Any]", call: Invocation, config: "Settings", journal: Journal, memory: "Memory"
) -> "modification.Plan":
    from . import modification
    from .memory import Specs

    context = modification.Context(config, journal, call.variable, Specs(memory.place))
    try:
        return modification.plan(spec, context)
    except RuntimeFault as fault:
        raise RuntimeFault(f"{NOT_PLANNED}: {fault}") from None


def say_version() -> None:
    from .commit import COMMIT

    write_out(f"NVIDIA Container Runtime version {VERSION}\ncommit: {COMMIT}\nspec: 1.3.0\n")


def write_out(text: str) -> None:
    import posix

    posix.write(STDOUT, text.encode())
