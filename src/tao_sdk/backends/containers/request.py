"""ContainerRequest: the request to a daemon that starts the container of one attempt.

Also here: the labels by which the container is found again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tao_sdk.backends.job_environment import Variables
from tao_sdk.model.plan import Attempt
from tao_sdk.model.spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class ContainerRequest:
    """The container to create, and the steps before and after that."""

    name: str
    container: Mapping[str, Any]  # body of the daemon's POST /containers/create
    # sent through standard input, so that `docker inspect` does not show it
    environment: Variables
    command: str  # delivered as a file; "" if it is part of the body
    pull: str  # when to pull the image: missing, always or never
    folders: tuple[str, ...]  # made on this machine before the container is created
    make_network: bool  # create our own network if it is absent
    daemon: str = ""  # the identity of the daemon that the plan is for
    opens_results: bool = False  # let the command's user write to /results in the container

    @property
    def image(self) -> str:
        return self.container["Image"]

    @property
    def host_config(self) -> Mapping[str, Any]:
        return self.container["HostConfig"]

    @property
    def network(self) -> str:
        return self.host_config["NetworkMode"]


def job_labels(
    spec: JobSpec, attempt: Attempt, results_dir: str, gpus: list[int], backend_type: str
) -> dict[str, str]:
    """The spec's labels and ours. `results_dir`: a path on the daemon's machine, or an address.

    All our labels are set, even empty ones. An image that was made from a job's container carries
    that job's labels, and a new container would inherit a label that we leave out.
    """
    time_limit = f"{spec.time_limit.total_seconds():g}" if spec.time_limit else ""
    on_disk = results_dir.startswith("/")
    return {
        **spec.labels,
        "tao-toolkit": "true",
        "tao-sdk-backend": backend_type,
        "tao-sdk-job-id": attempt.job_id,
        "tao-sdk-attempt": str(attempt.number),
        "tao-sdk-store": attempt.store_id,
        "tao-sdk-results": results_dir if on_disk else "",
        "tao-sdk-gpus": ",".join(map(str, gpus)),
        "tao-sdk-time-limit": time_limit,
    }
