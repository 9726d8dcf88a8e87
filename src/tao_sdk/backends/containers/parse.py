"""Parse: a daemon's answers -> our observations and events. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from tao_sdk.model import words
from tao_sdk.model.diagnosis import NodeEvent
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.reasons import Reason
from tao_sdk.model.units import format_duration
from tao_sdk.model.words import UNEXPLAINED, Why

# The states of a container -> ours. Source: the daemon's API and the platform document's map.
# Containers in any other state (ENDED) have ended.
PHASES: Mapping[str, Phase] = {
    "created": Phase.PENDING,
    "running": Phase.RUNNING,
    "restarting": Phase.RUNNING,
    "paused": Phase.PAUSED,
}
ENDED = ("exited", "dead", "removing")
TIMED_OUT = (124, 137, 143)  # exit codes of `timeout`, or of the command that it ended
LATE = timedelta(seconds=2)  # a busy daemon records the start too late, by up to this
STARTED_AGAIN, KILLED = "StartedAgain", "Killed"  # the names of events
NEVER = "0001-01-01"
LINUX_ID = re.compile(r"[0-9]{1,10}")  # of a user or a group


def living(state: str, started: datetime | None = None) -> Observation:
    """The observation of a container that has not ended, by its state in the daemon's list."""
    return Observation(PHASES.get(state, Phase.UNKNOWN), state, started_at=started)


def observation(inspected: Mapping[str, Any], canceled: bool = False) -> Observation:
    """The observation of a container, as `inspect` shows it."""
    state: Mapping[str, Any] = inspected["State"]
    word = str(state["Status"])
    if word == "created" and state.get("Error"):
        return with_reason(
            Observation(Phase.FAILED, "not started", state.get("ExitCode")), daemon_error(state)
        )
    if word in ENDED and not has_begun(state):
        return never_started(state, canceled)
    if word not in ENDED:
        return living(word, moment(state.get("StartedAt")))
    code = int(state["ExitCode"])
    phase, reason = how_it_ended(inspected, code, canceled)
    started, finished = moment(state.get("StartedAt")), moment(state.get("FinishedAt"))
    seen = Observation(phase, f"{word} ({code})", code, started_at=started, ended_at=finished)
    return with_reason(seen, reason)


def how_it_ended(inspected: Mapping[str, Any], code: int, canceled: bool) -> tuple[Phase, Why]:
    """The phase and reason of a container that has run and ended."""
    if canceled:
        return Phase.CANCELED, words.why(Reason.CANCELED)
    reason = end_reason(inspected, code)
    if reason.code is None:
        return Phase.SUCCEEDED, lost_process(inspected)
    return Phase.FAILED, reason


def lost_process(inspected: Mapping[str, Any]) -> Why:
    """A note on a container that ended well: the kernel may have killed one of its processes."""
    if inspected["State"].get("OOMKilled"):
        return words.why(Reason.OUT_OF_MEMORY, "docker, in part")
    return UNEXPLAINED


def with_reason(seen: Observation, reason: Why) -> Observation:
    """The observation with a reason. A daemon's own words are also stored in `backend_words`."""
    said = reason.text if reason.code is Reason.DAEMON_ERROR else ""
    return replace(seen, reason=reason.text, reason_code=reason.code, backend_words=said)


def daemon_error(state: Mapping[str, Any]) -> Why:
    return words.why(Reason.DAEMON_ERROR, what=str(state["Error"]))


def has_begun(state: Mapping[str, Any]) -> bool:
    """True if a container was ever started.

    The exit code does not tell: it is 0 for a container that was never started, even during its
    removal.
    """
    return state["Status"] != "created" and not str(state.get("StartedAt", "")).startswith(NEVER)


