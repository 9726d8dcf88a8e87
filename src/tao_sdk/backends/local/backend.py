"""LocalBackend: the verbs of the contract for jobs on this machine.

Here: making and removing folders, and starting the supervisor. Not here: the decisions (render.py,
parse.py).
"""

from __future__ import annotations

import json
import os
import secrets as random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_sdk.backends.contract import (
    Backend,
    CancelAnswer,
    Capabilities,
    LogChunk,
    LogRequest,
    MiB,
    cancel_one,
)
from tao_sdk.backends.job_environment import grace_text, revealed
from tao_sdk.backends.local import logs, parse, render
from tao_sdk.backends.local import survey as look
from tao_sdk.backends.local.facts import LocalFacts
from tao_sdk.backends.local.job import input_links, sight
from tao_sdk.backends.local.job.ending import Ending, wait_for_all
from tao_sdk.backends.local.job.folder import Folder, create_file, take_lock
from tao_sdk.backends.local.news import LocalNews
from tao_sdk.backends.local.options import LocalOptions
from tao_sdk.backends.local.request import LocalRequest
from tao_sdk.backends.local.supervision.supervisor_message import SupervisorMessage
from tao_sdk.backends.local.supervision.supervisor_start import START_SECONDS, SupervisorStart
from tao_sdk.backends.outcome import json_object
from tao_sdk.backends.refusals import (
    elsewhere,
    missing_secret,
    must_live_at,
    must_look_at,
    no_value,
    still_runs,
)
from tao_sdk.backends.this_machine import LocalFiles, free_here, gpus_here, room_left, this_machine
from tao_sdk.model.errors import Refused, Unreachable, UsageError
from tao_sdk.model.finding import Finding
from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.model.units import format_size
from tao_sdk.store.private_files import make_folders
from tao_sdk.transports.process import NotStarted
from tao_sdk.transports.process_tree import RecentTree

if TYPE_CHECKING:
    from tao_sdk.model.activity import Activity
    from tao_sdk.model.diagnosis import Diagnosis, Evidence, NodeEvent
    from tao_sdk.model.machines import Machines

STALE_SECONDS = 600.0  # age after which leftovers of an interrupted submit or release are removed
MARGIN = timedelta(seconds=5)  # beyond the grace, for the end to become visible
PAYLOAD = 96 * MiB  # 64 MiB of files as text, and more: the command is a file here
FULL = 1 << 16  # bytes; a disk with less free space is full
LOOK = 0.02  # seconds between looks while waiting for a lock


FOLDER_ADVICE = "See that the job store's folder can be read and written: tao doctor local"


