"""The contract between the engine and a backend, which is one place that can run jobs.

The engine knows these verbs and the declared Capabilities, never a backend's name. `plan` and
`check` are pure; every other verb may be called again after a crash or a lost reply and then
finishes what the first call began.

A backend is generic in three frozen dataclasses of its own: Options (the caller's choices), Facts
(from `survey`) and Request (sent by `submit`). Only the store sees JSON: `Plan.to_json` writes it,
`read_plan` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from tao_sdk.backends.news import News, NoNews
from tao_sdk.model.errors import TaoError
from tao_sdk.model.finding import Finding
from tao_sdk.model.job import AttemptRow
from tao_sdk.model.observation import Observation, Outcome
from tao_sdk.model.plan import Attempt, Plan, Ref, RequestT
from tao_sdk.model.prepared_job import PreparedJob

if TYPE_CHECKING:
    from tao_sdk.model.activity import Activity
    from tao_sdk.model.diagnosis import Diagnosis, Evidence
    from tao_sdk.model.machines import Machines
    from tao_sdk.model.replica import Replica
    from tao_sdk.model.spec import JobSpec

OptionsT = TypeVar("OptionsT")
FactsT = TypeVar("FactsT")

KiB = 1024
MiB = 1024 * KiB


@dataclass(frozen=True)
class Capabilities:
    """The declared abilities of a backend. Callers test these, never the backend's name."""

    multi_node: bool = False
    shared_filesystem: bool = False  # the job sees this machine's paths
    streams_apart: bool = False  # stdout and stderr can be read separately
    needs_image: bool = True
    keeps_logs: bool = True  # the log can still be read after the attempt has ended
    log_goes: bool = False  # removing the attempt's pod or container from outside removes its log
    log_rotates: bool = False  # its start may go while the attempt runs: read our copy first
    max_command: int = 96 * KiB  # a longer command is delivered as a file
    max_payload: int = 64 * MiB  # a longer one is refused, with its size
    # advice for people whose payload is larger
    payload_advice: str = "Put large files where the job can read them, and name them under inputs."
    retries: int = 0  # default number of retries after infrastructure failures
    poll_seconds: float = 5.0  # polite seconds between two `observe` calls while nothing changes
    # polite seconds between two reads of files; 0 if a read costs next to nothing
    files_seconds: float = 0.0
    # each read of files starts a pod or container: read them only when a person asks
    files_on_demand: bool = False
    path_schemes: frozenset[str] = frozenset()  # files() takes addresses of these schemes as paths
    # a job that holds GPUs should not fetch more than this from S3; 0: no limit
    fetch_bytes: int = 0
    # this platform's name in the host set-up script; "" if no host is set up for it
    host_setup: str = ""
    readers: int = 1  # logs read in parallel; more than 1 if each read is a request to a server
    # polite seconds between two reads of one job's log; 0 if a read costs next to nothing
    log_seconds: float = 0.0
    # logs read per look at many jobs, in turn: each read is a request to a shared server.
    # 0: all logs
    logs_per_look: int = 0
    submits: int = 2  # jobs that are planned and submitted in parallel
    # a plan picks GPUs that no running job has, so the next GPU job is planned once the last runs
    picks_gpus: bool = False
    # an attempt's place costs money until `release`, which is called as soon as the job's end and
    # its log are kept, and again until it returns
    costs_while_kept: bool = False
    lag_seconds: float = 0.0  # how long `observe` may miss a job that exists
    # fields of a job that have no effect here: no advice names them
    unused_fields: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FileStat:
    """The file or folder at a path, as the backend sees it."""

    path: str
    is_dir: bool
    size: int = 0  # bytes; 0 for a directory
    mtime: float = 0.0  # seconds since the epoch
    leads_to: str = ""  # the target of a link to a folder; "" also if the backend sees no links
    # bytes used on disk, if known: less than the size if the file has holes
    on_disk: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LogChunk:
    """Some bytes of a log, and the cursor for the next call. It neither loses nor repeats bytes."""

    data: bytes
    cursor: str
    source: str = ""  # the writer of these bytes, for people: a pod and its node


@dataclass(frozen=True)
class NewLog:
    """The new bytes of one attempt's log. `whole` is False while there is more."""

    chunks: Sequence[LogChunk]
    whole: bool = True


@dataclass(frozen=True)
class LogRequest:
    """Which part of which log to read.

    `cursor` and `tail` (lines) exclude each other. Without both, the log is read from its start.
    """

    rank: int = 0
    stream: str = ""  # "", "stdout" or "stderr"
    cursor: str = ""
    tail: int | None = None
    follow: bool = False  # keep waiting for more until the attempt has ended


CancelAnswer = Observation | TaoError  # the last look at an attempt, or why it was not ended


class Files(Protocol):
    """Paths as the backend sees them.

    Raises PathNotFound if nothing is at a path, Unreachable if the backend could not look.
    """

    def stat(self, path: str) -> FileStat: ...

    def list(self, path: str) -> list[FileStat]: ...

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes: ...

    def below(self, folder: str) -> Files:
        """Return Files for a folder that a job writes to. They follow no link out of it."""
        ...


