"""Ranks that need each other: a job of which only some find room gives it back, until all do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes import kube_here
from support.kubernetes.kube_api import ApiError
from support.kubernetes.kube_files import PYTHON, Shape
from support.kubernetes.kube_here import Cluster
from support.waiting import until
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.facts import KubernetesFacts
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.look import jobs_path
from tao_sdk.backends.kubernetes.options import KubernetesOptions
from tao_sdk.backends.kubernetes.parse import Object
from tao_sdk.backends.kubernetes.pods import parking
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.transports.kube import MERGE

COMMAND = 'echo "rank $NODE_RANK is here"; exec sleep 600'


class Place:
    """The cluster, as one client sees it. All 8 GPUs are its."""

    def __init__(self, backend: KubernetesBackend) -> None:
        self.backend = backend
        self.refs: list[Ref] = []
        self.plans: dict[str, Any] = {}

    def facts(self, nodes: int, **options: Any) -> KubernetesFacts:
        """Of a job with 4 GPUs on each node."""
        spec = JobSpec(image=PYTHON, command="true", gpu_count=4, num_nodes=nodes)
        return self.backend.survey(PreparedJob(spec, "true"), KubernetesOptions(**options))

    def submit(self, gpus: int, nodes: int, command: str = COMMAND, **options: Any) -> Ref:
        spec = JobSpec(image=PYTHON, command=command, gpu_count=gpus, num_nodes=nodes)
        prepared, given = PreparedJob(spec, command), KubernetesOptions(**options)
        facts = self.backend.survey(prepared, given)
        attempt = Attempt(
            mint_id("gang"), 1, "kubernetes", self.backend.endpoint, "feedfeedfeedfeed"
        )
        plan = self.backend.plan(prepared, given, facts, attempt)
        ref = self.backend.submit(plan, {})
        self.refs.append(ref)
        self.plans[ref.native_id] = plan
        return ref

    def submit_again(self, ref: Ref) -> Ref:
        """As a client does that does not know whether its submit was heard."""
        plan = self.plans[ref.native_id]
        self.backend.submit(plan, {})
        found = self.backend.find(ref.attempt, plan)
        assert found is not None
        return found

    def look_at(self, ref: Ref) -> Observation:
        return self.backend.observe([ref])[ref]

    def runs(self, ref: Ref) -> bool:
        return self.look_at(ref).phase is Phase.RUNNING

    def pods(self, ref: Ref) -> list[Object]:
        return look.pods_of(self.backend.kube, ref.namespace, ref.attempt)

    def first_rank(self, ref: Ref) -> int:
        """The rank that runs."""
        [rank] = [parse.rank_of(pod) for pod in self.pods(ref) if parse.has_begun(pod)]
        return rank

    def park(self, ref: Ref) -> None:
        """Look until the job is suspended and has no pod any more."""
        self.change_timeout(ref, 0.1)
        until(lambda: self.look_at(ref).raw == "Suspended")
        until(lambda: self.pods(ref) == [])
        self.change_timeout(ref, 3600)

    def change_timeout(self, ref: Ref, seconds: float) -> None:
        """As if the job had been submitted with it, so that no test depends on its speed."""
        notes = {"metadata": {"annotations": {names.GANG_TIMEOUT: f"{seconds:g}"}}}
        path = jobs_path(ref.namespace, ref.native_id)
        self.backend.kube.ask("PATCH", path, notes, content_type=MERGE)

    def log(self, ref: Ref, rank: int, cursor: str = "") -> tuple[str, str]:
        """(what is new, the cursor behind it)."""
        chunks = list(self.backend.logs(ref, LogRequest(rank=rank, cursor=cursor)))
        text = b"".join(chunk.data for chunk in chunks).decode()
        return text, chunks[-1].cursor if chunks else cursor


@pytest.fixture
def place(surroundings: dict[str, str], cluster: Cluster, tmp_path: Path) -> Iterator[Place]:
    made = Place(KubernetesBackend(Settings(surroundings), tmp_path / "state"))
    yield made
    for ref in made.refs:
        made.backend.release(ref)
    made.backend.close()


def test_ranks_that_wait_too_long_for_others_give_their_gpus_back_until_all_find_room(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "LONGEST_REST", 0.0)
    monkeypatch.setattr(parking, "NODES_SECONDS", 0.0)
    holder = place.submit(4, 1)
    until(lambda: place.runs(holder))
    older = place.submit(4, 2, gang="wait", gang_timeout=timedelta(hours=1))
    until(lambda: place.look_at(older).reason.startswith("1 of 2 ranks run; Unschedulable"))
    rank = place.first_rank(older)
    said = f"rank {rank} is here\n" if rank == 0 else ""  # other ranks wait for rank 0's name
    until(lambda: place.log(older, rank)[0] == said)

    place.park(older)
    seen = place.look_at(older)
    assert seen.phase is Phase.PENDING
    assert "holds no node until all 2 ranks find room" in seen.reason
    text, cursor = place.log(older, rank)
    assert text == said
    assert place.log(older, rank, cursor) == ("", cursor)
    assert place.submit_again(older).ready  # a submit that was cut short does not resume it
    assert place.look_at(older).raw == "Suspended"

    younger = place.submit(4, 2, gang="wait", gang_timeout=timedelta(hours=1))
    until(lambda: place.look_at(younger).reason.startswith("1 of 2 ranks run"))
    place.park(younger)
    place.backend.release(holder)
    both = [younger, older]
    until(lambda: place.backend.observe(both)[older].phase is Phase.RUNNING)
    again = f"rank {rank} is here\n"
    until(lambda: place.log(older, rank, cursor)[0] == again)
    assert place.log(older, rank)[0] == said + again

    assert place.backend.observe(both)[younger].raw == "Suspended"
    assert place.pods(younger) == []
    place.backend.release(older)
    until(lambda: place.runs(younger))


# Gang schedulers

GATES = {"GenericWorkload": True, "GangScheduling": True, "WorkloadWithJob": True}
OWN_API = "scheduling.k8s.io/v1alpha2"
LIVES = {"simulated/seconds": "600"}


@pytest.fixture
def gated(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Cluster, Place]]:
    """A cluster with Kubernetes' own gang scheduling, and a simulated node of 8 GPUs."""
    with pytest.raises(ApiError, match="404"):  # it is alpha: only its gates open it
        cluster.api.get(f"/apis/{OWN_API}")
    shape = Shape(level="control", feature_gates=GATES, more_apis=(f"{OWN_API}=true",))
    with kube_here.shaped(shape) as found:
        found.simulate_nodes({"big": {"gpus": 8}})
        config = found.write_kubeconfig(tmp_path / "gated", found.make_namespace())
        environ = {"KUBECONFIG": str(config), "TAO_K8S_NAMESPACE": "default"}
        backend = KubernetesBackend(Settings(environ), tmp_path / "gated-state")
        yield found, Place(backend)
        backend.close()


