"""DockerSDK: jobs as containers of a Docker daemon, here or where DOCKER_HOST says."""

from tao_sdk.client import PlatformSDK


class DockerSDK(PlatformSDK):
    """Runs jobs as containers. PlatformSDK below says what the arguments mean.

    Its own options, further keywords of create_job: pull (missing, always or never), network,
    gpu_ids (exactly these GPUs), user (in the container), ssh_key (mount $HOST_SSH_PATH, else
    ~/.ssh, read-only).
    """

    platform = "docker"
