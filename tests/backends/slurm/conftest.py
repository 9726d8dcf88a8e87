from __future__ import annotations

from collections.abc import Iterator

import cluster_here
import pytest
from cluster_here import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    here = cluster_here.cluster()
    yield here
    here.clear()
