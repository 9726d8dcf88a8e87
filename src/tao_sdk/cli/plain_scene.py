"""The scene of a running job for a log: plain lines, each printed once.

Not here: the same scene on a terminal (screen.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tao_sdk.cli import show
from tao_sdk.cli.first_words import job_head
from tao_sdk.cli.screen import SAVING, STAGES, waiting_step
from tao_sdk.cli.styled_line import text_of
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.client.scene import Scene

TOLD_SECONDS = 10.0  # between two lines about a transfer
SETTLED_SECONDS = 1.0  # an epoch that says nothing new for so long is told
STEP_SECONDS = 3.0  # between the first two lines about steps
STEP_GROWTH = 1.5  # each further one comes so much later than the one before,
LONGEST_STEP_SECONDS = 60.0  # up to this


class PlainScene:
    """The scene for a log: one line per stage and per epoch, each once. Of a job that counts only
    steps, a line now and then.
    """

    def __init__(self, told_head: str = "") -> None:
        """`told_head` is the head line of the first attempt if it was printed before."""
        self.said: set[tuple[int, str]] = {(1, told_head)}
        self.attempt = 0
        self.epoch = 0  # the last of this attempt that was printed
        # (attempt, stage) -> when a stage of unknown size began
        self.entered: dict[tuple[int, str], float] = {}
        # (attempt, stage) -> when its transfer was last printed
        self.moved: dict[tuple[int, str], float] = {}
        self.held: Progress | None = None  # an epoch whose values may still change
        self.held_since = 0.0
        self.awaited: set[str] = set()  # names of the metrics that the epoch before had
        self.steps = StepTimes()

    def lines(self, scene: Scene, epochs: Iterable[Progress] = (), at: float = 0.0) -> list[str]:
        """The lines that are new since the last call. `at` is the time in seconds, by any steady
        clock.
        """
        new = self._last_of_attempt(scene.attempt)
        new += [line for line in self._scene_lines(scene, at) if self._is_new(scene.attempt, line)]
        for progress in epochs:
            new += self._held_line_before(progress)
            self.held, self.held_since = progress, at
        if self.held and (scene.job.status.terminal or self._is_settled(self.held, at)):
            new += self._epoch_line(self.held)
        if self.steps.is_due(scene, at):
            new.append(progress_line(scene.progress))
        return new

    def _held_line_before(self, progress: Progress) -> list[str]:
        """The epoch that was held back, once a later epoch has come: it is settled then."""
        if self.held is None or progress.epoch <= self.held.epoch:
            return []
        self.awaited = set(own_metrics(self.held))
        return self._epoch_line(self.held)

    def _last_of_attempt(self, attempt: int) -> list[str]:
        """The last epoch of an attempt, once the next attempt follows. That one counts anew."""
        if attempt == self.attempt:
            return []
        lines = self._epoch_line(self.held) if self.held else []
        self.attempt, self.epoch = attempt, 0
        self.held, self.awaited = None, set()
        self.steps = StepTimes()
        return lines

    def _is_settled(self, progress: Progress, at: float) -> bool:
        """True when the epoch has all metrics of the epoch before, and nothing new for a while."""
        own = own_metrics(progress)
        if not own or self.awaited - own.keys() - {*progress.not_finite}:
            return False
        return progress.fraction == 1 or at - self.held_since > SETTLED_SECONDS

    def _scene_lines(self, scene: Scene, at: float) -> Iterator[str]:
        """All lines that the scene has now, printed or not."""
        yield head_line(scene)
        if scene.server_wait:
            yield scene.server_wait
        elif not (scene.stages or scene.job.status.terminal or self._log_may_tell(scene, at)):
            yield text_of(waiting_step(scene.job)).removeprefix("  ▸ ")
        for stage, size in scene.stages.items():
            yield from self._transfer_line(scene, stage, at)
            yield from self._stage_line(scene, stage, size, at)
        yield from (f"warning: {text}" for text in scene.warnings)

    def _transfer_line(self, scene: Scene, stage: str, at: float) -> Iterator[str]:
        """Yield the progress of the stage's transfer, from time to time."""
        if stage not in scene.transfers:
            return
        last_told = self.moved.setdefault((scene.attempt, stage), at)
        if at - last_told > TOLD_SECONDS:
            self.moved[scene.attempt, stage] = at
            yield f"{STAGES[stage]} {scene.transfers[stage]}"

    def _stage_line(self, scene: Scene, stage: str, size: str, at: float) -> Iterator[str]:
        """The stage with its size. Without a size, only once it takes long."""
        if size or stage == "command":
            yield f"{STAGES[stage]} {size}".rstrip()
            return
        began = self.entered.setdefault((scene.attempt, stage), at)
        if at - began > SETTLED_SECONDS:
            name = SAVING if stage == "outputs" else STAGES[stage]
            yield f"{name} ..."

    def _log_may_tell(self, scene: Scene, at: float) -> bool:
        """True for a job that has just been seen running: its log reports its stages itself, in
        order. True once it has reported progress: it is known to run.
        """
        if scene.job.status is not Status.RUNNING:
            return False
        if scene.progress.is_counted:
            return True
        return at - self.entered.setdefault((scene.attempt, ""), at) <= TOLD_SECONDS

    def _is_new(self, attempt: int, line: str) -> bool:
        known = (attempt, line) in self.said
        self.said.add((attempt, line))
        return not known

    def _epoch_line(self, progress: Progress) -> list[str]:
        if progress.epoch <= self.epoch:
            return []
        self.epoch = progress.epoch
        return [progress_line(replace(progress, metrics=own_metrics(progress)))]


class StepTimes:
    """When a step is told, of a job that names steps and no epochs: the first one at once, further
    ones ever more rarely, and the last.
    """

    def __init__(self) -> None:
        self.step: int | None = None  # the last that was told
        self.next_at = float("-inf")
        self.seconds = STEP_SECONDS

    def is_due(self, scene: Scene, at: float) -> bool:
        """True if the newest step is to be told now. It counts as told then."""
        step = scene.progress.step
        if step in (None, self.step) or (at < self.next_at and not scene.job.status.terminal):
            return False
        self.step, self.next_at = step, at + self.seconds
        self.seconds = min(self.seconds * STEP_GROWTH, LONGEST_STEP_SECONDS)
        return True


def progress_line(progress: Progress) -> str:
    """`epoch 3/20  loss 0.093`, `step 1200  loss 0.093`."""
    return "  ".join([f"{progress.unit} {show.epoch(progress)}", *show.metrics(progress)])


def head_line(scene: Scene) -> str:
    """`digits-7f3k2q9d1x  local`, with the attempt's number from the second on."""
    head = job_head(scene.job)
    if scene.attempt <= 1:
        return head
    return f"{head}  attempt {scene.attempt}"


def own_metrics(progress: Progress) -> dict[str, float]:
    """The metrics reported for the newest epoch itself, without values that an earlier epoch
    left.
    """
    if not progress.history or progress.history[-1].epoch != progress.epoch:
        return {}
    own = progress.history[-1].metrics
    return {name: value for name, value in own.items() if name in progress.metrics}
