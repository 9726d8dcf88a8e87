"""Input findings: check that the inputs that a job names in S3, on a hub, in NGC or on the web are
there, and how large they are.

This machine checks them before the submit.

The job may see inputs that this machine cannot: on a server in the cluster's network, or with a
role that only the job has. So they are a warning. If the store itself says that an input is not
there, or denies it to the keys of the job, the submit stops.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.backends.contract import Capabilities
from tao_sdk.engine.bucket_files import advice, environment, in_bucket
from tao_sdk.engine.engine import Engine
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.prepared_job import DataInput, KeyAndValue, PreparedJob
from tao_sdk.model.spec import is_job_id
from tao_sdk.model.units import format_size
from tao_sdk.net.address import MODULES, shown
from tao_sdk.net.failure import Failure
from tao_sdk.net.s3_presence import below, parts, require_data
from tao_sdk.payload.absolute_inputs import given_checkpoints, undeclared_paths

if TYPE_CHECKING:
    from tao_sdk.net.web import Web

PATIENCE = "3"  # seconds that a submit waits for a server that does not answer
ONLY_FROM_HERE = (
    "web.",
    "hub.failed",
    "ngc.failed",
    "http.",
    "s3.no_credentials",
    "s3.credentials",
    "s3.busy",
    "s3.clock",
)
KEYS = ("s3.no_credentials", "s3.credentials")
LOOKED_AT = 20_000  # objects of an input whose sizes are summed: twenty requests


@dataclass(frozen=True)
class UnseenObject(Finding):
    """The warning for an input in a bucket whose store could not be asked from here."""

    uri: str = ""


def input_findings(
    engine: Engine, job: PreparedJob, secrets: Mapping[str, str], backend: Capabilities
) -> Iterator[Finding]:
    """Check the inputs. Nothing is opened for a job without remote inputs. A job that runs here has
    the keys of this machine, and no others.
    """
    spec, data = job.spec, job.data
    yield from map(whole, filter(leaves_nothing_out, data.inputs))
    yield from undeclared(data.passed_on)
    inputs = [each for each in data.inputs if not each.is_path]
    if not inputs:
        return
    from tao_sdk.net.web import Web

    given = {name: value for name, value in spec.env_vars.items() if isinstance(value, str)}
    web = Web({**environment(engine.settings, {**given, **secrets}), "TAO_RETRY_SECONDS": PATIENCE})
    with ThreadPoolExecutor(8) as pool:
        for finding in pool.map(looked_at, inputs, repeat(web), repeat(backend.shared_filesystem)):
            if finding:
                yield finding
        if spec.gpu_count and backend.fetch_bytes:
            yield from large(inputs, web, backend.fetch_bytes, pool)
    web.close()


def leaves_nothing_out(wanted: DataInput) -> bool:
    """True for an input that has patterns, which choose what is fetched, but is a path, which is
    used where it is.
    """
    return bool(wanted.patterns) and wanted.is_path


def whole(wanted: DataInput) -> Finding:
    what = (
        f"The patterns of {wanted.key} leave nothing out: {wanted.uri} is a path, of which the "
        "job sees everything."
    )
    return Finding(
        Severity.WARNING,
        "input.whole",
        what,
        "",
        "Name a folder that holds only what the job is to see.",
    )


def undeclared(found: Sequence[KeyAndValue]) -> Iterator[Finding]:
    """Yield one warning for all addresses that nobody declares: a list may hold thousands."""
    if not found:
        return
    (key, uri), *others = found
    more = f", and {len(others)} more such values" if others else ""
    what = f"{key} is {shown(uri)}, which nobody declares{more}: the command gets it as it stands."
    fix = (
        f"Declare {key} in inputs to have it fetched, in outputs if it is "
        "written; as type text it is left alone."
    )
    yield Finding(Severity.WARNING, "input.undeclared", what, "", fix)


def path_findings(job: PreparedJob, folder: str) -> Iterator[Finding]:
    """Check the paths of this machine that a job uses: warn, or report an error, if it would not
    find them. `folder` is the folder of the submit.
    """
    declared = {each.key for each in job.data.inputs}
    for each in given_checkpoints(job.spec):
        if each.key not in declared and not job.brings_path(each.path) and not there(each.path):
            yield Finding(
                Severity.ERROR,
                "input.missing",
                f"The checkpoint {each.key} is not there: {each.path}",
                "",
                "Correct the path, or leave it empty to begin anew.",
            )
    yield from shared_path_findings(job.data.shared)
    for key, value in undeclared_paths(job, folder):
        yield Finding(
            Severity.WARNING,
            "input.relative",
            f"{key} is {value}, which the command looks for in its work folder.",
            "It is a path where you submit, and a job with files starts elsewhere.",
            f"Declare {key} in inputs, or write the path whole.",
        )


def job_findings(engine: Engine, job: PreparedJob) -> Iterator[Finding]:
    """Yield an error for each input that is the id of one of our jobs, and no path."""
    for each in job.data.inputs:
        folder, job_id = posixpath.split(each.path)
        if not is_job_id(job_id) or job.brings_path(each.path) or there(each.path):
            continue
        if not there(folder or os.curdir):
            continue  # a path where the job runs
        for earlier in engine.store.named(job_id):
            results = engine.store.get(earlier).results_dir
            yield Finding(
                Severity.ERROR,
                "input.job",
                f"The input {each.key} is the job {earlier}; an input is a path or an address.",
                f"The results of that job are in {results}.",
                "Name the file or folder there that this job reads. To list them:",
                f"tao results {earlier}",
            )


def shared_path_findings(paths: Sequence[KeyAndValue]) -> Iterator[Finding]:
    """Warn of each path of a shared file system that nobody declares and that is not there. It is
    no error, because the job may write to it.
    """
    for key, path in paths:
        if not there(path):
            yield Finding(
                Severity.WARNING,
                "input.not_there",
                f"{key} is {path}, which is not there.",
                "It names a path of a shared file system, and this machine does not have it.",
                f"Correct the path, or declare {key} in outputs if the job writes it.",
            )


def there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return True  # the job may see it


def looked_at(wanted: DataInput, web: Web, runs_here: bool) -> Finding | None:
    module = import_module("tao_sdk.net." + MODULES[wanted.scheme])
    look: Callable[[str, Web], None] = (
        require_data if in_bucket(wanted.uri) else module.require_data
    )
    try:
        look(wanted.uri, web)
    except Failure as failure:
        what = f"The input {wanted.key}: {failure.what}"
        fix = advice(failure, web) if in_bucket(wanted.uri) else failure.next
        if failure.code.startswith(ONLY_FROM_HERE) and not (runs_here and failure.code in KEYS):
            return unseen_input(wanted.uri, failure, what, fix)
        return Finding(Severity.ERROR, failure.code, what, failure.why, fix)
    return None


def unseen_input(uri: str, failure: Failure, what: str, fix: str) -> Finding:
    what = f"{what} The job may see it."
    if in_bucket(uri):
        return UnseenObject(Severity.WARNING, failure.code, what, failure.why, fix, uri=uri)
    return Finding(Severity.WARNING, failure.code, what, failure.why, fix)


def large(
    inputs: list[DataInput], web: Web, most: int, pool: ThreadPoolExecutor
) -> Iterator[Finding]:
    """Warn if inputs in S3 are so large that the GPUs would wait long for them."""
    stored = [each for each in inputs if each.scheme == "s3" and not each.selective]
    sizes = list(pool.map(size_of, stored, repeat(web), repeat(most)))
    if sum(sizes) > most:
        keys = ", ".join(each.key for each, size in zip(stored, sizes, strict=True) if size)
        yield Finding(
            Severity.WARNING,
            "input.fetched_on_gpus",
            f"{keys}: at least {format_size(sum(sizes))} will be fetched "
            "while the job holds its GPUs.",
            f"That is above {format_size(most)}. Idle GPUs are billed, and many sites end "
            "jobs that leave them idle.",
            "Copy it to the file system that the nodes share first, and name the path there.",
        )


def size_of(wanted: DataInput, web: Web, most: int) -> int:
    """The bytes of an input in S3. For a folder, the sum of at most LOOKED_AT objects, or until it
    exceeds `most`. If the store cannot be read, the sum so far.
    """
    from tao_sdk.net.s3 import S3
    from tao_sdk.runner.inputs.staging import matches_patterns

    s3, (bucket, key) = S3(web), parts(wanted.uri)
    patterns, total = list(wanted.patterns), 0
    try:
        found = s3.head(bucket, key) if key and not key.endswith("/") else None
        if found is not None:
            return found.size
        for each in islice(s3.list(bucket, below(key)), LOOKED_AT):
            total += (
                each.size if matches_patterns(each.key.removeprefix(below(key)), patterns) else 0
            )
            if total > most:
                break
    except (Failure, OSError):
        return total
    return total
