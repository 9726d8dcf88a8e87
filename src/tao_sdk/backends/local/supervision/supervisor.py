"""The supervisor of one job: gets its GPUs, starts it, passes signals on, ends it in time, and
records how it ended.

A process of its own, forked by the fork server that `submit` asks; it needs nothing but what it
imports here and lives as long as the job. Nobody has to be there for it: what it knows is in the
job's folder. Without pathlib, to start quickly.
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
TURN = 1.0  # seconds between looks at the folder when nothing happens
CLEARING, SLOWEST = 0.02, 0.2  # between looks while the last processes of a job are going away
RETRY = 0.2  # between tries to get GPUs; jitter comes on top
# more than the runner has, which ends the command after the same grace and then notes how it went;
# at most a fifth of the grace
SETTLING = 2.0
BLOCK = 4096  # bytes
HIGH = 200  # descriptors above those that shells use
SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh")


def supervise(path: str, message: bytes, tell: int) -> None:
    """Take charge of the attempt in the folder `path`, until it is over.

    Writes READY to `tell` and closes it, once it has begun to; also when another has the attempt,
    or it is over already. Raises ValueError for half a message, OSError when it cannot begin.
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
    """The folder's lock; None when the attempt needs nobody. One who only looks has the lock for a
    moment, too.
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
    """From having the folder's lock to the exit record."""

    def __init__(self, folder: Folder, request: SupervisorMessage, lock: int) -> None:
        self.folder, self.request, self.lock = folder, request, lock
        self.gpus: dict[str, int] = {}
        self.leader: Identity | None = None
        self.ended_by = ""  # "cancel", "time_limit" or "signal": why it was ended, if it was
        self.over = False  # the job's first process has ended
        self.departed: dict[
            int, Identity
        ] = {}  # the job's children in sessions of their own, seen since it is to end
        self.awaited: Awaited | None = None  # once the job is to end
        self.limit_at = self.kill_at = float("inf")
        self.grace = request.grace  # seconds from being asked to end until it is killed
        self.started = 0.0
        self.log_cut = False  # the disk had no room for its log
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
        """The job's place among those that wait for GPUs; None for a job that needs none."""
        request = self.request
        if not request.gpu_count:
            return None
        return gpu_line.Ticket(request.locks, request.gpus, request.job)

    def get_gpus(self, ticket: gpu_line.Ticket | None) -> bool:
        """Wait for all of them. False when it was told to end instead."""
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
        """Take all GPUs that the job needs; what it waits for, or "" once it has them."""
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
        """Start the job; what went wrong, or "" once its program runs."""
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
        """All that comes through it. That may take long: a folder of the job may lie on a file
        system that hangs.
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
        """Until the job's first process has ended. It is not reaped yet, so its id cannot become
        another's.
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
        """End what the job left running, with the grace that it still has."""
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
        """Wait for a signal or a deadline, and do what it asks for."""
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
        """Wait for a signal, and see whether the job is to be ended."""
        heard = signal.sigtimedwait((*ENDING, signal.SIGCHLD), seconds)
        asked = heard is not None and heard.si_signo in ENDING
        if self.folder.has_file("cancel") and (asked or self.ended_by != "cancel"):
            self.end("cancel", float(self.folder.read_text("cancel") or self.request.grace))
        elif asked:
            self.end("signal", self.request.grace)

    def end(self, why: str, grace: float) -> None:
        """Begin to end the job. The first reason stays; a later one can only make it shorter."""
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
        """While their parents live: afterwards nothing tells whose they are."""
        assert self.leader
        self.departed.update({one.pid: one for one in find_departed(self.leader)})

    def reap(self) -> tuple[int, int]:
        """(exit code, signal) of the job's first process, or of the program that outlived it."""
        assert self.leader
        status = os.waitpid(self.leader.pid, 0)[1]
        outliving_code = self.outliving_code(status)
        if outliving_code is not None:
            return outliving_code, 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return exit_code_of(status), number

    def outliving_code(self, status: int) -> int | None:
        """The exit code of what a shell waited for, if SIGTERM ended the shell alone; else None.

        A 0 counts only for a job that is not Complete by it: commands that the shell never ran
        would count as done.
        """
        if self.awaited is None or not self.awaited.shell_died(status):
            return None
        code = self.awaited.exit_code()
        if code == 0 and self.ended_by == "signal":
            return None
        return code

    def new_oom_kills(self) -> int:
        """How often the kernel has ended a process for want of memory since the start."""
        count = count_oom_kills(self.kill_counter) or 0
        return max(0, count - self.oom_kills)

    def finish(self, exit_code: int | None, number: int, trouble: str = "") -> None:
        """Free the GPUs, then say that it is over."""
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
    """The place for results is there when the command starts; where that cannot be, only who writes
    there will fail.
    """
    try:
        os.makedirs(results, exist_ok=True)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)


def remove_links(folder: Folder) -> None:
    """The links that were made for the job's inputs. What fails here a later look does."""
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
    """Let go of the client: nothing of it is read or written any more."""
    null = os.open(os.devnull, os.O_RDWR)
    trouble = os.open(folder.file_path("trouble"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for fd, target in ((null, 0), (null, 1), (trouble, 2)):
        os.dup2(fd, target)


def become_the_job(
    folder: Folder, request: SupervisorMessage, gpus: dict[str, int], lock: int, say: int
) -> None:
    """In the child: turn into the command. What cannot be done is said through the pipe, which else
    closes empty.
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
    """Which GPUs the job sees: those whose locks it got, as `index:uuid`; nothing to say when none
    were asked for.
    """
    indexes = [name.partition(":")[0] for name in gpus]
    return {b"CUDA_VISIBLE_DEVICES": ",".join(indexes).encode()} if request.gpu_count else {}


def keep_open(locks: Sequence[int]) -> None:
    """The job holds the locks too: should its supervisor be killed, they stay until
    it has ended.
    """
    for fd in locks:
        fcntl.fcntl(fd, fcntl.F_DUPFD, HIGH)


def is_full(folder: str) -> bool:
    """Whether nothing can be written there. Some may write where others may not any more, hence the
    try.
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
    """The file that counts how often the kernel ends a process for want of memory, and the count.

    It is that of the control group of this process, or of the whole machine where the group does
    not tell.
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
    """The files that count for the groups of /proc/self/cgroup: of version 2, else of version 1."""
    counters: dict[int, str] = {}
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            counters[2] = f"/sys/fs/cgroup{path.rstrip('/')}/memory.events"
        if "memory" in controllers.split(","):
            counters[1] = f"/sys/fs/cgroup/memory{path.rstrip('/')}/memory.oom_control"
    return [counters[version] for version in (2, 1) if version in counters]


def count_oom_kills(path: str) -> int | None:
    """The number behind `oom_kill` in a file of the kernel; None where it has none."""
    try:
        with open(path) as file:
            words = [line.split() for line in file]
    except OSError:
        return None
    return next((int(line[1]) for line in words if line[:1] == ["oom_kill"]), None)
