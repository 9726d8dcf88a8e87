"""check_tao_launch_preflight.py: what it looks at, what it says, and that it fails closed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cluster.cluster_images import NGC_KEY
from support.servers import s3_here
from support.servers.registry_alone import LoneRegistry
from support.tao_command import Ran
from tao_sdk.model.settings import Settings
from tao_sdk.skills.installing import install_bank
from tao_sdk.skills.scripts import main

Check = Callable[..., Ran]
SMI = "NVIDIA H100, 81559, 9.0\n"
SLURM = {
    "SLURM_USER": "me",
    "SLURM_HOSTNAME": "login1,login2",
    "SLURM_BASE_RESULTS_DIR": "/lustre/me",
    "SSH_KEY_PATH": "/none/key",
}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "bank"
    install_bank(folder, Settings({"HOME": "/nowhere"}))
    return folder


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for programs, which alone are found besides the system's."""
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


def program(tools: Path, name: str, text: str) -> None:
    (tools / name).write_text(f"#!/bin/sh\n{text}\n")
    (tools / name).chmod(0o755)


@pytest.fixture
def check(bank: Path, tools: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    def call(*words: str, **variables: str) -> Ran:
        path = str(bank / "scripts" / "check_tao_launch_preflight.py")
        environ = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": "/nowhere", **variables}
        code = main(path, words, environ)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return call


@pytest.fixture
def gpus(tools: Path) -> None:
    program(tools, "nvidia-smi", f"printf '{SMI}{SMI}'")


def one_with(ran: Ran, words: str) -> str:
    (line,) = [line for line in ran.out.splitlines() if words in line]
    return line


# Data


@pytest.mark.usefixtures("gpus")
def test_what_is_all_there_is_ready_with_its_records(check: Check, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"video_fps": 2}\n' * 3)
    ran = check(
        *("--platform", "local", "--path", f"notes={tmp_path}/train.jsonl"),
        *("--path", f"media={tmp_path}", "--json-required-field", "notes=video_fps"),
        *("--effective-batch-limit", "notes=1,2"),
    )
    assert ran == Ran(
        0,
        "OK: 2 GPU: NVIDIA H100 86 GB sm_90.\n"
        f"OK: notes: {tmp_path}/train.jsonl records=3\n"
        f"OK: media: {tmp_path}\n",
        "",
    )


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("name", "text", "words", "told"),
    [
        ("none.json", None, (), "is not there"),
        ("folder", None, (), "x is empty"),
        ("empty.json", "[]", (), "records=0"),
        ("torn.json", "[", (), "not JSON at 1:2"),
        ("a.json", "[{}]", ("--json-required-field", "x=fps,id"), "lacks the field fps"),
        ("a.json", "[{}, {}]", ("--effective-batch-limit", "x=2,2"), "at most 1"),
        (
            *("a.json", "[{}, {}]"),
            (*("--effective-batch-limit", "x=2,2"), *("--effective-batch-limit", "x=1,1")),
            "at most 1",
        ),
        ("a.json", "[{}]", ("--effective-batch-limit", "x=2,2"), "Use fewer shards"),
        ("a.csv", "x", ("--json-required-field", "x=fps"), "could not be checked"),
    ],
)
def test_data_that_would_fail_is_missing(
    check: Check, tmp_path: Path, name: str, text: str | None, words: tuple[str, ...], told: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    if name == "folder":
        (tmp_path / name).mkdir()
    ran = check("--platform", "local", "--path", f"x={tmp_path}/{name}", *words)
    assert (ran.code, ran.err) == (1, "")
    assert one_with(ran, told).startswith("MISSING: ")


@pytest.mark.usefixtures("gpus")
def test_a_pipe_and_a_relative_path_are_not_waited_for(check: Check, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    ran = check("--platform", "local", "--path", f"x={tmp_path}/pipe.json", "--path", "y=a.json")
    assert ran.code == 1
    assert one_with(ran, "no plain file") and one_with(ran, "relative path")


@pytest.mark.network
@pytest.mark.usefixtures("gpus")
def test_a_bucket_is_looked_into_without_another_tool(check: Check) -> None:
    store = s3_here.versitygw()
    store.bucket("preflight")
    store.s3().put("preflight", "train.json", b'[{"fps": 2}]')
    store.s3().put("preflight", "media/a.mp4", b"x")
    words = ("--platform", "local", "--install-missing-tools")
    for label in ("train.json", "media", "none"):
        words = (*words, "--path", f"{label}=s3://preflight/{label}")
    keys = {"ACCESS_KEY": s3_here.ACCESS, "SECRET_KEY": s3_here.SECRET}
    words = (*words, "--json-required-field", "train.json=fps")
    ran = check(*words, S3_ENDPOINT_URL=store.url, **keys)
    assert one_with(ran, "train.json").endswith("records=1")
    assert one_with(ran, "media") == "OK: media: s3://preflight/media"
    assert one_with(ran, "none").startswith("MISSING: none is not there")
    assert s3_here.SECRET not in ran.out
    refused = check(*words, S3_ENDPOINT_URL=store.url, **{**keys, "SECRET_KEY": "other"})
    assert refused.out.count("could not be checked: s3://") == 3


# GPUs


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--gpu-min-count", "3"), "3 GPU needed, 2 found."),
        (("--gpu-min-memory-gb", "90"), "has 86 GB; 90 GB are needed."),
        (("--gpu-arch-allowlist", "cosmos=sm_80,10.0"), "cosmos runs on sm_80, sm_100."),
        ((*("--gpu-arch-allowlist", "a=sm_80"), *("--gpu-arch-allowlist", "b=sm_90")), "a runs on"),
    ],
)
def test_gpus_that_are_not_enough_are_told(check: Check, words: tuple[str, ...], told: str) -> None:
    ran = check("--platform", "local", *words)
    assert ran.code == 1
    assert one_with(ran, told).startswith("MISSING: ")


