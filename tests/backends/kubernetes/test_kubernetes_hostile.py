"""What a job, an image or a stranger can write into the cluster is never believed as ours, never run,
and never read without end.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.kubernetes.kube_files import BUSYBOX, PYTHON
from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until
from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.parse import LONGEST_WORDS, Seen
from tao_sdk.client import Client
from tao_sdk.engine.replicas import replicas_there
from tao_sdk.model.observation import Phase
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

ENDLESS = "\x1b[31mx" * 200_000
NO_BASH = 'exec: "/bin/bash": stat /bin/bash: no such file or directory'


def job(*conditions: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "tao-job-a", "uid": "u", "annotations": annotations},
        "spec": {"completions": 1},
        "status": {"conditions": list(conditions)},
    }


def pod(state: dict[str, Any], **status: Any) -> dict[str, Any]:
    containers = [{"name": names.CONTAINER, "state": state}]
    return {
        "metadata": {"name": "p", "labels": {}, "annotations": {}},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Failed", "containerStatuses": containers, **status},
    }


FAILED = {"type": "Failed", "status": "True", "reason": "R", "message": ENDLESS}
UNPLACED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "R", "message": ENDLESS}
NOT_BEGUN = {"exitCode": 128, "reason": "StartError", "message": ENDLESS}
WORDY = {
    "a registry": Seen(job(), [pod({"waiting": {"reason": "ErrImagePull", "message": ENDLESS}})]),
    "a scheduler": Seen(job(), [pod({}, conditions=[{**UNPLACED, "message": ENDLESS}])]),
    "a webhook": Seen(job(), [], create_words=ENDLESS),
    "a runtime": Seen(job(FAILED), [pod({"terminated": NOT_BEGUN})]),
    "a node": Seen(job(FAILED), [pod({}, reason="Evicted", message=ENDLESS)]),
    "a drain": Seen(job(FAILED), [pod({}, conditions=[DISRUPTED])]),
    "a controller": Seen(job(FAILED), []),
    "an annotation": Seen(job(**{names.PULL_FAILED: ENDLESS}), []),
}


@pytest.mark.parametrize("who", WORDY)
def test_words_without_an_end_are_cut(who: str) -> None:
    said = parse.observation(WORDY[who])
    assert "x" in said.reason  # they are told
    assert len(said.reason) <= LONGEST_WORDS
    assert len(said.backend_words) <= LONGEST_WORDS


@pytest.mark.parametrize("limit", ["nan", "inf", "1e300", "-1", "x"])
def test_a_note_that_nobody_of_us_writes_is_told_of_that_job_alone(limit: str) -> None:
    noted = job(**{names.PULL_FAILED: "no route", names.PULL_TIMEOUT: limit})
    assert look.parse_safely(Seen(noted, [])).phase in (Phase.FAILED, Phase.UNREACHABLE)


@pytest.mark.parametrize("rank", ["²", "9" * 5000, "-1", "1e9", "", "0x1"])
def test_a_rank_that_is_no_number_is_rank_0(rank: str) -> None:
    told = pod({})
    told["metadata"]["annotations"][names.RANK] = rank
    assert parse.rank_of(told) == 0


def test_a_program_that_prints_the_words_of_a_runtime_has_failed_by_itself() -> None:
    """Its last words are the message of its end: a Job without bash would be started anew."""
    state = {"terminated": {"exitCode": 128, "reason": "Error", "message": NO_BASH}}
    seen = Seen(job(FAILED), [pod(state)])
    assert not parse.lacks_bash(seen)
    said = parse.observation(seen)
    assert (said.phase, said.reason_code) == (Phase.FAILED, Reason.EXIT_CODE)


def test_the_words_of_a_job_without_bash_start_nothing_anew() -> None:
    state = {"waiting": {"reason": "ErrImagePull", "message": parse.NO_BASH}}
    seen = Seen(job(), [pod(state)])
    assert not parse.lacks_bash(seen)
    assert not parse.waits_for_let_go(seen.job)


def test_a_strangers_pod_with_our_labels_is_no_rank_of_the_job(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    spec = JobSpec(image=PYTHON, command="echo the truth; sleep 300", gpu_count=0)
    ours = client.submit(spec, "kubernetes").job
    until(lambda: client.get_job(ours.id).status is Status.RUNNING)
    pods = f"{namespaced(namespace)}/pods"
    [own] = cluster.api.get(f"{pods}?labelSelector=tao-sdk-job-id={ours.id}")["items"]
    container = {"name": names.CONTAINER, "image": BUSYBOX, "command": ["echo", "a lie"]}
    labels = own["metadata"]["labels"]
    ours_alone = {name: value for name, value in labels.items() if name.startswith("tao-")}
    stranger = {
        "metadata": {"name": "stranger", "labels": ours_alone},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    cluster.api.create(pods, stranger)
    until(lambda: cluster.api.get(f"{pods}/stranger")["status"]["phase"] == "Succeeded")
    assert client.get_job(ours.id).status is Status.RUNNING
    until(lambda: client.get_job_logs(ours.id) == "the truth\n")
    assert b"".join(client.follow_logs(ours.id, follow=False)) == b"the truth\n"
    replicas = replicas_there(client.engine, client.get_job(ours.id))
    assert [each.name for each in replicas] == [own["metadata"]["name"]]
    assert client.cancel_job(ours.id, grace=1)
    assert cluster.api.get(f"{pods}/stranger")["status"]["phase"] == "Succeeded"
