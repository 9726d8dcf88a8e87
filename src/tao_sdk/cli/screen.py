"""The screen of a running job: its scene as lines of styled text, at any width. Pure: a scene in,
lines out.

Not here: the known state of the job (client/scene.py), how it ended (end_screen.py), the scene for
a log (plain_scene.py), and where the lines go (watching.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tao_sdk.cli import show
from tao_sdk.cli.styled_line import Line, fit_line, join_lines, line_length
from tao_sdk.model.curve_plot import curve_text
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_clock

if TYPE_CHECKING:
    from tao_sdk.client.scene import Scene

BAR = 22  # cells
LEAST_BAR = 6
CURVE_HEIGHT, CURVE_WIDTH = 24, 60  # the least terminal on which the curve grows
WIDEST_CURVE = 96
LEAVE = "  Ctrl-C detaches, the job goes on"

# The stages of a scene -> what they are called. "command" is the job's own work.
SAVING = "saving outputs"
STAGES = {"files": "files", "inputs": "inputs", "command": "running", "outputs": "outputs"}


def header_line(scene: Scene, width: int) -> Line:
    """`digits-7f3k2q9d1x  local  ▸ inputs 0.3 MB  ▸ running`.

    If there is no room for all, the stages that are over are dropped.
    """
    line: Line = [(scene.job.id, "bold"), (f"  {scene.job.place}", "dim")]
    if scene.job.attempt > 1:
        line.append((f"  attempt {scene.job.attempt}", "yellow"))
    steps = header_steps(scene)
    while len(steps) > 1 and line_length([*line, *join_lines(steps)]) > width:
        steps.pop(0)
    return [*line, *join_lines(steps)]


def header_steps(scene: Scene) -> list[Line]:
    """A step for each stage, and for the job's wait, if it waits."""
    job = scene.job
    steps = [stage_step(scene, stage) for stage in scene.stages]
    if job.status.terminal:
        return steps
    if scene.server_wait:
        return [*steps, [(f"  ▸ {scene.server_wait}", "yellow")]]
    if job.status is Status.PAUSED or not steps:
        return [*steps, waiting_step(job)]
    return steps


def stage_step(scene: Scene, stage: str) -> Line:
    """`  ▸ inputs 0.3 MB`; coloured while it goes on."""
    is_now = stage == scene.stage and not scene.job.status.terminal
    style = "cyan" if is_now else ""
    name = STAGES.get(stage, stage)
    if is_now and stage == "outputs" and not scene.stages[stage]:
        name = SAVING
    size = scene.transfers.get(stage) or scene.stages[stage]
    if not size:
        return [(f"  ▸ {name}", style)]
    return [(f"  ▸ {name}", style), (f" {size}", "dim")]


WAITING_WORDS = {Status.PENDING: "pending", Status.RUNNING: "running", Status.PAUSED: "paused"}
WAITING_STYLES = {Status.PENDING: "yellow", Status.PAUSED: "yellow"}


def waiting_step(job: Job) -> Line:
    """`  ▸ pending  submitted`: the status of a job that has reported nothing itself."""
    word = WAITING_WORDS.get(job.status, job.status.value.lower())
    head = (f"  ▸ {word}", WAITING_STYLES.get(job.status, "cyan"))
    reason = waiting_reason(job)
    if reason.lower() in ("", word):
        return [head]
    return [head, (f"  {reason}", "dim")]


def waiting_reason(job: Job) -> str:
    """The reason why the job waits; "" for a job that runs."""
    if job.status is Status.RUNNING:
        return ""
    if job.waits_for_next_attempt:
        return f"attempt {job.attempt + 1} follows"
    return show.one_line(job.message)


def progress_line(progress: Progress, width: int, silence: str = "") -> Line:
    """`epoch 14/20  loss 0.093  accuracy 0.957  ████░░  70 %  ETA 0:06`.

    Parts without room are left out, the bar first. `silence` stands in the place of the time left.
    """
    head: Line = [(f"{progress.unit} ", "dim"), (show.epoch(progress), "bold")]
    end = share_done(progress)
    if silence:
        end = [*end, (f"  {silence}", "yellow")]
    metrics: list[Line] = [metric_spans(text) for text in show.metrics(progress)]
    while metrics and line_length([*head, *join_lines(metrics), *end]) > width:
        metrics.pop()
    line = [*head, *join_lines(metrics)]
    room = width - line_length([*line, *end]) - 2
    return [*line, *progress_bar(progress.fraction, min(BAR, room)), *end]


