"""One round: parties' rows, the teacher, its votes. Copied to where each peer runs: it needs numpy and scikit-learn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression


@dataclass(frozen=True)
class Rows:
    """x float64 (rows, features) and y int64 (rows,) of all parties, one after the other; ends int64 (parties,): where
    the rows of each end. queries float64 (queries, features): the public rows."""

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    ends: np.ndarray = field(repr=False)
    queries: np.ndarray = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> Rows:
        """Of a folder that `save` wrote; in memory that processes share."""
        return cls(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x", "y", "ends", "queries")))

    def save(self, folder: Path) -> None:
        """Write one file for each array."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("x", "y", "ends", "queries"):
            np.save(folder / f"{name}.npy", getattr(self, name))

    def of(self, party: int) -> tuple[np.ndarray, np.ndarray]:
        """x and y of one party."""
        mine = slice(self.ends[party - 1] if party else 0, self.ends[party])
        return np.asarray(self.x[mine]), np.asarray(self.y[mine])


def votes_of(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The class that the party's teacher gives each query: uint8 (queries,). Rows of one class say that class."""
    if (y == y[0]).all():
        return np.full(len(queries), y[0], dtype=np.uint8)
    teacher = LogisticRegression(C=0.3, class_weight="balanced", max_iter=200)
    return teacher.fit(x, y).predict(queries).astype(np.uint8)


def measured(work: Callable[[], np.ndarray], out: Path, processor: Callable[[], float] = time.process_time) -> None:
    """Write into the folder `out` what `work` returns, votes uint8 (parties, queries) or their total (queries,), with
    its wall and processor seconds."""
    start, before = time.perf_counter(), processor()
    votes = work()
    seconds = {"wall": time.perf_counter() - start, "processor": processor() - before}
    np.save(out / "votes.npy", votes)
    (out / "seconds.json").write_text(json.dumps(seconds))
