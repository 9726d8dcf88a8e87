"""The snippets of the platform's document, as they are written there, and the example, on the real
cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from support.cluster.cluster_here import SHARED, USER, Cluster
from support.cluster.cluster_images import PYTHON, dockerd_here
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused, SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

SNIPPETS = Path(__file__).parents[2] / "documents" / "slurm"
EXAMPLE = dockerd_here.ROOT / "examples" / "digits" / "job.yaml"
EXAMPLES_IMAGE = "nvcr.io+nvidia+tao+tao-toolkit=6.26.3-pyt.sqsh"


def shell(text: str, surroundings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-uc", text], env=surroundings, capture_output=True, text=True, timeout=300
    )


def test_the_preflight_passes_for_who_can_log_in_and_says_what_is_missing_to_others(
    surroundings: dict[str, str],
) -> None:
    preflight = (SNIPPETS / "ssh.sh").read_text()
    passed = shell(preflight, surroundings)
    assert (passed.returncode, passed.stdout) == (0, "")
    stranger = shell(
        preflight, {**surroundings, "SLURM_USER": "stranger", "SLURM_HOSTNAME": "login1,login2"}
    )
    assert (stranger.returncode, stranger.stdout) == (
        1,
        "MISSING: passwordless SSH to stranger@login1 not working. See references/ssh-setup.md.\n",
    )
    unset = shell(preflight, {**surroundings, "SLURM_USER": ""})
    assert unset.stdout.startswith(
        "MISSING: set SLURM_USER and SLURM_HOSTNAME (comma-separated for failover)"
    )


def test_the_documents_look_for_data_sees_what_the_jobs_will_see(
    cluster: Cluster, surroundings: dict[str, str]
) -> None:
    cluster.login(
        f"mkdir -p {SHARED}/data; touch {SHARED}/data/annotations.json "
        f"{SHARED}/data/media_or_archive"
    )
    look = (SNIPPETS / "dataset-paths.sh").read_text()
    for hole, filled in (
        ("<SLURM_USER>", USER),
        ("<working-login-host>", "login1"),
        ("/lustre/...", f"{SHARED}/data"),
    ):
        look = look.replace(hole, filled)
    assert shell(look, surroundings).returncode == 0
    cluster.login(f"rm {SHARED}/data/media_or_archive")
    assert shell(look, surroundings).returncode == 1


def test_the_wall_times_of_the_document_reach_slurm(surroundings: dict[str, str]) -> None:
    ask = (SNIPPETS / "wall-time.sh").read_text() + 'exec "$@"'
    job = Path(surroundings["HOME"]) / "job.yaml"
    job.write_text(f"image: {PYTHON}\ncommand: 'true'\n")
    plan = [
        sys.executable,
        "-m",
        "tao_sdk.cli.main",
        "plan",
        str(job),
        "--platform",
        "slurm",
        "--json",
    ]
    done = subprocess.run(
        ["bash", "-euc", ask, "-", *plan], env=surroundings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "#SBATCH --time=04:00:00" in done.stdout
    assert json.loads(done.stdout)["request"]["parts"]["timeout"] == 13680


def test_the_packaged_partitions_refuse_more_than_their_four_hours(client: Client) -> None:
    spec = JobSpec(image=PYTHON, command="true", gpu_count=0, time_limit=timedelta(hours=12))
    with pytest.raises(SpecError, match="12h is longer than polar, polar3, polar4, grizzly allows"):
        client.plan(spec, "slurm", {"partition": "polar,polar3,polar4,grizzly"})


SDK = """
import json, sys
from tao_sdk.platforms.slurm import SlurmSDK
from tao_sdk.script_runner import build_entrypoint

