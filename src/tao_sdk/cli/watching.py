"""Watching a job until it has ended: its scene is drawn as it changes. Not here: what feeds the
scene (client/following.py).

On a terminal the scene is drawn in place, several times a second; elsewhere, what is new is printed
as plain lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from tao_sdk.cli import end_screen, screen, show
from tao_sdk.cli.plain_scene import Plain
from tao_sdk.cli.styled_line import Line, fit, text_of
from tao_sdk.client.following import began_at, follow_job
from tao_sdk.client.job_end import curve_of, pipe_words, results_of
from tao_sdk.client.scene import Scene
from tao_sdk.model.curve_plot import curve_text
from tao_sdk.model.job import Job
from tao_sdk.model.printable import printable
from tao_sdk.model.progress import Progress, richer_progress
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from rich.text import Text

    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.client.results import Results

UNBOUNDED = 10_000  # columns, where lines may be as long as they like

Draw = Callable[[Scene, list[Progress]], None]


def ended_with_screen(client: Client, out: Output, job: Job) -> Job:
    """Draw the job until it has ended, then how it ended; the job as it then is."""
    scene = Scene(job, began_at=began_at(job))
    drawing = live_screen(out) if out.screen else plain_lines(out)
    with drawing as draw:
        follow_job(client, scene, draw)
    tell_end(client, out, scene)
    return scene.job


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
                scene.began_at = began_at(scene.job)
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
    seen = results_of(client, scene.job)
    if seen.refusal:
        out.line(out.paint(f"warning: {seen.refusal}", "yellow"))
    left = seen.results
    progress = richer_progress(scene.progress, left.progress) if left else scene.progress
    width = out.width or 80
    if len(progress.history) > 1 and out.terminal:
        out.lines(["", *(f"  {line}" for line in curve_text(progress, min(width - 4, 96))), ""])
    if not progress.is_counted and scene.job.status is not Status.ERROR:
        out.lines(f"  {line}" for line in scene.log_tail)
    checkpoints = left.checkpoints if left else []
    out.lines(
        painted(out, line)
        for line in end_screen.end_lines(scene.job, progress, checkpoints, out.width or UNBOUNDED)
    )
    if scene.job.status is not Status.COMPLETE:
        tell_why(client, out, scene)
    if words := pipe_words(scene.job):
        out.line(f"  {words}")
    out.lines(
        painted(out, line)
        for line in end_screen.place_lines(places(scene.job, progress, left), out.width)
    )


def places(job: Job, progress: Progress, left: Results | None) -> list[tuple[str, str]]:
    """Where to look further: what the job left, its curve, and the log of one that failed."""
    curve = curve_of(job, progress)
    shown: list[tuple[str, str]] = []
    if curve or left is None or left.files:
        shown.append(("results", show.path(job.results_dir).rstrip("/") + "/"))
    if curve:
        shown.append(("curve", show.path(str(curve))))
    if job.status is not Status.COMPLETE:
        shown.append(("log", f"tao logs {job.id}"))
    return shown


def tell_why(client: Client, out: Output, scene: Scene) -> None:
    diagnosis = client.diagnose(scene.job.id)
    if diagnosis is not None:
        out.lines(f"  {line}" for line in show.explanation(diagnosis, out))
    if scene.log_tail:
        out.line(out.paint("  The end of its log:", dim=True))
        out.lines(
            text_of(fit([("  | ", ""), (line, "")], out.width or UNBOUNDED))
            for line in scene.log_tail
        )


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
