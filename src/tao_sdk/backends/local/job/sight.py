"""Sight: look at attempts, by the files in their folders and the state of their processes.

Read-only. However many attempts there are, no program is started. /proc is walked at most once for
living processes, and once for stopped ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tao_sdk.backends.local.job.folder import Folder, is_taken
from tao_sdk.backends.local.parse import Life, Seen, exit_record
from tao_sdk.backends.outcome import read_outcome
from tao_sdk.backends.this_machine import LocalFiles
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.observation import Outcome
from tao_sdk.transports.process import GONE, STOPPED, Identity, list_sessions
from tao_sdk.transports.process_tree import STOPPED as STOPPED_BY_SIGNAL
from tao_sdk.transports.process_tree import ProcessTree, RecentTree


class Sight:
    """One look at any number of attempts. Costly data are read once, when first needed.

    `trees` keeps the machine's processes from one look of a client to the next.
    """

    def __init__(self, trees: RecentTree | None = None) -> None:
        self.trees = trees or RecentTree()

    @cached_property
    def sessions(self) -> frozenset[int]:
        """The sessions of this machine that have a living process."""
        return frozenset(list_sessions())

    def see_folder(self, folder: Folder, results_dir: str, attempt: int) -> Seen:
        if ended := exit_record(folder.read_text("exit")):
            return Seen(exit=ended)
        seen = self.see_processes(folder)
        if seen.process.living or seen.supervisor.living:
            return seen
        if ended := exit_record(folder.read_text("exit")):  # written since the first read
            return Seen(exit=ended)
        return replace(seen, outcome=outcome_of(results_dir, attempt))

    def see_processes(self, folder: Folder) -> Seen:
        supervisor, process = folder.read_identity("supervisor"), folder.read_identity("process")
        life = self.life_of(supervisor, folder)
        if life is Life.GONE and process is None:
            # the job has the lock, and is about to begin
            life = Life.TAKEN if is_taken(folder.file_path("lock")) else life
            process = folder.read_identity("process")  # the job may have begun meanwhile
        return Seen(
            supervisor=life,
            process=self.life_of_session(process, folder, supervised=life.living),
            pid=process.pid if process else 0,
            supervisor_pid=supervisor.pid if supervisor else 0,
            started=begin_time(folder),
            waiting="" if process else folder.read_text("waiting"),
        )

    def life_of(self, identity: Identity | None, folder: Folder) -> Life:
        if identity is None:
            return Life.TAKEN if is_taken(folder.file_path("lock")) else Life.NEVER
        if not identity.this_boot:
            return Life.RESTARTED
        if not identity.this_space:
            return Life.ALIVE if is_taken(folder.file_path("lock")) else Life.ELSEWHERE
        if identity.state in GONE:
            return Life.GONE
        return Life.STOPPED if identity.state in STOPPED else Life.ALIVE

    def life_of_session(self, leader: Identity | None, folder: Folder, supervised: bool) -> Life:
        """The state of the job's first process.

        ALIVE also if that is gone, no supervisor cleans up after it, and its session still lives.
        """
        if leader is None:
            return Life.NEVER
        life = self.life_of(leader, folder)
        left = (
            life is Life.GONE
            and not supervised
            and leader.this_space
            and leader.pid in self.sessions
        )
        return Life.ALIVE if left else life

    def see_stopped(self, folder: Folder, seen: Seen) -> Seen:
        """Add the stopped processes that everything else of a living job waits for."""
        if seen.process is Life.STOPPED:
            return self.see_below(folder, seen)
        leader = folder.read_identity("process") if seen.process is Life.ALIVE else None
        if leader is None or not leader.alive:
            return seen
        if not self.trees.recent_tree.stopped_processes(leader.pid):
            return seen
        return replace(seen, stopped_pids=self.fresh_tree.stopped_processes(leader.pid))

    def see_below(self, folder: Folder, seen: Seen) -> Seen:
        """Look at the processes below a job's first process, which is stopped.

        If a signal stopped only the first one, the job is alive: a stopped shell's children run on.
        """
        leader = folder.read_identity("process")
        if leader is None or leader.state != STOPPED_BY_SIGNAL:
            return seen
        stopped_pids = self.fresh_tree.stopped_processes(leader.pid)
        return replace(seen, process=Life.ALIVE, stopped_pids=stopped_pids)

    @cached_property
    def fresh_tree(self) -> ProcessTree:
        return self.trees.read_tree()


def begin_time(folder: Folder) -> float | None:
    try:
        return Path(folder.file_path("process")).stat().st_mtime
    except FileNotFoundError:
        return None


def outcome_of(results_dir: str, attempt: int) -> Outcome | None:
    """The outcome in an attempt's manifest. None if there is none, or it cannot be read.

    An unreadable one must not fail the look at the other attempts.
    """
    try:
        return read_outcome(LocalFiles(), results_dir, attempt)
    except Unreachable:
        return None
