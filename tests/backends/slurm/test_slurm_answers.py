"""What a real cluster answers of jobs in every state, and what we make of it: all of them at once, as SLURM takes its time.

The jobs are sbatch's own, without our script around them: SLURM's words are the matter here, not what our jobs leave.
What the same words mean in every detail is test_slurm_parse.py's.
"""

from __future__ import annotations

import shlex
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import cluster_here
import pytest
from cluster_here import SHARED, Cluster

from tao_sdk.backends.slurm import look, parse, rules, site
from tao_sdk.client import Client
from tao_sdk.model.diagnosis import Evidence
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.transports.ssh import Ssh

PATIENCE = 90.0  # SLURM looks at time limits every 30 s
Wanted = tuple[Phase, int | None, str]  # phase, exit code, words in the reason


@dataclass(frozen=True)
class Case:
    """A job as sbatch takes it, what is done to it once it is in a phase, and what is then seen of it, in this order."""

    wants: tuple[Wanted, ...]
    command: str = "sleep 300"
    options: str = ""
    node: int = 0
    act: Callable[[Cluster, str], object] | None = None
    once: Phase = Phase.RUNNING
    rule: str = ""  # what explains the last of what is wanted


def scontrol(*words: str) -> Callable[[Cluster, str], object]:
    return lambda cluster, id: cluster.ask("scontrol", *words, id)


def scancel(cluster: Cluster, id: str) -> None:
    cluster.ask("scancel", id)


def fail_its_node(cluster: Cluster, id: str) -> None:
    cluster.fail_node(cluster.place.nodes[3])


def take_its_node(cluster: Cluster, id: str) -> None:
    cluster.login(f"sbatch -p grizzly -w {cluster.place.nodes[1]} --exclusive -t 1 -o /dev/null --wrap 'sleep 2'")


PENDING, FAILED, CANCELED = Phase.PENDING, Phase.FAILED, Phase.CANCELED
DONE = (Phase.SUCCEEDED, 0, "")
ONCE = "[ $SLURM_RESTART_COUNT ] || sleep 300"  # ends when it is started again
EATS = "python3 -c 'bytearray(900000000)'"
LIMITED = "-p scav --mem=64M"
CASES = {
    "finished": Case((DONE,), "true"),
    "exit_3": Case(((FAILED, 3, "exit code 3"),), "exit 3"),
    "killed_by_a_signal": Case(((FAILED, 137, "exit code 137"),), "kill -9 $$"),
    "a_step_failed_and_the_script_went_on": Case((DONE,), "srun --mem=32M false; true"),
    "oom_in_the_batch_step": Case(((FAILED, 137, "out of memory"),), EATS, rule="slurm.oom"),
    "oom_in_a_step": Case(((FAILED, 137, "out of memory"),), f"srun --mem=64M {EATS}", rule="slurm.oom"),
    "canceled_while_pending": Case(
        ((PENDING, None, "JobHeldUser"), (CANCELED, None, "")), options="--hold", act=scancel, once=PENDING,
    ),
    "canceled_while_running": Case(((CANCELED, None, ""),), act=scancel),
    "time_limit": Case(((FAILED, None, "time limit reached"),), act=Cluster.end_soon, rule="slurm.time_limit"),
    "deadline": Case(((FAILED, None, "deadline"),), options="--deadline=now+2 -t 1"),
    "node_failed": Case(
        ((FAILED, None, "node failed"),), options="--no-requeue", node=3, act=fail_its_node, rule="slurm.node_failed"
    ),
    "node_failed_and_requeued": Case(((PENDING, None, "BeginTime"), DONE), ONCE, node=3, act=fail_its_node),
    "requeued_by_hand": Case(((PENDING, None, "BeginTime"), DONE), ONCE, act=scontrol("requeue")),
    "requeued_and_held": Case(
        ((PENDING, None, "job requeued in held state"),), act=scontrol("requeuehold"), rule="slurm.waiting"
    ),
    "preempted_and_requeued": Case(((PENDING, None, "BeginTime"), DONE), ONCE, "-p scav -c 2", 1, take_its_node),
    "preempted_and_canceled": Case(
        ((CANCELED, None, "preempted"),), options="-p scavc -c 2", node=1, act=take_its_node, rule="slurm.preempted"
    ),
    "held_by_the_user": Case(((PENDING, None, "JobHeldUser"),), options="--hold", rule="slurm.waiting"),
    "held_by_an_administrator": Case(
        ((PENDING, None, "JobHeldAdmin"),), options="--begin=now+600", act=scontrol("hold"), once=PENDING, rule="slurm.waiting"
    ),
    "waits_for_what_has_failed": Case(
        ((PENDING, None, "DependencyNeverSatisfied"),), options="-d afterok:$exit_3", rule="slurm.never_starts"
    ),
    "too_long_for_its_partition": Case(
        ((PENDING, None, "PartitionTimeLimit"),), options="-p tiny -t 120", rule="slurm.never_starts"
    ),
    "suspended": Case(((Phase.PAUSED, None, ""),), act=scontrol("suspend"), rule="slurm.waiting"),
    "no_folder_for_its_output": Case(
        ((FAILED, 181, "could not launch"),), "true", "-o /nope/out", rule="slurm.no_such_folder"
    ),
}  # fmt: skip