def test_a_models_own_needs_of_gpus_and_driver_are_looked_at(
    check: Check, tools: Path, bank: Path, tmp_path: Path
) -> None:
    words = ("--platform", "local", "--model", "cosmos-reason")
    program(tools, "nvidia-smi", "echo NVIDIA T4, 15360, 7.5, 570.86.10")
    assert one_with(check(*words, HF_TOKEN="x"), "MISSING: NVIDIA T4 is sm_75; tao-finetune-cosmos")
    own = tmp_path / "own"
    shutil.copytree(bank, own)
    info = own / "skills/models/tao-train-digits/references/skill_info.yaml"
    with info.open("a") as file:
        file.write(
            "runtime_requirements: {gpu_host: {min_driver_version: '580', min_gpu_count: 2, "
        )
        file.write("min_container_toolkit_version: 1.19.1}}\n")
    ran = check("--skill-bank", str(own), "--platform", "local", "--model", "digits")
    assert one_with(ran, "MISSING: The NVIDIA driver is 570.86.10; 580 or newer is needed.")
    assert one_with(ran, "MISSING: 2 GPU needed, 1 found.")
    assert one_with(ran, "WARN: tao-train-digits needs NVIDIA Container Toolkit 1.19.1")
    program(tools, "nvidia-smi", "echo NVIDIA H100, 81559, 9.0")
    ran = check("--skill-bank", str(own), "--platform", "local", "--model", "digits")
    assert one_with(ran, "MISSING: The version of the NVIDIA driver could not be seen.")


@pytest.mark.usefixtures("gpus")
def test_gpus_that_are_enough_pass(check: Check) -> None:
    words = ("--gpu-min-count", "2", "--gpu-min-memory-gb", "80")
    assert check("--platform", "local", *words, "--gpu-arch-allowlist", "x=sm_90a").code == 0


def test_gpus_that_cannot_be_seen_fail_where_they_are_needed(check: Check, tools: Path) -> None:
    program(tools, "nvidia-smi", "echo 'no devices were found'; exit 6")
    assert check("--platform", "local").code == 0
    ran = check("--platform", "local", "--gpu-min-count", "1")
    assert (ran.code, "MISSING: GPUs could not be checked. no devices" in ran.out) == (1, True)
    program(tools, "nvidia-smi", "echo 'NVIDIA GB10, [N/A], [N/A]'")
    ran = check("--platform", "local", "--gpu-min-memory-gb", "1", "--gpu-arch-allowlist", "x=80")
    assert ran.out.count("could not be seen") == 2


