"""Send results to a bucket: local files below a prefix while the command runs, then the manifest.

Status files and logs go first, as they grow. Any other file is sent once it is unchanged over two
looks, small files before large ones. A complete file in the bucket is not sent again, nor by a
later attempt. Nothing is ever removed from the bucket, and no bucket is ever created.

Rank 0 sends to `<key>/`; another rank sends only different files, to `<key>/.rank-<n>/`.
"""

from __future__ import annotations

import os
import threading
import time

from tao_sdk.net.failure import Failure
from tao_sdk.net.web import Changed
from tao_sdk.runner.outputs.destination import in_bucket, output_path
from tao_sdk.runner.outputs.manifest import manifest_text, parse_manifest
from tao_sdk.runner.outputs.remote import Remote, is_version
from tao_sdk.runner.outputs.sending import Item, Sending
from tao_sdk.runner.outputs.tree import (
    Tree,
    covers_path,
    file_digest,
    is_growing,
    shape_of,
    whole_folders,
)
from tao_sdk.runner.trouble import crash_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from tao_sdk.runner.document import Document
    from tao_sdk.runner.outputs.ending import Ending
    from tao_sdk.runner.outputs.tree import Shape
    from tao_sdk.runner.report import Report
    from tao_sdk.runner.results_folder import ResultsFolder

    Entry = dict[str, Any]
    Source = tuple[
        str, str
    ]  # a local folder or file, and its name below the prefix; "" for the prefix itself

OWN = ".tao"
MANIFEST = ".tao/manifest.json"
SMALL = 8 << 20  # bytes; a smaller growing file is sent whenever it has grown
# a larger one is sent when it has grown by an eighth: nine times in all, not at every look
GROWTH = 8
# the share of the grace for sending the last results, if the job is told to end
SHARE = 0.4
NAMED = 20  # files that a failure lists
TELL = 2.0  # seconds between two events of progress


