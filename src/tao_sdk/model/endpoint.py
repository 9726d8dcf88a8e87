"""Endpoints: places of a platform that the user has named, and the settings that lead to each.

Here: the content of `endpoints:` in config.yaml, and the settings that a later process needs to
reach a place again. Not here: the file itself (config_file.py), and which platforms there are
(backends/by_name.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tao_sdk.model.errors import UsageError
from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.model.secrets import is_secret_name

NAME = lazy_compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True)
class PlatformSettings:
    """The settings that an endpoint of a platform may have.

    `where`: one of them says which place it is. `own`: settings that are true of one place only.
    `shared`: settings that come from the user's other settings if the endpoint lacks them.
    `prefix`: the beginning of their names, which a key leaves out. `by_option`: an option of a job
    that chooses the place -> the setting that it stands for.
    """

    where: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    prefix: str = ""
    by_option: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.where, *self.own, *self.shared)


SETTINGS: Mapping[str, PlatformSettings] = {
    "local": PlatformSettings(),
    "docker": PlatformSettings(
        where=("DOCKER_HOST", "DOCKER_CONTEXT"),
        own=("DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
        shared=("DOCKER_NETWORK", "DOCKER_PULL_POLICY", "DOCKER_AUTO_REMOVE", "DOCKER_USERNAME",
             "HOST_SSH_PATH"),
    ),
    "slurm": PlatformSettings(
        where=("SLURM_HOSTNAME",),
        own=(
            "SSH_HOST", "SLURM_CLUSTER_NAME", "SLURM_PARTITION", "SLURM_ACCOUNT",
            "SLURM_CONTAINER_MOUNTS",
            "SLURM_CONVERSION_PARTITION", "SLURM_SQSH_CACHE_DIR",
        ),
        shared=(
            "SLURM_USER", "SSH_USER", "SSH_KEY_PATH", "TAO_SSH_CONFIG", "SLURM_BASE_RESULTS_DIR",
            "SLURM_CONTAINER_RUNTIME",
            "SLURM_TIME_HOURS", "SLURM_TIMEOUT_HOURS", "SLURM_CPUS_PER_TASK",
            "SLURM_MAX_GPUS_PER_NODE",
            "SLURM_USE_REQUEUE", "SLURM_USE_SQSH", "SLURM_CONVERSION_TIMEOUT_MINUTES",
            "SLURM_CONVERSION_MEMORY_GB",
            "SLURM_SSH_REUSE", "SLURM_SSH_CONNECT_SECONDS", "SLURM_POLL_SECONDS",
            "SLURM_S3_WARN_GB",
        ),
        prefix="SLURM_",
    ),
    "lepton": PlatformSettings(
        where=("LEPTON_WORKSPACE_ID",),
        own=("LEPTON_WORKSPACE_URL",),
        prefix="LEPTON_",
    ),
    "kubernetes": PlatformSettings(
        where=("TAO_K8S_CONTEXT", "KUBECONFIG"),
        shared=("TAO_K8S_NAMESPACE",),
        prefix="TAO_K8S_",
        by_option={"context": "TAO_K8S_CONTEXT"},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A key of config.yaml with its value, and its place in the file: `file:line`."""

    key: str
    value: str = field(repr=False)
    place: str


@dataclass(frozen=True)
class NamedEndpoint:
    """A place with a name in config.yaml."""

    name: str
    platform: str
    lines: tuple[Line, ...] = ()
    place: str = ""  # where its name stands: `file:line`
    platform_place: str = ""

    def read_settings(self) -> dict[str, str]:
        """The endpoint's settings, by their names in the environment. Raises UsageError with the
        place of a wrong key.
        """
        given: dict[str, str] = {}
        for line in self.lines:
            setting = setting_named(self.platform, line)
            if setting in given:
                raise UsageError(
                    f"{line.place}: {line.key} is said a second time.", "", "Say it once."
                )
            given[setting] = line.value
        where = SETTINGS[self.platform].where if self.platform in SETTINGS else ()
        if where and not any(given.get(setting) for setting in where):
            keys = " or ".join(key_of(self.platform, setting) for setting in where)
            raise UsageError(
                f"{self.place}: endpoint {self.name} does not say where it is.",
                "",
                f"Give its {keys}.",
            )
        return given


def setting_named(platform: str, line: Line) -> str:
    """The setting that a key means: `hostname` and `SLURM_HOSTNAME` are the same for slurm."""
    wanted = line.key.upper()
    settings = SETTINGS.get(platform)
    known = settings.names if settings else None
    if settings is not None:
        for setting in (wanted, f"{platform.upper()}_{wanted}", settings.prefix + wanted):
            if setting in settings.names:
                return setting
    if is_secret_name(wanted):
        fix = "Put it into ~/.config/tao/.env, mode 0600, or into the environment."
        raise UsageError(
            f"{line.place}: {line.key} is a secret.", "endpoints: holds no secrets.", fix
        )
    if known is None:
        return wanted
    import difflib

    keys = [key_of(platform, setting) for setting in known]
    near = difflib.get_close_matches(line.key.lower(), keys, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known are: {', '.join(['platform', *keys])}."
    raise UsageError(f"{line.place}: unknown key {line.key!r} of a {platform} endpoint.", "", hint)


def key_of(platform: str, setting: str) -> str:
    """The key that a person writes for a setting: `docker_host`, for slurm `hostname`."""
    settings = SETTINGS.get(platform, PlatformSettings())
    return setting.removeprefix(settings.prefix).lower()


def own_settings(platform: str) -> frozenset[str]:
    """The settings that are true of one place only, so they never come from another's."""
    known = SETTINGS.get(platform, PlatformSettings())
    return frozenset({*known.where, *known.own})


def chosen_settings(platform: str, options: Mapping[str, Any]) -> dict[str, str]:
    """The settings of the place that a job's options choose; {} if they choose none."""
    by_option = SETTINGS.get(platform, PlatformSettings()).by_option
    return {
        setting: str(options[option])
        for option, setting in by_option.items()
        if options.get(option)
    }
