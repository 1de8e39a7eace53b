"""Today's secure mode at 50, 100, 250 and 600 parties: its work grows with the square of the parties.

Measured as `benchmarks.secagg` does, a tenth of the parties lost. CONSILIUM_SCALE_SECURE chooses the numbers of
parties, CONSILIUM_SCALE_SECURE_SHAPE (default "10000x10") queries and classes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cells import command_of
from benchmarks.secagg import session
from docs.figures import figure

PARTIES = "50 100 250 600"
SHAPE = "10000x10"


COLUMNS = ("parties", "party, ms", "coordinator, s", "up, kB", "down, kB", "coordinator, µs for each pair")


def rows() -> Iterator[list[str]]:
    """A session for each number of parties."""
    queries, classes = map(int, os.environ.get("CONSILIUM_SCALE_SECURE_SHAPE", SHAPE).split("x"))
    for count in map(int, os.environ.get("CONSILIUM_SCALE_SECURE", PARTIES).split()):
        with tempfile.TemporaryDirectory() as folder:
            cost = session(count, queries, classes, Path(folder))
        kilobytes = [f"{cost.up / 1000:,.0f}", f"{cost.down / 1000:,.0f}"]
        pairs = count * (count - 1) / 2
        times = [f"{cost.party_ms:.0f}", f"{cost.coordinator:.2f}"]
        yield [str(count), *times, *kilobytes, f"{1e6 * cost.coordinator / pairs:.0f}"]


def main() -> None:
    """Print the table."""
    variables = ("CONSILIUM_SCALE_SECURE", "CONSILIUM_SCALE_SECURE_SHAPE")
    command = command_of("benchmarks.scale.secure", variables=variables)
    timings = ("party, ms", "coordinator, s", "coordinator, µs for each pair")
    with figure("results/thousands-secure", command, COLUMNS, split="made-up votes", timings=timings) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    main()
