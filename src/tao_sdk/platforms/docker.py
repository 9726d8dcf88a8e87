"""DockerSDK: jobs as containers of a Docker daemon, here or where DOCKER_HOST says."""

from tao_sdk.client import PlatformSDK


class DockerSDK(PlatformSDK):
    platform = "docker"
