"""Results that go to a bucket: local files, sent below a prefix while the command runs, and the
manifest after them.

What must be known first goes first: status files and logs as they grow. Any other file is sent once
it stood still over two looks, small ones before large ones. What is there whole is not sent again,
also not by a later attempt. Nothing is ever removed from the bucket, and no bucket is ever created.

Rank 0 sends to `<key>/`; another one only what differs from that, to `<key>/.rank-<n>/`.
"""

from __future__ import annotations

import os
import threading
import time

from tao_sdk.net.failure import Failure
from tao_sdk.net.web import Changed
from tao_sdk.runner.outputs.brought import brought, others, written_there
from tao_sdk.runner.outputs.destination import destination, in_bucket
from tao_sdk.runner.outputs.manifest import parsed, written
from tao_sdk.runner.outputs.remote import Remote, is_version
from tao_sdk.runner.outputs.sending import Item, Sending
from tao_sdk.runner.outputs.tree import Tree, covers, digest, growing, shape_of, whole_folders
from tao_sdk.runner.trouble import crash_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from tao_sdk.runner.document import Document
    from tao_sdk.runner.outputs.ending import Ending
    from tao_sdk.runner.outputs.tree import Shape
    from tao_sdk.runner.place import Place
    from tao_sdk.runner.report import Report

    Entry = dict[str, Any]
    Source = tuple[
        str, str
    ]  # a local folder or file, and its name below the prefix; "" for the prefix itself

OWN = ".tao"
MANIFEST = ".tao/manifest.json"
SMALL = 8 << 20  # bytes up to which a growing file is sent whenever it has grown
# a larger one when it has grown by an eighth: it is sent nine times in all, and not at every look
GROWTH = 8
# of the grace: what the command leaves for sending its last results, when the job is told to end
SHARE = 0.4
NAMED = 20  # files that a failure names
TELL = 2.0  # seconds between two tellings of how far it is


