"""The catalogue of credentials: their names in the caller's environment and in a job's.

Source: the platform document's table of environment variables. The caller's env_vars override the
values from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

# the caller's name -> the names in the job
IN_THE_JOB: Mapping[str, tuple[str, ...]] = {
    "ACCESS_KEY": ("AWS_ACCESS_KEY_ID",),
    "SECRET_KEY": ("AWS_SECRET_ACCESS_KEY",),
    "S3_ENDPOINT_URL": ("AWS_ENDPOINT_URL",),
    "CLOUD_REGION": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "S3_BUCKET_NAME": ("S3_BUCKET_NAME",),
    "NGC_KEY": ("NGC_KEY",),
    "HF_TOKEN": ("HF_TOKEN",),
}

# Control-plane values: they steer this SDK and must not steer what runs inside the job.
NEVER_IN_THE_JOB = frozenset(
    {"BACKEND", "HOST_PLATFORM", "MONGOSECRET", "DOCKER_HOST", "DOCKER_NETWORK"}
)

KNOWN_NAMES = frozenset(IN_THE_JOB) | {
    "BREV_API_TOKEN", "LEPTON_WORKSPACE_ID", "LEPTON_AUTH_TOKEN", "LEPTON_WORKSPACE_URL",
    "DOCKER_USERNAME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
    "DOCKER_NETWORK",
    "DOCKER_PULL_POLICY", "DOCKER_AUTO_REMOVE", "HOST_SSH_PATH", "TAO_VERSIONS_FILE",
    "TAO_SKILL_BANK_PATH",
    "SLURM_USER", "SLURM_HOSTNAME", "SLURM_PARTITION", "SLURM_ACCOUNT", "SLURM_BASE_RESULTS_DIR",
    "SLURM_CONTAINER_MOUNTS", "SLURM_CLUSTER_NAME", "SLURM_CONTAINER_RUNTIME", "SLURM_TIME_HOURS",
    "SLURM_TIMEOUT_HOURS",
    "SLURM_CPUS_PER_TASK", "SLURM_MAX_GPUS_PER_NODE", "SLURM_USE_REQUEUE", "SLURM_USE_SQSH",
    "SLURM_SQSH_CACHE_DIR",
    "SLURM_CONVERSION_PARTITION", "SLURM_CONVERSION_TIMEOUT_MINUTES", "SLURM_CONVERSION_MEMORY_GB",
    "SLURM_SSH_REUSE",
    "SLURM_SSH_CONNECT_SECONDS", "SLURM_POLL_SECONDS", "SLURM_S3_WARN_GB",
    "SSH_HOST", "SSH_USER", "SSH_KEY_PATH", "TAO_SSH_CONFIG", "TAO_K8S_CONTEXT",
    "TAO_K8S_NAMESPACE", "TAO_K8S_SKIP_NODE_RUNTIME_CHECK", "KUBECONFIG",
}  # fmt: skip


def job_credentials(lookup: Callable[[str], str | None]) -> dict[str, str]:
    """The credentials that are set, under their names in a job."""
    return {
        inside: value
        for name, inner in IN_THE_JOB.items()
        if (value := lookup(name))
        for inside in inner
    }
