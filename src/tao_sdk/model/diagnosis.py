"""Evidence and Diagnosis: the facts about a pending or failed job, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any

from tao_sdk.model.errors import TaoError
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.reasons import Reason


class ErrClass(str, Enum):
    """The side at fault: the program, the infrastructure, or the way the job was requested."""

    PROGRAM = "ERR_PROGRAM"
    INFRA = "ERR_INFRA"
    USER = "ERR_USER"

    @property
    def fault(self) -> str:
        """The class in words, for people."""
        return FAULTS[self]


FAULTS = {
    ErrClass.PROGRAM: "your program",
    ErrClass.USER: "how it was asked for",
    ErrClass.INFRA: "the place",
}


@dataclass(frozen=True)
class NodeEvent:
    """An event that a node or a container reported, under the backend's own name for it."""

    node_event_name: str
    message: str


WAITING_PHASES = ("pending", "unknown", "paused")


@dataclass(frozen=True)
class Evidence:
    """The facts: the backend's words, the exit code, the runner's own events, the log tail."""

    phase: str = ""
    raw: str = ""
    exit_code: int | None = None
    reason: str = ""
    events: tuple[NodeEvent, ...] = ()
    runner: tuple[dict[str, Any], ...] = ()  # the runner's "failed", "warning" and "ended" events
    log_tail: str = ""  # at most the last 64 KiB, decoded with replacement
    # as requested: memory, shm_size, time_limit
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    files: tuple[str, ...] = ()  # paths in the job of the files that travel with it
    inputs: tuple[str, ...] = ()  # paths in the job of the inputs that it fetched
    start_folder: str = ""  # where a command without files started; "" where that is not known
    # the user's module that the program imports, as `--files` takes it; "" for none
    own_module: str = ""
    full_disks: tuple[str, ...] = ()  # mount points without room, of what the job names
    reason_code: Reason | None = None  # of the reason, for programs
    backend_words: str = ""  # the backend's own words for the reason, unchanged
    backend_task: str = ""  # its task: shown before its words, read by no rule
    expected_start: datetime | None = None  # of a waiting attempt, as the backend estimates it
    stopped_pids: tuple[int, ...] = ()  # processes that somebody has stopped (SIGSTOP)
    job_id: str = "JOB"  # for advice that names the job
    # a backend's own values for advice, such as {namespace}
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    # fields of a job that its platform does not use, so that no advice names them
    unused_fields: frozenset[str] = frozenset()

    @classmethod
    def of_observation(
        cls, seen: Observation, events: Iterable[NodeEvent] = (), log_tail: str = ""
    ) -> Evidence:
        """The evidence of one observation, with the events and log tail that go with it."""
        return cls(
            phase=seen.phase.value,
            raw=seen.raw,
            exit_code=seen.exit_code,
            reason=seen.reason,
            reason_code=seen.reason_code,
            backend_words=seen.backend_words,
            expected_start=seen.expected_start,
            stopped_pids=seen.stopped_pids,
            events=tuple(events),
            log_tail=log_tail,
        )

    @classmethod
    def of_refusal(cls, error: TaoError) -> Evidence:
        """The evidence of a backend's refusal of an attempt."""
        return cls(
            phase=Phase.FAILED.value,
            reason=str(error),
            reason_code=error.reason_code,
            backend_words=error.backend_words,
            backend_task=error.backend_task,
        )

    @property
    def waits(self) -> bool:
        """True if the attempt has not failed: it waits, is paused, or is in an unknown phase."""
        return self.phase.lower() in WAITING_PHASES


@dataclass(frozen=True)
class Diagnosis:
    """A diagnosis: what went wrong, why (the evidence), what to do next, and if a retry can help.

    The dictionary form has the names of the documents: cause, evidence, suggestion.
    """

    what: str
    err_class: ErrClass
    next: str
    retryable: bool = False
    why: str = ""
    rule: str = ""
    events: tuple[NodeEvent, ...] = ()
    by_runner: bool = False  # the runner itself reported it
    after: str = ""  # what has to happen before trying again can help, as a clause
    reason_code: Reason | None = None  # of the job, when it was explained

    @property
    def cause(self) -> str:
        """The documents' name for `what`."""
        return self.what

    @property
    def evidence(self) -> str:
        """The documents' name for `why`."""
        return self.why

    @property
    def suggestion(self) -> str:
        """The documents' name for `next`."""
        return self.next

    @property
    def again(self) -> str:
        """Say if a new submit of the same job can go well: `helps`, `does not help`, `may help
        after ...`.
        """
        if self.retryable:
            return "helps"
        if self.after:
            return f"may help after {self.after}"
        return "does not help"

    def redacted(self, redact: Callable[[str], str]) -> Diagnosis:
        """Return the diagnosis with its texts passed through `redact`: a job may have printed a
        secret.
        """
        return replace(
            self,
            what=redact(self.what),
            why=redact(self.why),
            next=redact(self.next),
            events=tuple(replace(event, message=redact(event.message)) for event in self.events),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "err_class": self.err_class.value,
            "cause": self.what,
            "suggestion": self.next,
            "retryable": self.retryable,
            "fault": self.err_class.fault,
            "again": self.again,
            "after": self.after,
            "evidence": self.why,
            "rule": self.rule,
            "reason_code": self.reason_code.value if self.reason_code else None,
            "job_failure_by_node_event": [
                {"node_event_name": event.node_event_name, "message": event.message}
                for event in self.events
            ],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Diagnosis:
        """Read the output of `to_json`. Names that this version does not know are left out."""
        return cls(
            what=stored["cause"],
            err_class=ErrClass(stored["err_class"]),
            next=stored["suggestion"],
            retryable=stored.get("retryable", False),
            why=stored.get("evidence", ""),
            rule=stored.get("rule", ""),
            events=tuple(NodeEvent(**event) for event in stored["job_failure_by_node_event"]),
            after=stored.get("after", ""),
            reason_code=Reason.read(stored.get("reason_code")),
        )
