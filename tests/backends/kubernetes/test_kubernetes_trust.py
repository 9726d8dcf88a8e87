"""A kubeconfig without a CA: the server is trusted unseen, or by what this machine trusts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.kubernetes.kube_here import Cluster
from tao_sdk.client import Client
from tao_sdk.model.errors import TaoError
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

SPEC = JobSpec(image="simulated:1", command="true", gpu_count=0)


def kubeconfig_without_ca(cluster: Cluster, namespace: str, path: Path, **more: Any) -> Path:
    config = yaml.safe_load(cluster.write_kubeconfig(path, namespace).read_text())
    for each in config["clusters"]:
        del each["cluster"]["certificate-authority-data"]
        each["cluster"] |= more
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_job_runs_on_a_cluster_without_a_ca_and_another_client_finds_it(
    simulation: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation.simulate_nodes({"trusted-1": {"gpus": 0}})
    namespace = simulation.make_namespace()
    unseen = {"insecure-skip-tls-verify": True}
    blind = kubeconfig_without_ca(simulation, namespace, tmp_path / "blind", **unseen)
    trusting = kubeconfig_without_ca(simulation, namespace, tmp_path / "trusting")

    def client(kubeconfig: Path, state: str) -> Client:
        environ = {"KUBECONFIG": str(kubeconfig), "TAO_K8S_NAMESPACE": namespace}
        environ |= {"HOME": str(tmp_path), "TAO_SDK_STATE_DIR": str(tmp_path / state)}
        return Client(settings=Settings(environ))

    with client(blind, "state") as first:
        job = first.submit(SPEC, "kubernetes").job
    with client(trusting, "other") as stranger, pytest.raises(TaoError, match="certificate"):
        stranger.submit(SPEC, "kubernetes")
    monkeypatch.setenv("SSL_CERT_FILE", str(simulation.place.pki / "ca.crt"))
    with client(trusting, "state") as second:
        assert second.wait(job.id, timeout=300).status is Status.COMPLETE
        own = second.submit(SPEC, "kubernetes").job
        assert second.wait(own.id, timeout=300).status is Status.COMPLETE
    simulation.clear_namespace(namespace)
