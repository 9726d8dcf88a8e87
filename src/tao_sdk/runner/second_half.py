"""The second half of a job: wait for its command, keep its results, end.

It is not imported before the command has started.
"""

from __future__ import annotations

import os
import time

from tao_sdk.net.failure import Failure
from tao_sdk.runner.outputs.destination import never_written
from tao_sdk.runner.outputs.keep import Keeper
from tao_sdk.runner.relay import Relay, exit_code
from tao_sdk.runner.report import OWN_FAILURE
from tao_sdk.runner.trouble import lost_results, warn_ephemeral

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.first_half import FirstHalf
    from tao_sdk.runner.outputs.keep import Destination

FULL = 1024 * 1024  # bytes; a disk with less free space counts as full


class SecondHalf:
    """The rest of a job whose command has started."""

    def __init__(self, job: FirstHalf) -> None:
        self.job, self.results, self.report = job, job.results, job.report
        self.relay = Relay(job.command, job.log)
        self.keeper: Keeper | None = None

    def run(self) -> int:
        """Run every further stage in turn, and return the exit code of this process."""
        self.start_keeping()
        code = self.wait_for_command()
        self.job.tell_changed_inputs()
        if not self.keep_outputs(code):
            return code or OWN_FAILURE
        self.report.tell_stage("done")
        return code

    def start_keeping(self) -> None:
        """Start to keep the results up to date, if they are kept at all."""
        if self.results.nobodys:
            return
        destinations: list[Destination] = [*self.job.buckets]
        if not self.results.remote:
            from tao_sdk.runner.outputs.folder import Folder

            destinations.insert(0, Folder(self.job.document, self.results))
        self.keeper = Keeper(destinations, self.results, self.report, self.job.signals)
        self.keeper.start(self.relay.wake_up)

    def wait_for_command(self) -> int:
        """Wait for the command, report its end, and return its exit code."""
        status = self.relay.run()
        self.judged = self.relay.judge_code()
        # 0 stays hidden: commands that the shell never ran would count as done
        code = self.judged or exit_code(status)
        signal = os.WTERMSIG(status)  # 0 if it exited
        seconds = round(time.monotonic() - self.job.started, 3)
        full = full_folders(self.results.folder) if code else []
        more = {"full": ", ".join(full)} if full else {}
        self.report.tell_event("ended", exit_code=code, signal=signal, seconds=seconds, **more)
        if self.job.ephemeral:
            warn_ephemeral(self.results.folder, self.report)
            self.report.log_warning(lost_results(self.results.folder))
        return code

    def keep_outputs(self, code: int) -> bool:
        """Keep the command's results, however it ended. False if that failed."""
        self.report.tell_stage("outputs")
        if not code and not self.results.rank:
            self.warn_missing()
        try:
            if self.keeper:
                self.keeper.finish(code, self.judged)
        except Failure as failure:
            self.report.tell_failure(failure)
            return False
        if self.results.private:
            self.results.remove_private()
        return True

    def warn_missing(self) -> None:
        """Warn about outputs that are still empty: the command may have written elsewhere."""
        for output in self.job.document["outputs"]:
            path = self.job.values[output["key"]]
            written = os.path.isfile(path) or any(
                folders or files for _, folders, files in os.walk(path)
            )
            if not written and not output["optional"]:
                self.report.queue_event("warning", **never_written(path))


def full_folders(results: str) -> list[str]:
    """The folders with full disks, among those that a command usually writes to."""
    folders = (results, os.environ.get("TMPDIR") or "/tmp", "/dev/shm")
    return [folder for folder in folders if free_bytes(folder) < FULL]


def free_bytes(folder: str) -> float:
    """The bytes free in a folder for this user; infinite if not known."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return float("inf")
    if disk.f_blocks:
        return disk.f_bavail * disk.f_frsize
    return float("inf")
