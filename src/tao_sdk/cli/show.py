"""The text of jobs, events, findings and diagnoses. Pure: a record in, lines out.

Not here: the screen of a running job (screen.py).
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_sdk.cli.flag_words import with_flags
from tao_sdk.cli.output import COLORS, Output, cut
from tao_sdk.model.activity import STATES
from tao_sdk.model.clock import utc_now
from tao_sdk.model.diagnosis import Diagnosis
from tao_sdk.model.finding import Finding
from tao_sdk.model.job import Event, Job
from tao_sdk.model.job_settings import settings_of
from tao_sdk.model.metric_names import telling_order
from tao_sdk.model.price import hourly_words
from tao_sdk.model.progress import (
    NOT_FINITE_ADVICE,
    Best,
    Progress,
    not_finite_words,
    telling_metrics,
)
from tao_sdk.model.ranking import best_value
from tao_sdk.model.secrets import shown_target
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_clock

if TYPE_CHECKING:
    from tao_sdk.model.activity import Activity, GpuUse, MainProcess
    from tao_sdk.model.checkpoints import Checkpoint

HEAD = (
    "ID",
    "PLATFORM",
    "ENDPOINT",
    "STATUS",
    "AGE",
    "TOOK",
    "PROGRESS",
    "BEST",
    "LABELS",
    "MESSAGE",
)
ALWAYS_SHOWN = frozenset({"ID", "PLATFORM", "STATUS", "AGE"})
LEAST_MESSAGE = 12  # characters of the messages on a terminal; with less room they say nothing
LABELS_WIDTH = 32  # on a terminal; longer labels are cut
MORE_METRICS = 8  # metrics of one job, beyond the two beside its epoch


MOST_LINES = 5  # shown of a list of names
NAMED_PIDS = 16
UNSHOWN_DETAILS = frozenset({"daemon_identity"})  # they say nothing to people
NOW_SECONDS = 10.0  # progress read within this time is shown without its age


def how_far(job: Job, now: datetime, most_metrics: int | None = None) -> list[str]:
    """`14/20`, `loss 2.000 -> 0.150`, `ETA 0:06`. For a live job whose log was not read just now,
    also `5m ago`.
    """
    progress = job.progress
    if not progress.is_counted:
        return []
    words = [epoch(progress), *trends(progress)[:most_metrics]]
    if job.status.terminal and not job.reading.whole:
        words.append("(its log was not read to its end yet)")
    if job.status.terminal:
        return words
    since = seconds_since_reading(job, now)
    if progress.eta_seconds is not None and progress.fraction != 1:
        words += time_left(progress.eta_seconds - since)
    if job.silent_seconds is not None and progress.fraction != 1:
        words.append(f"no epoch for {age(job.silent_seconds)}")
    if job.status is Status.PAUSED:
        words.append("stands still")
    if since >= NOW_SECONDS:
        words.append(f"{age(since)} ago")
    return words


def time_left(seconds: float) -> list[str]:
    """`ETA 0:06`; nothing once it has run out."""
    return [f"ETA {format_clock(seconds)}"] if seconds > 0 else []


def seconds_since_reading(job: Job, now: datetime) -> float:
    as_of = job.progress.as_of or job.seen_at or job.created
    return max((now - as_of).total_seconds(), 0)


def trends(progress: Progress) -> list[str]:
    """The metrics, each with its first value: `loss 2.000 -> 0.150`."""
    return [with_first(progress, text) for text in metrics(progress)]


def with_first(progress: Progress, text: str) -> str:
    """`loss 0.150` as `loss 2.000 -> 0.150`; unchanged if the job reported one value only."""
    name, _, value = text.partition(" ")
    values = [entry.metrics[name] for entry in progress.history if name in entry.metrics]
    if len(values) < 2:
        return text
    return f"{name} {number(values[0])} -> {value}"


def listing(
    jobs: Sequence[Job],
    now: datetime,
    causes: Mapping[str, str],
    metric: str | None,
    hidden: Collection[str] = (),
    narrow: bool = False,
    settings: Sequence[str] = (),
) -> list[tuple[str, ...]]:
    """A head, and a row for each job. A column that is empty for all jobs is left out.

    The best value is that of `metric`, or of each job's most telling one. `settings` are the flat
    names of settings that have a column. Labels in `hidden` are not shown: all jobs have them. With
    `narrow`, long labels are cut. `causes` has, by id, why jobs failed.
    """
    width = LABELS_WIDTH if narrow else None
    hidden = {*hidden, *(name.removeprefix("label ") for name in settings)}
    shared = shared_labels(jobs)
    in_order = [replace(job, labels=telling_first(job, shared)) for job in jobs]
    rows = [
        with_settings(
            row(job, now, causes[job.id], metric, hidden, width),
            setting_cells(job, settings, width),
        )
        for job in in_order
    ]
    head = with_settings(HEAD, settings)
    columns = [
        column
        for column, name in enumerate(head)
        if name in ALWAYS_SHOWN or any(cells[column] for cells in rows)
    ]
    return [tuple(cells[column] for column in columns) for cells in (head, *rows)]


def fits_message(table: Sequence[Sequence[str]], width: int | None) -> bool:
    """False if the table ends in messages, and a line of `width` characters has no room for them.

    `width` is None where lines may be as long as they need to be.
    """
    if width is None or table[0][-1] != "MESSAGE":
        return True
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    before = sum(widths[:-1]) + 2 * (len(widths) - 1)
    return width - before >= min(LEAST_MESSAGE, widths[-1])


def shared_labels(jobs: Sequence[Job]) -> set[tuple[str, str]]:
    """The labels, with their values, that all jobs have."""
    shared = set(jobs[0].labels.items()) if jobs else set[tuple[str, str]]()
    for job in jobs[1:]:
        shared &= set(job.labels.items())
    return shared


def telling_first(job: Job, shared: Collection[tuple[str, str]]) -> Mapping[str, str]:
    """The job's labels, the `shared` ones at the end: they may be cut off."""
    return dict(sorted(job.labels.items(), key=lambda pair: pair in shared))


