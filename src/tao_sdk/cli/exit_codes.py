"""Exit codes of the command: what a script can tell by them. docs/cli.md has the same table."""

from __future__ import annotations

from collections.abc import Iterable

from tao_sdk.model import errors
from tao_sdk.model.status import Status

DONE = 0  # the job is Complete, or the command did its work
FAILED = 1  # the job ended in Error
WRONG = 2  # wrong usage, a refused job, a missing credential, or an error that doctor found
NOT_FOUND = 3
UNREACHABLE = 4  # the backend could not be asked
TIMED_OUT = 5  # the job goes on
CANCELED = 6
BUG = 70  # an error of this program
DETACHED = 130  # Ctrl-C; the job goes on
BROKEN_PIPE = 141  # nobody reads what is printed, as in `tao ls | head -1`

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
    """Of several jobs: 1 if any is Error, else 6 if any is Canceled."""
    ended = set(statuses)
    if Status.ERROR in ended:
        return FAILED
    if Status.CANCELED in ended:
        return CANCELED
    return DONE
