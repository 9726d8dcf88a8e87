"""What a job needs on the cluster: paths, mounts and where its results lie."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster.facts_here import (
    ATTEMPT,
    BASE,
    IMAGE,
    facts,
    findings,
    job,
    planned,
)
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.request import SlurmRequest
from tao_sdk.model.errors import SpecError
from tao_sdk.model.plan import Plan

# Data


@pytest.mark.parametrize("uri", ["file:///data/train", "data/train", "./train"])
def test_a_path_of_this_machine_is_refused_with_the_reason(uri: str) -> None:
    with pytest.raises(SpecError, match="path of this machine") as refused:
        planned(job(inputs={"/data": uri}))
    assert "nodes of the cluster cannot read" in refused.value.why
    assert "lustre:///" in refused.value.next


def test_paths_of_the_cluster_are_looked_for_before_the_job_is_handed_over() -> None:
    specs = {"train": {"data": "lustre:///lustre/a/annotations.json",
         "media": "slurm:///lustre/a/videos", "n": 3},
             "model": "/lustre/m.pth", "list": ["lustre:///lustre/b"]}  # fmt: skip
    plan = planned(
        job(
            image=IMAGE,
            specs=specs,
            inputs={"model": {}},
            mounts=["/data/x:/x", "lustre:///data/y:/y:ro"],
        )
    )
    wanted = {each.path: each.what for each in plan.request.decisions.checks}
    assert set(wanted) == {
        "/lustre/a/annotations.json",
        "/lustre/a/videos",
        "/lustre/m.pth",
        "/lustre/b",
        "/data/x",
        "/data/y",
    }
    assert wanted["/lustre/m.pth"] == "The input model"
    assert wanted["/data/y"] == "The mount /y"


def test_a_root_and_the_files_in_it_may_be_named_as_the_document_does() -> None:
    root = planned(job(inputs={"/data/train": "lustre:///lustre/me/model/train"}))
    direct = planned(
        job(specs={"custom": {"train_dataset": {"annotation_path": "lustre:///lustre/train.json"}}})
    )
    assert [each.path for each in root.request.decisions.checks] == ["/lustre/me/model/train"]
    assert [each.path for each in direct.request.decisions.checks] == ["/lustre/train.json"]


def test_of_addresses_in_specs_texts_and_outputs_need_not_be_there_and_of_a_glob_its_folder() -> (
    None
):
    specs = {
        "note": "lustre:///lustre/note",
        "all": "lustre:///lustre/a/*.jpg",
        "out": "lustre:///lustre/out",
        "b": "slurm:///b",
    }
    spec = job(
        image=IMAGE, specs=specs, inputs={"note": {"type": "text"}, "all": {"type": "local_glob"}},
        outputs={"out": {"type": "folder"}},
    )  # fmt: skip
    plan = planned(spec)
    assert [each.path for each in plan.request.decisions.checks] == ["/lustre/a", "/b"]
    assert "/b:/b" in mounted(plan)
    with pytest.raises(SpecError, match="a path has to follow lustre://"):
        planned(job(specs={"data": "lustre://data"}))


@pytest.mark.parametrize(
    "mounts",
    [["./here:/there"], ["~/here:/there"], ["volume:/there"], [{"source": "here", "target": "/x"}]],
)
def test_a_mount_of_this_machine_is_refused(mounts: Any) -> None:
    with pytest.raises(SpecError, match="path of this machine"):
        planned(job(image=IMAGE, mounts=mounts))


@pytest.mark.parametrize(
    "mounts",
    [["/a,b:/c"], [{"source": "/a:b", "target": "/c"}], [{"source": "/a", "target": "/c\nd"}]],
)
def test_a_mount_that_the_list_of_mounts_cannot_hold_is_refused(mounts: Any) -> None:
    with pytest.raises(SpecError):
        planned(job(image=IMAGE, mounts=mounts))


def mounted(plan: Plan[SlurmRequest]) -> str:
    return plan.request.decisions.container.srun


def test_the_jobs_own_mounts_come_beside_the_sites_and_not_instead() -> None:
    assert "/lustre:/lustre" in mounted(planned(job(image=IMAGE)))
    both = mounted(planned(job(image=IMAGE, mounts=["/data:/data:ro"])))
    assert "/data:/data:ro" in both
    assert "/lustre:/lustre" in both


def test_what_the_site_names_is_mounted_and_the_base_and_the_inputs_always_are() -> None:
    seen = facts(Site("/base", mounts="/fast,/slow:/mnt/slow"), base="/base", folders=())
    text = mounted(planned(job(image=IMAGE, inputs={"/in": "lustre:///data/in"}), seen))
    for each in ("/fast:/fast", "/slow:/mnt/slow", "/base:/base", "/data/in:/data/in:ro"):
        assert each in text


def test_a_path_of_the_spec_that_nobody_declares_and_no_mount_holds_is_a_warning() -> None:
    def told(path: str, **more: Any) -> bool:
        return "spec.not_mounted" in findings(
            planned(job(specs={"a": {"b": path}}, **{"image": IMAGE, **more}))
        )

    assert told("/home/me/train.json")
    assert not told("/home/me/train.json", mounts=["/home/me:/home/me"])
    assert not told("/home/me/train.json", image="")
    assert not told("/home/me/train.json", inputs=["a.b"])
    assert not told("/lustre/train.json")
    assert not told("lustre:///home/me/train.json")


def test_an_output_that_would_be_lost_with_the_container_is_a_warning_before_submit() -> None:
    def told(path: str, **more: Any) -> bool:
        spec = job(image=IMAGE, specs={"out": path}, outputs={"out": {"type": "folder"}}, **more)
        return "output.lost" in findings(planned(spec))

    assert told("/workspace/out")
    assert not told("")
    assert not told("/lustre/me/out")
    assert not told("lustre:///lustre/me/out")
    assert not told("/workspace/out", mounts=["/data:/workspace"])
    assert told("/workspace/out", mounts=["/data:/workspace:ro"])


def test_a_results_root_that_nothing_else_mounts_is_mounted() -> None:
    text = mounted(planned(job(image=IMAGE, env_vars={"TAO_RESULTS_ROOT": "/scratch/me"})))
    assert "/scratch/me:/scratch/me" in text


def test_results_lie_below_the_base_directory_unless_a_root_is_named() -> None:
    plan = planned(job())
    assert plan.results_dir == f"{BASE}/results/{ATTEMPT.job_id}"
    told = plan.request.decisions.environment
    assert told["TAO_RESULTS_ROOT"] == told["TAO_API_RESULTS_DIR"] == f"{BASE}/results"
    other = planned(job(env_vars={"TAO_RESULTS_ROOT": "lustre:///lustre/other"}))
    assert other.results_dir == f"/lustre/other/{ATTEMPT.job_id}"
    with pytest.raises(SpecError, match="path of this machine"):
        planned(job(env_vars={"TAO_RESULTS_ROOT": "runs"}))
