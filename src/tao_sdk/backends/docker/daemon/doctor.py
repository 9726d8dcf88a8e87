"""Doctor: what would stop a new user of Docker, in the documents' words, with the fix for each."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from tao_sdk.backends.docker import rules
from tao_sdk.backends.docker.daemon import gpus, host
from tao_sdk.backends.docker.daemon.address import (
    docker_config,
    inner_mapping,
    is_local,
    is_open,
    is_system_socket,
)
from tao_sdk.backends.docker.daemon.gpus import visible_gpus
from tao_sdk.backends.docker.job.container_body import BUILT_IN_NETWORKS, DEFAULT_NETWORK
from tao_sdk.model.credentials import IN_THE_JOB
from tao_sdk.model.errors import MissingExtra, TaoError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.gpu_host import SCRIPT
from tao_sdk.model.settings import Settings
from tao_sdk.transports.dockerd import Address, Daemon, SocketDenied

CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
CONFIGURE_THERE = (
    "On its machine, with the NVIDIA Container Toolkit installed: "
    "sudo nvidia-ctk runtime configure --runtime=docker, with --config for its own daemon.json. "
    "Then start that daemon again."
)
OLDEST = (20, 10)
S3 = ("S3_BUCKET_NAME", "ACCESS_KEY", "SECRET_KEY")


def examine(daemon: Daemon, settings: Settings) -> list[Finding]:
    """The launch preflight: daemon, GPUs, container toolkit, network, credentials.

    For credentials it says only whether they are set.
    """
    try:
        info = daemon.get("/info")
        networks = [network["Name"] for network in daemon.get("/networks")]
    except MissingExtra as error:
        what = "MISSING: docker Python client not installed."
        return [Finding(Severity.ERROR, error.code, what, error.why, command=error.command)]
    except TaoError as error:
        return [unreachable_daemon(daemon.address, error)]
    versions = host.version_findings() if is_local(daemon.address) else ()
    return [
        *daemon_findings(daemon, info),
        *gpu_findings(daemon, info, settings.environ),
        *versions,
        *network_findings(settings, networks),
        *credential_findings(settings),
        *connection_findings(daemon.address),
        gpu_job_finding(daemon),
    ]


def connection_findings(address: Address) -> Iterator[Finding]:
    if is_open(address):
        what = (
            f"{address.url} has no TLS: jobs with a secret, and logins at registries, are refused."
        )
        yield Finding(
            Severity.WARNING,
            "docker.open_line",
            what,
            "",
            "Set DOCKER_HOST to the same machine over ssh, such as ssh://user@host.",
        )


def gpu_job_finding(daemon: Daemon) -> Finding:
    """Report whether a job with GPUs can run here, by the daemon's own answer."""
    try:
        words = gpus.refusal(daemon)
    except TaoError as error:
        what = "Whether a job with GPUs can run here could not be seen."
        return Finding(
            Severity.WARNING, "docker.gpu_jobs", what, error.what, command="tao doctor docker"
        )
    if not words:
        return Finding(Severity.OK, "docker.gpu_jobs", "A job with GPUs can run here.")
    refused = rules.refused(words)
    what = f"No job with GPUs can run here: {refused.what}"
    if refused.code == "docker.no_gpu_runtime":
        advice, command = toolkit_advice(daemon.address)
        return Finding(Severity.WARNING, "docker.gpu_jobs", what, words, advice, command)
    return Finding(Severity.WARNING, "docker.gpu_jobs", what, words, refused.next, refused.command)


def unreachable_daemon(address: Address, error: TaoError) -> Finding:
    """The finding for a daemon that does not answer.

    It has the documents' words if the daemon should run on this machine, else the error's own.
    """
    if not is_local(address) or isinstance(error, SocketDenied):
        return Finding.of_error(error, f"MISSING: {error.what}")
    what = "MISSING: docker daemon not reachable. Start Docker."
    why = f"{address.url}: {error.why}"
    if not is_system_socket(address):
        return Finding(Severity.ERROR, error.code, what, why, error.next, error.command)
    start = "sudo systemctl start docker"
    return Finding(Severity.ERROR, error.code, what, why, command=start)


def daemon_findings(daemon: Daemon, info: Mapping[str, Any]) -> Iterator[Finding]:
    version = str(info["ServerVersion"])
    what = f"Docker {version} answers at {daemon.address.url}."
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST:
        yield Finding(
            Severity.WARNING,
            "docker.old",
            f"{what} 20.10 is the oldest that is tested.",
            command=host.install_command(host.DOCKER),
        )
    else:
        yield Finding(Severity.OK, "docker.daemon", what)