sdk = SlurmSDK()
entrypoint = build_entrypoint(
    command="cat {config_path}; ls $TAO_API_RESULTS_DIR > /dev/null; echo model > $TAO_RESULTS_DIR/results_dir/model.pth",
    specs={"custom": {"train_dataset": {"annotation_path": sys.argv[2] + "/train.json"}}, "results_dir": ""},
    inputs={"custom.train_dataset.annotation_path": {"type": "file"}},
    outputs={"results_dir": {"type": "folder"}},
    config_format="json",
)
job = sdk.create_job(
    image=sys.argv[1],
    command=entrypoint["command"],
    gpu_count=2,
    num_nodes=1,
    partition="polar,polar3,polar4,grizzly",
    account="taoacct",
)
print(sdk.wait(job.id).status)
print(sdk.get_job_logs(job.id))
print(sdk.get_job_results_dir(job.id))
print(json.dumps(sdk.get_job(job.id).backend_details if hasattr(sdk, "get_job") else job.backend_details))
print(sdk.check_path("lustre://" + sys.argv[2].removeprefix("lustre://") + "/train.json"))
sdk.close()
"""


def test_the_sdk_trains_on_data_of_the_cluster_and_leaves_results_and_metadata_as_documented(
    cluster: Cluster, surroundings: dict[str, str], tmp_path: Path
) -> None:
    cluster.login(f"mkdir -p {SHARED}/set; echo {{}} > {SHARED}/set/train.json")
    argv = [sys.executable, "-c", SDK, PYTHON, f"lustre://{SHARED}/set"]
    done = subprocess.run(
        argv, env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "Complete", done.stdout
    assert f"{SHARED}/set/train.json" in done.stdout
    results = next(line for line in said if line.startswith(f"{SHARED}/results/"))
    assert (cluster.path(results) / "results_dir" / "model.pth").read_text() == "model\n"
    details = json.loads(
        next(line for line in said if line.startswith("{") and "backend_type" in line)
    )
    assert (details["backend_type"], details["partition"]) == (
        "slurm",
        "polar,polar3,polar4,grizzly",
    )
    metadata = details["slurm_metadata"]
    assert metadata["job_dir"] == f"{SHARED}/jobs/{results.rpartition('/')[2]}"
    name = f"{results.rpartition('/')[2]}.1-{metadata['slurm_job_id']}"
    named = cluster.path(metadata["job_dir"]) / "slurm-logs" / name
    assert (named / "main.out").exists()
    assert (named / "main.err").exists()
    assert said[-1] == "True"


def test_results_lie_below_the_root_that_a_job_names_wherever_on_the_cluster_that_is(
    cluster: Cluster, client: Client
) -> None:
    root = cluster.ours / "root"  # not below what is mounted in every job
    root.mkdir(exist_ok=True)
    root.chmod(0o777)
    spec = JobSpec(
        image=PYTHON,
        command="echo $TAO_API_RESULTS_DIR; cat {config_path} > $TAO_RESULTS_DIR/results_dir/seen",
        gpu_count=0,
        specs={"results_dir": ""}, outputs={"results_dir": {"type": "folder"}},
        config_format="json",
        env_vars={"TAO_RESULTS_ROOT": f"lustre://{root}"},
    )  # fmt: skip
    job = client.submit(spec, "slurm").job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE, client.get_job_logs(job.id)
    assert client.get_job_logs(job.id) == f"{root}\n"
    assert json.loads((root / job.id / "results_dir" / "seen").read_text()) == {
        "results_dir": f"{root}/{job.id}/results_dir"
    }


def test_addresses_of_the_cluster_stand_in_the_spec_as_the_paths_that_they_name_declared_or_not(
    cluster: Cluster, client: Client
) -> None:
    elsewhere = cluster.ours / "set"  # not below what is mounted in every job
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / "labels.json").write_text("labels\n")
    cluster.login(f"mkdir -p {SHARED}/set; echo images > {SHARED}/set/images.txt")
    specs = {
        "declared": f"lustre://{SHARED}/set/images.txt",
        "list": [{"images": f"slurm://{SHARED}/set/images.txt"}],
        "other": f"slurm://{SHARED}/set/images.txt",
        "labels": f"lustre://{elsewhere}/labels.json", "note": "lustre:///not/there",
        "out": f"lustre://{SHARED}/fresh/new",
    }  # fmt: skip
    show = (
        "import json, sys; d = json.load(open(sys.argv[1])); print(*(open(d[n]).read() for n in "
        "('labels', 'other')))"
    )
    spec = JobSpec(
        image=PYTHON, gpu_count=0, config_format="json", specs=specs,
        command=f'python3 -c "{show}" {{config_path}}; cat {{config_path}}',
        inputs={"declared": {"type": "file"}, "note": {"type": "text"}},
        outputs={"out": {"type": "folder"}},
    )  # fmt: skip
    job = client.submit(spec, "slurm").job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE, client.get_job_logs(job.id)
    shown, _, written = client.get_job_logs(job.id).partition("{")
    assert shown.split() == ["labels", "images"]
    assert json.loads("{" + written) == {
        "declared": f"{SHARED}/set/images.txt", "list": [{"images": f"{SHARED}/set/images.txt"}],
        "other": f"{SHARED}/set/images.txt",
        "labels": f"{elsewhere}/labels.json", "note": "lustre:///not/there",
        "out": f"{SHARED}/fresh/new",
    }  # fmt: skip
    with pytest.raises(
        Refused, match=r"The value list\[0\].images is not on the cluster: /lustre/nowhere"
    ):
        client.submit(
            JobSpec(command="true", specs={"list": [{"images": "slurm:///lustre/nowhere"}]}),
            "slurm",
        )


@pytest.mark.parametrize(
    "path", ["/home/me/train.json", "file:///home/me/train.json", "data/train.json"]
)
def test_paths_of_the_callers_machine_are_refused_with_what_to_do(
    client: Client, path: str
) -> None:
    spec = JobSpec(
        image=PYTHON,
        command="cat {config_path}",
        gpu_count=0,
        specs={"data": path},
        inputs={"data": {"type": "file"}},
    )
    with pytest.raises((SpecError, Refused)) as refused:
        client.submit(spec, "slurm")
    assert "cluster" in str(refused.value)
    assert client.list_jobs() == []


def test_the_example_trains_on_the_cluster_with_the_unchanged_job_file(
    cluster: Cluster, surroundings: dict[str, str], tmp_path: Path
) -> None:
    cluster.login(f"mkdir -p {SHARED}/images && ln -s {PYTHON} {SHARED}/images/{EXAMPLES_IMAGE}")
    argv = [sys.executable, "-m", "tao_sdk.cli.main", "run", str(EXAMPLE), "--platform", "slurm"]
    done = subprocess.run(
        argv, env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with Client(settings=Settings(surroundings)) as client:
        job = client.list_jobs()[0]
        assert (job.status, client.results(job.id).best is not None) == (Status.COMPLETE, True)
        assert len(list(cluster.path(job.results_dir).rglob("model_epoch_*.npz"))) == 20