class Bucket:
    """One prefix for results. A problem with a file affects only that file."""

    def __init__(
        self, remote: Remote, sources: list[Source], results: ResultsFolder, excludes: list[str]
    ) -> None:
        self.remote, self.sources, self.results = remote, sources, results
        self.excludes = [OWN, *excludes]
        self.remote_files: dict[
            str, tuple[int, str]
        ] = {}  # name -> size and version; without files whose sending failed
        self.entries: dict[str, Entry] = {}  # of the manifest, by name
        self.folders: dict[
            str, list[int]
        ] = {}  # checkpoint folder -> number of files, bytes; -1 while it changes
        self.sent_shapes: dict[str, Shape] = {}
        self.seen_shapes: dict[str, tuple[Shape, int]] = {}  # and the looks since it changed
        self.refused: dict[str, Failure] = {}
        self.unread: dict[str, str] = {}  # files that could not be read, and why
        self.spared: dict[
            str, str | None
        ] = {}  # files that this rank did not send, because rank 0 had this checksum
        self.missing: list[str] = []
        self.failure: Failure | None = None
        self.sent_manifest = b""  # the last manifest sent
        self.gone: set[str] = set()  # files that vanished between a look and their turn
        self.ended = False  # True once the command has ended: there is no later look
        self.last_items: dict[str, Item] = {}  # the files at the last look
        self.closed = False  # True once every file is accounted for
        self.done = self.done_files = 0  # bytes and files processed since the end began
        self.lock = threading.Lock()
        self.sending = Sending(self.send_item, self.note_crash)

    # Before the command

    def open(self) -> None:
        """Check that results can be written here, and list the files of an earlier attempt. Raises
        Failure.
        """
        self.remote.check_writable()
        if self.remote.address == self.results.remote and not self.results.rank:
            self.remote.sweep_uploads()
        self.remote_files = self.remote.list_files()
        manifest = self.read_manifest()
        self.entries, self.folders = by_path(manifest.get("files", [])), manifest.get("folders", {})

    def read_manifest(self) -> dict[str, Any]:
        """This job's manifest in the bucket; empty if there is none, or it is another job's."""
        manifest = parse_manifest(self.remote.read_object(MANIFEST) or b"")
        if manifest.get("job") != self.results.job:
            return {}
        return manifest

    def fetch_log(self) -> None:
        """Fetch the log of an earlier attempt, so that ours does not replace it."""
        name = f"{OWN}/{os.path.basename(self.results.log_path)}"
        if name in self.remote_files and not os.path.exists(self.results.log_path):
            self.remote.fetch_file(name, self.results.log_path, self.remote_files[name][0])

    def intact_entries(self) -> list[Entry]:
        """The complete files of an earlier attempt that are still there as they were."""
        return [
            entry
            for entry in self.entries.values()
            if self.remote_files.get(entry["path"]) == (entry["size"], entry.get("version"))
        ]

    def local_path(self, name: str) -> str:
        """The local path of the file with that name in the bucket."""
        inside, path = max(
            (inside, path)
            for path, inside in self.sources
            if not inside or covers_path(inside, name)
        )
        if name != inside:
            return os.path.join(path, name[len(inside) :].lstrip("/"))
        return path

    # While it runs

    def sync(self, hurry: Callable[[], bool]) -> list[str]:
        """Send the files that are due, then the manifest; large files may take longer than this
        call. Return a line for each problem.
        """
        items, problems = self.list_items()
        self.note_still(items)
        if self.results.rank:
            self.follow_rank_0()
        due = [item for item in items.values() if self.is_due(item)]
        self.sending.add(due)
        latest = time.monotonic() + self.results.interval / 2
        self.sending.wait([item.name for item in due], lambda: hurry() or time.monotonic() > latest)
        self.put_manifest(None, False, problems)
        return problems + self.list_troubles()

    def follow_rank_0(self) -> bool:
        """Read rank 0's manifest; files that it no longer has are due here again. True if rank 0
        has ended.
        """
        try:
            manifest = self.read_manifest()
        except Failure:  # sending reports why, if that fails as well
            return False
        self.trust_rank_0(manifest.get("files", []))
        return bool(manifest.get("whole")) and manifest["attempt"] == self.results.attempt

    def trust_rank_0(self, entries: list[Entry]) -> None:
        """Assume that rank 0 has these files and no others."""
        self.entries = by_path(entries)
        for name, sha256 in list(self.spared.items()):
            if not self.is_at_rank_0(name, sha256):
                self.sent_shapes.pop(name, None)
                del self.spared[name]

    def note_still(self, items: dict[str, Item]) -> None:
        """Mark the files that are unchanged for long enough. Other ranks wait one look longer, so
        that rank 0 sends the same file first.
        """
        looks = 3 if self.results.rank else 2
        before, self.seen_shapes = self.seen_shapes, {}
        for name, item in items.items():
            shape, count = before.get(name, (item.shape, 0))
            self.seen_shapes[name] = item.shape, count + 1 if shape == item.shape else 1
            item.is_final = self.seen_shapes[name][1] >= looks
        self.note_folders(items)

    def note_folders(self, items: dict[str, Item]) -> None:
        """Update the checkpoint folders: each is complete once all its files are unchanged. A
        folder that is not on this machine keeps its entry.
        """
        self.folders.update(
            whole_folders(
                [(name, items[name].size) for name in sorted(items)],
                lambda name: items[name].is_final,
            )
        )

    def list_items(self) -> tuple[dict[str, Item], list[str]]:
        """(every file as it is now, by its name in the bucket; a line for each problem)."""
        items: dict[str, Item] = {}
        problems: list[str] = []
        self.missing = []
        older = self.results.older_files
        for source, inside in [*self.sources, *self.log_sources()]:
            if os.path.isdir(source):
                tree = self.tree_of(source)
                problems += [
                    f"{source}: {problem}" if inside else problem for problem in tree.problems
                ]
                for path, shape in tree.files.items():
                    self.add_item(
                        os.path.join(inside, path),
                        os.path.join(source, path),
                        shape,
                        items,
                        problems,
                    )
            elif os.path.isfile(source):
                if not older or older.owns_file(source):
                    self.add_item(inside, source, shape_now(source), items, problems)
            elif os.path.exists(source):
                problems.append(f"{source}: not a file")
            elif not inside or not os.path.lexists(os.path.join(self.results.folder, inside)):
                self.missing.append(source)
        return items, problems

    def tree_of(self, source: str) -> Tree:
        if not self.results.older_files:
            return Tree(source, self.excludes)
        from tao_sdk.runner.outputs.brought import own_tree

        return own_tree(source, self.results, self.excludes)

    def log_sources(self) -> list[Source]:
        own = os.path.basename(self.results.log_path)
        names = (
            os.listdir(self.results.own_folder) if os.path.isdir(self.results.own_folder) else []
        )
        return [
            (os.path.join(self.results.own_folder, name), f"{OWN}/{name}")
            for name in names
            if name.startswith(own)
        ]

    def add_item(
        self, name: str, path: str, shape: Shape, items: dict[str, Item], problems: list[str]
    ) -> None:
        if not name.startswith(OWN + "/") and any(
            covers_path(pattern, name) for pattern in self.excludes
        ):
            return
        if name != name.encode("utf-8", "replace").decode():
            problems.append(f"{path}: its name is not UTF-8")
            return
        if name in items:
            problems.append(f"{path}: {items[name].path} has the same name")
            return
        items[name] = Item(
            name,
            path,
            shape,
            is_growing(name) and (not self.results.rank or name.startswith(OWN + "/")),
        )

    def is_due(self, item: Item) -> bool:
        """True if the file must be sent now: it has changed, and is unchanged since or growing."""
        sent = self.sent_shapes.get(item.name)
        if sent == item.shape:
            return False
        if item.is_final or not item.urgent:
            return item.is_final
        return sent is None or has_grown(sent[0], item.size)

    def send_item(self, item: Item) -> None:
        """Send one file, in a sending thread, and note its failure."""
        try:
            self.ship_item(item)
            self.refused.pop(item.name, None)
            self.unread.pop(item.name, None)
        except FileNotFoundError:
            self.gone.add(item.name)  # a temporary file of the program's own
        except Changed:  # a later look sends it, unless the command has ended
            if self.ended:
                self.unread[item.name] = (
                    f"{item.path}: it was still being written after the command's end"
                )
        except OSError as error:
            self.unread[item.name] = f"{item.path}: {error.strerror}"
        except Failure as failure:
            self.note_failure(item.name, failure)
        finally:
            with self.lock:
                self.done += item.size
                self.done_files += 1

    def note_failure(self, name: str, failure: Failure) -> None:
        """Note that a file could not be sent. If the store is away, drop the queued files: they
        would fail the same way.
        """
        self.refused[name] = failure
        if failure.code.startswith(("web.", "s3.busy")) and self.remote.s3.web.away:
            self.sending.drop_queued()
            self.failure = failure if self.ended else None

    def note_crash(self, item: Item, error: BaseException) -> None:
        """Note an unexpected error as the reason why a file could not be sent."""
        self.refused[item.name] = crash_failure(error)

    def ship_item(self, item: Item) -> None:
        if self.failure:
            raise self.failure
        name, shape = self.remote_name(item.name), item.shape
        known = {} if self.results.rank else self.complete_entry(item)
        sha256 = known.get("sha256") if item.is_final else None
        if item.is_final and not sha256:
            sha256 = file_digest(item.path, "sha256")
        if (
            self.results.rank
            and name not in self.remote_files
            and self.is_at_rank_0(item.name, sha256)
        ):
            self.spared[item.name], self.sent_shapes[item.name] = sha256, shape
            return
        version = self.version_there(item, known.get("version"))
        still = item.is_final and not item.urgent
        version = version or self.remote.send_file(
            name, item.path, lambda: not still or shape_now(item.path) == shape
        )
        self.sent_shapes[item.name], self.remote_files[name] = shape, (shape[0], version)
        if shape_now(item.path) != shape:
            sha256 = None  # it grew meanwhile: the next look sends the rest
        if not self.results.rank and not name.startswith(OWN + "/"):
            self.entries[name] = manifest_entry(name, shape, sha256, version)

    def complete_entry(self, item: Item) -> Entry:
        """The manifest's entry of a file, if it is complete and matches the file; else empty."""
        listed = self.entries.get(item.name, {})
        if listed.get("sha256") and (listed["size"], listed["mtime"]) == item.shape:
            return listed
        return {}

    def is_at_rank_0(self, name: str, sha256: str | None) -> bool:
        return bool(sha256) and self.entries.get(name, {}).get("sha256") == sha256

    def version_there(self, item: Item, known: str | None) -> str:
        """The version in the bucket, also from an earlier attempt, if it is exactly this file; else
        "".

        The file's entry is removed until it is sent: a failed upload may have arrived all the same.
        """
        sent = self.sent_shapes.pop(item.name, None)
        size, version = self.remote_files.pop(self.remote_name(item.name), (-1, ""))
        same = size == item.size and (
            item.shape == sent or version == known or is_version(version, item.path)
        )
        if not same:
            return ""
        return version

    def remote_name(self, name: str) -> str:
        """The name in the bucket. Files of other ranks than 0 are in a folder of their rank, below
        the key.
        """
        if not self.results.rank or name.startswith(OWN + "/"):
            return name
        key, slash, rest = name.partition("/")
        own = f".rank-{self.results.rank}"
        if slash:
            return f"{key}/{own}/{rest}"
        return f"{own}/{name}"

    def put_manifest(self, exit_code: int | None, whole: bool, problems: list[str]) -> None:
        """Send the manifest if it has changed; only rank 0 does."""
        if self.results.rank:
            return
        entries = dict(self.entries)
        files = [entries[name] for name in sorted(entries)]
        unsent = [] if exit_code is None or whole else self.unsent_names(self.last_items.values())
        text = manifest_text(
            self.results, exit_code, whole, problems, files, self.folders, unsent
        ).encode()
        if text == self.sent_manifest:
            return
        try:
            if self.failure:
                raise self.failure
            self.remote.write_object(MANIFEST, text)
            self.sent_manifest = text
            self.refused.pop(MANIFEST, None)
        except Failure as failure:
            self.note_failure(MANIFEST, failure)

    def list_troubles(self) -> list[str]:
        """A line for each file that could not be sent so far."""
        refused = dict(self.refused)
        return [
            *dict(self.unread).values(),
            *(f"{name}: {refused[name].what} {refused[name].why}" for name in refused),
        ]

    # At its end

    def finish(self, ending: Ending, hurry: Callable[[], bool], report: Report) -> list[str]:
        """Send everything after the command's end, and return a line for each problem. Urgent files
        go first, because the runner may be killed at any moment.
        """
        exit_code = ending.exit_code
        self.remote.s3.web.away.clear()  # wait for the store once more
        self.sending.drop_queued()
        self.ended = True
        items, problems = self.list_items()
        for item in items.values():
            item.is_final = ending.vouches_for(item.shape[1]) or bool(self.complete_entry(item))
        self.last_items = items
        self.note_folders(items)
        self.ship_first([item for item in items.values() if item.urgent], report)
        self.put_manifest(exit_code, False, problems)
        self.sending.wait(set(self.sending.busy))
        if self.results.rank and not self.failure:
            self.await_rank_0(hurry)
        lost = self.ship_all(list(items.values()), report, tell=True)
        self.put_manifest(exit_code, not lost, problems)
        self.sending.close()
        if lost or MANIFEST in self.refused:
            self.failure = self.not_sent(lost, len(items))
        return problems + list(self.unread.values())

    def ship_first(self, items: list[Item], report: Report) -> None:
        """Send these files while uploads in progress continue. One of these may be uploading in an
        older state: wait for it first.
        """
        self.sending.wait([item.name for item in items])
        self.ship_all(items, report, tell=False)

    def unsent_names(self, items: Iterable[Item]) -> list[str]:
        """The sorted names of files that are not in the bucket as they are now, except files that
        vanished or could not be read.
        """
        excused = self.gone | set(self.unread)
        return sorted(
            item.name
            for item in items
            if self.sent_shapes.get(item.name) != item.shape and item.name not in excused
        )

    def given_up(self) -> Failure:
        """The Failure if there was no time left to send everything."""
        if not self.last_items:
            self.last_items = self.list_items()[0]
        lost = self.unsent_names(self.last_items.values())
        return Failure(
            "output.lost",
            f"{len(lost)} of {len(self.last_items)} files had not been sent to "
            f"{self.remote.address} when the job had to end.",
            f"They are: {list_names(lost or [MANIFEST])}.",
            f"Give it more time to end. The files are still in {self.results.folder}, for as "
            "long as that is there.",
        )

    def abandon(self) -> None:
        """Start no more uploads, and abort those in progress."""
        busy = set(self.sending.busy)
        self.sending.drop_queued()
        self.remote.give_up({self.remote_name(name) for name in busy})

    def ship_all(self, items: list[Item], report: Report, tell: bool) -> list[str]:
        """Send the files that are not in the bucket yet, and report progress. Return the names of
        files that could not be sent.
        """
        due = [
            item
            for item in items
            if self.sent_shapes.get(item.name) != item.shape or self.lacks_checksum(item)
        ]
        telling = Telling(report, self.remote.address, len(due), sum(item.size for item in due))
        self.done = self.done_files = 0
        for files in self.gone, self.unread, self.refused:
            files.clear()  # this may have changed; it is noted again if not
        self.sending.add(due)
        self.sending.wait(
            [item.name for item in due], lambda: telling.tell_now(self.done, self.done_files)
        )
        if tell:
            telling.tell_end(self.done, self.done_files)
        return self.unsent_names(due)

    def lacks_checksum(self, item: Item) -> bool:
        """True if a file was sent while it grew, and is now known to be complete."""
        listed = self.entries.get(item.name)
        return (
            item.is_final and not self.results.rank and listed is not None and not listed["sha256"]
        )

    def await_rank_0(self, hurry: Callable[[], bool]) -> None:
        """Wait for rank 0 to end, at most an interval: its files need not be sent again.

        Trust only its files that are still as listed. A file is sent before the manifest, and rank
        0 may have been killed in between.
        """
        latest = time.monotonic() + self.results.interval
        while not (self.follow_rank_0() or hurry() or time.monotonic() > latest):
            time.sleep(min(1.0, self.results.interval))
        try:
            self.remote_files = self.remote.list_files()
        except Failure:
            self.remote_files = {}
        self.trust_rank_0(self.intact_entries())

    def not_sent(self, lost: list[str], total: int) -> Failure:
        failure = next(iter(self.refused.values()))
        return Failure(
            "output.lost",
            f"{len(lost)} of {total} files could not be sent to {self.remote.address}.",
            f"{failure.what} {failure.why} They are: {list_names(lost or [MANIFEST])}.",
            f"{failure.next} The files are still in {self.results.folder}, "
            "for as long as that is there.",
        )


