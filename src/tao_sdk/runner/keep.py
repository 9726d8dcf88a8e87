"""Keeping the results: at every interval while the command runs, and once more at its end, however it ended."""

from __future__ import annotations

import os
import signal
import threading
import time

from .manifest import Manifest
from .report import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional, Set

    from .copies import Copies
    from .document import Document
    from .place import Place
    from .report import Report

SETTLED = 5.0  # seconds without a change before a command that failed: what is younger may have been cut off


class Keeper:
    """Copies outputs and renews the manifest. Problems are told once each; none of them ends the command."""

    def __init__(self, document: Document, place: Place, report: Report) -> None:
        self.place, self.report = place, report
        self.copies = copies_of(document, place)
        self.manifest = Manifest(place, document["excludes"]) if place.rank == 0 else None
        self.told: Set[str] = set()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def start(self, wake: Callable[[], None]) -> None:
        """Look after the results from a thread of its own; `wake` makes the main one tell what was queued."""
        self.wake = wake
        self.thread.start()

    def watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they belong to the main thread
        while not self.over.wait(self.place.interval):
            try:
                self.sync()
            except OSError as error:
                self.tell(["the manifest: %s" % error.strerror])
            self.wake()

    def sync(self) -> None:
        problems = self.copy(final=False)
        if self.manifest:
            problems += self.manifest.renew(None, False, self.manifest.known)
            self.manifest.seen = self.manifest.found
        self.tell(problems)

    def copy(self, final: bool) -> List[str]:
        """Bring the outputs up to date that the command writes elsewhere. What could not be kept."""
        return self.copies.renew(final) + self.copies.failed if self.copies else []

    def tell(self, problems: List[str]) -> None:
        new = [each for each in problems if each not in self.told]
        self.told.update(new)
        if new:
            self.report.queue(
                "warning", code="output.left_out", what="%d paths could not be kept." % len(new), paths=new
            )

    def finish(self, exit_code: int) -> None:
        """Keep everything, after the command's end. Raises Failure when results could not be kept."""
        ended = wall_clock(self.place.own)
        self.over.set()
        if self.thread.ident:
            self.thread.join()
        try:
            self.account(exit_code, ended)
        except OSError as error:
            raise lost("The manifest of the results cannot be written.", [str(error)], self.place) from error
        finally:
            self.report.flush()
        if self.copies and self.copies.failed:
            raise lost("%d files could not be kept." % len(self.copies.failed), self.copies.failed, self.place)

    def account(self, exit_code: int, ended: float) -> None:
        """First the little that must be known, then what takes its time: the runner may be killed any moment now."""
        manifest = self.manifest
        if manifest:
            manifest.renew(exit_code, False, manifest.hashed)
        problems = self.copy(final=True)
        if manifest:
            latest = ended - SETTLED if exit_code else float("inf")
            problems += manifest.renew(
                exit_code, True, lambda path, shape: shape[1] < latest or manifest.hashed(path, shape)
            )
        self.tell(problems)
        for path in self.copies.missing if self.copies else ():
            self.report.queue("warning", code="output.missing", what="The output %s was never written." % path)


def copies_of(document: Document, place: Place) -> Optional[Copies]:
    if not document["copies"]:
        return None
    from .copies import Copies

    return Copies(document["copies"], place)


def lost(what: str, paths: List[str], place: Place) -> Failure:
    return Failure(
        "output.lost",
        what,
        "; ".join(paths[:5]),
        "Free space in %s. They are still where the command wrote them, as long as the container is there."
        % place.folder,
    )


def wall_clock(folder: str) -> float:
    """Now, as the file system of the results tells it: its clock may be another host's."""
    path = os.path.join(folder, ".now.%d.tao-part" % os.getpid())
    try:
        with open(path, "wb"):
            pass
        found = os.stat(path).st_mtime
        os.unlink(path)
    except OSError:
        return time.time()
    return found