def with_settings(cells: tuple[str, ...], more: Sequence[str]) -> tuple[str, ...]:
    """The cells of HEAD, with the cells of settings before the labels."""
    at = HEAD.index("LABELS")
    return (*cells[:at], *more, *cells[at:])


def setting_cells(job: Job, settings: Sequence[str], width: int | None) -> list[str]:
    """The values of settings in a job; empty for a setting that it does not have."""
    if not settings:
        return []
    own = settings_of(job)
    values = [own.get(name) for name in settings]
    return [
        "" if value is None else cut(one_line(str(shown_target(value))), width) for value in values
    ]


def row(
    job: Job,
    now: datetime,
    cause: str = "",
    metric: str | None = None,
    hidden: Collection[str] = (),
    width: int | None = None,
) -> tuple[str, ...]:
    """A job as a row under HEAD. `cause` is the cause of its failure, if it is known."""
    return (
        job.id,
        job.platform,
        job.endpoint_name,
        job.status.value,
        age((now - job.created).total_seconds()),
        took(job, now),
        progress_cell(job, now),
        best(job, metric),
        cut(labels(job, hidden), width),
        one_line(cause) or message(job),
    )


def progress_cell(job: Job, now: datetime) -> str:
    """`14/20  loss 2.000 -> 0.150`, `step 100  loss 1.230`. For a job that reports no epoch and no
    step, its metric.
    """
    words = how_far(job, now, most_metrics=1)
    if not words:
        return "  ".join(metrics(job.progress)[:1])
    head = ["step"] if job.progress.unit == "step" else []
    return " ".join([*head, "  ".join(words)])


def best(job: Job, metric: str | None = None) -> str:
    """`accuracy 0.957 @14`: the best value and its epoch, for `metric` or for the most telling
    metric.
    """
    shown = best_value(job.progress, metric) if metric else job.progress.best
    if shown is None:
        return ""
    return one_line(f"{shown.metric} {best_number(job.progress, shown)}")


def best_number(progress: Progress, best: Best) -> str:
    """`0.957 @14`, `1.230 @step 100`; only the value if no epoch and no step was reported."""
    value = number(best.value)
    if best.step is not None:
        return f"{value} @step {best.step}"
    return f"{value} @{progress.shown_epoch(best.epoch)}" if best.epoch else value


def best_place(progress: Progress, best: Best) -> str:
    """`epoch 14` or `step 100`, as the job counts them."""
    return f"{progress.unit} {progress.shown_number(best)}"


