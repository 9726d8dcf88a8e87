"""The first half of a job: files, inputs, spec, and the start of the command. Each stage is
reported; the first failure ends the job.
"""

from __future__ import annotations

import os
import time

from tao_sdk.net.failure import Failure
from tao_sdk.runner import private
from tao_sdk.runner.outputs.destination import in_bucket, is_explicit, make_places, make_writable
from tao_sdk.runner.process import Command
from tao_sdk.runner.template import fill_template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tao_sdk.runner.document import Document
    from tao_sdk.runner.outputs.bucket import Bucket
    from tao_sdk.runner.report import Report
    from tao_sdk.runner.results_folder import ResultsFolder
    from tao_sdk.runner.signals import Signals


class FirstHalf:
    """One attempt, from its files to the start of its command."""

    def __init__(
        self,
        document: Document,
        results: ResultsFolder,
        report: Report,
        signals: Signals,
        env: Mapping[str, str],
    ) -> None:
        self.document, self.results, self.report, self.signals = document, results, report, signals
        self.env = env
        self.values: dict[str, str] = {}
        self.tell_changed_inputs: Callable[[], object] = dict
        self.buckets: list[Bucket] = []
        self.ephemeral = False
        self.log = -1

    def run(self, blobs: list[bytes]) -> None:
        """Run every stage in turn, until the command has begun."""
        self.put_files(blobs)
        self.fetch_inputs()
        self.write_spec()
        self.start_command()
        self.command.let_it_begin()

    def put_files(self, blobs: list[bytes]) -> None:
        self.report.tell_stage("files")
        started = time.monotonic()
        self.prepare_results()
        if not self.document["files"]:
            return
        from tao_sdk.runner import files

        if self.starts_in_work():
            make_writable(self.results.work_folder, "The job's work folder")
            os.chdir(self.results.work_folder)
        size = files.write_files(self.document["files"], blobs)
        seconds = round(time.monotonic() - started, 3)
        rate = round(size / max(0.001, seconds))
        self.report.tell_event("fetched", what="files", bytes=size, seconds=seconds, rate=rate)

    def prepare_results(self) -> None:
        """Prepare the results folder. If it cannot be made and is not needed, use a private folder
        instead. Raises Failure if it is needed.
        """
        if not self.keeps_results():
            self.results.remote = ""
        sends = bool(self.results.remote) or any(map(in_bucket, self.document["outputs"]))
        try:
            make_writable(self.results.folder, "This job's results")
            with private.Unshared():
                make_writable(self.results.own_folder, "This job's results")
        except Failure as failure:
            if self.keeps_results() and not self.results.remote:
                raise
            if not sends:
                self.report.warn("results.unwritable", failure.what, failure.why, failure.next)
            self.results.make_private(kept=sends)
        self.place_copies()
        if sends:
            self.open_buckets()

    def place_copies(self) -> None:
        """Make the paths of the job's copies absolute, and note which are optional."""
        start = self.results.work_folder if self.starts_in_work() else os.getcwd()
        for copy in self.document["copies"]:
            copy["path"] = os.path.join(start, copy["path"])
        if self.document["copies"]:
            from tao_sdk.runner.outputs.brought import jobs_beside

            self.results.neighbours = jobs_beside(self.results)
            self.results.optional = frozenset(
                os.path.abspath(copy["path"])
                for copy in self.document["copies"]
                if copy["optional"]
            )

    def starts_in_work(self) -> bool:
        """True if the command starts in the job's own work folder, where its relative files are."""
        return not all(map(os.path.isabs, self.document["files"]))

    def open_buckets(self) -> None:
        """Open the buckets for the results before anything is fetched, so that a bucket that
        refuses results ends the job at once.
        """
        from tao_sdk.runner.outputs.bucket import SHARE, open_buckets

        self.buckets = open_buckets(self.document, self.results, self.env, self.report.queue_event)
        self.report.tell_queued()
        self.signals.share = 1 - SHARE

    def keeps_results(self) -> bool:
        """True if the job has results whose path is ours to choose."""
        placed = all(
            is_explicit(output) or in_bucket(output) for output in self.document["outputs"]
        )
        return bool(self.document["copies"]) or not placed

    def fetch_inputs(self) -> None:
        self.report.tell_stage("inputs")
        if self.document["inputs"]:
            from tao_sdk.runner.inputs import fetch

            mount = self.document["mount_path"]
            self.values, self.tell_changed_inputs = fetch.fetch_inputs(
                self.document["inputs"], self.results, mount, self.env, self.report
            )

    def write_spec(self) -> None:
        self.report.tell_stage("spec")
        self.values.update(make_places(self.document["outputs"], self.results))
        if self.document["copies"]:
            from tao_sdk.runner.outputs.brought import make_folders
            from tao_sdk.runner.outputs.older_record import note_older_files

            self.results.older_files = note_older_files(self.document["copies"], self.results)
            make_folders(self.document["copies"])
        if self.document["resume"] and self.results.resume:
            from tao_sdk.runner.outputs import resume

            self.values.update(
                resume.resume_values(self.document, self.results, self.buckets, self.report)
            )
        if self.document["spec"]:
            from tao_sdk.runner import spec

            path = spec.write_spec(
                self.document["spec"], self.values, self.results.folder, self.document["format"]
            )
            self.values["{config_path}"] = path

    def start_command(self) -> None:
        self.ephemeral = not self.results.kept and self.keeps_results()
        if self.ephemeral:
            from tao_sdk.runner.trouble import warn_ephemeral

            warn_ephemeral(self.results.folder, self.report)
        self.report.tell_stage("command")
        self.report.alone = False
        self.started = time.monotonic()
        self.command = Command(self.command_text(), self.report, self.signals)
        self.log = self.open_log()
        self.command.start({**self.env, "TAO_RESULTS_DIR": self.results.folder})

    def command_text(self) -> str:
        try:
            return fill_template(self.document["command"], self.values)
        except ValueError as error:
            from tao_sdk.runner.trouble import no_word

            raise no_word(str(error)) from error

    def open_log(self) -> int:
        """Open the log file for the command's output. -1 if no results are kept, or, with a
        warning, if it cannot be written.
        """
        if self.results.nobodys:
            return -1
        try:
            for bucket in self.buckets[-1:] if self.results.remote else ():
                bucket.fetch_log()
            self.results.set_aside_log()
            return os.open(
                self.results.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            from tao_sdk.runner.trouble import unkept_log

            what = f"The log cannot be kept: {self.results.log_path}"
            self.report.tell_event("warning", **unkept_log(what, f"{error.strerror}."))
            return -1
