"""The contract between the engine and a backend, which is one place that can run jobs.

The engine knows these verbs and the declared Capabilities, never a backend's name. `plan` and
`check` are pure; every other verb may be called again after a crash or a lost reply and then
finishes what the first call began.

A backend is generic in three frozen dataclasses of its own: Options (what the caller may say),
Facts (what `survey` saw) and Request (what will be sent). Only the store sees JSON: `Plan.to_json`
writes it, `read_plan` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeVar, runtime_checkable

from tao_sdk.backends.news import News, NoNews
from tao_sdk.model.activity import Activity
from tao_sdk.model.diagnosis import Diagnosis, Evidence
from tao_sdk.model.errors import TaoError
from tao_sdk.model.finding import Finding
from tao_sdk.model.job import AttemptRow
from tao_sdk.model.machines import Machines
from tao_sdk.model.observation import Observation, Outcome
from tao_sdk.model.plan import Attempt, Plan, Ref, RequestT
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.replica import Replica

OptionsT = TypeVar("OptionsT")
FactsT = TypeVar("FactsT")

KiB = 1024
MiB = 1024 * KiB


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do, declared; asked instead of its name."""

    multi_node: bool = False
    shared_filesystem: bool = False  # the job sees this machine's paths
    streams_apart: bool = False  # stdout and stderr can be read separately
    needs_image: bool = True
    keeps_logs: bool = True  # the log can still be read after the attempt has ended
    log_goes: bool = False  # who removes the attempt's place from outside removes its log, too
    log_rotates: bool = False  # its start may go while the attempt runs: our copy is read first
    max_command: int = 96 * KiB  # a longer command is delivered as a file
    max_payload: int = 64 * MiB  # a longer one is refused, with its size
    # what to do then, for people
    payload_advice: str = "Put large files where the job can read them, and name them under inputs."
    retries: int = 0  # infrastructure failures tried again unless the caller says otherwise
    poll_seconds: float = 5.0  # how often looking is polite while nothing changes
    # how often looking into files is polite; 0 where it costs next to nothing
    files_seconds: float = 0.0
    # each look into files starts something: they are looked into only where a person asks
    files_on_demand: bool = False
    path_schemes: frozenset[str] = frozenset()  # of addresses that its files() takes as they are
    # a job that holds GPUs should not fetch more than this from S3; 0: no limit
    fetch_bytes: int = 0
    # what the host's set-up script calls this platform; "" where no host is set up for it
    host_setup: str = ""
    readers: int = 1  # logs that a look reads at once; more where each is a question to a server
    # how often reading one job's log is polite; 0 where it costs next to nothing
    log_seconds: float = 0.0
    # logs that one look at many jobs reads, in turn: each is a question to a server that others
    # share. 0: all of them
    logs_per_look: int = 0
    submits: int = 2  # jobs that are planned and submitted at once
    # a plan picks GPUs that no running job has: one that needs GPUs is planned once the last runs
    picks_gpus: bool = False
    lag_seconds: float = 0.0  # how long a job that is there may be missing from what `observe` asks
    # fields of a job that have no effect here: no advice names them
    unused_fields: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FileStat:
    """What is at a path, as the backend sees it."""

    path: str
    is_dir: bool
    size: int = 0  # bytes; 0 for a directory
    mtime: float = 0.0  # seconds since the epoch
    leads_to: str = ""  # of a link to a folder, that folder; "" also where links are not told apart
    # bytes that it takes there, if known: less than its size where it has holes
    on_disk: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LogChunk:
    """Some bytes of a log, and the cursor from which the next call goes on without
    loss or repeat.
    """

    data: bytes
    cursor: str
    source: str = ""  # what has written it, for people: a pod and its node


@dataclass(frozen=True)
class NewLog:
    """What is new in the log of one attempt; not `whole` while there is more."""

    chunks: Sequence[LogChunk]
    whole: bool = True


@dataclass(frozen=True)
class LogRequest:
    """Which part of which log. `cursor` and `tail` (lines) exclude each other; neither means from
    the start.
    """

    rank: int = 0
    stream: str = ""  # "", "stdout" or "stderr"
    cursor: str = ""
    tail: int | None = None
    follow: bool = False  # keep waiting for more until the attempt has ended


CancelAnswer = Observation | TaoError  # what was seen of an attempt, or why it was not ended


