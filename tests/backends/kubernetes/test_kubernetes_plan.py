"""What is sent to a cluster, planned without one."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tao_sdk.backends.contract import MiB, why_lost
from tao_sdk.backends.kubernetes import render
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.claims.claim_inputs import with_claim_inputs
from tao_sdk.backends.kubernetes.cluster.node_affinity import is_named
from tao_sdk.backends.kubernetes.cluster.survey import only_here_findings
from tao_sdk.backends.kubernetes.facts import KubernetesFacts, Node
from tao_sdk.backends.kubernetes.job import checks, manifests
from tao_sdk.backends.kubernetes.job.documents import plan_documents
from tao_sdk.backends.kubernetes.job.pod_group import collection_path, pod_group_path
from tao_sdk.backends.kubernetes.job.storage import read_mount
from tao_sdk.backends.kubernetes.options import KubernetesOptions
from tao_sdk.backends.kubernetes.pods.files import PodFiles
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.cli.results_text import results_lines
from tao_sdk.client import Results
from tao_sdk.engine.prepare import refuse_too_large
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import read_settings
from tao_sdk.model.finding import Severity
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.progress import Progress
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.payload.prepared_job import pack_spec

ATTEMPT = Attempt("digits-abcdefghij", 1, "kubernetes", "cluster-1", "0123456789abcdef")
GPU = "nvidia.com/gpu"
GOLDEN = Path(__file__).parent / "golden"


def gpu_node(name: str = "a", gpus: int = 8, **more: Any) -> Node:
    has = {GPU: gpus, "cpu": 64, "memory": 2**38}
    return Node(name, {name: count for name, count in has.items() if count}, **more)


FACTS = KubernetesFacts(nodes=(gpu_node(),), cluster="cluster-1")


def planned(
    facts: KubernetesFacts = FACTS, attempt: Attempt = ATTEMPT, **spec: Any
) -> Plan[KubernetesRequest]:
    options = spec.pop("options", {})
    job = JobSpec(**{"image": "image:1", "command": "train", **spec})
    given = read_settings(KubernetesOptions, options)
    return render.plan(PreparedJob(job, job.command), given, facts, attempt)


def pod_of(plan: Plan[KubernetesRequest]) -> dict[str, Any]:
    return plan.request.job["spec"]["template"]["spec"]


def container_of(plan: Plan[KubernetesRequest]) -> dict[str, Any]:
    return pod_of(plan)["containers"][0]


def test_a_job_is_never_started_twice_by_the_cluster() -> None:
    job = planned().request.job
    assert job["metadata"]["name"] == "tao-job-digits-abcdefghij"
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (0, 3600)
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("job", "facts"),
    [
        ({"env_vars": {"MY_TOKEN": SecretRef("MY_TOKEN")}}, FACTS),
        ({"command": "x" * 100_000}, FACTS),
        ({"num_nodes": 2}, FACTS),
        ({"options": {"queue": "team"}}, FACTS),
        ({}, replace(FACTS, pull_registry="nvcr.io")),
    ],
    ids=["secret", "files", "ranks", "queue", "login"],
)
def test_a_job_waits_for_what_its_pods_need_and_runs_at_once_where_that_is_nothing(
    job: dict[str, Any], facts: KubernetesFacts
) -> None:
    assert planned().request.job["spec"]["suspend"] is False
    assert planned(facts, **job).request.job["spec"]["suspend"] is True


def test_a_further_attempt_has_a_name_of_its_own() -> None:
    second = planned(attempt=replace(ATTEMPT, number=2))
    assert second.request.name == "tao-job-digits-abcdefghij-2"


def test_the_command_reaches_the_shell_with_its_dollar_signs() -> None:
    command = container_of(planned(command="echo $HOME $(date) $$"))["command"]
    assert command[:2] == ["/bin/bash", "-c"]
    assert command[-1] == "echo $$HOME $$(date) $$$$"


def test_a_secret_is_named_in_the_job_and_its_value_is_nowhere() -> None:
    plan = planned(env_vars={"MY_TOKEN": SecretRef("MY_TOKEN"), "PLAIN": "$(A)"})
    env = {each["name"]: each for each in container_of(plan)["env"]}
    key = {"name": "tao-job-digits-abcdefghij-env", "key": "MY_TOKEN"}
    assert env["MY_TOKEN"] == {"name": "MY_TOKEN", "valueFrom": {"secretKeyRef": key}}
    assert env["PLAIN"]["value"] == "$$(A)"
    assert plan.secrets == ("MY_TOKEN",)


def test_a_request_is_the_same_after_it_was_stored() -> None:
    request = planned(num_nodes=2, env_vars={"A_KEY": SecretRef("A_KEY")}).request
    stored = json.loads(json.dumps(request.to_json()))
    assert KubernetesRequest.from_json(stored) == request


def test_two_nodes_meet_by_the_name_of_the_first_rank() -> None:
    plan = planned(num_nodes=2, gpu_count=8)
    env = {each["name"]: each.get("value") for each in container_of(plan)["env"]}
    name = plan.request.name
    assert env["MASTER_ADDR"] == f"{name}-0.{name}"
    assert (env["WORLD_SIZE"], env["NNODES"], env["NPROC_PER_NODE"]) == ("2", "2", "8")
    assert plan.request.job["spec"]["completionMode"] == "Indexed"
    assert plan.request.service is not None
    spec = plan.request.service["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert pod_of(plan)["subdomain"] == name
    assert plan.ranks == 2


def test_a_long_command_travels_in_config_maps_that_it_is_put_together_from() -> None:
    command = "#" * (2 * render.PART + 1)
    plan = planned(command=command)
    assert b"".join(file.content for file in plan.files) == command.encode()
    assert plan.request.parts == 3
    sources = next(one for one in pod_of(plan)["volumes"] if one["name"] == "tao-parts")
    names = [each["configMap"]["name"] for each in sources["projected"]["sources"]]
    owner = {"metadata": {**plan.request.job["metadata"], "uid": "u"}}
    made = [manifests.config_map(owner, part, b"")["metadata"]["name"] for part in range(3)]
    assert names == made


def test_a_command_that_is_too_long_for_config_maps_is_refused_with_its_size_and_a_way_out(
    tmp_path: Path,
) -> None:
    backend = KubernetesBackend(Settings({}), tmp_path)
    job = PreparedJob(JobSpec(image="image:1"), "#" * (9 * MiB))
    with pytest.raises(SpecError) as refused:
        refuse_too_large(job, backend)
    assert "9.4 MB with its files and spec; kubernetes takes 8.4 MB" in refused.value.what
    assert "pvc://claim" in refused.value.next
    assert "s3://bucket" in refused.value.next


def test_shared_memory_is_as_asked_or_half_of_the_memory_or_8_gib() -> None:
    sizes = [
        pod_of(planned(**given))["volumes"][0]["emptyDir"]["sizeLimit"]
        for given in ({"shm_size": "1g", "memory": "4g"}, {"memory": "4g"}, {})
    ]
    assert sizes == [str(2**30), str(2**31), str(2**33)]


# Every option, and every kind of mount.
EVERY_OPTION: dict[str, Any] = {
    "namespace": "team",
    "image_pull_secret": "own-login",
    "pull_secret": "none",
    "image_pull_policy": "Always",
    "pull_timeout": "90s",
    "node_selector": {"gpu-type": "h100"},
    "tolerations": [
        "gpu=yes:NoSchedule",
        "spot",
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ],
    "service_account": "trainer",
    "priority_class": "high",
    "resources": {"rdma/ib": "1"},
    "gpu_resource": "nvidia.com/mig-1g.5gb",
    "host_network": True,
    "annotations": {"team/contact": "a b"},
    "queue": "night",
    "gang": "none",
    "ttl": 60,
}
# Have tests of their own: what waits for all ranks, and which cluster is asked.
TESTED_APART = {"gang_timeout", "context"}
EVERY_MOUNT = [
    "pvc://data/coco:/data:ro",
    "configmap://settings:/etc/settings",
    "secret://login:/etc/login",
    "nfs://server/export:/export",
    "/raid:/raid",
]
EVERY_FIELD: dict[str, Any] = {
    "num_nodes": 2,
    "gpu_count": 4,
    "cpus": 1.5,
    "memory": "4g",
    "time_limit": timedelta(minutes=5),
    "env_vars": {"MASTER_PORT": "29511", "MY_TOKEN": SecretRef("MY_TOKEN")},
    "mounts": EVERY_MOUNT,
}


def test_the_manifests_with_every_option_are_as_they_were_read_and_approved() -> None:
    options = {each.name for each in fields(KubernetesOptions)}
    assert options - EVERY_OPTION.keys() == TESTED_APART
    has = {"nvidia.com/mig-1g.5gb": 4, "rdma/ib": 1, "cpu": 64, "memory": 2**38}
    facts = replace(FACTS, nodes=(Node("a", has, labels={"gpu-type": "h100"}),))
    plan = planned(facts, **EVERY_FIELD, options=EVERY_OPTION)
    container_of(plan)["command"][2] = "SCRIPT"
    text = yaml.safe_dump_all(plan_documents(plan).documents, sort_keys=False)
    assert text == (GOLDEN / "every-option.yaml").read_text()


@pytest.mark.parametrize("nodes", [1, 2])
def test_jobs_in_the_network_of_their_nodes_have_each_a_port_of_their_own(nodes: int) -> None:
    def port(attempt: Attempt, **more: Any) -> str:
        container = container_of(planned(attempt=attempt, num_nodes=nodes, **more))
        return next(each["value"] for each in container["env"] if each["name"] == "MASTER_PORT")

    other = replace(ATTEMPT, job_id="digits-abcdefghik")
    shared = {"options": {"host_network": True}}
    assert port(ATTEMPT) == port(other) == "29500"
    assert port(ATTEMPT, **shared) != port(other, **shared)
    assert {int(port(each, **shared)) for each in (ATTEMPT, other)} < set(range(15000, 29000))
    assert port(replace(ATTEMPT, number=2), **shared) == port(ATTEMPT, **shared)
    assert port(ATTEMPT, env_vars={"MASTER_PORT": "29511"}, **shared) == "29511"


def test_native_changes_the_container_by_its_name() -> None:
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "tao", "tty": True}]}}}}
    container = container_of(planned(native=patch))
    assert (container["tty"], container["image"]) == (True, "image:1")


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"name": "other"}},
        {"metadata": {"labels": {"tao-sdk-job-id": "other"}}},
        {"metadata": {"namespace": None}},
        {"spec": {"suspend": False}},
        {"spec": {"suspend": None}},
        {"spec": {"completions": 3}},
        {"spec": {"template": {"metadata": {"labels": {"tao-sdk-attempt": "7"}}}}},
    ],
)
def test_native_cannot_change_how_the_job_is_found_and_started(patch: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="cannot be changed"):
        planned(native=patch)


@pytest.mark.parametrize(
    ("text", "source", "folder", "target", "read_only"),
    [
        ("pvc://data:/data", "data", "", "/data", False),
        ("pvc://data/a/b:/results:ro", "data", "a/b", "/results", True),
        ("secret://login:/etc/login", "login", "", "/etc/login", False),
        ("nfs://server/export/x:/x", "server/export/x", "", "/x", False),
        ("/raid/data:/data:ro", "/raid/data", "", "/data", True),
    ],
)
def test_a_mount_is_read_in_every_form(
    text: str, source: str, folder: str, target: str, read_only: bool
) -> None:
    mount = read_mount(text)
    assert (mount.source, mount.folder, mount.target, mount.read_only) == (
        source,
        folder,
        target,
        read_only,
    )


@pytest.mark.parametrize(
    "text",
    [
        "./data:/data",
        "pvc://data/../x:/data",
        "volume:/data",
        "pvc://data",
        "/data:/dev/shm",
        "/data:/dev/shm/cache",
        "/a:/",
    ],
)
def test_a_mount_that_no_pod_can_have_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(SpecError, match="pvc://claim/folder"):
        planned(mounts=[text])


def test_a_mount_beside_a_folder_of_the_sdk_is_taken() -> None:
    """The folders are refused with what is in them, not what only begins with their names."""
    assert read_mount("/data:/dev/shmoo").target == "/dev/shmoo"


@pytest.mark.parametrize(
    ("mounts", "path", "mounted"),
    [
        (None, "/tao-claims/data/runs/a/m.pth", ["pvc://data:/tao-claims/data:ro"]),
        ("pvc://data/runs:/results", "/results/a/m.pth", "pvc://data/runs:/results"),
        (
            ["pvc://data/other:/results"],
            "/tao-claims/data/runs/a/m.pth",
            ["pvc://data/other:/results", "pvc://data:/tao-claims/data:ro"],
        ),
    ],
)
def test_an_input_on_a_claim_is_a_path_where_the_job_mounts_it_else_on_a_mount_of_its_own(
    mounts: Any, path: str, mounted: Any
) -> None:
    address = "pvc://data/runs/a/m.pth"
    given = with_claim_inputs(JobSpec(inputs={"m.pth": address}, mounts=mounts))
    assert (given.inputs, given.mounts) == ({"m.pth": path}, mounted)
    nested = with_claim_inputs(JobSpec(specs={"train": {"models": [address, 1]}}, mounts=mounts))
    assert nested.specs == {"train": {"models": [path, 1]}}


@pytest.mark.parametrize("address", ["pvc://", "pvc:///runs/a", "pvc://data/../a"])
def test_an_address_that_names_no_file_of_a_claim_is_refused(address: str) -> None:
    with pytest.raises(SpecError, match="pvc://claim/path"):
        with_claim_inputs(JobSpec(inputs={"m.pth": address}))


def test_two_mounts_of_a_claim_are_one_volume() -> None:
    plan = planned(mounts=["pvc://data/a:/results", "/raid:/raid", "pvc://data:/data:ro"])
    used = [each["name"] for each in container_of(plan)["volumeMounts"]]
    assert used == ["tao-shm", "mount-0", "mount-1", "mount-0"]
    assert [each["name"] for each in pod_of(plan)["volumes"]] == ["tao-shm", "mount-0", "mount-1"]


def test_results_on_a_claim_are_named_by_the_claim() -> None:
    plan = planned(mounts=["pvc://data/runs:/results"])
    assert plan.results_dir == "pvc://data/runs/digits-abcdefghij"


def test_results_that_went_with_their_pod_are_told_with_what_would_keep_them() -> None:
    """The words do not ask for what the job did: it wrote to its results folder."""

    def no_reader(address: str) -> Any:
        raise AssertionError(address)

    files = PodFiles(no_reader)
    words = why_lost(files, "/results/digits-abcdefghij")
    assert "in the pod alone" in words
    assert "pvc://claim:/results" in words
    assert why_lost(files, "pvc://data/runs/digits-abcdefghij") == ""
    left = Results("/results/x", (), None, None, Progress(), None, not_kept=words)
    for live in (True, False):
        assert results_lines(left, live) == [words]


@pytest.mark.parametrize(("ttl", "warned"), [(0, True), (59, True), (60, False)])
def test_a_job_that_may_go_before_anybody_looked_is_warned_about(ttl: int, warned: bool) -> None:
    codes = [each.code for each in checks.check(planned(options={"ttl": ttl}), FACTS)]
    assert ("kubernetes.short_ttl" in codes) is warned


def test_results_for_a_bucket_are_there() -> None:
    plan = planned(env_vars={"TAO_RESULTS_ROOT": "s3://bucket/runs"})
    assert (plan.results_dir, plan.results_at) == ("s3://bucket/runs/digits-abcdefghij", "")


def test_results_that_go_with_the_pod_are_warned_about() -> None:
    codes = [each.code for each in checks.check(planned(), FACTS)]
    assert "output.ephemeral" in codes


@pytest.mark.parametrize(
    ("mounts", "input_path", "warned"),
    [(None, "{here}", True), ("/raid:{here}", "{here}", False), (None, "/no/such/file", False)],
)
def test_an_input_that_is_on_this_machine_alone_is_warned_about(
    tmp_path: Path, mounts: str | None, input_path: str, warned: bool
) -> None:
    spec = JobSpec(
        inputs={"m": input_path.format(here=tmp_path)},
        mounts=mounts and mounts.format(here=tmp_path),
    )
    found = list(only_here_findings(pack_spec(spec)))
    assert [each.code for each in found] == ["input.not_mounted"] * warned
    assert all("--files" in each.next and "pvc://claim/path" in each.next for each in found)


def test_a_mounted_folder_of_the_node_is_said_to_be_of_the_node() -> None:
    found = guard(FACTS, mounts=["/data:/data"])["mount.of_node"]
    assert "not from this machine" in found.what
    assert "mount.of_node" not in guard(FACTS, mounts=["pvc://data:/data"])


# Ranks that need each other


@pytest.mark.parametrize(
    ("options", "nodes", "noted"),
    [
        ({"gang": "wait"}, 2, "300"),
        ({"gang": "wait", "gang_timeout": "90s"}, 2, "90"),
        ({"gang": "wait"}, 1, None),
        ({"gang": "none"}, 2, None),
        ({}, 2, None),
    ],
)
def test_a_job_whose_ranks_wait_for_each_other_says_how_long(
    options: dict[str, Any], nodes: int, noted: str | None
) -> None:
    job = planned(num_nodes=nodes, options=options).request.job
    assert job["metadata"]["annotations"].get("tao-sdk/gang-timeout") == noted


def test_a_queue_takes_all_ranks_at_once_and_lets_nobody_else_suspend_the_job() -> None:
    with pytest.raises(SpecError, match="Leave gang out"):
        planned(num_nodes=2, options={"gang": "wait", "queue": "team"})


@pytest.mark.parametrize(
    "facts",
    [
        KubernetesFacts(nodes_unseen="Your role may not list the cluster's nodes."),
        replace(FACTS, use_unseen=True),
    ],
)
def test_a_job_that_nobody_could_resume_is_refused(facts: KubernetesFacts) -> None:
    found = guard(facts, num_nodes=2, options={"gang": "wait"})["kubernetes.gang"]
    assert found.severity is Severity.ERROR
    assert "kubernetes.gang" not in guard(facts, num_nodes=2)


def test_kubernetes_own_gang_scheduling_knows_the_ranks_by_a_group_of_the_jobs_name() -> None:
    request = planned(replace(FACTS, gang_scheduler="workload"), num_nodes=2).request
    assert request.pod_group is not None
    assert request.pod_group["apiVersion"] == "scheduling.k8s.io/v1alpha2"
    assert request.pod_group["metadata"]["name"] == request.name
    assert request.pod_group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
    pod = request.job["spec"]["template"]["spec"]
    assert pod["schedulingGroup"] == {"podGroupName": request.name}


def test_volcano_knows_the_ranks_by_a_group_and_schedules_them() -> None:
    facts = replace(FACTS, gang_scheduler="volcano")
    options = {"priority_class": "high", "annotations": {"a": "b"}}
    request = planned(facts, num_nodes=2, options=options).request
    assert request.pod_group is not None
    assert request.pod_group["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert request.pod_group["spec"] == {"minMember": 2, "priorityClassName": "high"}
    template = request.job["spec"]["template"]
    assert template["spec"]["schedulerName"] == "volcano"
    group = {"scheduling.k8s.io/group-name": request.name}
    assert template["metadata"]["annotations"] == {"a": "b", **group}


@pytest.mark.parametrize(
    ("nodes", "options"), [(1, {}), (2, {"gang": "none"}), (2, {"queue": "team"})]
)
def test_a_gang_scheduler_is_left_out_where_there_is_no_gang(
    nodes: int, options: dict[str, Any]
) -> None:
    facts = replace(FACTS, gang_scheduler="workload")
    request = planned(facts, num_nodes=nodes, options=options).request
    assert request.pod_group is None
    assert "schedulingGroup" not in request.job["spec"]["template"]["spec"]


@pytest.mark.parametrize("scheduler", ["workload", "volcano"])
def test_the_group_of_a_jobs_ranks_goes_with_its_second_job(scheduler: str) -> None:
    plan = planned(replace(FACTS, gang_scheduler=scheduler), num_nodes=2)
    [group] = [each for each in plan_documents(plan).documents if each["kind"] == "PodGroup"]
    assert pod_group_path(plan.request.job) == f"{collection_path(group)}/{plan.request.name}"


def test_a_group_of_the_callers_own_is_not_the_jobs() -> None:
    options = {"annotations": {"scheduling.k8s.io/group-name": "mine"}}
    assert pod_group_path(planned(num_nodes=2, options=options).request.job) == ""


# The guard: what fits nowhere is refused, what has to wait is told


def guard(facts: KubernetesFacts, **spec: Any) -> dict[str, Any]:
    found = checks.check(planned(facts, **spec), facts)
    return {each.code: each for each in found}


def test_a_cluster_without_gpus_refuses_a_job_that_wants_one_in_the_documents_words() -> None:
    found = guard(KubernetesFacts(nodes=(gpu_node(gpus=0),)), gpu_count=1)["gpu.none"]
    assert found.severity is Severity.ERROR
    assert "No nvidia.com/gpu resources allocatable on the cluster" in found.what


def test_a_selector_that_no_node_has_is_refused_with_numbers() -> None:
    facts = KubernetesFacts(nodes=(gpu_node(), gpu_node("b")))
    found = guard(facts, options={"node_selector": {"gpu-type": "h100"}})
    assert "2: is not labelled gpu-type=h100" in found["kubernetes.fits_nowhere"].why


def test_a_taint_is_named_and_a_toleration_lets_the_job_in() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    facts = KubernetesFacts(nodes=(gpu_node(taints=(taint,)),))
    assert "taint team:NoSchedule" in guard(facts)["kubernetes.fits_nowhere"].why
    assert "kubernetes.fits_nowhere" not in guard(
        facts, options={"tolerations": ["team=a:NoSchedule"]}
    )


def test_gpus_in_use_are_a_warning_that_names_who_holds_them() -> None:
    node = gpu_node(used={GPU: 6})
    facts = KubernetesFacts(nodes=(node,), holders={"a": ("team/train-0 (6)",)})
    found = guard(facts, gpu_count=4)["kubernetes.waits"]
    assert found.severity is Severity.WARNING
    assert found.why == "a has 2 of 8 nvidia.com/gpu left, held by team/train-0 (6)"


@pytest.mark.parametrize("state", [{"cordoned": True}, {"ready": False}])
def test_a_node_out_of_order_is_a_warning_and_no_refusal(state: dict[str, bool]) -> None:
    found = guard(KubernetesFacts(nodes=(gpu_node(**state),)))
    assert "kubernetes.waits" in found
    assert "kubernetes.fits_nowhere" not in found


def test_more_pods_than_the_empty_cluster_takes_are_refused() -> None:
    for gpus, nodes in ((8, 2), (16, None)):
        found = guard(FACTS, gpu_count=gpus, num_nodes=nodes)["kubernetes.fits_nowhere"]
        assert "2 pods with 8 GPUs each, and the cluster takes 1 at once" in found.what
        assert "--nodes 1 --gpus 8 (8 GPUs in all)" in found.next


def test_a_role_that_may_not_list_nodes_is_told_that_nothing_was_checked() -> None:
    found = guard(KubernetesFacts(nodes_unseen="Your role may not list the cluster's nodes."))
    assert found["kubernetes.nodes_unseen"].severity is Severity.WARNING


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("term", "named"),
    [
        ({"matchExpressions": [expression("zone", "In", "a", "b")]}, True),
        ({"matchExpressions": [expression("zone", "NotIn", "a")]}, False),
        ({"matchExpressions": [expression("rack", "NotIn", "a")]}, True),
        ({"matchExpressions": [expression("zone", "Exists")]}, True),
        ({"matchExpressions": [expression("zone", "DoesNotExist")]}, False),
        ({"matchExpressions": [expression("disks", "Gt", "3")]}, True),
        ({"matchExpressions": [expression("disks", "Lt", "3")]}, False),
        ({"matchExpressions": [expression("zone", "Gt", "3")]}, False),
        ({"matchFields": [expression("metadata.name", "In", "other")]}, False),
        ({"matchExpressions": [expression("zone", "Of-Later", "z")]}, True),
        ({}, False),
    ],
)
def test_an_affinity_names_nodes_by_their_labels(term: dict[str, Any], named: bool) -> None:
    node = gpu_node(labels={"zone": "a", "disks": "4"})
    assert is_named(node, {"nodeSelectorTerms": [term]}) is named
    assert is_named(node, {})


def test_why_no_node_takes_a_waiting_pod_is_told_in_numbers_and_names() -> None:
    tainted = gpu_node("t", taints=({"key": "team", "effect": "NoSchedule"},))
    busy = gpu_node("b", used={"nvidia.com/gpu": 8})
    facts = KubernetesFacts(
        nodes=(tainted, busy, gpu_node("c", cordoned=True)), holders={"b": ("team/train-0 (8)",)}
    )
    told = checks.room_words(planned(FACTS, gpu_count=4).request.job, facts)
    assert "each pod asks for " in told and "4 of nvidia.com/gpu" in told
    assert "; of 3 nodes 1: has the taint team:NoSchedule; " in told
    assert "b has 0 of 8 nvidia.com/gpu left, held by team/train-0 (8); c is cordoned" in told
