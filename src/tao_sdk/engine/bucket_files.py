"""Files in buckets, as this machine sees them: a job's uploads, and the objects at s3:// addresses.

Keys come from the settings, under the variable names of a job's environment. The job's own settings
for its store take precedence.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
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
from tao_sdk.model.spec import is_job_id
from tao_sdk.net.address import path_of, scheme
from tao_sdk.net.failure import Failure
from tao_sdk.net.s3_presence import below, parts

if TYPE_CHECKING:
    from tao_sdk.net.s3 import S3, Entry
    from tao_sdk.net.web import Web

PATIENCE = "5"  # seconds to wait at a terminal for a server that does not answer


def in_bucket(path: str) -> bool:
    return scheme(path) == "s3"


def files_of(engine: Engine, job: Job) -> Files:
    """Return access to the job's results, in a bucket or through its backend."""
    if in_bucket(job.results_dir):
        return BucketFiles.of(environment(engine.settings, job_store_settings(engine, job)))
    return engine.backend_of(job).files(job.endpoint).below(job.results_dir)


def outcome_in_bucket(engine: Engine, job: Job) -> Outcome | None:
    """Read how the newest attempt ended from the manifest that it sent. None if there is no
    manifest, or only an earlier attempt's.
    """
    if not in_bucket(job.results_dir):
        return None
    return read_outcome(files_of(engine, job), job.results_dir, job.attempt)


def sweep(engine: Engine, job: Job) -> None:
    """Abort the unfinished uploads of an ended job: their parts cost money."""
    if in_bucket(job.results_dir) and job.status.terminal:
        store_settings = environment(engine.settings, job_store_settings(engine, job))
        BucketFiles.of(store_settings).sweep(job.results_dir)


def files_at(engine: Engine, path: str, platform: str) -> Files:
    """Return access to the files at a path that a person names: a bucket's, or the platform's own.

    Links are followed, but inside a job's results no link is followed out of them.
    """
    if in_bucket(path):
        return BucketFiles.of(environment(engine.settings))
    files = engine.backend(platform).files()
    results_folder = results_around(engine, path, platform)
    return files.below(results_folder) if results_folder else files


def results_around(engine: Engine, path: str, platform: str) -> str:
    """Return the folder of a job's results that contains the path, or "". Such a folder has the
    job's id as its name.
    """
    names = os.path.abspath(path_of(path)).split("/")  # noqa: PTH100  keeps links
    kind = engine.backend(platform).platform  # `platform` may be an endpoint's name
    for place, name in enumerate(names):
        if is_results_folder(engine, name, kind):
            return "/".join(names[: place + 1])
    return ""


def is_results_folder(engine: Engine, name: str, platform: str) -> bool:
    if not is_job_id(name):
        return False
    try:
        job = engine.store.get(name)
    except JobNotFound:
        return False
    return job.platform == platform and job.results_dir.rpartition("/")[2] == name


def job_store_settings(engine: Engine, job: Job) -> dict[str, str]:
    """The AWS_* variables of the job's own environment. Secret values are included only while they
    are stored for a further attempt.
    """
    secrets = engine.store.keyring.load(job.id)
    env_vars: Mapping[str, object] = job.spec.get("env_vars") or {}
    aws_names = [name for name in env_vars if name.startswith("AWS_")]
    values = {name: secrets.get(name, env_vars[name]) for name in aws_names}
    return {name: value for name, value in values.items() if isinstance(value, str)}