class Files(Protocol):
    """Paths as the backend sees them. Raises PathNotFound when it looked, Unreachable when it could
    not.
    """

    def stat(self, path: str) -> FileStat: ...

    def list(self, path: str) -> list[FileStat]: ...

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes: ...

    def below(self, folder: str) -> Files:
        """For paths below a folder that a job writes to: no link is followed out of it."""
        ...


@runtime_checkable
class KnowsHoles(Protocol):
    """What files offer besides, where the holes of a sparse file can be seen."""

    def next_data(self, path: str, offset: int) -> int:
        """Where the next data are, from `offset` on; its end where only holes are left."""
        ...


def next_data(files: Files, path: str, offset: int) -> int:
    """The same for any files: `offset` where nothing is known of holes."""
    return files.next_data(path, offset) if isinstance(files, KnowsHoles) else offset


@dataclass(frozen=True)
class AssumedFacts:
    """Facts for the plan of a place that does not answer, and a sentence that says what they are
    worth.
    """

    facts: Any
    words: str


@runtime_checkable
class AssumesFacts(Protocol):
    """What a backend offers besides, where the place may not answer."""

    def assume_facts(self, job: PreparedJob, options: Any) -> AssumedFacts:
        """Facts without a question: what the place said last, else that it has what the job asks
        for.
        """
        ...


@runtime_checkable
class ReadsManyLogs(Protocol):
    """What a backend offers besides, where each question is a round trip."""

    def new_logs(self, cursors: Mapping[Ref, str]) -> Mapping[Ref, NewLog]:
        """What has come to each attempt's log (rank 0) since its cursor, bounded, in one question.

        Left out is an attempt whose log is not there. Raises Unreachable.
        """
        ...


@runtime_checkable
class TellsActivity(Protocol):
    """What a backend offers besides, where it can look into a running attempt."""

    def activity(self, ref: Ref) -> Activity:
        """What the attempt does now: for one that may hang. Raises Unreachable."""
        ...


@dataclass(frozen=True)
class PlanDocuments:
    """A plan in the form of the place's own tool, and what its reader should know of them."""

    documents: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()


@runtime_checkable
class ShowsDocuments(Protocol):
    """What a backend offers besides, where a tool of the place takes files (kubectl apply)."""

    def documents(self, plan: Plan[Any]) -> PlanDocuments:
        """What submit would create, without the values of secrets. Pure."""
        ...


@runtime_checkable
class MapsPaths(Protocol):
    """What a backend offers besides, where jobs have volumes that no path of a machine names."""

    def file_address(self, plan: Plan[Any], path: str) -> str:
        """What `files` takes for a path of the job; "" where it cannot see the path. Pure."""
        ...


@runtime_checkable
class SeesMachines(Protocol):
    """What a backend offers besides, where the machines that would run a job can be looked at."""

    def machines(self, plan: Plan[Any]) -> Machines:
        """What can be seen of those of a plan. Raises TaoError where it cannot look."""
        ...

    def private_image_findings(self, plan: Plan[Any], registry: str) -> list[Finding]:
        """What the place lacks to fetch an image for which its registry wants a login. "" is Docker
        Hub. Raises TaoError.
        """
        ...


@runtime_checkable
class ForcesAway(Protocol):
    """What a backend offers besides, where a part of the place may not answer any more."""

    def force_away(self, ref: Ref) -> bool:
        """Remove what is left of an attempt at once, whether or not what it runs on answers. True
        once nothing of it is there. Raises Unreachable.
        """
        ...


@runtime_checkable
class TellsReplicas(Protocol):
    """What a backend offers besides, where each rank is a thing of its own."""

    def replicas(self, ref: Ref) -> Sequence[Replica]:
        """The attempt's ranks, in order; none where nothing of it is left. Raises Unreachable."""
        ...


@runtime_checkable
class FoundAgain(Protocol):
    """What a backend offers besides, where settings say which place it is."""

    @property
    def way(self) -> Mapping[str, str]:
        """The settings under which a later process finds this place again, none of
        them a secret.
        """
        ...


