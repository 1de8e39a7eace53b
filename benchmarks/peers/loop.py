"""The round in a plain loop, in one process or several: `python -m benchmarks.peers.loop ROWS OUT PROCESSES`.

PROCESSES 0 is one process with Consilium's own fit in place of scikit-learn's: the same loss and solver, called
directly.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.peers.processes import processor_seconds
from benchmarks.peers.task import Rows, measured, votes_of
from consilium.models.linear import LogisticTeacher

AT_ONCE = 50
"""Parties that a process is given at a time."""


Answer = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""As `task.votes_of`."""


def by_own_fit(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """As `task.votes_of`, by the teacher that simulations have."""
    if (y == y[0]).all():
        return np.full(len(queries), y[0], dtype=np.uint8)
    return LogisticTeacher(C=0.3, balanced=True).fit(x, y).predict(queries).astype(np.uint8)


def votes(rows: Rows, parties: np.ndarray, answer: Answer = votes_of) -> np.ndarray:
    """Of these parties: uint8 (parties, queries)."""
    queries = np.asarray(rows.queries)
    return np.stack([answer(*rows.of(party), queries) for party in parties])


def in_block(folder: Path, parties: np.ndarray) -> np.ndarray:
    """The same, of the rows in a folder."""
    return votes(Rows.load(folder), parties)


def main(folder: Path, out: Path, processes: int) -> None:
    """See `task.measured`. Processes are there, and have imported what they need, before the round begins."""
    rows = Rows.load(folder)
    parties = np.arange(len(rows.ends))
    if processes < 2:
        measured(lambda: votes(rows, parties, votes_of if processes else by_own_fit), out)
        return
    blocks = np.array_split(parties, max(processes, len(parties) // AT_ONCE))
    block = partial(in_block, folder)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(block, [parties[:2]] * processes, chunksize=1)
        measured(lambda: np.concatenate(pool.map(block, blocks, chunksize=1)), out, processor_seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