# Platforms


DOCKER = """\
case "$*" in
  *info*) echo '{"ServerVersion": "27.1", "Architecture": "x86_64", "Runtimes": {"nvidia": {}}}' ;;
  *'network inspect'*) ;;
  *'image inspect'*have*) echo amd64 ;;
  *'image inspect'*) exit 1 ;;
  *'manifest inspect'*arm*) echo '[{"Descriptor": {"platform": {"architecture": "arm64"}}}]' ;;
  *'manifest inspect'*none*) echo 'no such manifest' >&2; exit 1 ;;
  *'manifest inspect'*) echo '{"Descriptor": {"platform": {"architecture": "amd64"}}}' ;;
  *run*) echo 'GPU 0: H100' ;;
esac
echo "$@" >> "$HOME/asked"
"""


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("have", "OK: have is there."),
        ("pull", "OK: pull is not there yet; it can be pulled."),
        ("arm", "MISSING: arm is made for arm64; the machine is amd64."),
        ("none", "MISSING: none is not there, and cannot be pulled. no such manifest"),
    ],
)
def test_an_image_is_there_or_can_be_pulled(
    check: Check, tools: Path, tmp_path: Path, image: str, told: str
) -> None:
    program(tools, "docker", DOCKER)
    ran = check("--platform", "local-docker", "--container-image", image, HOME=str(tmp_path))
    assert one_with(ran, told)
    assert ran.code == int(told.startswith("MISSING"))
    asked = (tmp_path / "asked").read_text()
    assert "pull " not in asked and "run " not in asked


@pytest.mark.usefixtures("gpus")
def test_an_image_and_a_disk_are_compared(check: Check, tools: Path, tmp_path: Path) -> None:
    root = json.dumps(str(tmp_path))
    size = json.dumps({"layers": [{"size": 10**15}]})
    program(
        tools,
        "docker",
        f"case \"$*\" in *DockerRootDir*) echo '{root}'; exit ;; esac\n"
        + DOCKER.replace('"amd64"}}}', f'"amd64"}}}}, "OCIManifest": {size}}}'),
    )
    ran = check("--platform", "docker", "--container-image", "pull", HOME=str(tmp_path))
    assert one_with(ran, "pull is 1000.0 TB to fetch").startswith("MISSING: ")
    words = ("--platform", "local", "--min-free-disk-gb")
    assert one_with(check(*words, "0.001"), "of disk are free.").startswith("OK: ")
    assert one_with(check(*words, "99999999"), "GB are needed.").startswith("MISSING: ")
    program(tools, "kubectl", "echo yes")
    ran = check("--platform", "kubernetes", "--min-free-disk-gb", "1")
    assert one_with(ran, "MISSING: The free disk space could not be seen.")


@pytest.mark.usefixtures("gpus")
def test_a_smoke_image_is_run_and_pulled_only_on_request(
    check: Check, tools: Path, tmp_path: Path
) -> None:
    program(tools, "docker", DOCKER)
    words = ("--platform", "docker", "--gpu-smoke-image", "pull")
    ran = check(*words, HOME=str(tmp_path))
    assert (ran.code, "add --pull-smoke-image" in ran.out) == (1, True)
    assert "run " not in (tmp_path / "asked").read_text()
    assert check(*words, "--pull-smoke-image", HOME=str(tmp_path)).code == 0
    assert "run --rm --gpus all" in (tmp_path / "asked").read_text()


def test_a_daemon_that_does_not_answer_is_told_in_the_documents_words(
    check: Check, tools: Path
) -> None:
    program(tools, "docker", "echo 'Cannot connect' >&2; exit 1")
    ran = check("--platform", "local-docker", "--docker-host", "unix:///none")
    assert ran.code == 1
    assert one_with(ran, "MISSING: docker daemon not reachable. Start Docker.")


