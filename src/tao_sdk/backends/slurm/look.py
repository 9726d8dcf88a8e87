"""Look: observe attempts on a cluster with one squeue and one sacct, and read ended ones' records.

Here: running the scripts, and passing their answers to parse.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from tao_sdk.backends.shell import assign_variables, define_function, join_parts
from tao_sdk.backends.slurm import parse, rules
from tao_sdk.backends.slurm.cluster.queue import waiting_events
from tao_sdk.backends.slurm.job.paths import JobHome, Paths, job_name
from tao_sdk.backends.slurm.job.record import Record, read_record, with_record
from tao_sdk.backends.slurm.scripts import handover
from tao_sdk.backends.slurm.scripts.handover import plain_start
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.diagnosis import Evidence, NodeEvent
from tao_sdk.model.errors import Refused, TaoError, Unreachable
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.runner.report import PREFIX
from tao_sdk.transports.ssh import Ssh

UNFAILED = ("COMPLETED", "RUNNING", "PENDING", "SUSPENDED")  # states without a failure
SEEN_AT_ONCE = 5_000  # jobs per query: their ids are one argument, and Linux allows 128 KiB
REMAINS_AT_ONCE = 1_000  # about 20 ms each on a login node; the timeout for all is 120 s
SECTION = re.compile(rb"^=== (\S+) (\d{1,9}) (\d{1,15}) (\d{1,15})\n", re.MULTILINE)


@dataclass(frozen=True)
class Remains:
    """An attempt's files after its end: its record, and whether it goes on at its time limit."""

    record: Record
    resumes: bool = False


def observe_attempts(ssh: Ssh, refs: Sequence[Ref]) -> dict[Ref, Observation]:
    """Observe each attempt. For ended and absent ones, read the records as well."""
    found = dict[Ref, Observation]()
    for group in in_groups(refs, SEEN_AT_ONCE):
        found |= observe_group(ssh, group)
    return found


def in_groups(refs: Sequence[Ref], size: int) -> Iterator[Sequence[Ref]]:
    for at in range(0, len(refs), size):
        yield refs[at : at + size]


def observe_group(ssh: Ssh, refs: Sequence[Ref]) -> dict[Ref, Observation]:
    seen = ask_slurm(ssh, [ref.native_id for ref in refs])
    found = {
        ref: parse.build_observation(ref.native_id, job_name(ref.attempt), seen) for ref in refs
    }
    ended = [ref for ref, each in found.items() if each.phase.over]
    if not ended:
        return found
    remains = fetch_remains(ssh, ended, [ref for ref in ended if found[ref].phase.ended])
    for ref in ended:
        again = parse.build_observation(
            ref.native_id, job_name(ref.attempt), seen, remains[ref].resumes
        )
        found[ref] = with_record(again, remains[ref].record)
    return found


def ask_slurm(ssh: Ssh, ids: Sequence[str]) -> parse.Answers:
    """Ask squeue, then sacct. squeue comes first because it learns of a requeue earlier."""
    asked = sorted(set(filter(None, ids)), key=lambda id: (len(id), id)) or ["0"]
    answer = ssh.run(
        join_parts(
            plain_start(), slurm_queries(asked), load_script("capture"), load_script("look")
        ),
        seconds=90,
    )
    return parse.read_answers(read_sections(answer.out))


def slurm_queries(ids: Sequence[str]) -> str:
    """The shell functions that ask SLURM for a row of each job."""
    return join_parts(
        define_function("ask_squeue", parse.squeue_command(ids)),
        define_function("ask_sacct", parse.sacct_command(ids)),
    )


@dataclass(frozen=True)
class Section:
    """One answer of a script: its name, exit code, output and error text."""

    name: str
    code: int
    out: bytes
    words: bytes = b""


def framed_sections(data: bytes) -> Iterator[Section]:
    """Yield the sections that capture.sh and remains.sh have printed.

    Each section's head gives its length, so no text in a section is taken for the next head.
    """
    at = 0
    while (head := SECTION.search(data, at)) is not None:
        begin = head.end()
        middle = begin + int(head[3])
        at = middle + int(head[4])
        yield Section(
            head[1].decode("ascii", "replace"), int(head[2]), data[begin:middle], data[middle:at]
        )