class Backend(Protocol[OptionsT, FactsT, RequestT]):
    """One place that can run jobs. Every verb may raise Unreachable; only `submit` raises Refused.

    The registry calls the class with (settings: Settings, state_dir: Path): what the caller has
    set, and the folder below which a backend keeps files of its own.
    """

    platform: str
    endpoint: str
    capabilities: Capabilities
    Options: type[OptionsT]

    def survey(self, job: PreparedJob, options: OptionsT) -> FactsT:
        """Facts for this job: capacity free now, limits, images, paths as the backend sees them;
        dated.
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
        """The plan of a retry. It keeps the results and the environment of `last`.

        The caller may be another process, in another folder. The place may be surveyed again,
        because it may have changed.
        """
        ...

    def check(self, plan: Plan[RequestT], facts: FactsT) -> list[Finding]:
        """Would it run? Pure. A full machine is a warning, a missing path an error."""
        ...

    def request_from_json(self, data: Mapping[str, Any]) -> RequestT:
        """The request that `Plan.to_json` has written, now or in an earlier version of this
        backend.
        """
        ...

    def submit(self, plan: Plan[RequestT], secrets: Mapping[str, str]) -> Ref:
        """Start the attempt, or adopt the one that is there; short.

        Idempotent on the attempt. A Ref that is not `ready` is completed by calling again. Raises
        Refused in the backend's words when nothing was started, Unreachable when that is not known.
        """
        ...

    def find(self, attempt: Attempt, plan: Plan[RequestT] | None = None) -> Ref | None:
        """The attempt's Ref, or None only when every place that could know has answered that it is
        not there.

        `plan`, for who has it, is the attempt's own: it says where to look, whatever the settings
        are by now.
        """
        ...

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        """What the backend says about each, in a constant number of queries however many there are.

        Never raises for one of them: what could not be seen is Phase.UNREACHABLE, what is not there
        Phase.ABSENT.
        """
        ...

    def news(self) -> News:
        """For one who wants to know of changes without asking again and again.

        Here it is that everything may have changed. A backend that can tell says more.
        """
        return NoNews()

    def outcome(self, ref: Ref) -> Outcome | None:
        """How the attempt ended by the record that outlives it, asked for once `observe` has found
        nothing.
        """
        ...

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        """The log's bytes in order, unchanged, with flat memory."""
        ...

    def files(self, endpoint: str = "") -> Files:
        """Files by their paths, as this endpoint sees them.

        There is no Ref: the path alone must lead to the place, also after the job has gone.
        """
        ...

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> Mapping[Ref, CancelAnswer]:
        """End the attempts, all in one go, and answer for each as `observe` would at the end:
        nobody looks again for it.

        CANCELED is what ended because it was asked to, now or before; what ended by itself stays
        what it was. ABSENT is done. Any other phase says that the attempt was told to end and that
        its end was not seen: the caller looks for it until the grace is over. A backend that tells
        and does not wait kills after the grace all the same, whether or not anybody looks.

        Never raises for one of them: its answer is then Refused or Unreachable. Idempotent; takes
        a Ref that is not ready, too.
        """
        ...

    def evidence(self, ref: Ref) -> Evidence:
        """What is known about a pending or failed attempt.

        The log tails of all ranks except rank 0. The engine adds rank 0's.
        """
        ...

    def diagnose(self, evidence: Evidence) -> Diagnosis | None:
        """The backend's own rules, asked before the general ones. Pure."""
        ...

    def release(self, ref: Ref) -> None:
        """Remove what is left: container, staged files, secrets. Idempotent."""
        ...

    def doctor(self) -> list[Finding]:
        """What a new user would trip over here, each with the command that mends it."""
        ...

    def close(self) -> None:
        """Let go of the connections that this client alone has. Jobs go on; a later call connects
        anew.
        """
        ...


# For the engine, which hands options, facts and requests on without reading them.
AnyBackend = Backend[Any, Any, Any]


def read_plan(backend: Backend[OptionsT, FactsT, RequestT], row: AttemptRow) -> Plan[RequestT]:
    """The plan that an attempt's row holds."""
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
    """For a backend that has to ask for each end by itself: at most `most` at once."""

    def answer(ref: Ref) -> CancelAnswer:
        try:
            return end(ref)
        except TaoError as error:
            return error

    if len(refs) == 1:
        return {refs[0]: answer(refs[0])}
    with ThreadPoolExecutor(max(1, min(most, len(refs))), thread_name_prefix="tao-cancel") as pool:
        return dict(zip(refs, pool.map(answer, refs), strict=True))