def test_a_gang_scheduler_that_the_cluster_serves_starts_all_ranks_or_none(
    gated: tuple[Cluster, Place],
) -> None:
    cluster, place = gated
    holder = place.submit(4, 1, annotations=LIVES)
    until(lambda: place.runs(holder))
    gang = place.submit(4, 2, annotations=LIVES)
    until(lambda: len(refused(place.pods(gang))) == 2)
    assert place.look_at(gang).reason.startswith("0 of 2 ranks run; ")
    place.backend.release(holder)
    until(lambda: place.runs(gang))

    group = f"/apis/{OWN_API}/namespaces/default/podgroups/{gang.native_id}"
    assert cluster.api.get(group)["metadata"]["ownerReferences"][0]["uid"] == gang.unique_id
    place.backend.release(gang)
    until(lambda: is_gone(cluster, group))

    assert place.facts(2).gang_scheduler == "workload"
    assert place.facts(1).gang_scheduler == ""
    serve_volcano(cluster)
    until(lambda: place.facts(2).gang_scheduler == "volcano")
    waits = place.submit(4, 2)
    group = f"/apis/{VOLCANO_API}/namespaces/default/podgroups/{waits.native_id}"
    assert cluster.api.get(group)["spec"] == {"minMember": 2}
    place.backend.release(waits)
    until(lambda: is_gone(cluster, group))


def refused(pods: list[Object]) -> list[Object]:
    """Those for which the scheduler has found no node."""
    return [pod for pod in pods if parse.readiness_issue(pod)[0] == "Unschedulable"]


def is_gone(cluster: Cluster, path: str) -> bool:
    try:
        cluster.api.get(path)
    except ApiError as error:
        return error.status == 404
    return False


# Volcano's PodGroup as far as a job of ours has to do with it. Volcano itself does not run here.
VOLCANO_API = "scheduling.volcano.sh/v1beta1"
VOLCANO_SPEC = {
    "type": "object",
    "properties": {
        "minMember": {"type": "integer"},
        "priorityClassName": {"type": "string"},
    },
}


def serve_volcano(cluster: Cluster) -> None:
    group, _, version = VOLCANO_API.partition("/")
    names_of_kind = {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"}
    schema = {"type": "object", "properties": {"spec": VOLCANO_SPEC}}
    served = {"name": version, "served": True, "storage": True}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": names_of_kind,
        "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
    }
    body = {"metadata": {"name": f"podgroups.{group}"}, "spec": spec}
    cluster.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
