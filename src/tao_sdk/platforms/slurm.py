"""SlurmSDK: jobs of a SLURM cluster, reached over SSH."""

from tao_sdk.client import PlatformSDK


class SlurmSDK(PlatformSDK):
    platform = "slurm"
