"""The documents' snippets run as they stand, with the local platform in place of the one that they
were written for.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.pythons import NEW_ENOUGH, alone, minor
from support.servers import s3_here
from tao_sdk import Job, Status
from tao_sdk.action_workflow import ActionWorkflow
from tao_sdk.model.errors import SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.platforms.local import LocalSDK
from tao_sdk.script_runner import build_entrypoint
from tao_sdk.skills.installing import install_bank

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent

DOCKER = "it runs on a real daemon, in tests/backends/docker"
KUBERNETES = "it needs a cluster: tests/backends/kubernetes runs it on one"
SLURM = "it needs a cluster: tests/backends/slurm runs it on one"
HOST = "it looks at the machine: tests/skills/test_host_script.py runs it in the root of another"
NOT_RUN = {
    "tao-execution-sdk/install-command.sh": "it installs the document, not this SDK, from outside",
    "local-docker/gpu-host.sh": HOST,
    "local-docker/direct-docker.sh": DOCKER,
    "local-docker/network.sh": DOCKER,
    "local-docker/sdk.py": DOCKER,
    "kubernetes/sdk.py": KUBERNETES,
    "kubernetes/multi-node.py": KUBERNETES,
    "kubernetes/torchrun.py": KUBERNETES,
    "kubernetes/node-runtime.sh": HOST,
    "kubernetes/gpu-host-install.sh": HOST,
    "kubernetes/by-hand.sh": KUBERNETES,
    "kubernetes/reachable.sh": KUBERNETES,
    "kubernetes/gpu-operator-check.sh": KUBERNETES,
    "kubernetes/gpu-operator-install.sh": "it installs a chart from outside",
    "kubernetes/pull-secret.sh": KUBERNETES,
    "slurm/ssh.sh": SLURM,
    "slurm/dataset-paths.sh": SLURM,
}
SNIPPETS = sorted(path for path in HERE.glob("*/*") if path.suffix in (".py", ".sh", ".txt"))


def text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def run(name: str, **given: Any) -> dict[str, Any]:
    """Run a snippet with the names that the text around it has introduced; what they are
    afterwards.
    """
    exec(compile(text(name), name, "exec"), given)
    return given


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSDK]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAO_SDK_STATE_DIR", str(tmp_path / "state"))
    with LocalSDK() as sdk:
        yield sdk
        for job in sdk.list_jobs():
            sdk.cancel_job(job.id, grace=1)


def start(sdk: LocalSDK, command: str) -> Job:
    return sdk.create_job(image="none", command=command, gpu_count=0)


def ended(sdk: LocalSDK, command: str) -> Job:
    job = start(sdk, command)
    sdk.wait(job.id, timeout=300)
    return job


@pytest.fixture
def failed(sdk: LocalSDK) -> Job:
    return ended(sdk, "python3 -c 'raise ValueError(\"no such layer\")'")


# TAO Execution SDK


BARE = NEW_ENOUGH[min(NEW_ENOUGH, key=minor)]  # the oldest Python, where nothing is installed
CHOICES = """\
kubernetes    Runs a job as a Job of a Kubernetes cluster, on one node or several. Also called k8s.
lepton        Runs a job in a workspace of NVIDIA DGX Cloud Lepton, on one node or several.
local         Runs a job as a process of this machine, without a container.
local-docker  Runs a job as a container of a Docker daemon, on this machine or another. Also called docker, remote-docker.
slurm         Runs a job on a SLURM cluster over SSH, on one node or several.
"""


@pytest.fixture(params=["where the package is", "where nothing is installed"])
def bank_user(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The surroundings of a user who has ~/tao-skills-external, as `tao skills install` writes
    it.
    """
    install_bank(None, Settings({"HOME": str(tmp_path)}))
    here = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    installed = request.param == "where the package is"
    return {"HOME": str(tmp_path), "PATH": here if installed else alone(tmp_path, BARE)}


def shell(name: str, environ: dict[str, str], **holes: str) -> subprocess.CompletedProcess[str]:
    """A snippet in bash, with the words in `<...>` filled in."""
    filled = text(name)
    for hole, word in holes.items():
        assert f"<{hole}>" in filled
        filled = filled.replace(f"<{hole}>", word)
    return subprocess.run(["bash", "-uc", filled], env=environ, capture_output=True, text=True)