class Bucket:
    """One prefix that results go to. Problems cost only the file that has them."""

    def __init__(
        self, remote: Remote, sources: list[Source], place: Place, excludes: list[str]
    ) -> None:
        self.remote, self.sources, self.place = remote, sources, place
        self.excludes = [OWN, *excludes]
        self.there: dict[
            str, tuple[int, str]
        ] = {}  # name -> size and version, unless a sending of it failed
        self.entries: dict[str, Entry] = {}  # of the manifest, by name
        self.folders: dict[
            str, list[int]
        ] = {}  # that are checkpoints: how many files and bytes; -1 while in motion
        self.sent: dict[str, Shape] = {}
        self.seen: dict[str, tuple[Shape, int]] = {}  # and for how many looks it has been so
        self.refused: dict[str, Failure] = {}
        self.unread: dict[str, str] = {}  # files that could not be read, and why
        self.spared: dict[
            str, str | None
        ] = {}  # what another rank did not send, since rank 0 had this checksum
        self.missing: list[str] = []
        self.failure: Failure | None = None
        self.told = b""  # the manifest as it was sent last
        self.gone: set[str] = set()  # files that vanished between a look and their turn
        self.ended = False  # the command is over: there is no later look
        self.last: dict[str, Item] = {}  # what the last look has found
        self.closed = False  # everything was accounted for
        self.done = self.done_files = 0  # bytes and files whose turn has been, since the end began
        self.lock = threading.Lock()
        self.sending = Sending(self.send, self.broke)

    # Before the command

    def open(self) -> None:
        """Make sure that results can be kept here, and learn what an earlier attempt left."""
        self.remote.probe()
        if self.remote.address == self.place.remote and not self.place.rank:
            self.remote.sweep()
        self.there = self.remote.list()
        found = self.manifest()
        self.entries, self.folders = by_path(found.get("files", [])), found.get("folders", {})

    def manifest(self) -> dict[str, Any]:
        """This job's manifest in the bucket."""
        found = parsed(self.remote.read(MANIFEST) or b"")
        return found if found.get("job") == self.place.job else {}

    def fetch_log(self) -> None:
        """The log of an earlier attempt, so that ours does not take its place."""
        name = f"{OWN}/{os.path.basename(self.place.log_path)}"
        if name in self.there and not os.path.exists(self.place.log_path):
            self.remote.fetch(name, self.place.log_path, self.there[name][0])

    def intact(self) -> list[Entry]:
        """The complete files of an earlier attempt that are still there as they were."""
        return [
            each
            for each in self.entries.values()
            if self.there.get(each["path"]) == (each["size"], each.get("version"))
        ]

    def local(self, name: str) -> str:
        """Where a file of that name lies here."""
        inside, path = max(
            (inside, path) for path, inside in self.sources if not inside or covers(inside, name)
        )
        return os.path.join(path, name[len(inside) :].lstrip("/")) if name != inside else path

    # While it runs

    def sync(self, hurry: Callable[[], bool]) -> list[str]:
        """Send what is due, and the manifest after it; large files may take longer than this. What
        had to be left out.
        """
        items, problems = self.look()
        self.note(items)
        if self.place.rank:
            self.follow()
        due = [each for each in items.values() if self.is_due(each)]
        self.sending.add(due)
        latest = time.monotonic() + self.place.interval / 2
        self.sending.wait([each.name for each in due], lambda: hurry() or time.monotonic() > latest)
        self.put_manifest(None, False, problems)
        return problems + self.troubles()

    def follow(self) -> bool:
        """Learn what rank 0 has by now: what it has no longer is due here again. Whether it has
        ended.
        """
        try:
            found = self.manifest()
        except Failure:  # sending tells why, if that fails as well
            return False
        self.believe(found.get("files", []))
        return bool(found.get("whole")) and found["attempt"] == self.place.attempt

    def believe(self, entries: list[Entry]) -> None:
        """That rank 0 has these, and no others."""
        self.entries = by_path(entries)
        for name, sha256 in list(self.spared.items()):
            if not self.is_at_rank_0(name, sha256):
                self.sent.pop(name, None)
                del self.spared[name]

    def note(self, items: dict[str, Item]) -> None:
        """Which have stood still for long enough. Another rank gives rank 0 a look more, to have
        sent the same.
        """
        looks = 3 if self.place.rank else 2
        before, self.seen = self.seen, {}
        for name, each in items.items():
            shape, count = before.get(name, (each.shape, 0))
            self.seen[name] = each.shape, count + 1 if shape == each.shape else 1
            each.still = self.seen[name][1] >= looks
        self.note_folders(items)

    def note_folders(self, items: dict[str, Item]) -> None:
        """Those that are checkpoints are complete once all their files stand still; one that is not
        here stays as it was.
        """
        self.folders.update(
            whole_folders(
                [(name, items[name].size) for name in sorted(items)], lambda name: items[name].still
            )
        )

    def look(self) -> tuple[dict[str, Item], list[str]]:
        """Every file as it is now, by its name in the bucket, and what could not be looked at."""
        items: dict[str, Item] = {}
        problems: list[str] = []
        self.missing = []
        for source, inside in [*self.sources, *self.logs()]:
            if os.path.isdir(source):
                tree = Tree(source, [*self.excludes, *others(source, self.place)])
                problems += [f"{source}: {each}" if inside else each for each in tree.problems]
                for path, shape in tree.files.items():
                    self.take(
                        os.path.join(inside, path),
                        os.path.join(source, path),
                        shape,
                        items,
                        problems,
                    )
            elif os.path.isfile(source):
                self.take(inside, source, shape_now(source), items, problems)
            elif os.path.exists(source):
                problems.append(f"{source}: not a file")
            elif not written_there(inside, self.place):
                self.missing.append(source)
        return items, problems

    def logs(self) -> list[Source]:
        own = os.path.basename(self.place.log_path)
        found = os.listdir(self.place.own_folder) if os.path.isdir(self.place.own_folder) else []
        return [
            (os.path.join(self.place.own_folder, each), f"{OWN}/{each}")
            for each in found
            if each.startswith(own)
        ]

    def take(
        self, name: str, path: str, shape: Shape, items: dict[str, Item], problems: list[str]
    ) -> None:
        if not name.startswith(OWN + "/") and any(covers(each, name) for each in self.excludes):
            return
        if name != name.encode("utf-8", "replace").decode():
            problems.append(f"{path}: its name is not UTF-8")
            return
        if name in items:
            problems.append(f"{path}: {items[name].path} has the same name")
            return
        items[name] = Item(
            name, path, shape, growing(name) and (not self.place.rank or name.startswith(OWN + "/"))
        )

    def is_due(self, item: Item) -> bool:
        """Whether it is this file's turn, and not there already."""
        sent = self.sent.get(item.name)
        if sent == item.shape:
            return False
        if item.still or not item.urgent or sent is None:
            return item.still or item.urgent
        return item.size < SMALL or not sent[0] <= item.size < sent[0] + sent[0] // GROWTH

    def send(self, item: Item) -> None:
        """One file, from one of the sending threads."""
        try:
            self.ship(item)
            self.refused.pop(item.name, None)
            self.unread.pop(item.name, None)
        except FileNotFoundError:
            self.gone.add(item.name)  # a temporary file of the program's own
        except Changed:  # a later look sends it, while there is one
            if self.ended:
                self.unread[item.name] = (
                    f"{item.path}: it was still being written after the command's end"
                )
        except OSError as error:
            self.unread[item.name] = f"{item.path}: {error.strerror}"
        except Failure as failure:
            self.refuse(item.name, failure)
        finally:
            with self.lock:
                self.done += item.size
                self.done_files += 1

    def refuse(self, name: str, failure: Failure) -> None:
        """It could not be sent. A store that is away has had its time: the others would only learn
        the same.
        """
        self.refused[name] = failure
        if failure.code.startswith(("web.", "s3.busy")) and self.remote.s3.web.away:
            self.sending.drop()
            self.failure = failure if self.ended else None

    def broke(self, item: Item, error: BaseException) -> None:
        """What nobody foresaw is told with the results that it costs."""
        self.refused[item.name] = crash_failure(error)

    def ship(self, item: Item) -> None:
        if self.failure:
            raise self.failure
        name, shape = self.remote_name(item.name), item.shape
        known = {} if self.place.rank else self.complete(item)
        sha256 = (known.get("sha256") or digest(item.path, "sha256")) if item.still else None
        if self.place.rank and name not in self.there and self.is_at_rank_0(item.name, sha256):
            self.spared[item.name], self.sent[item.name] = sha256, shape
            return
        version = self.version_there(item, known.get("version"))
        still = item.still and not item.urgent
        version = version or self.remote.send(
            name, item.path, lambda: not still or shape_now(item.path) == shape
        )
        self.sent[item.name], self.there[name] = shape, (shape[0], version)
        if shape_now(item.path) != shape:
            sha256 = None  # it grew meanwhile: the next look sends the rest
        if not self.place.rank and not name.startswith(OWN + "/"):
            self.entries[name] = entry(name, shape, sha256, version)

    def complete(self, item: Item) -> Entry:
        """What is listed of it, if that was complete and is of the file as it is now."""
        listed = self.entries.get(item.name, {})
        return (
            listed
            if listed.get("sha256") and (listed["size"], listed["mtime"]) == item.shape
            else {}
        )

    def is_at_rank_0(self, name: str, sha256: str | None) -> bool:
        return bool(sha256) and self.entries.get(name, {}).get("sha256") == sha256

    def version_there(self, item: Item, known: str | None) -> str:
        """The version that was sent before, by an earlier attempt too, if it is this very file; ""
        otherwise.

        What is there is not known again before the file is sent: one that fails may have come all
        the same.
        """
        sent = self.sent.pop(item.name, None)
        size, version = self.there.pop(self.remote_name(item.name), (-1, ""))
        same = size == item.size and (
            item.shape == sent or version == known or is_version(version, item.path)
        )
        return version if same else ""

    def remote_name(self, name: str) -> str:
        """Its name in the bucket: what is not rank 0's lies in a folder of its
        rank, below the key.
        """
        if not self.place.rank or name.startswith(OWN + "/"):
            return name
        key, slash, rest = name.partition("/")
        own = f".rank-{self.place.rank}"
        return f"{key}/{own}/{rest}" if slash else f"{own}/{name}"

    def put_manifest(self, exit_code: int | None, whole: bool, problems: list[str]) -> None:
        """Renew it, if it has something new to tell."""
        if self.place.rank:
            return
        entries = dict(self.entries)
        files = [entries[name] for name in sorted(entries)]
        unsent = [] if exit_code is None or whole else self.unsent(self.last.values())
        text = written(self.place, exit_code, whole, problems, files, self.folders, unsent).encode()
        if text == self.told:
            return
        try:
            if self.failure:
                raise self.failure
            self.remote.write(MANIFEST, text)
            self.told = text
            self.refused.pop(MANIFEST, None)
        except Failure as failure:
            self.refuse(MANIFEST, failure)

    def troubles(self) -> list[str]:
        """What could not be kept up to now, a line for each."""
        refused = dict(self.refused)
        return [
            *dict(self.unread).values(),
            *(f"{name}: {refused[name].what} {refused[name].why}" for name in refused),
        ]

    # At its end

    def finish(self, ending: Ending, hurry: Callable[[], bool], report: Report) -> list[str]:
        """Send everything: first the little that must be known, since the runner may be killed any
        moment now.
        """
        exit_code = ending.exit_code
        self.remote.s3.web.away.clear()  # it is waited for once more
        self.sending.drop()
        self.ended = True
        items, problems = self.look()
        for each in items.values():
            each.still = ending.vouches(each.shape[1]) or bool(self.complete(each))
        self.last = items
        self.note_folders(items)
        self.ship_first([each for each in items.values() if each.urgent], report)
        self.put_manifest(exit_code, False, problems)
        self.sending.wait(set(self.sending.busy))
        if self.place.rank and not self.failure:
            self.await_rank_0(hurry)
        lost = self.ship_all(list(items.values()), report, tell=True)
        self.put_manifest(exit_code, not lost, problems)
        self.sending.close()
        if lost or MANIFEST in self.refused:
            self.failure = self.not_sent(lost, len(items))
        return problems + list(self.unread.values())

    def ship_first(self, items: list[Item], report: Report) -> None:
        """Send these, while what is on its way already goes on. One of them may be, as it was
        before.
        """
        self.sending.wait([each.name for each in items])
        self.ship_all(items, report, tell=False)

    def unsent(self, items: Iterable[Item]) -> list[str]:
        """The names of those that are not there."""
        excused = self.gone | set(self.unread)
        return sorted(
            each.name
            for each in items
            if self.sent.get(each.name) != each.shape and each.name not in excused
        )

    def given_up(self) -> Failure:
        """There was no time left to send everything."""
        if not self.last:
            self.last = self.look()[0]
        lost = self.unsent(self.last.values())
        return Failure(
            "output.lost",
            f"{len(lost)} of {len(self.last)} files had not been sent to "
            f"{self.remote.address} when the job had to end.",
            f"They are: {listed(lost or [MANIFEST])}.",
            f"Give it more time to end. The files are still in {self.place.folder}, for as "
            "long as that is there.",
        )

    def abandon(self) -> None:
        """Let nothing be begun any more, and give up the uploads that are on their way."""
        busy = set(self.sending.busy)
        self.sending.drop()
        self.remote.give_up({self.remote_name(name) for name in busy})

    def ship_all(self, items: list[Item], report: Report, tell: bool) -> list[str]:
        """Send what is not there yet, and tell how far it is. The names of what
        could not be sent.
        """
        due = [
            each
            for each in items
            if self.sent.get(each.name) != each.shape or self.lacks_checksum(each)
        ]
        telling = Telling(report, self.remote.address, len(due), sum(each.size for each in due))
        self.done = self.done_files = 0
        for each in self.gone, self.unread, self.refused:
            each.clear()  # it may be otherwise by now, and is then told anew
        self.sending.add(due)
        self.sending.wait(
            [each.name for each in due], lambda: telling.now(self.done, self.done_files)
        )
        if tell:
            telling.end(self.done, self.done_files)
        return self.unsent(due)

    def lacks_checksum(self, item: Item) -> bool:
        """It was sent while it grew, and is known by now to be complete."""
        listed = self.entries.get(item.name)
        return item.still and not self.place.rank and listed is not None and not listed["sha256"]

    def await_rank_0(self, hurry: Callable[[], bool]) -> None:
        """What rank 0 has sent need not be sent again; an interval is enough for it to end, too.

        What it lists may be another file by now: each is sent before the manifest, and it may have
        been killed between.
        """
        latest = time.monotonic() + self.place.interval
        while not (self.follow() or hurry() or time.monotonic() > latest):
            time.sleep(min(1.0, self.place.interval))
        try:
            self.there = self.remote.list()
        except Failure:
            self.there = {}
        self.believe(self.intact())

    def not_sent(self, lost: list[str], total: int) -> Failure:
        failure = next(iter(self.refused.values()))
        return Failure(
            "output.lost",
            f"{len(lost)} of {total} files could not be sent to {self.remote.address}.",
            f"{failure.what} {failure.why} They are: {listed(lost or [MANIFEST])}.",
            f"{failure.next} The files are still in {self.place.folder}, "
            "for as long as that is there.",
        )


