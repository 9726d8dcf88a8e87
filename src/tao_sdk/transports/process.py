"""Processes of this machine: start them apart from this process, name them so that a reused id is
never mistaken, look at them, signal them.

Light on purpose: the supervisor of a local job imports this, and every import is time a submit
takes; hence no pathlib either. Linux only.
"""

# ruff: noqa: PTH115, PTH116, PTH123, PTH208

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

# a zombie has ended: whether its parent reaps it is not its business
GONE = frozenset({"", "Z", "X"})
STOPPED = frozenset({"T", "t"})
# fields of /proc/<pid>/stat, counted from the state
_START, _SESSION, _GROUP, _PARENT = 19, 3, 2, 1


class Identity:
    """The lasting identity of a process: its id, its start time, and its boot and pid namespace.
    The kernel uses ids again.
    """

    def __init__(self, pid: int, start: str, boot: str, space: str) -> None:
        self.pid, self.start, self.boot, self.space = pid, start, boot, space

    def __str__(self) -> str:
        return f"{self.pid} {self.start} {self.boot} {self.space}"

    @classmethod
    def parse(cls, text: str) -> Identity | None:
        """Read the identity that `str` wrote; None for a record that was cut short."""
        parts = text.split()
        return cls(int(parts[0]), *parts[1:]) if len(parts) == 4 and parts[0].isdigit() else None

    @property
    def this_boot(self) -> bool:
        """True if the machine has not rebooted since."""
        return self.boot == boot_id()

    @property
    def this_space(self) -> bool:
        """True if the process is of this boot of the machine and this pid namespace."""
        return self.this_boot and self.space == space_id()

    @property
    def state(self) -> str:
        """The kernel's letter for its state; "" once there is no such process."""
        stat = _read_stat(self.pid) if self.this_space else []
        return stat[0] if stat and stat[_START] == self.start else ""

    @property
    def alive(self) -> bool:
        """True if the process lives: a zombie does not."""
        return self.state not in GONE


def identify(pid: int) -> Identity | None:
    """The identity of a process; None if there is none of that id."""
    stat = _read_stat(pid)
    return Identity(pid, stat[_START], boot_id(), space_id()) if stat else None


_here: dict[str, str] = {}  # values that cannot change while this process runs


def boot_id() -> str:
    """A text that differs after every boot of the machine."""
    if "boot" not in _here:
        with open("/proc/sys/kernel/random/boot_id") as file:
            _here["boot"] = file.read().strip()
    return _here["boot"]


def space_id() -> str:
    """The pid namespace. Inside a container, ids mean other processes than outside."""
    if "space" not in _here:
        _here["space"] = str(os.stat("/proc/self/ns/pid").st_ino)
    return _here["space"]


def list_sessions() -> dict[int, list[int]]:
    """Session -> process group of each living member, for all sessions there are: one pass over
    /proc.
    """
    found: dict[int, list[int]] = {}
    for stat in _living_stats(_all_processes()).values():
        found.setdefault(int(stat[_SESSION]), []).append(int(stat[_GROUP]))
    return found


def list_living() -> Iterable[tuple[int, str, int]]:
    """The (process, state, parent) of all living processes: one pass over /proc."""
    for pid, stat in _living_stats(_all_processes()).items():
        yield pid, stat[0], int(stat[_PARENT])


def find_departed(leader: Identity, thorough: bool = False) -> list[Identity]:
    """The living children of the leader's session, and their children, that have a session of their
    own.

    The kernel's list of children may lack one while another ends (proc_pid_children(5)). `thorough`
    asks every process of the machine instead.
    """
    if not leader.this_space or _is_someone_else(leader):
        return []
    look_up = _children_of_all if thorough else find_children
    members = _session_members(leader.pid)
    family = members
    while more := look_up(family) - family:
        family = family | more
    living = _living_stats(family - members)
    return [Identity(pid, stat[_START], boot_id(), space_id()) for pid, stat in living.items()]


def _session_members(session: int) -> set[int]:
    """The processes of a session, by one system call for each process of the machine."""
    return {pid for pid in _all_processes() if _session_of(pid) == session}


def running_one_of(leader: Identity, programs: Container[str]) -> set[int]:
    """The processes of the leader's session whose program has one of these names."""
    return {pid for pid in _session_members(leader.pid) if _program_of(pid) in programs}


