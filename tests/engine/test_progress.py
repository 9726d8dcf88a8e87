"""Progress as the engine reads it: from the log, and from the status file where the log tells nothing."""

from __future__ import annotations

from tao_sdk.client import Client
from tao_sdk.model.spec import JobSpec

SILENT = """
mkdir -p $TAO_RESULTS_DIR/out/train
cd $TAO_RESULTS_DIR/out/train
for e in 1 2 3; do echo '{"epoch": '$e', "max_epoch": 3, "kpi": {"val_accuracy": 0.'$e'}}' >> status.json; done
printf '{"epoch": 4, "max_ep' >> status.json
"""


def test_a_job_that_prints_nothing_is_followed_by_its_status_file(client: Client) -> None:
    job = client.submit(JobSpec(command=SILENT, gpu_count=0), "local").job
    client.wait(job.id, timeout=30)
    progress = client.results(job.id).progress
    assert (progress.epoch, progress.epochs) == (3, 3)
    assert [event.data["epoch"] for event in client.events(job.id) if event.kind == "progress"] == [1, 2, 3]


def test_a_second_look_reads_only_what_is_new(client: Client) -> None:
    job = client.submit(JobSpec(command="echo epoch 1/9 loss 0.5; echo epoch 2/9 loss 0.4", gpu_count=0), "local").job
    client.wait(job.id, timeout=30)
    once = client.refresh_progress(client.get_job(job.id))
    twice = client.refresh_progress(once)
    assert twice.revision == once.revision
    assert [event.data["epoch"] for event in client.events(job.id) if event.kind == "progress"] == [1, 2]
