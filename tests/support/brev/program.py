"""The stand-in `brev`: `program.py FOLDER WORDS...` prints, asks and ends as the real program does,
with the account in FOLDER. account.py writes the command that starts it.

It is never kinder than the real one: it reads names from any standard input that is no terminal or
/dev/null, ends with 0 when an instance has failed, makes one whose creation it reports as failed,
deletes later, and runs a failed command of `exec` twice. No price of an instance is in anything.

Each call is written to FOLDER/calls: its words, the kind of its standard input, and whether
telemetry was off.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from support.brev.control_plane import (
    ControlPlane,
    Record,
    move_to,
    named,
    new_instance,
    shown_row,
)

FIRST_WITH_OBJECT = (0, 6, 323)  # `ls` prints an object, telemetry is on, no tutorial is run
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
LONGEST_NAME = 63
LOGGED_OUT = "You are currently logged out, would you like to log in? [Y/n]: "
RESTY = "2026/07/01 12:00:00.000000 ERROR RESTY EOF, Attempt 1"
NEW_VERSION = (
    "",
    "A new version of brev has been released!",
    "",
    "Your version: {release}",
    "Upgrade: brew upgrade brevdev/homebrew-brev/brev",
    "",
)
TAKES_VALUE = frozenset(
    "--type --gpu-name --timeout --startup-script --mode --token --api-key --org-id -p".split()
)
FLAGS: dict[str, frozenset[str]] = {
    "ls": frozenset(["--json", "--all", "--org"]),
    "search": frozenset(["--json", "--gpu-name"]),
    "create": frozenset(
        ["--type", "--gpu-name", "--detached", "--timeout", "--startup-script", "--mode"]
    ),
    "login": frozenset(["--token", "--api-key", "--org-id", "--skip-browser"]),
    "exec": frozenset(["--host"]),
    "--version": frozenset(["--no-check-latest"]),
    **dict.fromkeys(["delete", "stop", "start", "refresh", "set"], frozenset[str]()),
}


def fail(words: str) -> NoReturn:
    """Say why on stderr. The program has no exit code but 0 and 1."""
    print(words, file=sys.stderr)
    raise SystemExit(1)


class Call:
    """One call: the account, the caller's home, and the words after the command."""

    plane: ControlPlane
    home: Path
    release: tuple[int, ...]
    owner: Record

    def __init__(self, words: list[str], flags: dict[str, str]) -> None:
        self.words, self.flags = words, flags

    @property
    def folder(self) -> Path:
        return self.home / ".brev"

    def names(self) -> list[str]:
        """The names that a command acts on, also those on its standard input."""
        return [*self.words, *typed_names()]

    def only_own(self, state: Record) -> list[Record]:
        """The instances that this login sees: its own, or with an API key all of the org."""
        of_org = [each for each in state["instances"] if each["org"] == self.owner["org"]]
        if not self.owner["owner"]:
            return of_org
        return [each for each in of_org if each["owner"] == self.owner["owner"]]


def typed_names() -> list[str]:
    """The lines of a standard input that is not a character device. An open pipe is waited for."""
    if stat.S_ISCHR(os.fstat(0).st_mode):
        return []
    return sys.stdin.read().split()


def stdin_kind() -> str:
    mode = os.fstat(0).st_mode
    if stat.S_ISCHR(mode):
        is_null = os.fstat(0).st_rdev == Path(os.devnull).stat().st_rdev
        return "/dev/null" if is_null else "terminal"
    return "pipe" if stat.S_ISFIFO(mode) else "file"


def record_call(plane: ControlPlane, words: Sequence[str]) -> None:
    silent = "1" in (os.environ.get("BREV_NO_ANALYTICS"), os.environ.get("DO_NOT_TRACK"))
    line = {"words": list(words), "stdin": stdin_kind(), "telemetry": not silent, "at": time.time()}
    with (plane.folder / "calls").open("a") as file:
        file.write(f"{json.dumps(line)}\n")