def _program_of(pid: int) -> str:
    """The file name of a process's program; "" if it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/exe").rpartition("/")[2]
    except OSError:
        return ""


def _session_of(pid: int) -> int:
    """The session of a process; 0 once there is no such process."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def find_children(parents: set[int]) -> set[int]:
    """The children of those processes, from the kernel's list if there is one."""
    if not os.path.exists(_children_file(os.getpid(), os.getpid())):  # noqa: PTH110
        return _children_of_all(parents)
    return {child for parent in parents for child in _listed_children(parent)}


def _children_of_all(parents: set[int]) -> set[int]:
    """The children of those processes, found by the parent of every process of the machine."""
    everyone = _living_stats(_all_processes())
    return {pid for pid, stat in everyone.items() if int(stat[_PARENT]) in parents}


def _listed_children(parent: int) -> list[int]:
    """The children in the kernel's lists: each thread has its own list."""
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{parent}/task"):
            with open(_children_file(parent, int(thread)), "rb") as file:
                children += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        pass
    return children


def _children_file(pid: int, thread: int) -> str:
    return f"/proc/{pid}/task/{thread}/children"


def _all_processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _living_stats(processes: Iterable[int]) -> dict[int, list[str]]:
    """Process -> its fields, for the living ones."""
    found = {pid: _read_stat(pid) for pid in processes}
    return {pid: stat for pid, stat in found.items() if stat and stat[0] not in GONE}


def living_groups(leader: Identity) -> set[int]:
    """The living process groups of the session that `leader` began. The leader itself may be
    gone.
    """
    if not leader.this_space or _is_someone_else(leader):
        return set()
    return {int(stat[_GROUP]) for stat in _living_stats(_session_members(leader.pid)).values()}


def _is_someone_else(leader: Identity) -> bool:
    stat = _read_stat(leader.pid)
    return bool(stat) and stat[_START] != leader.start


def signal_process(one: Identity, number: int) -> None:
    """Signal one process. One that is gone by now is no error."""
    try:
        if one.alive:
            os.kill(one.pid, number)
    except ProcessLookupError:
        return


def signal_group(group: int, number: int) -> None:
    """Signal a whole process group. An empty one is no error."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def ask_to_end(leader: Identity) -> None:
    """Send SIGTERM to the leader's group, which passes it on as it sees fit. Once the leader is
    gone, send it to every group.

    While the leader has not begun its group yet, send it to the leader alone.
    """
    if leader.alive and not _leads_a_group(leader):
        signal_process(leader, signal.SIGTERM)
        signal_process(leader, signal.SIGCONT)
        return
    everywhere = living_groups(leader)
    for group in {leader.pid} if leader.alive else everywhere:
        signal_group(group, signal.SIGTERM)
    for group in everywhere:  # a stopped process hears nothing
        signal_group(group, signal.SIGCONT)


def kill(leader: Identity) -> None:
    """Send SIGKILL to every process group of the session, to its children elsewhere, and to the
    leader. The leader may not have begun the session.
    """
    apart = find_departed(leader, thorough=True)
    for group in living_groups(leader):
        signal_group(group, signal.SIGKILL)
    for one in (*apart, leader):
        signal_process(one, signal.SIGKILL)


def _leads_a_group(leader: Identity) -> bool:
    stat = _read_stat(leader.pid)
    return bool(stat) and int(stat[_GROUP]) == leader.pid


def _read_stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat after the name, which may hold anything; empty when there is
    no such process.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].decode("ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return []


class NotStarted(Exception):
    """A process could not be started, or ended before it was ready. The text is its output."""


def start_apart(argv: Sequence[str], given: bytes, env: Mapping[str, str]) -> None:
    """Run a program in a session of its own, with `given` on its standard input, and leave it
    running. Raises NotStarted.
    """
    import subprocess

    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=nothing,
            stderr=nothing,
            cwd="/",
            env=dict(env),
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(given)
    except OSError as error:
        raise NotStarted(f"{argv[0]}: {error.strerror}") from error


def output(argv: Sequence[str], env: Mapping[str, str], seconds: float) -> str:
    """The standard output of a program. The program is ended after `seconds`. Raises NotStarted
    with its output when it fails.
    """
    import subprocess

    try:
        done = subprocess.run(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except OSError as error:
        raise NotStarted(f"{argv[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise NotStarted(f"{argv[0]} did not answer within {seconds:.0f} s") from error
    if done.returncode:
        said: Iterable[bytes] = (done.stderr, done.stdout)
        words = b" ".join(said).decode("utf-8", "replace").strip()
        raise NotStarted(f"{argv[0]}: {words or f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", "replace")