def gpu_findings(
    daemon: Daemon, info: Mapping[str, Any], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Report GPUs and their runtime. Missing ones are a warning: a job without GPUs still runs."""
    if is_local(daemon.address):
        yield visible_gpus_finding()
    else:
        yield remote_gpus_finding(daemon.address, environ)
    yield toolkit_finding(daemon.address, info)


def remote_gpus_finding(address: Address, environ: Mapping[str, str]) -> Finding:
    """Report the GPUs of a daemon's machine elsewhere, or that they cannot be seen."""
    found, unseen = gpus.gpus_of_machine(address, environ)
    if found:
        what = f"nvidia-smi shows {len(found)} GPU(s) on the machine of {address.url}."
        return Finding(Severity.OK, "docker.gpus", what)
    return Finding(
        Severity.WARNING,
        "docker.gpus",
        f"No GPU is seen on the machine of {address.url}.",
        unseen,
        "Look there with nvidia-smi, or run a container with GPUs:",
        "tao doctor docker --smoke",
    )


def visible_gpus_finding() -> Finding:
    count = len(visible_gpus())
    if count:
        return Finding(Severity.OK, "docker.gpus", f"nvidia-smi shows {count} GPU(s).")
    return Finding(
        Severity.WARNING,
        "docker.gpus",
        "MISSING: TAO GPU host runtime is not ready.",
        "nvidia-smi shows no GPU here.",
        command=host.install_command(host.driver_packages()),
    )


def toolkit_finding(address: Address, info: Mapping[str, Any]) -> Finding:
    if gpus.has_runtime(info):
        return Finding(Severity.OK, "docker.toolkit", "The daemon has the runtime nvidia.")
    what = "MISSING: NVIDIA Container Toolkit not installed/configured."
    why = "The daemon has no runtime nvidia."
    advice, command = toolkit_advice(address)
    return Finding(Severity.WARNING, "docker.toolkit", what, why, advice, command)


def toolkit_advice(address: Address) -> tuple[str, str]:
    """Return (words, command) that add the runtime nvidia to a daemon.

    There is a command only for this machine's own daemon. If nvidia-ctk is missing, the command is
    the host's set-up script, which asks before it installs.
    """
    if not is_system_socket(address):
        return CONFIGURE_THERE, ""
    if shutil.which("nvidia-ctk"):
        return "", CONFIGURE
    return "", f"bash {shlex.quote(str(SCRIPT))} --install"


def network_findings(settings: Settings, networks: list[str]) -> Iterator[Finding]:
    name = settings.get("DOCKER_NETWORK") or DEFAULT_NETWORK
    if name in (*networks, *BUILT_IN_NETWORKS):
        yield Finding(Severity.OK, "docker.network", f"The docker network {name} is there.")
    elif name == DEFAULT_NETWORK:
        yield Finding(
            Severity.OK,
            "docker.network",
            f"The docker network {name} will be made by the first job.",
        )
    else:
        what = f"MISSING: docker network '{name}' not found."
        yield Finding(
            Severity.ERROR,
            "docker.network",
            what,
            "DOCKER_NETWORK names it.",
            command=f"docker network create {shlex.quote(name)}",
        )


def credential_findings(settings: Settings) -> Iterator[Finding]:
    set_names = [name for name in IN_THE_JOB if settings.get(name)]
    yield Finding(Severity.OK, "credentials.set", f"Set: {', '.join(set_names) or 'none'}.")
    if "NGC_KEY" not in set_names and not has_nvcr_login(settings):
        yield Finding(
            Severity.WARNING,
            "credentials.ngc",
            "Private images of nvcr.io cannot be pulled: NGC_KEY is not set.",
            command="docker login nvcr.io -u '$oauthtoken'",
        )
    if "HF_TOKEN" not in set_names:
        what = "Gated models of Hugging Face cannot be fetched: HF_TOKEN is not set."
        yield Finding(Severity.OK, "credentials.hf", what, "", "Set HF_TOKEN to a token of yours.")
    missing = [name for name in S3 if name not in set_names]
    if 0 < len(missing) < len(S3):
        what = f"s3:// paths need {', '.join(missing)} too."
        yield Finding(Severity.WARNING, "credentials.s3", what, "", f"Set {' and '.join(missing)}.")


def has_nvcr_login(settings: Settings) -> bool:
    """True if docker has a login at nvcr.io, or a store that may hold one."""
    logins = docker_config(settings)
    if logins.get("credsStore"):
        return True
    return any("nvcr.io" in inner_mapping(logins, name) for name in ("auths", "credHelpers"))
