"""Failures and warnings of the runner. A job without trouble does not import this before its
command has started.
"""

from __future__ import annotations

import os

from tao_sdk.net.failure import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from tao_sdk.runner.report import Report


def crash_failure(error: BaseException) -> Failure:
    """The Failure for an unexpected error: its place, without the values that it may quote."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f"{file_of(trace.tb_frame)} line {trace.tb_lineno}" if trace else ""
    why = type(error).__name__
    if isinstance(error, OSError):
        why += f": {os.strerror(error.errno or 0)}"
    return Failure(
        "runner.crashed",
        f"The runner failed at {where}.",
        why,
        "Report this, with the job's events.",
    )


def file_of(frame: FrameType) -> str:
    """The source file of a frame's code, made from the module's name if boot.py loaded it."""
    name: str = frame.f_globals["__name__"]
    path = frame.f_code.co_filename
    if path == "<string>":
        return f"<{name.replace('.', '/')}.py>"
    return path


def no_word(path: str) -> Failure:
    """The Failure for a path with special characters, at a placeholder in text that is parsed as
    code.
    """
    return Failure(
        "command.placeholder",
        f"The command cannot have the path {path!a} where its placeholder stands.",
        "Another program reads that text as code, and the path has more than letters, digits and "
        "@%+=:,./-_.",
        "Give it to that program as a word of its own: bash -c 'train \"$1\"' _ {x}.",
    )


def unkept_log(what: str, why: str) -> dict[str, str]:
    """The facts of the warning that the job's log file is not written."""
    return {
        "code": "log.unwritable",
        "what": what,
        "why": why,
        "next": "Free space there, or let the job's user write there.",
    }


def warn_ephemeral(folder: str, report: Report) -> None:
    report.warn(
        "output.ephemeral",
        lost_results(folder),
        "Neither TAO_RESULTS_ROOT nor S3_BUCKET_NAME is set.",
        "Mount a folder at /results, or set TAO_RESULTS_ROOT to a mounted one.",
    )


def lost_results(folder: str) -> str:
    return (
        f"RESULTS WILL BE LOST: {folder} is inside the container and is gone when the container is."
    )