@pytest.mark.parametrize("named", [False, True], ids=["usual bank", "bank of the variable"])
def test_the_platforms_are_offered_as_the_bank_lists_them(
    bank_user: dict[str, str], named: bool
) -> None:
    if named:
        usual = Path(bank_user["HOME"]) / "tao-skills-external"
        bank_user["TAO_SKILL_BANK_PATH"] = str(usual.rename(usual.with_name("elsewhere")))
    ran = shell("tao-execution-sdk/list-platforms.sh", bank_user)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, CHOICES, "")


def test_the_image_is_found_by_the_architecture(bank_user: dict[str, str]) -> None:
    name = "tao-execution-sdk/resolve-image.sh"
    ran = shell(name, bank_user, network_arch="dino", action="train")
    image = "nvcr.io/nvidia/tao/tao-toolkit:6.26.3-pyt\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, image, "")
    unknown = shell(name, bank_user, network_arch="dino", action="trian")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "Did you mean train?" in unknown.stderr


def test_a_plain_run_is_known_by_what_automl_lacks(bank_user: dict[str, str]) -> None:
    ran = shell("tao-execution-sdk/list-models.sh", bank_user)
    models = {each["network_arch"]: each for each in json.loads(ran.stdout)["models"]}
    dino = models["dino"]
    assert (dino["automl_enabled"], dino["valid_train_schema"]) == (True, False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_only_the_credentials_of_the_platform_are_asked_for(bank_user: dict[str, str]) -> None:
    name = "tao-execution-sdk/credential-filter.sh"
    asked = {
        platform: shell(name, bank_user, platform=platform).stdout
        for platform in ("slurm", "kubernetes", "local-docker")
    }
    required = asked["slurm"].partition("Required credential groups")[0]
    assert "  SLURM_USER:" in required and "  SLURM_HOSTNAME:" in required
    assert all("BREV" not in text for text in asked.values())
    assert "SLURM" not in asked["kubernetes"] + asked["local-docker"]
    for text in (asked["kubernetes"], asked["local-docker"]):
        assert text.startswith("Required credentials:\n  none\n")
        assert "  S3_BUCKET_NAME:" in text.partition("Optional, only where")[2]


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("local-docker/sdk-wrapper.sh", "docker"),
        ("kubernetes/sdk-installed.sh", "kubernetes"),
        ("slurm/sdk-installed.sh", "slurm"),
    ],
)
def test_who_lacks_the_package_is_told_the_pin_of_the_bank(
    bank_user: dict[str, str], name: str, extra: str
) -> None:
    bank_user["TAO_SKILL_BANK_PATH"] = f"{bank_user['HOME']}/tao-skills-external"
    ran = shell(name, bank_user)
    if shutil.which("python", path=bank_user["PATH"]):
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
        return
    pin = f"nvidia-tao-sdk[{extra}]==8.0.0"
    told = f"MISSING: nvidia-tao-sdk not installed. Run:\n pip install {pin}\n"
    assert (ran.returncode, ran.stdout) == (1, told)