class LocalBackend(Backend[LocalOptions, LocalFacts, LocalRequest]):
    """Jobs as supervised process groups on this machine.

    Their folders are in `<state_dir>/local`.
    """

    platform = "local"
    capabilities = Capabilities(
        shared_filesystem=True,
        needs_image=False,
        poll_seconds=1.0,
        max_payload=PAYLOAD,
        unused_fields=render.UNUSED_FIELDS,
    )
    Options = LocalOptions

    def __init__(self, settings: Settings, state_dir: Path) -> None:
        self.settings = settings
        self.state_dir = state_dir
        self.home = state_dir / "local"
        self.aside = self.home / ".aside"
        self.endpoint = this_machine()
        self.trees = RecentTree()
        self.supervisors = SupervisorStart(str(self.home))

    def survey(self, job: PreparedJob, options: LocalOptions) -> LocalFacts:
        return look.survey(job, options, self.settings.environ, self.state_dir)

    def plan(
        self, job: PreparedJob, options: LocalOptions, facts: LocalFacts, attempt: Attempt
    ) -> Plan[LocalRequest]:
        return render.plan(job, options, facts, attempt)

    def machines(self, plan: Plan[LocalRequest]) -> Machines:
        from tao_sdk.model.machines import Machines

        gpus, unseen = gpus_here(self.settings.environ)
        results = look.nearest_folder(Path(plan.results_dir))
        return Machines(gpus, unseen, free=free_here(str(results)))

    def private_image_findings(self, plan: Plan[LocalRequest], registry: str) -> list[Finding]:  # noqa: ARG002
        """Return no findings: a local job uses no image."""
        return []

    def plan_again(
        self,
        last: Plan[LocalRequest],
        job: PreparedJob,  # noqa: ARG002  the last plan's request is sent again
        options: LocalOptions,  # noqa: ARG002
        attempt: Attempt,
    ) -> Plan[LocalRequest]:
        return render.plan_again(last, attempt, str(self.state_dir))

    def check(self, plan: Plan[LocalRequest], facts: LocalFacts) -> list[Finding]:
        return render.check(plan, facts)

    def request_from_json(self, data: Mapping[str, Any]) -> LocalRequest:
        return LocalRequest.from_json(data)

    def submit(self, plan: Plan[LocalRequest], secrets: Mapping[str, str]) -> Ref:
        message = supervisor_message(plan, secrets).encode()
        self.supervisors.prepare_server()
        try:
            self.stage(plan)
        except OSError as error:
            raise Refused(
                f"{error.filename or self.home}: {error.strerror}.",
                "The job's folder could not be made.",
                f"See that {self.home} is a folder of yours with space, or set TAO_SDK_STATE_DIR.",
            ) from error
        ref = self.find(plan.attempt)
        if ref is None:
            raise Refused(
                f"{plan.attempt.job_id} is the job of another store.",
                f"Its folder is {self.folder(plan.attempt).path}.",
                "Submit again: a new job gets an id of its own.",
            )
        if ref.ready:
            return ref
        self.claim_links(plan)
        return self.start(ref, message)

    def claim_links(self, plan: Plan[LocalRequest]) -> None:
        """Reserve the names of the job's inputs. Raises Refused if another live job uses one."""
        folder = self.folder(plan.attempt)
        try:
            input_links.claim_names(str(self.home), Path(folder.path).name, plan.request.links)
        except input_links.Taken as taken:
            self.discard(folder)
            raise Refused(
                f"The input {taken.target} is in use by {taken.job}, which has other data there.",
                "",
                f"Wait until {taken.job} has ended, or name another path for the input.",
            ) from taken

    def stage(self, plan: Plan[LocalRequest]) -> None:
        """Make the attempt's folder. It gets its name only once it is complete.

        An existing folder stays unchanged.
        """
        target = Path(self.folder(plan.attempt).path)
        if target.is_dir():
            return
        self.prepare_home()
        folder = self.aside / f"{target.name}.{random.token_hex(8)}"
        folder.mkdir(0o700)
        try:
            fill_folder(Folder(str(folder)), plan)
            folder.rename(target)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            if not target.is_dir():
                raise

    def prepare_home(self) -> None:
        """Make our folders, which nobody else can read, and remove old leftovers.

        Raises OSError, for example if a folder belongs to someone else.
        """
        for folder in (self.state_dir, self.home, self.aside):
            make_folders(folder)
        if self.home.is_symlink() or self.home.stat().st_uid != os.geteuid():
            raise PermissionError(0, "it is a link, or belongs to someone else", str(self.home))
        remove_stale(self.aside)

    def start(self, ref: Ref, message: bytes) -> Ref:
        """Start a supervisor for a folder that has none.

        If several are started, the first one that locks the folder stays. Raises Refused,
        Unreachable.
        """
        folder = self.folder(ref.attempt)
        try:
            self.supervisors.start_supervisor(folder.path, message)
        except NotStarted as error:
            if self.discard(folder):
                raise Refused(
                    "The job's supervisor could not be started.",
                    str(error).splitlines()[-1],
                    "What a job needs here: tao doctor local",
                ) from error
        except TimeoutError as error:
            advice = "The machine is busy: tao status finishes the start."
            raise Unreachable(str(error), "", advice) from error
        return self.ref(ref.attempt, self.see(ref)) or ref

    def find(self, attempt: Attempt, plan: Plan[LocalRequest] | None = None) -> Ref | None:  # noqa: ARG002
        folder = self.folder(attempt)
        try:
            seen = sight.Sight().see_folder(folder, "", attempt.number)
            return self.ref(attempt, seen)
        except OSError as error:
            raise Unreachable(f"{error.filename}: {error.strerror}.", "", FOLDER_ADVICE) from error

    def ref(self, attempt: Attempt, seen: parse.Seen) -> Ref | None:
        """The Ref of an attempt's folder. It is not ready while no supervisor has the folder.

        None if the folder is not there or belongs to another store.
        """
        folder = self.folder(attempt)
        record = json_object(folder.read_text("attempt"))
        if record is None or record.get("store_id") != attempt.store_id:
            return None
        has_begun = bool(seen.exit) or seen.process is not parse.Life.NEVER or seen.supervised
        return Ref(
            platform=self.platform,
            endpoint=self.endpoint,
            namespace="",
            native_id=Path(folder.path).name,
            unique_id=record["token"],
            attempt=attempt,
            ready=has_begun,
            step="" if has_begun else "staged",
            details={"job_dir": folder.path, "results_dir": record["results_dir"]},
        )

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        look = sight.Sight(self.trees)
        return {ref: self.observe_one(ref, look) for ref in refs}

    def news(self) -> LocalNews:
        return LocalNews(lambda ref: self.folder(ref.attempt))

    def observe_one(self, ref: Ref, look: sight.Sight) -> Observation:
        if ref.endpoint != self.endpoint:
            return elsewhere(self.endpoint, ref)
        folder = self.folder(ref.attempt)
        try:
            if not folder.has_file("attempt"):
                return Observation(Phase.ABSENT, "no folder")
            seen = look.see_folder(folder, results_dir(ref), ref.attempt.number)
            observation = parse.observation(look.see_stopped(folder, seen))
            if observation.phase.over:
                input_links.release_links(str(self.home), Path(folder.path).name)
            return observation
        except OSError as error:
            return Observation(Phase.UNREACHABLE, "", reason=f"{error.filename}: {error.strerror}")

    def outcome(self, ref: Ref) -> Outcome | None:
        return sight.outcome_of(results_dir(ref), ref.attempt.number)

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        must_live_at(self.endpoint, ref)
        path = Path(self.folder(ref.attempt).file_path("log"))

        def has_ended() -> bool:
            return self.observe_one(ref, sight.Sight(self.trees)).phase.over

        def last_words() -> bytes:
            if parse.log_is_cut(self.folder(ref.attempt).read_text("exit")):
                return logs.CUT
            return b""

        return logs.read(path, request, has_ended, last_words)

    def files(self, endpoint: str = "") -> LocalFiles:
        must_look_at(self.endpoint, endpoint)
        return LocalFiles()

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> dict[Ref, CancelAnswer]:
        """Mark all attempts as canceled, then end and wait for all at once."""
        failed: dict[Ref, CancelAnswer] = {}
        endings: list[Ending] = []
        for ref in refs:
            try:
                endings += self.ask_to_end(ref, grace)
            except Unreachable as error:
                failed[ref] = error
        wait_for_all(endings, grace + MARGIN)
        look = sight.Sight(self.trees)
        return {ref: failed.get(ref) or self.observe_one(ref, look) for ref in refs}

    def ask_to_end(self, ref: Ref, grace: timedelta) -> list[Ending]:
        """Mark the attempt as canceled, and return its Ending. Empty if it is already over."""
        must_live_at(self.endpoint, ref)
        folder = self.folder(ref.attempt)
        if folder.has_file("exit") or not folder.has_file("attempt"):
            return []
        try:
            folder.put_file("cancel", grace_text(grace))
        except OSError as error:
            raise Unreachable(f"{error.filename}: {error.strerror}.", "", FOLDER_ADVICE) from error
        return [Ending(folder, grace.total_seconds())]

    def evidence(self, ref: Ref) -> Evidence:
        from tao_sdk.model.diagnosis import Evidence

        must_live_at(self.endpoint, ref)
        folder = self.folder(ref.attempt)
        seen = self.observe_one(ref, sight.Sight())
        events = parse.node_events(seen, parse.exit_record(folder.read_text("exit")))
        return Evidence.of_observation(seen, (*events, *disk_events(folder.path)))

    def activity(self, ref: Ref) -> Activity:
        from tao_sdk.backends.local.job import activity

        must_live_at(self.endpoint, ref)
        seen = activity.look_at(self.folder(ref.attempt))
        gpus = look.gpus_in_use(self.settings.environ, str(self.home), ref.attempt.job_id)
        return replace(seen, gpus=gpus)

    def diagnose(self, evidence: Evidence) -> Diagnosis | None:  # noqa: ARG002  the general rules know what we say
        return None

    def release(self, ref: Ref) -> None:
        must_live_at(self.endpoint, ref)
        folder = Path(self.folder(ref.attempt).path)
        if not folder.is_dir():
            return
        if not cancel_one(self, ref, timedelta(seconds=render.GRACE)).phase.over:
            raise still_runs(ref.native_id)
        self.remove(folder)

    def remove(self, folder: Path) -> None:
        """Remove a folder. It loses its name at once, however long the removal takes."""
        gone = self.aside / f"{folder.name}.{random.token_hex(8)}"
        folder.rename(gone)
        shutil.rmtree(gone)

    def discard(self, folder: Folder) -> bool:
        """Remove an attempt that nobody has started, under its lock so that nobody can start it.

        Returns False if somebody has started it.
        """
        lock = take_unless_begun(folder)
        if lock is None:
            return False
        has_begun = folder.has_file("process") or folder.has_file("exit")
        if not has_begun:
            self.remove(Path(folder.path))
        os.close(lock)
        return not has_begun

    def doctor(self) -> list[Finding]:
        return look.doctor(self.settings.environ, self.state_dir)

    def close(self) -> None:
        self.supervisors.close()

    def folder(self, attempt: Attempt) -> Folder:
        if "/" in attempt.job_id or attempt.job_id.startswith("."):
            what = f"invalid job id: {attempt.job_id!r}"
            raise UsageError(what, "It names a folder.", "The ids of your jobs: tao ls")
        return Folder(render.job_folder(str(self.state_dir), attempt))

    def see(self, ref: Ref) -> parse.Seen:
        return sight.Sight().see_folder(
            self.folder(ref.attempt), results_dir(ref), ref.attempt.number
        )


