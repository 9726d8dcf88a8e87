"""The page of failures has every reason with its meaning."""

from __future__ import annotations

from support import reason_table
from tao_sdk.model.reasons import Reason


def test_every_reason_has_a_line_that_says_what_it_means() -> None:
    assert list(reason_table.meanings()) == [reason.value for reason in Reason]


def test_the_page_shows_the_reasons_as_the_code_has_them() -> None:
    assert reason_table.parts()[1] == reason_table.table()