def never_started(state: Mapping[str, Any], canceled: bool) -> Observation:
    """The observation of a container that has ended and never ran.

    It counts as gone (ABSENT), unless it was canceled or has an error or an exit code.
    """
    raw, code, error = (
        f"{state['Status']}, never started",
        int(state["ExitCode"]),
        str(state.get("Error") or ""),
    )
    if canceled:
        return with_reason(Observation(Phase.CANCELED, raw), words.why(Reason.CANCELED))
    if error:
        return with_reason(Observation(Phase.FAILED, raw, code), daemon_error(state))
    if code:
        return with_reason(
            Observation(Phase.FAILED, raw, code), words.why(Reason.EXIT_CODE, code=code)
        )
    return Observation(Phase.ABSENT, raw)


def may_end_unbegun(inspected: Mapping[str, Any]) -> bool:
    """True if the container may end before the start script begins, and this can be checked.

    The image's ENTRYPOINT may end without running the start script. The check needs the script's
    mark, so nothing may hide it.
    """
    config, host = inspected["Config"], inspected["HostConfig"]
    mounts: list[Mapping[str, Any]] = host.get("Mounts") or []
    covers_tmp = "/tmp" in (host.get("Tmpfs") or {}) or any(
        mount["Target"] == "/tmp" for mount in mounts
    )
    hides_mark = host.get("ReadonlyRootfs") or covers_tmp
    return bool(config.get("Entrypoint") and config.get("OpenStdin") and not hides_mark)


def is_roots(inspected: Mapping[str, Any]) -> bool:
    """True if the container's program runs as root, and so may write anywhere in it."""
    user = str(inspected["Config"].get("User") or "root").partition(":")[0]
    return user in ("root", "0")


def not_begun(seen: Observation, inspected: Mapping[str, Any]) -> Observation:
    """The observation of a container whose ENTRYPOINT did not run the job's command."""
    entry: list[str] = inspected["Config"]["Entrypoint"]
    reason = words.why(Reason.NOT_STARTED, "entrypoint", entrypoint=shlex.join(entry))
    return with_reason(replace(seen, phase=Phase.FAILED), reason)


def end_reason(inspected: Mapping[str, Any], code: int) -> Why:
    """Why a container has failed. No reason (UNEXPLAINED) if it ended well."""
    state: Mapping[str, Any] = inspected["State"]
    limit = time_limit(inspected)
    if state.get("OOMKilled") and code:
        return words.why(Reason.OUT_OF_MEMORY, "docker")
    if limit and code in TIMED_OUT and run_time(state) >= limit - min(LATE, limit / 2):
        return words.why(Reason.TIME_LIMIT, limit=format_duration(limit))
    if not code:
        return UNEXPLAINED
    if state.get("Error"):
        return daemon_error(state)
    return words.why(Reason.EXIT_CODE, code=code)


def time_limit(inspected: Mapping[str, Any]) -> timedelta | None:
    text = labels_of(inspected).get("tao-sdk-time-limit")
    if not text:
        return None
    return timedelta(seconds=float(text))


def labels_of(inspected: Mapping[str, Any]) -> Mapping[str, str]:
    return inspected["Config"].get("Labels") or {}


def shown_variable(inspected: Mapping[str, Any], name: str) -> str:
    """The value of a variable in the container's visible environment; "" if it has none."""
    shown: list[str] = inspected["Config"].get("Env") or []
    return next((line.partition("=")[2] for line in shown if line.startswith(f"{name}=")), "")


def start_of(inspected: Mapping[str, Any]) -> datetime | None:
    """The time at which a container was started; None if the daemon's answer has another form."""
    try:
        return moment(inspected["State"]["StartedAt"])
    except (KeyError, TypeError, ValueError):
        return None


def run_time(state: Mapping[str, Any]) -> timedelta:
    started, ended = moment(state.get("StartedAt")), moment(state.get("FinishedAt"))
    if not started or not ended:
        return timedelta(0)
    return ended - started


def moment(text: str | None) -> datetime | None:
    """Parse the daemon's time, which has nanoseconds. None for its "never" and for no time."""
    if not text or text.startswith(NEVER):
        return None
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?", text)
    if match is None:
        return None
    whole = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return whole + timedelta(seconds=float(match[2] or 0))


