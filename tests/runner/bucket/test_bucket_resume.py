"""Another attempt goes on from the checkpoints in the bucket, and from none that is damaged."""

from __future__ import annotations

import json
import time

import pytest

from support.bucket_jobs import KEY, run, start


def attempt(jobs, store, number, command="true", env=None):
    return run(
        jobs,
        store,
        command + "; cat {config_path}",
        {"TAO_ATTEMPT": str(number), **(env or {})},
        specs={"train": {KEY: ""}, "results_dir": ""},
    )


def elsewhere(jobs):
    """The next attempt starts on another machine."""
    jobs.results.rename(jobs.folder / f"lost-{time.monotonic_ns()}")


def resumed_from(ran):
    assert ran.code == 0, ran.raw
    return json.loads(ran.out[ran.out.index(b"{") :])["train"][KEY]


CHECKPOINTS = (
    'for n in 9 1 2; do echo $n > epoch_$n.pth; touch -d "$((20 - n % '
    '9)) min ago" epoch_$n.pth; done'
)


def test_a_new_attempt_elsewhere_goes_on_from_the_newest_complete_checkpoint(jobs, store):
    attempt(jobs, store, 1, CHECKPOINTS)
    elsewhere(jobs)
    ran = attempt(jobs, store, 2)
    path = jobs.results / "results_dir" / "epoch_2.pth"
    assert resumed_from(ran) == str(path)
    assert path.read_text() == "2\n"
    assert set(store.listed()) == {f"results_dir/epoch_{n}.pth" for n in (9, 1, 2)} | {"spec.json"}


def test_a_checkpoint_that_is_damaged_or_was_replaced_in_the_bucket_is_not_used(jobs, minio):
    attempt(jobs, minio, 1, CHECKPOINTS)
    elsewhere(jobs)
    minio.server.s3().put(minio.name, "results/job-1/results_dir/epoch_2.pth", b"X\n")
    assert resumed_from(attempt(jobs, minio, 2)) == str(
        jobs.results / "results_dir" / "epoch_1.pth"
    )


FOLDERS = "; ".join(
    (
        f"mkdir {name}; for n in 1 2 3; do echo {name} $n > {name}/model-$n.safetensors; done; "
        f"touch -d '{age} min ago' {name}/*"
    )
    for name, age in (("checkpoint-900", 9), ("checkpoint-1000", 2))
)


def test_a_checkpoint_that_is_a_folder_comes_back_whole(jobs, store):
    attempt(jobs, store, 1, FOLDERS)
    elsewhere(jobs)
    path = jobs.results / "results_dir" / "checkpoint-1000"
    assert resumed_from(attempt(jobs, store, 2)) == str(path)
    assert {each.name: each.read_text() for each in path.iterdir()} == {
        f"model-{n}.safetensors": f"checkpoint-1000 {n}\n" for n in (1, 2, 3)
    }


@pytest.mark.parametrize("change", ["lost", "replaced"])
def test_a_folder_of_which_a_file_is_missing_or_another_is_not_used(jobs, minio, change):
    """Its runner may have been killed while the folder was on its way."""
    attempt(jobs, minio, 1, FOLDERS)
    elsewhere(jobs)
    key = "results/job-1/results_dir/checkpoint-1000/model-2.safetensors"
    assert minio.server.s3().ask("DELETE", minio.name, key).status == 204
    if change == "replaced":
        minio.server.s3().put(minio.name, key, b"checkpoint-1000 X\n")
    assert resumed_from(attempt(jobs, minio, 2)) == str(
        jobs.results / "results_dir" / "checkpoint-900"
    )


def test_a_folder_that_is_being_written_is_not_vouched_for(jobs, minio, tmp_path, eventually):
    """Its first files stand still for long while the others are still being written."""
    growing = f"while [ ! -e {tmp_path}/stop ]; do echo x >> step_5/b.pt; sleep 0.01; done"
    command = f"{FOLDERS}; mkdir step_5; echo 1 > step_5/a.pt; {growing}"
    job = start(jobs, minio, command, {"TAO_SYNC_SECONDS": "0.2"})
    eventually(
        lambda: (
            "results_dir/step_5/a.pt" in minio.listed() and len(minio.manifest()["folders"]) == 3
        )
    )
    assert minio.manifest()["folders"]["results_dir/step_5"] == [-1, -1]
    assert minio.manifest()["folders"]["results_dir/checkpoint-1000"][0] == 3
    (tmp_path / "stop").write_text("")
    assert job.ended().code == 0
    assert minio.manifest()["folders"]["results_dir/step_5"][0] == 2


def test_a_checkpoint_outlives_an_attempt_that_added_none(jobs, minio):
    attempt(jobs, minio, 1, CHECKPOINTS)
    elsewhere(jobs)
    attempt(jobs, minio, 2, "exit 1")
    elsewhere(jobs)
    assert resumed_from(attempt(jobs, minio, 3)) == str(
        jobs.results / "results_dir" / "epoch_2.pth"
    )


def test_another_jobs_checkpoints_under_the_same_prefix_are_not_resumed_from(jobs, minio):
    specs = {"train": {KEY: ""}, "results_dir": f"s3://{minio.name}/shared"}
    run(jobs, minio, "echo 1 > epoch_1.pth", specs=specs)
    ran = run(jobs, minio, "cat {config_path}", {"TAO_JOB_ID": "job-2"}, specs=specs)
    assert resumed_from(ran) == ""
    elsewhere(jobs)
    assert (
        resumed_from(run(jobs, minio, "cat {config_path}", {"TAO_JOB_ID": "job-2"}, specs=specs))
        == ""
    )


def test_every_attempts_log_is_kept(jobs, minio):
    run(jobs, minio, "echo first")
    elsewhere(jobs)
    run(jobs, minio, "echo second", {"TAO_ATTEMPT": "2"})
    assert minio.read("results/job-1/.tao/job.log") == b"second\n"
    assert minio.read("results/job-1/.tao/job.log.attempt-1") == b"first\n"