def test_paths_of_another_machines_daemon_are_looked_at_there(
    check: Check, tools: Path, tmp_path: Path
) -> None:
    program(tools, "docker", DOCKER)
    program(tools, "ssh", 'shift 5; [ "$1" = me@host ] && shift && exec sh -c "$*"')
    (tmp_path / "a.json").write_text("[{}]")
    words = ("--platform", "remote-docker", "--path", f"x={tmp_path}/a.json")
    ran = check(*words, DOCKER_HOST="ssh://me@host", HOME=str(tmp_path))
    assert one_with(ran, "records=1")
    tcp = check(*words, DOCKER_HOST="tcp://host:2375", HOME=str(tmp_path))
    assert one_with(tcp, "x could not be checked").startswith("MISSING: ")


def test_a_daemon_is_named_for_docker_alone(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        check("--platform", "slurm", "--docker-host", "ssh://me@host", **SLURM)
    assert ended.value.code == 2
    assert "--docker-host names a daemon, and slurm has none" in capsys.readouterr().err


def test_a_cluster_is_looked_at_over_ssh(check: Check, tools: Path, tmp_path: Path) -> None:
    program(tools, "sinfo", "echo 'gpu:a100:8(S:0-1)'; echo '(null)'")
    for name in ("sbatch", "squeue", "scancel"):
        program(tools, name, "")
    program(tools, "ssh", 'while [ "$1" != me@login1 ]; do shift; done; shift; exec sh -c "$*"')
    (tmp_path / "a.json").write_text('[{"fps": 1}]')
    words = (
        "--platform",
        "slurm",
        "--path",
        f"x=lustre://{tmp_path}/a.json",
        "--path",
        "y=/none/y",
    )
    ran = check(*words, "--json-required-field", "x=fps", "--gpu-min-count", "8", **SLURM)
    assert one_with(ran, "OK: me@login1 answers without a password.")
    assert "sbatch" not in ran.out
    assert one_with(ran, "8 GPU: a100.") and one_with(ran, "records=1")
    assert one_with(ran, "MISSING:").startswith("MISSING: y is not there")
    ran = check(*words, "--gpu-min-memory-gb", "80", **SLURM)
    assert one_with(ran, "The memory of a100 could not be seen.")
    program(tools, "ssh", "echo sbatch; echo scancel")
    ran = check("--platform", "slurm", "--gpu-smoke-image", "my image", **SLURM)
    assert (ran.code, bool(one_with(ran, "has no squeue."))) == (1, True)
    assert one_with(ran, "run: tao doctor slurm --smoke --smoke-image 'my image'")


def test_a_login_that_asks_for_a_password_is_told(check: Check, tools: Path) -> None:
    program(tools, "ssh", "echo 'Permission denied (publickey).' >&2; exit 255")
    ran = check("--platform", "slurm", "--path", "x=/lustre/a.json", **SLURM)
    assert ran.code == 1
    told = one_with(ran, "passwordless SSH to me@login1 not working.")
    assert "Permission denied" in told
    assert one_with(ran, "x could not be checked")


def test_credentials_are_named_and_never_printed(check: Check) -> None:
    secret = {"SLURM_USER": "user-of-mine", "HF_TOKEN": "hf_secret"}
    ran = check("--platform", "slurm", "--skip-platform-access", **secret)
    told = [line.split()[1] for line in ran.out.splitlines() if "is not set" in line]
    assert (ran.code, told) == (1, ["SLURM_HOSTNAME", "SLURM_BASE_RESULTS_DIR", "SSH_KEY_PATH"])
    words = ("--platform", "local", "--model", "cosmos-reason")
    assert one_with(check(*words), "HF_TOKEN is not set.").startswith("MISSING: ")
    ran = check(*words, **secret)
    assert one_with(ran, "HF_TOKEN set.")
    assert not any(value in ran.out for value in secret.values())


def test_a_dry_check_asks_no_platform_and_says_so(check: Check, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[{}]")
    words = ("--skip-platform-access", "--path", f"x={tmp_path}/a.json")
    ran = check("--platform", "local-docker", *words)
    assert ran.code == 0
    assert one_with(ran, "WARN: local-docker was not looked at") and one_with(ran, "records=1")
    ran = check("--platform", "slurm", *words, **SLURM)
    assert one_with(ran, "WARN: x was not looked at")


def test_paths_of_a_pod_are_never_taken_for_those_of_this_machine(
    check: Check, tools: Path, tmp_path: Path
) -> None:
    program(
        tools,
        "kubectl",
        'case "$*" in *can-i*) echo yes ;; *) echo "$NODES" ;; esac',
    )
    labels = {"nvidia.com/gpu.compute.major": "9", "nvidia.com/gpu.compute.minor": "0"}
    node = {
        "metadata": {"labels": {**labels, "nvidia.com/gpu.memory": "81559"}},
        "status": {"allocatable": {"nvidia.com/gpu": "4"}},
    }
    words = ("--platform", "kubernetes", "--path", f"x={tmp_path}", "--gpu-min-count", "4")
    ran = check(*words, NODES=json.dumps({"items": [node, {}]}))
    assert one_with(ran, "MISSING:").startswith("MISSING: x could not be checked")
    assert one_with(ran, "4 GPU: GPU 86 GB sm_90.")
    assert one_with(check(*words, NODES="{"), "4 GPU needed, 0 found.")


def test_an_image_of_a_cluster_is_looked_for_in_its_registry_or_as_its_file(
    check: Check, tools: Path, tmp_path: Path, registry: LoneRegistry
) -> None:
    program(tools, "uname", "echo x86_64")
    program(tools, "ssh", 'while [ "$1" != me@login1 ]; do shift; done; shift; exec sh -c "$*"')
    environ = {**SLURM, "HOME": str(tmp_path), "DOCKER_CONFIG": registry.log_in(tmp_path / "d")}

    def told(image: str) -> str:
        ran = check("--platform", "slurm", "--container-image", image, **environ)
        assert NGC_KEY not in ran.out
        return ran.out

    image = f"docker://{registry.name}/tests/one:1"
    assert "1 can be pulled: amd64, 1.0 kB, with a login.\nMISSING: enroot has no" in told(image)
    (tmp_path / ".config/enroot").mkdir(parents=True)
    line = f"machine {registry.name}  login x password y"
    (tmp_path / ".config/enroot/.credentials").write_text(line)
    assert "OK: enroot has credentials for" in told(image)
    assert "MISSING: " in told(f"{registry.name}#tests/arm:1")
    assert f"MISSING: {tmp_path}/a.sqsh is no image." in told(f"{tmp_path}/a.sqsh")
    (tmp_path / "a.sqsh").touch()
    assert f"OK: {tmp_path}/a.sqsh is there." in told(f"{tmp_path}/a.sqsh")
    assert "is not the name of an image" in told("A B")


def test_an_image_of_kubernetes_fits_its_nodes(
    check: Check, tools: Path, tmp_path: Path, registry: LoneRegistry
) -> None:
    program(tools, "kubectl", 'case "$*" in *can-i*) echo yes ;; *) echo "$NODES" ;; esac')
    node = {"status": {"nodeInfo": {"architecture": "arm64"}}}
    words = ("--platform", "kubernetes", "--container-image")
    given = {"NODES": json.dumps({"items": [node]}), "DOCKER_CONFIG": registry.log_in(tmp_path)}
    told = check(*words, f"{registry.name}/tests/both:1", **given)
    assert one_with(told, "both:1 can be pulled: amd64, arm64, 2.0 kB")
    told = check(*words, f"{registry.name}/tests/one:1", **given)
    assert one_with(told, "is made for amd64; the machine is arm64.").startswith("MISSING: ")
    told = check(*words, "127.0.0.1:1/a:1", **given)
    assert one_with(told, "Whether 127.0.0.1:1/a:1 can be pulled could not be seen.")
    assert told.code == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("echo no", "You may not create Jobs in the namespace default."),
        ("echo 'no server' >&2; exit 1", "authenticate to a Kubernetes cluster. no server"),
    ],
)
def test_a_cluster_that_takes_no_jobs_is_told(
    check: Check, tools: Path, answer: str, told: str
) -> None:
    program(tools, "kubectl", answer)
    ran = check("--platform", "kubernetes", "--gpu-smoke-image", "ubuntu")
    assert (ran.code, bool(one_with(ran, told))) == (1, True)
    assert one_with(ran, "MISSING: The smoke test was not run. On kubernetes")


