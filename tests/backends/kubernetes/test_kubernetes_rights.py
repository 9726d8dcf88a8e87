"""A namespaced service account with the Role of docs/kubernetes.md can do everything that a job needs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.kubernetes.kube_files import BUSYBOX, PYTHON
from support.pages import ROOT
from support.waiting import until
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.model.status import Status

PAGE = ROOT / "docs" / "kubernetes.md"


def role_of_the_page() -> dict[str, Any]:
    block = PAGE.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    return yaml.safe_load(block)


@pytest.fixture
def namespaced(
    kubeconfig: Path, surroundings: dict[str, str], tmp_path: Path
) -> Iterator[dict[str, str]]:
    """The surroundings of a caller who may do in one namespace what the page's Role says."""
    namespace = mint_id("rights")

    def kubectl(*words: str, text: str = "") -> str:
        command = ["kubectl", f"--kubeconfig={kubeconfig}", *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return done.stdout

    kubectl(
        "apply",
        "-f-",
        text=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
    )
    kubectl("apply", "-n", namespace, "-f-", text=json.dumps(role_of_the_page()))
    kubectl("create", "-n", namespace, "serviceaccount", "caller")
    kubectl(
        "create",
        "-n",
        namespace,
        "rolebinding",
        "tao",
        "--role=tao",
        f"--serviceaccount={namespace}:caller",
    )
    config = yaml.safe_load(kubeconfig.read_text())
    token = kubectl("create", "-n", namespace, "token", "caller").strip()
    for user in config["users"]:
        user["user"] = {"token": token}
    (tmp_path / "namespaced").write_text(json.dumps(config))
    yield {
        **surroundings,
        "KUBECONFIG": str(tmp_path / "namespaced"),
        "TAO_K8S_NAMESPACE": namespace,
    }
    kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.mark.parametrize("image", [PYTHON, BUSYBOX])
def test_the_role_of_the_page_lets_jobs_run_and_be_canceled(
    namespaced: dict[str, str], image: str
) -> None:
    with Client(settings=Settings(namespaced)) as client:
        spec = JobSpec(
            image=image,
            command=f"# {'x' * 100_000}\necho rank $NODE_RANK $MY_TOKEN",
            gpu_count=1,
            num_nodes=2,
            env_vars={"MY_TOKEN": "value-of-a-token"},
        )
        submission = client.submit(spec, "kubernetes")
        assert [each.code for each in submission.findings] == [
            "kubernetes.nodes_unseen",
            "output.ephemeral",
        ]
        assert client.wait(submission.job.id, timeout=300).status is Status.COMPLETE
        assert b"rank 0" in b"".join(client.follow_logs(submission.job.id, follow=False))
        waits = client.submit(
            JobSpec(image=image, command="sleep 300", gpu_count=0), "kubernetes"
        ).job
        until(lambda: client.get_job(waits.id).status is Status.RUNNING)
        assert client.cancel_job(waits.id, grace=1)
        for job in (submission.job, waits):
            client.remove(job.id)


def test_a_missing_right_is_named_with_the_rule_that_grants_it(
    namespaced: dict[str, str], kubeconfig: Path
) -> None:
    subprocess.run(
        ["kubectl", f"--kubeconfig={kubeconfig}", "delete", "-n", namespaced["TAO_K8S_NAMESPACE"], "rolebinding", "tao"],
        check=True, capture_output=True,
    )  # fmt: skip
    with Client(settings=Settings(namespaced)) as client:
        found = client.plan(
            JobSpec(image="a:1", command="true", gpu_count=0), "kubernetes"
        ).findings
    told = next(each for each in found if "create jobs" in each.what)
    assert 'resources: ["jobs"], verbs: ["create"]' in told.fix
