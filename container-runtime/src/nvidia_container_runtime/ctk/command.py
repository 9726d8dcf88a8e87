"""nvidia-ctk: its verbs, each one's arguments read here and carried out in its own file."""

from __future__ import annotations

import sys

from .. import VERSION
from ..errors import RuntimeFault
from ..journal import complain


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    try:
        if words[:1] == ["hook"]:  # runs at every container's start: no parser is built for it
            from . import hooks

            return hooks.run(words[1:])
        return dispatch(words)
    except (RuntimeFault, OSError) as error:
        complain("error", str(error))
        return 1
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1


def dispatch(words: list[str]) -> int:
    import argparse

    from . import cdi_specs, char_links, config_file, configure, information

    parser = argparse.ArgumentParser(
        prog="nvidia-ctk", description="Register and describe the NVIDIA container runtime."
    )
    parser.add_argument(
        "--version", action="version", version=f"NVIDIA Container Toolkit CLI version {VERSION}"
    )
    parser.add_argument("--debug", "-d", action="store_true")
    parser.add_argument("--quiet", "-q", action="store_true")
    verbs = parser.add_subparsers(dest="command", required=True)
    runtime = verbs.add_parser("runtime", help="an engine's list of runtimes").add_subparsers(
        dest="verb", required=True
    )
    configure.add_arguments(
        runtime.add_parser("configure", help="register this runtime with an engine")
    )
    config_file.add_arguments(verbs.add_parser("config", help="show or change config.toml"))
    cdi_specs.add_arguments(verbs.add_parser("cdi", help="make, list and move CDI specs"))
    system = verbs.add_parser("system", help="the host's device nodes").add_subparsers(
        dest="verb", required=True
    )
    char_links.add_arguments(
        system.add_parser("create-dev-char-symlinks", help="links in /dev/char")
    )
    verbs.add_parser("info", help="what the runtime sees on this host")
    verbs.add_parser("hook", help="what CDI specs run: create-symlinks, update-ldcache, chmod ...")
    options = parser.parse_args(words)
    if options.command == "info":
        return information.run()
    actions = {
        "runtime": configure.run,
        "config": config_file.run,
        "cdi": cdi_specs.run,
        "system": char_links.run,
    }
    return actions[options.command](options)
