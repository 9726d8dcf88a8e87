"""LeptonSDK: jobs of a DGX Cloud Lepton workspace."""

from tao_sdk.client import PlatformSDK


class LeptonSDK(PlatformSDK):
    """Runs jobs in a workspace. PlatformSDK below says what the arguments mean.

    Its own options, further keywords of create_job: resource_shape, dedicated_node_group, node_ids,
    volume, image_pull_secret, pull_secret, priority_class, preemptible, ttl. What each means:
    help(tao_sdk.backends.lepton.options.LeptonOptions), or docs/lepton.md.
    """

    platform = "lepton"
