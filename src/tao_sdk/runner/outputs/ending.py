"""How the command ended, and what follows for its last files: whole, or perhaps cut off."""

from __future__ import annotations

FAILED = 1  # the code of an uncaught error in most languages; who stops on purpose can take another
# seconds without a change before a command that failed: what is younger may have been cut off
SETTLED = 5.0
OUTLIVED = 0.05  # seconds after being told to end: who still writes then has not been ended by it
TERMINATED = 143  # the code of SIGTERM, which asked for the end; those of other signals are crashes


class Ending:
    """The command's exit code, and when it ended; when it was told to end (0: it was not); whether
    it had to be killed.

    Times are those of the results' file system. `judged` is the code by which its files are judged
    (relay.py).
    """

    def __init__(
        self, exit_code: int, judged: int, ended: float, told: float = 0.0, killed: bool = False
    ) -> None:
        self.exit_code, self.judged = exit_code, judged
        self.ended, self.told_at, self.killed = ended, told, killed

    def vouches_for(self, written: float) -> bool:
        """Whether a file that was last written then is complete."""
        if not self.judged or written < self.ended - SETTLED:
            return True
        if not self.told_at or self.killed or self.judged == FAILED:
            return False
        return self.judged < 128 or (
            self.judged == TERMINATED and written > self.told_at + OUTLIVED
        )
