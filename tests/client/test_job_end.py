from __future__ import annotations

import pytest

from tao_sdk.client.job_end import pipe_words
from tao_sdk.model.job import Job
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status


def ended(command: str, status: Status, reason: Reason | None = None) -> Job:
    return Job("a-1", "a", "local", status, reason_code=reason, spec={"command": command})


@pytest.mark.parametrize("command", ["python t.py 2>&1 | tee log.txt", "t |& tee -i a", "t|tee a"])
def test_a_job_that_was_told_to_end_says_that_tee_took_the_signal(command: str) -> None:
    assert "The signal ended tee too" in pipe_words(ended(command, Status.CANCELED))
    assert pipe_words(ended(command, Status.ERROR, Reason.TIME_LIMIT))
    assert not pipe_words(ended(command, Status.ERROR, Reason.EXIT_CODE))


@pytest.mark.parametrize(
    "command", ["python t.py", "trap : TERM; t | (trap '' TERM; exec tee log)", "t | teehee"]
)
def test_a_command_whose_pipe_is_not_cut_says_nothing_of_it(command: str) -> None:
    assert not pipe_words(ended(command, Status.CANCELED))
