"""Stage inputs that must be fetched or unpacked: look at the source, choose files, and place them.

An input goes to the path that the job requires for it; else to the runner's folder in the job's
results, where the ranks share it and the next attempt finds it. With a `mount_path`, it goes to a
cache on that mount, which any number of jobs share. There each version of a source has its own
folder, so that a changed source is fetched again and data in use never change.
"""

from __future__ import annotations

import hashlib
import os
import time
from fnmatch import fnmatchcase
from importlib import import_module

from tao_sdk.net.address import MODULES, scheme, shown
from tao_sdk.net.failure import Failure
from tao_sdk.net.file_names import apart, cut
from tao_sdk.runner import private
from tao_sdk.runner.inputs.archive_names import ARCHIVES, archive_stem
from tao_sdk.runner.inputs.cache import Cache
from tao_sdk.runner.inputs.entry import Entry, Settling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tao_sdk.net.source import Found, Source
    from tao_sdk.net.web import Web
    from tao_sdk.runner.document import Input
    from tao_sdk.runner.report import Report
    from tao_sdk.runner.results_folder import ResultsFolder

FORMAT = "2\n"  # changed if the entries of an earlier release must not be used
TELL = 2.0  # seconds between events of progress
SLOW = 1 << 20  # bytes a second; a slower source counts as slow
PATIENCE = 60.0  # seconds before a warning about a slow source


