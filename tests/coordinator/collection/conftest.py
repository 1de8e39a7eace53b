"""A federation of secure votes, made in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordinator.collection.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path, log):
    return lambda **changes: Cluster(tmp_path, log, **changes)
