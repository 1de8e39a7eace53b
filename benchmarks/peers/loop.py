"""The round in a plain loop, in one process or several: `python -m benchmarks.peers.loop ROWS OUT PROCESSES`."""

from __future__ import annotations

import multiprocessing
import sys
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.peers.processes import processor_seconds
from benchmarks.peers.task import Rows, measured, votes_of

AT_ONCE = 50
"""Parties that a process is given at a time."""


def votes(rows: Rows, parties: np.ndarray) -> np.ndarray:
    """Of these parties: uint8 (parties, queries)."""
    queries = np.asarray(rows.queries)
    return np.stack([votes_of(*rows.of(party), queries) for party in parties])


def in_block(folder: Path, parties: np.ndarray) -> np.ndarray:
    """The same, of the rows in a folder."""
    return votes(Rows.load(folder), parties)


def main(folder: Path, out: Path, processes: int) -> None:
    """See `task.measured`. Processes are there, and have imported what they need, before the round begins."""
    rows = Rows.load(folder)
    parties = np.arange(len(rows.ends))
    if processes == 1:
        measured(lambda: votes(rows, parties), out)
        return
    blocks = np.array_split(parties, max(processes, len(parties) // AT_ONCE))
    block = partial(in_block, folder)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(block, [parties[:2]] * processes, chunksize=1)
        measured(lambda: np.concatenate(pool.map(block, blocks, chunksize=1)), out, processor_seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
