"""The snippets of the platform's document, as they are written there, on the real cluster: on a
small image under the documented names, with a program in the place of the trainer, which it lacks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes import kube_here
from support.kubernetes.kube_files import NODE, PYTHON
from support.kubernetes.kube_here import Cluster, namespaced
from support.pages import ROOT
from support.servers import link_here, s3_here
from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.status import Status
from tao_sdk.platforms.kubernetes import KubernetesSDK

SNIPPETS = ROOT / "tests" / "documents" / "kubernetes"
TOOLKIT = "nvcr.io/nvidia/tao/tao-toolkit:6.26.3-pyt"
PYTORCH = "nvcr.io/nvidia/pytorch:25.08-py3"
NGC_KEY = "nvapi-canary-of-the-document"
SAYS_RANK = "echo $NODE_RANK of $NNODES, $NUM_GPU_PER_NODE GPUs, $MASTER_ADDR:$MASTER_PORT"

GPUS = 32  # of the document's largest job

pytestmark = [pytest.mark.network, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def enough_gpus() -> Iterator[None]:
    with kube_here.cluster().offering(GPUS):
        yield


@pytest.fixture
def store() -> s3_here.Server:
    """The bucket that the snippets name, with their data."""
    server = s3_here.versitygw()
    server.bucket("bucket")
    server.s3().put("bucket", "coco/train.json", b'{"images": 3}\n')
    return server


@pytest.fixture
def caller(
    surroundings: dict[str, str],
    cluster: Cluster,
    store: s3_here.Server,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[dict[str, str]]:
    """The environment of who follows the document, which is this process's too."""
    for name in (TOOLKIT, PYTORCH):
        cluster.containerd("images", "tag", "--force", PYTHON, name)
    with link_here.Link(store.address, "-raw", listen=f"{cluster.place.here}:0") as line:
        environ = {
            **surroundings,
            "ACCESS_KEY": s3_here.ACCESS,
            "SECRET_KEY": s3_here.SECRET,
            "S3_ENDPOINT_URL": f"http://{line.address}",
            "S3_BUCKET_NAME": store.bucket(),
            "NGC_KEY": NGC_KEY,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        yield environ


@pytest.fixture
def sdk(caller: dict[str, str]) -> Iterator[KubernetesSDK]:
    with KubernetesSDK() as sdk:
        yield sdk
        remove_jobs(sdk)


def remove_jobs(sdk: KubernetesSDK) -> None:
    for job in sdk.list_jobs(look=False):
        if not job.status.terminal:
            sdk.cancel_job(job.id, grace=1)
        sdk.remove(job.id)


def run(name: str, changes: dict[str, str] | None = None, **given: Any) -> dict[str, Any]:
    """Run a snippet with the names that the text around it has introduced, and with `changes` made
    to its text; what the names are afterwards.
    """
    text = (SNIPPETS / name).read_text(encoding="utf-8")
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    exec(compile(text, name, "exec"), {"os": os, **given}, given)
    return given


def shell(name: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = ["bash", str(SNIPPETS / name)]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=300)


@pytest.fixture
def tao_jobs(cluster: Cluster) -> Iterator[str]:
    """The document's namespace, and a node of the kind that its snippet selects."""
    cluster.make_namespace("tao-jobs")
    cluster.kubectl("label", "--overwrite", "node", NODE, "gpu-type=h100")
    yield "tao-jobs"
    cluster.kubectl("label", "--overwrite", "node", NODE, "gpu-type=pretended")
    cluster.clear_namespace("tao-jobs")


def test_the_sdk_snippet_trains_on_a_gpu_with_its_data_and_its_results_in_the_bucket(
    caller: dict[str, str], cluster: Cluster, tao_jobs: str, store: s3_here.Server
) -> None:
    """The pull secret is made by the document's own command."""
    made = shell("pull-secret.sh", caller)
    assert made.returncode == 0, made.stderr
    program = "cat /data/train.json; echo trained > /results/model.pth; echo dino train"
    names = run("sdk.py", {"dino train": program})
    sdk: KubernetesSDK = names["sdk"]
    job: Job = names["job"]
    with sdk:
        sent = cluster.api.get(f"{namespaced(tao_jobs, 'batch/v1')}/jobs/tao-job-{job.id}")
        pod = sent["spec"]["template"]["spec"]
        assert {"name": "ngc-pull-secret"} in pod["imagePullSecrets"]
        assert pod["nodeSelector"] == {"gpu-type": "h100"}
        assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
        assert NGC_KEY not in json.dumps(sent)
        assert sdk.wait(job.id, timeout=300).status == "Complete", sdk.get_job_logs(job.id)
        log = sdk.get_job_logs(job.id)
        assert '{"images": 3}' in log
        assert "dino train -e /tmp/spec.yaml" in log
        kept = {each.key for each in store.s3().list(caller["S3_BUCKET_NAME"], "")}
        assert any(key.startswith(f"results/{job.id}/") and "model.pth" in key for key in kept)
        remove_jobs(sdk)


@pytest.mark.parametrize(
    ("snippet", "changes", "line"),
    [
        (
            "multi-node.py",
            {"dino train -e": f"cat /data/train.json; {SAYS_RANK}; echo dino train -e"},
            "{rank} of 4, 8 GPUs, {job}-0.{job}:29500",
        ),
        (
            "torchrun.py",
            {"torchrun --nnodes": "echo torchrun --nnodes"},
            "torchrun --nnodes=4 --nproc-per-node=8 --node-rank={rank} "
            "--master-addr={job}-0.{job} --master-port=29500 train.py",
        ),
    ],
)
def test_a_job_of_four_nodes_has_four_ranks_that_know_each_other(
    sdk: KubernetesSDK, snippet: str, changes: dict[str, str], line: str
) -> None:
    """All on the one node of the cluster."""
    job: Job = run(snippet, changes, sdk=sdk)["job"]
    sdk.wait(job.id, timeout=300)
    told = run("status.py", sdk=sdk, job=job)
    assert told["status"].status == "Complete", told["logs"]
    ranks = [line.format(rank=rank, job=f"tao-job-{job.id}") for rank in range(4)]
    assert [each for each in told["logs"].splitlines() if each in ranks] == ranks


def test_cancel_leaves_nothing_on_the_cluster(
    sdk: KubernetesSDK, cluster: Cluster, namespace: str
) -> None:
    job = sdk.create_job(image=TOOLKIT, command="sleep 300", gpu_count=1)
    until(lambda: sdk.get_job(job.id).status is Status.RUNNING)
    run("cancel.py", sdk=sdk, job=job)
    assert run("status.py", sdk=sdk, job=job)["status"].status == "Canceled"
    left = cluster.api.get(f"{namespaced(namespace, 'batch/v1')}/jobs")["items"]
    assert [each for each in left if "deletionTimestamp" not in each["metadata"]] == []


def test_the_preflight_passes_with_a_kubeconfig_and_says_what_is_missing_without(
    caller: dict[str, str],
) -> None:
    passed = shell("reachable.sh", caller)
    assert (passed.returncode, passed.stdout) == (0, ""), passed.stderr
    bare = {name: value for name, value in caller.items() if name != "KUBECONFIG"}
    missing = shell("reachable.sh", bare)
    assert missing.returncode == 1
    assert missing.stdout.startswith("MISSING: no kubeconfig at ~/.kube/config")


def test_the_check_of_the_gpu_operator_only_warns_and_the_doctor_counts_the_gpus(
    caller: dict[str, str], client: Client
) -> None:
    """The snippet's jsonpath does not escape the dot of nvidia.com, so that it sees no GPU of any
    cluster.
    """
    checked = shell("gpu-operator-check.sh", caller)
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.startswith("WARN: no nvidia.com/gpu allocatable on this cluster.")
    told = [each.what for each in client.doctor("kubernetes") if each.code == "kubernetes.gpus"]
    assert told == [f"1 nodes have {GPUS} nvidia.com/gpu."]


def test_what_the_document_has_looked_at_by_hand_is_there(caller: dict[str, str]) -> None:
    looked = shell("by-hand.sh", caller)
    assert looked.returncode == 0, looked.stderr
    assert f"{NODE}   Ready" in looked.stdout
    assert f'"nvidia.com/gpu":"{GPUS}"' in looked.stdout
    assert "Server Version: v1." in looked.stdout
