"""The supervisor of one job: gets its GPUs, starts it, passes signals on, ends it in time, and
records how it ended.

It is a process of its own, which lives as long as the job. The fork server forks it when `submit`
asks. It needs nothing but its imports here, and no client: all its facts are in the job's folder.
Without pathlib, to start quickly.
"""
# ruff: noqa: PTH103, PTH106, PTH123

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import sys
import time

from tao_sdk.backends.local.job import gpu_line, gpu_locks, input_links
from tao_sdk.backends.local.job.folder import Folder, create_file, discard_file, take_lock
from tao_sdk.backends.local.supervision.orphans import (
    Awaited,
    exit_code_of,
)
from tao_sdk.backends.local.supervision.supervisor_message import SupervisorMessage
from tao_sdk.runner.signals import adopt_orphans
from tao_sdk.transports.process import (
    Identity,
    ask_to_end,
    find_departed,
    identify,
    kill,
    living_groups,
    signal_group,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

READY = b"."
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
BLOCKED = (*ENDING, signal.SIGCHLD, signal.SIGHUP, signal.SIGPIPE)
DEFAULTED = (*ENDING, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
TURN = 1.0  # seconds between looks at the folder while nothing happens
CLEARING, SLOWEST = 0.02, 0.2  # seconds between looks while the last processes of a job end
RETRY = 0.2  # seconds between tries to get GPUs; jitter comes on top
# extra seconds after the grace before the kill, at most a fifth of the grace: the runner ends the
# command after the same grace, and then records how it ended
SETTLING = 2.0
BLOCK = 4096  # bytes
HIGH = 200  # descriptors above those that shells use
SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh")


def supervise(path: str, message: bytes, tell: int) -> None:
    """Supervise the attempt in the folder `path` until it is over.

    Writes READY to `tell` and closes it once it supervises. Also writes READY if another supervisor
    has the attempt, or if it is already over. Raises ValueError for an incomplete message, OSError
    if it cannot begin.
    """
    request = SupervisorMessage.decode(message)
    if request is None:
        raise ValueError("the message to the supervisor was cut short")
    folder = Folder(path)
    lock = take_charge(folder)
    if lock is None:
        os.write(tell, READY)
        return
    Supervisor(folder, request, lock).run(tell)


def take_charge(folder: Folder) -> int | None:
    """Take the folder's lock. None if the attempt needs no supervisor.

    Waits for the lock, because a process that only looks also holds it for a moment.
    """
    while True:
        lock = take_lock(folder.file_path("lock"))
        if folder.has_file("exit") or folder.has_file("process"):
            return None
        supervisor = folder.read_identity("supervisor")
        if lock is not None or (supervisor and supervisor.alive):
            return lock
        time.sleep(CLEARING)


class Supervisor:
    """Supervises one attempt, from the folder's lock to the exit record."""

    def __init__(self, folder: Folder, request: SupervisorMessage, lock: int) -> None:
        self.folder, self.request, self.lock = folder, request, lock
        self.gpus: dict[str, int] = {}
        self.leader: Identity | None = None
        self.ended_by = ""  # why it is to end: "cancel", "time_limit" or "signal"; "" if not
        self.over = False  # the job's first process has ended
        self.departed: dict[
            int, Identity
        ] = {}  # the job's children in sessions of their own, searched once it is to end
        self.awaited: Awaited | None = None  # set once the job is to end
        self.limit_at = self.kill_at = float("inf")
        self.grace = request.grace  # seconds from SIGTERM to SIGKILL
        self.started = 0.0
        self.log_cut = False  # the disk had no space for its log
        self.kill_counter, self.oom_kills = find_kill_counter()

    def run(self, tell: int) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        self.folder.put_file("supervisor", str(identify(os.getpid())))
        detach(self.folder)
        ticket = self.take_ticket()  # before the next job can be submitted
        os.write(tell, READY)
        os.close(tell)
        if not self.get_gpus(ticket):
            return self.finish(None, 0)
        trouble = input_links.find_trouble(self.folder) or self.start()
        if trouble:
            return self.finish(127, 0, trouble)
        self.watch()
        self.clear()
        return self.finish(*self.reap())

    def take_ticket(self) -> gpu_line.Ticket | None:
        """Enter the line of jobs that wait for GPUs. None for a job that needs no GPU."""
        request = self.request
        if not request.gpu_count:
            return None
        return gpu_line.Ticket(request.locks, request.gpus, request.job)

    def get_gpus(self, ticket: gpu_line.Ticket | None) -> bool:
        """Wait for all GPUs of the job. False if the job is to end instead."""
        try:
            return self.wait_for_gpus(ticket)
        finally:
            if ticket:
                ticket.give_back()

    def wait_for_gpus(self, ticket: gpu_line.Ticket | None) -> bool:
        said = ""
        while True:
            self.hear(0)
            if self.ended_by:
                return False
            waits = self.try_gpus(ticket) if ticket else ""
            if not waits:
                return True
            if waits != said:
                self.say(waits)
                said = waits
            self.hear(RETRY * (1 + os.urandom(1)[0] / 256))

    def try_gpus(self, ticket: gpu_line.Ticket) -> str:
        """Try to take all GPUs that the job needs. Returns "", or what the job waits for."""
        count = self.request.gpu_count
        allowed, ahead = ticket.allowed_gpus(self.request.gpus, count)
        if len(allowed) < count:
            return waiting_for(count, f"after {', '.join(ahead)}, which waits longer")
        try:
            self.gpus, holders = gpu_locks.take_all(
                self.request.locks, allowed, count, self.request.job
            )
        except OSError as error:
            holders = [f"{error.filename}: {error.strerror}"]
        if len(self.gpus) == count:
            return ""
        return waiting_for(count, f"held by {', '.join(dict.fromkeys(holders))}")

    def say(self, waits: str) -> None:
        try:
            self.folder.put_file("waiting", waits)
        except OSError as error:  # a full disk must not end a job that only waits
            print(f"{error.filename}: {error.strerror}", file=sys.stderr)

    def start(self) -> str:
        """Start the job. Returns "" once its program runs, else the error."""
        said, say = os.pipe()
        self.started = time.time()
        pid = os.fork()
        if pid == 0:
            os.close(said)
            become_the_job(self.folder, self.request, self.gpus, self.lock, say)
        os.close(say)
        self.leader = identify(pid)
        if self.request.time_limit:
            self.limit_at = time.monotonic() + self.request.time_limit
        return self.read(said).decode("utf-8", "replace")

    def read(self, pipe: int) -> bytes:
        """Read the pipe to its end.

        This may take long, because a folder of the job may lie on a file system that hangs.
        """
        words = b""
        while True:
            while not select.select([pipe], [], [], SLOWEST)[0]:
                self.turn(0)
            more = os.read(pipe, BLOCK)
            if not more:
                os.close(pipe)
                return words
            words += more

    def watch(self) -> None:
        """Wait until the job's first process has ended.

        The process is not reaped yet, so that no other process can get its id.
        """
        while not self.exited():
            self.turn(TURN)
        self.over = True

    def exited(self) -> bool:
        assert self.leader
        return (
            os.waitid(os.P_PID, self.leader.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        )

    def clear(self) -> None:
        """End the processes that the job left running, within the rest of its grace."""
        assert self.leader
        left = living_groups(self.leader)
        for group in left - ({self.leader.pid} if self.ended_by else set()):
            signal_group(group, signal.SIGTERM)
        for one in self.departed.values():
            ask_to_end(one)
        self.kill_at = min(self.kill_at, time.monotonic() + self.grace)
        pause = CLEARING
        while left or any(one.alive for one in self.departed.values()):
            self.turn(pause)
            pause = min(pause * 1.5, SLOWEST)
            left = living_groups(self.leader)

    def turn(self, seconds: float) -> None:
        """Wait for a signal or a deadline, at most `seconds`, and act on it."""
        assert self.leader
        now = time.monotonic()
        self.hear(max(0.0, min(seconds, self.limit_at - now, self.kill_at - now)))
        now = time.monotonic()
        if now >= self.limit_at and not self.over:
            self.limit_at = float("inf")
            self.end("time_limit", self.request.grace)
        if now >= self.kill_at:
            self.kill_at = now + SLOWEST
            for one in (self.leader, *self.departed.values()):
                kill(one)
        elif self.ended_by and not self.over:
            self.look_for_departed()
        self.log_cut = self.log_cut or is_full(self.folder.path)

    def hear(self, seconds: float) -> None:
        """Wait for a signal, at most `seconds`, and end the job if it was canceled or told to."""
        heard = signal.sigtimedwait((*ENDING, signal.SIGCHLD), seconds)
        asked = heard is not None and heard.si_signo in ENDING
        if self.folder.has_file("cancel") and (asked or self.ended_by != "cancel"):
            self.end("cancel", float(self.folder.read_text("cancel") or self.request.grace))
        elif asked:
            self.end("signal", self.request.grace)

    def end(self, why: str, grace: float) -> None:
        """Begin to end the job. The first reason stays. A later one can only shorten the grace."""
        settling = min(SETTLING, grace / 5)
        self.kill_at = min(self.kill_at, time.monotonic() + grace + settling)
        if self.leader and self.exited():
            self.over = True
        if self.ended_by or self.over:
            return
        self.ended_by, self.grace = why, grace
        if self.leader:
            self.look_for_departed()
            self.awaited = Awaited(self.leader)
            adopt_orphans()
            ask_to_end(self.leader)

    def look_for_departed(self) -> None:
        """Find the job's children in sessions of their own.

        This only works while their parents live: afterwards nothing shows which job they belong to.
        """
        assert self.leader
        self.departed.update({one.pid: one for one in find_departed(self.leader)})

    def reap(self) -> tuple[int, int]:
        """Return (exit code, signal) of the job's first process or a program that outlived it."""
        assert self.leader
        status = os.waitpid(self.leader.pid, 0)[1]
        outliving_code = self.outliving_code(status)
        if outliving_code is not None:
            return outliving_code, 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return exit_code_of(status), number

    def outliving_code(self, status: int) -> int | None:
        """The exit code of the program that a shell waited for, if SIGTERM ended the shell alone.

        Else None. Also None for a 0 after a signal from outside: the job would become Complete,
        although its shell may not have run all its commands.
        """
        if self.awaited is None or not self.awaited.shell_died(status):
            return None
        code = self.awaited.exit_code()
        if code == 0 and self.ended_by == "signal":
            return None
        return code

    def new_oom_kills(self) -> int:
        """The number of processes that the kernel has killed for lack of memory since the start."""
        count = count_oom_kills(self.kill_counter) or 0
        return max(0, count - self.oom_kills)

    def finish(self, exit_code: int | None, number: int, trouble: str = "") -> None:
        """Free the GPUs, then write the exit record."""
        gpu_locks.release_locks(self.gpus)
        remove_links(self.folder)
        remove_empty(self.request.results)
        log_cut = self.log_cut or (bool(self.started) and is_full(self.folder.path))
        self.folder.record_exit(
            {
                "exit_code": exit_code,
                "signal": number,
                "canceled": self.ended_by == "cancel",
                "time_limit": self.request.time_limit if self.ended_by == "time_limit" else 0,
                "told_to_end": self.ended_by == "signal",
                "trouble": trouble,
                "oom_kills": self.new_oom_kills(),
                "started": self.started or None,
                "ended": time.time(),
                "log_cut": log_cut,
            }
        )
        fcntl.flock(self.lock, fcntl.LOCK_UN)


def waiting_for(count: int, why: str) -> str:
    """`waits for 2 free GPUs (held by a, b)`."""
    gpus = "1 free GPU" if count == 1 else f"{count} free GPUs"
    return f"waits for {gpus} ({why})"


def make(results: str) -> None:
    """Make the results folder before the command starts.

    If that fails, the job still starts: only a command that writes there will fail.
    """
    try:
        os.makedirs(results, exist_ok=True)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)


def remove_links(folder: Folder) -> None:
    """Remove the links that were made for the job's inputs. If it fails, a later look does it."""
    try:
        input_links.release_links(*os.path.split(folder.path))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)


def remove_empty(results: str) -> None:
    try:  # noqa: SIM105  contextlib takes 4 ms to import
        os.rmdir(results)
    except OSError:
        pass


def detach(folder: Folder) -> None:
    """Detach from the client: replace its standard streams. Errors go to the file `trouble`."""
    null = os.open(os.devnull, os.O_RDWR)
    trouble = os.open(folder.file_path("trouble"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for fd, target in ((null, 0), (null, 1), (trouble, 2)):
        os.dup2(fd, target)


def become_the_job(
    folder: Folder, request: SupervisorMessage, gpus: dict[str, int], lock: int, say: int
) -> None:
    """In the child: become the command.

    An error goes through the pipe `say`. Without an error, the pipe closes empty.
    """
    try:
        os.setsid()
        for number in DEFAULTED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # from here on it can be asked to end
        folder.put_file("process", str(identify(os.getpid())))
        environment = {**request.environment, **visible(request, gpus)}
        os.chdir(request.cwd)
        make(request.results)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(folder.file_path("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        keep_open([lock, *gpus.values()])
        shell = next((path for path in SHELLS if os.access(path, os.X_OK)), SHELLS[-1])
        os.execve(shell, [shell, folder.file_path("command")], environment)
    except OSError as error:
        os.write(say, f"{error.filename or ''}: {error.strerror}".removeprefix(": ").encode())
    os._exit(127)


def visible(request: SupervisorMessage, gpus: dict[str, int]) -> dict[bytes, bytes]:
    """CUDA_VISIBLE_DEVICES with the locked GPUs (`index:uuid`). Empty if the job needs no GPU."""
    indexes = [name.partition(":")[0] for name in gpus]
    return {b"CUDA_VISIBLE_DEVICES": ",".join(indexes).encode()} if request.gpu_count else {}


def keep_open(locks: Sequence[int]) -> None:
    """Let the job hold the locks too.

    If its supervisor is killed, the locks stay until the job has ended.
    """
    for fd in locks:
        fcntl.fcntl(fd, fcntl.F_DUPFD, HIGH)


def is_full(folder: str) -> bool:
    """True if the disk of a folder has no space left for us.

    The free space alone does not tell: some users may still write when others may not. So this
    tries to write a file.
    """
    probe = f"{folder}/.room"
    try:
        if os.statvfs(folder).f_bavail:
            return False
        try:
            create_file(probe, b"." * BLOCK)
        finally:
            discard_file(probe)
    except OSError as error:  # a folder that is gone, for one: the job goes on
        return error.errno == errno.ENOSPC
    return False


def find_kill_counter() -> tuple[str, int]:
    """Return (the file that counts the kernel's kills for lack of memory, the current count).

    It is the file of this process's control group, or of the whole machine if the group has none.
    ("", 0) if neither has one.
    """
    try:
        with open("/proc/self/cgroup") as file:
            groups = file.read()
    except OSError:
        groups = ""
    for path in (*memory_counters(groups), "/proc/vmstat"):
        count = count_oom_kills(path)
        if count is not None:
            return path, count
    return "", 0


def memory_counters(groups: str) -> list[str]:
    """The counter files for the groups in /proc/self/cgroup: version 2 first, then version 1."""
    counters: dict[int, str] = {}
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            counters[2] = f"/sys/fs/cgroup{path.rstrip('/')}/memory.events"
        if "memory" in controllers.split(","):
            counters[1] = f"/sys/fs/cgroup/memory{path.rstrip('/')}/memory.oom_control"
    return [counters[version] for version in (2, 1) if version in counters]


def count_oom_kills(path: str) -> int | None:
    """The number after `oom_kill` in a kernel file; None if it has none."""
    try:
        with open(path) as file:
            words = [line.split() for line in file]
    except OSError:
        return None
    return next((int(line[1]) for line in words if line[:1] == ["oom_kill"]), None)
