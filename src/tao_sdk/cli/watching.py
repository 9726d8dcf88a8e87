"""Watching a job until it has ended: its scene is drawn as it changes. Not here: what feeds the
scene (client/following.py).

On a terminal the scene is drawn in place, several times a second; elsewhere, what is new is printed
as plain lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from tao_sdk.cli import end_screen, screen, show
from tao_sdk.cli.line_budget import LineBudget
from tao_sdk.cli.plain_scene import PlainScene
from tao_sdk.cli.styled_line import Line, fit_line, text_of
from tao_sdk.client.following import began_at, follow_job
from tao_sdk.client.job_end import curve_of, results_of
from tao_sdk.client.scene import Scene
from tao_sdk.client.stray_files import stray_files
from tao_sdk.model.curve_plot import curve_text
from tao_sdk.model.job import Job
from tao_sdk.model.printable import printable
from tao_sdk.model.progress import Progress, richer_progress
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from rich.text import Text

    from tao_sdk.cli.first_words import FirstWords
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.client.results import Results

UNBOUNDED = 10_000  # columns, where lines may be as long as they like

Draw = Callable[[Scene, list[Progress]], None]


def ended_with_screen(client: Client, out: Output, job: Job, first: FirstWords) -> Job:
    """Draw the job until it has ended, then how it ended; return the ended job. `first` may have
    printed its head before.
    """
    scene = Scene(job, began_at=began_at(job))
    drawing = live_screen(out, first) if out.screen else plain_lines(out, PlainScene(first.told))
    with drawing as draw_scene:
        follow_job(client, scene, draw_scene)
    tell_end(client, out, scene)
    return scene.job


@contextmanager
def plain_lines(out: Output, plain: PlainScene) -> Generator[Draw]:
    budget = LineBudget()

    def print_news(scene: Scene, epochs: list[Progress]) -> None:
        now = time.monotonic()
        out.lines(plain.lines(scene, epochs, now))
        out.lines(f"  {line}" for line in lines_beside_progress(scene, budget, now))

    yield print_news


def lines_beside_progress(scene: Scene, budget: LineBudget, at: float) -> list[str]:
    """The program's lines to show now beside its progress. Before it has reported any, its last
    lines are shown in another way.
    """
    if not scene.progress.is_counted:
        return []
    lines = scene.take_own_lines()
    shown = budget.newest_lines(lines, at)
    scene.shown_lines.extend(shown)
    if len(shown) < len(lines):
        scene.has_left_out = True
    return shown


def live_screen(out: Output, first: FirstWords) -> AbstractContextManager[Draw]:
    """Draws in place with rich, which is loaded only here."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(no_color=not out.color, highlight=False)
    budget = LineBudget()

    @contextmanager
    def draw_in_place() -> Generator[Draw]:
        first.clear()
        with Live(console=console, auto_refresh=False, transient=False) as live:

            def draw_scene(scene: Scene, _: list[Progress]) -> None:
                now = time.monotonic()
                scene.began_at = began_at(scene.job)
                if own := lines_beside_progress(scene, budget, now):
                    console.print(
                        Group(*(rich_text(own_line(line, console.width)) for line in own))
                    )
                lines = screen.scene_lines(scene, console.width, now, console.height)
                live.update(Group(*map(rich_text, lines)), refresh=True)

            yield draw_scene

    return draw_in_place()


def own_line(line: str, width: int) -> Line:
    """A line of the program, above the screen."""
    return fit_line([("  ", ""), (line, "dim")], width)


def rich_text(line: Line) -> Text:
    from rich.text import Text

    return Text.assemble(*((printable(text), style) for text, style in line), no_wrap=True)


STYLES: Mapping[str, Mapping[str, Any]] = {"": {}, "bold": {"bold": True}, "dim": {"dim": True}}


def print_styled(out: Output, lines: Iterable[Line]) -> None:
    """Print the lines on stdout, coloured if colour can be seen."""
    for line in lines:
        out.line("".join(paint_span(out, *span) for span in line))


def paint_span(out: Output, text: str, style: str) -> str:
    """The text in its style: a weight or else a colour."""
    return out.paint(text, **STYLES.get(style, {"color": style}))


def tell_end(client: Client, out: Output, scene: Scene) -> None:
    """Print how the job ended: the final line, where the results are, the curve; why it failed."""
    job = scene.job
    seen = results_of(client, job)
    if seen.refusal:
        out.line(out.paint(f"warning: {seen.refusal}", "yellow"))
    results = seen.results
    progress = scene.progress
    if results:
        progress = richer_progress(progress, results.progress)
    tell_curve(out, progress)
    if not progress.is_counted and job.status is not Status.ERROR:
        out.lines(f"  {line}" for line in scene.log_tail)
    checkpoints = results.checkpoints if results else []
    width = out.width or UNBOUNDED
    print_styled(out, end_screen.end_lines(job, progress, checkpoints, width))
    if job.status is not Status.COMPLETE:
        tell_why(client, out, scene)
    tell_notes(client, out, job)
    left_out = scene.has_left_out if progress.is_counted else scene.outgrew_tail
    places = places_to_look(job, progress, results, left_out)
    print_styled(out, end_screen.place_lines(places, out.width))
    if stray := stray_files(client, job, results):
        out.note(stray.words)


def tell_notes(client: Client, out: Output, job: Job) -> None:
    """Print the notes on how the job ended. For a Complete job each of them is a warning."""
    head = f"{out.paint('warning', 'yellow')}: " if job.status is Status.COMPLETE else "  "
    out.lines(f"{head}{note}" for note in client.notes(job.id))


def tell_curve(out: Output, progress: Progress) -> None:
    """Print the curve of the whole job, on a terminal."""
    if not out.terminal or len(progress.history) < 2:
        return
    width = out.width or 80
    curve = curve_text(progress, min(width - 4, screen.WIDEST_CURVE))
    out.lines(["", *(f"  {line}" for line in curve), ""])


def places_to_look(
    job: Job, progress: Progress, results: Results | None, left_out: bool
) -> list[tuple[str, str]]:
    """The name and the path of each place to look: what the job left, its curve, and its log. The
    log is listed if the job failed, or if lines of it were `left_out`.
    """
    curve = curve_of(job, progress)
    shown: list[tuple[str, str]] = []
    if curve or results is None or results.files:
        shown.append(("results", show.path(job.results_dir).rstrip("/") + "/"))
    if curve:
        shown.append(("curve", show.path(str(curve))))
    if left_out or job.status is not Status.COMPLETE:
        shown.append(("log", f"tao logs {job.id}"))
    return shown


def tell_why(client: Client, out: Output, scene: Scene) -> None:
    diagnosis = client.diagnose(scene.job.id)
    if diagnosis is not None:
        out.lines(f"  {line}" for line in show.explanation(diagnosis, out))
    if scene.log_tail and not scene.showed_tail:
        out.line(out.paint("  The end of its log:", dim=True))
        width = out.width or UNBOUNDED
        tail: list[Line] = [[("  | ", ""), (line, "")] for line in scene.log_tail]
        out.lines(text_of(fit_line(line, width)) for line in tail)


def ended_with_events(client: Client, out: Output, job: Job, since: int = 0) -> Job:
    """Carry out `tao run --json`: print every event after number `since` as a line, then the job as
    the last.
    """
    for [now] in client.follow_jobs([job.id]):
        job = client.refresh_progress(now)
        for event in client.events(job.id, since):
            since = event.seq
            out.json_line(event.to_json())
    out.json_line(job.to_json())
    for note in client.notes(job.id):
        out.note(note)
    return job
