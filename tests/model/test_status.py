"""The one rule by which a status changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.status import Standing, Status, advance

RUNNING = Standing(Status.RUNNING, "running")


def seen(phase: Phase, **more: object) -> Observation:
    return Observation(phase, phase.value, **more)  # pyright: ignore[reportArgumentType]


def test_what_could_not_be_looked_at_keeps_its_status_with_a_note() -> None:
    after = advance(RUNNING, seen(Phase.UNREACHABLE, reason="connection refused"))
    assert after.status is Status.RUNNING
    assert "connection refused" in after.message


def test_one_look_that_finds_nothing_decides_nothing_and_two_do() -> None:
    once = advance(RUNNING, seen(Phase.ABSENT))
    assert once.status is Status.RUNNING
    twice = advance(once, seen(Phase.ABSENT))
    assert (twice.status, twice.message) == (Status.ERROR, "removed outside")


def test_a_look_that_could_not_be_made_does_not_count_as_absence() -> None:
    once = advance(RUNNING, seen(Phase.ABSENT))
    assert (
        advance(advance(once, seen(Phase.UNREACHABLE)), seen(Phase.UNREACHABLE)).status
        is Status.RUNNING
    )


def test_being_seen_again_forgets_the_absence() -> None:
    once = advance(RUNNING, seen(Phase.ABSENT))
    assert advance(advance(once, seen(Phase.RUNNING)), seen(Phase.ABSENT)).status is Status.RUNNING


def test_the_outcome_record_decides_what_the_backend_forgot() -> None:
    once = advance(RUNNING, seen(Phase.ABSENT))
    assert advance(once, seen(Phase.ABSENT), Outcome(True, 0)).status is Status.COMPLETE
    assert advance(once, seen(Phase.ABSENT), Outcome(True, 3)).exit_code == 3
    assert advance(once, seen(Phase.ABSENT), Outcome(False, 0)).status is Status.ERROR


def test_an_end_after_a_cancel_is_canceled_unless_the_command_had_succeeded() -> None:
    asked = Standing(Status.RUNNING, cancel_asked=True)
    assert advance(asked, seen(Phase.FAILED, exit_code=143)).status is Status.CANCELED
    assert advance(asked, seen(Phase.SUCCEEDED, exit_code=0)).status is Status.COMPLETE
    assert advance(asked, seen(Phase.RUNNING)).status is Status.RUNNING
    once = advance(asked, seen(Phase.ABSENT))
    assert advance(once, seen(Phase.ABSENT), Outcome(True, 143)).status is Status.CANCELED
    assert advance(once, seen(Phase.ABSENT), Outcome(True, 0)).status is Status.COMPLETE


@given(
    st.sampled_from([Status.COMPLETE, Status.ERROR, Status.CANCELED]),
    st.lists(st.sampled_from(list(Phase)), max_size=9),
)
def test_a_terminal_status_never_changes(status: Status, phases: list[Phase]) -> None:
    standing = Standing(status, "as it ended", 0)
    for phase in phases:
        assert advance(standing, seen(phase)) == standing


@pytest.mark.slow
@given(st.lists(st.sampled_from(list(Phase)), max_size=12))
def test_every_sequence_of_looks_leads_to_a_status(phases: list[Phase]) -> None:
    standing = Standing(Status.PENDING)
    for phase in phases:
        standing = advance(standing, seen(phase))
        assert standing.status in Status


def test_a_status_prints_and_compares_as_its_word() -> None:
    assert f"{Status.COMPLETE}" == "Complete"
    assert Status.COMPLETE in ("Complete", "Error", "Canceled")
