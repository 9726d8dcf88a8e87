"""SlurmBackend: the verbs of the contract for jobs of a cluster, over one shared SSH connection.

Here: running scripts on the login node. Not here: the decisions and the scripts' text (render.py,
scripts/handover.py, parse.py), which are pure.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

from tao_sdk.backends.contract import (
    AssumedFacts,
    Backend,
    CancelAnswer,
    Capabilities,
    KiB,
    LogChunk,
    LogRequest,
    MiB,
    NewLog,
    cancel_side_by_side,
)
from tao_sdk.backends.refusals import (
    missing_secret,
    must_live_at,
    must_look_at,
    no_value,
    seen_elsewhere,
    seen_unreachable,
    still_runs,
)
from tao_sdk.backends.shell import assign_variables, join_parts
from tao_sdk.backends.slurm import logs, look, parse, render, rules
from tao_sdk.backends.slurm.cluster import assumed, doctor, survey
from tao_sdk.backends.slurm.cluster.site import (
    Site,
    fetch_bytes,
    poll_seconds,
    read_login,
    read_site,
)
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.files import SlurmFiles
from tao_sdk.backends.slurm.images import enroot_login
from tao_sdk.backends.slurm.images.containers import ENROOT, PYXIS
from tao_sdk.backends.slurm.job import activity, checks
from tao_sdk.backends.slurm.job.data import RequiredPath
from tao_sdk.backends.slurm.job.paths import JobHome, job_name
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.request import Decisions, SlurmRequest
from tao_sdk.backends.slurm.scripts import handover
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.activity import Activity
from tao_sdk.model.diagnosis import Diagnosis, Evidence
from tao_sdk.model.endpoint import SETTINGS
from tao_sdk.model.errors import Refused, SpecError, TaoError, Unreachable
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.machines import Machines
from tao_sdk.model.observation import Observation, Outcome
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.transports.ssh import Ssh

PAYLOAD = 96 * MiB
LONGEST_SCRIPT = 128 * KiB  # longer ones travel as an archive, which needs two more processes there
CANCEL_BATCH = 200  # jobs per scancel
CANCELS = 8  # jobs canceled in parallel if each needs an exec of its own
KILL_WAIT = 30  # seconds; SLURM's default
MARGIN = 20.0  # seconds beyond the grace and the site's KillWait, for SLURM to clean up


class SlurmBackend(Backend[SlurmOptions, SlurmFacts, SlurmRequest]):
    """Jobs of the cluster that SLURM_HOSTNAME names, with files below SLURM_BASE_RESULTS_DIR."""

    platform = "slurm"
    capabilities = Capabilities(
        multi_node=True,
        streams_apart=True,
        needs_image=False,
        max_command=PAYLOAD,
        max_payload=PAYLOAD,
        retries=10,
        poll_seconds=15.0,
        lag_seconds=5.0,
        files_seconds=15.0,
        submits=4,
        unused_fields=frozenset({"shm_size"}),
    )
    Options = SlurmOptions

    def __init__(self, settings: Settings, state_dir: Path) -> None:
        self.settings = settings
        self.login = read_login(settings)
        named = settings.get("SLURM_CLUSTER_NAME")
        self.capabilities = replace(
            type(self).capabilities,
            poll_seconds=poll_seconds(settings),
            fetch_bytes=fetch_bytes(settings),
        )
        self.ssh = Ssh(self.login)
        self.surveys = survey.Surveys(
            state_dir / "slurm", lambda script: self.ssh.run(script, seconds=120).text
        )
        self.endpoint = named or self.known_name()

    @property
    def way(self) -> Mapping[str, str]:
        """The settings of the cluster and the login that have a value."""
        given = {name: self.settings.get(name) or "" for name in SETTINGS["slurm"].names}
        return {name: value for name, value in given.items() if value}

    def known_name(self) -> str:
        """The first login host with cached facts, else the first. All lead to the same cluster."""
        names = [self.login.user_at(host) for host in self.login.hosts]
        return next(filter(self.surveys.has_cached, names), names[0])

    @property
    def site(self) -> Site:
        return read_site(self.settings)

    # Planning

    def survey(self, job: PreparedJob, options: SlurmOptions) -> SlurmFacts:
        """Return the cached facts. If the job could not run by them, ask the cluster again."""
        facts = self.surveys.current_facts(self.site, self.endpoint)
        if survey.is_new(facts) or self.would_run(job, options, facts):
            return facts
        return self.surveys.current_facts(self.site, self.endpoint, fresh=True)

    def assume_facts(self, job: PreparedJob, options: SlurmOptions) -> AssumedFacts:
        last = self.surveys.cached_facts(self.site, self.endpoint)
        if last is not None:
            return AssumedFacts(last, assumed.describe_age(last.seen_at))
        now = datetime.now(timezone.utc)
        facts = assumed.assumed_facts(self.site, options, job.spec, now)
        return AssumedFacts(facts, assumed.UNCHECKED)

    def would_run(self, job: PreparedJob, options: SlurmOptions, facts: SlurmFacts) -> bool:
        attempt = Attempt("job-0000000000", 1, self.platform, self.endpoint, "")
        try:
            findings = self.check(self.plan(job, options, facts, attempt), facts)
        except SpecError:
            return False
        return all(each.severity is not Severity.ERROR for each in findings)

    def plan(
        self, job: PreparedJob, options: SlurmOptions, facts: SlurmFacts, attempt: Attempt
    ) -> Plan[SlurmRequest]:
        return render.plan_job(job, options, facts, attempt)

    def plan_again(
        self,
        last: Plan[SlurmRequest],
        job: PreparedJob,
        options: SlurmOptions,  # noqa: ARG002
        attempt: Attempt,
    ) -> Plan[SlurmRequest]:
        """Plan a retry from the decisions of the first attempt."""
        return render.plan_attempt(last.request.decisions, job, attempt)

    def check(self, plan: Plan[SlurmRequest], facts: SlurmFacts) -> list[Finding]:
        return checks.plan_findings(plan, facts)

    def request_from_json(self, data: Mapping[str, Any]) -> SlurmRequest:
        return SlurmRequest.from_json(data)

    # Starting

    def submit(self, plan: Plan[SlurmRequest], secrets: Mapping[str, str]) -> Ref:
        decisions, attempt = plan.request.decisions, plan.attempt
        if missing := missing_secret(plan.secrets, secrets):
            return self.adopt_attempt(attempt, decisions.home, missing)
        files = {
            **{file.path: file.content for file in plan.files},
            **environment_files(decisions, attempt, secrets),
        }
        folders = dict.fromkeys(posixpath.dirname(name) for name in files)
        if is_small(files):
            stage, given = handover.write_files_script(files), b""
        else:
            stage, given = handover.UNPACK_COMMAND, pack_files(files)
        answer = self.ssh.run(
            handover.submit_script(decisions, attempt, folders, stage),
            given,
            handover.SUBMIT_SECONDS,
        )
        reply = handover.read_reply(answer.text)
        if reply.missing:
            raise missing_paths([decisions.checks[index] for index in reply.missing], answer.host)
        if reply.word == "ID":
            return self.build_ref(attempt, decisions.home, reply.text)
        raise not_submitted(reply, answer.words, attempt)

    def adopt_attempt(self, attempt: Attempt, home: JobHome, name: str) -> Ref:
        """Return the Ref of an attempt that has already begun.

        Raises Refused if it has not: it cannot start without the secret `name`.
        """
        found = self.look_up(attempt, home)
        if found is None or not found.ready:
            raise no_value(name)
        return found

    def find(self, attempt: Attempt, plan: Plan[SlurmRequest] | None = None) -> Ref | None:
        """Look below the plan's base directory; without a plan, below the current setting's."""
        if plan is not None:
            return self.look_up(attempt, plan.request.decisions.home)
        facts = self.surveys.current_facts(self.site, self.endpoint)
        return self.look_up(attempt, JobHome(facts.base, f"{facts.base}/results", facts.accounting))

    def look_up(self, attempt: Attempt, home: JobHome) -> Ref | None:
        reply = handover.read_reply(self.ssh.run(handover.find_script(home, attempt)).text)
        if reply.word == "ID":
            return self.build_ref(attempt, home, reply.text)
        if reply.word in ("NONE", "STRANGER"):
            return None
        if reply.word == "BEGUN":
            return replace(
                self.build_ref(attempt, home, ""),
                ready=False,
                step="being handed over",
                retry_after=1.0,
            )
        raise Unreachable(
            f"SLURM could not say whether it has the job: {reply.text}", "", "Try again."
        )

    def build_ref(self, attempt: Attempt, home: JobHome, slurm_id: str) -> Ref:
        at = home.attempt_paths(attempt)
        return Ref(
            platform=self.platform,
            endpoint=self.endpoint,
            namespace=at.base,
            native_id=slurm_id,
            unique_id=f"{slurm_id} {job_name(attempt)}",
            attempt=attempt,
            details={
                "slurm_job_id": slurm_id,
                "job_dir": at.job,
                "results_dir": f"{home.results_root}/{attempt.job_id}",
                "slurm_metadata": {"slurm_job_id": slurm_id, "job_dir": at.job},
                "log_dir": f"{at.job}/slurm-logs/{job_name(attempt)}-{slurm_id}",
            },
        )

    # Looking

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        """Run one squeue and one sacct for all attempts, in one exec.

        One more exec reads the records of the attempts that are over.
        """
        here = [ref for ref in refs if ref.endpoint == self.endpoint]
        seen = seen_elsewhere(self.endpoint, refs)
        if not here:
            return seen
        try:
            return seen | look.observe_attempts(self.ssh, here)
        except Unreachable as error:
            return seen | seen_unreachable(here, error.what)

    def outcome(self, ref: Ref) -> Outcome | None:
        record = look.fetch_remains(self.ssh, [ref], over=[ref])[ref].record
        if not record.whole:
            return None
        return Outcome(record.exit_code is not None, record.exit_code)

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        must_live_at(self.endpoint, ref)
        at = look.paths_of(ref)

        def has_ended() -> bool:
            return self.observe([ref])[ref].phase.over

        return logs.LogReader(self.ssh, at.logs, at.attempt, has_ended).read(request)

    def new_logs(self, cursors: Mapping[Ref, str]) -> Mapping[Ref, NewLog]:
        """Read new log bytes in one exec, for at most the first logs.MOST_JOBS attempts."""
        refs = [ref for ref in cursors if ref.endpoint == self.endpoint][: logs.MOST_JOBS]
        offsets = [logs.Offsets.from_request(LogRequest(cursor=cursors[ref])) for ref in refs]
        answer = self.ssh.run(
            logs.read_new_script([look.paths_of(ref).logs for ref in refs], offsets), seconds=60
        )
        return {refs[index]: new for index, new in logs.parse_new(answer.out, offsets).items()}

    def files(self, endpoint: str = "") -> SlurmFiles:
        must_look_at(self.endpoint, endpoint)
        return SlurmFiles(self.ssh)

    # Ending

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> dict[Ref, CancelAnswer]:
        """Cancel the attempts, with one scancel for many jobs.

        A job is canceled separately if its id is not known, or if SLURM refused to end it with the
        others.
        """
        answers: dict[Ref, CancelAnswer] = {}
        here = [ref for ref in refs if ref.endpoint == self.endpoint and ref.native_id]
        if len(here) > 1:
            for first in range(0, len(here), CANCEL_BATCH):
                answers |= self.cancel_batch(here[first : first + CANCEL_BATCH], grace)
        others = [ref for ref in refs if ref not in answers]
        return answers | cancel_side_by_side(others, partial(self.end_job, grace=grace), CANCELS)

    def cancel_batch(self, refs: Sequence[Ref], grace: timedelta) -> Mapping[Ref, CancelAnswer]:
        """Answers for the jobs that one scancel has ended, or an error for all if it failed."""
        try:
            return look.cancel_attempts(self.ssh, refs, grace, self.clearing_seconds())
        except TaoError as error:
            return dict.fromkeys(refs, error)

    def clearing_seconds(self) -> float:
        """The seconds that a job's end may take beyond the grace."""
        return self.kill_wait() + MARGIN

    def end_job(self, ref: Ref, grace: timedelta) -> Observation:
        """Cancel one job: SIGTERM to its tasks and, after the grace, SIGKILL. Takes one exec."""
        must_live_at(self.endpoint, ref)
        return look.cancel_attempt(self.ssh, ref, grace, self.clearing_seconds())

    def kill_wait(self) -> int:
        try:
            known = self.surveys.cached_facts(self.site, self.endpoint)
        except TaoError:
            return KILL_WAIT
        return known.kill_wait if known else KILL_WAIT

    def release(self, ref: Ref) -> None:
        must_live_at(self.endpoint, ref)
        if not self.end_job(ref, timedelta(0)).phase.over:
            raise still_runs(f"SLURM job {ref.native_id}")
        answer = self.ssh.run(
            handover.release_script(JobHome(ref.namespace), ref.attempt), seconds=120
        )
        if answer.rc:
            raise Unreachable(
                f"{look.paths_of(ref).job} could not be removed: {answer.words}", "", "Try again."
            )

    # Explaining

    def evidence(self, ref: Ref) -> Evidence:
        must_live_at(self.endpoint, ref)
        return look.collect_evidence(self.ssh, ref)

    def activity(self, ref: Ref) -> Activity:
        must_live_at(self.endpoint, ref)
        if not ref.native_id:
            return Activity()
        return activity.look_into(self.ssh, ref)

    def diagnose(self, evidence: Evidence) -> Diagnosis | None:
        return rules.diagnose_job(evidence)

    def machines(self, plan: Plan[SlurmRequest]) -> Machines:
        """Describe the machines from the login node.

        Its architecture, the GPUs of the largest node in the plan's partitions, and the free space
        in the base directory.
        """
        partition = plan.request.decisions.directives.get("partition", "")
        answer = self.ssh.run(machines_script(partition, self.site.base))
        return parse.read_machines(answer.text)

    def private_image_findings(self, plan: Plan[SlurmRequest], registry: str) -> list[Finding]:
        """An error if enroot on the cluster has no login for the registry.

        None with other runtimes, which log in by the site's own ways.
        """
        if plan.request.decisions.runtime not in (PYXIS, ENROOT):
            return []
        answer = self.ssh.run(enroot_login.list_registries_script())
        if enroot_login.name_of(registry) in answer.text.split():
            return []
        return [replace(enroot_login.missing_login_finding(registry), severity=Severity.ERROR)]

    def doctor(self) -> list[Finding]:
        return doctor.examine_cluster(self.ssh, self.settings)

    def close(self) -> None:
        """Do nothing: other processes share the ssh connection, and it ends by itself."""