# Logging in


def log_in(call: Call, state: Record) -> Record:
    """Who calls. Ends the program for somebody who is logged out."""
    saved = read_object(call.folder / "credentials.json")
    if key := saved.get("api_key"):
        org = state["api_keys"].get(key)
        return {"org": org, "owner": ""} if org else fail("unauthorized")
    token = saved.get("refresh_token")
    if not token:
        print(LOGGED_OUT, end="", flush=True)
        fail(RESTY)
    if token not in state["tokens"]:
        fail("unauthorized")
    if saved.get("access_token") == "auto-login":
        print("no oauth found for token", flush=True)
        rewrite(
            call.folder / "credentials.json", {**saved, "access_token": f"access-{time.time()}"}
        )
    active = read_object(call.folder / "active_org.json").get("id", state["organizations"][0]["id"])
    return {"org": active, "owner": token}


def rewrite(path: Path, content: Record) -> None:
    """In place and without a lock: who reads or writes at the same time may lose all of it."""
    with path.open("w") as file:
        file.flush()
        time.sleep(0.01)
        file.write(json.dumps(content))


def read_object(path: Path) -> Record:
    with suppress(OSError, ValueError):
        return json.loads(path.read_text())
    return {}


def login(call: Call) -> None:
    call.folder.mkdir(exist_ok=True)
    given = {"access_token": "auto-login", "refresh_token": call.flags.get("--token", "")}
    if "--api-key" in call.flags:
        given = {
            "api_key": call.flags["--api-key"],
            "api_key_org_id": call.flags.get("--org-id", ""),
        }
    rewrite(call.folder / "credentials.json", given)


# Looking


def list_instances(call: Call, state: Record) -> None:
    if call.words[:1] == ["orgs"]:
        return list_organizations(call, state)
    if call.release < (0, 6, 318):
        print("Welcome to Brev! Press enter to continue the tutorial", flush=True)
        time.sleep(3600)
    rows = [shown_row(each) for each in call.only_own(state)] or None
    if "--json" not in call.flags:
        return print("\n".join(f" {row['name']}  {row['status']}" for row in rows or []))
    shown = rows if call.release < FIRST_WITH_OBJECT else {"workspaces": rows}
    print(json.dumps(shown, indent=2))


def list_organizations(call: Call, state: Record) -> None:
    if not call.owner["owner"]:
        fail("forbidden")
    rows = [
        {**each, "is_active": each["id"] == call.owner["org"]} for each in state["organizations"]
    ]
    print(json.dumps(rows, indent=2))


def search(call: Call, state: Record) -> None:
    kinds: dict[str, Callable[[Record], bool]] = {
        "gpu": lambda offer: offer["gpu_count"] > 0,
        "cpu": lambda offer: not offer["gpu_count"],
    }
    is_wanted = kinds[call.words[0] if call.words else "gpu"]
    part = call.flags.get("--gpu-name", "").lower()
    rows = [
        each for each in state["offers"] if is_wanted(each) and part in each["gpu_name"].lower()
    ]
    print(json.dumps(rows, indent=2))


# Changing


def create(call: Call, state: Record) -> None:
    name = next(iter(call.words), "")
    typed = "" if stat.S_ISCHR(os.fstat(0).st_mode) else sys.stdin.read()
    fate = state["fates"].pop(0) if state["fates"] else {}
    refuse_name(state, name)
    instance = new_instance(state, name, available_type(call, state, typed), call.owner, fate)
    if refused := fate.get("refused"):
        state["instances"].remove(instance)
        print(refused, file=sys.stderr)
        fail("could only create 0/1 instances")
    if "lost" in fate:
        fail(f'Post "/api/organizations/{call.owner["org"]}/workspaces": unexpected EOF')
    if "killed" in fate:
        call.plane.write_state(state)
        os.kill(os.getpid(), signal.SIGKILL)
    print(f"Creating {name} ({instance['type']})", file=sys.stderr)
    print(name)


