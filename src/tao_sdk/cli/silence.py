"""SilenceNotes: a note, on a terminal that follows a log, that the job is silent, and not the
command.

Not here: the log itself (logs.py). A note goes to stderr, so it never is in a log that is kept.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from tao_sdk.cli import show
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Job
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client

SILENT_SECONDS = 5.0


class SilenceNotes:
    """A note after SILENT_SECONDS without a byte, once for each silence."""

    def __init__(self, client: Client, out: Output, job_id: str) -> None:
        self._client, self._out, self._job_id = client, out, job_id
        self._heard, self._ended = threading.Event(), threading.Event()
        self._heard_at = utc_now()
        self._in_line = False  # the terminal's cursor stands behind an unfinished line

    def passed_on(self, chunks: Iterable[bytes]) -> Generator[bytes]:
        """Yield the chunks as they are, with notes on stderr between them."""
        for chunk in chunks:
            yield chunk
            if chunk:
                self._in_line = not chunk.endswith(b"\n")
                self._heard_at = utc_now()
                self._heard.set()

    @contextmanager
    def while_following(self) -> Generator[None]:
        threading.Thread(target=self._watch, name="tao-silence", daemon=True).start()
        try:
            yield
        finally:
            self._ended.set()
            self._heard.set()

    def _watch(self) -> None:
        while not self._ended.is_set():
            self._heard.clear()
            if self._heard.wait(SILENT_SECONDS):
                continue
            try:
                self._tell()
            except (TaoError, sqlite3.ProgrammingError):  # the log's reader says what is wrong
                return
            self._heard.wait()

    def _tell(self) -> None:
        job = self._client.get_job(self._job_id)
        since = self._silent_since(job)
        if self._heard.is_set() or job.status.terminal:
            return
        if self._in_line and self._out.terminal:
            print(file=sys.stderr)
        self._out.note(silence_words(job, since))

    def _silent_since(self, job: Job) -> datetime:
        """The time when the job's log last grew, as its place says; else when a part of it last
        came here.
        """
        activity = self._client.activity(job.id) if job.status is Status.RUNNING else None
        if activity is None or activity.log_changed_at is None:
            return self._heard_at
        return activity.log_changed_at


def silence_words(job: Job, since: datetime) -> str:
    """Say that there is nothing to print, and that leaving the job does not end it."""
    if job.status is not Status.RUNNING:
        reason = show.message(job)
        words = f"{job.id} is {job.status}" + (f": {reason}" if reason else "")
        return f"{words}. Its log comes once it runs. Ctrl-C leaves it as it is."
    when = since.astimezone().strftime("%H:%M:%S")
    return (
        f"{job.id} is silent since {when}. Ctrl-C leaves it running. "
        f"What it does meanwhile: tao why {job.id}"
    )
