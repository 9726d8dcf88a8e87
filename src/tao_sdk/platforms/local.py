"""LocalSDK: jobs as supervised processes of this machine, without a container."""

from tao_sdk.client import PlatformSDK


class LocalSDK(PlatformSDK):
    platform = "local"
