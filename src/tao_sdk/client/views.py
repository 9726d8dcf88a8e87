"""Views: the one JSON form of a verb's answer, for `--json`, a page and a tool server alike.

Each is schema 1: fields may be added, never removed. Not here: a job's own object (Job.to_json),
nor what people read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tao_sdk.model.clock import to_iso
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.client import FileStat, Planned, Results
    from tao_sdk.model.activity import Activity
    from tao_sdk.model.checkpoints import Checkpoint
    from tao_sdk.model.comparison import Comparison
    from tao_sdk.model.diagnosis import Diagnosis
    from tao_sdk.model.finding import Finding
    from tao_sdk.model.job import Job

View = dict[str, Any]


def plan_view(planned: Planned, origins: Mapping[str, str] | None = None) -> View:
    """The plan as JSON: what would be sent, and the findings of the checks. Secrets appear by name
    only. `origins`: for a model's job, where its fields and the values of its spec came from.
    """
    plan = planned.plan
    return {
        "schema": 1,
        "id": plan.attempt.job_id,
        "platform": plan.attempt.platform,
        "endpoint": plan.attempt.endpoint,
        "command": planned.spec.command,
        "args": plain_values(planned.spec.args),
        "specs": plain_values(planned.spec.specs),
        "origins": dict(origins or {}),
        "asked": planned.asked,
        **plan.to_json(),
        "findings": [finding.to_json() for finding in planned.findings],
    }


def input_addresses(planned: Planned) -> dict[str, str]:
    """The inputs of a plan by their keys, without logins."""
    from tao_sdk.net.address import shown

    return {each.key: shown(each.uri) for each in planned.job.data.inputs}


def plain_values(values: Mapping[str, Any] | None) -> View | None:
    """Specs or args without library types, such as paths."""
    from tao_sdk.payload.values import plain_data

    return None if values is None else cast("View", plain_data(values, "values"))


def why_view(
    job: Job,
    diagnosis: Diagnosis | None,
    activity: Activity | None,
    notes: Sequence[str] = (),
) -> View:
    """The JSON of why a job waits or failed. A job that is well has no diagnosis, but its
    activity.
    """
    return {
        "schema": 1,
        "job": job.id,
        "status": job.status.value,
        "message": job.message,
        "reason_code": job.reason_code.value if job.reason_code else None,
        "diagnosis": diagnosis.to_json() if diagnosis else None,
        "epoch_told_at": to_iso(epoch_told_at(job, activity)),
        "activity": activity.to_json() if activity else None,
        "notes": list(notes),
    }


def epoch_told_at(job: Job, activity: Activity | None) -> datetime | None:
    """The latest time at which a running job can have reported its newest epoch; None before the
    first.

    The report came before it was read, and no later than the last change of the log.
    """
    latest = job.reading.pace.latest
    if latest is None or job.reading.attempt != job.attempt or job.status is not Status.RUNNING:
        return None
    read_at = datetime.fromtimestamp(latest[1], timezone.utc)
    log_changed_at = activity.log_changed_at if activity else None
    return min(read_at, log_changed_at or read_at)


def comparison_view(comparison: Comparison, picture: Path | None) -> View:
    """The compared jobs, and the file of the picture that was drawn of them."""
    return {**comparison.to_json(), "picture": str(picture) if picture else None}


def doctor_view(findings: Mapping[str, Sequence[Finding]], ready: Sequence[str]) -> View:
    """The findings of each platform or endpoint, and the names of the ones that are ready to run
    jobs.
    """
    told = [
        {"platform": name, **finding.to_json()}
        for name, each in findings.items()
        for finding in each
    ]
    return {"schema": 1, "ready": list(ready), "findings": told}


def results_view(
    job_id: str, left: Results, copied: Sequence[Path] | None, of_epoch: Checkpoint | None
) -> View:
    """JSON of a job's results: its files, the copies that were made, and its checkpoints. For one
    epoch, that checkpoint alone.
    """
    checkpoints = [of_epoch] if of_epoch else left.checkpoints
    return {
        "schema": 1,
        "job": job_id,
        "dir": left.dir,
        "elsewhere": list(left.elsewhere),
        "best": left.best,
        "newest": left.newest,
        "checkpoints": [checkpoint_view(checkpoint) for checkpoint in checkpoints],
        "unsent": left.unsent,
        "lost": left.lost or left.not_kept,
        "unreadable": list(left.unreadable),
        "progress": left.progress.to_json(),
        "files": [file_view(file) for file in left.files],
        "fetched": None if copied is None else [str(path) for path in copied],
        "of_epoch": checkpoint_view(of_epoch) if of_epoch else None,
    }


def checkpoint_view(checkpoint: Checkpoint) -> View:
    """A checkpoint as JSON. `complete` is true if it is known to be written to its end."""
    return {
        "path": checkpoint.path,
        "is_dir": checkpoint.is_dir,
        "size": checkpoint.size,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "complete": checkpoint.complete,
    }


def path_view(stat: FileStat, inside: Sequence[FileStat]) -> View:
    """The entry at a path and, for a folder, the files in it."""
    return {"schema": 1, **file_view(stat), "files": [file_view(file) for file in inside]}


def file_view(file: FileStat) -> View:
    changed = changed_at(file)
    return {
        "path": file.path,
        "is_dir": file.is_dir,
        "size": file.size,
        "mtime": to_iso(changed) if changed else None,
    }


def changed_at(file: FileStat) -> datetime | None:
    """The time of the last change. None also for a time that no calendar has: a job may give its
    files any time.
    """
    try:
        return datetime.fromtimestamp(file.mtime, timezone.utc) if file.mtime else None
    except (ValueError, OverflowError, OSError):
        return None


def watch_view(live: int) -> View:
    """The number of live jobs when watching ended, as JSON."""
    return {"schema": 1, "live": live}


def removed_view(job_ids: Sequence[str]) -> View:
    return {"schema": 1, "removed": list(job_ids)}


def cleaned_view(job_ids: Sequence[str], dry_run: bool) -> View:
    """The jobs of which nothing is left at their backends. For a dry run, the jobs that would be
    cleaned.
    """
    return {"schema": 1, "dry_run": dry_run, "jobs": list(job_ids)}


def images_view(manifest: Path, images: Mapping[str, str]) -> View:
    """The image keys, what they stand for, and the file that says so."""
    return {"schema": 1, "file": str(manifest), "images": dict(images)}


def job_file_view(job_file: Path, platform: str) -> View:
    """A job file that was written."""
    return {"schema": 1, "file": str(job_file), "platform": platform}


def log_view(job_id: str, text: str) -> View:
    """A piece of a job's log."""
    return {"job": job_id, "text": text}