@runtime_checkable
class KnowsHoles(Protocol):
    """An optional part of Files: sees the holes of a sparse file."""

    def next_data(self, path: str, offset: int) -> int:
        """The offset of the next data at or after `offset`; the file's end if only holes follow."""
        ...


def next_data(files: Files, path: str, offset: int) -> int:
    """`KnowsHoles.next_data` for any Files. Returns `offset` if they do not know holes."""
    return files.next_data(path, offset) if isinstance(files, KnowsHoles) else offset


@runtime_checkable
class LosesFiles(Protocol):
    """An optional part of Files, for a place where files may go with the attempt."""

    def why_lost(self, path: str) -> str:
        """Why nobody can look at the path, and what would keep its files; "" if one can look. Asks
        nobody.
        """
        ...


def why_lost(files: Files, path: str) -> str:
    """`LosesFiles.why_lost` for any Files. Returns "" for a place that loses none."""
    return files.why_lost(path) if isinstance(files, LosesFiles) else ""


@dataclass(frozen=True)
class AssumedFacts:
    """Facts for a plan when the place does not answer, and a warning about them for people."""

    facts: Any
    words: str


@runtime_checkable
class AssumesFacts(Protocol):
    """An optional part of a backend whose place may not answer."""

    def assume_facts(self, job: PreparedJob, options: Any) -> AssumedFacts:
        """Return facts without asking the place.

        They are the place's last answer. Without one, the place is assumed to have everything that
        the job asks for.
        """
        ...


@runtime_checkable
class ReadsManyLogs(Protocol):
    """An optional part of a backend for which each question is a round trip."""

    def new_logs(self, cursors: Mapping[Ref, str]) -> Mapping[Ref, NewLog]:
        """Read each attempt's new log (rank 0) after its cursor, all in one question.

        The amount is bounded. Leaves out attempts without a log. Raises Unreachable.
        """
        ...


@runtime_checkable
class TellsActivity(Protocol):
    """An optional part of a backend that can look into a running attempt."""

    def activity(self, ref: Ref) -> Activity:
        """Report what the attempt does now, for an attempt that may hang. Raises Unreachable."""
        ...


@dataclass(frozen=True)
class PlanDocuments:
    """A plan in the form of the place's own tool, with notes for its reader."""

    documents: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()


@runtime_checkable
class ShowsDocuments(Protocol):
    """An optional part of a backend whose place has a tool that takes files (kubectl apply)."""

    def documents(self, plan: Plan[Any]) -> PlanDocuments:
        """Return what submit would create, without the values of secrets. Pure."""
        ...


@runtime_checkable
class MapsPaths(Protocol):
    """An optional part of a backend whose jobs have volumes without a path on any machine."""

    def file_address(self, plan: Plan[Any], path: str) -> str:
        """Turn a path of the job into one for `files`; "" if `files` cannot see it. Pure."""
        ...


@runtime_checkable
class MountsInputs(Protocol):
    """An optional part of a backend whose jobs can mount data that has addresses of its own."""

    def with_mounted_inputs(self, spec: JobSpec) -> JobSpec:
        """Return the job with a path for each such address, and the mounts that it needs. Pure."""
        ...


@runtime_checkable
class SeesMachines(Protocol):
    """An optional part of a backend that can look at the machines for a job."""

    def machines(self, plan: Plan[Any]) -> Machines:
        """Look at the machines that would run a plan. Raises TaoError if it cannot look."""
        ...

    def private_image_findings(self, plan: Plan[Any], registry: str) -> list[Finding]:
        """Say what the place lacks to fetch a private image from a registry that needs a login.

        The registry "" is Docker Hub. Raises TaoError.
        """
        ...


@runtime_checkable
class ForcesAway(Protocol):
    """An optional part of a backend whose machines may stop answering one by one."""

    def force_away(self, ref: Ref) -> bool:
        """Remove the rest of an attempt at once, even if its machine does not answer.

        Returns True once nothing of it is there. Raises Unreachable.
        """
        ...


@runtime_checkable
class TellsReplicas(Protocol):
    """An optional part of a backend that shows each rank as an object of its own."""

    def replicas(self, ref: Ref) -> Sequence[Replica]:
        """Return the attempt's ranks in order; none if nothing is left. Raises Unreachable."""
        ...


@runtime_checkable
class FoundAgain(Protocol):
    """An optional part of a backend whose place is chosen by settings."""

    @property
    def way(self) -> Mapping[str, str]:
        """The settings with which a later process finds this place again. None is a secret."""
        ...


