"""The doctor of the SLURM platform: the documents' words, what else would end a first job, and what
mends each.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.cluster_here import SHARED, Cluster
from support.cluster.cluster_images import NGC_KEY
from support.cluster.facts_here import facts
from tao_sdk.backends.slurm.cluster import doctor, site
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.transports.ssh import Ssh


@pytest.fixture
def environ(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return {**cluster.surroundings(), "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}


def examined(environ: dict[str, str]) -> dict[str, Finding]:
    """Code -> the last finding of that code."""
    settings = Settings(environ)
    return {
        each.code: each for each in doctor.examine_cluster(Ssh(site.read_login(settings)), settings)
    }


@pytest.mark.usefixtures("patient_ssh")
def test_on_a_cluster_that_has_everything_only_credentials_are_missing_and_it_took_one_round_trip(
    cluster: Cluster, environ: dict[str, str]
) -> None:
    cluster.login(f"mkdir -p {SHARED}/images; echo image > {SHARED}/images/one.sqsh")
    examined(environ)
    before = cluster.connections(), cluster.round_trips()
    found = examined(environ)
    assert (cluster.connections(), cluster.round_trips()) == (before[0], before[1] + 1)
    assert found["slurm.ssh"].what == "taouser@login1 answers without a password."
    assert found["slurm.partition"].what == "Partition polar: 2 nodes of 8 GPUs and 128 CPUs, 4h."
    assert found["slurm.account"].what == "Jobs are charged to the account taoacct."
    node = cluster.place.nodes[0]
    assert found["slurm.base"].what == f"{SHARED} can be written to, and is visible from {node}."
    assert found["slurm.images"].what == "Images run with Pyxis: srun has --container-image."
    assert found["slurm.version"].what.startswith("SLURM 22.05")
    assert "one.sqsh" in found["slurm.converted"].what
    assert {code for code, each in found.items() if each.severity is not Severity.OK} == {
        "slurm.enroot_credentials"
    }
    assert not list(cluster.path(SHARED).glob(".tao-doctor*"))


def test_enroots_credentials_are_installed_with_the_command_that_the_doctor_names(
    cluster: Cluster, environ: dict[str, str]
) -> None:
    fix = examined(environ)["slurm.enroot_credentials"].fix
    argv = shlex.split(fix)
    without = subprocess.run(argv, env=environ, capture_output=True, text=True)
    assert (without.returncode, "NGC_KEY is not set" in without.stderr) == (1, True)
    done = subprocess.run(argv, env={**environ, "NGC_KEY": NGC_KEY}, capture_output=True, text=True)
    try:
        assert done.returncode == 0, done.stderr
        assert examined(environ)["slurm.enroot_credentials"].severity is Severity.OK
        assert NGC_KEY not in done.stdout + done.stderr + cluster.log
    finally:
        cluster.login("rm ~/.config/enroot/.credentials")


@pytest.mark.parametrize(
    ("variable", "value", "code", "what"),
    [
        (
            "SLURM_PARTITION",
            "polar,poler",
            "slurm.partition",
            "The cluster has no partition poler.",
        ),
        ("SLURM_ACCOUNT", "otheracct", "slurm.account", "You cannot charge the account otheracct."),
        (
            "SLURM_BASE_RESULTS_DIR",
            "/proc/none",
            "slurm.base",
            "MISSING: /proc/none cannot be written to on the login node.",
        ),
        ("SLURM_BASE_RESULTS_DIR", "", "slurm.no_base", "SLURM_BASE_RESULTS_DIR is not set."),
        (
            "SLURM_BASE_RESULTS_DIR",
            "/tmp/mine",
            "slurm.base",
            "/tmp/mine is not there on the nodes: a job could not read what is staged for it.",
        ),
    ],
)
def test_what_is_set_wrongly_is_told(
    variable: str, value: str, code: str, what: str, cluster: Cluster, environ: dict[str, str]
) -> None:
    settings = Settings({**environ, variable: value})
    told = [
        (each.severity, each.what)
        for each in doctor.examine_cluster(Ssh(site.read_login(settings)), settings)
        if each.code == code
    ]
    assert (Severity.ERROR, what) in told


def test_a_login_that_fails_is_told_in_the_documents_words(
    cluster: Cluster, environ: dict[str, str]
) -> None:
    settings = Settings({**environ, "SLURM_USER": "stranger"})
    (found,) = doctor.examine_cluster(Ssh(site.read_login(settings)), settings)
    assert (found.severity, found.what) == (
        Severity.ERROR,
        "MISSING: passwordless SSH to stranger@login1 not working.",
    )
    assert "Permission denied" in found.evidence
    assert "SSH_KEY_PATH" in found.fix


@pytest.mark.parametrize(
    ("host", "code", "words"),
    [
        ("nowhere.invalid", "ssh.no_such_host", "Could not resolve hostname"),
        ("deadlogin", "ssh.host_down", "Connection refused"),
        ("deadlogin,nowhere.invalid", "backend.unreachable", "No host can be reached"),
    ],
)
def test_a_host_that_is_down_or_has_no_address_is_told_as_that_and_not_as_a_log_in_that_fails(
    host: str, code: str, words: str, cluster: Cluster, environ: dict[str, str]
) -> None:
    settings = Settings({**environ, "SLURM_HOSTNAME": host})
    (found,) = doctor.examine_cluster(Ssh(site.read_login(settings)), settings)
    assert (found.severity, found.code) == (Severity.ERROR, code)
    assert words in found.what and "passwordless" not in found.what
    assert "Check SLURM_HOSTNAME" in found.fix


def test_a_key_that_is_not_there_is_told(cluster: Cluster, environ: dict[str, str]) -> None:
    settings = Settings({**environ, "SSH_KEY_PATH": "/no/key"})
    (found,) = doctor.examine_cluster(Ssh(site.read_login(settings)), settings)
    assert found.what == "SSH_KEY_PATH names no key."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "MISSING: SLURM_USER, SLURM_HOSTNAME and SLURM_BASE_RESULTS_DIR are not set."),
        (
            {"SLURM_USER": "me", "SLURM_BASE_RESULTS_DIR": "/b"},
            "MISSING: SLURM_HOSTNAME is not set.",
        ),
        ({"SLURM_HOSTNAME": "a"}, "MISSING: SLURM_USER and SLURM_BASE_RESULTS_DIR are not set."),
    ],
)
def test_all_settings_that_are_missing_are_told_at_once(
    given: dict[str, str], what: str, tmp_path: Path
) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **given}
    argv = [sys.executable, "-m", "tao_sdk.cli.main", "doctor", "slurm"]
    told = subprocess.run(argv, env=environ, capture_output=True, text=True)
    assert told.returncode == 2
    assert what in told.stdout
    assert (
        "-> Set SLURM_USER and SLURM_HOSTNAME (comma-separated for failover) in your env"
        in told.stdout
    )


def test_a_cluster_without_a_free_node_leaves_it_open_whether_the_base_is_visible(
    cluster: Cluster, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "NODE_SECONDS", 1)
    cluster.login("sbatch --exclusive -N2 -p polar -o /dev/null --wrap 'sleep 60'")
    found = examined(environ)["slurm.base"]
    assert found.severity is Severity.WARNING
    assert (
        found.what
        == f"{SHARED} can be written to; whether a node sees it is not known, none was free."
    )


@pytest.fixture
def seen() -> Iterator[dict[str, str]]:
    """What a small cluster has answered."""
    asked = re.findall(r"^section (\w+)", load_script("survey"), re.MULTILINE)
    yield {
        **dict.fromkeys(asked, ""), "missing": "sacct\nsqueue\n", "ping": "", "logins": "",
        "config": "ClusterName = c\nSLURM_VERSION = 19.05.1\n", "writable": "yes", "node": "",
        "quota": "", "space": "",
    }  # fmt: skip


def test_programs_that_are_not_found_and_an_old_version_are_told(seen: dict[str, str]) -> None:
    found = {each.code: each for each in doctor.cluster_findings(seen, Site(base="/b"))}
    assert found["slurm.commands"].what == "MISSING: sacct, squeue not found on the login node."
    assert found["slurm.old"].severity is Severity.WARNING
    assert found["slurm.gpus"].what == "No partition of the cluster shows GPUs."


def test_converted_images_are_counted(seen: dict[str, str]) -> None:
    ready = {
        **seen,
        "flags": "--container-image",
        "images": "1073741824 tao=7.sqsh\n2147483648 cuda=12.sqsh\n",
    }
    found = {each.code: each.what for each in doctor.cluster_findings(ready, Site(base="/b"))}
    assert found["slurm.converted"] == "Converted images: 2 (3.0 GiB): cuda=12.sqsh, tao=7.sqsh."
    none = {
        each.code: each.what
        for each in doctor.cluster_findings({**ready, "images": ""}, Site(base="/b"))
    }
    assert (
        none["slurm.converted"]
        == "No image is converted yet: the first job of each waits for that."
    )


@pytest.mark.parametrize(
    ("quota", "space", "severity", "left"),
    [
        ("/lustre 1048576 0 2097152 - 5 0 0 -", "fs 1 1 900000000 1% /", Severity.WARNING, "1 GiB"),
        ("/lustre 1048576* 0 0 - 5 0 0 -", "fs 1 1 1073741824 1% /", Severity.OK, "1024 GiB"),
        ("", "fs 1 1 1048576 1% /", Severity.WARNING, "1 GiB"),
    ],
)
def test_what_is_left_is_the_least_of_quota_and_disk(
    quota: str, space: str, severity: Severity, left: str, seen: dict[str, str]
) -> None:
    told = {
        each.code: each
        for each in doctor.cluster_findings(
            {**seen, "quota": quota, "space": space}, Site(base="/b")
        )
    }
    assert (told["slurm.space"].severity, told["slurm.space"].what) == (
        severity,
        f"{left} are left to you at /b.",
    )


def test_what_mends_a_finding_is_a_command_or_a_hint_and_never_both(seen: dict[str, str]) -> None:
    told = [
        each.to_json()
        for each in doctor.cluster_findings({**seen, "ping": "c is DOWN"}, Site(base="/b"))
    ]
    fixes = {
        each["code"]: (each["next"], each["hint"]) for each in told if each["severity"] != "ok"
    }
    assert fixes["slurm.base"] == fixes["slurm.controller"] == ("tao doctor slurm", "")
    assert fixes["slurm.old"] == ("", "Ask the site for a newer one.")
    assert fixes["slurm.commands"][0] == "" and "PATH" in fixes["slurm.commands"][1]
    assert all(each["fix"] == each["next"] for each in told)


def test_a_partition_that_is_not_there_is_mended_by_naming_one_that_is() -> None:
    there = facts(Site("/b", partition="polr"))
    [wrong] = [each for each in doctor.partition_findings(there) if each.severity is Severity.ERROR]
    assert "there are cpu, endless, grizzly" in wrong.evidence
    assert wrong.to_json()["next"] == "export SLURM_PARTITION=polar"
