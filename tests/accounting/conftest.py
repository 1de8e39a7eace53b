"""Golden files: expected numbers of the published reference code, shipped beside the repository."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


def _need(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"golden file {path.name} is not beside the repository (shared/)")
    return path


@pytest.fixture(scope="module", autouse=True)
def kept_curves() -> None:
    """None is: they are what is tested."""


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Any]:
    """Load ``NAME`` from shared/golden/accounting, or skip."""

    def load(name: str) -> Any:
        path = _need(SHARED / "golden" / "accounting" / name)
        if name.endswith(".gz"):
            return json.loads(gzip.decompress(path.read_bytes()))
        return json.loads(path.read_text())

    return load


@pytest.fixture(scope="session")
def golden_votes() -> Callable[[str], np.ndarray]:
    """Votes of ``mnistlike`` (9,000 x 10, 250 teachers) or ``glyphlike`` (12,000 x 150, 5,000 teachers), or skip."""
    return cache(lambda name: np.load(_need(SHARED / "golden" / "accounting" / f"{name}.npz"))["votes"])


@pytest.fixture(scope="session")
def mnist_votes() -> np.ndarray:
    """The published votes of 250 MNIST teachers on 9,000 test digits, int64 (9000, 10), or skip."""
    return np.load(_need(SHARED / "data" / "pate2018_votes_mnist.npz"))["votes"].astype(np.int64)
