"""KubernetesSDK: not part of this version. Importing it says so."""

from tao_sdk.backends.registry import not_built

raise not_built("kubernetes")
