"""Site: the caller's settings for the cluster, under the platform document's names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
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
FETCH_GB = 10  # a few checkpoints; the download takes a minute or two
# A path that sbatch, srun and the mount syntax all take literally.
PLAIN_PATH = re.compile(r"/[A-Za-z0-9_./@+=-]*")
# A host or a user that ssh cannot mistake for an option.
LOGIN_NAME = re.compile(r"[A-Za-z0-9_.:\[\]@%+][A-Za-z0-9_.:\[\]@%+-]*")


@dataclass(frozen=True)
class Site:
    """Defaults of the site and of the user.

    `base`: the folder on the cluster that holds all our files.
    """

    base: str
    partition: str = ""
    account: str = ""
    mounts: str = ""
    time: timedelta | None = None
    timeout: timedelta | None = None
    cpus_per_gpu: int = 16
    gpus_per_node: int = 8  # used if the cluster does not say
    requeue: bool = True
    runtime: str = ""
    sqsh: bool = True
    conversion_partition: str = ""
    conversion_minutes: int = 30
    conversion_memory_gb: int = 32
    sqsh_cache: str = ""


def read_site(settings: Settings) -> Site:
    """Read the site from the settings.

    Raises CredentialError if the base is missing, SpecError for an invalid value.
    """
    return Site(
        base=read_base(settings),
        partition=read_text(settings, "SLURM_PARTITION"),
        account=read_text(settings, "SLURM_ACCOUNT"),
        mounts=read_text(settings, "SLURM_CONTAINER_MOUNTS"),
        time=read_hours(settings, "SLURM_TIME_HOURS"),
        timeout=read_hours(settings, "SLURM_TIMEOUT_HOURS"),
        cpus_per_gpu=read_number(settings, "SLURM_CPUS_PER_TASK", 16),
        gpus_per_node=read_number(settings, "SLURM_MAX_GPUS_PER_NODE", 8),
        requeue=read_yes(settings, "SLURM_USE_REQUEUE", True),
        runtime=read_text(settings, "SLURM_CONTAINER_RUNTIME"),
        sqsh=read_yes(settings, "SLURM_USE_SQSH", True),
        conversion_partition=read_text(settings, "SLURM_CONVERSION_PARTITION"),
        conversion_minutes=read_number(settings, "SLURM_CONVERSION_TIMEOUT_MINUTES", 30),
        conversion_memory_gb=read_number(settings, "SLURM_CONVERSION_MEMORY_GB", 32),
        sqsh_cache=read_text(settings, "SLURM_SQSH_CACHE_DIR").rstrip("/"),
    )


def read_base(settings: Settings) -> str:
    """The base directory.

    Raises CredentialError if none is set, SpecError for characters that SLURM does not take
    literally.
    """
    base = read_text(settings, "SLURM_BASE_RESULTS_DIR").rstrip("/")
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
    return base


def read_login(settings: Settings) -> Login:
    """Read the ssh login. Raises CredentialError that names the missing settings, SpecError."""
    hosts = read_text(settings, "SLURM_HOSTNAME", "SSH_HOST")
    user = read_text(settings, "SLURM_USER", "SSH_USER")
    names = host_names(hosts)
    if not names or not user:
        base = settings.get("SLURM_BASE_RESULTS_DIR")
        raise missing_settings(
            {"SLURM_USER": user, "SLURM_HOSTNAME": hosts, "SLURM_BASE_RESULTS_DIR": base}
        )
    for name in (*names, user):
        check_login_name(name)
    return Login(
        hosts=names,
        user=user,
        key=key_path(settings),
        config=read_text(settings, "TAO_SSH_CONFIG") or own_config(settings),
        reuse_only=read_yes(settings, "SLURM_SSH_REUSE", False),
        connect_seconds=read_number(settings, "SLURM_SSH_CONNECT_SECONDS", 10),
        environ=settings.environ,
        settings=LOGIN_SETTINGS,
    )


def key_path(settings: Settings) -> str:
    """SSH_KEY_PATH with `~` as the caller's home; "" if it is not set."""
    key = read_text(settings, "SSH_KEY_PATH")
    if not key:
        return ""
    return str(Path(key).expanduser())


