from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulations.council.warm import quick_fits


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with quick_fits():
        yield
