"""What a plan knows of a place that gives no answer."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, cast

import pytest

from tao_sdk.backends.contract import AnyBackend, AssumedFacts
from tao_sdk.backends.slurm.cluster.survey import read_facts
from tao_sdk.engine.place_facts import ask_or_assume, ask_place
from tao_sdk.model.errors import ControllerSilent


class SilentCluster:
    """A cluster to which the login works, and whose controller is down."""

    def survey(self, *_: Any) -> Any:
        return read_facts({"config": ""}, cast(Any, None), datetime.now(timezone.utc))

    def assume_facts(self, *_: Any) -> AssumedFacts:
        return AssumedFacts("assumed", "the cluster did not answer.")


def test_a_plan_is_made_without_the_controller_and_a_submit_is_not() -> None:
    silent = cast(AnyBackend, SilentCluster())
    place = ask_or_assume(silent, cast(Any, None), None)
    assert (place.facts, place.asked) == ("assumed", False)
    (finding,) = place.findings
    assert "the controller is down" in finding.why
    with pytest.raises(ControllerSilent):
        ask_place(silent, cast(Any, None), None)
