"""A replica of the stand-in workspace: processes in namespaces of their own, and their collected log.

It has the process, mount and name spaces of a container, and the files of this machine instead of an image.
Without root there is none.
"""

from __future__ import annotations

import json
import os
import random
import signal
import string
import subprocess
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BLOCK = 64 * 1024
SUFFIX = string.ascii_lowercase + string.digits
# What a container runtime does before the command: a hosts file, and volumes in their places.
PREPARE = r"""
mount --bind "$1/hosts" /etc/hosts && hostname "$2" && mount -t tmpfs none /mnt || exit 125
while read -r source target; do
  mkdir -p "$target" && mount --bind "$source" "$target" || exit 125
done <"$1/volumes"
touch "$1/ready"
exec {out}>&"$3" {err}>&"$4"
shift 4
exec setsid "$@" >&"$out" 2>&"$err"
"""


def random_suffix(length: int) -> str:
    return "".join(random.choice(SUFFIX) for _ in range(length))


@dataclass(frozen=True)
class Mounted:
    """A folder of this machine that stands for a volume, at a path of the replica."""

    folder: Path
    target: str


class LogFile:
    """The lines that were collected of one replica, each with its time in nanoseconds.

    Lines that were read together have one time. A line shows `lag` seconds after its time.
    """

    def __init__(self, path: Path, lag: float) -> None:
        self.file = path.open("w+b", buffering=0)
        self.lag_ns = int(lag * 1e9)
        self.times, self.ends = array("Q"), array("Q")
        self.lock = threading.Lock()

    def append(self, lines: Sequence[bytes]) -> None:
        with self.lock:
            now = max(time.time_ns(), self.times[-1] if self.times else 0)
            end = self.ends[-1] if self.ends else 0
            self.file.write(b"".join(lines))
            for line in lines:
                end += len(line)
                self.times.append(now)
                self.ends.append(end)

    def page(
        self, start: int, end: int, limit: int, forward: bool, words: str
    ) -> list[tuple[int, str]]:
        """At most `limit` lines of [start, end), the newest first unless `forward`."""
        with self.lock:
            first = bisect_left(self.times, start)
            last = min(
                bisect_left(self.times, end), bisect_right(self.times, time.time_ns() - self.lag_ns)
            )
        found: list[tuple[int, str]] = []
        step = 1 if forward else -1
        at = first if forward else last - 1
        while first <= at < last and len(found) < limit:
            block = (
                range(at, min(last, at + 500)) if forward else range(max(first, at - 499), at + 1)
            )
            texts = self.texts(block.start, block.stop)
            pairs = [(self.times[number], text) for number, text in zip(block, texts, strict=True)]
            found += [pair for pair in pairs[::step] if words in pair[1]]
            at = block.stop if forward else block.start - 1
        return found[:limit]

    def texts(self, first: int, last: int) -> list[str]:
        """The lines, as a collector of texts has them: what is no UTF-8 becomes U+FFFD."""
        begin = self.ends[first - 1] if first else 0
        data = os.pread(self.file.fileno(), self.ends[last - 1] - begin, begin)
        ends = [self.ends[number] - begin for number in range(first, last)]
        begins = [0, *ends[:-1]]
        return [
            data[start:stop].decode("utf-8", "replace")
            for start, stop in zip(begins, ends, strict=True)
        ]

    def close(self) -> None:
        self.file.close()


class Replica:
    """One replica that runs. `begin` starts it; it is over once its first process has ended."""

    def __init__(self, job_id: str, index: int, folder: Path, lag: float) -> None:
        self.id = f"{job_id}-{index}-{random_suffix(5)}"
        self.host = f"worker-{index}"
        self.folder = folder / self.id
        self.folder.mkdir(parents=True)
        self.log = LogFile(self.folder / "log", lag)
        self.node = ""
        self.issue: dict[str, str] = {"reason": "InProgress", "message": "Pulling image"}
        self.was_lost = False
        self.process: subprocess.Popen[bytes] | None = None
        self._collectors: list[threading.Thread] = []

    def begin(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        hosts: Mapping[str, str],
        mounts: Sequence[Mounted],
    ) -> None:
        names = "".join(f"{address} {name}\n" for name, address in hosts.items())
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
        (self.folder / "volumes").write_text(
            "".join(f"{mount.folder} {mount.target}\n" for mount in mounts)
        )
        apart = ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
        readers, writers = zip(os.pipe(), os.pipe(), strict=True)
        prepare = ["/bin/bash", "-c", PREPARE, "prepare", str(self.folder), self.host]
        self.process = subprocess.Popen(
            [*apart, *prepare, *map(str, writers), *command],
            env=dict(environ),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=writers,
            start_new_session=True,
        )
        for writer in writers:
            os.close(writer)
        self.issue = {"reason": "Ready", "message": ""}
        for reader in readers:
            thread = threading.Thread(target=self._collect, args=(reader,), daemon=True)
            thread.start()
            self._collectors.append(thread)

    def _collect(self, stream: int) -> None:
        """A collector has lines: one without its end is not shown before the container has ended."""
        rest = b""
        while data := os.read(stream, BLOCK):
            *lines, rest = (rest + data).split(b"\n")
            if lines:
                self.log.append(lines)
        if rest:
            self.log.append([rest])
        os.close(stream)

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or was not begun."""
        return self.process.poll() if self.process else None

    def first_process(self) -> int | None:
        assert self.process is not None
        pid = self.process.pid
        with suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return int(children[0]) if children else None
        return None

    def signal(self, number: int) -> None:
        pid = self.first_process()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def lose(self) -> None:
        """Its node is lost, and all that ran on it."""
        self.was_lost = True
        self.signal(signal.SIGKILL)

    def end(self, grace: float) -> None:
        """SIGTERM to the first process, and SIGKILL after the grace."""
        if self.process is None:
            return
        while not (self.folder / "ready").exists() and self.process.poll() is None:
            time.sleep(0.01)  # a runtime signals no container that it has not started
        self.signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(grace)
        while self.process.poll() is None:
            self.signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
        self.finish()

    def finish(self) -> None:
        for thread in self._collectors:
            thread.join()

    def to_json(self) -> dict[str, object]:
        node = {"id": self.node, "name": self.node} if self.node else None
        status = {"public_ip": "", "node": node, "readiness_issue": self.issue, "domains": []}
        return {"id": self.id, "metadata": {"id": self.id, "name": self.id}, "status": status}

    def __repr__(self) -> str:
        return json.dumps(self.to_json())