class Telling:
    """Tells how far the sending at the end is, now and then, and what it came to."""

    def __init__(self, report: Report, address: str, files: int, size: int) -> None:
        self.report, self.address, self.files, self.size = report, address, files, size
        self.began = self.last = time.monotonic()

    def now(self, size: int, files: int) -> bool:
        """Always False: there is more to do."""
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

    def end(self, size: int, files: int) -> None:
        seconds = time.monotonic() - self.began
        rate = round(size / max(0.001, seconds))
        self.report.tell_event(
            "sent", what="outputs", bytes=size, files=files, seconds=round(seconds, 3), rate=rate
        )


def entry(name: str, shape: Shape, sha256: str | None, version: str) -> Entry:
    return {"path": name, "size": shape[0], "mtime": shape[1], "sha256": sha256, "version": version}


def listed(names: list[str]) -> str:
    """The first of them, in words."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def by_path(entries: list[Entry]) -> dict[str, Entry]:
    return {each["path"]: each for each in entries}


def shape_now(path: str) -> Shape:
    """As `shape_of`; of what is not there, one that nothing has."""
    try:
        return shape_of(path)
    except FileNotFoundError:
        return -1, 0.0


def buckets(
    document: Document, place: Place, env: Mapping[str, str], tell: Callable[..., None]
) -> list[Bucket]:
    """Every prefix that this job's results go to, each ready. Raises the Failure of one that cannot
    be written.
    """
    from tao_sdk.net.s3 import S3
    from tao_sdk.net.web import Web

    s3 = S3(Web(env))
    s3.web.tell = tell
    found = [
        Bucket(Remote(s3, at), sources, place, left)
        for at, sources, left in destinations(document, place)
    ]
    for bucket in found:
        try:
            bucket.open()
        except Failure as failure:
            what = f"Results cannot be written to {bucket.remote.address}/: {failure.what}"
            raise Failure(failure.code, what, failure.why, failure.next, failure.host) from failure
    return found


def destinations(document: Document, place: Place) -> list[tuple[str, list[Source], list[str]]]:
    """Address, what goes there and what does not, for each prefix: the job's own, and those that
    outputs name.
    """
    named: dict[str, list[Source]] = {}
    for output in document["outputs"]:
        if in_bucket(output):
            path = destination(output, place)
            address = output["value"].rstrip("/")
            if output["file"]:
                path, address = os.path.dirname(path), address.rpartition("/")[0]
            named.setdefault(address, []).append((path, ""))
    found = [(address, sources, document["excludes"]) for address, sources in named.items()]
    if place.remote:
        own = brought(document["copies"], place)
        apart = [path for sources in [*named.values(), own] for path, _ in sources]
        elsewhere = [
            os.path.relpath(path, place.folder)
            for path in apart
            if path.startswith(place.folder + "/")
        ]
        found.append(
            (place.remote, [(place.folder, ""), *own], [*document["excludes"], *elsewhere])
        )
    return found
