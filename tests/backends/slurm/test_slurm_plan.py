"""From a job to what is sent to a cluster: nodes and GPUs, partitions and time, paths, and
everything that is refused.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.cluster.facts_here import ATTEMPT, BASE, directives, facts, partition, planned, staged
from tao_sdk.backends.slurm import render, rules
from tao_sdk.backends.slurm.backend import SlurmBackend
from tao_sdk.backends.slurm.cluster import doctor, survey
from tao_sdk.backends.slurm.cluster.site import Site, read_login, read_site
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.job import checks
from tao_sdk.backends.slurm.job.allocation import PartitionLimit
from tao_sdk.backends.slurm.request import SlurmRequest
from tao_sdk.backends.slurm.scripts import handover, shell
from tao_sdk.client.platform_sdk import with_details
from tao_sdk.engine.diagnose import with_job
from tao_sdk.engine.prepare import Planned
from tao_sdk.model.diagnosis import Evidence
from tao_sdk.model.errors import CredentialError, SpecError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Plan
from tao_sdk.model.reasons import Reason
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.payload.prepared_job import prepare_job
from tao_sdk.platforms.slurm import SlurmSDK

GOLDEN = Path(__file__).parent / "golden"
IMAGE = "nvcr.io/nvidia/tao:7.0"


def job(**more: Any) -> JobSpec:
    return JobSpec(command="python train.py", **more)


@pytest.mark.parametrize(
    ("name", "spec", "options"),
    [
        (
            "one-node",
            job(image=IMAGE, gpu_count=4, env_vars={"A": "it's $(id)\n"}),
            {"use_sqsh": False},
        ),
        (
            "two-nodes",
            job(image=IMAGE, gpu_count=8, num_nodes=2, memory="64g"),
            {"partition": "long", "use_sqsh": False},
        ),
        (
            "no-image",
            job(gpu_count=0, time_limit=timedelta(minutes=30)),
            {"qos": "normal", "requeue": False},
        ),
    ],
)
def test_the_scripts_are_as_they_were_read_and_approved(
    name: str, spec: JobSpec, options: dict[str, Any]
) -> None:
    plan = planned(spec, **options)
    text = f"{plan.request.script}\n##### task.sh\n{staged(plan, 'task.sh')}"
    assert text == (GOLDEN / f"{name}.txt").read_text()


def test_the_script_that_hands_a_job_over_is_as_it_was_read_and_approved() -> None:
    plan = planned(job(image=IMAGE, gpu_count=4, inputs={"train": "/lustre/it's here"}))
    text = handover.submit_script(
        plan.request.decisions, ATTEMPT, ["attempts/1", "specs"], handover.UNPACK_COMMAND
    )
    assert text == (GOLDEN / "submit.txt").read_text()


@pytest.mark.parametrize("count", range(4))
def test_what_a_login_node_left_that_died_while_it_made_the_folders_is_completed(
    count: int, tmp_path: Path
) -> None:
    attempt = f"{tmp_path}/attempts/1"
    (tmp_path / "jobs").mkdir()
    where = f"base={tmp_path} job={tmp_path} a={attempt} logs={tmp_path}/logs k={attempt}.lock"
    functions = shell.load_script("submit").partition("trap unlock EXIT")[0]
    lock = "\n".join(
        [
            where,
            shell.load_script("attempt"),
            functions,
            "me=us",
            f"take_the_lock() {{ lock {tmp_path}/specs; }}",
        ]
    )
    dies = f"""left={count}
mkdir() {{ shift; for each; do [ $left -gt 0 ] || {{ kill -9 $$; exit; }}; left=$((left - 1)); command mkdir -p "$each"; done; }}
take_the_lock"""
    died = subprocess.run(["sh", "-c", f"{lock}\n{dies}"], check=False).returncode
    assert (died == -9) is (count < 3), "there are three folders"
    if died:
        subprocess.run(["sh", "-c", f"{lock}\ntake_the_lock"], check=True)
    assert all(Path(each).is_dir() for each in (attempt, f"{tmp_path}/logs", f"{tmp_path}/specs"))


def test_a_long_time_limit_is_written_in_digits() -> None:
    """Not every `sleep` knows 1e+06."""
    month = staged(planned(job(time_limit=timedelta(days=30)), partition="endless"), "task.sh")
    assert "tao_seconds=2462400\ntao_part=0\n" in month
    assert "tao_seconds=1\ntao_part=0.5\n" in staged(
        planned(job(), timeout=timedelta(seconds=1.5)), "task.sh"
    )


def limited_to(seconds: int, part: str) -> str:
    """Shell text that limits the time of what follows it; one second later that is killed."""
    return (
        f'{shell.load_script("limit_time")}\nlimit_time "$1" {seconds} {part} 1 >/dev/null 2>&1 &'
    )


# In a pid namespace of its own: the command ends at once, and a stranger that leads a group of its
# own gets the command's pid. The timer's own short programs take pids too: the first tries may get
# the next one.
STRANGER = r"""
import os, subprocess, sys, time
folder, timer = sys.argv[1:]
command = subprocess.Popen(["sh", "-c", f"set -- {folder}\n{timer}\nexec true"])
command.wait()
for attempt in range(100):
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(command.pid - 1))
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    if stranger.pid == command.pid:
        break
    stranger.kill()
    stranger.wait()
