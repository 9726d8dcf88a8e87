"""Call checks: the arguments that a program passes to Client, checked before any backend is asked.

Not here: what a field of a job allows (model/spec.py), and what a platform's checks find in a plan
(engine/prepare.py).
"""

from __future__ import annotations

import functools
import inspect
import operator
import threading
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any, ParamSpec, TypeVar, cast

from tao_sdk.backends.by_name import backend_class, platform_at
from tao_sdk.model.errors import Refused, UsageError
from tao_sdk.model.fields import settings_of
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, read_spec

JOB_FILE_ADVICE = (
    "To read a job file: from tao_sdk.client.job_file import read_job_file; "
    "submit(read_job_file({path!r}).spec_for('local'), 'local')."
)

P = ParamSpec("P")
R = TypeVar("R")


def suggests_arguments(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method: its TypeError for an unknown argument names the argument that was
    meant.
    """
    known = [name for name in inspect.signature(method).parameters if name != "self"]

    @functools.wraps(method)
    def checked(*args: P.args, **keywords: P.kwargs) -> R:
        for name in keywords:
            if name in known:
                continue
            from difflib import get_close_matches

            meant = get_close_matches(name, known, n=1)
            if meant:
                what = f"{method.__name__}() has no argument {name!r}."
                raise TypeError(f"{what} Did you mean {meant[0]!r}?")
        return method(*args, **keywords)

    return checked


def read_job(
    call: str, spec: JobSpec | Mapping[str, Any] | str | None, keywords: Mapping[str, Any]
) -> JobSpec:
    """The job passed to `call` (submit or plan). Raises SpecError; raises UsageError if there is no
    job, or its fields came as keywords.
    """
    if keywords:
        name = next(iter(keywords))
        what = f"{call}: there is no argument {name!r}."
        if name not in settings_of(JobSpec):
            raise UsageError(what, "", f"Its arguments are: {call}(spec, platform, options).")
        why = f"{name} is a field of the job."
        fields = ", ".join(f"{field}=..." for field in keywords)
        raise UsageError(what, why, f"Write {call}(JobSpec({fields}), platform).")
    if spec is None:
        raise UsageError(
            f"{call}: no job is given.",
            "Its first argument is a JobSpec, or a mapping of its fields.",
            f"Write {call}(JobSpec(command=...), platform).",
        )
    if isinstance(spec, str):
        what = f"{call}: a job is no text, and {spec[:80]!r} is one."
        advice = f"Write {call}(JobSpec(command={spec[:80]!r}), platform)."
        if is_job_file(spec):
            advice = JOB_FILE_ADVICE.format(path=spec)
        raise UsageError(what, "", advice)
    spec = spec if isinstance(spec, JobSpec) else read_spec(spec)
    if not spec.files:
        return spec
    from tao_sdk.client.carried_files import with_contents

    return with_contents(spec)


def is_job_file(given: Any) -> bool:
    """True for a text that names a file of YAML."""
    return isinstance(given, str) and given.endswith((".yaml", ".yml"))


def read_jobs(call: str, specs: Any) -> list[JobSpec | Mapping[str, Any]]:
    """The jobs passed to `call`. Raises UsageError for a single job, or none, in place of a
    list.
    """
    kind = type(specs).__name__
    if isinstance(specs, (str, Mapping, JobSpec)) or not isinstance(specs, Iterable):
        what = f"{call}: its first argument is a {kind}; it must be a list of jobs."
        raise UsageError(what, "", f"Write {call}([JobSpec(command=...), ...], platform).")
    return list(cast(Iterable[JobSpec | Mapping[str, Any]], specs))


def gpus_of(job: JobSpec | Mapping[str, Any]) -> int:
    """0 for a job with a gpu_count of 0, else 1. Submitting the job checks any other value."""
    count = job.get("gpu_count") if isinstance(job, Mapping) else getattr(job, "gpu_count", None)
    if count == 0:
        return 0
    return 1


def needs_image(place: str, settings: Settings) -> bool:
    """True if every job of the platform or endpoint runs in a container."""
    return backend_class(platform_at(place, settings)).capabilities.needs_image


def refuse_no_image(spec: JobSpec, place: str, settings: Settings) -> None:
    """Raise Refused for a job without an image if every job needs one. No platform is asked."""
    if spec.image or not needs_image(place, settings):
        return
    refused = Refused(
        f"{platform_at(place, settings)} needs an image.",
        "Every job runs in a container there.",
        "Name one: --image IMAGE, or image: in a job file.",
    )
    refused.code = "spec.image"
    raise refused


def line_count(tail: Any) -> int | None:
    """The number of lines to read from the end of a log; None for the whole log. Raises UsageError
    for a value that is not a whole number of 0 or more.
    """
    if tail is None:
        return None
    return whole_number("tail", tail, "For the whole log, leave it out.")


def rank_number(rank: Any) -> int:
    """The rank of the log. Raises UsageError for a value that is not a whole number of 0 or
    more.
    """
    return whole_number("rank", rank, "For all ranks, leave it out.")


def whole_number(name: str, value: Any, advice: str) -> int:
    """The value as an int. Raises UsageError if it is not a whole number of 0 or more."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        what = f"{name} is {value!r}; it must be a whole number of 0 or more."
        raise UsageError(what, "", advice)
    return number


def refuse_no_seconds(name: str, value: Any, meaning: str, least: float = 0.0) -> None:
    """Raise UsageError unless the value is a finite number of seconds of at least `least`."""
    if isinstance(value, Real) and least <= float(value) < threading.TIMEOUT_MAX:
        return
    raise UsageError(f"{name} is {value!r}.", meaning, "Give seconds, as a number.")


def refuse_one_text(name: str, value: Any) -> None:
    """Raise UsageError for one id in place of a list of ids: its letters would be taken for the
    ids.
    """
    if isinstance(value, str):
        what = f"{name} is the text {value!r}; it must be a list of ids."
        raise UsageError(what, "", f"Write [{value!r}].")
