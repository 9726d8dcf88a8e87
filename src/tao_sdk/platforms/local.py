"""LocalSDK: jobs as supervised processes of this machine, without a container."""

from tao_sdk.client import PlatformSDK


class LocalSDK(PlatformSDK):
    """Runs jobs on this machine. Results are in ./runs/<job id>; PlatformSDK below says what the
    arguments mean.

    Its own options, further keywords of create_job: gpu_ids (exactly these GPUs), venv_path (a
    virtual environment).
    """

    platform = "local"