def wait_for(call: Call) -> None:
    """Wait for what `create` has made, unless it is detached. That it failed is no failure."""
    limit = time.monotonic() + float(call.flags.get("--timeout", "300"))
    while "--detached" not in call.flags and time.monotonic() < limit:
        with call.plane.changing() as state:
            instance = named(state, call.words[0])
        if instance is None or instance["status"] != "DEPLOYING":
            return
        time.sleep(0.05)


def refuse_name(state: Record, name: str) -> None:
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        fail(f"invalid instance name {name!r}")
    taken = named(state, name)
    if taken is None:
        return
    if taken["status"] == "DELETING":
        fail(f"duplicate workspace with name {name}")
    fail(f"instance {name} already exists. Use a different name")


def available_type(call: Call, state: Record, typed: str) -> str:
    """The first of the wanted types that there is capacity for."""
    for kind in wanted_types(call, state, typed):
        if kind not in [each["type"] for each in state["offers"]]:
            fail(f"{kind} is not a recognized type")
        if kind not in state["sold_out"]:
            return kind
        print(f"{kind} is currently unavailable (no capacity)", file=sys.stderr)
    fail("could only create 0/1 instances")


def wanted_types(call: Call, state: Record, typed: str) -> list[str]:
    if "--type" in call.flags:
        return call.flags["--type"].split(",")
    if typed.strip().startswith("["):
        return [each["type"] for each in json.loads(typed)]
    if typed.strip():
        return typed.split()
    large = [each for each in state["offers"] if each["vram_per_gpu_gb"] >= 20]
    return [each["type"] for each in sorted(large, key=lambda each: each["price_per_hour"])]


def delete(call: Call, state: Record) -> None:
    for name in call.names():
        instance = known(call, state, name)
        move_to(instance, "DELETING")
        print(name)


def stop(call: Call, state: Record) -> None:
    for name in call.names():
        instance = known(call, state, name)
        if not instance["stoppable"]:
            fail(f"instance {name} cannot be stopped")
        move_to(instance, "STOPPING")
        print(f"Stopping instance {name}.", file=sys.stderr)


def start(call: Call, state: Record) -> None:
    """Nobody's name is no failure here."""
    for name in call.names():
        instance = named(state, name)
        if instance is not None and instance["status"] == "STOPPED":
            move_to(instance, "STARTING")
        print(f"Starting instance {name}.", file=sys.stderr)


def known(call: Call, state: Record, name: str) -> Record:
    instance = named(state, name)
    if instance is None or instance not in call.only_own(state):
        fail(f"instance with id/name {name} not found")
    return instance


def set_organization(call: Call, state: Record) -> None:
    [name] = call.words
    chosen = [each for each in state["organizations"] if each["name"] == name]
    if not chosen:
        fail(f"no organization found with name {name}")
    rewrite(call.folder / "active_org.json", chosen[0])


# ssh


def refresh(call: Call, state: Record) -> None:
    """Write the ssh_config of the running instances, and lead ssh to it."""
    user, own = call.home / ".ssh" / "config", call.folder / "ssh_config"
    user.parent.mkdir(mode=0o700, exist_ok=True)
    include = f"Include {own}\n"
    before = user.read_text() if user.exists() else ""
    if not before.startswith(include):
        user.write_text(include + before)
    if (call.plane.folder / "brev.pem").exists():
        key = (call.plane.folder / "brev.pem").read_bytes()
        (call.folder / "brev.pem").write_bytes(key)
        (call.folder / "brev.pem").chmod(0o600)
    running = [each for each in call.only_own(state) if each["status"] == "RUNNING"]
    with own.open("w") as file:
        file.flush()
        time.sleep(0.01)
        file.writelines(host_block(call, state, each) for each in running)


