"""Kept logs: copies of logs whose pods are about to go, as the API sent them, in files of ours.

Each line has its time before it, so that a cursor of the API's log goes on in the copy.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tao_sdk.backends.contract import LogChunk, LogRequest, MiB
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.pods.logs import (
    BLOCK,
    FAILURES,
    PAUSE,
    STAMP,
    Lines,
    Position,
    log_path,
)
from tao_sdk.backends.log_tail import find_tail_of_file
from tao_sdk.model.errors import TaoError
from tao_sdk.store.private_files import make_folders
from tao_sdk.transports.http_session import Answer
from tao_sdk.transports.kube import Kube

MOST = 64 * MiB  # of one copy
FULL = b"2026-01-01T00:00:00Z tao: the rest of this log was too long to be kept\n"


class KeptLogs:
    """The copies of one cluster's logs. `folder` is this backend's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, uid: str, rank: int) -> Path:
        return self.folder / f"{uid[:64]}-{rank}.log"

    def has(self, uid: str, rank: int) -> bool:
        return self.path(uid, rank).is_file()

    def begin(self, kube: Kube, namespace: str, pod: str, uid: str, rank: int) -> threading.Thread:
        """Follow a pod's log to its end, in a thread of its own."""
        make_folders(self.folder)
        path = self.path(uid, rank)
        thread = threading.Thread(
            target=copy_log, args=(kube, namespace, pod, path), name="tao-kept-log", daemon=True
        )
        thread.start()
        return thread

    def read(self, uid: str, rank: int, request: LogRequest) -> Iterator[LogChunk]:
        """From the cursor on, or the last lines."""
        position = Position.parse(request.cursor)
        lines, since = Lines(position), position.since.encode()
        for block in blocks_since(self.path(uid, rank), since, request.tail):
            if new := lines.feed(block):
                yield LogChunk(new, position.cursor)
        if new := lines.close():
            yield LogChunk(new, position.cursor)

    def forget(self, uid: str) -> None:
        for path in self.folder.glob(f"{uid[:64]}-*.log"):
            path.unlink(missing_ok=True)


def copy_log(kube: Kube, namespace: str, pod: str, path: Path) -> None:
    """Follow a pod's log into a file. Without an answer there is no file: an empty copy would say
    that the log was empty.
    """
    answer = open_log(kube, namespace, pod)
    if answer is None:
        return
    try:
        write_copy(answer.response, path)
    finally:
        answer.close()


def open_log(kube: Kube, namespace: str, pod: str) -> Answer | None:
    """The answer that follows a pod's log; None where each of a few questions is refused."""
    params = {"container": names.CONTAINER, "timestamps": "true", "follow": "true"}
    for _ in range(FAILURES):
        with suppress(TaoError):
            return kube.stream(log_path(namespace, pod), params, read=60.0)
        time.sleep(PAUSE)
    return None


def write_copy(response: Any, path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    broken = (OSError, HTTPException, ValueError)
    with os.fdopen(descriptor, "wb") as file, suppress(*broken):  # what has come is kept
        while (data := response.read1(BLOCK)) and file.tell() < MOST:
            file.write(data)
        if data:
            file.write(b"\n" + FULL)


def blocks_since(path: Path, since: bytes, tail: int | None) -> Iterator[bytes]:
    """The lines of a copy that were written at that second or later; of a tail the last ones."""
    with path.open("rb") as file:
        if tail is not None:
            file.seek(find_tail_of_file(file.fileno(), tail))
        for line in file:
            if line[:STAMP] >= since:
                yield line
