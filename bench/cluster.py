"""Cluster: a real Kubernetes cluster for the bench, a client of ours on it, and what anybody else
does there, through the API or with kubectl.

The cluster is the tests' own; see tests/support/kubernetes/kube_here.py.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.bare_requests import BareApi
from bench.contenders import Missing, ours
from bench.folder import ROOT
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec

if TYPE_CHECKING:
    from support.kubernetes.kube_files import Place

IMAGE = "tests.local/python:1"  # a Debian with bash and python3
USER = "bench"
LOG_SIZE = "400Mi"  # a node writes half a line more before each line of a log
PATIENCE_SECONDS = 300
AT_ONCE = 100  # objects that one request deletes: the server gives up a longer one


@contextmanager
def cluster_here() -> Generator[Place]:
    """The cluster of the test that runs the bench, else one of its own. Raises Missing where none
    can be started.
    """
    sys.path.append(str(ROOT / "tests"))
    import pytest

    from support.kubernetes import kube_here
    from support.kubernetes.kube_files import Shape

    if kube_here.VARIABLE in os.environ:
        yield kube_here.place()
        return
    with ExitStack() as stack:
        try:
            here = stack.enter_context(kube_here.shaped(Shape(log_max_size=LOG_SIZE)))
            here.has_python_image()
        except (pytest.skip.Exception, pytest.fail.Exception) as reason:
            raise Missing(str(reason)) from reason
        yield here.place


class Cluster:
    """A namespace of the cluster, with a user whose requests can be counted. It is removed at the
    end.
    """

    def __init__(self, place: Place, folder: Path) -> None:
        from support.kubernetes import kube_files, programs
        from support.kubernetes.authority import Authority

        self.place, self.folder = place, folder
        authority = Authority(place.pki)
        authority.issue(USER, f"/O=system:masters/CN={USER}")
        self.api = BareApi(place.server, place.pki, USER)
        made = self.api.ask("POST", "/api/v1/namespaces", {"metadata": {"generateName": "bench-"}})
        self.namespace: str = made["metadata"]["name"]
        self.core = f"/api/v1/namespaces/{self.namespace}"
        self.jobs = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        user = authority.certificate_user(USER)
        self.kubeconfig = authority.write_kubeconfig(
            folder / "kubeconfig", place.server, user, self.namespace
        )
        self.kubectl = str(programs.programs() / "kubectl")
        self.audit_log = kube_files.audit_log(place)
        self.environ = {"KUBECONFIG": str(self.kubeconfig), "TAO_K8S_NAMESPACE": self.namespace}
        self.client = self.open_client("state")

    def __enter__(self) -> Cluster:
        self.wait_for(lambda: self.api.get(f"{self.core}/serviceaccounts")["items"])
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.clear()
        self.api.ask("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def state_file(self, name: str) -> Path:
        return self.folder / name / "jobs.db"

    def open_client(self, name: str) -> Client:
        """A client with a store of its own."""
        environ = {**ours().variables(), **self.environ}
        return Client(self.state_file(name), settings=Settings(environ))

    def clear(self) -> None:
        """Remove all Jobs, and wait until their pods are gone."""
        for path, policy in ((self.jobs, "Background"), (f"{self.core}/pods", None)):
            options = {"gracePeriodSeconds": 0, "propagationPolicy": policy}
            while self.api.get(f"{path}?limit=1")["items"]:
                self.api.ask("DELETE", f"{path}?limit={AT_ONCE}", options)
        self.wait_for(lambda: not self.api.get(f"{self.core}/pods")["items"])

    # What runs there

    def submit(self, command: str, **more: Any) -> Job:
        spec = JobSpec(name="bench", image=IMAGE, command=command, gpu_count=0, **more)
        return self.client.submit(spec, "kubernetes").job

    def wait_for_end(self, job_id: str) -> None:
        """Until it has ended well. Our client does not hear of it, and keeps nothing of its log."""
        path = f"{self.jobs}/tao-job-{job_id}"
        self.wait_for(lambda: self.api.get(path)["status"].get("succeeded"))

    def wait_for_line(self, job_id: str, line: str) -> None:
        self.wait_for(lambda: line in self.client.get_job_logs(job_id))

    def wait_for(self, condition: Callable[[], Any]) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > give_up:
                raise TimeoutError("The cluster did not do it.")
            time.sleep(0.05)

    # What is asked

    def requests_of(self, action: Callable[[], object]) -> list[str]:
        """What the bench's user asks meanwhile, as the API server's audit log tells."""
        size, began = self.audit_log.stat().st_size, datetime.now(timezone.utc)
        action()
        with self.audit_log.open("rb") as file:
            file.seek(size)
            told = [json.loads(line) for line in file]
        own = [event for event in told if is_asked_by(USER, began, event)]
        return list({event["auditID"]: asked(event) for event in own}.values())


def is_asked_by(user: str, began: datetime, event: Mapping[str, Any]) -> bool:
    """A watch that was begun earlier is told of when it ends."""
    received = datetime.fromisoformat(event["requestReceivedTimestamp"].replace("Z", "+00:00"))
    return event["user"]["username"] == user and received >= began


def asked(event: Mapping[str, Any]) -> str:
    return f"{event['verb']} {event['requestURI']}"


def beside_logs(requests: list[str]) -> list[str]:
    return [request for request in requests if "/log?" not in request]