def host_block(call: Call, state: Record, instance: Record) -> str:
    way = f"  Hostname 127.0.0.1\n  Port {instance['port']}\n"
    if state.get("proxy"):
        way = f"  ProxyCommand busybox nc 127.0.0.1 {instance['port']}\n"
    common = (
        f"{way}  User {state.get('user', 'ubuntu')}\n  IdentityFile {call.folder}/brev.pem\n"
        "  ForwardAgent yes\n  RequestTTY yes\n  StrictHostKeyChecking no\n"
        "  UserKnownHostsFile /dev/null\n  IdentitiesOnly yes\n  ControlMaster auto\n"
        f"  ControlPath {call.home}/.ssh/brev-control-%C\n  ControlPersist 600\n"
    )
    name = instance["name"]
    return f"Host {name}\n{common}\nHost {name}-host\n{common}\n"


def execute(call: Call, state: Record) -> None:
    """All words but the last are instances. A failed command is taken for a lost connection."""
    *instances, command = call.words
    for name in instances:
        known(call, state, name)
        words = ["ssh", "-F", str(call.folder / "ssh_config"), "-T", name, command]
        if run_program(words):
            refresh(call, state)
            if run_program(words):
                fail("exit status 1")
        print(name)


def run_program(words: Sequence[str]) -> int:
    return os.spawnvp(os.P_WAIT, words[0], list(words))


COMMANDS: dict[str, Callable[[Call, Record], None]] = {
    "ls": list_instances,
    "search": search,
    "create": create,
    "delete": delete,
    "stop": stop,
    "start": start,
    "set": set_organization,
    "refresh": refresh,
    "exec": execute,
}


def split_flags(command: str, words: Sequence[str], more: Sequence[str]) -> Call:
    """Ends the program at a flag that the command does not have."""
    left, names, flags = list(words), list[str](), dict[str, str]()
    while left:
        word = left.pop(0)
        if word == "--":
            names += left
            break
        flag, equals, value = word.partition("=")
        if not word.startswith("-"):
            names.append(word)
        elif flag not in {*FLAGS[command], *more}:
            fail(f"unknown flag: {flag}")
        elif flag in TAKES_VALUE:
            flags[flag] = value if equals else left.pop(0)
        else:
            flags[flag] = value
    return Call(names, flags)


def show_version(call: Call) -> None:
    if "--no-check-latest" not in call.flags:
        fail("failed to get latest release: dial tcp: lookup api.github.com: no such host")
    print(f"Current Version: v{'.'.join(map(str, call.release))}")


def meet_fault(fault: str) -> None:
    if fault == "hang":
        time.sleep(3600)
    if fault == "unauthorized":
        fail("unauthorized")
    if fault:
        fail(f"https://brevapi.example/api/organizations/org-1/workspaces {fault} upstream failure")


def main(folder: str, *words: str) -> None:
    plane = ControlPlane(Path(folder))
    record_call(plane, words)
    state = plane.read_state()
    release = tuple(int(part) for part in state["release"].split("."))
    command, *further = words or ("help",)
    for line in state["notices"]:
        print(line.format(release=f"v{'.'.join(map(str, release))}"))
    if command not in FLAGS:
        fail(f'unknown command "{command}" for "brev"')
    call = split_flags(command, further, state["flags_of_create"] if command == "create" else ())
    call.plane, call.home, call.release = plane, Path(os.environ["HOME"]), release
    if command == "--version":
        return show_version(call)
    if command == "login":
        return login(call)
    call.owner = log_in(call, plane.read_state())
    sys.stdout.flush()
    meet_fault(plane.take_fault(command))
    answer(call, command)


def answer(call: Call, command: str) -> None:
    if command in ("ls", "exec"):  # they may take their time
        return COMMANDS[command](call, call.plane.read_state())
    with call.plane.changing() as state:
        COMMANDS[command](call, state)
    if command == "create":
        wait_for(call)


if __name__ == "__main__":
    main(*sys.argv[1:])
