"""The command line of an OCI runtime, as far as the shim must understand it.

The command is found by its position, as the low-level runtime finds it: a container named `create`
is not a creation.
"""

# Flags before the command that take the next word as their value: runc's, crun's and youki's, and
# the bundle, which counts wherever it stands.
GLOBAL_VALUES = frozenset(
    (
        "log",
        "log-format",
        "log-level",
        "root",
        "r",
        "criu",
        "rootless",
        "cgroup-manager",
        "b",
        "bundle",
    )
)
# Flags of `create` that take a value, so that `--pid-file --bundle` would not be read as a bundle.
CREATE_VALUES = frozenset(
    ("b", "bundle", "console-socket", "pid-file", "preserve-fds", "f", "config")
)
COMMANDS = frozenset(
    [
        "checkpoint",
        "create",
        "delete",
        "events",
        "exec",
        "features",
        "help",
        "kill",
        "list",
        "mounts",
        "pause",
        "ps",
        "restore",
        "resume",
        "run",
        "spec",
        "start",
        "state",
        "update",
        "version",
    ]
)
FALSE = ("0", "f", "F", "false", "FALSE", "False")


class CommandLine:
    """The request of a command line: its command, log and bundle."""

    __slots__ = ("bundle", "command", "debug", "log", "log_format", "missing_bundle", "version")

    def __init__(self, words: "list[str]") -> None:
        self.command = ""
        self.log = ""
        self.log_format = ""
        self.debug = False
        self.version = False
        self.bundle = ""
        self.missing_bundle = False
        at = self._read_global_flags(words)
        if at < len(words):
            self.command = words[at]
        if self.command == "create":
            self._read_bundle(words[at + 1 :])

    def _read_global_flags(self, words: "list[str]") -> int:
        """Take in everything up to the command, and say where that stands."""
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            name, value, given = flag(word)
            if not name:
                if word == "--":
                    continue
                return at - 1
            following = words[at] if at < len(words) else ""
            if not given and takes_value(name, following):
                value = following
                at += 1
            self._note(name, value)
        return at

    def _note(self, name: str, value: str) -> None:
        if name == "log":
            self.log = value
        elif name == "log-format":
            self.log_format = value
        elif name == "debug":
            self.debug = value not in FALSE
        elif name == "version":
            self.version = True
        elif name in ("b", "bundle"):
            self.bundle = value

    def _read_bundle(self, words: "list[str]") -> None:
        at = 0
        while at < len(words) and words[at] != "--":
            name, value, given = flag(words[at])
            at += 1
            if name not in CREATE_VALUES:
                continue
            if not given:
                value = words[at] if at < len(words) else ""
                at += 1
            if name in ("b", "bundle"):
                self.bundle = value
                self.missing_bundle = not given and at > len(words)


def flag(word: str) -> "tuple[str, str, bool]":
    """(name, value, whether the word holds the value); the name is empty for a word that is no
    flag.
    """
    if not word.startswith("-"):
        return "", "", False
    name, equals, value = word.lstrip("-").partition("=")
    return name, value, bool(equals)


def takes_value(name: str, following: str) -> bool:
    """True if a global flag takes the next word. An unknown flag takes a word that can be neither
    flag nor command.
    """
    if name in GLOBAL_VALUES:
        return True
    if name in ("debug", "version", "v", "help", "h", "systemd-cgroup"):
        return False
    return bool(following) and not following.startswith("-") and following not in COMMANDS
