"""A namespaced service account with the Role of docs/kubernetes.md can do everything that a job needs."""

from __future__ import annotations

import json
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.kubernetes.kube_files import API_PORT, BUSYBOX, PYTHON
from support.kubernetes.kube_here import Cluster
from support.kubernetes.page_roles import role_of_the_page
from support.pages import ROOT
from support.waiting import until
from tao_sdk.backends.kubernetes.cluster import rights
from tao_sdk.backends.kubernetes.look import jobs_path
from tao_sdk.client import Client
from tao_sdk.model.errors import CredentialError, TaoError
from tao_sdk.model.finding import Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.model.status import Status
from tao_sdk.transports.kube import Kube
from tao_sdk.transports.kubeconfig import find_cluster


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
    told = next(each for each in found if "jobs in namespace" in each.what)
    assert told.what.startswith("You may not create, get, list, patch, delete or watch jobs in")
    assert 'resources: ["jobs"], verbs: ["create"]' in told.fix


def test_a_role_without_pods_gets_one_note_of_what_is_missing_and_what_does_not_work(
    namespaced: dict[str, str], cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    namespace = namespaced["TAO_K8S_NAMESPACE"]
    spec = JobSpec(image=BUSYBOX, command="echo hello; sleep 300", gpu_count=0)
    with Client(settings=Settings(namespaced)) as client:
        job = client.submit(spec, "kubernetes").job
        until(lambda: client.get_job(job.id).status is Status.RUNNING)
        role = role_of_the_page()
        role["rules"] = [rule for rule in role["rules"] if "pods" not in str(rule["resources"])]
        cluster.kubectl("apply", "-n", namespace, "-f-", given=json.dumps(role))

        def noted() -> str:
            seen = client.get_job(job.id)
            assert seen.status is Status.RUNNING  # as it was seen last
            return seen.message

        until(lambda: "You may not list pods" in noted())
        assert 'resources: ["pods"], verbs: ["list"]' in noted()
        with pytest.raises(TaoError, match=f"You may not list pods in namespace {namespace}"):
            client.cancel_job(job.id, grace=1)
        notes = [each for each in client.plan(spec, "kubernetes").findings if "pods" in each.what]
        assert [each.severity for each in notes] == [Severity.ERROR]
        assert "list, watch or delete pods or get pods/log" in notes[0].what
        assert "no log can be read" in notes[0].why
        cluster.kubectl("apply", "-n", namespace, "-f-", given=json.dumps(role_of_the_page()))
        until(lambda: client.cancel_job(job.id, grace=1))
        client.remove(job.id)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("rule", "right"),
    [
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}, rights.RUN[6]),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, rights.RUN[6]),
        ({"verbs": ["get"], "apiGroups": ["", "apps"], "resources": ["*/log"]}, rights.RUN[6]),
        (
            {"verbs": ["create", "get"], "apiGroups": ["batch"], "resources": ["jobs"]},
            rights.RUN[0],
        ),
    ],
)
def test_a_rule_grants_what_it_names(rule: dict[str, Any], right: rights.Right) -> None:
    assert rights.grants(rule, right)
    for part in ("verbs", "apiGroups", "resources"):
        assert not rights.grants({**rule, part: ["other"]}, right)
    assert not rights.grants({**rule, "resourceNames": ["one"]}, right)


# In a pod

FOLLOWS_THE_DOCUMENT = f"""\
from tao_sdk.platforms.kubernetes import KubernetesSDK
with KubernetesSDK() as sdk:
    job = sdk.create_job(image="{PYTHON}", command="echo from a pod", gpu_count=0)
    print(sdk.wait(job.id).status, sdk.get_job_logs(job.id), end="")
"""
TAO = "from tao_sdk.cli.start import main; main()"


@pytest.mark.filterwarnings("ignore")
def test_a_pod_whose_account_has_the_role_of_the_page_runs_jobs_without_a_kubeconfig(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    """With this package and what it needs from folders of the node."""
    cluster.make_user(namespace, "submitter", role_of_the_page()["rules"])
    packages = {"/sdk": str(ROOT / "src"), "/needed": sysconfig.get_path("purelib")}
    command = f"python3 -c {shlex.quote(FOLLOWS_THE_DOCUMENT)}; python3 -c {shlex.quote(TAO)} ls"
    spec = JobSpec(
        image=PYTHON,
        command=command,
        gpu_count=0,
        mounts=[f"{path}:{place}:ro" for place, path in packages.items()],
        env_vars={"PYTHONPATH": ":".join(packages), "TAO_K8S_NAMESPACE": namespace, "HOME": "/tmp"},
    )
    job = client.submit(spec, "kubernetes", {"service_account": "submitter"}).job
    ended = client.wait(job.id, timeout=300)
    log = client.get_job_logs(job.id)
    assert ended.status is Status.COMPLETE, log
    assert "Complete from a pod\n" in log
    assert "kubernetes" in log.splitlines()[-1]


def test_a_token_of_a_pod_that_the_cluster_refuses_is_read_again_at_once(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    token, jobs = tmp_path / "token", jobs_path(namespace)
    (tmp_path / "ca.crt").write_bytes((cluster.place.pki / "ca.crt").read_bytes())
    token.write_text("worn-out")
    found = find_cluster([], "", cluster.place.address, str(API_PORT), tmp_path)
    kube = Kube(found, {})
    with pytest.raises(CredentialError, match="refused the pod's token"):
        kube.ask("GET", jobs)
    token.write_text(cluster.make_user(namespace, "caller", role_of_the_page()["rules"]))
    assert kube.ask("GET", jobs)["items"] == []
