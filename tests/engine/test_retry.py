from __future__ import annotations

from datetime import timedelta

from tao_sdk.engine.retry import LONGEST_WAIT_SECONDS, RetryPolicy, is_due, wait_before
from tao_sdk.model.clock import utc_now
from tao_sdk.model.diagnosis import Diagnosis, ErrClass

LOST_NODE = Diagnosis("node lost", ErrClass.INFRA, "", retryable=True)
BUG = Diagnosis("KeyError", ErrClass.PROGRAM, "")


def test_an_infrastructure_failure_is_tried_again_while_budget_is_left() -> None:
    policy = RetryPolicy(budget=2)
    assert [policy.again(attempt, LOST_NODE) for attempt in (1, 2, 3)] == [True, True, False]


def test_a_programs_failure_a_canceled_job_and_an_unexplained_one_are_not_tried_again() -> None:
    policy = RetryPolicy(budget=9)
    assert not policy.again(1, BUG)
    assert not policy.again(1, None)
    assert not policy.again(1, LOST_NODE, cancel_asked=True)


def test_the_wait_doubles_up_to_its_limit() -> None:
    assert [wait_before(attempt) for attempt in (2, 3, 4)] == [5.0, 10.0, 20.0]
    assert wait_before(50) == LONGEST_WAIT_SECONDS


def test_a_clock_that_is_set_back_puts_off_no_retry() -> None:
    now = utc_now()
    assert is_due(now - timedelta(seconds=1), now)
    assert not is_due(now + timedelta(seconds=LONGEST_WAIT_SECONDS - 1), now)
    assert is_due(now + timedelta(hours=1), now)
