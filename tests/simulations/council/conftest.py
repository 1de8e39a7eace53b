from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulations.council.warm import KeptWorker, quick_fits


@pytest.fixture(scope="session")
def workers() -> Iterator[list[KeptWorker]]:
    started = [KeptWorker() for _ in range(2)]
    yield started
    for worker in started:
        worker.end()


@pytest.fixture
def quick(workers: list[KeptWorker]) -> Iterator[None]:
    with quick_fits(workers):
        yield
