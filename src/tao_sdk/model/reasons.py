"""Reasons: why a job waits, failed or ended, as codes that decisions read and programs may test.

Here: the codes. Not here: their sentences for people (model/words.py), which may change without
changing what follows. A value is stable: it stands in stores and in `--json`.
"""

from __future__ import annotations

from enum import Enum


class Reason(str, Enum):
    """The reason for a job's present state. docs/failures.md has the same table."""

    # The engine's own
    SUBMITTING = "submitting"
    """Its first attempt is being handed over."""
    SUBMITTED = "submitted"
    """The backend has it; it was not looked at since."""
    STARTING = "starting"
    """Its submit takes several steps; each look takes the next one that is due."""
    ATTEMPT_STARTED = "attempt_started"
    """A further attempt is being handed over."""
    START_UNKNOWN = "start_unknown"
    """The backend's answer to the submit was lost; the next look finds out."""
    SUBMIT_BROKEN = "submit_broken"
    """Its submit met an error that nobody foresaw; the next look adopts or ends it."""
    NEXT_ATTEMPT = "next_attempt"
    """Its newest attempt failed; another follows at `next_attempt_at`."""
    NOT_SEEN = "not_seen"
    """The backend could not be asked; the status is the one before."""
    NOT_FOUND = "not_found"
    """The backend was asked and does not have it; one more look decides."""
    REMOVED_OUTSIDE = "removed_outside"
    """The backend has nothing of it any more, and no record tells its end."""
    TOLD_BY_RECORD = "told_by_record"
    """The backend has nothing of it any more; its own record tells the end."""
    REFUSED = "refused"
    """The backend refused the newest attempt."""
    RUNNER_FAILED = "runner_failed"
    """The runner could not do its part and said why."""
    CANCELING = "canceling"
    """Its end was asked for and not seen yet."""
    CANCEL_FAILED = "cancel_failed"
    """Its end was asked for, and the backend could not be told."""
    CANCELED = "canceled"
    """It ended because that was asked for."""
    GRACE_OVER = "grace_over"
    """It was canceled, had not ended when its grace was over, and was killed."""
    NEVER_STARTED = "never_started"
    """It was canceled before it started."""

    # Of every backend
    EXIT_CODE = "exit_code"
    """The command ended with an exit code other than 0."""
    SIGNAL = "signal"
    """The command was ended by a signal."""
    EXIT_UNKNOWN = "exit_unknown"
    """The command ended, and nobody knows its exit code."""
    TIME_LIMIT = "time_limit"
    """It reached its time limit."""
    OUT_OF_MEMORY = "out_of_memory"
    """The memory ran out, and the kernel ended a process of it."""
    NOT_STARTED = "not_started"
    """It could not be started, or something ended it before."""
    QUEUED = "queued"
    """It waits for what the backend names."""

    # Local
    GPUS_BUSY = "gpus_busy"
    """It waits for GPUs that other jobs hold."""
    PROCESS_STOPPED = "process_stopped"
    """Somebody has stopped its processes (SIGSTOP)."""
    SUPERVISOR_STOPPED = "supervisor_stopped"
    """Somebody has stopped its supervisor (SIGSTOP)."""
    SUPERVISOR_TOLD_TO_END = "supervisor_told_to_end"
    """Something other than a cancel told its supervisor to end."""
    SUPERVISOR_LOST = "supervisor_lost"
    """Its supervisor was killed."""
    MACHINE_RESTARTED = "machine_restarted"
    """The machine was restarted."""
    CONTAINER_STOPPED = "container_stopped"
    """The container in which the SDK ran was stopped."""

    # Docker
    DAEMON_ERROR = "daemon_error"
    """The daemon says what went wrong, in its own words."""
    PULL_FAILED = "pull_failed"
    """Its image could not be pulled."""

    # SLURM
    NODE_FAILED = "node_failed"
    """A node of it failed."""
    BOOT_FAILED = "boot_failed"
    """A node could not be started."""
    DEADLINE = "deadline"
    """Its deadline has passed."""
    PREEMPTED = "preempted"
    """A job of higher priority took its nodes."""
    SCRIPT_NOT_STARTED = "script_not_started"
    """A node could not start its script."""
    NOT_LAUNCHED = "not_launched"
    """A folder or file that its script needs is not there for the node."""
    SCRIPT_KILLED = "script_killed"
    """Its batch script was killed."""
    CONVERSION_FAILED = "conversion_failed"
    """The job that prepares its image failed."""
    STATUS_FILE_FAILED = "status_file_failed"
    """The command ended well, and the training's status.json says that it failed."""
    CAUSE_NOT_TOLD_YET = "cause_not_told_yet"
    """The controller shows a failure of which the accounting has not told the cause yet."""
    QUEUE_REASON = "queue_reason"
    """SLURM's own reason for an end, in its word."""

    # Kubernetes
    EVICTED = "evicted"
    """Its pod was taken off its node, for want of room there or by someone's drain."""
    NODE_REFUSED = "node_refused"
    """A node did not take its pod, such as for a GPU that another pod got first."""
    PREPARING = "preparing"
    """Its node prepares its pod: mounts volumes, sets up the network, pulls the image."""

    __str__ = str.__str__

    @classmethod
    def read(cls, stored: str | None) -> Reason | None:
        """The reason with that value. None for None, and for a value of a later version."""
        return BY_VALUE.get(stored or "")


BY_VALUE = {reason.value: reason for reason in Reason}