class Backend(Protocol[OptionsT, FactsT, RequestT]):
    """One place that can run jobs. Every verb may raise Unreachable; only `submit` raises Refused.

    The registry calls the class with (settings: Settings, state_dir: Path): the caller's settings,
    and the folder for the backend's own files.
    """

    platform: str
    endpoint: str
    capabilities: Capabilities
    Options: type[OptionsT]

    def survey(self, job: PreparedJob, options: OptionsT) -> FactsT:
        """Return dated facts for this job.

        Capacity free now, limits, images, and paths as the backend sees them.
        """
        ...

    def plan(
        self, job: PreparedJob, options: OptionsT, facts: FactsT, attempt: Attempt
    ) -> Plan[RequestT]:
        """Everything that submit will do. Pure: no I/O, clock, randomness or environment."""
        ...

    def plan_again(
        self, last: Plan[RequestT], job: PreparedJob, options: OptionsT, attempt: Attempt
    ) -> Plan[RequestT]:
        """Return the plan of a retry. It keeps the results and the environment of `last`.

        The caller may be another process, in another folder. The place may be surveyed again,
        because it may have changed.
        """
        ...

    def check(self, plan: Plan[RequestT], facts: FactsT) -> list[Finding]:
        """Return findings: would the plan run? Pure.

        A full machine is a warning, a missing path is an error.
        """
        ...

    def request_from_json(self, data: Mapping[str, Any]) -> RequestT:
        """Read a request that `Plan.to_json` wrote, in this or an earlier version."""
        ...

    def submit(self, plan: Plan[RequestT], secrets: Mapping[str, str]) -> Ref:
        """Start the attempt, or adopt it if it is already there. Returns soon.

        Idempotent per attempt. Another call completes a Ref that is not `ready`. Raises Refused,
        in the backend's words, if nothing was started, and Unreachable if that is not known.
        """
        ...

    def find(self, attempt: Attempt, plan: Plan[RequestT] | None = None) -> Ref | None:
        """Return the attempt's Ref. None only if every place that could know says it is not there.

        `plan` is the attempt's own plan, if the caller has it. It says where to look, even if the
        settings have changed since.
        """
        ...

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        """Return what the backend says about each attempt.

        The number of queries does not grow with the number of attempts. Never raises for one
        attempt: the answer is Phase.UNREACHABLE if the backend could not look, Phase.ABSENT if the
        attempt is not there.
        """
        ...

    def news(self) -> News:
        """Return a listener for changes, so that callers need not poll.

        The default says that everything may have changed. A backend that can report changes
        returns its own.
        """
        return NoNews()

    def outcome(self, ref: Ref) -> Outcome | None:
        """How the attempt ended, by the record that outlives it; None without a record.

        The engine calls this once `observe` has found nothing.
        """
        ...

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        """Yield the log's bytes in order and unchanged, with flat memory."""
        ...

    def files(self, endpoint: str = "") -> Files:
        """Return access to files by their paths, as this endpoint sees them.

        There is no Ref: the path alone must be enough, even after the job is gone.
        """
        ...

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> Mapping[Ref, CancelAnswer]:
        """End all these attempts at once. Return what `observe` would say of each at the end.

        The answer is final for an attempt that is over: nobody looks again. CANCELED: it ended
        because of this or an earlier cancel. SUCCEEDED or FAILED: it ended by itself. ABSENT: it is
        gone. Any other phase: it was told to end, and its end was not seen yet. Then the caller
        looks again until the grace is over. A backend that does not wait still kills the attempt
        after the grace, even if nobody looks.

        Never raises for one attempt: its answer is then Refused or Unreachable. Idempotent. Also
        takes a Ref that is not ready.
        """
        ...

    def evidence(self, ref: Ref) -> Evidence:
        """Collect what is known about a pending or failed attempt.

        Includes the log tails of ranks 1 and up. The engine adds rank 0's.
        """
        ...

    def diagnose(self, evidence: Evidence) -> Diagnosis | None:
        """Apply the backend's own rules, before the general ones. Pure."""
        ...

    def release(self, ref: Ref) -> None:
        """Remove everything left: container, staged files, secrets. Idempotent.

        Where it `costs_while_kept`, raises Unreachable until the rented place is seen gone.
        """
        ...

    def doctor(self) -> list[Finding]:
        """Return what a new user would trip over here, each with the command that fixes it."""
        ...

    def close(self) -> None:
        """Close this client's own connections. Jobs go on, and a later call connects again."""
        ...


# For the engine: it passes options, facts and requests on and does not read them.
AnyBackend = Backend[Any, Any, Any]


def read_plan(backend: Backend[OptionsT, FactsT, RequestT], row: AttemptRow) -> Plan[RequestT]:
    """Read the plan in an attempt's row."""
    return Plan.from_json(row.plan, row.attempt, backend.request_from_json)


def cancel_one(backend: AnyBackend, ref: Ref, grace: timedelta) -> Observation:
    """End one attempt. Raises Refused, Unreachable."""
    answer = backend.cancel([ref], grace)[ref]
    if isinstance(answer, TaoError):
        raise answer
    return answer


def cancel_side_by_side(
    refs: Sequence[Ref], end: Callable[[Ref], Observation], most: int
) -> dict[Ref, CancelAnswer]:
    """Call `end` for each attempt, in at most `most` threads, and return all answers.

    For a backend that must ask for each end separately.
    """

    def answer(ref: Ref) -> CancelAnswer:
        try:
            return end(ref)
        except TaoError as error:
            return error

    if len(refs) == 1:
        return {refs[0]: answer(refs[0])}
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max(1, min(most, len(refs))), thread_name_prefix="tao-cancel") as pool:
        return dict(zip(refs, pool.map(answer, refs), strict=True))
