"""What tests of the protocol share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.secagg.network import blocks_unchecked


@pytest.fixture
def any_set() -> Iterator[None]:
    """Exact sums over whoever is there, as sums with noise have it: what blocks are for, test_across plays."""
    with blocks_unchecked():
        yield