def metric_spans(text: str) -> Line:
    name, _, value = text.partition(" ")
    return [(f"  {name} ", "dim"), (value, "bold")]


def share_done(progress: Progress) -> Line:
    """`  70 %  ETA 0:06`; nothing if the number of epochs is not known."""
    if progress.fraction is None:
        return []
    share = (f"  {progress.fraction * 100:3.0f} %", "bold")
    if progress.eta_seconds is None or progress.fraction >= 1:
        return [share]
    return [share, (f"  ETA {format_clock(progress.eta_seconds)}", "dim")]


def progress_bar(fraction: float | None, cells: int) -> Line:
    """A bar of `cells`, filled by eighths of a cell; none if it would be too short to read."""
    if fraction is None or cells < LEAST_BAR:
        return []
    eighths = round(fraction * cells * 8)
    full = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return [("  ", ""), (full, "green"), ("░" * (cells - len(full)), "dim")]


def scene_lines(scene: Scene, width: int, at: float, height: int = 0) -> list[Line]:
    """The whole screen: the job's state and progress; until it reports progress, its printed lines.

    On a terminal of `height` lines also the curve, if there is room for it, the elapsed time, and
    how to detach.
    """
    lines = [header_line(scene, width)]
    lines += [[("  ! ", "yellow"), (text, "")] for text in scene.warnings[-2:]]
    if scene.job.status.terminal:
        if scene.progress.is_counted:
            lines.append(progress_line(progress_at(scene, at), width))
    elif scene.progress.is_counted:
        lines += growing_curve(scene.progress, width, height)
        lines.append(progress_line(progress_at(scene, at), width, silence_words(scene, at)))
        if height:
            lines.append(footer_line(scene, at, LEAVE))
    else:
        lines += [[("  ", ""), (text, "dim")] for text in scene.log_tail]
        lines.append(footer_line(scene, at, LEAVE if height else ""))
    return [fit_line(line, width) for line in lines]


def footer_line(scene: Scene, at: float, leave: str) -> Line:
    """`⠹ 0:42  Ctrl-C detaches, the job goes on`."""
    seconds = max(at - scene.began_at, 0)
    return [(f"{spinner_sign(seconds)} {format_clock(seconds)}", "dim"), (leave, "dim")]


def growing_curve(progress: Progress, width: int, height: int) -> list[Line]:
    """The curve so far, on a screen that has room for it beside the rest."""
    if height < CURVE_HEIGHT or width < CURVE_WIDTH or len(progress.history) < 2:
        return []
    lines = curve_text(progress, min(width - 4, WIDEST_CURVE))
    return [[("  ", ""), (line, "")] for line in lines]


def progress_at(scene: Scene, at: float) -> Progress:
    """The progress as it is shown now. A job that is paused or may hang shows no time left.

    If the log was not followed long enough to give the time left, earlier looks may.
    """
    if scene.job.status is Status.PAUSED or scene.is_overdue(at):
        return replace(scene.progress, eta_seconds=None)
    if scene.progress.eta_seconds is not None:
        return counted_down(scene.progress, at - scene.epoch_at)
    stored = scene.job.progress
    if stored.epoch != scene.progress.epoch:
        return scene.progress
    stored_left = counted_down(stored, at - scene.read_at).eta_seconds
    return replace(scene.progress, eta_seconds=stored_left)


def silence_words(scene: Scene, at: float) -> str:
    """`no epoch for 5m`, for a running job that may hang."""
    progress = scene.progress
    if scene.job.status is not Status.RUNNING or progress.fraction == 1:
        return ""
    if not scene.is_overdue(at):
        return ""
    return f"no epoch for {show.age(at - scene.epoch_at)}"


def counted_down(progress: Progress, seconds: float) -> Progress:
    """The progress with the time left, `seconds` after it was reported; none once it has run
    out.
    """
    if progress.eta_seconds is None:
        return progress
    left = progress.eta_seconds - max(seconds, 0)
    if left <= 0:
        return replace(progress, eta_seconds=None)
    return replace(progress, eta_seconds=left)


def spinner_sign(seconds: float) -> str:
    return "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(seconds * 8) % 10]