def take_unless_begun(folder: Folder) -> int | None:
    """Take the folder's lock. Returns its descriptor, or None if a supervisor or the job has it.

    Waits a little, because a process that only looks also holds the lock for a moment.
    """
    latest = time.monotonic() + START_SECONDS
    while (lock := take_lock(folder.file_path("lock"))) is None and time.monotonic() < latest:
        if folder.has_file("process") or has_living_supervisor(folder):
            return None
        time.sleep(LOOK)
    return lock


def has_living_supervisor(folder: Folder) -> bool:
    supervisor = folder.read_identity("supervisor")
    return supervisor is not None and supervisor.alive


def remove_stale(aside: Path) -> None:
    """Remove old leftovers of an interrupted submit or release. Younger ones may be in use."""
    for left in aside.iterdir():
        try:
            is_stale = left.stat().st_mtime < time.time() - STALE_SECONDS
        except FileNotFoundError:
            continue
        if is_stale:
            shutil.rmtree(left, ignore_errors=True)


def fill_folder(folder: Folder, plan: Plan[LocalRequest]) -> None:
    """Write all files that the supervisor needs, an empty log, and space for the exit record."""
    attempt = plan.attempt
    record = {
        "job_id": attempt.job_id,
        "number": attempt.number,
        "store_id": attempt.store_id,
        "token": random.token_hex(16),
        "results_dir": plan.results_dir,
        "created": time.time(),
    }
    create_file(folder.file_path("command"), os.fsencode(plan.request.command))
    create_file(folder.file_path("log"), b"")
    create_file(folder.file_path("lock"), b"")
    folder.reserve_exit()
    create_file(folder.file_path("attempt"), json.dumps(record).encode())


