"""Fixtures that all tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from consilium.coordinator.events import EventLog
from tests.federation import make_homes
from tests.marks import rank, some

# the same wherever the tests run (Hypothesis has a profile of its own where CI is set), however fast the machine is
settings.register_profile(
    "consilium",
    settings.get_profile("default"),
    deadline=None,
    max_examples=some(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("consilium")

SHARED_DATA = Path(os.environ.get("CONSILIUM_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
if SHARED_DATA.is_dir():  # a user has no such folder beside the package: the program itself looks for none
    os.environ["CONSILIUM_DATA"] = str(SHARED_DATA)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the tests, files with the most expensive ones come first."""
    if hasattr(config, "workerinput"):
        first: dict[Path, int] = {}
        for item in items:
            first[item.path] = min(first.get(item.path, rank(item)), rank(item))
        items.sort(key=lambda item: first[item.path])


@pytest.fixture(scope="session", autouse=True)
def lasting_workers() -> Iterator[None]:
    """Runs in this process share their worker processes."""
    if "consilium.simulations.run" not in sys.modules:  # no test that was collected makes a run
        yield
        return
    from tests.workers import Workers

    workers = Workers()
    with pytest.MonkeyPatch.context() as patch:
        for module in ("run", "engines.process"):
            patch.setattr(f"consilium.simulations.{module}.running_workers", workers.running)
        yield
    workers.end()


@pytest.fixture(scope="module", autouse=True)
def kept_curves(request: pytest.FixtureRequest) -> Iterator[None]:
    """Worst-case curves of accounting are computed once, and kept for the next run."""
    cache = getattr(request.config, "cache", None)
    if cache is None or "consilium.accounting.worst.adaptive" not in sys.modules:
        yield
        return
    from tests.curves import kept_in

    with kept_in(Path(cache.mkdir("curves"))):
        yield


@pytest.fixture
def shared_data() -> Path:
    """Folder with the data sets that are too large for the repository; skips where it is not."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no data sets at {SHARED_DATA}: set CONSILIUM_DATA to their folder")
    return SHARED_DATA


@pytest.fixture
def heart(shared_data: Path) -> dict[str, np.ndarray]:
    """The arrays of UCI's heart disease data."""
    path = shared_data / "heart_uci.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    """Five parties."""
    return make_homes(tmp_path / "homes", 5)


@pytest.fixture
def log(tmp_path: Path):
    """An event log."""
    events = EventLog(tmp_path / "events.jsonl")
    yield events
    events.close()