assert stranger.pid == command.pid
time.sleep(4)
print("alive" if stranger.poll() is None else "killed")
stranger.kill()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace needs root")
def test_the_timer_of_a_command_that_has_ended_signals_nobody_who_has_its_pid(
    tmp_path: Path,
) -> None:
    timer = limited_to(2, "0")
    isolated = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
        "-c",
        STRANGER,
        str(tmp_path),
        timer,
    ]
    said = subprocess.run(isolated, capture_output=True, text=True, check=True).stdout
    assert said == "alive\n"
    assert not (tmp_path / "timed_out").exists()


def test_the_timer_ends_a_command_that_goes_on_and_then_kills_it(tmp_path: Path) -> None:
    timer = limited_to(1, "0.5")
    script = (
        f'set -- {tmp_path}\n{timer}\nexec sh -c \'trap "echo asked" '
        "TERM; while :; do sleep 0.1; done'"
    )
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, start_new_session=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (-9, "asked")
    assert (tmp_path / "timed_out").exists()


def run_batch(
    plan: Plan[SlurmRequest], folder: Path, functions: str
) -> subprocess.CompletedProcess[str]:
    """Run a plan's batch script below a folder of this machine, with these functions in the place
    of SLURM's programs.
    """
    (folder / "jobs" / ATTEMPT.job_id / "attempts" / "1").mkdir(parents=True)
    script = f"srun() {{ :; }}\n{functions}\n{plan.request.script.replace(BASE, str(folder))}"
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["$(touch ran)", "a b", "'; touch ran; '", ""])
def test_a_node_whose_name_is_no_host_name_is_never_part_of_a_sourced_file(
    name: str, tmp_path: Path
) -> None:
    done = run_batch(
        planned(job(num_nodes=2)), tmp_path, f"scontrol() {{ printf '%s\\n' {shlex.quote(name)}; }}"
    )
    assert done.returncode == 125
    assert "no host name" in done.stderr
    assert not list(tmp_path.rglob("meeting.sh"))
    assert not (tmp_path / "ran").exists()


def test_a_further_attempt_is_planned_as_the_first_was() -> None:
    first = planned(job(image=IMAGE))
    again = render.plan_attempt(
        first.request.decisions, prepare_job(job(image=IMAGE)), replace(ATTEMPT, number=2)
    )
    script = first.request.script
    for numbered in ("attempts/{}", "attempt-{}", "tao_number={}"):
        script = script.replace(numbered.format(1), numbered.format(2))
    assert again.request.script == script


def test_a_plan_survives_the_store(tmp_path: Path) -> None:
    plan = planned(job(image=IMAGE, env_vars={"API_KEY": "value"}))
    kept = Plan.from_json(json.loads(json.dumps(plan.to_json())), ATTEMPT, SlurmRequest.from_json)
    assert kept == plan
    assert plan.secrets == ("API_KEY",)
    assert "value" not in json.dumps(plan.to_json())


# Nodes and GPUs


@pytest.mark.parametrize(
    ("count", "nodes", "shape"),
    [(1, None, (1, 1)), (8, None, (1, 8)), (12, None, (2, 6)), (16, None, (2, 8)), (18, None, (3, 6)), (0, None, (1, 0)),
     (-1, None, (1, 8)), (8, 2, (2, 8)), (12, 3, None), (4, 3, (3, 4)), (32, None, (4, 8)), (0, 2, (2, 0)), (-1, 2, (2, 8))],
)  # fmt: skip
def test_gpus_are_spread_evenly_over_the_fewest_nodes_and_with_num_nodes_they_are_per_node(
    count: int, nodes: int | None, shape: tuple[int, int] | None
) -> None:
    spec = job(gpu_count=count, num_nodes=nodes)
    if shape is None:
        with pytest.raises(SpecError, match="gpu_count is 12, which is per node"):
            planned(spec)
        return
    told = directives(planned(spec))
    assert (int(told["nodes"]), told.get("gres", "gpu:0")) == (shape[0], f"gpu:{shape[1]}")


def test_gpus_that_do_not_divide_are_refused_with_their_neighbours() -> None:
    with pytest.raises(
        SpecError, match="17 GPUs do not spread evenly over 3 nodes of 8"
    ) as refused:
        planned(job(gpu_count=17))
    assert "16 (2 x 8) or 18 (3 x 6)" in refused.value.next


def test_whole_nodes_are_asked_for_when_all_their_gpus_are_and_not_otherwise() -> None:
    assert "exclusive" in directives(planned(job(gpu_count=8)))
    assert "exclusive" not in directives(planned(job(gpu_count=4)))
    assert "exclusive" in directives(planned(job(gpu_count=4), exclusive=True))


@pytest.mark.parametrize(("gpus", "port"), [(8, "29500"), (2, "15017")])
def test_the_meeting_port_is_fixed_on_whole_nodes_and_of_the_job_elsewhere(
    gpus: int, port: str, tmp_path: Path
) -> None:
    run_batch(
        planned(job(gpu_count=gpus, num_nodes=2)),
        tmp_path,
        "SLURM_JOB_ID=17; scontrol() { echo n1; echo n2; }",
    )
    [meeting] = tmp_path.rglob("meeting.sh")
    assert meeting.read_text() == f"export MASTER_ADDR='n1' MASTER_PORT='{port}'\n"


def test_a_job_without_gpus_asks_for_none_and_sees_none() -> None:
    plan = planned(job(gpu_count=0))
    assert "gres" not in directives(plan)
    assert "tao_gpus=0\n" in staged(plan, "task.sh")


