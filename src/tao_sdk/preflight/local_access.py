"""Access to this machine, whose local jobs run in no container."""

from __future__ import annotations

from collections.abc import Iterator

from tao_sdk.model.finding import Finding, error
from tao_sdk.preflight.access import Access, free_at, smoke_not_run
from tao_sdk.preflight.datasets import Place
from tao_sdk.preflight.places import ThisMachine


class LocalAccess(Access):
    """This machine, whose jobs run in no container."""

    def free(self) -> int | None:
        return free_at(".")

    def paths(self) -> Place:
        return ThisMachine()

    def findings(self) -> Iterator[Finding]:
        if self.check.image:
            yield error(
                "image.unused",
                f"{self.check.image} was not looked at: a local job runs in no container.",
                "",
                "Leave --container-image out, or run the job in it: --platform local-docker",
            )
        if self.check.smoke_image:
            yield smoke_not_run(
                "A local job runs in no container.", "Leave --gpu-smoke-image out, and run:",
                "nvidia-smi -L",
            )  # fmt: skip
