"""Failures and warnings about inputs."""

from __future__ import annotations

import os

from tao_sdk.net.failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.document import Input
    from tao_sdk.runner.report import Report


def unusable_failure(wanted: Input, path: str) -> Failure:
    """The Failure for an input that is missing or not readable."""
    if not os.path.exists(path):
        return missing_failure(wanted, path)
    return Failure(
        "input.unreadable",
        f"The input {wanted['key']} cannot be read: {path}",
        f"This job runs as user {os.geteuid()}, which may not read it.",
        "Give that user the right to read it, or run the job as another user.",
    )


def missing_failure(wanted: Input, path: str) -> Failure:
    above = path
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    dangling = os.path.islink(path)
    return Failure(
        "input.missing",
        f"The input {wanted['key']} is not there: {wanted['uri']}",
        f"{path} is a link to something that is not there."
        if dangling
        else f"Inside the job nothing is at {path}; the last folder that exists is {above}.",
        "Check the path, and that the folder it lies in is mounted into the job.",
    )


def warn_empty(wanted: Input, path: str, report: Report) -> None:
    report.warn(
        "input.empty",
        f"The input {wanted['key']} is an empty folder: {path}",
        "The folder is there, and nothing is in it: what should be mounted there may be missing.",
        "Check the path, and that its file system is mounted where the job runs.",
    )


def warn_changed(path: str, report: Report) -> None:
    what = f"The input {path} was changed while the command ran."
    why = "Where an input is a link, writing to its name changes it."
    report.warn("input.changed", what, why, "Save under another name.")
    report.log_warning(what)