class Staging:
    """Stages the inputs of one job. `values` are the paths of the inputs already in place."""

    def __init__(
        self,
        results: ResultsFolder,
        mount: str,
        env: Mapping[str, str],
        report: Report,
        values: Mapping[str, str],
    ) -> None:
        self.results, self.mount, self.env, self.report, self.values = (
            results,
            mount,
            env,
            report,
            values,
        )
        self.web: Web | None = None
        self.cache: Cache | None = None
        self.settling = Settling()
        self.came_bytes, self.began = 0, time.monotonic()

    def stage_input(self, wanted: Input) -> str:
        """Fetch an input, and return its absolute path. Raises Failure."""
        if self.web is None:
            from tao_sdk.net.web import Web

            self.web = Web(self.env)
            self.web.tell = self.report.queue_event
        module = import_module("tao_sdk.net." + MODULES[scheme(wanted["uri"])])
        found: Found = module.look(wanted["uri"], wanted["kind"], self.web)
        found.sources = self.choose_files(found, wanted)
        parts = [(source.path, source.size, source_mark(source)) for source in found.sources]
        version = self.input_version(wanted, parts, found.asks)
        path = self.put_entry(
            wanted,
            found.name,
            not found.folder,
            version,
            lambda part: self.fetch_into(found, wanted, part),
        )
        whole = wanted["kind"] == "folder" or wanted["target"] or not found.folder
        if whole:
            return path
        return found.meant(path)

    def unpack_local(self, wanted: Input, path: str) -> str:
        """Unpack a local archive, or a folder with archives, and return the path of the result. A
        folder without an `extract` option stays as it is.
        """
        from tao_sdk.runner.inputs import unpacking

        name, folder = os.path.basename(path), os.path.isdir(path)
        if folder and "extract" not in wanted["options"]:
            return path
        version = self.input_version(wanted, unpacking.archive_shapes(path))
        return self.put_entry(
            wanted,
            name,
            not folder,
            version,
            lambda part: unpacking.unpack_local(wanted, path, part, self.env),
        )

    def put_entry(
        self, wanted: Input, name: str, single: bool, version: str, make: Callable[[str], str]
    ) -> str:
        """Make the entry of an input, and return its path. `single`: it is one file, which may be
        an archive.
        """
        if single and is_unpacked(wanted, name):
            name, single = archive_stem(name), False
        with private.Unshared():
            # this sets self.mount to "" if the cache cannot be used
            path = self.entry_path(wanted, name, single, version)
            entry = Entry(path, None if self.mount else self.settling)
            entry.ensure_version(
                version, make, lambda: self.report.tell_event("waiting", what=wanted["key"])
            )
        return entry.path

    def entry_path(self, wanted: Input, name: str, single: bool, version: str) -> str:
        folder = self.cache_folder(name, version) if self.mount else ""
        if folder:
            return os.path.join(folder, name)
        target = wanted["target"]
        if os.path.isabs(target):
            return os.path.abspath(
                os.path.join(target, name) if single and target.endswith("/") else target
            )
        return os.path.join(self.results.own_folder, "inputs", safe_name(wanted["key"]), name)

    def cache_folder(self, name: str, version: str) -> str:
        """The folder of an entry in the cache; "", with a warning, if the cache has no folder that
        only this user and root can change.
        """
        mark = version.partition("\n")[0][:24]
        slug = f"{cut(plain_name(name)[:60])}-{mark}"
        try:
            if self.cache is None:
                self.cache = Cache(self.mount)
            return self.cache.entry_folder(
                slug, lambda folder: Entry(os.path.join(folder, name)).has_version(version)
            )
        except Failure as failure:
            self.report.warn(failure.code, failure.what, failure.why, failure.next)
            self.mount = ""
            return ""

    def input_version(
        self, wanted: Input, parts: list[tuple[str, int, str]], asks: str = ""
    ) -> str:
        """The version of an entry: a checksum, then lines for people. It changes if the entry must
        be made again.
        """
        text = [shown(wanted["uri"]), ascii(sorted(wanted["options"].items()))]
        if not all(version for _, _, version in parts):
            # no version says if the source is still the same: fetch it in each attempt
            text.append(f"{self.results.job} {self.results.attempt}")
        named = "\n".join([*text, asks])
        digest = hashlib.sha256((FORMAT + named).encode("utf-8", "surrogateescape"))
        for path, size, mark in sorted(parts):
            digest.update(f"\n{path} {size} {mark}".encode("utf-8", "surrogateescape"))
        return "\n".join([digest.hexdigest(), *text, f"{len(parts)} files"])

    def choose_files(self, found: Found, wanted: Input) -> list[Source]:
        """The files of a folder that match the patterns and the annotation; a single file as it is.
        Raises Failure if there are none.
        """
        options = wanted["options"]
        if not found.folder:
            return found.sources
        sources = [
            source
            for source in found.sources
            if matches_patterns(source.path, options.get("patterns", []))
        ]
        if "selective" in options:
            from tao_sdk.runner.inputs import annotation

            sources = annotation.choose_sources(
                sources, wanted["uri"], options["selective"], self.values
            )
        if not sources:
            raise Failure(
                "input.nothing",
                f"No file of {shown(wanted['uri'])} is wanted.",
                f"It has {len(found.sources)}, and the patterns match none of them.",
                f"Correct the patterns of the input {wanted['key']}.",
            )
        return sources

    def fetch_into(self, found: Found, wanted: Input, part: str) -> str:
        """Fetch the input into `part`, verify it, unpack its archives, and return the path. Raises
        Failure.
        """
        from tao_sdk.net.transfer import fetch

        path = os.path.join(part, "data", found.name)
        progress = Progress(self.report, wanted, found.sources)
        patience = self.web.patience if self.web else 0.0
        fetch(
            found.sources,
            path if found.folder else os.path.dirname(path),
            progress.add_progress,
            patience,
        )
        progress.tell_progress()
        self.came_bytes += progress.fetched_bytes
        if not has_archives(wanted, found):
            return path
        from tao_sdk.runner.inputs import unpacking  # packed only if an input may be an archive

        if found.folder:
            return unpacking.unpack_inside(wanted, path, part, self.env)
        return unpacking.unpack_whole(wanted, path, part, self.env)

    def close(self) -> None:
        """Close the connections, and report how much was fetched and how fast."""
        if self.web:
            self.web.close()
            seconds = time.monotonic() - self.began
            rate = self.came_bytes / seconds if seconds else 0.0
            self.report.tell_queued()
            self.report.tell_event(
                "fetched",
                what="inputs",
                bytes=self.came_bytes,
                seconds=round(seconds, 3),
                rate=round(rate),
            )


