"""The command `tao` in a process of its own, without the time that its imports take: a server has
them, and forks for each call. What a call gets, does and leaves is its own, as if it had been
started anew. Not for a test of the start itself, of what is imported, or of the process's name.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

TESTS = Path(__file__).parents[1]
# what Python reads only when it starts
READ_AT_START = ("PYTHON", "LC_", "LANG", "MALLOC_")
AT_ONCE = 65536  # bytes of a read


def run_tao(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """Run `tao` with these arguments. Raises subprocess.TimeoutExpired."""
    out_reader, out_writer = os.pipe()
    err_reader, err_writer = os.pipe()
    answer_reader, answer_writer = os.pipe()
    with os.fdopen(os.memfd_create("request"), "w+b") as request:
        request.write(json.dumps([list(argv), str(cwd), dict(env)]).encode())
        request.seek(0)
        passed = [request.fileno(), 0, out_writer, err_writer, answer_writer]
        socket.send_fds(server(settings_at_start(env)), [b"run"], passed)
    for descriptor in (out_writer, err_writer, answer_writer):
        os.close(descriptor)
    with (
        os.fdopen(answer_reader, encoding="ascii") as answer,
        os.fdopen(out_reader, "rb", buffering=0) as out,
        os.fdopen(err_reader, "rb", buffering=0) as err,
    ):
        pid = int(answer.readline())
        try:
            printed = read_all((out, err), timeout)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(argv), timeout) from None
        code = os.waitstatus_to_exitcode(int(answer.readline()))
    return subprocess.CompletedProcess(list(argv), code, printed[0], printed[1])


def settings_at_start(env: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(pair for pair in env.items() if pair[0].startswith(READ_AT_START))


def read_all(pipes: Sequence[IO[bytes]], timeout: float) -> list[bytes]:
    """All that comes through the pipes until nobody writes to any. Raises TimeoutError."""
    deadline = time.monotonic() + timeout
    read = {pipe.fileno(): bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as open_pipes:
        for pipe in pipes:
            open_pipes.register(pipe, selectors.EVENT_READ)
        while open_pipes.get_map():
            ready = open_pipes.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, AT_ONCE)
                read[key.fd] += piece
                if not piece:
                    open_pipes.unregister(key.fd)
    return [bytes(text) for text in read.values()]


@functools.cache
def server(settings: frozenset[tuple[str, str]]) -> socket.socket:
    """This process's server for calls with these settings. It ends when this process does."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    text = f"import sys; sys.path.append({str(TESTS)!r}); from support.forked_tao import serve"
    with its:
        subprocess.Popen(
            [sys.executable, "-c", f"{text}; serve({its.fileno()})"],
            env={"PATH": os.environ["PATH"], **dict(settings)},
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return ours


def serve(descriptor: int) -> None:
    """The server's loop; in a process that it has forked, the command itself."""
    import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as calls:
        while True:
            _, passed, _, _ = socket.recv_fds(calls, 16, 5)
            if not passed:
                return
            if os.fork() == 0:
                break
            for each in passed:
                os.close(each)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    run_and_tell(passed)


def import_all() -> None:
    for package in ("cli", "client", "engine", "payload", "backends.local"):
        path = importlib.import_module(f"tao_sdk.{package}").__path__
        for module in pkgutil.walk_packages(path, f"tao_sdk.{package}."):
            importlib.import_module(module.name)


def run_and_tell(passed: Sequence[int]) -> None:
    """Fork once more: this process tells how the other one ended."""
    request, stdin, stdout, stderr, answer = passed
    pid = os.fork()
    if pid == 0:
        os.close(answer)
        run_here(request, (stdin, stdout, stderr))
    for each in (stdin, stdout, stderr):
        os.close(each)
    with os.fdopen(answer, "w", encoding="ascii") as told:
        print(pid, file=told, flush=True)
        _, status = os.waitpid(pid, 0)
        print(status, file=told)
    os._exit(0)


def run_here(request: int, streams: Sequence[int]) -> NoReturn:
    from tao_sdk.cli.main import main

    with os.fdopen(request, "rb") as asked:
        argv, cwd, env = json.load(asked)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding=sys.stdin.encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, sys.stderr.encoding, "backslashreplace", closefd=False)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = ["tao", *argv]
    main()
