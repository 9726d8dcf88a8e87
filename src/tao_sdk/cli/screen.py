"""The screen of a running job: its scene as lines of styled text, at any width. Pure: a scene in,
lines out.

Not here: what is known of the job (client/scene.py), how it ended (end_screen.py), the scene for a
log (plain_scene.py), and where the lines go (watching.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tao_sdk.cli import show
from tao_sdk.cli.styled_line import Line, fit, flat, length
from tao_sdk.model.curve_plot import curve_text
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_clock

if TYPE_CHECKING:
    from tao_sdk.client.scene import Scene

BAR = 22  # cells
LEAST_BAR = 6
CURVE_HEIGHT, CURVE_WIDTH = 24, 60  # of a terminal on which the curve grows
WIDEST_CURVE = 96
LEAVE = "  Ctrl-C detaches, the job goes on"

# The stages of a scene -> what they are called. "command" is the job's own work.
SAVING = "saving outputs"
STAGES = {"files": "files", "inputs": "inputs", "command": "running", "outputs": "outputs"}


def header(scene: Scene, width: int) -> Line:
    """`digits-7f3k2q9d1x  local  ▸ inputs 0.3 MB  ▸ running`; where there is no room for all, the
    stages that are over go.
    """
    line: Line = [(scene.job.id, "bold"), (f"  {scene.job.place}", "dim")]
    if scene.job.attempt > 1:
        line.append((f"  attempt {scene.job.attempt}", "yellow"))
    steps = [
        step(scene, stage, scene.transfers.get(stage) or size)
        for stage, size in scene.stages.items()
    ]
    if scene.server_wait and not scene.job.status.terminal:
        steps.append([(f"  ▸ {scene.server_wait}", "yellow")])
    elif scene.job.status is Status.PAUSED:
        steps.append(waiting(scene.job))
    elif not steps and not scene.job.status.terminal:
        steps = [waiting(scene.job)]
    while len(steps) > 1 and length([*line, *flat(steps)]) > width:
        steps.pop(0)
    return [*line, *flat(steps)]


def step(scene: Scene, stage: str, size: str) -> Line:
    """`  ▸ inputs 0.3 MB`; coloured while it goes on."""
    is_now = stage == scene.stage and not scene.job.status.terminal
    name = STAGES.get(stage, stage)
    if is_now and stage == "outputs" and not scene.stages[stage]:
        name = SAVING
    head = (f"  ▸ {name}", "cyan" if is_now else "")
    if size:
        return [head, (f" {size}", "dim")]
    return [head]


WAITING_WORDS = {Status.PENDING: "pending", Status.RUNNING: "running", Status.PAUSED: "paused"}
WAITING_STYLES = {Status.PENDING: "yellow", Status.PAUSED: "yellow"}


def waiting(job: Job) -> Line:
    """`  ▸ pending  submitted`: where a job is that has told nothing itself."""
    word = WAITING_WORDS.get(job.status, job.status.value.lower())
    head = (f"  ▸ {word}", WAITING_STYLES.get(job.status, "cyan"))
    reason = waiting_reason(job)
    if reason.lower() in ("", word):
        return [head]
    return [head, (f"  {reason}", "dim")]


def waiting_reason(job: Job) -> str:
    """Why it waits; "" for a job that runs."""
    if job.status is Status.RUNNING:
        return ""
    if job.waits_for_next_attempt:
        return f"attempt {job.attempt + 1} follows"
    return show.one_line(job.message)


def progress_line(progress: Progress, width: int) -> Line:
    """`epoch 14/20  loss 0.093  accuracy 0.957  ████░░  70 %  ETA 0:06`; what does not fit is left
    out, the bar first.
    """
    head: Line = [(f"{progress.unit} ", "dim"), (show.epoch(progress), "bold")]
    end = ending(progress)
    metrics: list[Line] = [metric(text) for text in show.metrics(progress)]
    while metrics and length([*head, *flat(metrics), *end]) > width:
        metrics.pop()
    line = [*head, *flat(metrics)]
    room = width - length([*line, *end]) - 2
    return [*line, *bar(progress.fraction, min(BAR, room)), *end]


def metric(text: str) -> Line:
    name, _, value = text.partition(" ")
    return [(f"  {name} ", "dim"), (value, "bold")]


def ending(progress: Progress) -> Line:
    """`  70 %  ETA 0:06`; nothing where the number of epochs is not known."""
    if progress.fraction is None:
        return []
    share = (f"  {progress.fraction * 100:3.0f} %", "bold")
    if progress.eta_seconds is None or progress.fraction >= 1:
        return [share]
    return [share, (f"  ETA {format_clock(progress.eta_seconds)}", "dim")]


def bar(fraction: float | None, cells: int) -> Line:
    """A bar of `cells`, filled by eighths of a cell; none where it would be too short to tell
    anything.
    """
    if fraction is None or cells < LEAST_BAR:
        return []
    eighths = round(fraction * cells * 8)
    full = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return [("  ", ""), (full, "green"), ("░" * (cells - len(full)), "dim")]


def drawn(scene: Scene, width: int, at: float, height: int = 0) -> list[Line]:
    """The whole screen: where the job is, how far it is, and until it tells that, what it prints.

    Of a terminal of `height` lines, there is its curve where that has room, the time that it took,
    and how to leave.
    """
    warnings: list[Line] = [[("  ! ", "yellow"), (text, "")] for text in scene.warnings[-2:]]
    lines = [header(scene, width), *warnings]
    ended = scene.job.status.terminal
    leave = LEAVE if height else ""
    if scene.progress.is_counted:
        lines += [] if ended else growing_curve(scene.progress, width, height)
        lines.append(progress_line(progress_at(scene, at), width))
        if height and not ended:
            lines.append(footer(scene, at, leave))
    elif not ended:
        lines += [[("  ", ""), (text, "dim")] for text in scene.log_tail]
        lines.append(footer(scene, at, leave))
    return [fit(line, width) for line in lines]


def footer(scene: Scene, at: float, leave: str) -> Line:
    """`⠹ 0:42  Ctrl-C detaches, the job goes on`."""
    seconds = max(at - scene.began_at, 0)
    return [(f"{spinner(seconds)} {format_clock(seconds)}", "dim"), (leave, "dim")]


def growing_curve(progress: Progress, width: int, height: int) -> list[Line]:
    """The curve so far, on a screen that has room for it beside the rest."""
    if height < CURVE_HEIGHT or width < CURVE_WIDTH or len(progress.history) < 2:
        return []
    lines = curve_text(progress, min(width - 4, WIDEST_CURVE))
    return [[("  ", ""), (line, "")] for line in lines]


def progress_at(scene: Scene, at: float) -> Progress:
    """The progress as it is shown now. A paused job has no time left to tell."""
    if scene.job.status is Status.PAUSED:
        return replace(scene.progress, eta_seconds=None)
    return counted_down(scene.progress, at - scene.epoch_at)


def counted_down(progress: Progress, seconds: float) -> Progress:
    """The progress, with the time left less the `seconds` since it was told; none once that has
    run out.
    """
    if progress.eta_seconds is None:
        return progress
    left = progress.eta_seconds - max(seconds, 0)
    return replace(progress, eta_seconds=left if left > 0 else None)


def spinner(seconds: float) -> str:
    return "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(seconds * 8) % 10]
