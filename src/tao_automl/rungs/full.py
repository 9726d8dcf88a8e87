"""Full trainings: each trial runs once, as long as the spec says. No rungs."""

from __future__ import annotations

from tao_automl.rungs.step import New, Pause, Step
from tao_automl.state import Search


def next_step(search: Search) -> Step:
    """A new trial while there is room for one."""
    if search.has_room:
        return New()
    return Pause.DONE


def next_of_batch(search: Search) -> Step:
    """The same in batches: the next one starts when the last one has ended as a whole."""
    if not search.has_room:
        return Pause.DONE
    size = search.settings.concurrency
    started_in_batch = (len(search.trials)) % size
    if started_in_batch == 0 and search.running:
        return Pause.WAIT
    return New()
