"""What is sent to a workspace, planned without one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tao_sdk.backends.lepton import render
from tao_sdk.backends.lepton.facts import Group, LeptonFacts, Node, Shape
from tao_sdk.backends.lepton.job import checks
from tao_sdk.backends.lepton.options import LeptonOptions
from tao_sdk.backends.lepton.request import LeptonRequest
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import read_settings
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec

ATTEMPT = Attempt("digits-abcdefghij", 1, "lepton", "team", "0123456789abcdef")
VOLUMES = {"scratch": "/", "filestore": "/", "lustre": "/team"}
GROUPS = (
    Group("group-a", "a", (Node("a1", 8, 8, holders=("other (8)",)), Node("a2", 8, 4)), VOLUMES),
    Group("group-b", "b", (Node("b1", 8, 0), Node("b2", 8, 0))),
)
SHAPES = tuple(
    Shape(name, group.id, gpus, cpus, 1024 * cpus)
    for group in GROUPS
    for name, gpus, cpus in (
        ("cpu.small", 0, 1),
        ("cpu.medium", 0, 2),
        ("cpu.large", 0, 4),
        ("gpu.1x", 1, 12),
        ("gpu.8x", 8, 96),
        ("gpu.8x-large", 8, 128),
    )
)
FACTS = LeptonFacts("team", GROUPS, SHAPES)


def planned(facts: LeptonFacts = FACTS, **spec: Any) -> Plan[LeptonRequest]:
    options = read_settings(LeptonOptions, spec.pop("options", {}))
    job = JobSpec(**{"image": "image:1", "command": "train", **spec})
    return render.plan(PreparedJob(job, job.command), options, facts, ATTEMPT)


def spec_of(plan: Plan[LeptonRequest]) -> dict[str, Any]:
    return plan.request.job["spec"]


def variables_of(plan: Plan[LeptonRequest]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("value_from")) for one in spec_of(plan)["envs"]}


def test_the_name_has_all_of_the_jobs_id_and_as_many_letters_as_a_name_may_have() -> None:
    longest = replace(ATTEMPT, job_id="a" * 17 + "-" + "0" * 10)
    job = JobSpec(image="image:1", command="train")
    plan = render.plan(PreparedJob(job, job.command), LeptonOptions(), FACTS, longest)
    assert plan.request.name == f"tao-job-{longest.job_id}"
    assert len(plan.request.name) == 36


def test_the_workspace_neither_tries_a_job_again_nor_shows_it_to_all() -> None:
    plan = planned()
    spec, metadata = spec_of(plan), plan.request.job["metadata"]
    assert (spec["max_failure_retry"], spec["max_job_failure_retry"]) == (0, 0)
    assert spec["ttl_seconds_after_finished"] == 259_200
    assert spec["log"]["enable_collection"] is True
    assert metadata["visibility"] == "private"
    assert metadata["labels"]["tao-sdk-attempt"] == "1"


@pytest.mark.parametrize(
    ("asked", "shape", "group"),
    [
        ({"gpu_count": 8}, "gpu.8x", "group-b"),  # the freest group, the smallest shape
        ({"gpu_count": 8, "cpus": 100}, "gpu.8x-large", "group-b"),
        ({"gpu_count": 0}, "cpu.medium", "group-b"),
        ({"gpu_count": 1, "options": {"dedicated_node_group": "a"}}, "gpu.1x", "group-a"),
        ({"options": {"resource_shape": "gpu.8x"}}, "gpu.8x", "group-b"),
    ],
)
def test_a_job_gets_the_smallest_shape_with_its_gpus_in_the_freest_group(
    asked: dict[str, Any], shape: str, group: str
) -> None:
    spec = spec_of(planned(**asked))
    assert spec["resource_shape"] == shape
    assert spec["affinity"]["allowed_dedicated_node_groups"] == [group]


FULL = Node("f1", 8, 8)
CRUMBS = tuple(Node(f"c{number}", 8, 6) for number in range(9))


@pytest.mark.parametrize(
    ("groups", "asked", "chosen"),
    [
        (GROUPS, {"mounts": ["lustre/x:/data"]}, ("group-a", 1, "gpu.1x")),
        (GROUPS, {"options": {"volume": "scratch"}}, ("group-a", 1, "gpu.1x")),
        (GROUPS, {"options": {"node_ids": ["a2"]}}, ("group-a", 1, "gpu.1x")),
        (  # 18 free GPUs, of which no node has 8
            (Group("group-a", "a", CRUMBS), Group("group-b", "b", (FULL, Node("b2", 8, 0)))),
            {"gpu_count": 8},
            ("group-b", 1, "gpu.8x"),
        ),
        (  # the smallest shape of each group
            (Group("group-a", "a", (FULL,)), Group("group-c", "c", (Node("c1", 8, 0),))),
            {"gpu_count": 8},
            ("group-c", 1, "gpu.8x-huge"),
        ),
        (  # fewer nodes rather than more room
            (Group("group-a", "a", (FULL,)), Group("group-d", "d", (Node("d1", 4, 0),) * 2)),
            {"gpu_count": 8},
            ("group-a", 1, "gpu.8x"),
        ),
    ],
)
def test_a_job_goes_where_its_volumes_and_nodes_are_and_where_it_fits_now(
    groups: tuple[Group, ...], asked: dict[str, Any], chosen: tuple[str, int, str]
) -> None:
    shapes = (*SHAPES, Shape("gpu.8x-huge", "group-c", 8, 200), Shape("gpu.4x", "group-d", 4, 48))
    decisions = planned(LeptonFacts("team", groups, shapes), **asked).request.decisions
    assert (decisions.group, decisions.nodes, decisions.shape) == chosen


@pytest.mark.parametrize(
    "mount",
    [
        {"from": "node-nfs:lustre", "path": "/", "mount_path": "/data",
         "mount_options": {"read_only": True}},
        {"source": "lustre", "target": "/data", "mode": "RO"},
        {"source": "lustre", "target": "/data", "readonly": True},
    ],
)  # fmt: skip
def test_a_mount_that_is_asked_for_read_only_in_any_form_is_read_only(
    mount: dict[str, object],
) -> None:
    [asked] = spec_of(planned(mounts=[mount], options={"volume": "none"}))["mounts"]
    assert asked["mount_options"] == {"read_only": True}


def test_results_go_to_the_mount_at_their_place_rather_than_to_a_volume_nobody_named() -> None:
    plan = planned(mounts=["scratch/team:/results"])
    assert [mount["mount_path"] for mount in spec_of(plan)["mounts"]] == ["/results"]
    assert plan.results_dir == "/results/digits-abcdefghij"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"gpu_count": 3}, "No resource shape for jobs has exactly 3 GPUs"),
        ({"gpu_count": 1, "memory": "64g"}, "No resource shape with 1 GPUs"),
        ({"options": {"dedicated_node_group": "c"}}, "group-a, group-b"),
        ({"options": {"resource_shape": "gpu.2x"}}, "gpu.1x"),
        ({"gpu_count": 4, "options": {"resource_shape": "gpu.8x"}}, "has 8 GPUs"),
        ({"mounts": ["nothing:/data"]}, "no volume 'nothing'"),
        ({"mounts": ["lustre:/etc/x"]}, "/etc/x"),
        ({"mounts": ["/data:/data"]}, "names no volume"),
        ({"gpu_count": 8, "options": {"node_ids": ["a1", "z9"]}}, "a1, z9"),
        (
            {"mounts": [{"source": "lustre", "target": "/data", "mode": "readonly"}]},
            "names no volume",
        ),
        ({"options": {"volume": "nothing"}}, "no volume 'nothing'"),
        ({"env_vars": {"LEPTON_JOB_NAME": "x"}}, "LEPTON_JOB_NAME"),
        ({"native": {"spec": {"completions": 3}}}, "native.spec.completions"),
        ({"native": {"spec": {"max_job_failure_retry": 3}}}, "spec.max_job_failure_retry"),
    ],
)
def test_what_the_workspace_cannot_do_is_refused_by_name(asked: dict[str, Any], words: str) -> None:
    facts = replace(FACTS, groups=GROUPS[:1]) if "mounts" in asked or "volume" in words else FACTS
    with pytest.raises(SpecError) as refused:
        planned(facts, **asked)
    assert words in str(refused.value)
    assert refused.value.next


def test_results_go_to_the_documents_volume_below_the_path_that_the_caller_may_use() -> None:
    plan = planned(options={"dedicated_node_group": "a"}, mounts=["scratch/mine:/data:ro"])
    assert spec_of(plan)["mounts"] == [
        {
            "path": "/mine",
            "from": "node-nfs:scratch",
            "mount_path": "/data",
            "mount_options": {"read_only": True},
        },
        {"path": "/team", "from": "node-nfs:lustre", "mount_path": "/mnt/lustre"},
    ]
    variables = variables_of(plan)
    assert variables["TAO_RESULTS_ROOT"] == "/mnt/lustre/results"
    assert (
        plan.results_dir == variables["TAO_RESULTS_DIR"] == "/mnt/lustre/results/digits-abcdefghij"
    )


def test_a_bucket_that_the_job_names_goes_before_a_volume_that_nobody_named() -> None:
    plan = planned(options={"dedicated_node_group": "a"}, env_vars={"S3_BUCKET_NAME": "b"})
    assert plan.results_dir == "s3://b/results/digits-abcdefghij"
    assert spec_of(plan)["mounts"] == []


def test_results_that_would_be_lost_are_told() -> None:
    [finding] = [one for one in checks.check(planned(), FACTS) if one.code == "output.ephemeral"]
    assert "mounts: [volume:/results]" in finding.next


def test_several_nodes_meet_at_the_documents_port_and_each_finds_its_rank_itself() -> None:
    plan = planned(gpu_count=8, num_nodes=2)
    spec, variables = spec_of(plan), variables_of(plan)
    assert (spec["completions"], spec["parallelism"], plan.ranks) == (2, 2, 2)
    assert spec["intra_job_communication"] is True
    assert (variables["MASTER_PORT"], variables["NNODES"], variables["WORLD_SIZE"]) == (
        "29400",
        "2",
        "2",
    )
    assert variables["NUM_GPU_PER_NODE"] == "8"
    assert not {"NODE_RANK", "MASTER_ADDR"} & variables.keys()


def test_a_secret_is_a_reference_everywhere() -> None:
    plan = planned(env_vars={"MY_KEY": SecretRef("MY_KEY"), "PLAIN": "text"})
    variables = variables_of(plan)
    assert variables["MY_KEY"] == {"secret_name_ref": "tao-job-digits-abcdefghij-1-1"}
    assert variables["PLAIN"] == "text"
    assert plan.secrets == ("MY_KEY",)


def test_a_long_command_is_given_in_parts_that_linux_takes() -> None:
    text = "echo ü;" * 50_000
    parts = spec_of(planned(command=text))["container"]["command"][4:]
    assert "".join(parts) == text
    assert max(len(part.encode()) for part in parts) < 128 * 1024


def test_a_full_group_is_a_warning_and_one_that_is_too_small_an_error() -> None:
    in_a = {"options": {"dedicated_node_group": "a"}, "gpu_count": 8}
    [busy] = [one for one in checks.check(planned(**in_a), FACTS) if one.code == "lepton.busy"]
    assert "other (8)" in busy.why
    closed = replace(FACTS, groups=(replace(GROUPS[1], nodes=(Node("b1", 8, 0, usable=False),)),))
    [waits] = checks.check(planned(closed, gpu_count=8, options={"volume": "none"}), closed)[:1]
    assert (waits.code, "b1" in waits.why) == ("lepton.busy", True)
    narrow = planned(gpu_count=8, num_nodes=2, options={"node_ids": ["b1"]})
    assert [one.code for one in checks.check(narrow, FACTS)][:1] == ["lepton.no_room"]
    many = planned(**in_a, num_nodes=3)
    [never] = [one for one in checks.check(many, FACTS) if one.code == "lepton.no_room"]
    assert "3 x 8 GPUs" in never.what


def test_a_time_limit_and_shared_memory_are_asked_for() -> None:
    spec = spec_of(planned(time_limit=timedelta(minutes=2), shm_size="8g"))
    assert "tao_limit=120" in spec["container"]["command"][2]
    assert spec["shared_memory_size"] == 8192


def test_a_plan_is_read_again_as_it_was_written() -> None:
    plan = planned(env_vars={"MY_KEY": SecretRef("MY_KEY")})
    assert Plan.from_json(plan.to_json(), ATTEMPT, LeptonRequest.from_json) == plan
