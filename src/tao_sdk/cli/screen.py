"""The screen of a running job: its scene as lines of styled text, at any width. Pure: a scene in,
lines out.

Not here: what is known of the job (client/scene.py) and where the lines go (watching.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tao_sdk.cli import show
from tao_sdk.model.curve_plot import curve_text
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_clock

if TYPE_CHECKING:
    from tao_sdk.client.scene import Scene
    from tao_sdk.model.checkpoints import Checkpoint

Span = tuple[str, str]  # text, style
Line = list[Span]

BAR = 22  # cells
LEAST_BAR = 6
CURVE_HEIGHT, CURVE_WIDTH = 24, 60  # of a terminal on which the curve grows
WIDEST_CURVE = 96
LEAVE = "  Ctrl-C detaches, the job goes on"
TOLD_SECONDS = 10.0  # between two lines about a transfer, where lines are printed
SETTLED_SECONDS = 1.0  # an epoch that says nothing new for so long is told

# The stages of a scene -> what they are called. "command" is the job's own work.
SAVING = "saving outputs"
STAGES = {"files": "files", "inputs": "inputs", "command": "running", "outputs": "outputs"}


def text_of(line: Iterable[Span]) -> str:
    return "".join(text for text, _ in line)


def fit(line: Line, width: int) -> Line:
    """The line, cut at the edge of the screen."""
    room, fitted = width, list[Span]()
    for text, style in line:
        fitted.append(
            (text if len(text) <= room else text[: max(room - 1, 0)] + "…" * (room > 0), style)
        )
        room -= len(text)
        if room <= 0:
            break
    return fitted


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
    elif not steps and not scene.job.status.terminal:
        steps = [waiting(scene.job)]
    while len(steps) > 1 and length([*line, *flat(steps)]) > width:
        steps.pop(0)
    return [*line, *flat(steps)]


def step(scene: Scene, stage: str, size: str) -> Line:
    now = stage == scene.stage and not scene.job.status.terminal
    saving = now and stage == "outputs" and not scene.stages[stage]
    name = SAVING if saving else STAGES.get(stage, stage)
    return [(f"  ▸ {name}", "cyan" if now else ""), *([(f" {size}", "dim")] if size else [])]


def waiting(job: Job) -> Line:
    words = {Status.PENDING: "pending", Status.RUNNING: "running", Status.PAUSED: "paused"}
    word = words.get(job.status, job.status.value.lower())
    reason = (
        f"attempt {job.attempt + 1} follows"
        if job.waits_for_next_attempt
        else show.one_line(job.message)
    )
    line: Line = [
        (f"  ▸ {word}", "yellow" if job.status in (Status.PENDING, Status.PAUSED) else "cyan")
    ]
    return (
        [*line, (f"  {reason}", "dim")]
        if reason and job.status is not Status.RUNNING and reason.lower() != word
        else line
    )


def progress_line(progress: Progress, width: int) -> Line:
    """`epoch 14/20  loss 0.093  accuracy 0.957  ████░░  70 %  ETA 0:06`; what does not fit is left
    out, the bar first.
    """
    head: Line = [("epoch ", "dim"), (show.epoch(progress), "bold")]
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
    if progress.fraction is None:
        return []
    eta = (
        [(f"  ETA {format_clock(progress.eta_seconds)}", "dim")]
        if progress.eta_seconds is not None and progress.fraction < 1
        else []
    )
    return [(f"  {progress.fraction * 100:3.0f} %", "bold"), *eta]


def bar(fraction: float | None, cells: int) -> Line:
    """A bar of `cells`, filled by eighths of a cell; none where it would be too short to tell
    anything.
    """
    if fraction is None or cells < LEAST_BAR:
        return []
    eighths = round(fraction * cells * 8)
    full = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return [("  ", ""), (full, "green"), ("░" * (cells - len(full)), "dim")]


def flat(lines: Sequence[Line]) -> Line:
    return [span for line in lines for span in line]


def length(line: Line) -> int:
    return len(text_of(line))


def drawn(scene: Scene, width: int, at: float, height: int = 0) -> list[Line]:
    """The whole screen: where the job is, how far it is, and until it tells that, what it prints.

    Of a terminal of `height` lines, there is its curve where that has room, the time that it took,
    and how to leave.
    """
    lines = [
        fit(header(scene, width), width),
        *(fit([("  ! ", "yellow"), (text, "")], width) for text in scene.warnings[-2:]),
    ]
    ended = scene.job.status.terminal
    if scene.progress.epoch:
        lines += growing_curve(scene.progress, width, height) if not ended else []
        lines.append(
            fit(progress_line(counted_down(scene.progress, at - scene.epoch_at), width), width)
        )
        return lines if ended or not height else [*lines, footer(scene, width, at, LEAVE)]
    if ended:
        return lines
    printed = [fit([("  ", ""), (line, "dim")], width) for line in scene.log_tail]
    return [*lines, *printed, footer(scene, width, at, LEAVE if height else "")]


def footer(scene: Scene, width: int, at: float, leave: str) -> Line:
    """`⠹ 0:42  Ctrl-C detaches, the job goes on`."""
    seconds = max(at - scene.began_at, 0)
    return fit([(f"{spinner(seconds)} {format_clock(seconds)}", "dim"), (leave, "dim")], width)


def growing_curve(progress: Progress, width: int, height: int) -> list[Line]:
    """The curve so far, on a screen that has room for it beside the rest."""
    if height < CURVE_HEIGHT or width < CURVE_WIDTH or len(progress.history) < 2:
        return []
    return [
        fit([("  ", ""), (line, "")], width)
        for line in curve_text(progress, min(width - 4, WIDEST_CURVE))
    ]


def counted_down(progress: Progress, seconds: float) -> Progress:
    """The progress, with the time left less the `seconds` since it was told."""
    if progress.eta_seconds is None:
        return progress
    return replace(progress, eta_seconds=max(progress.eta_seconds - max(seconds, 0), 0))


def spinner(seconds: float) -> str:
    return "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(seconds * 8) % 10]


MARKS = {Status.COMPLETE: "✓", Status.ERROR: "✗", Status.CANCELED: "■"}
STYLES = {Status.COMPLETE: "green", Status.ERROR: "red", Status.CANCELED: "magenta"}


def final(
    job: Job, progress: Progress, checkpoints: Sequence[Checkpoint], width: int
) -> list[Line]:
    """`✓ Complete in 0:21 · accuracy 0.972 · 20 checkpoints, best is epoch 17 (0.975)`; in several
    lines where it has to be.
    """
    facts = [
        (
            f"{job.status} {'in' if job.status is Status.COMPLETE else 'after'} "
            f"{format_clock(seconds_of(job))}"
        )
    ]
    if job.status is Status.ERROR and job.exit_code is not None:
        facts.append(f"exit code {job.exit_code}")
    facts += [text for text in show.metrics(progress)[-1:] if progress.epoch]
    unsure = job.status is not Status.COMPLETE and not all(each.complete for each in checkpoints)
    told = (
        show.known_whole(checkpoints)
        if unsure
        else show.plural(len(checkpoints), "checkpoint") + best(progress)
    )
    facts += [told] if checkpoints else []
    mark = (f"{MARKS.get(job.status, '?')} ", STYLES.get(job.status, ""))
    lines = [" · ".join(facts)] if len(" · ".join(facts)) + 2 <= width else facts
    return [[mark if not index else ("  ", ""), (text, "bold")] for index, text in enumerate(lines)]


def seconds_of(job: Job) -> float:
    end = job.ended or job.seen_at
    return max((end - (job.started or job.created)).total_seconds(), 0) if end else 0


def best(progress: Progress) -> str:
    """`, best is epoch 17 (0.975)`; the metric is named where the line does not end
    with that one.
    """
    best = progress.best
    if best is None:
        return ""
    name = (
        ""
        if show.metrics(progress)[-1:] and show.metrics(progress)[-1].startswith(f"{best.metric} ")
        else best.metric
    )
    return f", best is epoch {best.epoch} ({f'{name} {show.number(best.value)}'.strip()})"


def places(found: Sequence[tuple[str, str]], width: int | None) -> list[Line]:
    """`  results  runs/x/      curve  runs/x/curve.svg`: in one line where there is room."""
    pairs: list[Line] = [[(f"{name}  ", "dim"), (path, "")] for name, path in found]
    one = flat([[("  " if not index else "      ", ""), *pair] for index, pair in enumerate(pairs)])
    if width is None or length(one) <= width:
        return [one] if pairs else []
    return [[("  ", ""), *pair] for pair in pairs]


class Plain:
    """The scene for a log: one line per stage and per epoch, each once."""

    def __init__(self) -> None:
        self.said: set[tuple[int, str]] = set()
        self.epoch = 0  # the last that was printed
        self.entered: dict[
            tuple[int, str], float
        ] = {}  # when a stage whose size is not known yet began
        self.moved: dict[tuple[int, str], float] = {}  # when the transfer of a stage was last told
        self.held: Progress | None = None  # an epoch whose values may still change
        self.since = 0.0

    def lines(self, scene: Scene, epochs: Iterable[Progress] = (), at: float = 0.0) -> list[str]:
        """What is new since the last call. `at` is the time in seconds, by any steady clock."""
        new = [line for line in self._stages(scene, at) if self._first(scene.attempt, line)]
        for progress in epochs:
            if self.held and progress.epoch > self.held.epoch:
                new += self._epoch(self.held)
            self.held, self.since = progress, at
        if self.held and (scene.job.status.terminal or self._settled(self.held, at)):
            new += self._epoch(self.held)
        return new

    def _settled(self, progress: Progress, at: float) -> bool:
        """True when the epoch has told its own metrics, and nothing new for a while."""
        own = bool(progress.history) and progress.history[-1].epoch == progress.epoch
        return own and (progress.fraction == 1 or at - self.since > SETTLED_SECONDS)

    def _stages(self, scene: Scene, at: float) -> Iterable[str]:
        yield f"{scene.job.id}  {scene.job.place}" + (
            f"  attempt {scene.attempt}" if scene.attempt > 1 else ""
        )
        if scene.server_wait:
            yield scene.server_wait
        elif (
            not scene.stages and not scene.job.status.terminal and not self._log_may_tell(scene, at)
        ):
            yield text_of(waiting(scene.job)).removeprefix("  ▸ ")
        for stage, size in scene.stages.items():
            if (
                stage in scene.transfers
                and at - self.moved.setdefault((scene.attempt, stage), at) > TOLD_SECONDS
            ):
                self.moved[scene.attempt, stage] = at
                yield f"{STAGES[stage]} {scene.transfers[stage]}"
            if size or stage == "command":
                yield f"{STAGES[stage]} {size}".rstrip()
            elif at - self.entered.setdefault((scene.attempt, stage), at) > SETTLED_SECONDS:
                yield f"{SAVING if stage == 'outputs' else STAGES[stage]} ..."
        yield from (f"warning: {text}" for text in scene.warnings)

    def _log_may_tell(self, scene: Scene, at: float) -> bool:
        """A job that has just been seen running tells its stages itself, in their order."""
        if scene.job.status is not Status.RUNNING:
            return False
        return at - self.entered.setdefault((scene.attempt, ""), at) <= TOLD_SECONDS

    def _first(self, attempt: int, line: str) -> bool:
        known = (attempt, line) in self.said
        self.said.add((attempt, line))
        return not known

    def _epoch(self, progress: Progress) -> list[str]:
        if progress.epoch <= self.epoch:
            return []
        self.epoch = progress.epoch
        return ["  ".join([f"epoch {show.epoch(progress)}", *show.metrics(progress)])]
