"""Watching a job that was just submitted: its log and status feed a Scene, which is drawn until the job has ended.

On a terminal the scene is drawn in place, several times a second; elsewhere, what is new is printed as plain lines.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from tao_sdk.cli import screen, show
from tao_sdk.cli.output import printable
from tao_sdk.cli.screen import Line, Plain, Scene
from tao_sdk.engine.curve_file import leave_curve
from tao_sdk.model.clock import utc_now
from tao_sdk.model.curve_plot import curve_text
from tao_sdk.model.errors import PathNotFound, TaoError, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from rich.text import Text

    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.client.results import Results

TICK_SECONDS = 0.1
LOOK_SECONDS = 0.5  # at the store; the watcher asks the backend, as often as is polite there
SLOWEST_SECONDS = 5.0
LAST_WORDS_SECONDS = 10.0  # how long the log of an ended job is waited for
UNBOUNDED = 10_000  # columns, where lines may be as long as they like

Draw = Callable[[Scene, list[Progress]], None]


class LogFeed:
    """The job's log, read in a thread, so that the screen moves while the job is silent."""

    def __init__(self, client: Client, job_id: str) -> None:
        self._pieces: queue.Queue[bytes | None] = queue.Queue(maxsize=64)
        self.over = False
        self._heard = time.monotonic()
        threading.Thread(target=self._read, args=(client, job_id), name="tao-log", daemon=True).start()

    def _read(self, client: Client, job_id: str) -> None:
        try:
            for chunk in client.follow_logs(job_id, events=True, rank=0):
                self._pieces.put(chunk)
        except (TaoError, sqlite3.ProgrammingError):
            pass  # the job's status tells its end; a closed store is somebody's Ctrl-C
        finally:
            self._pieces.put(None)

    def silent_for(self, seconds: float) -> bool:
        return time.monotonic() - self._heard > seconds

    def take(self) -> Iterator[bytes]:
        """What has come since the last call; waits a tick for it."""
        if self.over:
            time.sleep(TICK_SECONDS)
        while not self.over:
            try:
                piece = self._pieces.get(timeout=TICK_SECONDS)
            except queue.Empty:
                return
            self.over, self._heard = piece is None, time.monotonic()
            if piece is not None:
                yield piece
            if self._pieces.empty():
                return


def ended_with_screen(client: Client, out: Output, job: Job) -> Job:
    """Draw the job until it has ended, then how it ended; the job as it then is."""
    scene = Scene(job, began=began(job))
    drawing = live_screen(out) if out.screen else plain_lines(out)
    with drawing as draw:
        follow(client, scene, draw)
    tell_end(client, out, scene)
    return scene.job


def began(job: Job) -> float:
    """When it began to run, or until then to wait, by the steady clock."""
    return time.monotonic() - max((utc_now() - (job.started or job.created)).total_seconds(), 0)


def follow(client: Client, scene: Scene, draw: Draw) -> None:
    """Feed the scene until the job has ended and its log has been read, or says nothing more."""
    feed, looks = LogFeed(client, scene.job.id), Looks(client.polite_seconds(scene.job))
    draw(scene, [])
    while not (scene.job.status.terminal and (feed.over or feed.silent_for(LAST_WORDS_SECONDS))):
        epochs = [epoch for chunk in feed.take() for epoch in scene.see(chunk, time.monotonic())]
        if looks.due(asking=feed.over):
            epochs += scene.look(known(client, scene, asking=feed.over))
        draw(scene, epochs)
    draw(scene, scene.end(time.monotonic()))


def known(client: Client, scene: Scene, asking: bool) -> Job:
    """The job as it is now; with its status file read where its log tells no epochs."""
    job = client.get_job(scene.job.id, look=asking)
    return job if scene.hears_epochs or job.started is None else client.refresh_progress(job)


class Looks:
    """When to look again. At the store often; at the backend itself, where no log tells of the end, ever less often."""

    def __init__(self, polite: float) -> None:
        self.next, self.wait, self.pause = 0.0, TICK_SECONDS, max(LOOK_SECONDS, polite / 2)

    def due(self, asking: bool) -> bool:
        now = time.monotonic()
        if now < self.next and not (asking and self.wait == TICK_SECONDS):
            return False
        self.wait = min(self.wait * 1.5, SLOWEST_SECONDS) if asking else TICK_SECONDS
        self.next = now + (self.wait if asking else self.pause)
        return True