@dataclass
class Told:
    """What was seen of every case, one observation after the other, and of a job of ours whose time was up."""

    stories: dict[str, list[Observation]] = field(default_factory=lambda: defaultdict(list))
    purged: str = ""  # squeue's words of a job that it has forgotten
    resumed: Job | None = None
    said: str = ""
    first_state: str = ""


# Saves an epoch, and one more when it is told to end; started again it shows what it was given to go on from.
TRAINS = """cat {config_path}; [ $TAO_ATTEMPT = 1 ] || exit 0
cd $TAO_RESULTS_DIR/results_dir; echo one > model_epoch_001.pth; touch -d '1 hour ago' model_epoch_001.pth
trap 'echo told to end; exit 1' TERM; sleep 300 & wait"""
TRAINING = JobSpec(
    command=TRAINS, name="resumes", gpu_count=0, cpus=1, config_format="json",
    specs={"train": {"resume_training_checkpoint_path": ""}, "results_dir": ""}, outputs={"results_dir": {"type": "folder"}},
    env_vars={"TAO_SYNC_SECONDS": "0.3"},
)  # fmt: skip
OPTIONS = {"resume_on_timeout": True, "partition": "polar3", "container_runtime": "none"}


def time_is_up(cluster: Cluster, client: Client, made: Job) -> bool:
    """SLURM ends it at its time limit, once its first checkpoint is kept account of. False while it is not."""
    manifest = cluster.path(made.results_dir) / ".tao" / "manifest.json"
    ref = client.engine.ref_of(made)
    if ref is None or not manifest.exists() or "model_epoch_001" not in manifest.read_text():
        return False
    cluster.end_soon(ref.native_id)
    return True


def submitted(cluster: Cluster) -> dict[str, str]:
    """The SLURM id of every case, all of them handed over at once."""
    lines = [f"cd {SHARED}"]
    for name, case in CASES.items():
        words = f"-J {name} -o /dev/null -p grizzly -w {cluster.place.nodes[case.node]} --mem=64M {case.options}"
        lines += [f"{name}=$(sbatch --parsable {words} --wrap {shlex.quote(case.command)})", f'echo "{name} ${name}"']
    done = cluster.login("\n".join(lines))
    ids = dict(line.split() for line in done.stdout.splitlines())
    assert set(ids) == set(CASES), done.stderr
    return ids