def environment(
    settings: Settings, job_settings: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment for access to a bucket. The job's settings come first, then the
    settings' credentials, then the process's environment, then the AWS profile.
    """
    job_settings = job_settings or {}
    return {
        **aws_words(settings, job_settings),
        "TAO_RETRY_SECONDS": PATIENCE,
        **settings.environ,
        **job_credentials(settings.get),
        **job_settings,
    }


def aws_words(settings: Settings, job_settings: Mapping[str, object]) -> dict[str, str]:
    """The variables that the AWS profile adds. If a job has its own keys, the profile's are left
    out: a session token fits only its own pair of keys.
    """
    has_own_keys = "AWS_ACCESS_KEY_ID" in job_settings or "ACCESS_KEY" in job_settings
    left_out = KEYS if has_own_keys else ()
    return {name: value for name, value in settings.aws.items() if name not in left_out}


class BucketFiles:
    """The files of a store. A path is s3://bucket/key; a folder is a key with others below it.

    A refusal by the store, or a broken connection, raises Unreachable with the reason.
    """

    def __init__(self, s3: S3) -> None:
        self._s3 = s3

    @classmethod
    def of(cls, env: Mapping[str, str]) -> BucketFiles:
        from tao_sdk.net.s3 import S3
        from tao_sdk.net.web import Web

        return cls(S3(Web(env)))

    def stat(self, path: str) -> FileStat:
        """Describe an object or a folder. Raises PathNotFound, Unreachable."""
        bucket, key = parts(path)
        with unreachable_on_failure(self._s3.web):
            entry = self._s3.head(bucket, key) if key and not key.endswith("/") else None
            if entry is not None:
                return FileStat(path, False, entry.size, unix_time(entry.modified))
            is_empty = next(self._s3.list(bucket, below(key)), None) is None
        if key and is_empty:
            raise nothing_at(path)
        return FileStat(path.rstrip("/"), True)

    def list(self, path: str) -> list[FileStat]:
        """List the contents of a folder, sorted by path. For an object, list the object itself."""
        bucket, key = parts(path)
        with unreachable_on_failure(self._s3.web):
            folders, entries = level(self._s3, bucket, below(key))
            if not folders and not entries:
                return [self.stat(path)]
            for folder in filter(is_nameless, folders):
                entries += self._s3.list(bucket, folder)
        named_folders = [folder for folder in folders if not is_nameless(folder)]
        files = [entry for entry in entries if not entry.key.endswith("/")]
        listed = [FileStat(f"s3://{bucket}/{folder[:-1]}", True) for folder in named_folders]
        listed += [
            FileStat(f"s3://{bucket}/{file.key}", False, file.size, unix_time(file.modified))
            for file in files
        ]
        return sorted(listed, key=lambda stat: stat.path)

    def sweep(self, folder: str) -> None:
        """Abort the unfinished uploads below a folder. They stay if the store refuses."""
        from tao_sdk.net.s3_put import sweep

        bucket, key = parts(folder)
        with suppress(Failure, OSError):
            sweep(self._s3, bucket, below(key))

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        """Read one version of the object. If the object is replaced meanwhile, start again."""
        from tao_sdk.net.web import Changed

        while True:
            try:
                with unreachable_on_failure(self._s3.web):
                    return self._read(path, offset, limit)
            except Changed:
                continue

    def below(self, folder: str) -> BucketFiles:  # noqa: ARG002  a bucket has no links
        return self

    def _read(self, path: str, offset: int, limit: int | None) -> bytes:
        bucket, key = parts(path)
        entry = self._s3.head(bucket, key)
        if entry is None:
            raise nothing_at(path)
        stop = entry.size
        if limit is not None:
            stop = min(stop, offset + limit)
        if stop <= offset:
            return b""
        views = self._s3.get(bucket, key, offset, stop, entry.version)
        return b"".join(bytes(view) for view in views)


def is_nameless(folder: str) -> bool:
    """True for a folder without a name, which two slashes make. No path can name it, so its
    contents are listed as files.
    """
    return folder == "/" or folder.endswith("//")


def level(s3: S3, bucket: str, prefix: str) -> tuple[list[str], list[Entry]]:
    """Return (prefixes of folders, objects) directly below a prefix, as the store lists them."""
    from tao_sdk.net.s3 import key_decoder, read_entries
    from tao_sdk.net.s3_xml import elements, inner

    folders: list[str] = []
    entries: list[Entry] = []
    for page in s3.pages(bucket, {"prefix": prefix, "delimiter": "/"}):
        decode = key_decoder(page)
        folders += [decode(inner(each, "Prefix")) for each in elements(page, "CommonPrefixes")]
        entries += read_entries(page)
    return folders, entries


def nothing_at(path: str) -> PathNotFound:
    return PathNotFound(f"There is nothing at {path}.", "", "Check the path.")


def unix_time(text: str) -> float:
    """Parse the time of a listing (2026-01-31T12:00:00.000Z) or a header (Sat, 31 Jan 2026 12:00:00
    GMT) into unix seconds; 0 for any other text.
    """
    try:
        return parse_time(text).timestamp()
    except (ValueError, TypeError):
        return 0.0


def parse_time(text: str) -> datetime:
    if "T" not in text[:12]:
        from email.utils import parsedate_to_datetime  # slow to load

        return parsedate_to_datetime(text)
    return datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)


def advice(failure: Failure, web: Web) -> str:
    """Say what to do about a bucket that could not be reached. If no endpoint is named, the SDK
    looked for it in AWS.
    """
    from tao_sdk.net.s3_endpoint import ENDPOINTS, first_value

    if failure.code == "web.dns" and not first_value(web.env, ENDPOINTS):
        return f"Set S3_ENDPOINT_URL, unless the bucket is in AWS. {failure.next}"
    return failure.next


@contextmanager
def unreachable_on_failure(web: Web) -> Generator[None]:
    """Turn a store's refusal and a broken connection into Unreachable with the reason."""
    try:
        yield
    except (PathNotFound, Unreachable):
        raise
    except Failure as failure:
        error = Unreachable(failure.what, failure.why, advice(failure, web))
        error.code = failure.code
        raise error from failure
    except OSError as error:
        reason = error.strerror or error
        what = f"The connection to the store broke: {reason}."
        raise Unreachable(what, "", "Try again; nothing was changed.") from error
