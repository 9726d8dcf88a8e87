"""Record: an attempt's own files about its end, and how they correct an observation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tao_sdk.backends.outcome import json_object
from tao_sdk.backends.slurm.parse import KILLED, with_reason
from tao_sdk.model import words
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.reasons import Reason
from tao_sdk.model.words import UNEXPLAINED, Why

TIMED_OUT = 124  # the exit code of a command that was ended at its timeout
TAO_FAILURES = ("FAILURE", "FAILED", "ERROR")  # the status of a failed training in status.json


@dataclass(frozen=True)
class Record:
    """The contents of the batch script's file, TAO's status.json and the manifest."""

    exit_code: int | None = None
    time_limit: bool = False  # the command was ended at its timeout
    tao_status: str = ""  # the last status of status.json, in upper case
    tao_message: str = ""
    whole: bool = False  # it has the end of the requested attempt
    begun: bool = False  # the batch script has run
    killed: bool = False  # by a cancel, after its grace

    @property
    def tao_failed(self) -> bool:
        return self.tao_status in TAO_FAILURES


def read_record(
    exit_text: str, status_text: str, manifest_text: str, number: int, begun: bool = False
) -> Record:
    """The record of attempt `number`, from the texts of the three files.

    The batch script's file wins over the manifest. A file of another attempt is ignored.
    """
    status = read_object(last_status(status_text))
    record = Record(
        tao_status=str(status.get("status", "")).upper(),
        tao_message=str(status.get("message", "")),
        begun=begun,
    )
    script = read_object(exit_text)
    if script.get("attempt") == number:
        time_limit = script.get("time_limit") is True
        return replace(record, whole=True, exit_code=read_code(script), time_limit=time_limit)
    manifest = read_object(manifest_text)
    if manifest.get("attempt") == number and manifest.get("whole") is True:
        return replace(record, whole=True, exit_code=read_code(manifest))
    return record


def read_object(text: str) -> Mapping[str, Any]:
    """The JSON object of a file; empty for any other text."""
    return json_object(text) or {}


def read_code(ending: Mapping[str, Any]) -> int | None:
    """The exit code in a file, None if it is no number."""
    code = ending.get("exit_code")
    if not isinstance(code, int):
        return None
    return code


def last_status(text: str) -> str:
    """The last line of status.json with a status; "" if there is none."""
    lines = [line for line in text.splitlines() if '"status"' in line]
    return "".join(lines[-1:])


def with_record(observed: Observation, record: Record) -> Observation:
    """The observation, corrected by the attempt's own record of its end."""
    if observed.phase is Phase.FAILED:
        return failure_with_record(observed, record)
    if observed.phase is Phase.CANCELED and (record.killed or record.exit_code == KILLED):
        return replace(observed, exit_code=KILLED)
    if observed.phase is Phase.SUCCEEDED and record.tao_failed:
        return with_reason(replace(observed, phase=Phase.FAILED), tao_failure(record))
    if observed.phase is Phase.ABSENT and record.whole and record.exit_code is not None:
        return from_record(record)
    return observed


def failure_with_record(observed: Observation, record: Record) -> Observation:
    """The observation of a failure, with the cause and exit code from the attempt's record."""
    if record.time_limit:
        reason = words.why(Reason.TIME_LIMIT, "slurm, ours")
        return with_reason(replace(observed, exit_code=TIMED_OUT), reason)
    if is_killed_script(observed, record):
        return with_reason(observed, words.why(Reason.SCRIPT_KILLED))
    if record.exit_code:
        return with_exit_code(observed, record.exit_code)
    return observed


def is_killed_script(observed: Observation, record: Record) -> bool:
    """True if the script was killed. squeue has the same word for that and a failed launch."""
    if observed.reason_code is not Reason.NOT_LAUNCHED:
        return False
    return record.begun and observed.exit_code is None


def tao_failure(record: Record) -> Why:
    what = record.tao_status
    if record.tao_message:
        what = f"{record.tao_status}: {record.tao_message}"
    return words.why(Reason.STATUS_FILE_FAILED, what=what)


def with_exit_code(observed: Observation, code: int) -> Observation:
    """The observation with the record's exit code, because SLURM stores codes over 128 as signals.

    A reason that says more than a code stays.
    """
    with_code = replace(observed, exit_code=code)
    if observed.reason_code in (None, Reason.EXIT_CODE):
        return with_reason(with_code, words.why(Reason.EXIT_CODE, code=code))
    return with_code


def from_record(record: Record) -> Observation:
    """The observation of a job that SLURM has forgotten."""
    raw = "by its own record"
    succeeded = record.exit_code == 0 and not record.tao_failed
    phase = Phase.SUCCEEDED if succeeded else Phase.FAILED
    observed = Observation(phase, raw, record.exit_code)
    if record.time_limit:
        return with_reason(observed, words.why(Reason.TIME_LIMIT, "slurm"))
    if succeeded:
        return with_reason(observed, UNEXPLAINED)
    return with_reason(observed, words.why(Reason.EXIT_CODE, code=record.exit_code))