def test_cpus_are_16_for_each_gpu_and_never_more_than_a_node_has() -> None:
    assert directives(planned(job(gpu_count=2)))["cpus-per-task"] == "32"
    small = facts(partitions={"polar": partition("polar", cpus=20)})
    assert directives(planned(job(gpu_count=2), small))["cpus-per-task"] == "20"
    assert directives(planned(job(gpu_count=2, cpus=5.5)))["cpus-per-task"] == "6"


# Partitions and time


def test_the_documented_partitions_are_used_where_the_cluster_has_them() -> None:
    assert directives(planned(job()))["partition"] == "polar,polar3,polar4,grizzly"
    other = facts(partitions={"main": partition("main", default=True)})
    plan = planned(job(), other)
    assert "partition" not in directives(plan)
    assert "none of the documented ones" in plan.notes[0]


def test_cluster_default_partition_leaves_the_directive_out() -> None:
    assert "partition" not in directives(planned(job(), partition="cluster default partition"))


def test_one_wrong_name_in_a_list_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SpecError, match="no partition 'polr'") as refused:
        planned(job(), partition="polar,polr")
    assert "grizzly" in refused.value.next


def test_partitions_that_can_never_hold_the_job_are_left_out_of_the_list_and_told() -> None:
    plan = planned(job(gpu_count=8, num_nodes=4))
    assert directives(plan)["partition"] == "polar4,grizzly"
    assert "polar, polar3" in plan.notes[0]


def test_more_nodes_than_a_partition_allows_are_refused_where_slurm_would_wait_for_ever() -> None:
    with pytest.raises(
        PartitionLimit, match=r"3 nodes are more than a job may have in polar \(2\)"
    ):
        planned(job(gpu_count=1, num_nodes=3), partition="polar")
    with pytest.raises(PartitionLimit, match=r"in cpu \(1\)"):
        planned(job(gpu_count=0, num_nodes=2), partition="cpu")


def test_more_gpus_than_a_node_has_are_refused() -> None:
    with pytest.raises(SpecError, match="No node of these partitions has one"):
        planned(job(gpu_count=1), partition="cpu")


def test_a_longer_time_than_the_partition_allows_is_refused_with_one_that_does() -> None:
    with pytest.raises(PartitionLimit, match=r"12h is longer than polar allows \(4h\)") as refused:
        planned(job(time_limit=timedelta(hours=12)), partition="polar")
    assert "--partition long" in refused.value.next
    assert (
        directives(planned(job(time_limit=timedelta(hours=12)), partition="polar,long"))[
            "partition"
        ]
        == "long"
    )


def test_only_the_default_of_4_hours_is_shortened_and_says_so() -> None:
    plan = planned(job(gpu_count=0), partition="tiny")
    assert directives(plan)["time"] == "00:01:00"
    assert "the default is 4h" in plan.notes[0]
    with pytest.raises(PartitionLimit):
        planned(job(gpu_count=0), facts(Site(BASE, time=timedelta(hours=2))), partition="tiny")


def test_a_qos_limits_the_time_as_a_partition_does() -> None:
    assert directives(planned(job(), qos="short"))["time"] == "00:10:00"
    with pytest.raises(PartitionLimit, match="with qos short") as refused:
        planned(job(time_limit=timedelta(hours=1)), qos="short")
    assert "--partition" not in refused.value.next, "no partition allows it"


MINUTES = {"walls": {"mine": timedelta(minutes=20)}}


def test_an_account_limits_the_time_unless_a_qos_says_otherwise() -> None:
    seen = facts(**MINUTES)
    assert directives(planned(job(), seen))["time"] == "00:20:00"
    with pytest.raises(
        PartitionLimit, match=r"1h is longer than polar with account mine allows \(20m\)"
    ) as refused:
        planned(job(time_limit=timedelta(hours=1)), seen, partition="polar")
    assert "--partition" not in refused.value.next, "no partition allows it"
    long = facts(**MINUTES, qos={"normal": None, "long": timedelta(hours=8)})
    assert directives(planned(job(), long, qos="long"))["time"] == "04:00:00"
    by_default = replace(long, default_qos={"mine": "long"})
    assert directives(planned(job(), by_default))["time"] == "04:00:00"


@pytest.mark.parametrize(
    "more",
    [{"accounts": ("mine", "other")},
     {"partitions": {"polar": partition("polar", default=True, own_qos="priority")}}],
)  # fmt: skip
def test_an_accounts_limit_shortens_nothing_where_another_may_count(more: dict[str, Any]) -> None:
    assert (
        directives(planned(job(), facts(**{**MINUTES, **more}), partition="polar"))["time"]
        == "04:00:00"
    )


def test_an_account_has_the_longest_of_its_limits_and_none_where_one_of_them_is_missing() -> None:
    text = "a||normal|00:20:00|\na|polar|normal|01:00:00|\nb||normal|00:10:00|high\nb|polar|normal||\nold||normal\n"
    assert survey.read_wall_limits(text) == {"a": timedelta(hours=1)}
    assert survey.read_default_qos(text) == {"b": "high"}
    assert [
        survey.heeds_limits({"AccountingStorageEnforce": each})
        for each in ("none", "associations,safe")
    ] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("limit", "slurm", "command"),
    [(timedelta(hours=4), "04:00:00", "13680"), (timedelta(seconds=1), "00:01:00", "1"),
     (timedelta(minutes=90), "01:30:00", "5130"),
     (timedelta(seconds=90), "00:02:00", "90")],
)  # fmt: skip
def test_the_command_is_asked_to_end_somewhat_before_slurm_ends_it(
    limit: timedelta, slurm: str, command: str
) -> None:
    plan = planned(job(time_limit=limit))
    assert directives(plan)["time"] == slurm
    assert f"tao_seconds={command}\n" in staged(plan, "task.sh")