def labels(job: Job, hidden: Collection[str] = ()) -> str:
    shown = {name: value for name, value in job.labels.items() if name not in hidden}
    return one_line(" ".join(f"{name}={value}" for name, value in shown.items()))


def more_metrics(progress: Progress) -> str:
    """The metrics that are not beside the epoch, the most telling first; without an epoch, all."""
    shown = metrics(progress) if progress.is_counted else []
    beside = {text.partition(" ")[0] for text in shown}
    names = sorted(progress.metrics.keys() - beside, key=telling_order)[:MORE_METRICS]
    return "  ".join(f"{name} {number(progress.metrics[name])}" for name in names)


def age(seconds: float) -> str:
    """`12s`, `5m`, `3h`, `2d`: one unit is enough to find a job by."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(int(seconds), 0)}s"


def took(job: Job, now: datetime) -> str:
    """The time that the newest attempt has run; empty before it started."""
    if job.newest_start is None:
        return ""
    return format_clock(max(((job.ended or now) - job.newest_start).total_seconds(), 0))


def epoch(progress: Progress) -> str:
    """`14/20`: the newest epoch or step, as the job counts them."""
    if progress.number is None:
        return ""
    return f"{progress.number}/{progress.total}" if progress.total else str(progress.number)


def metrics(progress: Progress) -> list[str]:
    """The loss and the most telling metric, as `loss 0.093`."""
    values = [f"{name} {number(progress.metrics[name])}" for name in telling_metrics(progress)]
    return values + [f"{name} is not finite" for name in progress.not_finite[:1]]


def number(value: float) -> str:
    """`0.093`, `12.3`, `1.2e-05`: three significant digits."""
    size = abs(value)
    if size == 0 or 0.001 <= size < 10:
        return f"{value:.3f}"
    if 10 <= size < 100_000:
        return f"{value:.1f}"
    return f"{value:.2g}"


def one_line(text: str) -> str:
    """The text with one blank for all white space in a row."""
    return " ".join(text.split())


def first_lines(texts: Sequence[str], most: int = MOST_LINES) -> list[str]:
    """The first of many texts, a line each, and `and 7 more`."""
    more = len(texts) - most
    rest = [f"and {more} more"] if more > 0 else []
    return [*map(one_line, texts[:most]), *rest]


def message(job: Job) -> str:
    """The message as a line; empty when it only repeats the status."""
    text = one_line(job.current_message)
    return "" if text.lower() == job.status.value.lower() else text


def path(text: str) -> str:
    """A path below the current folder, relative to it. Any other path is absolute. If the current
    folder is /, all are.
    """
    try:
        here = Path.cwd()
        return text if here == Path("/") else str(Path(text).relative_to(here))
    except (ValueError, OSError):
        return text


def details(job: Job, out: Output, results_folder: str) -> list[str]:
    """All facts about one job. `results_folder` is the place of its results."""
    facts = job_facts(job, results_folder)
    status = "  ".join([out.status(job.status.value), message(job)]).rstrip()
    lines = {"status": status, **{name: str(value) for name, value in facts.items()}}
    indent = max(map(len, lines)) + 2
    rows = [f"  {name:<{indent}}{value}" for name, value in lines.items()]
    return [out.paint(job.id, bold=True), *rows]


def job_facts(job: Job, results_folder: str) -> dict[str, str | int]:
    """The facts of a job below its status, each by its heading; none is empty."""
    now = utc_now()
    facts: Mapping[str, Any] = {
        "attempt": job.attempt if job.attempt > 1 else "",
        "exit code": job.exit_code,
        "platform": job.platform,
        "endpoint": job.endpoint_name,
        "image": job.image,
        "gpus": job.gpu_count,
        "price": hourly_words(job.price_per_hour),
        job.progress.unit: "  ".join(how_far(job, now)),
        "metrics": more_metrics(job.progress),
        "best": best(job),
        "created": moment(job.created),
        "started": moment(job.started),
        "attempt began": moment(job.newest_start) if job.attempt > 1 else "",
        "ended": moment(job.ended),
        "took": took(job, now),
        "results": results_folder,
        "labels": "  ".join(f"{name}={value}" for name, value in job.labels.items()),
        "parent": job.parent,
        **platform_facts(job),
    }
    return {
        name: value
        for name, value in facts.items()
        if isinstance(value, (str, int)) and value != ""
    }


def platform_facts(job: Job) -> dict[str, Any]:
    """The platform's own details of the job, beside those that every job has."""
    common = {
        "backend_type": job.platform,
        "num_gpu": job.gpu_count,
        "results_dir": job.results_dir,
        "attempt_started": job.attempt_started,
        "price_per_hour": job.price_per_hour,
        "rented": job.rented,
    }
    own = {
        name: value
        for name, value in job.details.items()
        if value != common.get(name) and name not in UNSHOWN_DETAILS
    }
    return {name.replace("_", " "): value for name, value in own.items()}


