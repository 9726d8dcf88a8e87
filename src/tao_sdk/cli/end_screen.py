"""The end of a job, as lines of styled text: the outcome, and where to look further. Pure.

Not here: why it failed (show.py) and where the lines go (watching.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from tao_sdk.cli import show
from tao_sdk.cli.styled_line import Line, join_lines, line_length
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_clock

if TYPE_CHECKING:
    from tao_sdk.model.checkpoints import Checkpoint

MARKS = {Status.COMPLETE: "✓", Status.ERROR: "✗", Status.CANCELED: "■"}
STYLES = {Status.COMPLETE: "green", Status.ERROR: "red", Status.CANCELED: "magenta"}
APART = " · "


def end_lines(
    job: Job, progress: Progress, checkpoints: Sequence[Checkpoint], width: int
) -> list[Line]:
    """`✓ Complete in 0:21 · accuracy 0.972 · 20 checkpoints, best is epoch 17 (0.975)`; in several
    lines if there is no room for one.
    """
    facts = end_facts(job, progress, checkpoints)
    one_line = APART.join(facts)
    if len(one_line) + 2 <= width:
        facts = [one_line]
    mark = (f"{MARKS.get(job.status, '?')} ", STYLES.get(job.status, ""))
    lines: list[Line] = [[("  ", ""), (fact, "bold")] for fact in facts]
    lines[0][0] = mark
    return lines


def end_facts(job: Job, progress: Progress, checkpoints: Sequence[Checkpoint]) -> list[str]:
    """The job's status and duration, its exit code, its metric, its checkpoints."""
    preposition = "in" if job.status is Status.COMPLETE else "after"
    facts = [f"{job.status} {preposition} {format_clock(seconds_taken(job))}"]
    if job.status is Status.ERROR and job.exit_code is not None:
        facts.append(f"exit code {job.exit_code}")
    facts += show.metrics(progress)[-1:]
    if are_named_by_step(checkpoints) and progress.best:
        facts.append(f"best {progress.best.metric} {show.best_number(progress, progress.best)}")
    if checkpoints:
        facts.append(checkpoint_fact(job, progress, checkpoints))
    return facts


def checkpoint_fact(job: Job, progress: Progress, checkpoints: Sequence[Checkpoint]) -> str:
    """The number of checkpoints; for a job that was cut off, how many are known to be whole."""
    all_whole = all(checkpoint.complete for checkpoint in checkpoints)
    if job.status is not Status.COMPLETE and not all_whole:
        return show.known_whole(checkpoints)
    count = show.plural(len(checkpoints), "checkpoint")
    if are_named_by_step(checkpoints):
        return f"{count}, the newest is {newest_name(checkpoints)}"
    return count + best_epoch(progress)


def are_named_by_step(checkpoints: Sequence[Checkpoint]) -> bool:
    """True for `checkpoint-100`: such names do not tell the epoch."""
    if any(checkpoint.epoch is not None for checkpoint in checkpoints):
        return False
    return any(checkpoint.step is not None for checkpoint in checkpoints)


def newest_name(checkpoints: Sequence[Checkpoint]) -> str:
    """The name of the newest checkpoint: the last one that is named by a step."""
    by_step = [checkpoint for checkpoint in checkpoints if checkpoint.step is not None]
    return show.one_line(PurePosixPath(by_step[-1].path).name)


def seconds_taken(job: Job) -> float:
    end = job.ended or job.seen_at
    if end is None:
        return 0
    began = job.newest_start or job.started or job.created
    return max((end - began).total_seconds(), 0)


def best_epoch(progress: Progress) -> str:
    """`, best is epoch 17 (0.975)`. The metric is named if the line does not end with that one."""
    best = progress.best
    if best is None:
        return ""
    if best.step is None and not best.epoch:
        return ""
    value = show.number(best.value)
    last_metric = "".join(show.metrics(progress)[-1:])
    if not last_metric.startswith(f"{best.metric} "):
        value = f"{best.metric} {value}"
    return f", best is {show.best_place(progress, best)} ({value})"


def place_lines(places: Sequence[tuple[str, str]], width: int | None) -> list[Line]:
    """`  results  runs/x/      curve  runs/x/curve.svg`: in one line if there is room."""
    lines: list[Line] = [[("  ", ""), (f"{name}  ", "dim"), (path, "")] for name, path in places]
    if not lines:
        return []
    one_line: Line = join_lines([[("    ", ""), *line] for line in lines])[1:]
    if width is not None and line_length(one_line) > width:
        return lines
    return [one_line]