def test_days_are_written_as_slurm_has_them() -> None:
    assert (
        directives(planned(job(time_limit=timedelta(days=1, hours=3)), partition="long"))["time"]
        == "1-03:00:00"
    )


def test_a_partition_without_a_limit_takes_any_time() -> None:
    assert (
        directives(planned(job(time_limit=timedelta(days=30)), partition="endless"))["time"]
        == "30-00:00:00"
    )


# Options


def test_every_option_becomes_its_directive() -> None:
    told = directives(
        planned(
            job(memory="64g"), account="other", qos="normal", constraint="a100&nvlink",
            reservation="r1", nodelist="n[1-2],n4",
            exclude="n3", requeue=False, mail_user="me@example.org",
        )
    )  # fmt: skip
    wanted = {"account": "other", "qos": "normal", "constraint": "a100&nvlink", "reservation": "r1",
         "exclude": "n3",
              "nodelist": "n[1-2],n4", "mail-user": "me@example.org", "mem": "65536M", "no-requeue": ""}  # fmt: skip
    assert wanted.items() <= told.items()
    assert "requeue" not in told


def test_native_lays_directives_over_ours_and_cannot_touch_what_a_job_is_found_by() -> None:
    told = directives(
        planned(
            replace(
                job(),
                native={
                    "mail-type": "END",
                    "--exclusive": True,
                    "account": None,
                    "time": "2:00:00",
                },
            )
        )
    )
    assert (told["mail-type"], told["exclusive"], told["time"]) == ("END", "", "2:00:00")
    for name in ("job-name", "comment", "output", "array", "dependency"):
        with pytest.raises(SpecError, match=name):
            planned(replace(job(), native={name: "x"}))


@pytest.mark.parametrize(
    "option",
    [
        "partition",
        "account",
        "qos",
        "constraint",
        "reservation",
        "nodelist",
        "exclude",
        "mail_user",
    ],
)
@pytest.mark.parametrize(
    "value", ["a b", "a\ntouch /tmp/x", "$(id)", "a;id", "a'b", 'a"b', "a`id`", "-x y"]
)
def test_an_option_that_could_hide_a_command_is_refused(option: str, value: str) -> None:
    with pytest.raises(SpecError, match=option):
        planned(job(), **{option: value})


@pytest.mark.parametrize(
    "native",
    [{"mail-type": "a b"}, {"a b": "c"}, {"mail-type": "x\n#SBATCH --uid=0"}, {"x$(id)": "y"}],
)
def test_a_native_directive_that_could_hide_a_command_is_refused(native: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="native"):
        planned(replace(job(), native=native))


@pytest.mark.parametrize("base", ["relative", "/a b", "/a\nb", "/a$(id)", "/a%j", "/a'b", "/a;b"])
def test_a_base_directory_that_slurm_would_not_take_literally_is_refused(base: str) -> None:
    with pytest.raises(SpecError, match="SLURM_BASE_RESULTS_DIR"):
        read_site(Settings({"SLURM_BASE_RESULTS_DIR": base, "HOME": "/nonexistent"}))


