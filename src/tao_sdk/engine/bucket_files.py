"""Files in buckets, as this machine sees them: what a job sent there, and what s3:// addresses
name.

Keys come from the settings, under the names of a job's environment; what the job itself says of its
endpoint comes first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from tao_sdk.backends.contract import Files, FileStat
from tao_sdk.backends.outcome import read_outcome
from tao_sdk.engine.engine import Engine
from tao_sdk.model.aws_profile import KEYS
from tao_sdk.model.credentials import job_credentials
from tao_sdk.model.errors import JobNotFound, PathNotFound, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Outcome
from tao_sdk.model.settings import Settings
from tao_sdk.net.address import path_of, scheme
from tao_sdk.net.failure import Failure

if TYPE_CHECKING:
    from tao_sdk.net.s3 import S3, Entry
    from tao_sdk.net.web import Web

JOB_ID = re.compile(r"[a-z0-9][a-z0-9-]*-[a-z0-9]{10}")
PATIENCE = "5"  # seconds that somebody at a terminal waits for a server that is away


def in_bucket(path: str) -> bool:
    return scheme(path) == "s3"


def files_of(engine: Engine, job: Job) -> Files:
    """Where the job's results are: in a bucket, or as its backend sees them."""
    if in_bucket(job.results_dir):
        return BucketFiles.of(environment(engine.settings, own_words(engine, job)))
    return engine.backend_of(job).files(job.endpoint).below(job.results_dir)


def outcome_in_bucket(engine: Engine, job: Job) -> Outcome | None:
    """How the newest attempt ended, by the manifest that it sent; None where there is none, or not
    of this attempt.
    """
    return (
        read_outcome(files_of(engine, job), job.results_dir, job.attempt)
        if in_bucket(job.results_dir)
        else None
    )


def sweep(engine: Engine, job: Job) -> None:
    """Nobody pays for the parts of uploads that a job which is over has left begun."""
    if in_bucket(job.results_dir) and job.status.terminal:
        BucketFiles.of(environment(engine.settings, own_words(engine, job))).sweep(job.results_dir)


def files_at(engine: Engine, path: str, platform: str) -> Files:
    """Who can look at a path that a person names: a bucket is the same for every platform.

    A link on the way is followed, as the person's own; in a job's results none that leads out of
    them.
    """
    if in_bucket(path):
        return BucketFiles.of(environment(engine.settings))
    files = engine.backend(platform).files()
    folder = results_around(engine, path, platform)
    return files.below(folder) if folder else files


def results_around(engine: Engine, path: str, platform: str) -> str:
    """The folder with a job's results that a path leads into: it is called as the job. "" where
    there is none.
    """
    names = os.path.abspath(path_of(path)).split("/")  # noqa: PTH100  keeps links
    for place, name in enumerate(names):
        if JOB_ID.fullmatch(name):
            with suppress(JobNotFound):
                job = engine.store.get(name)
                if job.platform == platform and job.results_dir.rpartition("/")[2] == name:
                    return "/".join(names[: place + 1])
    return ""


def own_words(engine: Engine, job: Job) -> dict[str, str]:
    """What the job's own environment says of its store; its secrets only as long as they are kept
    for a further attempt.
    """
    kept = engine.store.keyring.load(job.id)
    given: Mapping[str, object] = job.spec.get("env_vars") or {}
    words = {
        name: kept.get(name, value) for name, value in given.items() if name.startswith("AWS_")
    }
    return {name: value for name, value in words.items() if isinstance(value, str)}


def environment(settings: Settings, own: Mapping[str, str] | None = None) -> dict[str, str]:
    given = {
        "TAO_RETRY_SECONDS": PATIENCE,
        **settings.environ,
        **job_credentials(settings.get),
        **(own or {}),
    }
    return {**aws_words(settings, own or {}), **given}


def aws_words(settings: Settings, own: Mapping[str, object]) -> dict[str, str]:
    """What the AWS profile adds; of keys nothing where a job has its own: a token goes with its own
    pair.
    """
    keys = KEYS if "AWS_ACCESS_KEY_ID" in own or "ACCESS_KEY" in own else ()
    return {name: value for name, value in settings.aws.items() if name not in keys}


