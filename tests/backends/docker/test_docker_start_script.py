"""What /bin/sh does in a container before the command, as shellcheck reads it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.shellcheck import complaints_of_text
from tao_sdk.backends.containers.start_script import MAX_ARGUMENT, start_script


@pytest.mark.parametrize("takes_environment", [False, True])
@pytest.mark.parametrize("time_limit", [None, timedelta(minutes=1)])
@pytest.mark.parametrize("command", ["train", "x" * (MAX_ARGUMENT + 1)])
def test_shellcheck_has_nothing_to_say_of_the_start_script(
    command: str, time_limit: timedelta | None, takes_environment: bool
) -> None:
    assert complaints_of_text(start_script(command, time_limit, takes_environment)) == []