def test_the_scripts_are_shell_whatever_the_job_holds(tmp_path: Path) -> None:
    odd = "a b'c\"d$(touch x)`id`\\;&|\n#SBATCH --uid=0"
    spec = job(
        image=IMAGE,
        labels={odd: odd},
        env_vars={"ODD": odd},
        mounts=[{"source": f"/data/{odd}".replace("\n", ""), "target": "/data"}],
    )
    plan = planned(replace(spec, command=odd), use_sqsh=False)
    for name in (".sbatch", "task.sh"):
        done = subprocess.run(
            ["bash", "-n"], input=staged(plan, name), text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
    assert directives(plan) == directives(planned(job(image=IMAGE), use_sqsh=False))
    text = render.environment_file(plan.request.decisions, ATTEMPT, {})
    shown = subprocess.run(
        ["sh", "-c", f'{text} printf %s "$ODD"'], capture_output=True, text=True, cwd=tmp_path
    ).stdout
    assert shown == odd
    assert list(tmp_path.iterdir()) == []


# Data


@pytest.mark.parametrize("uri", ["file:///data/train", "data/train", "./train"])
def test_a_path_of_this_machine_is_refused_with_the_reason(uri: str) -> None:
    with pytest.raises(SpecError, match="path of this machine") as refused:
        planned(job(inputs={"/data": uri}))
    assert "nodes of the cluster cannot read" in refused.value.why
    assert "lustre:///" in refused.value.next


def test_paths_of_the_cluster_are_looked_for_before_the_job_is_handed_over() -> None:
    specs = {"train": {"data": "lustre:///lustre/a/annotations.json",
         "media": "slurm:///lustre/a/videos", "n": 3},
             "model": "/lustre/m.pth", "list": ["lustre:///lustre/b"]}  # fmt: skip
    plan = planned(
        job(
            image=IMAGE,
            specs=specs,
            inputs={"model": {}},
            mounts=["/data/x:/x", "lustre:///data/y:/y:ro"],
        )
    )
    wanted = {each.path: each.what for each in plan.request.decisions.checks}
    assert set(wanted) == {
        "/lustre/a/annotations.json",
        "/lustre/a/videos",
        "/lustre/m.pth",
        "/lustre/b",
        "/data/x",
        "/data/y",
    }
    assert wanted["/lustre/m.pth"] == "The input model"
    assert wanted["/data/y"] == "The mount /y"


def test_a_root_and_the_files_in_it_may_be_named_as_the_document_does() -> None:
    root = planned(job(inputs={"/data/train": "lustre:///lustre/me/model/train"}))
    direct = planned(
        job(specs={"custom": {"train_dataset": {"annotation_path": "lustre:///lustre/train.json"}}})
    )
    assert [each.path for each in root.request.decisions.checks] == ["/lustre/me/model/train"]
    assert [each.path for each in direct.request.decisions.checks] == ["/lustre/train.json"]


def test_of_addresses_in_specs_texts_and_outputs_need_not_be_there_and_of_a_glob_its_folder() -> (
    None
):
    specs = {
        "note": "lustre:///lustre/note",
        "all": "lustre:///lustre/a/*.jpg",
        "out": "lustre:///lustre/out",
        "b": "slurm:///b",
    }
    spec = job(
        image=IMAGE, specs=specs, inputs={"note": {"type": "text"}, "all": {"type": "local_glob"}},
        outputs={"out": {"type": "folder"}},
    )  # fmt: skip
    plan = planned(spec)
    assert [each.path for each in plan.request.decisions.checks] == ["/lustre/a", "/b"]
    assert "/b:/b" in mounted(plan)
    with pytest.raises(SpecError, match="a path has to follow lustre://"):
        planned(job(specs={"data": "lustre://data"}))


@pytest.mark.parametrize(
    "mounts",
    [["./here:/there"], ["~/here:/there"], ["volume:/there"], [{"source": "here", "target": "/x"}]],
)
def test_a_mount_of_this_machine_is_refused(mounts: Any) -> None:
    with pytest.raises(SpecError, match="path of this machine"):
        planned(job(image=IMAGE, mounts=mounts))


@pytest.mark.parametrize(
    "mounts",
    [["/a,b:/c"], [{"source": "/a:b", "target": "/c"}], [{"source": "/a", "target": "/c\nd"}]],
)
def test_a_mount_that_the_list_of_mounts_cannot_hold_is_refused(mounts: Any) -> None:
    with pytest.raises(SpecError):
        planned(job(image=IMAGE, mounts=mounts))


def mounted(plan: Plan[SlurmRequest]) -> str:
    return plan.request.decisions.container.srun


def test_the_jobs_own_mounts_come_beside_the_sites_and_not_instead() -> None:
    assert "/lustre:/lustre" in mounted(planned(job(image=IMAGE)))
    both = mounted(planned(job(image=IMAGE, mounts=["/data:/data:ro"])))
    assert "/data:/data:ro" in both
    assert "/lustre:/lustre" in both


def test_what_the_site_names_is_mounted_and_the_base_and_the_inputs_always_are() -> None:
    seen = facts(Site("/base", mounts="/fast,/slow:/mnt/slow"), base="/base", folders=())
    text = mounted(planned(job(image=IMAGE, inputs={"/in": "lustre:///data/in"}), seen))
    for each in ("/fast:/fast", "/slow:/mnt/slow", "/base:/base", "/data/in:/data/in:ro"):
        assert each in text


def test_a_path_of_the_spec_that_nobody_declares_and_no_mount_holds_is_a_warning() -> None:
    def told(path: str, **more: Any) -> bool:
        return "spec.not_mounted" in findings(
            planned(job(specs={"a": {"b": path}}, **{"image": IMAGE, **more}))
        )

    assert told("/home/me/train.json")
    assert not told("/home/me/train.json", mounts=["/home/me:/home/me"])
    assert not told("/home/me/train.json", image="")
    assert not told("/home/me/train.json", inputs=["a.b"])
    assert not told("/lustre/train.json")
    assert not told("lustre:///home/me/train.json")


def test_an_output_that_would_be_lost_with_the_container_is_a_warning_before_submit() -> None:
    def told(path: str, **more: Any) -> bool:
        spec = job(image=IMAGE, specs={"out": path}, outputs={"out": {"type": "folder"}}, **more)
        return "output.lost" in findings(planned(spec))

    assert told("/workspace/out")
    assert not told("")
    assert not told("/lustre/me/out")
    assert not told("lustre:///lustre/me/out")
    assert not told("/workspace/out", mounts=["/data:/workspace"])
    assert told("/workspace/out", mounts=["/data:/workspace:ro"])


def test_a_results_root_that_nothing_else_mounts_is_mounted() -> None:
    text = mounted(planned(job(image=IMAGE, env_vars={"TAO_RESULTS_ROOT": "/scratch/me"})))
    assert "/scratch/me:/scratch/me" in text


def test_results_lie_below_the_base_directory_unless_a_root_is_named() -> None:
    plan = planned(job())
    assert plan.results_dir == f"{BASE}/results/{ATTEMPT.job_id}"
    told = plan.request.decisions.environment
    assert told["TAO_RESULTS_ROOT"] == told["TAO_API_RESULTS_DIR"] == f"{BASE}/results"
    other = planned(job(env_vars={"TAO_RESULTS_ROOT": "lustre:///lustre/other"}))
    assert other.results_dir == f"/lustre/other/{ATTEMPT.job_id}"
    with pytest.raises(SpecError, match="path of this machine"):
        planned(job(env_vars={"TAO_RESULTS_ROOT": "runs"}))


# Findings and settings


def findings(plan: Plan[SlurmRequest], seen: Any = None) -> dict[str, Severity]:
    return {each.code: each.severity for each in checks.plan_findings(plan, seen or facts())}


def test_a_cluster_without_anything_that_runs_images_is_a_finding_before_submit() -> None:
    bare = facts(pyxis=False)
    assert findings(planned(job(image=IMAGE), bare), bare)["slurm.no_pyxis"] is Severity.ERROR
    assert "slurm.no_pyxis" not in findings(
        planned(job(image=IMAGE), bare, container_runtime="none"), bare
    )


def test_an_account_or_qos_that_you_do_not_have_is_a_finding_before_submit() -> None:
    assert findings(planned(job(), account="theirs"))["slurm.account"] is Severity.ERROR
    assert findings(planned(job(), facts(accounts=()), account="theirs"), facts(accounts=())) == {}
    assert findings(planned(job(), qos="gold"))["slurm.qos"] is Severity.ERROR


def told(plan: Plan[SlurmRequest], seen: Any) -> Finding:
    (found,) = (each for each in checks.plan_findings(plan, seen) if each.code == "slurm.account")
    return found


def closed(**who: Any) -> SlurmFacts:
    """`polar` takes the jobs of some accounts only, `open` all."""
    return facts(
        partitions={
            each.name: each for each in (partition("polar", default=True, **who), partition("open"))
        }
    )


@pytest.mark.parametrize(
    "options", [{"partition": "polar"}, {"partition": "polar", "account": "mine"}, {}]
)
def test_a_partition_that_takes_other_accounts_only_is_an_error_where_slurm_would_wait_for_ever(
    options: dict[str, str],
) -> None:
    seen = closed(accounts=("theirs", "others"))
    found = told(planned(job(), seen, **options), seen)
    assert (found.severity, found.what) == (
        Severity.ERROR,
        "Jobs of the account mine may not run in polar.",
    )
    assert (
        found.evidence == "polar takes theirs, others. SLURM would take the job and never start it."
    )
    assert found.fix == "Use --partition open, or ask the site for an account that it takes."


def test_the_clusters_default_partition_is_looked_at_too() -> None:
    seen = facts(partitions={"main": partition("main", default=True, accounts=("theirs",))})
    assert told(planned(job(), seen), seen).what == "Jobs of the account mine may not run in main."
    assert told(planned(job(), seen), seen).fix == "Ask the site for an account that it takes."


def test_a_partition_that_denies_an_account_is_an_error_for_that_one_only() -> None:
    seen = closed(denied=("mine",))
    assert (
        "polar takes all but mine" in told(planned(job(), seen, partition="polar"), seen).evidence
    )
    assert (
        findings(
            planned(job(), closed(denied=("theirs",)), partition="polar"),
            closed(denied=("theirs",)),
        )
        == {}
    )


@pytest.mark.parametrize("account", ["mine", "Mine", ""])
@pytest.mark.parametrize("allowed", ["mine", "dept"])
def test_a_partition_that_takes_the_account_or_one_above_it_is_none(
    account: str, allowed: str
) -> None:
    seen = closed(accounts=("theirs", allowed))
    assert findings(planned(job(), seen, partition="polar", account=account), seen) == {}


def test_where_it_is_not_seen_what_is_above_an_account_no_partition_is_closed_to_it() -> None:
    seen = replace(closed(accounts=("theirs",)), above={})
    assert findings(planned(job(), seen, partition="polar"), seen) == {}
    without = replace(seen, accounting=False, accounts=())
    assert findings(planned(job(), without, partition="polar"), without) == {}
    assert (
        told(planned(job(), without, partition="polar", account="mine"), without).severity
        is Severity.ERROR
    )


def test_without_a_named_account_only_what_none_of_yours_may_use_is_an_error() -> None:
    above = dict.fromkeys(("mine", "second", "third"), frozenset({"root"}))
    seen = replace(closed(accounts=("second",)), accounts=("mine", "second"), above=above)
    unnamed = told(planned(job(), seen, partition="polar"), seen)
    assert (unnamed.severity, unnamed.fix) == (
        Severity.WARNING,
        "Use --account second, unless the cluster chooses it for you.",
    )
    assert findings(planned(job(), seen, partition="polar", account="second"), seen) == {}
    named = told(planned(job(), seen, partition="polar", account="mine"), seen)
    assert named.severity is Severity.ERROR
    assert named.fix.startswith("Use --account second or --partition open")
    neither = replace(seen, accounts=("mine", "third"))
    assert (
        "your accounts (mine, third)"
        in told(planned(job(), neither, partition="polar"), neither).what
    )


def test_a_partition_that_takes_no_jobs_of_the_account_is_left_out_of_a_list_and_told() -> None:
    seen = closed(accounts=("theirs",))
    plan = planned(job(), seen, partition="polar,open")
    assert directives(plan)["partition"] == "open"
    assert plan.notes == (
        "Not asked for, because of the account mine, of which they take no jobs: polar.",
    )
    assert findings(plan, seen) == {}


def test_a_partition_that_takes_no_jobs_of_the_qos_is_refused_and_left_out_of_a_list() -> None:
    for who in ({"qos": ("normal",)}, {"denied_qos": ("short",)}):
        seen = closed(**who)
        (found,) = checks.plan_findings(planned(job(), seen, partition="polar", qos="Short"), seen)
        assert (found.severity, found.code) == (Severity.ERROR, "slurm.qos")
        assert found.what == "Jobs of the qos Short may not run in polar."
        assert "--partition open" in found.fix
        both = planned(job(), seen, partition="polar,open", qos="short")
        assert directives(both)["partition"] == "open"
        assert "the qos short, of which they take no jobs: polar" in " ".join(both.notes)
        assert (
            checks.plan_findings(planned(job(), seen, partition="polar", qos="normal"), seen) == []
        )


def test_a_partition_named_in_native_is_looked_at_too() -> None:
    seen = closed(accounts=("theirs",))
    plan = planned(replace(job(), native={"partition": "polar"}), seen, partition="open")
    assert told(plan, seen).severity is Severity.ERROR


def test_an_image_is_converted_where_the_account_may_run_jobs() -> None:
    def where(**who: Any) -> str:
        seen = facts(
            partitions={each.name: each for each in (partition("polar"), partition("cpu", **who))}
        )
        return next(
            line
            for line in staged(planned(job(image=IMAGE), seen), "image.sbatch").splitlines()
            if "mem=" in line or "partition" in line
        )

    assert where() == "#SBATCH --partition=cpu"
    assert "partition" not in where(accounts=("theirs",))


def test_an_image_is_not_converted_in_a_named_partition_where_that_would_wait_for_ever() -> None:
    named = Site(BASE, conversion_partition="convert")
    for who in ({"denied": ("mine",)}, {"accounts": ("theirs",)}):
        seen = facts(
            named,
            partitions={
                each.name: each for each in (partition("cpu"), partition("convert", **who))
            },
        )
        plan = planned(job(image=IMAGE), seen, partition="cpu", account="mine")
        assert "#SBATCH --partition=cpu\n" in staged(plan, "image.sbatch")
        assert "not converted in convert" in " ".join(plan.notes)


def test_the_doctor_tells_of_a_partition_where_jobs_of_the_account_would_never_start() -> None:
    seen = replace(
        closed(accounts=("theirs",)), site=Site(BASE, partition="polar,open", account="mine")
    )
    polar, other = doctor.partition_findings(seen)
    assert (polar.severity, other.severity) == (Severity.WARNING, Severity.OK)
    assert "may not be of mine: they would never start" in polar.evidence


def test_what_a_partition_allows_and_the_tree_of_accounts_are_read_as_slurm_shows_them() -> None:
    shown = (
        "PartitionName=all AllowGroups=ALL AllowAccounts=ALL MaxNodes=2\n"
        "PartitionName=some AllowGroups=ALL AllowAccounts=a,b MaxNodes=2\n"
        "PartitionName=less AllowGroups=ALL DenyAccounts=c MaxNodes=2\n"
    )
    read = {
        name: (each.accounts, each.denied)
        for name, each in survey.read_partitions(shown, "").items()
    }
    assert read == {"all": ((), ()), "some": (("a", "b"), ()), "less": ((), ("c",))}
    assert survey.read_ancestors("team|dept\nmine|root\ndept|root\n") == {
        "team": frozenset({"dept", "root"}), "dept": frozenset({"root"}),
        "mine": frozenset({"root"}),
    }  # fmt: skip
    assert survey.read_ancestors("\n") == {}


def test_an_account_and_a_qos_in_capitals_are_slurms_in_lower_case() -> None:
    plan = planned(job(), account="Mine", qos="SHORT")
    assert findings(plan) == {}
    assert directives(plan)["time"] == "00:10:00"
    shown = doctor.account_findings(facts(Site(BASE, account="Mine")))
    assert [each.severity for each in shown] == [Severity.OK]


def test_a_partition_that_is_down_is_a_warning() -> None:
    down = facts(partitions={"polar": partition("polar", up=False)})
    assert findings(planned(job(), down), down)["slurm.partition_down"] is Severity.WARNING


def test_a_missing_base_directory_host_or_user_is_one_clear_error(tmp_path: Path) -> None:
    whole = {
        "SLURM_USER": "me",
        "SLURM_HOSTNAME": "login",
        "SLURM_BASE_RESULTS_DIR": "/b",
        "HOME": str(tmp_path),
    }
    for name in ("SLURM_USER", "SLURM_HOSTNAME", "SLURM_BASE_RESULTS_DIR"):
        settings = Settings({key: value for key, value in whole.items() if key != name})
        with pytest.raises(CredentialError, match=name):
            SlurmBackend(settings, tmp_path).site  # noqa: B018


def test_an_sdk_is_made_without_a_look_at_the_cluster(tmp_path: Path) -> None:
    with SlurmSDK(
        settings=Settings({"TAO_SDK_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)})
    ) as sdk:
        with pytest.raises(CredentialError, match="SLURM_HOSTNAME"):
            sdk.create_job(image=IMAGE, command="true")
        assert sdk.list_jobs() == []


def test_the_endpoint_is_the_first_login_host_or_the_name_that_the_user_gives_the_cluster(
    tmp_path: Path,
) -> None:
    given = {
        "SLURM_USER": "me",
        "SLURM_HOSTNAME": "a, b:2222",
        "SLURM_BASE_RESULTS_DIR": "/b",
        "HOME": str(tmp_path),
    }
    backend = SlurmBackend(Settings(given), tmp_path)
    assert (backend.endpoint, backend.login.hosts) == ("me@a", ("a", "b:2222"))
    assert (
        SlurmBackend(Settings({**given, "SLURM_CLUSTER_NAME": "east"}), tmp_path).endpoint == "east"
    )


def test_a_cluster_keeps_its_name_when_another_of_its_login_hosts_is_listed_first(
    tmp_path: Path,
) -> None:
    """Else its jobs would be another cluster's, and nobody would look at them."""
    given = {
        "SLURM_USER": "me",
        "SLURM_HOSTNAME": "a",
        "SLURM_BASE_RESULTS_DIR": "/b",
        "HOME": str(tmp_path),
    }
    before = SlurmBackend(Settings(given), tmp_path)
    before.surveys.write_cache(before.surveys.cache_path(before.endpoint), "{}")
    assert (
        SlurmBackend(Settings({**given, "SLURM_HOSTNAME": "b,a"}), tmp_path).endpoint
        == before.endpoint
    )
    assert SlurmBackend(Settings({**given, "SLURM_HOSTNAME": "b"}), tmp_path).endpoint == "me@b"


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "a b", "a;id"])
def test_a_host_that_ssh_would_take_for_an_option_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no name of a host"):
        SlurmBackend(
            Settings({"SLURM_USER": "me", "SLURM_HOSTNAME": host, "HOME": str(tmp_path)}), tmp_path
        )


def test_a_failure_of_the_cluster_is_tried_again_up_to_the_documented_number_of_times() -> None:
    assert SlurmBackend.capabilities.retries == 10


def test_the_ssh_config_of_a_home_that_ssh_would_not_look_into_is_named_to_it(
    tmp_path: Path,
) -> None:
    whole = {"SLURM_USER": "me", "SLURM_HOSTNAME": "login", "HOME": str(tmp_path)}
    assert read_login(Settings(whole)).config == ""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").touch()
    assert read_login(Settings(whole)).config == str(tmp_path / ".ssh" / "config")
    assert read_login(Settings({**whole, "TAO_SSH_CONFIG": "/other"})).config == "/other"


# A cluster that does not answer

DEAD = {
    "SLURM_HOSTNAME": "127.0.0.1:9",
    "SLURM_USER": "nobody",
    "SLURM_BASE_RESULTS_DIR": BASE,
    "PATH": os.environ["PATH"],
}


def planned_unasked(folder: Path, spec: JobSpec, **options: Any) -> Planned:
    settings = Settings({**DEAD, "HOME": str(folder), "TAO_SDK_STATE_DIR": str(folder / "state")})
    with SlurmSDK(settings=settings) as sdk:
        return sdk.plan(spec, "slurm", options)


def test_a_silent_cluster_is_planned_for_by_what_the_job_names(tmp_path: Path) -> None:
    spec = job(image=IMAGE, gpu_count=12, num_nodes=3)
    planned = planned_unasked(tmp_path, spec, partition="big,bigger", account="vision")
    lines = directives(planned.plan)
    assert not planned.asked
    assert lines["partition"] == "big,bigger"
    assert (lines["nodes"], lines["account"]) == ("3", "vision")
    assert planned.plan.request.decisions.runtime == "pyxis"


def test_a_silent_cluster_without_a_named_partition_gives_its_default(tmp_path: Path) -> None:
    planned = planned_unasked(tmp_path, job(gpu_count=16))
    decisions = planned.plan.request.decisions
    assert "partition" not in decisions.directives
    assert (decisions.nodes, decisions.gpus) == (2, 8)
    assert not planned.plan.notes


def remember_answer(folder: Path) -> None:
    """Leave what a cluster has answered two hours ago, under the name of the silent one."""
    names = ("partitions", "nodes", "accounts", "qos", "flags", "programs", "folders", "base")
    shown = "PartitionName=nightly Default=YES MaxTime=02:00:00 MaxNodes=4 TotalNodes=4 State=UP"
    seen = dict.fromkeys((*names, "user", "version", "above"), "") | {
        "config": "ClusterName = remembered\nSLURM_VERSION = 22.05.8\n",
        "partitions": shown,
        "nodes": "nightly|4|128|gpu:8",
    }
    answer = {"time": time.time() - 7200, "base": BASE, "seen": seen}
    folder.mkdir(parents=True)
    (folder / "nobody@127.0.0.1_9.facts.json").write_text(json.dumps(answer))


def test_a_silent_cluster_is_planned_for_by_what_it_said_last(tmp_path: Path) -> None:
    remember_answer(tmp_path / "state" / "slurm")
    planned = planned_unasked(tmp_path, job(gpu_count=1))
    assert not planned.asked
    assert "The plan is made from what it said on" in planned.findings[0].what
    assert planned.plan.request.decisions.cluster == "remembered"


# A job that reaches its time limit


@pytest.mark.parametrize(
    ("site_hours", "limit"), [(None, "4h"), (timedelta(hours=2), "2h")], ids=["default", "site"]
)
def test_a_time_limit_that_the_job_does_not_name_is_told_where_it_is_reached(
    site_hours: timedelta | None, limit: str
) -> None:
    plan = planned(job(gpu_count=1), facts(Site(BASE, time=site_hours)))
    assert plan.limits == {"time_limit": limit}
    ended = Job(id="digits-0123456789", name="digits", platform="slurm", message="")
    seen = Evidence(phase="failed", reason="TIMEOUT on n1", reason_code=Reason.TIME_LIMIT)
    found = rules.diagnose_job(with_job(seen, ended, plan.to_json()))
    assert found is not None
    assert found.what == f"The job reached its time limit ({limit})."


def test_backend_details_of_slurm_take_the_partition_and_the_name_of_the_cluster() -> None:
    details = {"backend_type": "slurm", "partition": "polar", "cluster_name": "lab", "num_gpu": 8}
    given = with_details(details, {"command": "true"}, {}, "slurm")
    assert given == {"partition": "polar", "gpu_count": 8}