def moment(when: datetime | None) -> str:
    """Local time, to the second."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S") if when else ""


def event(happened: Event, out: Output, progress: Progress | None = None) -> str:
    """`   12  14:03:22  digits-...  status  Running`. With the job's progress, an epoch has the
    number that the job's log gives it.
    """
    words = hook_words(happened) or event_words(happened, out, progress)
    when = happened.time.astimezone().strftime("%H:%M:%S")
    head = f"{happened.seq:>5}  {when}  {happened.job_id}  {happened.kind:<8}"
    return "  ".join([head, *words]).rstrip()


def event_words(happened: Event, out: Output, progress: Progress | None) -> list[str]:
    """The event's status, the backend's message, and its facts as `name=value`."""
    words = [out.status(happened.status.value)] if happened.status else []
    words += [one_line(happened.raw)] if happened.raw else []
    words += [
        f"{name}={one_line(str(value))}"
        for name, value in event_facts(happened, progress).items()
        if value not in (None, "", {}, [])
    ]
    return words


def hook_words(happened: Event) -> list[str]:
    """`on_complete failed, tried again in 0:05: exit code 7: no such host`. Nothing for any other
    event, or one that an older version wrote.
    """
    hook = happened.data.get("hook")
    if happened.kind == "hook-failed" and "trouble" in happened.data:
        follows, trouble = happened.data["follows"], happened.data["trouble"]
        return [one_line(f"{hook} failed, {follows}: {trouble}")]
    if happened.kind == "hook-done" and hook:
        return [f"{hook} {happened.raw or 'delivered'}"]
    return []


def event_facts(happened: Event, progress: Progress | None) -> Mapping[str, Any]:
    """The data of an event, with its epoch as the job's log counts."""
    epoch = happened.data.get("epoch")
    if progress is None or not isinstance(epoch, int):
        return happened.data
    return {**happened.data, "epoch": progress.shown_epoch(epoch)}


def finding(found: Finding, out: Output | None = None) -> str:
    """`warning: ...`, with the advice in the command's flags."""
    severity = found.severity.value
    word = out.paint(severity, COLORS[severity]) if out else severity
    return f"{word}: {replace(found, next=with_flags(found.next)).text}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 else "")


def known_whole(checkpoints: Sequence[Checkpoint]) -> str:
    """The number of checkpoints, and how many are known to be written to their end."""
    whole = sum(checkpoint.complete for checkpoint in checkpoints)
    return f"{plural(len(checkpoints), 'checkpoint')}, {whole or 'none'} known to be whole"


