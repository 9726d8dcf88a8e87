"""PlatformSDK: the calls that TAO's platform documents describe, over one platform.

LocalSDK, DockerSDK and SlurmSDK derive from it; each adds nothing but its platform's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tao_sdk.client.client import Client
from tao_sdk.model.fields import settings_of, unknown_field
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, read_spec


class PlatformSDK(Client):
    """Runs jobs on one platform. An instance that holds live jobs watches them, so failures are retried and hooks fire.

    `poll_interval` is the pause (seconds) between the watcher's looks after something has changed; while nothing changes
    the pause grows, to ten times that or a minute, whichever is less. Not given, it begins with what the backend says is
    polite and stays below a minute.
    """

    def __init__(
        self,
        poll_interval: float | None = None,
        epoch_milestone_interval: int = 10,
        state_file: str | Path | None = None,
        *,
        settings: Settings | None = None,
        watch: bool = True,
    ) -> None:
        super().__init__(
            state_file,
            settings=settings,
            watch=watch,
            poll_interval=poll_interval,
            epoch_milestone_interval=epoch_milestone_interval,
        )

    def create_job(
        self,
        image: str = "",
        command: str = "",
        gpu_count: int = 1,
        env_vars: Mapping[str, Any] | None = None,
        inputs: Any = None,
        outputs: Any = None,
        **more: Any,
    ) -> Job:
        """Submit a job. `inputs` and `outputs`, when given, wrap the command (passthrough); else it runs as it is.

        Further keywords are JobSpec's other fields (name, specs, files, time_limit, labels, retries, hooks, ...; see
        help(JobSpec)), the platform's options, and parent_job_id, by which `list_jobs(parent=...)` finds the job.
        Returns at once; `wait(job.id)` waits. Raises SpecError naming a field that is wrong or unknown, Refused,
        CredentialError, Unreachable.
        """
        named = {"image": image, "command": command, "gpu_count": gpu_count, "env_vars": env_vars}
        data = {"inputs": inputs, "outputs": outputs}
        spec_fields, option_fields = settings_of(JobSpec), settings_of(self.options_class(self.platform))
        for name in more:
            if name not in spec_fields and name not in option_fields and name != "parent_job_id":
                raise unknown_field(name, [*spec_fields, *option_fields], "create_job: ")
        values = {name: value for name, value in more.items() if name in spec_fields}
        options = {name: value for name, value in more.items() if name in option_fields}
        spec = read_spec({**named, **data, **values})
        return self.submit(spec, self.platform, options, parent=more.get("parent_job_id")).job

    def get_job_replicas(self, job_id: str) -> list[dict[str, Any]]:
        """One entry, in the form of the documents: the job's status, and the platform's name as that of its node."""
        job = self.get_job(job_id)
        return [{"status": {"phase": job.status.value, "readiness_issue": None, "node": {"name": job.platform}}}]