@contextmanager
def plain_lines(out: Output) -> Generator[Draw]:
    plain = Plain()

    def draw(scene: Scene, epochs: list[Progress]) -> None:
        out.lines(plain.lines(scene, epochs, time.monotonic()))

    yield draw


def live_screen(out: Output) -> AbstractContextManager[Draw]:
    """Draws in place with rich, which is loaded only here."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(no_color=not out.color, highlight=False)

    @contextmanager
    def drawing() -> Generator[Draw]:
        with Live(console=console, auto_refresh=False, transient=False) as live:

            def draw(scene: Scene, _: list[Progress]) -> None:
                scene.began = began(scene.job)
                lines = screen.drawn(scene, console.width, time.monotonic(), console.height)
                live.update(Group(*map(rich_text, lines)), refresh=True)

            yield draw

    return drawing()


def rich_text(line: Line) -> Text:
    from rich.text import Text

    return Text.assemble(*((printable(text), style) for text, style in line), no_wrap=True)


def painted(out: Output, line: Line) -> str:
    """A line for stdout, coloured where colour can be seen."""
    styles: dict[str, dict[str, Any]] = {"": {}, "bold": {"bold": True}, "dim": {"dim": True}}
    return "".join(out.paint(text, **styles.get(style, {"color": style})) for text, style in line)


def tell_end(client: Client, out: Output, scene: Scene) -> None:
    """How it ended: the final line, where the results are, the curve; why it failed."""
    found = results_of(client, out, scene.job)
    progress = scene.progress if found is None else screen.richer(scene.progress, found.progress)
    width = out.width or 80
    if progress.epoch > 1 and out.terminal:
        out.lines(["", *(f"  {line}" for line in curve_text(progress, min(width - 4, 96))), ""])
    if not progress.epoch and scene.job.status is not Status.ERROR:
        out.lines(f"  {line}" for line in scene.tail)
    left = found.checkpoints if found else []
    out.lines(painted(out, line) for line in screen.final(scene.job, progress, left, out.width or UNBOUNDED))
    if scene.job.status is not Status.COMPLETE:
        tell_why(client, out, scene)
    out.lines(painted(out, line) for line in screen.places(places(scene.job, progress, found), out.width))


def results_of(client: Client, out: Output, job: Job) -> Results | None:
    """What the job left; None where it cannot be seen from here now, or, which is told, is not to be looked at."""
    try:
        return client.results(job.id)
    except Unreachable:
        return None
    except PathNotFound as error:
        out.line(out.paint(f"warning: {error}", "yellow"))
        return None


def places(job: Job, progress: Progress, left: Results | None) -> list[tuple[str, str]]:
    """Where to look further: what the job left, its curve, and the log of one that failed."""
    curve = leave_curve(job, progress)
    found = [("results", show.path(job.results_dir).rstrip("/") + "/")] if curve or left is None or left.files else []
    found += [("curve", show.path(str(curve)))] if curve else []
    return found if job.status is Status.COMPLETE else [*found, ("log", f"tao logs {job.id}")]


def tell_why(client: Client, out: Output, scene: Scene) -> None:
    diagnosis = client.diagnose(scene.job.id)
    if diagnosis is not None:
        out.lines(f"  {line}" for line in show.explanation(diagnosis, out))
    if scene.tail:
        out.line(out.paint("  The end of its log:", dim=True))
        out.lines(screen.text_of(screen.fit([("  | ", ""), (line, "")], out.width or UNBOUNDED)) for line in scene.tail)


def ended_with_events(client: Client, out: Output, job: Job) -> Job:
    """`tao run --json`: every event as a line, then the job as the last."""
    since = 0
    for [now] in client.follow_jobs([job.id]):
        job = client.refresh_progress(now)
        for event in client.events(job.id, since):
            since = event.seq
            out.json_line(event.to_json())
    out.json_line(job.to_json())
    return job
