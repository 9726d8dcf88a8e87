"""The text of a job's results: the folder, the best and newest checkpoint, the others.

Pure: a record in, lines out. Not here: the verb that asks for them (results.py).
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from tao_sdk.cli import show
from tao_sdk.model.checkpoints import SETTLED, may_hold_weights, of_epoch, value_of
from tao_sdk.model.units import format_size

if TYPE_CHECKING:
    from tao_sdk.client import Results
    from tao_sdk.model.checkpoints import Checkpoint
    from tao_sdk.model.job import Job
    from tao_sdk.model.progress import Best, Progress

KEEP = "To keep files: write to $TAO_RESULTS_DIR, or name a folder: tao run --outputs DIR"
WHOLE = {True: "whole", False: "not known to be whole"}


def results_lines(left: Results, live: bool) -> list[str]:
    """All facts about the results. `live`: the job has not ended."""
    size = sum(file.size for file in left.files)
    count = show.plural(len(left.files), "file")
    head = f"results  {show.path(left.dir)}  ({count}, {format_size(size)})"
    progress = progress_line(left) if live else []
    outputs = [f"output   {show.path(path)}" for path in left.elsewhere]
    also = [*progress, *outputs, *missing_results(left), *unreadable_lines(left)]
    if not left.files and left.not_kept:
        return [left.not_kept, *also]
    if not left.files and live:
        return [head, no_files(live), *also]
    if not left.files:
        return [no_files(live), *also]
    lines = [head, best_line(left), newest_line(left), *also, *checkpoint_lines(left)]
    return lines if live else [*lines, *unsure_lines(left)]


def no_files(live: bool) -> str:
    if live:
        return "Nothing has been written there yet."
    return f"The job left no results. {KEEP}"


def best_line(left: Results) -> str:
    """`best     runs/x/model_019.pth  (accuracy 0.986 at epoch 19)`, or the reason why there is
    none.
    """
    if not left.best:
        return f"best     -  ({why_no_best(left)})"
    line = f"best     {show.path(left.best)}"
    value = best_so_far(left) or best_value(left)
    return f"{line}  ({value})" if value else line


def best_so_far(left: Results) -> str:
    """`accuracy 0.95 at epoch 4, the best so far; epoch 5 has 0.97, and no whole checkpoint yet`.
    "" if the checkpoint is that of the best epoch, or has the name `best`.
    """
    best, checkpoints = left.progress.best, left.checkpoints
    chosen = next((each for each in checkpoints if each.path == left.best), None)
    if best is None or chosen is None or chosen.is_best:
        return ""
    value = value_of(chosen, checkpoints, left.progress)
    if value is None or value.epoch == best.epoch:
        return ""
    place = show.best_place(left.progress, best)
    newer = f"{place} has {show.number(best.value)}, and no whole checkpoint yet"
    return f"{value_at(left.progress, value)}, the best so far; {newer}"


def best_value(left: Results) -> str:
    """`accuracy 0.986 at epoch 19`; "" if the job reported no metric."""
    best = left.progress.best
    return value_at(left.progress, best) if best else ""


def value_at(progress: Progress, best: Best) -> str:
    return f"{best.metric} {show.number(best.value)} at {show.best_place(progress, best)}"


def why_no_best(left: Results) -> str:
    """The reason why no checkpoint is the best: the job reported no metric, or the best epoch has
    no whole checkpoint, or no file's name has that epoch.
    """
    if not left.checkpoints:
        return no_checkpoints(left)
    best = left.progress.best
    if best is None:
        return "the job told no metric by which one is the best"
    if not best.epoch or of_epoch(left.checkpoints, best.epoch, left.progress) is None:
        place = show.best_place(left.progress, best)
        return f"{best_value(left)}; no checkpoint file names {place}"
    return f"{best_value(left)}, which has no checkpoint that is known to be whole"


def no_checkpoints(left: Results) -> str:
    """Say that there are no checkpoints. If a file looks like one, say how it would have to be
    called.
    """
    weights = [path for path in paths_below(left) if may_hold_weights(path)]
    if not weights:
        return "no checkpoints"
    newest = PurePosixPath(weights[-1])
    return (
        f"no checkpoints: {show.one_line(newest.name)} has no name of one, such as "
        f"model_epoch_003{newest.suffix}, and lies in no folder checkpoints/"
    )


def paths_below(left: Results) -> list[str]:
    return [below(file.path, left.dir) for file in left.files]


def choice_line(left: Results, checkpoint: Checkpoint, epoch: int | str) -> str:
    """`The best: accuracy 0.986 at epoch 19.`: the choice that a word made; "" for the number of an
    epoch.
    """
    if isinstance(epoch, int):
        return ""
    if epoch == "best":
        return f"The best: {best_so_far(left) or best_value(left) or 'its name says so'}."
    return f"The newest that is whole: {training_place(left, checkpoint)}."


def training_place(left: Results, checkpoint: Checkpoint) -> str:
    """`epoch 20` or `step 500` of a checkpoint, as the job's log counts them; else its name."""
    number = left.shown_epoch(checkpoint)
    if number is not None:
        return f"epoch {number}"
    if checkpoint.step is not None:
        return f"step {checkpoint.step}"
    return show.one_line(below(checkpoint.path, left.dir))