def test_a_cluster_without_a_name_is_asked_for(check: Check) -> None:
    ran = check("--platform", "slurm")
    assert ran.code == 1
    assert one_with(ran, "set SLURM_USER and SLURM_HOSTNAME").startswith("MISSING: ")


def test_a_workspace_that_is_not_named_is_asked_for(check: Check) -> None:
    ran = check("--platform", "tao-run-on-lepton")
    assert ran.code == 1
    assert one_with(ran, "LEPTON_WORKSPACE_ID is not set").startswith("MISSING: ")
    assert one_with(ran, "LEPTON_AUTH_TOKEN is not set").startswith("MISSING: ")


def test_a_platform_to_come_is_said_to_be_one(check: Check) -> None:
    ran = check("--platform", "brev", "--format", "json")
    (told,) = ran.json["findings"]
    assert (ran.code, told["code"]) == (1, "platform.not_built")


@pytest.mark.usefixtures("gpus")
def test_a_check_that_local_cannot_make_fails_and_says_so(check: Check) -> None:
    words = ("--gpu-smoke-image", "ubuntu", "--container-image", "nosuch/image:1")
    ran = check("--platform", "local", *words)
    assert ran.code == 1
    assert one_with(ran, "MISSING: nosuch/image:1 was not looked at")
    assert one_with(ran, "MISSING: The smoke test was not run.")


