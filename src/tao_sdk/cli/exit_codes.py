"""Exit codes of the command: what they tell a script. docs/cli.md has the same table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tao_sdk.model import errors
from tao_sdk.model.status import Status

DONE = 0
FAILED = 1
WRONG = 2
NOT_FOUND = 3
UNREACHABLE = 4
TIMED_OUT = 5
CANCELED = 6
BUG = 70
UNWRITABLE = 74
DETACHED = 130
BROKEN_PIPE = 141

# The text for each in `tao --help`.
MEANINGS: Mapping[int, str] = {
    DONE: "The job is Complete, or the command did its work.",
    FAILED: "The job ended in Error.",
    WRONG: "Wrong usage, a refused job, or an error that doctor found.",
    NOT_FOUND: "No such job or path.",
    UNREACHABLE: "The platform could not be asked.",
    TIMED_OUT: "Timed out; the job goes on.",
    CANCELED: "The job is Canceled.",
    BUG: "An error of this program.",
    UNWRITABLE: "What is printed cannot be written, as to a full disk.",
    DETACHED: "Detached by Ctrl-C; the job goes on.",
    BROKEN_PIPE: "Nobody reads what is printed, as in `tao ls | head -1`.",
}

# The first class that fits decides.
OF_ERROR: tuple[tuple[type[errors.TaoError], int], ...] = (
    (errors.JobNotFound, NOT_FOUND),
    (errors.PathNotFound, NOT_FOUND),
    (errors.Unreachable, UNREACHABLE),
    (errors.WaitTimeout, TIMED_OUT),
)


def of_error(error: errors.TaoError) -> int:
    return next((code for kind, code in OF_ERROR if isinstance(error, kind)), WRONG)


def of_statuses(statuses: Iterable[Status]) -> int:
    """The exit code for several jobs: 1 if any is Error, else 6 if any is Canceled, else 0."""
    ended = set(statuses)
    if Status.ERROR in ended:
        return FAILED
    if Status.CANCELED in ended:
        return CANCELED
    return DONE