def follow(cluster: Cluster, ssh: Ssh, told: Told, time_is_up: Callable[[], bool]) -> None:
    """Look, and do to each what is to be done to it, until everything that is wanted was seen, or for long enough."""
    ids, acted, end = (
        submitted(cluster),
        {name for name, case in CASES.items() if not case.act},
        time.monotonic() + PATIENCE,
    )
    up = False
    while time.monotonic() < end and not (up and told.purged and all(map(seen_all, told.stories.items()))):
        look_at(ssh, ids, told.stories)
        for name in sorted(set(CASES) - acted):
            if told.stories[name][-1].phase is CASES[name].once:
                acted.add(name)
                act = CASES[name].act
                assert act is not None
                act(cluster, ids[name])
        up = up or time_is_up()
        words = cluster.ask("squeue", "-h", "-j", ids["finished"]).stderr
        told.purged = words if "Invalid job id" in words else ""
        time.sleep(0.2)
    look_at(ssh, ids, told.stories)


def look_at(ssh: Ssh, ids: Mapping[str, str], stories: Mapping[str, list[Observation]]) -> None:
    seen = look.ask(ssh, list(ids.values()))
    for name, id in ids.items():
        now = parse.observation(id, name, seen)
        if not stories[name] or essence(stories[name][-1]) != essence(now):
            stories[name].append(now)


def essence(seen: Observation) -> Wanted:
    return seen.phase, seen.exit_code, seen.reason


def seen_all(story: tuple[str, list[Observation]]) -> bool:
    """Whether what is wanted of a case was seen, in order, perhaps with something between."""
    name, seen = story
    rest = iter(seen)
    return all(any(is_like(each, wanted) for each in rest) for wanted in CASES[name].wants)


def is_like(seen: Observation, wanted: Wanted) -> bool:
    phase, code, words = wanted
    return (seen.phase, seen.exit_code) == (phase, code) and (words in seen.reason if words else not seen.reason)


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    cluster = cluster_here.cluster()
    with tempfile.TemporaryDirectory() as folder:
        own = {"HOME": folder, "TAO_SDK_STATE_DIR": f"{folder}/state", "SLURM_POLL_SECONDS": "1"}
        settings = Settings({**cluster.surroundings(), **own})
        with Client(settings=settings, watch=True, poll_interval=0.5) as client:
            made = client.submit(TRAINING, "slurm", OPTIONS).job
            seen = Told()
            follow(cluster, Ssh(site.login(settings)), seen, lambda: time_is_up(cluster, client, made))
            client.wait(made.id, timeout=PATIENCE)
            seen.resumed = client.get_job(made.id)
            seen.said = client.get_job_logs(made.id)
            first = client.store.attempts(made.id)[0].ref
            assert first is not None
            seen.first_state = cluster.ask("sacct", "-XnP", "-D", "-j", first.native_id, "-o", "State").stdout
    yield seen
    cluster.clear()


@pytest.mark.parametrize("name", CASES)
def test_what_slurm_answers_of_a_real_job_is_understood(name: str, told: Told) -> None:
    story = told.stories[name]
    assert seen_all((name, story)), "\n".join(map(str, story))
    ends = [each.phase.ended for each in story]
    assert ends == sorted(ends), "an end is the last that is seen of a job"
    assert Phase.UNKNOWN not in [each.phase for each in story]
    if rule := CASES[name].rule:
        last = story[-1]
        found = rules.diagnose(Evidence(last.phase.value, last.raw, last.exit_code, last.reason))
        assert found is not None
        assert found.rule == rule
        assert last.raw not in (found.cause, found.suggestion)


def test_the_end_of_a_job_that_squeue_has_forgotten_is_known(told: Told) -> None:
    assert "Invalid job id" in told.purged
    assert [each.phase for each in told.stories["finished"]][-1] is Phase.SUCCEEDED


def test_a_job_that_slurm_ended_at_its_time_limit_goes_on_from_its_checkpoint(told: Told) -> None:
    assert told.resumed is not None
    assert (told.resumed.status, told.resumed.attempt) == (Status.COMPLETE, 2), told.resumed.message
    assert told.first_state.strip() == "TIMEOUT"
    first, again = told.said.split("told to end\n")
    assert '"resume_training_checkpoint_path": ""' in first
    assert f"{told.resumed.results_dir}/results_dir/model_epoch_001.pth" in again
