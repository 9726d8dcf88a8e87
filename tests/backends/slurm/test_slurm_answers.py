"""What a real cluster answers of jobs in every state, and what we make of it: all of them at once,
as SLURM takes its time.

Most of the jobs are sbatch's own, without our script around them: SLURM's words are the matter
here, not what our jobs leave. What the same words mean in every detail is test_slurm_parse.py's.
Beside them run jobs of ours which meet the same failures, and which SLURM or a watcher starts
again.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from support.cluster import cluster_here
from support.cluster.cluster_here import SHARED, Cluster, until
from tao_sdk.backends.slurm import look, parse, rules
from tao_sdk.backends.slurm.cluster import site
from tao_sdk.client import Client
from tao_sdk.model.diagnosis import Evidence
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.transports.ssh import Ssh

PATIENCE = 300.0  # SLURM looks at time limits every 30 s
Wanted = tuple[Phase, int | None, str]  # phase, exit code, words in the reason


@dataclass(frozen=True)
class Case:
    """A job as sbatch takes it, what is done to it once it is in a phase, and what is then seen of
    it, in this order.
    """

    wants: tuple[Wanted, ...]
    command: str = "sleep 300"
    options: str = ""
    node: int = 0
    act: Callable[[Cluster, str], object] | None = None
    once: Phase = Phase.RUNNING
    rule: str = ""  # what explains the last of what is wanted
    is_fleeting: bool = False  # only the last is certain: a look may come too late for the others


def scontrol(*words: str) -> Callable[[Cluster, str], object]:
    return lambda cluster, id: cluster.ask("scontrol", *words, id)


def scancel(cluster: Cluster, id: str) -> None:
    cluster.ask("scancel", id)


def fail_its_node(cluster: Cluster, id: str) -> None:
    cluster.fail_node(cluster.place.nodes[3])


def take_its_node(cluster: Cluster, id: str) -> None:
    cluster.login(
        f"sbatch -p grizzly -w {cluster.place.nodes[1]} --exclusive -t 1 "
        "-o /dev/null --wrap 'sleep 2'"
    )


PENDING, FAILED, CANCELED = Phase.PENDING, Phase.FAILED, Phase.CANCELED
DONE = (Phase.SUCCEEDED, 0, "")
ONCE = "[ $SLURM_RESTART_COUNT ] || sleep 300"  # ends when it is started again
EATS = "python3 -c 'bytearray(900000000)'"
LIMITED = "-p scav --mem=64M"
CASES = {
    "finished": Case((DONE,), "true"),
    "exit_3": Case(((FAILED, 3, "exit code 3"),), "exit 3"),
    "killed_by_a_signal": Case(((FAILED, 137, "killed (signal 9)"),), "kill -9 $$",
         rule="slurm.script_killed"),
    "ended_with_the_code_of_one_that_was_killed": Case(((FAILED, 9, "exit code 9"),), "exit 137"),
    "a_step_failed_and_the_script_went_on": Case((DONE,), "srun --mem=32M false; true"),
    "oom_in_the_batch_step": Case(((FAILED, 137, "out of memory"),), EATS, rule="slurm.oom"),
    "oom_in_a_step": Case(((FAILED, 137, "out of memory"),), f"srun --mem=64M {EATS}",
         rule="slurm.oom"),
    "canceled_while_pending": Case(
        ((PENDING, None, "JobHeldUser"), (CANCELED, None, "canceled")), options="--hold", act=scancel,
        once=PENDING,
    ),
    "canceled_while_running": Case(((CANCELED, None, "canceled"),), act=scancel),
    "time_limit": Case(((FAILED, None, "time limit reached"),), act=Cluster.end_soon,
         rule="slurm.time_limit"),
    "deadline": Case(((FAILED, None, "deadline"),), options="--deadline=now+2 -t 1"),
    "node_failed": Case(
        ((FAILED, None, "node failed"),), options="--no-requeue", node=3, act=fail_its_node,
        rule="slurm.node_failed"
    ),
    "node_failed_and_requeued": Case(((PENDING, None, "BeginTime"), DONE), ONCE, "--requeue", 3,
         fail_its_node, is_fleeting=True),
    "requeued_by_hand": Case(((PENDING, None, "BeginTime"), DONE), ONCE, "--requeue",
         act=scontrol("requeue"), is_fleeting=True),
    "requeued_and_held": Case(
        ((PENDING, None, "job requeued in held state"),), options="--requeue",
        act=scontrol("requeuehold"), rule="slurm.waiting"
    ),
    "preempted_and_requeued": Case(((PENDING, None, "BeginTime"), DONE), ONCE,
         "--requeue -p scav -c 2", 1, take_its_node, is_fleeting=True),
    "preempted_and_canceled": Case(
        ((CANCELED, None, "preempted"),), options="-p scavc -c 2", node=1, act=take_its_node,
        rule="slurm.preempted"
    ),
    "held_by_the_user": Case(((PENDING, None, "JobHeldUser"),), options="--hold",
         rule="slurm.waiting"),
    "held_by_an_administrator": Case(
        ((PENDING, None, "JobHeldAdmin"),), options="--begin=now+600", act=scontrol("hold"),
        once=PENDING, rule="slurm.waiting"
    ),
    "waits_for_what_has_failed": Case(
        ((PENDING, None, "DependencyNeverSatisfied"),), options="-d afterok:$exit_3",
        rule="slurm.never_starts"
    ),
    "too_long_for_its_partition": Case(
        ((PENDING, None, "PartitionTimeLimit"),), options="-p tiny -t 120",
        rule="slurm.never_starts"
    ),
    "suspended": Case(((Phase.PAUSED, None, ""),), act=scontrol("suspend"), rule="slurm.waiting"),
    "no_folder_for_its_output": Case(
        ((FAILED, 181, "could not launch"),), "true", "-o /nope/out", rule="slurm.no_such_folder"
    ),
}  # fmt: skip


# Saves an epoch, and one more when it is told to end; started again it shows what it was given to
# go on from.
TRAINS = """cat {config_path}; [ $TAO_ATTEMPT = 1 ] || exit 0
cd $TAO_RESULTS_DIR/results_dir; echo one > model_epoch_001.pth; touch -d '1 hour ago' model_epoch_001.pth
trap 'echo told to end; exit 1' TERM; sleep 300 & wait"""
TRAINING: dict[str, Any] = {
    "config_format": "json", "specs": {"train": {"resume_training_checkpoint_path": ""},
         "results_dir": ""},
    "outputs": {"results_dir": {"type": "folder"}}, "env_vars": {"TAO_SYNC_SECONDS": "0.3"},
}  # fmt: skip
AGAIN = "echo attempt $TAO_ATTEMPT; [ $TAO_ATTEMPT = 2 ] || "
SAVES = "{ trap 'echo saved; exit 0' TERM; sleep 300 & wait; }"
BREAKS = "{ [ $NODE_RANK = 0 ] || { echo cuInit failed; exit 1; }; sleep 300; }"


@dataclass(frozen=True)
class Own:
    """A job of ours, and the nodes on which it runs."""

    command: str
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    nodes: tuple[int, ...] = (0,)
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])


RESUMES: Mapping[str, object] = {"resume_on_timeout": True}
SCAVENGES: Mapping[str, object] = {"partition": "scavc"}
OWN = {
    "resumes": Own(TRAINS, RESUMES, spec=TRAINING),
    "limits_itself": Own(AGAIN + SAVES, RESUMES, spec={"time_limit": timedelta(seconds=4)}),
    "loses_its_node": Own(AGAIN + "sleep 300", {"requeue": False}, (3,)),
    "is_requeued": Own("echo run; [ $SLURM_RESTART_COUNT ] || sleep 300", {}, (3,)),
    "is_preempted": Own("sleep 300", SCAVENGES, (1,)),
    "is_preempted_and_resumes": Own(AGAIN + "sleep 300", {**SCAVENGES, **RESUMES}, (1,)),
    "loses_a_gpu": Own("echo rank $NODE_RANK of attempt $TAO_ATTEMPT; [ $TAO_ATTEMPT = 2 ] || " + BREAKS, {}, (0, 1)),
    "has_its_script_killed": Own(AGAIN + "sleep 300", {}, (1,)),
    "cannot_begin": Own("echo attempt $TAO_ATTEMPT", {"requeue": False}, (0, 2)),
    "runs_out_of_gpu_memory": Own("echo 'RuntimeError: CUDA error: out of memory' >&2; exit 1"),
    "fails_without_a_word": Own("exit 1"),
}  # fmt: skip
LATE = ("cannot_begin",)  # handed over when the others run


@dataclass
class Told:
    """What was seen of every case, one observation after the other, and how the
    jobs of ours ended.
    """

    cluster: Cluster
    client: Client
    stories: dict[str, list[Observation]] = field(default_factory=lambda: defaultdict(list))
    purged: str = ""  # squeue's words of a job that it has forgotten
    own: dict[str, Job] = field(default_factory=dict[str, Job])

    def log(self, name: str, rank: int = 0, tail: int | None = None) -> str:
        return b"".join(
            self.client.follow_logs(self.own[name].id, rank=rank, follow=False, tail=tail)
        ).decode()

    def slurm_ids(self, name: str) -> list[str]:
        return [
            row.ref.native_id for row in self.client.store.attempts(self.own[name].id) if row.ref
        ]

    def hand_over(self, name: str) -> None:
        own = OWN[name]
        nodes = ",".join(self.cluster.place.nodes[number] for number in own.nodes)
        spec = JobSpec(
            command=own.command,
            name=name,
            gpu_count=0,
            cpus=1,
            num_nodes=len(own.nodes),
            **own.spec,
        )
        options = {"partition": "grizzly", "nodelist": nodes, **own.options}
        self.own[name] = self.client.submit(spec, "slurm", options).job

    def has_begun(self, name: str) -> bool:
        return self.client.get_job(self.own[name].id).status is not Status.PENDING


def lose_a_daemon(told: Told) -> Iterator[None]:
    """Nobody has noticed when the job is given out; it comes back for the attempt after."""
    told.cluster.kill_node(told.cluster.place.nodes[2])
    told.hand_over("cannot_begin")
    while told.client.get_job(told.own["cannot_begin"].id).attempt == 1:
        yield
    told.cluster.start_node(told.cluster.place.nodes[2])


def is_done(steps: Iterator[None]) -> bool:
    return next(steps, steps) is steps


def kill_a_script(told: Told) -> Iterator[None]:
    """As a node does that was taken for lost and comes back, to what it runs of the same job by
    then.
    """
    script = f"job{int(told.slurm_ids('has_its_script_killed')[0]):05}/slurm_script"
    while subprocess.run(["pkill", "-KILL", "-f", script], check=False).returncode != 0:
        yield


def time_is_up(told: Told) -> Iterator[None]:
    """SLURM ends it at its time limit, once its first checkpoint is kept account of."""
    made = told.own["resumes"]
    manifest = told.cluster.path(made.results_dir) / ".tao" / "manifest.json"
    while not manifest.exists() or "model_epoch_001" not in manifest.read_text():
        yield
    told.cluster.end_soon(told.slurm_ids("resumes")[0])


def submitted(cluster: Cluster) -> dict[str, str]:
    """The SLURM id of every case, all of them handed over at once."""
    lines = [f"cd {SHARED}"]
    for name, case in CASES.items():
        words = (
            f"-J {name} -o /dev/null -p grizzly -w "
            f"{cluster.place.nodes[case.node]} --mem=64M {case.options}"
        )
        lines += [
            f"{name}=$(sbatch --parsable {words} --wrap {shlex.quote(case.command)})",
            f'echo "{name} ${name}"',
        ]
    done = cluster.login("\n".join(lines))
    ids = dict(line.split() for line in done.stdout.splitlines())
    assert set(ids) == set(CASES), done.stderr
    return ids


def follow(told: Told, ssh: Ssh) -> None:
    """Look, and do to each what is to be done to it, until everything that is wanted was seen, or
    for long enough.
    """
    cluster, ids, end = told.cluster, submitted(told.cluster), time.monotonic() + PATIENCE
    acted = {name for name, case in CASES.items() if not case.act}
    doing = [time_is_up(told), lose_a_daemon(told), kill_a_script(told)]
    while time.monotonic() < end and not (
        not doing and told.purged and all(map(seen_all, told.stories.items()))
    ):
        look_at(ssh, ids, told.stories)
        for name in sorted(set(CASES) - acted):
            if told.stories[name][-1].phase is CASES[name].once:
                acted.add(name)
                act = CASES[name].act
                assert act is not None
                act(cluster, ids[name])
        doing = [each for each in doing if not is_done(each)]
        words = cluster.ask("squeue", "-h", "-j", ids["finished"]).stderr
        told.purged = words if "Invalid job id" in words else told.purged
        time.sleep(0.3)
    look_at(ssh, ids, told.stories)


def look_at(ssh: Ssh, ids: Mapping[str, str], stories: Mapping[str, list[Observation]]) -> None:
    seen = look.ask_slurm(ssh, list(ids.values()))
    for name, id in ids.items():
        now = parse.build_observation(id, name, seen)
        if not stories[name] or essence(stories[name][-1]) != essence(now):
            stories[name].append(now)


def essence(seen: Observation) -> Wanted:
    return seen.phase, seen.exit_code, seen.reason


def seen_all(story: tuple[str, list[Observation]]) -> bool:
    """True if all that a case wants was seen, in order, perhaps with something between."""
    name, seen = story
    case = CASES[name]
    wants = case.wants[-1:] if case.is_fleeting else case.wants
    return seen_in_order(seen, wants)


def seen_in_order(seen: list[Observation], wants: Sequence[Wanted]) -> bool:
    rest = iter(seen)
    return all(any(is_like(each, wanted) for each in rest) for wanted in wants)


def is_like(seen: Observation, wanted: Wanted) -> bool:
    phase, code, words = wanted
    return (seen.phase, seen.exit_code) == (phase, code) and (
        words in seen.reason if words else not seen.reason
    )


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    """At a site where SLURM starts again only who asks for it."""
    cluster = cluster_here.cluster()
    with tempfile.TemporaryDirectory() as folder, cluster.as_site(requeue=False):
        settings = Settings(
            {**cluster.surroundings(), "HOME": folder, "TAO_SDK_STATE_DIR": f"{folder}/state"}
        )
        with Client(settings=settings, watch=True, poll_interval=0.5) as client:
            told = Told(cluster, client)
            for name in OWN:
                if name not in LATE:
                    told.hand_over(name)
            until(lambda: all(map(told.has_begun, told.own)))
            follow(told, Ssh(site.read_login(settings)))
            ended = client.wait_all([job.id for job in told.own.values()], timeout=PATIENCE)
            told.own = dict(zip(told.own, ended, strict=True))
            yield told
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
        evidence = Evidence(
            last.phase.value,
            last.raw,
            last.exit_code,
            last.reason,
            reason_code=last.reason_code,
            backend_words=last.backend_words,
        )
        found = rules.diagnose_job(evidence)
        assert found is not None
        assert found.rule == rule
        assert last.raw not in (found.cause, found.suggestion)


def test_a_job_that_is_started_again_waits_before_it(told: Told) -> None:
    """It waits for seconds: on a busy machine some of them are missed, not all."""
    started_again = {name: case for name, case in CASES.items() if case.is_fleeting}
    assert any(
        seen_in_order(told.stories[name], case.wants) for name, case in started_again.items()
    )


def test_the_end_of_a_job_that_squeue_has_forgotten_is_known(told: Told) -> None:
    assert "Invalid job id" in told.purged
    assert [each.phase for each in told.stories["finished"]][-1] is Phase.SUCCEEDED


# Jobs of ours, which are started again


def how(told: Told, name: str) -> tuple[Status, int]:
    return told.own[name].status, told.own[name].attempt


def test_a_job_that_slurm_ended_at_its_time_limit_goes_on_from_its_checkpoint(told: Told) -> None:
    assert how(told, "resumes") == (Status.COMPLETE, 2), told.own["resumes"].message
    state = told.cluster.ask(
        "sacct", "-XnP", "-D", "-j", told.slurm_ids("resumes")[0], "-o", "State"
    ).stdout
    assert state.strip() == "TIMEOUT"
    first, again = told.log("resumes").split("told to end\n")
    assert '"resume_training_checkpoint_path": ""' in first
    assert f"{told.own['resumes'].results_dir}/results_dir/model_epoch_001.pth" in again


def test_a_job_that_asks_for_it_goes_on_in_a_new_slurm_job_at_its_own_time_limit(
    told: Told,
) -> None:
    assert how(told, "limits_itself") == (Status.COMPLETE, 2), told.own["limits_itself"].message
    assert told.log("limits_itself") == "attempt 1\nsaved\nattempt 2\n"


def test_a_failed_node_is_tried_again_by_a_watcher_as_a_new_slurm_job_and_both_logs_are_kept(
    told: Told,
) -> None:
    assert how(told, "loses_its_node") == (Status.COMPLETE, 2), told.own["loses_its_node"].message
    assert len(set(told.slurm_ids("loses_its_node"))) == 2
    assert told.log("loses_its_node") == "attempt 1\nattempt 2\n"


def test_a_job_that_is_ended_from_outside_is_tried_again(told: Told) -> None:
    made = told.own["has_its_script_killed"]
    assert how(told, "has_its_script_killed") == (Status.COMPLETE, 2), made.message


def test_slurms_own_requeue_is_followed_also_where_the_site_requeues_only_who_asks(
    told: Told,
) -> None:
    assert how(told, "is_requeued") == (Status.COMPLETE, 1), told.own["is_requeued"].message
    statuses = [
        event.status
        for event in told.client.events(told.own["is_requeued"].id)
        if event.kind == "status"
    ]
    assert Status.PENDING in statuses[statuses.index(Status.RUNNING) :], (
        "it waited again after it had run"
    )
    assert told.log("is_requeued") == "run\nrun\n"


def test_a_preempted_job_is_canceled_unless_it_asks_to_go_on(told: Told) -> None:
    assert how(told, "is_preempted") == (Status.CANCELED, 1)
    assert how(told, "is_preempted_and_resumes") == (Status.COMPLETE, 2)


def test_a_node_whose_daemon_dies_before_it_could_begin_is_tried_again(told: Told) -> None:
    assert how(told, "cannot_begin") == (Status.COMPLETE, 2), told.own["cannot_begin"].message
    assert told.log("cannot_begin").endswith("attempt 2\n")


@pytest.mark.parametrize("name", ["runs_out_of_gpu_memory", "fails_without_a_word"])
def test_what_a_program_does_wrong_and_an_end_without_a_word_are_one_slurm_job_each(
    name: str, told: Told
) -> None:
    assert how(told, name) == (Status.ERROR, 1)
    names = told.cluster.ask(
        "sacct", "-XnP", "-a", "-S", "now-1days", "-o", "JobName"
    ).stdout.split()
    assert sum(each.startswith(told.own[name].id) for each in names) == 1


def test_a_gpu_that_fails_another_rank_is_tried_again_and_every_ranks_log_is_kept_when_the_cluster_forgets_it(
    told: Told,
) -> None:
    assert how(told, "loses_a_gpu") == (Status.COMPLETE, 2), told.own["loses_a_gpu"].message
    before = [told.log("loses_a_gpu", rank) for rank in (0, 1)]
    assert "rank 1 of attempt 1\n" in before[1] and "rank 1 of attempt 2\n" in before[1]
    assert "rank 0" not in before[1]
    told.client.gc(older_than=timedelta(0))
    assert not told.cluster.path(str(told.own["loses_a_gpu"].backend_details["job_dir"])).exists()
    assert [told.log("loses_a_gpu", rank) for rank in (0, 1)] == before
    assert told.log("loses_a_gpu", 1, tail=1) == "rank 1 of attempt 2\n"
