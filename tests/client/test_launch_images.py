"""The image of a job before its launch: what a platform lets the client look at, and its registry
says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from support import marks
from support.servers.registry_alone import LoneRegistry, lone_registry
from tao_sdk.client import Client
from tao_sdk.client.launch_checks import image_findings
from tao_sdk.engine.prepare import Planned
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.finding import Finding, Severity, error
from tao_sdk.model.machines import Machines
from tao_sdk.model.plan import Plan
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec


@dataclass
class Place:
    """A platform that shows its machines."""

    settings: Settings
    asked: list[str] = field(default_factory=list[str])
    away: bool = False

    def machines(self, plan: Plan[Any]) -> Machines:
        raise NotImplementedError

    def private_image_findings(self, plan: Plan[Any], registry: str) -> list[Finding]:
        self.asked.append(registry)
        if self.away:
            raise Unreachable("It is away.", "", "Wait.")
        return [error("place.login", "It has no login.", "", "Log in.")]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[LoneRegistry]:
    marks.need("network")
    with lone_registry(tmp_path) as made:
        yield made


@pytest.mark.network
def test_an_image_is_looked_for_where_the_platform_has_not_looked_itself(
    registry: LoneRegistry, tmp_path: Path
) -> None:
    client = Client(settings=Settings({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}))
    folder = registry.log_in(tmp_path / "docker")
    place = Place(Settings({**client.settings.environ, "DOCKER_CONFIG": folder}))
    arm = Machines(archs=("arm64",))

    def codes(image: str, machines: Machines = arm, *found: Finding) -> list[str]:
        spec = JobSpec(command="true", gpu_count=0, image=image)
        planned: Planned = replace(client.plan(spec, "local"), findings=found)
        return [each.code for each in image_findings(client, "local", planned, place, machines)]

    one, arms = (f"{registry.name}/tests/{name}:1" for name in ("one", "arm"))
    assert codes(arms) == ["image.there", "place.login"]
    assert codes(one) == ["image.architecture", "place.login"]
    assert codes(f"{registry.name}/tests/none:1") == ["image.missing"]
    assert place.asked == [registry.name] * 2
    place.away = True
    assert codes(arms) == ["image.there", "machines.not_seen"]
    assert codes(one, replace(arm, images=frozenset([one]))) == ["image.there"]
    # A daemon has asked the registry itself: what it can pull is not refused from here.
    daemon = replace(arm, asks_registries=True)
    pulled = Finding(Severity.OK, "image.pulled", "It is pulled.")
    assert codes(one, daemon) == []
    assert codes("127.0.0.1:1/a:1", daemon, pulled) == []
    assert codes(one, daemon, pulled)[0] == "image.architecture"
    assert codes(f"{tmp_path}/none.sqsh") == ["image.missing"]
    (tmp_path / "a.sqsh").touch()
    assert codes(f"{tmp_path}/a.sqsh") == ["image.there"]
