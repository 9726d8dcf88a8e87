"""Each finding of a doctor that is not good news says what to do: a command that runs as it stands,
or a hint in words.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.advice import check_advice
from support.cluster.facts_here import facts, partition
from tao_sdk.backends.docker.daemon import doctor as docker_doctor
from tao_sdk.backends.docker.daemon.address import find_address
from tao_sdk.backends.slurm.cluster import doctor as slurm_doctor
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.client import Client
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings


def settings(home: Path, **environ: str) -> Settings:
    return Settings({"HOME": str(home), "TAO_SDK_STATE_DIR": str(home / "state"), **environ})


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("programs", "wrong"),
    [
        ({}, {"local.python", "local.gpu"}),
        ({"python3": "echo 3.7.1", "nvidia-smi": "exit 9"}, {"local.python", "local.gpu"}),
        ({"python3": "exit 1"}, {"local.python", "local.gpu"}),
    ],
    ids=["bare", "broken", "python"],
)
def test_local(tmp_path: Path, programs: dict[str, str], wrong: set[str]) -> None:
    for name, text in programs.items():
        program(tmp_path / "bin", name, text)
    with Client(settings=settings(tmp_path, PATH=str(tmp_path / "bin"))) as client:
        found = client.doctor("local")
    assert wrong <= {each.code for each in found if each.severity is not Severity.OK}
    check_advice(found)


def test_docker(tmp_path: Path) -> None:
    remote = settings(tmp_path, DOCKER_HOST="tcp://10.1.2.3:2375", ACCESS_KEY="a")
    found: list[Finding] = [
        *docker_doctor.credential_findings(remote),
        *docker_doctor.connection_findings(find_address(remote)),
        *docker_doctor.network_findings(settings(tmp_path, DOCKER_NETWORK="my net"), []),
    ]
    codes = {each.code for each in found if each.severity is not Severity.OK}
    assert {"credentials.ngc", "credentials.s3", "docker.open_line", "docker.network"} <= codes
    check_advice(found)


@pytest.mark.parametrize(
    "host", ["tcp://127.0.0.1:9", "unix:///nowhere/docker.sock"], ids=["remote", "here"]
)
def test_docker_that_does_not_answer(tmp_path: Path, host: str) -> None:
    with Client(settings=settings(tmp_path, DOCKER_HOST=host)) as client:
        check_advice(client.doctor("docker"))


KUBECONFIGS = {
    "no_login": None,
    "no_context": "{contexts: [{name: lab}]}",
    "bad_config": "{contexts: [",
}


@pytest.mark.parametrize("wrong", KUBECONFIGS)
def test_kubernetes_without_a_cluster(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "kubeconfig"
    if text := KUBECONFIGS[wrong]:
        path.write_text(text)
    with Client(settings=settings(tmp_path, KUBECONFIG=str(path))) as client:
        found = client.doctor("kubernetes")
    check_advice(found)
    [login] = [each for each in found if each.code == f"kubernetes.{wrong}"]
    assert login.command != "kubectl get nodes"  # it would only fail once more


SAID = {
    "missing": {"missing": "sacct\nsqueue\n", "ping": "c is DOWN"},
    "no-base": {"writable": "no such folder"},
    "not-on-nodes": {"node": "invisible from n1"},
    "little-room": {"quota": "/b 99 100 100 -"},
    "silent": {"config": ""},
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_slurm(said: dict[str, str]) -> None:
    sections = re.findall(r"^section (\w+)", load_script("survey"), re.MULTILINE)
    seen = {
        **dict.fromkeys([*sections, "missing", "ping", "logins", "node", "quota", "space"], ""),
        "config": "ClusterName = c\nSLURM_VERSION = 19.05.1\n",
        "writable": "yes",
        **said,
    }
    check_advice(slurm_doctor.cluster_findings(seen, Site(base="/b")))


@pytest.mark.parametrize(
    "site",
    [
        Site("/b", partition="polr"),
        Site("/b", partition="down"),
        Site("/b", partition="closed", account="mine"),
        Site("/b", account="not mine"),
    ],
    ids=lambda site: site.partition or site.account,
)
def test_slurms_partitions_and_accounts(site: Site) -> None:
    known = [partition("down", up=False), partition("closed", accounts=("theirs",))]
    there = facts(site, partitions={each.name: each for each in known})
    found = [
        *slurm_doctor.partition_findings(there),
        *slurm_doctor.account_findings(there),
        *slurm_doctor.gpu_findings(facts(site, partitions={})),
    ]
    assert any(each.severity is not Severity.OK for each in found)
    check_advice(found)


def test_slurm_without_settings_and_without_an_answer(tmp_path: Path) -> None:
    login = {"SLURM_HOSTNAME": "127.0.0.1:9", "SLURM_USER": "nobody", "PATH": "/usr/bin:/bin"}
    with Client(settings=settings(tmp_path, **login)) as client:
        check_advice(client.doctor("slurm"))
