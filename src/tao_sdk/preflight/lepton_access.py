"""Access to a Lepton workspace: no command of its own shows it."""

from __future__ import annotations

from collections.abc import Iterator

from tao_sdk.model.finding import Finding
from tao_sdk.model.machines import Gpu, Machines
from tao_sdk.preflight.access import Access, find_image, smoke_by_package
from tao_sdk.preflight.datasets import NotSeen, Place
from tao_sdk.preflight.places import Unseen


class LeptonAccess(Access):
    """A workspace, of which only the image can be looked at. Its skill names the settings that it
    needs.
    """

    def paths(self) -> Place:
        return Unseen(
            "A path of a volume is seen from a job only.",
            "Look from a job that mounts the volume, or put the data in a bucket: s3://...",
        )

    def findings(self) -> Iterator[Finding]:
        if self.check.image:
            _, findings, _ = find_image(self.check, Machines())
            yield from findings
        if self.check.smoke_image:
            yield smoke_by_package("lepton", self.check.smoke_image)

    def gpus(self) -> list[Gpu]:
        raise NotSeen(
            "The GPUs of a workspace are not seen from here.",
            "Where the package is installed, run: tao doctor lepton",
        )
