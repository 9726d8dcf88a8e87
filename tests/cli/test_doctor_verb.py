"""`tao doctor`: its exit code and its last line say whether a job could run."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.tao_command import Tao

NO_DOCKER = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}


def test_a_platform_that_nobody_asked_for_may_be_missing(tao: Tao) -> None:
    ran = tao("doctor", **NO_DOCKER)
    assert (ran.code, "docker     error: " in ran.out) == (0, True)
    assert ran.out.splitlines()[-1] == "Jobs can run on: local"
    told = tao("doctor", "--json", **NO_DOCKER)
    assert (told.code, told.json["ready"]) == (0, ["local"])


def test_the_platform_that_is_asked_for_has_to_be_ready(tao: Tao) -> None:
    assert tao("doctor", "docker", **NO_DOCKER).code == 2
    told = tao("doctor", "--platform", "docker", "--json", **NO_DOCKER)
    assert (told.code, told.json["ready"]) == (2, [])
    assert tao("doctor", "local").code == 0


def test_a_job_that_could_not_run_is_not_ready(tao: Tao) -> None:
    tao.write("job.yaml", "command: cat x\ngpu_count: 0\ninputs: {/x: /nowhere/x}\n")
    told = tao("doctor", "job.yaml", "--json")
    assert (told.code, told.json["ready"]) == (2, [])
    assert told.json["findings"][-1]["code"] == "input.missing"


def test_a_platform_that_nobody_knows_is_a_mistake_and_no_finding(tao: Tao) -> None:
    told = tao("doctor", "--json", "dokcer")
    assert (told.code, told.out, told.error["code"], told.error["hint"]) == (
        2,
        "",
        "usage",
        "Did you mean docker?",
    )
    ahead = tao("doctor", "--json", "brev")
    assert (ahead.code, ahead.json["findings"][0]["code"]) == (2, "platform.not_built")


def test_a_smoke_job_is_run_only_where_a_platform_is_named(tao: Tao) -> None:
    told = tao("doctor", "--smoke", "--json")
    assert (told.code, told.error["next"]) == (2, "tao doctor local --smoke")


def test_a_missing_image_is_told_without_asking_the_daemon(tao: Tao) -> None:
    tao.write("job.yaml", "command: nvidia-smi\nplatform: docker\n")
    for verb in ("run", "plan"):
        told = tao(verb, "job.yaml", "--json", **NO_DOCKER)
        assert (told.code, told.error["message"]) == (2, "docker needs an image.")
    told = tao("doctor", "job.yaml", "--json", **NO_DOCKER)
    assert told.code == 2
    assert "docker needs an image." in [each["what"] for each in told.json["findings"]]


def test_a_smoke_job_that_finds_no_driver_gives_advice_for_the_host(
    tao: Tao, tmp_path: Path
) -> None:
    for name in ("sh", "bash", "python3", "env"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    told = tao("doctor", "local", "--smoke", "--json", PATH=str(tmp_path))
    (smoke,) = [each for each in told.json["findings"] if each["code"] == "gpu.smoke"]
    assert told.code == 2
    assert "nvidia-smi" in smoke["what"]
    assert smoke["hint"].startswith("Install the NVIDIA driver on this machine")