def read_sections(data: bytes) -> dict[str, tuple[int, str, str]]:
    """Name -> (exit code, output, error text). squeue and sacct are always there."""
    found = {
        each.name: (
            each.code,
            each.out.decode("utf-8", "replace"),
            each.words.decode("utf-8", "replace").strip(),
        )
        for each in framed_sections(data)
    }
    for name in ("squeue", "sacct"):
        found.setdefault(name, (1, "", "no answer"))
    return found


def fetch_remains(ssh: Ssh, refs: Sequence[Ref], over: Collection[Ref] = ()) -> dict[Ref, Remains]:
    """Read the remains of attempts, in one exec per REMAINS_AT_ONCE attempts.

    Also removes the secrets of the attempts in `over`.
    """
    found = dict[Ref, Remains]()
    for group in in_groups(refs, REMAINS_AT_ONCE):
        found |= fetch_group_remains(ssh, group, over)
    return found


def fetch_group_remains(ssh: Ssh, refs: Sequence[Ref], over: Collection[Ref]) -> dict[Ref, Remains]:
    calls = [f"{read_command(ref)} {'over' if ref in over else ''}" for ref in refs]
    answer = ssh.run(join_parts(plain_start(), load_script("remains"), *calls), seconds=120)
    remains = group_remains(answer.out)
    if answer.rc or len(remains) != len(refs):
        raise Unreachable(
            f"The end of the jobs could not be read: {answer.words or answer.rc}", "", "Try again."
        )
    return {
        ref: read_remains(parts, ref.attempt.number)
        for ref, parts in zip(refs, remains, strict=True)
    }


# The sections that scripts/remains.sh prints for an attempt, in this order.
PARTS = ("exit", "status", "manifest", "marks")


def read_command(ref: Ref) -> str:
    at = Paths(ref.namespace, ref.attempt.job_id, ref.attempt.number)
    return f"print_remains {shlex.quote(at.attempt)} {shlex.quote(results_dir(ref))}"


def results_dir(ref: Ref) -> str:
    return str(ref.details.get("results_dir") or f"{ref.namespace}/results/{ref.attempt.job_id}")


def group_remains(data: bytes) -> list[dict[str, str]]:
    """The output of remains.sh for each attempt: its parts by name."""
    parts = [part for part in framed_sections(data) if part.name in PARTS]
    starts = range(0, len(parts), len(PARTS))
    return [
        {part.name: part.out.decode("utf-8", "replace") for part in parts[at : at + len(PARTS)]}
        for at in starts
    ]


def read_remains(parts: Mapping[str, str], number: int) -> Remains:
    marks = parts["marks"].split()
    record = read_record(
        parts["exit"], parts["status"], parts["manifest"], number, "begun" in marks
    )
    return Remains(replace(record, killed="killed" in marks), "resumes" in marks)


def remains_of_one(data: bytes, ref: Ref) -> Remains:
    """The remains of one attempt from a script's output; empty if it printed none."""
    remains = group_remains(data)
    if not remains:
        return Remains(Record())
    return read_remains(remains[0], ref.attempt.number)


# Canceling


def cancel_attempt(ssh: Ssh, ref: Ref, grace: timedelta, seconds: float) -> Observation:
    """End an attempt's job and observe it afterwards, in one exec. Raises Refused, Unreachable.

    SLURM has `seconds` beyond the grace to clean up.
    """
    home = JobHome(ref.namespace)
    end = handover.cancel_script(home, ref.attempt, ref.native_id, grace, seconds)
    ask_sacct = define_function("ask_sacct", parse.sacct_command(['"$id"']))
    shared = (load_script("capture"), load_script("remains"))
    show = join_parts(
        assign_variables({"results": results_dir(ref)}), ask_sacct, *shared, load_script("canceled")
    )
    answer = ssh.run(join_parts(end, show), seconds=grace.total_seconds() + seconds + 120)
    first, _, shown = answer.out.partition(b"\n")
    head = first.decode("ascii", "replace")
    if not head.startswith("SEEN "):
        raise not_canceled(handover.read_reply(answer.text))
    asked = parse.read_answers(read_sections(shown))
    seen = parse.build_observation(head.removeprefix("SEEN "), job_name(ref.attempt), asked)
    if seen.phase.ended and not asked.queue:
        # the accounting says that it has ended, so remove its secrets too
        fetch_remains(ssh, [ref], over=[ref])
    return with_record(seen, remains_of_one(shown, ref).record)


