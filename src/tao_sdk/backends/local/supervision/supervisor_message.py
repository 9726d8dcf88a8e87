"""The message to the supervisor: a few numbers and the job's environment.

It goes through a pipe, so that no disk holds the environment. Each field ends with a NUL, which no
path and no variable can contain. The last field is a mark that shows that the message is complete.
Light on purpose: the supervisor imports it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WHOLE = b"\1whole"
SETTINGS = 7


class SupervisorMessage:
    """How to run the command of a folder."""

    def __init__(
        self,
        job: str,
        cwd: str,
        grace: float,
        time_limit: float,
        gpu_count: int,
        gpus: Sequence[str],
        locks: str,
        environment: Mapping[bytes, bytes],
    ) -> None:
        self.job, self.cwd, self.grace, self.time_limit = job, cwd, grace, time_limit
        self.gpu_count, self.gpus, self.locks, self.environment = (
            gpu_count,
            gpus,
            locks,
            environment,
        )

    @property
    def results(self) -> str:
        return os.fsdecode(self.environment.get(b"TAO_RESULTS_DIR", b""))

    def encode(self) -> bytes:
        numbers = (self.grace, self.time_limit, self.gpu_count)
        settings = [self.job, self.cwd, *map(repr, numbers), ",".join(self.gpus), self.locks]
        variables = [name + b"=" + value for name, value in self.environment.items()]
        return b"".join(field + b"\0" for field in [*map(os.fsencode, settings), *variables, WHOLE])

    @classmethod
    def decode(cls, message: bytes) -> SupervisorMessage | None:
        """Read a message. None if it is incomplete: its sender is gone, and nothing may start."""
        fields = message.split(b"\0")
        if fields[-2:] != [WHOLE, b""]:
            return None
        job, cwd, grace, time_limit, count, gpus, locks = map(os.fsdecode, fields[:SETTINGS])
        variables = [field.partition(b"=") for field in fields[SETTINGS:-2]]
        environment = {name: value for name, _, value in variables}
        return cls(
            job,
            cwd,
            float(grace),
            float(time_limit),
            int(count),
            [g for g in gpus.split(",") if g],
            locks,
            environment,
        )
