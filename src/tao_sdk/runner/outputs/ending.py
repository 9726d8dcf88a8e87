"""How the command ended, and if its last files are complete or may be cut off."""

from __future__ import annotations

FAILED = 1  # exit code of an uncaught error in most languages; a deliberate stop can use another
# seconds before the end of a failed command; a younger file may be cut off
SETTLED = 5.0
OUTLIVED = 0.05  # seconds after a request to end; whoever writes later was not ended by it
TERMINATED = 143  # exit code for SIGTERM, the request to end; other signals' codes are crashes


class Ending:
    """The command's exit code, the time of its end, the time of the request to end (0: none), and
    `killed`: True if it had to be killed.

    Times are by the clock of the results' file system. `judged` is the code by which its files are
    judged (relay.py).
    """

    def __init__(
        self, exit_code: int, judged: int, ended: float, told: float = 0.0, killed: bool = False
    ) -> None:
        self.exit_code, self.judged = exit_code, judged
        self.ended, self.told_at, self.killed = ended, told, killed

    def vouches_for(self, written: float) -> bool:
        """True if a file that was last written at this time is complete."""
        if not self.judged or written < self.ended - SETTLED:
            return True
        if not self.told_at or self.killed or self.judged == FAILED:
            return False
        return self.judged < 128 or (
            self.judged == TERMINATED and written > self.told_at + OUTLIVED
        )
