"""The table of peers: each in processes of its own, with one thread each, at every number of parties.

`python -m benchmarks.peers [PARTIES...]`, 371, 5,000 and 50,000 unless said otherwise. CONSILIUM_PFL: an interpreter
that has pfl, which asks for an older dp-accounting than Consilium (`python -m venv pfl; pfl/bin/pip install pfl
scikit-learn`); without it, and without pfl in this one, its rows say so.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.cells import command_of
from benchmarks.peers import ours
from benchmarks.peers.processes import MARK
from consilium.models.devices import ONE_THREAD
from docs.figures import figure

PARTIES = ("371", "5000", "50000")
FEW, TIMES = 1000, 3
"""Up to how many parties a round is done more than once, and how often then."""
APPLE = "CONSILIUM_PFL"
COLUMNS = (
    "parties", "peer", "processes", "wall, s", "processor, s", "wall, ms a party",
    "processor around the teacher, ms a party", "times the loop", "with its start, s", "votes that differ",
)  # fmt: skip
SPLIT = (
    "stroke: its hospitals, beyond 371 parties of 6 to 20 of their rows drawn with replacement; logistic regression,"
    " 300 public rows; up to 1,000 parties the median of three"
)


@dataclass(frozen=True)
class Peer:
    """name: with its version. processes: how many train at a time. command: what runs it, before rows and `out`."""

    name: str
    processes: str
    command: Sequence[str]
    after: Sequence[str] = ()


@dataclass(frozen=True)
class Round:
    """Seconds of one round; whole: with what starts and ends around it. differ: votes that the loop has otherwise, or
    totals where a peer only has those."""

    wall: float
    processor: float
    whole: float
    differ: int
    version: str


def interpreter() -> str | None:
    """One that has pfl."""
    return os.environ.get(APPLE) or (sys.executable if importlib.util.find_spec("pfl") else None)


def peers(parties: int) -> list[Peer]:
    """In the order of the table; the plain loop in one process is first."""
    here = [sys.executable, "-m"]
    apple = interpreter()
    return [
        Peer(f"plain loop, scikit-learn {version('scikit-learn')}", "1", [*here, "benchmarks.peers.loop"], ["1"]),
        Peer("plain loop", "2", [*here, "benchmarks.peers.loop"], ["2"]),
        Peer("plain loop with Consilium's fit", "1", [*here, "benchmarks.peers.loop"], ["0"]),
        Peer("pfl", "1", [apple, str(Path(__file__).with_name("apple.py"))] if apple else ()),
        Peer("Flower", "all cores", [*here, "benchmarks.peers.flower"]),
        Peer(f"Consilium {version('consilium-pate')}", "all cores", [*here, "benchmarks.peers.ours", str(parties)]),
    ]


def done(peer: Peer, rows: Path, expected: np.ndarray | None) -> tuple[Round, np.ndarray]:
    """One round, and its votes. expected: those of the loop, None for the loop itself. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        out, start = Path(folder), time.perf_counter()
        command = [*peer.command, str(rows), str(out), *peer.after]
        environment = {**os.environ, **ONE_THREAD, MARK: uuid.uuid4().hex}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        whole = time.perf_counter() - start
        seconds, votes = json.loads((out / "seconds.json").read_text()), np.load(out / "votes.npy")
        file = out / "version"
        name = file.read_text() if file.exists() else peer.name
    differ = 0 if expected is None else _different(votes, expected)
    return Round(seconds["wall"], seconds["processor"], whole, differ, name), votes


def _different(votes: np.ndarray, expected: np.ndarray) -> int:
    return int((votes != (expected if votes.ndim == 2 else expected.sum(axis=0))).sum())


def rows(sizes: Sequence[int]) -> Iterator[list[str]]:
    """A row for each peer at each number of parties."""
    for parties in sizes:
        with tempfile.TemporaryDirectory() as folder:
            ours.rows(parties).save(Path(folder))
            yield from _rows(parties, Path(folder))


def _rows(parties: int, folder: Path) -> Iterator[list[str]]:
    compared = peers(parties)
    rounds: dict[int, list[Round]] = {number: [] for number in range(len(compared))}
    expected = None
    for _ in range(TIMES if parties <= FEW else 1):
        for number, peer in enumerate(compared):
            if peer.command:
                measured, votes = done(peer, folder, expected)
                rounds[number].append(measured)
                expected = votes if expected is None else expected
    loop = _median(rounds[0])
    for number, peer in enumerate(compared):
        if not rounds[number]:
            yield [f"{parties:,}", f"{peer.name}: not installed", "", *[""] * (len(COLUMNS) - 3)]
            continue
        here = _median(rounds[number])
        yield [
            f"{parties:,}", here.version, peer.processes, f"{here.wall:.2f}", f"{here.processor:.2f}",
            f"{1000 * here.wall / parties:.2f}", f"{1000 * (here.processor - loop.processor) / parties:.2f}",
            f"{here.wall / loop.wall:.2f}", f"{here.whole:.1f}", f"{here.differ:,}",
        ]  # fmt: skip


def _median(rounds: Sequence[Round]) -> Round:
    """The one in the middle by wall time."""
    return sorted(rounds, key=lambda each: each.wall)[len(rounds) // 2]


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    command = command_of("benchmarks.peers", arguments)
    with figure("scale/peers", command, COLUMNS, split=SPLIT, timings=COLUMNS[3:9], quick=False) as table:
        for row in rows([int(size.replace(",", "")) for size in arguments or PARTIES]):
            table.add(*row)
