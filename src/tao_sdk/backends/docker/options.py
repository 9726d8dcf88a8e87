"""Options of the Docker backend: how to run a job as a container."""

from __future__ import annotations

from dataclasses import dataclass

from tao_sdk.model import fields as f
from tao_sdk.model.fields import setting

PULL = ("missing", "always", "never")


@f.lists_fields()
@dataclass(frozen=True)
class DockerOptions:
    """What only the Docker platform understands."""

    pull: str | None = setting(
        f.choice(*PULL), None, "When to pull the image. Default: $DOCKER_PULL_POLICY, else missing."
    )
    network: str = setting(
        f.TEXT, "", "Network of the container. Default: $DOCKER_NETWORK, else tao_default."
    )
    gpu_ids: tuple[int, ...] = setting(
        f.integers(0), (), "Exactly these GPUs, by nvidia-smi's index."
    )
    user: str = setting(
        f.TEXT, "", "User in the container, such as 1000:1000; `image` for the image's own."
    )
    ssh_key: bool = setting(
        f.YES_OR_NO, False, "Mount $HOST_SSH_PATH (else ~/.ssh) read-only at /root/.ssh."
    )