def why_none(left: Results, word: str) -> str:
    """A sentence that says why there is no best or no newest whole checkpoint."""
    if not left.checkpoints:
        return f"The job has {no_checkpoints(left)}."
    if word != "best" and any(checkpoint.complete for checkpoint in left.checkpoints):
        return "Those that are whole are exported: no training can go on from them."
    if word != "best":
        return f"{show.known_whole(left.checkpoints)}."
    reason = why_no_best(left)
    return f"{reason[0].upper()}{reason[1:]}."


def newest_line(left: Results) -> str:
    """The newest whole checkpoint. If there are checkpoints and none is known to be whole: the job
    ended, or was looked at last, too soon after they were written.
    """
    newest = show.path(left.newest) if left.newest else "-"
    checkpoints = left.checkpoints
    if not checkpoints or any(checkpoint.complete for checkpoint in checkpoints):
        return f"newest   {newest}"
    return f"newest   {newest}  ({show.known_whole(checkpoints)})"


def progress_line(left: Results) -> list[str]:
    """The progress of the job, as of now."""
    if not left.progress.is_counted:
        return []
    head = f"{left.progress.unit:<8} {show.epoch(left.progress)}"
    return ["  ".join([head, *show.metrics(left.progress)])]


def missing_results(left: Results) -> list[str]:
    """The results that were not sent when the job was over, a line each."""
    if left.unsent:
        first, *rest = show.first_lines(left.unsent)
        return [f"not sent {first}", *(f"         {line}" for line in rest)]
    if left.lost:
        return [f"not kept {show.one_line(left.lost)}"]
    return []


def unreadable_lines(left: Results) -> list[str]:
    return [f"not read {show.path(path)}: no right to look into it" for path in left.unreadable]


def checkpoint_lines(left: Results) -> list[str]:
    """Every checkpoint with its state, below a line that counts them."""
    checkpoints = left.checkpoints
    if not checkpoints:
        return []
    names = [below(checkpoint.path, left.dir) for checkpoint in checkpoints]
    width = max(map(len, names))
    rows = [
        f"  {name:<{width}}  {format_size(checkpoint.size):>8}  {WHOLE[checkpoint.complete]}"
        for name, checkpoint in zip(names, checkpoints, strict=True)
    ]
    return [f"{show.plural(len(checkpoints), 'checkpoint')}:", *rows]


def below(path: str, folder: str) -> str:
    return path.removeprefix(f"{folder.rstrip('/')}/")


def checkpoint_line(checkpoint: Checkpoint) -> str:
    """One checkpoint alone: its path, its size, and if it is whole."""
    return f"{show.path(checkpoint.path)}  {state_of(checkpoint)}"


def state_of(checkpoint: Checkpoint) -> str:
    """`12.3 kB  whole`."""
    return f"{format_size(checkpoint.size)}  {WHOLE[checkpoint.complete]}"


def unsure_lines(left: Results) -> list[str]:
    """Say why a checkpoint of an ended job is not known to be whole, and what a further attempt
    does with it.
    """
    if all(checkpoint.complete for checkpoint in left.checkpoints):
        return []
    return [
        "A job that was cut off may have left half of what it wrote in its last "
        f"{SETTLED:.0f} seconds.",
        "tao retry gives the newest whole checkpoint to a spec with a resume key; any other job "
        "begins anew.",
    ]


def failed_end_lines(failure: str, left: Results) -> list[str]:
    """Report a program that failed after it was told to end, and the last checkpoint that is
    whole.
    """
    head = f"The program failed while it was ending: {show.one_line(failure)}"
    if left.newest:
        return [head, f"Last whole checkpoint: {show.path(left.newest)}"]
    if left.checkpoints:
        return [head, f"{show.known_whole(left.checkpoints)}."]
    return [head]


def fetch_lines(job: Job, left: Results, fetch: Path | None) -> list[str]:
    """The place of the results here, if they are here; else how to copy those on another
    machine.
    """
    if fetch is not None:
        return [f"here     {show.path(str(fetch)).rstrip('/')}/"]
    if job.results_at and left.files:
        return [f"fetch    tao results {job.id} --fetch runs/{job.id}"]
    return []