class Progress:
    """Reports the progress of one input now and then, and once that its source is slow."""

    def __init__(self, report: Report, wanted: Input, sources: list[Source]) -> None:
        self.report, self.what, self.address = report, wanted["key"], shown(wanted["uri"])
        self.total, self.total_files = sum(max(0, source.size) for source in sources), len(sources)
        self.bytes = self.files = 0
        self.before = -1  # bytes from an earlier attempt
        self.began = self.last = time.monotonic()
        self.slow = False

    def add_progress(self, size: int, files: int) -> None:
        """Count more bytes and files. A negative size means bytes that must be fetched again. The
        first call has the bytes of an earlier attempt.
        """
        self.bytes += size
        self.files += files
        self.before = self.bytes if self.before < 0 else self.before
        now = time.monotonic()
        if now - self.last >= TELL:
            self.last = now
            self.tell_progress()
            if now - self.began > PATIENCE and self.rate < SLOW and self.eta > PATIENCE:
                self.warn_slow()

    @property
    def fetched_bytes(self) -> int:
        return max(0, self.bytes - max(0, self.before))

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.fetched_bytes / max(0.001, time.monotonic() - self.began)

    @property
    def eta(self) -> float:
        """Seconds to go; -1.0 if not known."""
        if self.fetched_bytes:
            return max(0, self.total - self.bytes) / self.rate
        return -1.0

    def tell_progress(self) -> None:
        self.report.tell_event(
            "transfer",
            stage="inputs",
            what=self.what,
            bytes=self.bytes,
            total_bytes=self.total,
            files=self.files,
            total_files=self.total_files,
            rate=round(self.rate),
            eta=round(self.eta, 1),
        )

    def warn_slow(self) -> None:
        """Warn once that the source is slow."""
        if self.slow:
            return
        self.slow = True
        self.report.warn(
            "input.slow",
            f"The input {self.what} comes slowly: {self.rate / 1024:.0f} KB/s, "
            f"{self.eta / 60:.0f} minutes to go.",
            f"Its source is {self.address}.",
            "Put the data nearer to the job, or set mount_path: it is fetched once then.",
        )


def is_unpacked(wanted: Input, name: str) -> bool:
    """True if a file of that name is unpacked: it is an archive, and `extract` is not "no"."""
    return wanted["options"].get("extract") != "no" and name.lower().endswith(ARCHIVES)


def has_archives(wanted: Input, found: Found) -> bool:
    """True if fetched data have archives to unpack. Archives in a folder count only if the job asks
    for it.
    """
    if found.folder:
        return wanted["options"].get("extract") in ("yes", "parent")
    return is_unpacked(wanted, found.name)


def source_mark(source: Source) -> str:
    """A mark that changes with the source; one that cannot be read in parts has one, too."""
    mark: str = source.version or getattr(source, "validator", "")
    return mark


def matches_patterns(path: str, patterns: list[str]) -> bool:
    """True if the path matches one of the patterns, or there are none; and no pattern with a !."""
    refused = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    if any(covers_path(pattern, path) for pattern in refused):
        return False
    return not wanted or any(covers_path(pattern, path) for pattern in wanted)


def covers_path(pattern: str, path: str) -> bool:
    """True if the pattern matches. `*` matches slashes too, as in the hub's own patterns. A
    folder's name with a slash at its end matches everything in it.
    """
    return fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern)


def safe_name(key: str) -> str:
    """The key as a folder name, different for each key."""
    return apart(key, cut(plain_name(key)))


def plain_name(name: str) -> str:
    return (
        "".join(char if char.isalnum() or char in "._-" else "_" for char in name).strip(".")
        or "input"
    )
