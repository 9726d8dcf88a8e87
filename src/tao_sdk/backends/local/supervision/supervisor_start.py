"""Starting supervisors: the client's end of the fork server.

A server handles one request at a time. Each of several parallel submits has its own server.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tao_sdk.transports.process import NotStarted

BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tao_sdk.backends.local.supervision.fork_server import main; sys.exit(main())"
)
SOURCE = Path(__file__).parents[4]  # the folder of the package
START_SECONDS = 30.0  # timeout; a supervisor is usually ready within 0.1 s


class ServerGone(Exception):
    """The server ended before it answered: it was idle for a while, or was killed."""


class SupervisorStart:
    """Starts supervisors for the jobs of one client.

    `home`, the folder of all jobs, is only for people: it shows in the list of processes.
    """

    def __init__(self, home: str) -> None:
        self.home = home
        self.owner = os.getpid()
        self.idle: list[ForkServer] = []

    def prepare_server(self) -> None:
        """Begin to start a server if none is idle. `start_supervisor` raises if that fails."""
        self.forget_parents_servers()
        if self.idle:
            return
        with suppress(NotStarted):
            self.idle.append(ForkServer(self.home))

    def start_supervisor(self, folder: str, message: bytes) -> None:
        """Start a supervisor for the attempt in `folder`, and wait until it is ready.

        Tries again with a new server if the server ended unexpectedly. This is safe: of two
        supervisors of one attempt, the first stays. Raises NotStarted, and TimeoutError if there is
        no answer within START_SECONDS.
        """
        try:
            self.ask_server(self.take_server(), folder, message)
        except ServerGone:
            self.ask_server(ForkServer(self.home), folder, message)

    def take_server(self) -> ForkServer:
        self.forget_parents_servers()
        try:
            return self.idle.pop()
        except IndexError:
            return ForkServer(self.home)

    def ask_server(self, server: ForkServer, folder: str, message: bytes) -> None:
        try:
            words = server.start_supervisor(folder, message)
        except BaseException:  # a late answer must not be taken for the next request's
            server.close()
            raise
        self.idle.append(server)
        if words:
            raise NotStarted(words)

    def forget_parents_servers(self) -> None:
        """Forget the servers after a fork of the client: they still belong to its parent."""
        if self.owner != os.getpid():
            self.owner, self.idle = os.getpid(), []

    def close(self) -> None:
        self.forget_parents_servers()
        while self.idle:
            self.idle.pop().close()


class ForkServer:
    """One server, from the start of its process. Raises NotStarted if it cannot start."""

    def __init__(self, home: str) -> None:
        argv = [sys.executable or "python3", "-I", "-S", "-c", BOOT, str(SOURCE), home]
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                argv,
                bufsize=0,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError as error:
            raise NotStarted(f"{argv[0]}: {error.strerror}") from error

    def start_supervisor(self, folder: str, message: bytes) -> str:
        """Return "" once the supervisor is ready, else the server's error text.

        Raises NotStarted, ServerGone and TimeoutError.
        """
        from tao_sdk.backends.local.supervision import fork_server

        assert self.process.stdin
        request = os.fsencode(folder) + fork_server.FOLDER_END + message
        try:
            fork_server.send_message(self.process.stdin.fileno(), request)
            return self.read_answer()
        except BrokenPipeError as error:
            raise self.explain_end() from error

    def read_answer(self) -> str:
        from tao_sdk.backends.local.supervision import fork_server

        assert self.process.stdout
        answers = self.process.stdout.fileno()
        answered = select.poll()
        answered.register(answers, select.POLLIN)
        if not answered.poll(START_SECONDS * 1000):
            raise TimeoutError(f"The supervisor was not ready after {START_SECONDS:.0f} s")
        words = fork_server.receive_message(answers)
        if words is None:
            raise self.explain_end()
        self.process.wait()  # reap the first process, which ended when the server was forked
        return words.decode("utf-8", "replace")

    def explain_end(self) -> Exception:
        """The error for a server that has ended: ServerGone if it had come up, else NotStarted.

        The exit code of the server's first process tells. The second one, which serves, is not our
        child.
        """
        assert self.process.stderr
        if self.process.wait() == 0:
            return ServerGone()
        words = self.process.stderr.read().decode("utf-8", "replace").strip()
        return NotStarted(words or f"it ended with {self.process.returncode}")

    def close(self) -> None:
        """Close the server's pipes, after which it ends."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()
        self.process.wait()