def cancel_attempts(
    ssh: Ssh, refs: Sequence[Ref], grace: timedelta, seconds: float
) -> dict[Ref, Observation]:
    """End the jobs of several attempts together, and observe each. Their SLURM ids are known.

    SLURM has `seconds` beyond the grace to clean up. If SLURM refused, jobs that have not ended get
    no answer, and the caller cancels each separately. Raises Unreachable.
    """
    jobs = [(ref.native_id, paths_of(ref), ref.attempt) for ref in refs]
    script = handover.cancel_many_script(jobs, grace, seconds)
    answer = ssh.run(script, seconds=grace.total_seconds() + seconds + 120)
    observations = observe_attempts(ssh, refs)
    if "ASKED" in answer.text.splitlines():
        return observations
    return {ref: seen for ref, seen in observations.items() if seen.phase.over}


def paths_of(ref: Ref) -> Paths:
    return Paths(ref.namespace, ref.attempt.job_id, ref.attempt.number)


def not_canceled(reply: handover.Reply) -> TaoError:
    if reply.word == "DENIED":
        return Refused(
            reply.text,
            "SLURM does not let you cancel it.",
            "Cancel it as the user who submitted it.",
        )
    return no_answer(reply.text)


def no_answer(words: str) -> Unreachable:
    return Unreachable(f"SLURM did not answer: {words}", "", "Try again.")


# Evidence


def collect_evidence(ssh: Ssh, ref: Ref) -> Evidence:
    """Collect SLURM's and the nodes' words about one attempt, and log tails of ranks 1 and up.

    Takes one exec. The engine adds the log tail of rank 0.
    """
    at = Paths(ref.namespace, ref.attempt.job_id, ref.attempt.number)
    folders = assign_variables(
        {"attempt": at.attempt, "logs": at.logs, "results": results_dir(ref)}
    )
    asked = slurm_queries([ref.native_id or "0"])
    shared = (load_script("capture"), load_script("remains"))
    answer = ssh.run(
        join_parts(plain_start(), folders, asked, *shared, load_script("evidence")), seconds=120
    )
    return build_evidence(ref, read_sections(answer.out), remains_of_one(answer.out, ref))


def build_evidence(
    ref: Ref, answers: Mapping[str, tuple[int, str, str]], remains: Remains
) -> Evidence:
    """Build the evidence from the commands' output and the attempt's remains. Pure.

    Raises Unreachable if SLURM did not answer.
    """
    asked = parse.read_answers(answers)
    seen = with_record(
        parse.build_observation(ref.native_id, job_name(ref.attempt), asked, remains.resumes),
        remains.record,
    )
    if seen.phase is Phase.UNREACHABLE:
        raise no_answer(seen.reason)
    said = [NodeEvent(rules.SLURM, line) for line in worth_telling(answers["words"][1])]
    waits: list[NodeEvent] = []
    if seen.phase is Phase.PENDING:
        queued, idle = answers["queue"][1], answers["idle"][1]
        waits = list(waiting_events(seen.backend_words, ref.native_id, queued, idle))
    image: list[NodeEvent] = []
    names: dict[str, str] = {}
    if seen.backend_words == parse.NEVER:
        image = [NodeEvent(rules.IMAGE, line) for line in worth_telling(answers["image"][1])]
        names[rules.CONVERSION_LOG] = paths_of(ref).conversion_log
    nodes = [NodeEvent("Node", words) for words in failed_nodes(ref, asked)]
    resumes: list[NodeEvent] = []
    if remains.resumes:
        resumes.append(NodeEvent(rules.RESUMES, "it goes on in a new SLURM job"))
    evidence = Evidence.of_observation(
        seen,
        events=(*waits, *nodes, *image, *said, *resumes),
        log_tail=without_runner_lines(answers["ranks"][1]),
    )
    return replace(evidence, names=names)


def without_runner_lines(log: str) -> str:
    lines = [line for line in log.splitlines() if not line.startswith(PREFIX.decode())]
    return "\n".join(lines)


def worth_telling(words: str) -> list[str]:
    """The last lines of a text by SLURM, the container runtime or the node."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return [line[:1000] for line in lines[-40:]]


def failed_nodes(ref: Ref, seen: parse.Answers) -> Iterable[str]:
    """Texts with the nodes of a job and of its steps that failed, and how each ended."""
    accounted = (seen.accounting or {}).get(ref.native_id)
    if accounted is None:
        return
    for row in (accounted.job, *accounted.steps):
        if row.has_begun and row.state_word not in UNFAILED:
            yield f"{row.id} on {row.nodes}: {row.state}, exit code {row.exit or 'unknown'}"