def identity(info: Mapping[str, Any]) -> str:
    """The daemon's identity: its id and its data folder.

    Old daemons on one machine share an id, but no two daemons share a folder.
    """
    return f"{info.get('ID', '')} {info.get('DockerRootDir', '')}"


def folder(identity: str) -> str:
    """The data folder of the daemon with this identity, on the daemon's machine."""
    return identity.partition(" ")[2]


def belongs_to(inspected: Mapping[str, Any], job_id: str, number: int, store_id: str) -> bool:
    return names_of(inspected) == (job_id, str(number), store_id)


def names_of(inspected: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return (job id, attempt, store) of a container; empty texts if it is not a job's."""
    found = labels_of(inspected)
    return (
        found.get("tao-sdk-job-id", ""),
        found.get("tao-sdk-attempt", ""),
        found.get("tao-sdk-store", ""),
    )


def node_events(
    inspected: Mapping[str, Any], told: list[Mapping[str, Any]]
) -> tuple[NodeEvent, ...]:
    """The daemon's reports on a container.

    `told`: the container's events that the daemon still remembers.
    """
    state: Mapping[str, Any] = inspected["State"]
    found: list[NodeEvent] = []
    if state.get("OOMKilled"):
        found.append(
            NodeEvent("OOMKilled", "the kernel ended a process for want of memory in the container")
        )
    if state.get("Error"):
        found.append(NodeEvent("StartError", str(state["Error"])))
    if sum(event.get("Action") == "start" for event in told) > 1:
        found.append(NodeEvent(STARTED_AGAIN, "the container was started again from outside"))
    for event in told:
        found += end_events(event)
    return tuple(found)


def end_events(event: Mapping[str, Any]) -> Iterator[NodeEvent]:
    """Turn one of the daemon's events into an event about the container's end, if it is one."""
    action = str(event.get("Action", ""))
    attributes: Mapping[str, Any] = event.get("Actor", {}).get("Attributes", {})
    if action == "kill":
        signal = attributes.get("signal", "")
        yield NodeEvent(KILLED, f"killed through the daemon with signal {signal}")
    elif action in ("oom", "die", "stop"):
        code = attributes.get("exitCode", "")
        yield NodeEvent(action.capitalize(), f"exit code {code}" if code else action)


def owner_ids(user: str, passwd: str, group: str) -> tuple[int, int]:
    """Return (uid, gid) of a container's user: `1000`, `1000:1000`, `name`, `name:group`.

    `passwd` and `group` are the texts of the image's files. Root's 0 stands for ids they lack.
    """
    user_name, _, group_name = user.partition(":")
    uid, gid = user_ids(user_name, passwd)
    if not group_name:
        return uid, gid
    return uid, group_id(group_name, group, gid)


def user_ids(user_name: str, passwd: str) -> tuple[int, int]:
    """Return (uid, gid) of a user's name or number, by an image's /etc/passwd."""
    for name, _, uid, gid, *_ in rows_of_ids(passwd, columns=7):
        if user_name in (name, uid) and is_id(uid) and is_id(gid):
            return int(uid), int(gid)
    if is_id(user_name):
        return int(user_name), 0
    return 0, 0


def group_id(group_name: str, group: str, default: int) -> int:
    """Return the id of a group's name or number, by an image's /etc/group. Else `default`."""
    if is_id(group_name):
        return int(group_name)
    for name, _, gid, *_ in rows_of_ids(group, columns=4):
        if group_name == name and is_id(gid):
            return int(gid)
    return default


def rows_of_ids(text: str, columns: int) -> list[list[str]]:
    """The rows of /etc/passwd or /etc/group with at least `columns` columns."""
    rows = [line.split(":") for line in text.splitlines()]
    return [row for row in rows if len(row) >= columns]


def is_id(text: str) -> bool:
    return LINUX_ID.fullmatch(text) is not None
