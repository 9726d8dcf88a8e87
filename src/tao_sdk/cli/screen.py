"""The screen of a running job: what is known of it, as lines of styled text. Pure: bytes and jobs in, lines out.

Here: Scene, and how it is drawn at any width. Not here: where the bytes come from and where the lines go (watching.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tao_sdk.cli import show
from tao_sdk.cli.output import printable
from tao_sdk.model.curve_plot import curve_text
from tao_sdk.model.errors import sentences
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress, richer
from tao_sdk.model.progress_reader import ProgressReader
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_clock, format_size
from tao_sdk.runner.events import Event, EventFilter

if TYPE_CHECKING:
    from tao_sdk.model.checkpoints import Checkpoint

Span = tuple[str, str]  # text, style
Line = list[Span]

BAR = 22  # cells
LEAST_BAR = 6
PATHS = 3  # of a warning that are named
CURVE_HEIGHT, CURVE_WIDTH = 24, 60  # of a terminal on which the curve grows
WIDEST_CURVE = 96
LEAVE = "  Ctrl-C detaches, the job goes on"
TAIL = 6  # last lines of the log that are kept to be shown
TOLD_SECONDS = 10.0  # between two lines about a transfer, where lines are printed
SETTLED_SECONDS = 1.0  # an epoch that says nothing new for so long is told
LONGEST_LINE = 2000  # bytes of an unfinished line that are kept

# The runner's stages that people care about -> what they are called. "command" is the job's own work.
SAVING = "saving outputs"
STAGES = {"files": "files", "inputs": "inputs", "command": "running", "outputs": "outputs"}


@dataclass
class Scene:
    """What is known of a running job. `see` takes its log as it comes, event lines included."""

    job: Job
    stages: dict[str, str] = field(default_factory=dict[str, str])  # the stage -> its size, once known
    stage: str = ""
    moving: dict[str, str] = field(default_factory=dict[str, str])  # the stage -> how far its transfer is
    awaited: str = ""  # the server that does not answer
    warnings: list[str] = field(default_factory=list[str])
    tail: deque[str] = field(default_factory=lambda: deque[str](maxlen=TAIL))
    attempt: int = 1
    began: float = 0.0  # by the same steady clock as `at` below
    told: float = 0.0  # when the time left was last told
    _events: EventFilter = field(default_factory=EventFilter)
    _reader: ProgressReader = field(default_factory=ProgressReader)
    _open_line: bytes = b""

    @property
    def progress(self) -> Progress:
        return richer(self._reader.progress, show.progress_of(self.job))

    def see(self, chunk: bytes, at: float | None = None) -> list[Progress]:
        """Take a piece of the log; a Progress for each epoch that it speaks of."""
        own, events = self._events.feed(chunk)
        for event in events:
            self._tell(event)
        self._keep_tail(own)
        epochs = self._reader.feed(own, at)
        self.told = at if epochs and at is not None else self.told
        return epochs

    def end(self, at: float | None = None) -> list[Progress]:
        """No more of the log will come."""
        own = self._events.close() + b"\n"
        self._keep_tail(own)
        return self._reader.feed(own, at)

    @property
    def hears_epochs(self) -> bool:
        """Whether the log tells how far the training is; else the job's status file may."""
        return self._reader.progress.epoch > 0

    def look(self, job: Job) -> list[Progress]:
        """Take what is known of the job now, and what it adds to the log. A new attempt starts from its first stage."""
        if job.attempt != self.job.attempt:
            self.stages, self.moving, self.awaited = {}, {}, ""
            self.stage, self.attempt = "", job.attempt
        before, self.job = self.progress, job
        return [self.progress] if not self.hears_epochs and self.progress.epoch > before.epoch else []

    def _tell(self, event: Event) -> None:
        self.awaited = ""  # whatever comes after it
        if event.name == "stage":
            self._enter(str(event.facts.get("stage")))
        elif event.name in ("fetched", "sent"):
            size = format_size(float(event.facts.get("bytes") or 0))
            self._moved(str(event.facts.get("what")), size)
        elif event.name == "waiting" and "host" in event.facts:
            host = printable(str(event.facts["host"]))
            self.awaited = f"waiting for {host}, which does not answer" * (self.stage != "command")
        elif event.name == "waiting":
            self.moving["inputs"] = f"waiting for another job that fetches {printable(str(event.facts.get('what')))}"
        elif event.name == "transfer" and event.facts.get("stage") in STAGES:
            self.moving[str(event.facts["stage"])] = transfer(event.facts)
        elif event.name in ("warning", "failed"):
            self.warnings.append(warning(event.facts))

    def _moved(self, stage: str, size: str) -> None:
        """The transfer of a stage is over; a stage of another name is nobody's."""
        if stage in STAGES:
            self.stages[stage] = size
            self.moving.pop(stage, None)

    def _enter(self, stage: str) -> None:
        self.stage = stage
        if stage == "files":  # the first of an attempt
            self.stages.clear()
        if stage in STAGES and (stage == "command" or self._declared(stage)):
            self.stages.setdefault(stage, "")

    def _declared(self, stage: str) -> bool:
        return bool(self.job.spec.get(stage))

    def _keep_tail(self, data: bytes) -> None:
        *whole, self._open_line = (self._open_line + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._open_line = self._open_line[-LONGEST_LINE:]
        lines = (line.decode("utf-8", "replace").rstrip() for line in whole[-TAIL * 4 :])
        self.tail.extend(printable(line) for line in lines if line)


def warning(facts: Mapping[str, Any]) -> str:
    """What, why and next; with the first of the paths that it speaks of."""
    paths = [str(path) for path in facts.get("paths") or ()]
    named = "; ".join(paths[:PATHS]) + (f"; and {len(paths) - PATHS} more" if len(paths) > PATHS else "")
    return printable(sentences(*(str(facts.get(part) or "") for part in ("what", "why", "next")), named))


def transfer(facts: Mapping[str, Any]) -> str:
    """`1.2 GB of 4.0 GB  85.0 MB/s  ETA 0:33`, as far as it is known."""
    total, left = facts.get("total_bytes") or 0, facts.get("eta")
    words = [format_size(facts.get("bytes") or 0) + (f" of {format_size(total)}" if total > 0 else "")]
    words += [f"{format_size(facts['rate'])}/s"] if facts.get("rate") else []
    words += [f"ETA {format_clock(left)}"] if left is not None and left >= 0 else []
    return "  ".join(words)


def text_of(line: Iterable[Span]) -> str:
    return "".join(text for text, _ in line)


def fit(line: Line, width: int) -> Line:
    """The line, cut at the edge of the screen."""
    room, fitted = width, list[Span]()
    for text, style in line:
        fitted.append((text if len(text) <= room else text[: max(room - 1, 0)] + "…" * (room > 0), style))
        room -= len(text)
        if room <= 0:
            break
    return fitted


def header(scene: Scene, width: int) -> Line:
    """`digits-7f3k2q9d1x  local  ▸ inputs 0.3 MB  ▸ running`; where there is no room for all, the stages that are over go."""
    line: Line = [(scene.job.id, "bold"), (f"  {scene.job.place}", "dim")]
    if scene.job.attempt > 1:
        line.append((f"  attempt {scene.job.attempt}", "yellow"))
    steps = [step(scene, stage, scene.moving.get(stage) or size) for stage, size in scene.stages.items()]
    if scene.awaited and not scene.job.status.terminal:
        steps.append([(f"  ▸ {scene.awaited}", "yellow")])
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
    reason = f"attempt {job.attempt + 1} follows" if job.waits_for_next_attempt else show.one_line(job.message)
    line: Line = [(f"  ▸ {word}", "yellow" if job.status in (Status.PENDING, Status.PAUSED) else "cyan")]
    return (
        [*line, (f"  {reason}", "dim")]
        if reason and job.status is not Status.RUNNING and reason.lower() != word
        else line
    )


def progress_line(progress: Progress, width: int) -> Line:
    """`epoch 14/20  loss 0.093  accuracy 0.957  ████░░  70 %  ETA 0:06`; what does not fit is left out, the bar first."""
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
    """A bar of `cells`, filled by eighths of a cell; none where it would be too short to tell anything."""
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

    Of a terminal of `height` lines, there is its curve where that has room, the time that it took, and how to leave.
    """
    lines = [
        fit(header(scene, width), width),
        *(fit([("  ! ", "yellow"), (text, "")], width) for text in scene.warnings[-2:]),
    ]
    ended = scene.job.status.terminal
    if scene.progress.epoch:
        lines += growing_curve(scene.progress, width, height) if not ended else []
        lines.append(fit(progress_line(counted_down(scene.progress, at - scene.told), width), width))
        return lines if ended or not height else [*lines, footer(scene, width, at, LEAVE)]
    if ended:
        return lines
    printed = [fit([("  ", ""), (line, "dim")], width) for line in scene.tail]
    return [*lines, *printed, footer(scene, width, at, LEAVE if height else "")]


def footer(scene: Scene, width: int, at: float, leave: str) -> Line:
    """`⠹ 0:42  Ctrl-C detaches, the job goes on`."""
    seconds = max(at - scene.began, 0)
    return fit([(f"{spinner(seconds)} {format_clock(seconds)}", "dim"), (leave, "dim")], width)


def growing_curve(progress: Progress, width: int, height: int) -> list[Line]:
    """The curve so far, on a screen that has room for it beside the rest."""
    if height < CURVE_HEIGHT or width < CURVE_WIDTH or len(progress.history) < 2:
        return []
    return [fit([("  ", ""), (line, "")], width) for line in curve_text(progress, min(width - 4, WIDEST_CURVE))]


def counted_down(progress: Progress, seconds: float) -> Progress:
    """The progress, with the time left less the `seconds` since it was told."""
    if progress.eta_seconds is None:
        return progress
    return replace(progress, eta_seconds=max(progress.eta_seconds - max(seconds, 0), 0))


def spinner(seconds: float) -> str:
    return "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(seconds * 8) % 10]


MARKS = {Status.COMPLETE: "✓", Status.ERROR: "✗", Status.CANCELED: "■"}
STYLES = {Status.COMPLETE: "green", Status.ERROR: "red", Status.CANCELED: "magenta"}


def final(job: Job, progress: Progress, checkpoints: Sequence[Checkpoint], width: int) -> list[Line]:
    """`✓ Complete in 0:21 · accuracy 0.972 · 20 checkpoints, best is epoch 17 (0.975)`; in several lines where it has to be."""
    facts = [f"{job.status} {'in' if job.status is Status.COMPLETE else 'after'} {format_clock(seconds_of(job))}"]
    if job.status is Status.ERROR and job.exit_code is not None:
        facts.append(f"exit code {job.exit_code}")
    facts += [text for text in show.metrics(progress)[-1:] if progress.epoch]
    unsure = job.status is not Status.COMPLETE and not all(each.complete for each in checkpoints)
    told = show.known_whole(checkpoints) if unsure else show.plural(len(checkpoints), "checkpoint") + best(progress)
    facts += [told] if checkpoints else []
    mark = (f"{MARKS.get(job.status, '?')} ", STYLES.get(job.status, ""))
    lines = [" · ".join(facts)] if len(" · ".join(facts)) + 2 <= width else facts
    return [[mark if not index else ("  ", ""), (text, "bold")] for index, text in enumerate(lines)]


def seconds_of(job: Job) -> float:
    end = job.ended or job.seen_at
    return max((end - (job.started or job.created)).total_seconds(), 0) if end else 0


def best(progress: Progress) -> str:
    """`, best is epoch 17 (0.975)`; the metric is named where the line does not end with that one."""
    best = progress.best
    if best is None:
        return ""
    name = (
        "" if show.metrics(progress)[-1:] and show.metrics(progress)[-1].startswith(f"{best.metric} ") else best.metric
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
        self.entered: dict[tuple[int, str], float] = {}  # when a stage whose size is not known yet began
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
        yield f"{scene.job.id}  {scene.job.place}" + (f"  attempt {scene.attempt}" if scene.attempt > 1 else "")
        if scene.awaited:
            yield scene.awaited
        elif not scene.stages and not scene.job.status.terminal and not self._log_may_tell(scene, at):
            yield text_of(waiting(scene.job)).removeprefix("  ▸ ")
        for stage, size in scene.stages.items():
            if stage in scene.moving and at - self.moved.setdefault((scene.attempt, stage), at) > TOLD_SECONDS:
                self.moved[scene.attempt, stage] = at
                yield f"{STAGES[stage]} {scene.moving[stage]}"
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
