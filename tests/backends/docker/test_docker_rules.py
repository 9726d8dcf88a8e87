"""Why a container failed, by what the real daemon and the command in it say."""

from __future__ import annotations

import dockerd_here
import pytest
from dockerd_here import PYTHON, Daemon

from tao_sdk.backends.docker import rules
from tao_sdk.client import Client
from tao_sdk.model.diagnosis import Evidence
from tao_sdk.model.errors import Refused
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

FAILURES = [
    ("exit 125", 125, "docker.daemon_failed"),
    ("touch /f; /f", 126, "not_executable"),
    ("no-such-program", 127, "command_not_found"),
    ("kill -SEGV $$", 139, "signal"),
    ("kill -TERM $$", 143, "docker.stopped_outside"),
    ("kill -KILL $$", 137, "killed"),
    ("cat /data/missing.txt", 1, "docker.path_not_mounted"),
    ("python3 -c \"open('/data/missing')\"", 1, "docker.path_not_mounted"),
    ("dd if=/dev/zero of=/dev/shm/x bs=1M count=40", 1, "docker.shm_too_small"),
    (
        "echo 'RuntimeError: The NVIDIA driver on your system is too old (11040)'; exit 1",
        1,
        "docker.driver_too_old",
    ),
]


def test_every_end_has_its_rule(client: Client) -> None:
    jobs = [
        client.submit(JobSpec(image=PYTHON, command=command, gpu_count=0, shm_size="8m"), "docker").job
        for command, _, _ in FAILURES
    ]
    ended = client.wait_all([job.id for job in jobs], timeout=60)
    found = [(job.exit_code, client.diagnose(job.id).rule) for job in ended]  # pyright: ignore
    assert found == [(code, rule) for _, code, rule in FAILURES]


def test_a_missing_entrypoint_is_explained(client: Client, here: Daemon) -> None:
    change = 'ENTRYPOINT ["/no/entrypoint"]'
    here.docker("import", "--change", change, str(dockerd_here.busybox_root()), "tao-test-entrypoint")
    try:
        job = client.submit(JobSpec(image="tao-test-entrypoint", command="true", gpu_count=0), "docker").job
        client.wait(job.id, timeout=60)
        assert client.get_job(job.id).status is Status.ERROR
        assert client.diagnose(job.id).rule == "docker.no_shell"  # pyright: ignore[reportOptionalMemberAccess]
    except Refused as refused:
        assert refused.code == "docker.entrypoint_missing"


# What the daemon said, word for word: Docker 20.10.24; the GPU runtime's line is its documents'.
WORDS = [
    ('could not select device driver "" with capabilities: [[gpu]]', "docker.no_gpu_runtime"),
    ("network tao_default is ambiguous (4 matches found on name)", "docker.network_missing"),
    ("network nowhere not found", "docker.network_missing"),
    ("Get https://10.213.7.1:5/v2/x/manifests/1: no basic auth credentials", "docker.pull_unauthorized"),
    ("Get https://localhost:1/v2/: dial tcp 127.0.0.1:1: connect: connection refused", "docker.registry_unreachable"),
    (
        "manifest for 10.213.7.1:5/team/nothing:1 not found: manifest unknown: manifest unknown",
        "docker.image_not_found",
    ),
    ("write /var/lib/docker/tmp/x: no space left on device", "docker.no_space"),
    ("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4", "docker.driver_too_old"),
]


@pytest.mark.parametrize(("words", "rule"), WORDS)
def test_what_the_daemon_says_finds_its_rule(words: str, rule: str) -> None:
    assert rules.refused(words).code == rule
    found = rules.diagnose(Evidence(phase="failed", reason=words))
    assert found is not None
    assert found.rule == rule
    assert found.suggestion


def test_words_that_nobody_knows_are_passed_on() -> None:
    assert rules.refused("the moon is full").what == "the moon is full"
