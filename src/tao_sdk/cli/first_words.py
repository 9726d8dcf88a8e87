"""First words: the lines that `tao run` prints about its job while the platform still starts it.

Not here: the scene that follows them (plain_scene.py, screen.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tao_sdk.model.price import hourly_words

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.model.job import Job


def job_head(job: Job) -> str:
    """`digits-7f3k2q9d1x  local`, and what a rented place costs."""
    return "  ".join(filter(None, (job.id, job.place, hourly_words(job.price_per_hour))))


class FirstWords:
    """The head of a job, printed once the job is stored; the scene goes on from there."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self.told = ""  # the line as it was printed; "" until then

    def tell(self, job: Job) -> None:
        self.told = job_head(job)
        self._out.line(self.told)

    def tell_refused(self) -> None:
        """Say that the platform did not take the job, which is forgotten again."""
        if self.told:
            self._out.line("not started")

    def clear(self) -> None:
        """Clear the head for a live scene, which draws it itself."""
        if self.told:
            self._out.clear_line_above()