def environment_files(
    decisions: Decisions, attempt: Attempt, secrets: Mapping[str, str]
) -> dict[str, bytes]:
    return {
        f"attempts/{attempt.number}/env.sh": render.encode_text(
            render.environment_file(decisions, attempt, secrets)
        )
    }


def is_small(files: Mapping[str, bytes]) -> bool:
    """True if the files can be part of a script: it is short enough, and has no zero bytes."""
    return sum(map(len, files.values())) < LONGEST_SCRIPT and not any(
        b"\0" in content for content in files.values()
    )


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """A tar.gz of files that only their owner may read. gzip detects a missing end."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(data.getvalue(), compresslevel=1)


def missing_paths(lacking: Sequence[RequiredPath], host: str) -> Refused:
    first, what = lacking[0].path, lacking[0].what
    more = "".join(f"; {each.what}: {each.path}" for each in lacking[1:])
    error = Refused(
        f"{what} is not on the cluster: {first}{more}",
        f"Looked for on {host}. SLURM jobs cannot read this machine's "
        "files. Nothing was submitted.",
        f"Correct the path, or copy the data there: rsync -a ... {host}:{shlex.quote(first)}",
    )
    error.code = "input.missing"
    return error


def unsafe_folder(words: str) -> Refused:
    """The error for a folder that others may write to. `words`: the folder, and what is wrong."""
    error = Refused(
        f"{words}.",
        "Others could put files there that your jobs would run. Nothing was submitted.",
        "Set SLURM_BASE_RESULTS_DIR to a folder of your own, or, if the folder is yours, run "
        "there: chmod go-w FOLDER",
    )
    error.code = "slurm.unsafe_folder"
    return error


def not_submitted(reply: handover.Reply, words: str, attempt: Attempt) -> TaoError:
    """The error to raise if a submit did not return an id."""
    if reply.word == "REFUSED":
        return rules.refusal_error(reply.text)
    if reply.word == "STRANGER":
        return Refused(
            f"{attempt.job_id} is the job of another store.",
            "Its folder is on the cluster already.",
            "Submit the job again: it gets another id.",
        )
    if reply.word == "NOROOM":
        fix = (
            "See that SLURM_BASE_RESULTS_DIR is a folder that you may write "
            "to, with room: tao doctor slurm."
        )
        error = Refused("The job's folder could not be made on the cluster.", reply.text, fix)
        error.backend_words = reply.text
        return error
    if reply.word == "UNSAFE":
        return unsafe_folder(reply.text)
    if reply.word == "ALIVE":
        id, _, state = reply.text.partition(" ")
        return Unreachable(
            f"The attempt before, SLURM job {id}, is still {state}.",
            "Two must not run.",
            "It is tried again.",
        )
    return Unreachable(
        f"SLURM did not say whether it took the job: {reply.text or words}",
        "",
        "Looking again will tell.",
    )


def machines_script(partition: str, base: str) -> str:
    """The script that tells what the login node knows of the partitions' machines."""
    values = {"partition": partition, "base": base}
    return join_parts(assign_variables(values), load_script("machines"))