def time_in_status(job: Job, now: datetime) -> str:
    """` for 12 min`, ` after 0:03`: the words behind a status; "" if its time is not known."""
    if job.status is Status.PENDING:
        minutes = int((now - job.created).total_seconds() // 60)
        return f" for {minutes} min" if minutes else ""
    duration = took(job, now)
    if not duration or job.status is Status.PAUSED:  # since when it is paused is not known
        return ""
    return f" {'after' if job.status.terminal else 'for'} {duration}"


def why(job: Job, diagnosis: Diagnosis | None, out: Output) -> list[str]:
    """Explain why a job waits or failed: what went wrong, what was seen, what to do."""
    head = out.status(job.status.value) + time_in_status(job, utc_now())
    if diagnosis is None:
        return [without_diagnosis(job, head), *not_finite_lines(job, out)]
    what, *rest = explanation(diagnosis, out, waits=job.status is not Status.ERROR)
    return [f"{head}: {what}", *rest]


def without_diagnosis(job: Job, head: str) -> str:
    """`Running for 0:21: waits for a GPU`; `Complete after 0:03.`"""
    known = message(job)
    if job.status is Status.COMPLETE or not known:
        return f"{head}."
    return f"{head}: {known}"


def not_finite_lines(job: Job, out: Output) -> list[str]:
    """Name the metrics of a job that are NaN, since when, and what to do, if it has not failed.

    Nothing for a Complete job: a note of it says the same.
    """
    words = not_finite_words(job.progress)
    if not words or job.status is Status.COMPLETE:
        return []
    return [f"Its {words}.", *labelled("Do:", NOT_FINITE_ADVICE, out.width)]


def standstill(job: Job, activity: Activity | None, epoch_at: datetime | None) -> list[str]:
    """The time since which a running job is silent, and its activity meanwhile: a line for each
    fact.
    """
    now = utc_now()
    lines: list[str] = []
    if activity and activity.log_changed_at:
        lines.append(f"Its log last grew {ago(activity.log_changed_at, now)}.")
    if epoch_at:
        lines.append(
            f"Its newest epoch is {epoch(job.progress)}, told {ago(epoch_at, now)} or earlier."
        )
    return [*lines, *process_lines(activity)] if activity else lines


def ago(when: datetime, now: datetime) -> str:
    """`5m ago, at 2026-11-23 00:03:22`. The clock of another machine may be ahead."""
    return f"{age(max((now - when).total_seconds(), 0.0))} ago, at {moment(when)}"


def process_lines(activity: Activity) -> list[str]:
    """Describe what the job's processes do, with the commands that tell more or let them go on."""
    main = activity.main
    lines: list[str] = [] if activity.cpu_seconds is None else [cpu_line(activity)]
    lines += map(gpu_line, activity.gpus)
    if main:
        lines.append(f"Its process {main.pid} ({main.name}) {state_words(main)}.")
    if activity.stopped_pids:
        pids = " ".join(map(str, activity.stopped_pids[:NAMED_PIDS]))
        lines.append(f"Somebody has stopped (SIGSTOP) some of its processes: kill -CONT {pids}")
    if main and main.command:
        lines.append(f"See where its Python code is: {main.command}")
    if activity.enter:
        lines.append(f"Look around beside it: {activity.enter}")
    return lines


def gpu_line(gpu: GpuUse) -> str:
    """The use of one GPU of the job."""
    share = "" if gpu.percent is None else f"is busy {gpu.percent} % of the time, "
    return f"Its GPU {gpu.index} {share}has {gpu.memory_mib} MiB of its memory in use."


def cpu_line(activity: Activity) -> str:
    """The CPU that the job uses now, if that is known, and the CPU time of its processes."""
    used = f"Its processes have used {format_clock(activity.cpu_seconds or 0)} of CPU time."
    if activity.cpu_cores is None:
        return used
    cores = f"{activity.cpu_cores:.2f} CPU cores" if activity.cpu_cores else "no CPU"
    return f"It uses {cores} now. {used}"


def state_words(main: MainProcess) -> str:
    """`sleeps in futex_wait_queue: it waits for a lock or another thread`."""
    state = STATES.get(main.state, f"is in state {main.state}")
    if not main.waits_in or main.state not in ("S", "D"):
        return state
    waits_for = f": it waits for {main.waits_for}" if main.waits_for else ""
    return f"{state} in {main.waits_in}{waits_for}"


def explanation(diagnosis: Diagnosis, out: Output, *, waits: bool = False) -> list[str]:
    """Say what went wrong, what was seen and what to do. For a job that is over, also say whose
    fault it is and if trying again helps.
    """
    what = one_line(diagnosis.what)
    more = "" if one_line(diagnosis.why) in what else diagnosis.why
    return [
        what,
        *labelled("Seen:", more, out.width),
        *labelled("Do:", diagnosis.next, out.width),
        *([] if waits else [f"Fault: {diagnosis.err_class.fault}", f"Again: {diagnosis.again}"]),
    ]


def labelled(label: str, text: str, width: int | None) -> list[str]:
    """`label text`, wrapped below the text; the text's own lines are kept. Nothing for an empty
    text.
    """
    indent = " " * (len(label) + 1)
    room = width and max(width - len(indent), 20)
    lines: list[str] = []
    for line in text.strip("\n").splitlines():
        lines += wrapped(line, room)
    if not lines:
        return []
    return [f"{label} {lines[0]}", *(f"{indent}{line}".rstrip() for line in lines[1:])]


def wrapped(line: str, width: int | None) -> Sequence[str]:
    if width is None:
        return [line]
    return textwrap.wrap(line, width, break_on_hyphens=False) or [""]
