"""SlurmSDK: jobs of a SLURM cluster, reached over SSH."""

from tao_sdk.client import PlatformSDK


class SlurmSDK(PlatformSDK):
    """Runs jobs on a cluster. PlatformSDK below says what the arguments mean.

    Its own options, further keywords of create_job: partition, account, qos, constraint,
    reservation, nodelist, exclude, requeue, exclusive, timeout, resume_on_timeout,
    container_runtime, mail_user, use_sqsh, force_reconvert_latest. What each means:
    help(tao_sdk.backends.slurm.options.SlurmOptions), or docs/slurm.md.
    """

    platform = "slurm"