def test_the_preflight_finds_the_package_and_installs_nothing(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-eu", HERE / "tao-execution-sdk/preflight.sh"],
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_an_sdk_is_made_without_any_credential(
    sdk: LocalSDK, monkeypatch: pytest.MonkeyPatch
) -> None:
    brev = types.ModuleType("tao_sdk.platforms.brev")
    monkeypatch.setattr(brev, "BrevSDK", LocalSDK, raising=False)
    monkeypatch.setitem(sys.modules, "tao_sdk.platforms.brev", brev)
    with run("tao-execution-sdk/credentials.py")["sdk"] as made:
        assert made.list_jobs() == []


@pytest.mark.parametrize("line", text("tao-execution-sdk/core-api.txt").splitlines())
def test_the_core_api_is_there_with_its_names_and_defaults(line: str) -> None:
    call = ast.parse(line.partition(" -> ")[0], mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    parameters = dict(inspect.signature(getattr(LocalSDK, call.func.attr)).parameters)
    positional = [argument.id for argument in call.args if isinstance(argument, ast.Name)]
    defaults = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
    assert list(parameters)[1 : 1 + len(positional) + len(defaults)] == [*positional, *defaults]
    assert {name: parameters[name].default for name in defaults} == defaults


def test_a_nested_spec_is_taken_and_a_flat_one_refused_with_the_nested_form() -> None:
    right, wrong = ast.parse(text("tao-execution-sdk/nested-spec.py")).body
    declared = {
        "command": "cat {config_path}",
        "outputs": {"section.subsection.key": {"type": "folder"}},
    }
    assert build_entrypoint(specs=specs_of(right), **declared)["command"]
    with pytest.raises(SpecError, match=r"\{'section': \{'subsection': \{'key': 'value'\}\}\}"):
        build_entrypoint(specs=specs_of(wrong), **declared)


def specs_of(statement: ast.stmt) -> Any:
    given: dict[str, Any] = {}
    exec(compile(ast.Module([statement], []), "nested-spec.py", "exec"), given)
    return given["specs"]


@pytest.mark.parametrize("named", ["tao_toolkit.pyt", "nvcr.io/nvidia/tao/tao-toolkit:6.26.3-pyt"])
def test_a_key_is_resolved_to_its_image_and_an_image_stays_as_it_is(named: str) -> None:
    given = run("tao-execution-sdk/container-image.py", skill_info={"container_image": named})
    assert given["image"] == "nvcr.io/nvidia/tao/tao-toolkit:6.26.3-pyt"


def test_monitoring_prints_status_and_log(
    sdk: LocalSDK, capsys: pytest.CaptureFixture[str]
) -> None:
    run("tao-execution-sdk/monitoring.py", sdk=sdk, job=ended(sdk, "echo hello"))
    assert capsys.readouterr().out.splitlines()[:3] == ["Complete", "exit code 0", "hello"]


def test_failure_analysis_says_whose_fault_it_was_and_what_to_do(
    sdk: LocalSDK, failed: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    run("tao-execution-sdk/failure-analysis.py", sdk=sdk, job=failed)
    err_class, suggestion, event = capsys.readouterr().out.splitlines()
    assert (err_class, event) == ("ERR_PROGRAM", "traceback ValueError: no such layer")
    assert "Mend the program" in suggestion


def test_a_job_that_is_well_has_no_failure_analysis(
    sdk: LocalSDK, capsys: pytest.CaptureFixture[str]
) -> None:
    run("tao-execution-sdk/failure-analysis.py", sdk=sdk, job=ended(sdk, "true"))
    assert capsys.readouterr().out == ""


def test_polling_ends_when_the_job_does(sdk: LocalSDK, capsys: pytest.CaptureFixture[str]) -> None:
    job = start(sdk, "sleep 0.7")
    given = run("tao-execution-sdk/polling.py", sdk=sdk, job=job, status_interval_minutes=0.1 / 60)
    seen = capsys.readouterr().out.split()
    assert given["status"].status == "Complete"
    assert "Running" in seen and set(seen) <= {"Pending", "Running"}


def test_polling_prints_log_and_reason_of_a_failure(
    sdk: LocalSDK, failed: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    run("tao-execution-sdk/polling.py", sdk=sdk, job=failed, status_interval_minutes=None)
    printed = capsys.readouterr().out
    assert "ValueError: no such layer\n" in printed and "'err_class': 'ERR_PROGRAM'" in printed


def test_a_path_is_put_into_the_nested_spec() -> None:
    specs: dict[str, Any] = {"dataset": {}}
    run("tao-execution-sdk/dataset-paths.py", specs=specs, dataset_uri="file:///data/coco/")
    assert specs == {"dataset": {"train_csv": "file:///data/coco/train.csv"}}


@pytest.mark.network
@pytest.mark.usefixtures("sdk")
def test_a_dataset_in_a_bucket_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    store = s3_here.versitygw()
    store.bucket("my-bucket")
    store.s3().put("my-bucket", "coco/train/1.jpg", b"1")
    keys = {
        "ACCESS_KEY": s3_here.ACCESS,
        "SECRET_KEY": s3_here.SECRET,
        "S3_ENDPOINT_URL": store.url,
    }
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    with LocalSDK() as sdk:
        assert run("tao-execution-sdk/dataset-listing.py", sdk=sdk)["files"] == ["1.jpg"]


def test_a_job_knows_its_id_and_where_its_results_go(sdk: LocalSDK) -> None:
    job = ended(sdk, "echo $TAO_JOB_ID $TAO_RESULTS_ROOT/$TAO_JOB_ID")
    assert sdk.get_job_logs(job.id) == f"{job.id} {sdk.get_job_results_dir(job.id)}\n"


REATTACH = """
import sys
from tao_sdk.platforms.local import LocalSDK
job_id, state_file = sys.argv[1:]
with LocalSDK(state_file=state_file) as sdk:
    print(sdk.get_job_status(job_id).status)
"""


def test_a_job_is_found_again_by_its_id_and_state_file(sdk: LocalSDK, tmp_path: Path) -> None:
    state_file = tmp_path / "elsewhere" / "jobs.json"
    with LocalSDK(state_file=state_file) as first:
        job = start(first, "sleep 60")
        again = [sys.executable, "-c", REATTACH, job.id, str(state_file)]
        assert (
            subprocess.run(again, capture_output=True, text=True, check=True).stdout == "Running\n"
        )
        assert first.cancel_job(job.id)


def test_an_action_workflow_carries_a_run_over_to_another_process(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    flow = ActionWorkflow(tmp_path / "runs", "dino-train")
    flow.write_metadata(action="train", platform="local")
    job = start(sdk, "echo trained")
    flow.write_submission(job)
    later = ActionWorkflow.from_workspace(flow.workspace)
    assert [active["job_id"] for active in later.active_jobs] == [job.id]
    sdk.wait(job.id, timeout=300)
    assert later.sync_from_sdk(sdk, job.id).status == "Complete"
    assert later.active_jobs == []
    assert (flow.workspace / "latest_logs.txt").read_text() == "trained\n"


# Kubernetes


def test_status_and_logs_are_asked_for_alike_on_every_platform(sdk: LocalSDK) -> None:
    given = run("kubernetes/status.py", sdk=sdk, job=ended(sdk, "echo hello"))
    assert (given["status"].status, given["logs"]) == ("Complete", "hello\n")


def test_replicas_of_a_job_that_runs_have_no_issue(
    sdk: LocalSDK, capsys: pytest.CaptureFixture[str]
) -> None:
    job = start(sdk, "sleep 60")
    run("kubernetes/replicas.py", sdk=sdk, job=job)
    assert capsys.readouterr().out == ""
    assert len(sdk.get_job_replicas(job.id)) == 1


def test_a_failure_has_the_keys_that_the_document_names(sdk: LocalSDK, failed: Job) -> None:
    analysis = run("kubernetes/failure.py", sdk=sdk, job=failed)["analysis"]
    assert {"err_class", "suggestion", "job_failure_by_node_event"} <= set(analysis)


def test_a_job_is_canceled(sdk: LocalSDK) -> None:
    job = start(sdk, "sleep 60")
    run("kubernetes/cancel.py", sdk=sdk, job=job)
    assert sdk.get_job_status(job.id).status is Status.CANCELED


# SLURM


def test_wall_times_have_their_defaults_and_can_be_chosen(tmp_path: Path) -> None:
    ask = text("slurm/wall-time.sh") + 'echo "$SLURM_TIME_HOURS $SLURM_TIMEOUT_HOURS"'
    chosen = {**os.environ, "SLURM_TIME_HOURS": "2"}
    assert (
        subprocess.run(["bash", "-euc", ask], env=chosen, capture_output=True, text=True).stdout
        == "2 3.8\n"
    )


# All of them


@pytest.mark.parametrize("path", SNIPPETS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_snippet_can_be_parsed(path: Path) -> None:
    if path.suffix == ".py":
        ast.parse(path.read_text(encoding="utf-8"))
    elif path.suffix == ".sh":
        checked = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr


def test_every_snippet_is_run_or_has_its_reason() -> None:
    here = Path(__file__).read_text(encoding="utf-8").partition("# TAO Execution SDK\n")[2]
    names = {f"{path.parent.name}/{path.name}" for path in SNIPPETS}
    assert {name for name in names if f'"{name}"' not in here.replace("HERE / ", "")} == set(
        NOT_RUN
    )
