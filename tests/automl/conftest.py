from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.language_model import LanguageModel, serving


@pytest.fixture
def language_model() -> Iterator[LanguageModel]:
    with serving() as found:
        yield found
