"""Site: what the caller's settings say of the cluster, under the names of the platform document."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from pwd import getpwuid

from tao_sdk.model.errors import CredentialError, SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.transports.ssh import Login, LoginSettings

NO_BASE = "Set SLURM_BASE_RESULTS_DIR to a folder of yours on the cluster's shared file system."
LOGIN_SETTINGS = LoginSettings(
    hosts="SLURM_HOSTNAME",
    key="SSH_KEY_PATH",
    reuse_only="SLURM_SSH_REUSE",
    second_host="name a second login host after a comma",
)
POLITE_SECONDS = 15
FETCH_GB = 10  # some checkpoints: fetched in a minute or two
PLAIN_PATH = re.compile(
    r"/[A-Za-z0-9_./@+=-]*"
)  # what sbatch, srun and the mounts' syntax all take literally


@dataclass(frozen=True)
class Site:
    """Defaults of the site and of the user. `base` is the folder on the cluster below which
    everything of ours lies.
    """

    base: str
    partition: str = ""
    account: str = ""
    mounts: str = ""
    time: timedelta | None = None
    timeout: timedelta | None = None
    cpus_per_gpu: int = 16
    gpus_per_node: int = 8  # where the cluster does not say
    requeue: bool = True
    runtime: str = ""
    sqsh: bool = True
    conversion_partition: str = ""
    conversion_minutes: int = 30
    conversion_memory_gb: int = 32
    sqsh_cache: str = ""


def site(settings: Settings) -> Site:
    """Raises CredentialError for a base that is missing, SpecError for a value that
    cannot be read.
    """
    base = (settings.get("SLURM_BASE_RESULTS_DIR") or "").rstrip("/")
    if not base:
        raise CredentialError(
            "SLURM_BASE_RESULTS_DIR is not set.", "Jobs are staged and results kept there.", NO_BASE
        )
    if not PLAIN_PATH.fullmatch(base):
        why = (
            "It must be absolute, of letters, digits and _ . / @ + = -: SLURM reads other "
            "characters as its own."
        )
        raise SpecError(f"SLURM_BASE_RESULTS_DIR is {base!r}.", why, NO_BASE)
    return Site(
        base=base,
        partition=settings.get("SLURM_PARTITION") or "",
        account=settings.get("SLURM_ACCOUNT") or "",
        mounts=settings.get("SLURM_CONTAINER_MOUNTS") or "",
        time=hours(settings, "SLURM_TIME_HOURS"),
        timeout=hours(settings, "SLURM_TIMEOUT_HOURS"),
        cpus_per_gpu=number(settings, "SLURM_CPUS_PER_TASK", 16),
        gpus_per_node=number(settings, "SLURM_MAX_GPUS_PER_NODE", 8),
        requeue=yes(settings, "SLURM_USE_REQUEUE", True),
        runtime=settings.get("SLURM_CONTAINER_RUNTIME") or "",
        sqsh=yes(settings, "SLURM_USE_SQSH", True),
        conversion_partition=settings.get("SLURM_CONVERSION_PARTITION") or "",
        conversion_minutes=number(settings, "SLURM_CONVERSION_TIMEOUT_MINUTES", 30),
        conversion_memory_gb=number(settings, "SLURM_CONVERSION_MEMORY_GB", 32),
        sqsh_cache=(settings.get("SLURM_SQSH_CACHE_DIR") or "").rstrip("/"),
    )


def login(settings: Settings) -> Login:
    """Raises CredentialError naming the variable that is missing."""
    hosts = settings.get("SLURM_HOSTNAME") or settings.get("SSH_HOST") or ""
    names = tuple(dict.fromkeys(host.strip() for host in hosts.split(",") if host.strip()))
    user = settings.get("SLURM_USER") or settings.get("SSH_USER") or ""
    if not names or not user:
        raise not_set({"SLURM_USER": user, "SLURM_HOSTNAME": hosts,
                       "SLURM_BASE_RESULTS_DIR": settings.get("SLURM_BASE_RESULTS_DIR")})  # fmt: skip
    if wrong := [
        name
        for name in (*names, user)
        if not re.fullmatch(r"[A-Za-z0-9_.:\[\]@%+][A-Za-z0-9_.:\[\]@%+-]*", name)
    ]:
        raise SpecError(
            f"{wrong[0]!r} is no name of a host or a user.",
            "",
            "Correct SLURM_HOSTNAME or SLURM_USER.",
        )
    return Login(
        hosts=names,
        user=user,
        key=str(Path(key).expanduser()) if (key := settings.get("SSH_KEY_PATH")) else "",
        config=settings.get("TAO_SSH_CONFIG") or own_config(settings),
        reuse_only=yes(settings, "SLURM_SSH_REUSE", False),
        connect_seconds=number(settings, "SLURM_SSH_CONNECT_SECONDS", 10),
        environ=settings.environ,
        settings=LOGIN_SETTINGS,
    )


def not_set(wanted: Mapping[str, str | None]) -> CredentialError:
    """All that is missing at once, in the document's words."""
    missing = [name for name, value in wanted.items() if not value]
    *first, last = missing
    base = "SLURM_BASE_RESULTS_DIR" in missing
    return CredentialError(
        f"MISSING: {', '.join(first)}{' and ' if first else ''}{last} "
        f"{'are' if first else 'is'} not set.",
        "Jobs are handed over on a login node of the cluster.",
        (
            "Set SLURM_USER and SLURM_HOSTNAME (comma-separated for failover) in your env "
            "(~/.config/tao/.env)."
        )
        + (f" {NO_BASE}" if base else ""),
    )


def own_config(settings: Settings) -> str:
    """The ssh_config in HOME, where HOME is not the home of the password file: ssh by itself reads
    only the latter's.
    """
    config = settings.home / ".ssh" / "config"
    try:
        standard = Path(getpwuid(os.getuid()).pw_dir)
    except KeyError:
        standard = Path("/")
    return str(config) if settings.home != standard and config.is_file() else ""


def hours(settings: Settings, name: str) -> timedelta | None:
    text = settings.get(name)
    try:
        return timedelta(hours=float(text)) if text else None
    except ValueError:
        raise SpecError(f"{name} is {text!r}.", "", "It is a number of hours, such as 4.") from None


def poll_seconds(settings: Settings) -> float:
    """How often a controller is asked: it serves a whole site, so only its owner should want it
    more often.
    """
    return float(number(settings, "SLURM_POLL_SECONDS", POLITE_SECONDS))


def fetch_bytes(settings: Settings) -> int:
    """Above how many bytes of inputs in S3 a job with GPUs is warned; 0 for never."""
    text = settings.get("SLURM_S3_WARN_GB")
    try:
        return int(float(text) * 1e9) if text else FETCH_GB * 10**9
    except (ValueError, OverflowError):
        raise SpecError(
            f"SLURM_S3_WARN_GB is {text!r}.", "", "It is a number of gigabytes, such as 10."
        ) from None


def number(settings: Settings, name: str, default: int) -> int:
    text = settings.get(name)
    if text and not text.isdigit():
        raise SpecError(f"{name} is {text!r}.", "", "It is a whole number.")
    return int(text) if text else default


def yes(settings: Settings, name: str, default: bool) -> bool:
    text = settings.get(name)
    return text.lower() in ("1", "true", "yes", "on") if text else default