class Telling:
    """Reports the progress of the sending at the end, and its result."""

    def __init__(self, report: Report, address: str, files: int, size: int) -> None:
        self.report, self.address, self.files, self.size = report, address, files, size
        self.began = self.last = time.monotonic()

    def tell_now(self, size: int, files: int) -> bool:
        """Report progress, at most every TELL seconds. Always False: there is more to do."""
        if time.monotonic() - self.last >= TELL:
            self.last = time.monotonic()
            rate = size / (self.last - self.began)
            self.report.tell_event(
                "transfer",
                stage="outputs",
                what=self.address,
                bytes=size,
                total_bytes=self.size,
                files=files,
                total_files=self.files,
                rate=round(rate),
                eta=round((self.size - size) / rate, 1) if rate else -1.0,
            )
        return False

    def tell_end(self, size: int, files: int) -> None:
        seconds = time.monotonic() - self.began
        rate = round(size / max(0.001, seconds))
        self.report.tell_event(
            "sent", what="outputs", bytes=size, files=files, seconds=round(seconds, 3), rate=rate
        )


def manifest_entry(name: str, shape: Shape, sha256: str | None, version: str) -> Entry:
    return {"path": name, "size": shape[0], "mtime": shape[1], "sha256": sha256, "version": version}


def list_names(names: list[str]) -> str:
    """The first NAMED names as a text, with the number of the others."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def has_grown(before: int, size: int) -> bool:
    """True if a growing file must be sent again. `before`: bytes sent; `size`: bytes now."""
    return size < SMALL or not before <= size < before + before // GROWTH


def by_path(entries: list[Entry]) -> dict[str, Entry]:
    return {entry["path"]: entry for entry in entries}


def shape_now(path: str) -> Shape:
    """As `shape_of`; for a missing file, a shape that no file has."""
    try:
        return shape_of(path)
    except FileNotFoundError:
        return -1, 0.0


def open_buckets(
    document: Document, results: ResultsFolder, env: Mapping[str, str], tell: Callable[..., None]
) -> list[Bucket]:
    """Open every prefix for this job's results. Raises Failure if one cannot be written."""
    from tao_sdk.net.s3 import S3
    from tao_sdk.net.web import Web

    s3 = S3(Web(env))
    s3.web.tell = tell
    buckets = [
        Bucket(Remote(s3, at), sources, results, left)
        for at, sources, left in bucket_sources(document, results)
    ]
    for bucket in buckets:
        try:
            bucket.open()
        except Failure as failure:
            what = f"Results cannot be written to {bucket.remote.address}/: {failure.what}"
            raise Failure(failure.code, what, failure.why, failure.next, failure.host) from failure
    return buckets


def bucket_sources(
    document: Document, results: ResultsFolder
) -> list[tuple[str, list[Source], list[str]]]:
    """(address, sources, excludes) of each prefix: those in outputs, and the job's own."""
    named: dict[str, list[Source]] = {}
    for output in document["outputs"]:
        if in_bucket(output):
            path = output_path(output, results)
            address = output["value"].rstrip("/")
            if output["file"]:
                path, address = os.path.dirname(path), address.rpartition("/")[0]
            named.setdefault(address, []).append((path, ""))
    prefixes = [(address, sources, document["excludes"]) for address, sources in named.items()]
    if results.remote:
        own: list[Source] = []
        if document["copies"]:
            from tao_sdk.runner.outputs.brought import paths_to_bring

            own = paths_to_bring(document["copies"], results)
        apart = [path for sources in [*named.values(), own] for path, _ in sources]
        elsewhere = [
            os.path.relpath(path, results.folder)
            for path in apart
            if path.startswith(results.folder + "/")
        ]
        prefixes.append(
            (results.remote, [(results.folder, ""), *own], [*document["excludes"], *elsewhere])
        )
    return prefixes
