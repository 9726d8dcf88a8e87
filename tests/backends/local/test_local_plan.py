"""The plan of a local job is pure: the same spec and facts give the same plan, which says all that
will happen.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.machine import NO_OPTIONS, Machine
from tao_sdk.backends.job_environment import variables_to_json
from tao_sdk.backends.local import render
from tao_sdk.backends.local.facts import Gpu, LocalFacts
from tao_sdk.backends.local.options import LocalOptions
from tao_sdk.backends.local.request import LocalRequest
from tao_sdk.backends.rendezvous import single_node
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import read_settings
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.secrets import Secret, SecretRef
from tao_sdk.model.spec import JobSpec, read_spec
from tao_sdk.payload.prepared_job import pack_spec

ATTEMPT = Attempt("digits-0123456789", 2, "local", "here", "store-1")
FACTS = LocalFacts(
    cwd="/work/my project",
    state_dir="/state",
    environment={"PATH": "/usr/bin", "LANG": "C.UTF-8"},
    gpus=(Gpu(0, "GPU-a", "X1", 80000, 500), Gpu(1, "GPU-b", "X1", 80000, 4)),
    lock_folder="/run/lock",
    disk_free=10**12,
)


def plan(
    facts: LocalFacts = FACTS, options: LocalOptions = NO_OPTIONS, **spec: object
) -> Plan[LocalRequest]:
    read = read_spec({"command": "python train.py", **spec})
    return render.plan(pack_spec(read, read.command), options, facts, ATTEMPT)


def environment(
    facts: LocalFacts = FACTS, options: LocalOptions = NO_OPTIONS, **spec: object
) -> dict[str, object]:
    return variables_to_json(plan(facts, options, **spec).request.environment)


def check(
    facts: LocalFacts = FACTS, options: LocalOptions = NO_OPTIONS, **spec: object
) -> dict[str, Finding]:
    return {finding.code: finding for finding in render.check(plan(facts, options, **spec), facts)}


def test_a_plan_says_all_that_will_happen() -> None:
    planned = plan(
        gpu_count=1, time_limit="4h", env_vars={"EPOCHS": "20", "WANDB_API_KEY": Secret("hidden")}
    )
    assert json.loads(json.dumps(planned.to_json())) == {
        "request": {
            "command": "python train.py",
            "cwd": "/work/my project",
            "environment": {
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "EPOCHS": "20",
                "LANG": "C.UTF-8",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "29500",
                "NNODES": "1",
                "NODE_RANK": "0",
                "NPROC_PER_NODE": "1",
                "NUM_GPU_PER_NODE": "1",
                "PATH": "/usr/bin",
                "PYTHONUNBUFFERED": "1",
                "TAO_ATTEMPT": "2",
                "TAO_GRACE": "10",
                "TAO_GRACE_FILE": "/state/local/digits-0123456789.2/cancel",
                "TAO_JOB_ID": "digits-0123456789",
                "TAO_RESULTS_DIR": "/work/my project/runs/digits-0123456789",
                "TAO_RESULTS_ROOT": "/work/my project/runs",
                "WANDB_API_KEY": {"secret": "WANDB_API_KEY"},
                "WORLD_SIZE": "1",
            },
            "gpus": {
                "count": 1,
                "asked": 1,
                "ids": [],
                "from": ["1:GPU-b", "0:GPU-a"],
                "locks": "/run/lock",
            },
            "time_limit": 14400.0,
            "grace": 10.0,
            "venv": "",
            "inputs": {},
            "outside": [],
            "keeps": False,
            "mounts": False,
            "native": [],
        },
        "files": [],
        "secrets": ["WANDB_API_KEY"],
        "results_dir": "/work/my project/runs/digits-0123456789",
        "results_at": "",
        "notes": [],
        "backend_details": {
            "backend_type": "local",
            "num_gpu": 1,
            "job_dir": "/state/local/digits-0123456789.2",
        },
        "ranks": 1,
        "limits": {},
        "start_folder": "/work/my project",
        "release_when_over": False,
        "price": None,
    }
    assert "hidden" not in repr(planned)


def test_the_same_spec_and_facts_give_the_same_plan() -> None:
    assert plan(env_vars={"B": "1", "A": "2"}) == plan(env_vars={"A": "2", "B": "1"})


def test_a_plan_survives_being_stored() -> None:
    planned = plan(env_vars={"A": "ü\n"})
    assert (
        Plan.from_json(json.loads(json.dumps(planned.to_json())), ATTEMPT, LocalRequest.from_json)
        == planned
    )


def test_a_job_inherits_everything_but_secrets_and_what_steers_the_sdk() -> None:
    secret = dict.fromkeys(("HF_TOKEN", "my_password", "AWS_SECRET_ACCESS_KEY", "MARKED"), "x")
    steering = dict.fromkeys(("DOCKER_HOST", "BACKEND", "MONGOSECRET"), "x")
    plain = {"PATH": "/bin", "SSH_KEY_PATH": "/k"}
    assert render.caller_environment({**secret, **steering, **plain}, ["MARKED"]) == plain


def test_what_the_job_asks_for_wins_over_the_caller_and_over_us_but_its_id_is_ours() -> None:
    asked = {
        "LANG": "de",
        "MASTER_PORT": "1234",
        "CUDA_VISIBLE_DEVICES": "3",
        "TAO_JOB_ID": "forged",
        "TAO_GRACE": "30",
    }
    env = environment(env_vars=asked)
    assert {name: env[name] for name in asked} == {**asked, "TAO_JOB_ID": ATTEMPT.job_id}


def test_a_reference_to_a_secret_of_another_name_is_kept() -> None:
    planned = plan(env_vars={"WANDB_API_KEY": SecretRef("MY_WANDB")})
    assert planned.request.environment["WANDB_API_KEY"] == SecretRef("MY_WANDB")
    assert planned.secrets == ("MY_WANDB",)


@pytest.mark.parametrize(
    ("asked", "root"),
    [
        (None, "/work/my project/runs"),
        ("/data/r", "/data/r"),
        ("../out", "/work/out"),
        ("", "/work/my project/runs"),
    ],
)
def test_results_lie_in_runs_unless_the_job_names_a_root(asked: str | None, root: str) -> None:
    env_vars = {} if asked is None else {"TAO_RESULTS_ROOT": asked}
    assert environment(env_vars=env_vars)["TAO_RESULTS_ROOT"] == root
    assert plan(env_vars=env_vars).results_dir == f"{root}/{ATTEMPT.job_id}"


def test_the_callers_own_results_root_is_not_the_jobs() -> None:
    """A job that starts a job must not write into its own results."""
    facts = replace(
        FACTS,
        environment={**FACTS.environment, "TAO_RESULTS_ROOT": "/outer", "TAO_JOB_ID": "outer-job"},
    )
    assert environment(facts)["TAO_RESULTS_ROOT"] == "/work/my project/runs"
    assert environment(facts)["TAO_JOB_ID"] == ATTEMPT.job_id


def test_one_node_is_told_under_both_sets_of_names() -> None:
    assert single_node(4) == {
        "WORLD_SIZE": "1", "NUM_GPU_PER_NODE": "4", "NNODES": "1", "NPROC_PER_NODE": "4",
        "NODE_RANK": "0",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
    }  # fmt: skip
    assert single_node(0)["NPROC_PER_NODE"] == "1"


def test_a_virtual_environment_comes_first() -> None:
    env = environment(
        replace(FACTS, environment={"PATH": "/usr/bin", "PYTHONHOME": "/opt"}),
        LocalOptions(venv_path="envs/a"),
    )
    assert env["VIRTUAL_ENV"] == "/work/my project/envs/a"
    assert env["PATH"] == "/work/my project/envs/a/bin:/usr/bin"
    assert "PYTHONHOME" not in env


def test_a_virtual_environment_without_a_python_is_refused(
    machine: Machine, tmp_path: Path
) -> None:
    missing = machine.planned(
        JobSpec(command="true", gpu_count=0), LocalOptions(venv_path="no such venv")
    )[2]
    assert [(f.severity, f.code) for f in missing] == [(Severity.ERROR, "venv.missing")]
    assert "no such venv" in missing[0].fix
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho mine\n")
    python.chmod(0o755)
    assert machine.log(
        machine.submit("python; echo $VIRTUAL_ENV", LocalOptions(venv_path=str(tmp_path / "venv")))
    ) == (f"mine\n{tmp_path / 'venv'}\n".encode())


def test_declared_inputs_that_are_not_there_are_refused_and_optional_ones_are_not(
    machine: Machine, tmp_path: Path
) -> None:
    here = tmp_path / "data set"
    here.mkdir()
    specs = {
        "train": {
            "images": f"file://{here}",
            "labels": "/nowhere/labels.json",
            "more": [str(here), "relative/missing"],
            "extra": "",
        }
    }
    inputs = {
        "train.images": {"type": "folder"},
        "train.labels": {"type": "file"},
        "train.more": {"type": "folder"},
        "train.extra": {"optional": True},
    }
    found = machine.planned(
        JobSpec(command="x {config_path}", specs=specs, inputs=inputs, gpu_count=0)
    )[2]
    assert [(finding.severity, finding.code) for finding in found] == [
        (Severity.ERROR, "input.missing")
    ] * 2
    assert "train.labels" in found[0].what and "/nowhere/labels.json" in found[0].what
    assert f"{Path.cwd()}/relative/missing" in found[1].what


@pytest.mark.parametrize(
    "spec",
    [
        {"inputs": {"/models/x": "/nowhere/x"}},
        {"args": {"data": "/nowhere/x"}, "inputs": {"data": {"type": "file"}}},
    ],
)
def test_inputs_of_every_mode_are_looked_for(machine: Machine, spec: dict[str, object]) -> None:
    found = machine.planned(read_spec({"command": "true", "gpu_count": 0, **spec}))[2]
    assert [finding.code for finding in found] == ["input.missing"]


@pytest.mark.parametrize("scheme", ["lustre", "slurm"])
def test_a_path_of_a_cluster_is_told_as_that(machine: Machine, scheme: str) -> None:
    inputs = {"/data": f"{scheme}:///nowhere/x"}
    found = machine.planned(read_spec({"command": "true", "gpu_count": 0, "inputs": inputs}))[2]
    assert found[0].what == "The input /data is not there: /nowhere/x"
    assert (
        f"{scheme}:// names a file system of a cluster, which this machine does not have."
        in found[0].fix
    )
    assert "--platform slurm" in found[0].fix


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("imags/a.png", "Did you mean {here}/images/a.png?"),
        ("images/b.png", "Did you mean {here}/images/a.png?"),
        ("elsewhere/b.png", "There is {here}, and no 'elsewhere' in it."),
    ],
)
def test_a_misspelt_input_comes_with_what_was_meant(
    machine: Machine, tmp_path: Path, written: str, advice: str
) -> None:
    here = tmp_path / "data"
    (here / "images").mkdir(parents=True)
    (here / "images" / "a.png").touch()
    inputs = {"/data": f"{here}/{written}"}
    found = machine.planned(read_spec({"command": "true", "gpu_count": 0, "inputs": inputs}))[2]
    assert found[0].fix == advice.format(here=here)


def test_an_input_that_may_not_be_seen_is_told_as_that() -> None:
    facts = replace(FACTS, missing={"/locked/x": "Permission denied"})
    assert check(facts, inputs={"/x": "/locked/x"})["input.missing"].evidence == "Permission denied"


def test_an_input_that_travels_with_the_job_is_not_looked_for_here(machine: Machine) -> None:
    spec = {
        "command": "x",
        "args": {"data": "train.npz"},
        "inputs": {"data": {}},
        "files": {"train.npz": b"..."},
        "gpu_count": 0,
    }
    assert machine.planned(read_spec(spec))[2] == []


def test_an_output_outside_the_results_is_kept_with_a_warning() -> None:
    outputs = {"results_dir": {"type": "folder"}, "other": {}, "chosen": {}}
    specs = {"results_dir": "/elsewhere/out", "other": "", "chosen": "/work/my project/runs/x"}
    finding = check(specs=specs, outputs=outputs, gpu_count=0)["output.outside"]
    assert (finding.severity, "/elsewhere/out" in finding.what) == (Severity.WARNING, True)
    assert plan(specs=specs, outputs=outputs).request.outside == ("/elsewhere/out",)


def test_mounts_are_not_used_and_that_is_said() -> None:
    assert check(mounts=["/a:/b"])["mounts.unused"].severity is Severity.WARNING


def test_there_is_no_request_to_patch() -> None:
    assert check(native={"spec": {}})["native.unknown"].severity is Severity.ERROR


def test_an_image_is_told_to_be_unused() -> None:
    assert plan(image="ubuntu:24.04").notes[0].startswith("image: a local job does not use it")
    assert plan().notes == ()


def test_every_warning_says_what_to_do_next() -> None:
    outputs = {"results_dir": {"type": "folder"}}
    facts = replace(FACTS, disk_free=10**6, gpus=())
    specs = {"results_dir": "/elsewhere/out"}
    found = check(facts, specs=specs, outputs=outputs, mounts=["/a:/b"], gpu_count=1)
    assert {"gpu.none", "disk.low", "output.outside", "mounts.unused"} <= {*found}
    assert all(finding.next for finding in found.values())


def test_limits_that_are_not_kept_are_said() -> None:
    assert plan(memory="32g", shm_size="8g", gpu_count=1).notes[0].startswith("memory, shm_size: ")


def test_little_space_is_a_warning_and_no_right_to_write_an_error() -> None:
    assert check(replace(FACTS, disk_free=10**6))["disk.low"].severity is Severity.WARNING
    nowhere = replace(FACTS, results_writable=False)
    assert (
        check(nowhere, specs={"out": ""}, outputs={"out": {}})["results.unwritable"].severity
        is Severity.ERROR
    )
    assert check(nowhere)["results.unwritable"].severity is Severity.WARNING


def test_a_plain_job_has_nothing_to_complain_about() -> None:
    assert check(gpu_count=0) == {}


def test_the_time_limit_travels_in_seconds() -> None:
    assert plan(time_limit=timedelta(minutes=1.5)).request.time_limit == 90.0


def test_options_are_read_from_plain_values() -> None:
    options = read_settings(LocalOptions, {"gpu_ids": [0, "2"], "venv_path": Path("/v")})
    assert options == LocalOptions(gpu_ids=(0, 2), venv_path="/v")
    with pytest.raises(SpecError, match="Did you mean gpu_ids"):
        read_settings(LocalOptions, {"gpu_id": [0]})


def test_a_survey_looks_at_this_machine(machine: Machine) -> None:
    facts = machine.planned(JobSpec(command="true", gpu_count=0))[1]
    assert facts.cwd == str(Path.cwd())
    assert facts.results_writable
    assert facts.disk_free > 0
    assert (
        "MY_TOKEN"
        not in machine.client(MY_TOKEN="x")
        .survey(pack_spec(JobSpec(command="true", gpu_count=0)), LocalOptions())
        .environment
    )


def test_the_doctor_says_what_is_here_and_what_is_not(machine: Machine) -> None:
    machine.has_gpus(2)
    found = {finding.code: finding for finding in machine.backend.doctor()}
    assert set(found) == {
        "local.state_dir",
        "local.shell",
        "local.python",
        "local.gpu",
        "local.disk",
    }
    assert found["local.gpu"].what == "2 GPUs seen."
    machine.program("nvidia-smi", "echo mismatch; exit 1")
    machine.state.touch()
    found = {finding.code: finding for finding in machine.backend.doctor()}
    assert found["local.gpu"].severity is Severity.ERROR
    bare = {finding.code: finding for finding in machine.client(PATH="/nowhere").doctor()}
    assert bare["local.python"].severity is Severity.WARNING
    assert bare["local.gpu"].what == "No GPU is seen; jobs run without."


def test_a_further_attempt_reads_the_grace_of_its_own_cancel() -> None:
    again = render.plan_again(plan(), replace(ATTEMPT, number=3), "/watcher")
    grace_file = again.request.environment["TAO_GRACE_FILE"]
    assert grace_file == "/watcher/local/digits-0123456789.3/cancel"
