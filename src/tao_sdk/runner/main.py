"""Run a job, from its document to its exit code.

The second half is imported once the command has begun, so that the command does not wait for it.
"""

from __future__ import annotations

import os

from tao_sdk.net.failure import Failure
from tao_sdk.runner.first_half import FirstHalf
from tao_sdk.runner.report import OWN_FAILURE, Report, Stopped, secrets_of
from tao_sdk.runner.results_folder import ResultsFolder
from tao_sdk.runner.signals import Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.runner.document import Document


def main(document: Document, blobs: list[bytes], env: Mapping[str, str]) -> int:
    """Run the job, and return the exit code of this process. Every error is reported before it
    ends.
    """
    report = Report(secrets_of(env))
    results = ResultsFolder(env, document["job_id"])
    signals = Signals(results)
    try:
        job = FirstHalf(document, results, report, signals, env)
        job.run(blobs)
        from tao_sdk.runner.second_half import SecondHalf

        return SecondHalf(job).run()
    except Failure as failure:
        report.tell_failure(failure)
    except Stopped as stopped:
        report.tell_event(
            "ended", exit_code=128 + stopped.signal, signal=int(stopped.signal), seconds=0
        )
        return 128 + stopped.signal
    except Exception as error:  # noqa: BLE001  the end of the process: no caller would see it
        from tao_sdk.runner.trouble import crash_failure

        report.tell_failure(crash_failure(error))
    signals.kill_command()
    return OWN_FAILURE


def open_standard_streams() -> None:
    """Open the standard streams that the job's starter closed, so that none of our own files gets
    their numbers.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def start(document: Document, blobs: list[bytes], locale: str) -> None:
    """The entry point in the job. `locale` is empty if LC_CTYPE was not set. Python sets it then,
    so it is removed from the job's environment.
    """
    open_standard_streams()
    env = dict(os.environ)
    if not locale:
        env.pop("LC_CTYPE", None)
    code = main(document, blobs, env)
    os._exit(code)
