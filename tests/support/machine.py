"""This machine as the tests of the local backend use it: real processes, a state folder of its own,
a stand-in nvidia-smi.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from support.waiting import until
from tao_sdk.backends.contract import LogRequest, cancel_one
from tao_sdk.backends.local.backend import LocalBackend
from tao_sdk.backends.local.facts import LocalFacts
from tao_sdk.backends.local.job import gpu_locks
from tao_sdk.backends.local.job.folder import Folder
from tao_sdk.backends.local.options import LocalOptions
from tao_sdk.backends.local.request import LocalRequest
from tao_sdk.model.finding import Finding
from tao_sdk.model.observation import Observation
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.payload.prepared_job import pack_spec
from tao_sdk.transports import process

NO_OPTIONS = LocalOptions()


def all_processes() -> list[str]:
    return [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]


class Machine:
    def __init__(self, root: Path) -> None:
        self.root, self.state, self.programs = root, root / "state", root / "programs"
        self.gpus: list[str] = []
        self.refs: list[Ref] = []
        self.backend = self.client()

    def client(self, **environ: str) -> LocalBackend:
        """A backend as another process would open it."""
        path = f"{self.programs}:{os.environ['PATH']}"
        return LocalBackend(Settings({**os.environ, "PATH": path, **environ}), self.state)

    def plan(
        self, command: str, options: LocalOptions = NO_OPTIONS, **spec: Any
    ) -> Plan[LocalRequest]:
        return self.planned(JobSpec(command=command, **{"gpu_count": 0, **spec}), options)[0]

    def planned(
        self, spec: JobSpec, options: LocalOptions = NO_OPTIONS
    ) -> tuple[Plan[LocalRequest], LocalFacts, list[Finding]]:
        job = pack_spec(spec, spec.command)
        facts = self.backend.survey(job, options)
        attempt = Attempt(mint_id("job"), 1, "local", self.backend.endpoint, "store-1")
        plan = self.backend.plan(job, options, facts, attempt)
        return plan, facts, self.backend.check(plan, facts)

    def submit(
        self,
        command: str,
        options: LocalOptions = NO_OPTIONS,
        given: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Ref:
        return self.start(self.plan(command, options, **spec), given)

    def start(self, plan: Plan[LocalRequest], given: Mapping[str, str] | None = None) -> Ref:
        ref = self.backend.submit(plan, given or {})
        self.refs.append(ref)
        return ref

    def see(self, ref: Ref) -> Observation:
        return self.backend.observe([ref])[ref]

    def end(self, ref: Ref) -> Observation:
        return until(lambda: seen if (seen := self.see(ref)).phase.ended else None)

    def log(self, ref: Ref) -> bytes:
        """The whole log, once the job has ended."""
        return b"".join(chunk.data for chunk in self.backend.logs(ref, LogRequest(follow=True)))

    def printed(self, ref: Ref) -> bytes:
        """What the job has printed until now."""
        return b"".join(chunk.data for chunk in self.backend.logs(ref, LogRequest()))

    def says(self, ref: Ref, words: bytes) -> None:
        """Wait until the job has printed this."""
        until(lambda: words in self.printed(ref))

    def folder(self, ref: Ref) -> Folder:
        return self.backend.folder(ref.attempt)

    def folder_of(self, plan: Plan[LocalRequest]) -> Path:
        return Path(self.backend.folder(plan.attempt).path)

    def identity(self, ref: Ref, name: Any) -> process.Identity:
        return until(lambda: self.folder(ref).read_identity(name))

    def cancels(self, ref: Ref, grace: timedelta) -> bool:
        """Whether a cancel saw the end, which a look then sees alike."""
        said = cancel_one(self.backend, ref, grace)
        assert not said.phase.over or replace(self.see(ref), seen_at=said.seen_at) == said
        return said.phase.over

    def kill_supervisor(self, ref: Ref) -> None:
        supervisor = self.identity(ref, "supervisor")
        os.kill(supervisor.pid, signal.SIGKILL)
        until(lambda: not supervisor.alive)

    def processes(self, ref: Ref) -> list[int]:
        """The living processes whose environment says that they are the job's."""
        wanted = f"TAO_JOB_ID={ref.attempt.job_id}".encode()
        found: list[int] = []
        for name in all_processes():
            try:
                mine = wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            identity = process.identify(int(name)) if mine else None
            found += [int(name)] if identity and identity.alive else []
        return found

    def fork_servers(self) -> set[int]:
        """What may start a supervisor: the fork servers of our clients, and their forks that are no
        supervisors yet. They have a client's pipe.
        """
        return {int(pid) for pid in all_processes() if self.may_start_supervisors(pid)}

    def may_start_supervisors(self, pid: str) -> bool:
        try:
            home = os.fsencode(self.backend.home)
            served = home in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return served and str(Path(f"/proc/{pid}/fd/0").readlink()).startswith("pipe:")
        except OSError:
            return False

    def has_gpus(self, number: int, used: Sequence[int] = ()) -> None:
        """From now on nvidia-smi lists this many GPUs, with this much memory in use (MiB)."""
        self.gpus = [f"GPU-{secrets.token_hex(8)}" for _ in range(number)]
        memory = [*used, *[4] * (number - len(used))]
        lines = [
            f"{n}, {uuid}, Stand-in X1, 81559 MiB, {memory[n]} MiB"
            for n, uuid in enumerate(self.gpus)
        ]
        self.program("nvidia-smi", "".join(f"echo '{line}'\n" for line in lines))

    @property
    def locks(self) -> str:
        return gpu_locks.lock_folder(f"{self.state}/local")

    def holder(self, gpu: int) -> str:
        """The job that holds a GPU; "" when none does."""
        return gpu_locks.held_by(self.locks, self.gpus[gpu])

    def program(self, name: str, text: str) -> None:
        self.programs.mkdir(exist_ok=True)
        (self.programs / name).write_text(f"#!/bin/sh\n{text}")
        (self.programs / name).chmod(0o755)

    def clear(self) -> None:
        self.backend.close()
        self.backend.cancel(self.refs, timedelta(0))
        for uuid in self.gpus:
            Path(gpu_locks.lock_path(self.locks, uuid)).unlink(missing_ok=True)