REFUSED = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host?"
NO_HOST = (
    "Unable to connect to the server: dial tcp: lookup k8s.invalid on 10.0.0.53:53: no such host"
)


@pytest.mark.parametrize(
    ("kubectl_says", "code", "words"),
    [
        ('error: context "lab" does not exist', "no_context", ["lab", "get-contexts"]),
        ("The connection to the server localhost:8080 was refused", "no_login", ["KUBECONFIG"]),
        (REFUSED, "unreachable", ["https://k8s:6443", "VPN", "NO_PROXY", "the context lab"]),
        (NO_HOST, "unreachable", ["name of the API server https://k8s:6443", "VPN"]),
        ("error: You must be logged in to the server (Unauthorized)", "login", ["Log in anew"]),
        ("tls: failed to verify certificate: x509: unknown", "certificate", ["new kubeconfig"]),
        ("error: something new", "unreachable", ["kubectl config view --minify --context=lab"]),
    ],
)
def test_a_cluster_that_cannot_be_asked_is_told_with_what_helps(
    check: Check, tools: Path, kubectl_says: str, code: str, words: list[str]
) -> None:
    program(
        tools,
        "kubectl",
        f"""case "$*" in *"config view"*) echo "lab https://k8s:6443" ;;
        *) echo '{kubectl_says}' >&2; exit 1 ;; esac""",
    )
    ran = check("--platform", "kubernetes", "--format", "json", TAO_K8S_CONTEXT="lab")
    found = next(each for each in ran.json["findings"] if each["code"].endswith(f".{code}"))
    told = " ".join((found["what"], found["hint"], found["next"]))
    assert (ran.code, found["evidence"]) == (1, kubectl_says)
    assert [word for word in words if word not in told] == []


# Arguments


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--platform", "local", "--path", "x"),
        ("--platform", "local", "--path", "x=/x", "--json-required-field", "y=fps"),
        ("--platform", "local", "--path", "x=/x", "--json-required-field", "x=,"),
        ("--platform", "local", "--effective-batch-limit", "x=1"),
        ("--platform", "local", "--effective-batch-limit", "x=0,1"),
        ("--platform", "local", "--gpu-min-count", "-1"),
        ("--platform", "local", "--gpu-min-memory-gb", "nan"),
        ("--platform", "local", "--gpu-arch-allowlist", "x=turing"),
    ],
)
def test_wrong_arguments_end_with_2(check: Check, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        check(*words)
    assert ended.value.code == 2


def test_the_same_as_json(check: Check) -> None:
    ran = check("--platform", "local", "--path", "x=/none", "--format", "json")
    assert (ran.code, ran.json["platform"], ran.json["ready"]) == (1, "local", False)
    assert ran.json["findings"][-1]["code"] == "dataset.missing"


def test_it_answers_where_nothing_is_installed(bank: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[{}]")
    ran = subprocess.run(
        [
            *(bank / "scripts" / "check_tao_launch_preflight.py", "--platform", "local"),
            *("--path", f"x={tmp_path}/a.json"),
        ],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"OK: x: {tmp_path}/a.json records=1\n" in ran.stdout
