"""The client: what the SDK classes and the `tao` command are made of."""

from tao_sdk.client.client import Client
from tao_sdk.client.platform_sdk import PlatformSDK
from tao_sdk.client.results import Results

__all__ = ["Client", "PlatformSDK", "Results"]
