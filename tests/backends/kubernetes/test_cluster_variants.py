"""The tests' own cluster as other sites have it: few rights, quotas, a private registry, long logs,
a node that fails.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes import kube_files, kube_here, kube_images
from support.kubernetes.kube_api import Api, ApiError
from support.kubernetes.kube_files import Shape
from support.kubernetes.kube_here import Cluster, namespaced
from support.kubernetes.kube_jobs import end, job, printed, start, until_pods_are_refused
from support.waiting import LIMIT_SECONDS, until


def events(cluster: Cluster, namespace: str, reason: str) -> str:
    """The messages of a namespace's events for this reason, once there is one."""
    found = cluster.wait_for(
        lambda: [
            event["message"]
            for event in cluster.api.get(f"{namespaced(namespace)}/events")["items"]
            if event["reason"] == reason
        ]
    )
    return "\n".join(found)


def test_a_role_lets_a_service_account_do_what_it_says_in_its_namespace(
    cluster: Cluster, namespace: str
) -> None:
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get"]}]
    token = cluster.make_user(namespace, "submitter", rules)
    submitter = Api(cluster.place.server, cluster.place.pki, token=token)
    jobs = f"{namespaced(namespace, 'batch/v1')}/jobs"
    submitter.create(jobs, job("one", "true"))
    assert submitter.get(f"{jobs}/one")["metadata"]["name"] == "one"
    for path in (jobs, f"{namespaced('default', 'batch/v1')}/jobs/one"):
        with pytest.raises(ApiError, match="403"):
            submitter.get(path)


def test_a_quota_of_pods_lets_a_job_in_and_refuses_its_pods(
    cluster: Cluster, namespace: str
) -> None:
    quota = {"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}}
    cluster.api.create(f"{namespaced(namespace)}/resourcequotas", quota)
    until_pods_are_refused(cluster, namespace, "exceeded quota", job("one", "true"))
    start(cluster, namespace, job("one", "true"))
    assert "exceeded quota: no-pods" in events(cluster, namespace, "FailedCreate")


def test_a_limit_range_refuses_a_pod_that_wants_more(cluster: Cluster, namespace: str) -> None:
    limit = {"type": "Container", "max": {"memory": "64Mi"}}
    ranges = {"metadata": {"name": "small"}, "spec": {"limits": [limit]}}
    cluster.api.create(f"{namespaced(namespace)}/limitranges", ranges)
    wants = {"resources": {"limits": {"memory": "1Gi"}}}
    too_large = job("one", "true", main=wants)
    until_pods_are_refused(cluster, namespace, "maximum memory usage", too_large)
    start(cluster, namespace, too_large)
    assert "maximum memory usage" in events(cluster, namespace, "FailedCreate")


def pull_secret(password: str) -> dict[str, Any]:
    """The Secret of a login to nvcr.io, which is the tests' registry."""
    login = base64.b64encode(f"{kube_images.REGISTRY_USER}:{password}".encode()).decode()
    config = json.dumps({"auths": {"nvcr.io": {"auth": login}}})
    return {
        "metadata": {"name": "login"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()},
    }


def test_a_private_image_is_pulled_with_the_right_password_alone(
    cluster: Cluster, namespace: str
) -> None:
    kube_images.registry(cluster)
    image = f"nvcr.io/{kube_images.PULLED}"
    start(cluster, namespace, job("nobody", "true", image=image))
    assert "401 Unauthorized" in events(cluster, namespace, "Failed")
    secret = pull_secret(kube_images.REGISTRY_PASSWORD)
    cluster.api.create(f"{namespaced(namespace)}/secrets", secret)
    manifest = job("somebody", "true", image=image, imagePullSecrets=[{"name": "login"}])
    assert end(cluster, start(cluster, namespace, manifest)) == "Complete"


def test_a_log_is_rotated_at_ten_mebibytes_and_its_begin_is_served_no_more(
    cluster: Cluster, namespace: str
) -> None:
    script = "echo begin; yes $(printf %01000d 0) | head -c 12000000; sleep 600"
    start(cluster, namespace, job("loud", "sh", "-c", script))
    cluster.wait_for(lambda: printed(cluster, namespace, "loud").startswith("begin\n"))
    cluster.wait_for(lambda: not printed(cluster, namespace, "loud").startswith("begin\n"))
    assert len(printed(cluster, namespace, "loud")) < 12_000_000


def test_pods_reach_a_server_of_this_computer(cluster: Cluster, namespace: str) -> None:
    """By the address of this computer's end of the line, such as that of an S3 server."""
    with socket.create_server((cluster.place.here, 0)) as server:
        port = str(server.getsockname()[1])
        path = start(cluster, namespace, job("calls", "nc", "-w", "60", cluster.place.here, port))
        server.settimeout(LIMIT_SECONDS)
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"welcome\n")
    assert end(cluster, path) == "Complete"
    assert printed(cluster, namespace, "calls") == "welcome\n"


def test_a_node_that_hangs_is_not_ready_and_comes_back(cluster: Cluster) -> None:
    with cluster.hung("kubelet"):
        cluster.wait_for(lambda: not cluster.is_ready(kube_files.NODE))
    cluster.wait_for(lambda: cluster.is_ready(kube_files.NODE))


def test_the_api_server_starts_again_and_knows_its_objects(
    cluster: Cluster, namespace: str
) -> None:
    jobs = start(cluster, namespace, job("one", "sleep", "5"))
    cluster.restart_api_server()
    assert end(cluster, jobs) == "Complete"


def test_the_audit_log_has_each_request_and_no_body(cluster: Cluster, namespace: str) -> None:
    data = {"password": base64.b64encode(b"canary-in-a-secret").decode()}
    secrets = f"{namespaced(namespace)}/secrets"
    cluster.api.create(secrets, {"metadata": {"name": "kept"}, "data": data})
    lines = cluster.wait_for(lambda: [line for line in cluster.audit() if secrets in line])
    assert '"verb":"create"' in lines[0]
    assert data["password"] not in "".join(cluster.audit())


SESSION = """\
from support.kubernetes import kube_here
from support.kubernetes.kube_files import Shape
here = kube_here.start_cluster(Shape(level="api"))
print(here.first_process, flush=True)
input()
"""


@pytest.mark.usefixtures("cluster")  # clusters can be here
def test_a_cluster_ends_when_its_session_is_killed_and_the_next_one_starts() -> None:
    environ = {**os.environ, "PYTHONPATH": kube_here.PYTHON_PATH}
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION],
        env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with session:
        assert session.stdout
        first_process = session.stdout.readline().strip()
        session.kill()
    until(lambda: not Path("/proc", first_process).exists())
    with kube_here.shaped(Shape(level="api")) as following:
        assert following.api.read("/readyz") == b"ok"
