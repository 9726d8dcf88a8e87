"""`tao plan` of a cluster: YAML documents that kubectl takes, all else as lines of comment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.kubernetes.kube_here import Cluster
from support.tao_command import Ran, Tao

CANARY = "canary-of-a-plan"
PASSWORD = "password-of-a-registry"
COMMAND = "printf 'a\\tb\t$HOME $(date)'\necho \x01 ${TAO_JOB_ID} $$ # ü\n"


@pytest.fixture
def planned(surroundings: dict[str, str], tmp_path: Path) -> Callable[..., Ran]:
    """`tao plan` with a job file of these keys."""

    def plan(*args: str, **keys: Any) -> Ran:
        job = {"image": "tests.local/python:1", "gpu_count": 0, "command": COMMAND, **keys}
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
        tao = Tao(tmp_path)
        own = {**surroundings, "MY_TOKEN": CANARY, "NGC_KEY": PASSWORD}
        return tao("plan", "job.yaml", "--platform", "kubernetes", *args, **own)

    return plan


@pytest.mark.parametrize("command", [COMMAND, f"# {'x' * 2_000_000}\ntrue"])
def test_what_a_plan_prints_is_taken_by_kubectl_and_has_no_secret(
    planned: Callable[..., Ran],
    cluster: Cluster,
    kubeconfig: Path,
    command: str,
) -> None:
    told = planned(
        command=command,
        num_nodes=2,
        env_vars={"MY_TOKEN": CANARY},
        image="nvcr.io/tests/busybox:1",
    )
    assert told.code == 0, told
    documents = [each for each in yaml.safe_load_all(told.out) if each]
    kinds = [each["kind"] for each in documents]
    assert kinds[:2] == ["Secret", "Secret"]
    assert kinds[-2:] == ["Service", "Job"]
    assert kinds.count("ConfigMap") == (3 if len(command) > 100_000 else 0)
    taken = apply(cluster, kubeconfig, told.out)
    assert len(taken.splitlines()) == len(documents)
    for canary in (CANARY, PASSWORD):
        assert canary not in told.out + told.err
    comments = [line for line in told.out.splitlines() if line.startswith("#")]
    assert any("spec" in line and "suspend" in line for line in comments)


def test_a_plan_that_is_applied_runs_the_command_as_it_was_written(
    planned: Callable[..., Ran], cluster: Cluster, kubeconfig: Path
) -> None:
    told = planned()
    *owned, job = [each for each in yaml.safe_load_all(told.out) if each]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][-1].replace("$$", "$") == COMMAND
    assert job["spec"]["suspend"] is bool(owned)
    assert apply(cluster, kubeconfig, told.out)


def test_the_cluster_takes_the_manifests_with_every_option(
    cluster: Cluster, kubeconfig: Path, namespace: str
) -> None:
    manifests = (Path(__file__).parent / "golden" / "every-option.yaml").read_text()
    taken = apply(
        cluster, kubeconfig, manifests.replace("namespace: team", f"namespace: {namespace}")
    )
    assert len(taken.splitlines()) == 3


def apply(cluster: Cluster, kubeconfig: Path, documents: str) -> str:
    words = ["apply", "--server-side", "--dry-run=server", "-f", "-"]
    return cluster.kubectl(*words, given=documents, kubeconfig=kubeconfig)