def supervisor_message(plan: Plan[LocalRequest], secrets: Mapping[str, str]) -> SupervisorMessage:
    """The message to the supervisor. The secrets' values go nowhere else. Raises Refused."""
    request = plan.request
    if missing := missing_secret(plan.secrets, secrets):
        raise no_value(missing)
    return SupervisorMessage(
        job=plan.attempt.job_id,
        cwd=request.cwd,
        grace=request.grace,
        time_limit=request.time_limit,
        gpu_count=request.gpus.count,
        gpus=request.gpus.candidates,
        locks=request.gpus.lock_folder,
        environment=as_bytes(revealed(request.environment, secrets)),
    )


def as_bytes(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    try:
        return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    except UnicodeEncodeError:
        raise Refused(
            "invalid environment variable: it cannot be written as bytes",
            "It holds a character that is no valid text.",
            "Write it anew, or unset it.",
        ) from None


def results_dir(ref: Ref) -> str:
    return ref.details.get("results_dir", "")


def disk_events(folder: str) -> Iterator[NodeEvent]:
    """Yield an event if the disk of a job's log is full: the log itself had no space to say so."""
    from tao_sdk.model.diagnosis import NodeEvent

    if (left := room_left(folder)) < FULL:
        yield NodeEvent(
            "DiskFull",
            f"no space left on device: {folder}, where its log is kept, has "
            f"{format_size(left)} free",
        )