def host_names(hosts: str) -> tuple[str, ...]:
    """The names in a comma-separated list, without repeats."""
    stripped = [host.strip() for host in hosts.split(",")]
    return tuple(dict.fromkeys(filter(None, stripped)))


def check_login_name(name: str) -> None:
    """Raise SpecError for an invalid name of a host or a user."""
    if LOGIN_NAME.fullmatch(name):
        return
    what = f"{name!r} is no name of a host or a user."
    raise SpecError(what, "", "Correct SLURM_HOSTNAME or SLURM_USER.")


def missing_settings(settings: Mapping[str, str | None]) -> CredentialError:
    """One error for all settings without a value, in the document's words."""
    missing = [name for name, value in settings.items() if not value]
    fix = (
        "Set SLURM_USER and SLURM_HOSTNAME (comma-separated for failover) in your env "
        "(~/.config/tao/.env)."
    )
    if "SLURM_BASE_RESULTS_DIR" in missing:
        fix = f"{fix} {NO_BASE}"
    return CredentialError(
        f"MISSING: {list_missing(missing)} not set.",
        "Jobs are handed over on a login node of the cluster.",
        fix,
    )


def list_missing(names: Sequence[str]) -> str:
    """`A is`, `A and B are`, `A, B and C are`."""
    *first, last = names
    if not first:
        return f"{last} is"
    return f"{', '.join(first)} and {last} are"


def own_config(settings: Settings) -> str:
    """The ssh_config in HOME; "" if there is none, or if ssh reads it anyway.

    By itself, ssh reads only the config in the home from the password file.
    """
    config = settings.home / ".ssh" / "config"
    try:
        standard = Path(getpwuid(os.getuid()).pw_dir)
    except KeyError:
        standard = Path("/")
    if settings.home == standard or not config.is_file():
        return ""
    return str(config)


def read_text(settings: Settings, *names: str) -> str:
    """The value of the first of these settings that is set; "" if none is."""
    for name in names:
        text = settings.get(name)
        if text:
            return text
    return ""


def read_hours(settings: Settings, name: str) -> timedelta | None:
    """The setting as a time; None if it is not set. Raises SpecError."""
    text = settings.get(name)
    if not text:
        return None
    try:
        return timedelta(hours=float(text))
    except ValueError:
        raise SpecError(f"{name} is {text!r}.", "", "It is a number of hours, such as 4.") from None


def poll_seconds(settings: Settings) -> float:
    """Seconds between two requests to a controller. It serves a whole site, so ask it seldom."""
    return float(read_number(settings, "SLURM_POLL_SECONDS", POLITE_SECONDS))


def fetch_bytes(settings: Settings) -> int:
    """The bytes of S3 inputs above which a job with GPUs gets a warning; 0 for never.

    Raises SpecError.
    """
    text = settings.get("SLURM_S3_WARN_GB") or str(FETCH_GB)
    try:
        return int(float(text) * 1e9)
    except (ValueError, OverflowError):
        raise SpecError(
            f"SLURM_S3_WARN_GB is {text!r}.", "", "It is a number of gigabytes, such as 10."
        ) from None


def read_number(settings: Settings, name: str, default: int) -> int:
    """The setting as a number, or `default`. Raises SpecError if it is no whole number."""
    text = settings.get(name)
    if not text:
        return default
    if not text.isdigit():
        raise SpecError(f"{name} is {text!r}.", "", "It is a whole number.")
    return int(text)


def read_yes(settings: Settings, name: str, default: bool) -> bool:
    """The setting as yes or no, or `default`. Any value except 1, true, yes and on is a no."""
    text = settings.get(name)
    if not text:
        return default
    return text.lower() in ("1", "true", "yes", "on")