class BucketFiles:
    """Takes s3://bucket/key; a folder is what other keys lie below."""

    def __init__(self, s3: S3) -> None:
        self._s3 = s3

    @classmethod
    def of(cls, env: Mapping[str, str]) -> BucketFiles:
        from tao_sdk.net.s3 import S3
        from tao_sdk.net.web import Web

        return cls(S3(Web(env)))

    def stat(self, path: str) -> FileStat:
        bucket, key = parts(path)
        with looking(self._s3.web):
            found = self._s3.head(bucket, key) if key and not key.endswith("/") else None
            if found is not None:
                return FileStat(path, False, found.size, unix_time(found.modified))
            if next(self._s3.list(bucket, below(key)), None) is None and key:
                raise nothing_at(path)
        return FileStat(path.rstrip("/"), True)

    def list(self, path: str) -> list[FileStat]:
        """What lies in a folder, by name; of an object, itself."""
        bucket, key = parts(path)
        with looking(self._s3.web):
            folders, entries = level(self._s3, bucket, below(key))
            if not folders and not entries:
                return [self.stat(path)]
            entries += [
                each for name in folders if nameless(name) for each in self._s3.list(bucket, name)
            ]
        found = [
            FileStat(f"s3://{bucket}/{name[:-1]}", True) for name in folders if not nameless(name)
        ]
        found += [
            FileStat(f"s3://{bucket}/{each.key}", False, each.size, unix_time(each.modified))
            for each in entries
            if not each.key.endswith("/")
        ]
        return sorted(found, key=lambda each: each.path)

    def sweep(self, folder: str) -> None:
        """Give up the uploads below a folder that a job which is over has left begun; where that is
        not allowed, they stay.
        """
        from tao_sdk.net.s3_put import sweep

        bucket, key = parts(folder)
        with suppress(Failure, OSError):
            sweep(self._s3, bucket, below(key))

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        """From one version of the object, even where it is replaced meanwhile."""
        from tao_sdk.net.web import Changed

        while True:
            try:
                with looking(self._s3.web):
                    return self._read(path, offset, limit)
            except Changed:
                continue

    def below(self, folder: str) -> BucketFiles:  # noqa: ARG002  a bucket has no links
        return self

    def _read(self, path: str, offset: int, limit: int | None) -> bytes:
        bucket, key = parts(path)
        found = self._s3.head(bucket, key)
        if found is None:
            raise nothing_at(path)
        stop = found.size if limit is None else min(found.size, offset + limit)
        if stop <= offset:
            return b""
        return b"".join(
            bytes(view) for view in self._s3.get(bucket, key, offset, stop, found.version)
        )


def parts(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key


def nameless(folder: str) -> bool:
    """A folder without a name, which two slashes make: no path could say it, so what lies in it is
    listed as files.
    """
    return folder == "/" or folder.endswith("//")


def below(key: str) -> str:
    return key.rstrip("/") + "/" if key.rstrip("/") else ""


def level(s3: S3, bucket: str, prefix: str) -> tuple[list[str], list[Entry]]:
    """Names of folders, and objects, directly below a prefix, as a listing shows them."""
    from tao_sdk.net.s3 import contents, decoder
    from tao_sdk.net.s3_xml import elements, inner

    folders: list[str] = []
    entries: list[Entry] = []
    for page in s3.pages(bucket, {"prefix": prefix, "delimiter": "/"}):
        decode = decoder(page)
        folders += [decode(inner(each, "Prefix")) for each in elements(page, "CommonPrefixes")]
        entries += contents(page)
    return folders, entries


def is_there(uri: str, web: Web) -> None:
    """As s3_source.look, without listing it all: raises the same Failures."""
    from tao_sdk.net.s3 import S3
    from tao_sdk.net.s3_source import nothing, single

    bucket, key = parts(uri)
    s3, slash, key = S3(web), key.endswith("/"), key.rstrip("/")
    if (slash or not single(s3, bucket, key)) and all(
        each.key.endswith("/") for each in s3.list(bucket, below(key))
    ):
        raise nothing(uri, bucket, slash and bool(single(s3, bucket, key)))


def nothing_at(path: str) -> PathNotFound:
    return PathNotFound(f"There is nothing at {path}.", "", "Check the path.")


def unix_time(text: str) -> float:
    """Of a listing (2026-01-31T12:00:00.000Z) or a header (Sat, 31 Jan 2026 12:00:00 GMT); 0 for
    what is neither.
    """
    try:
        if "T" in text[:12]:
            return (
                datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")
                .replace(tzinfo=timezone.utc)
                .timestamp()
            )
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError):
        return 0.0


def advice(failure: Failure, web: Web) -> str:
    """What to do about a bucket that was not seen: where no endpoint is named, it was looked for in
    AWS.
    """
    from tao_sdk.net.s3_endpoint import ENDPOINTS, first

    in_aws = failure.code == "web.dns" and not first(web.env, ENDPOINTS)
    return "Set S3_ENDPOINT_URL, unless the bucket is in AWS. " * in_aws + failure.next


@contextmanager
def looking(web: Web) -> Generator[None]:
    """What the store refuses, or a connection that breaks, is no sight of the files at all: it says
    why.
    """
    try:
        yield
    except (PathNotFound, Unreachable):
        raise
    except Failure as failure:
        error = Unreachable(failure.what, failure.why, advice(failure, web))
        error.code = failure.code
        raise error from failure
    except OSError as error:
        raise Unreachable(
            f"The connection to the store broke: {error.strerror or error}."
        ) from error
