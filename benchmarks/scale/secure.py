"""Today's secure mode at 50, 100 and 250 parties: its work grows with the square of the parties.

Measured as `benchmarks.secagg` does, a tenth of the parties lost. CONSILIUM_SCALE_SECURE chooses the numbers of
parties, CONSILIUM_SCALE_SECURE_SHAPE (default "10000x10") queries and classes.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.secagg import session

PARTIES = "50 100 250"
SHAPE = "10000x10"


def main() -> None:
    """Print the table."""
    queries, classes = map(int, os.environ.get("CONSILIUM_SCALE_SECURE_SHAPE", SHAPE).split("x"))
    print(f"{queries} queries x {classes} classes, a tenth lost, one thread")
    heads = ("party ms", "coordinator s", "up, kB", "down, kB", "coordinator ms/party^2")
    print(f"{'parties':<9}" + "".join(f"{head:>24}" for head in heads))
    for count in map(int, os.environ.get("CONSILIUM_SCALE_SECURE", PARTIES).split()):
        with tempfile.TemporaryDirectory() as folder:
            cost = session(count, queries, classes, Path(folder))
        print(
            f"{count:<9}{cost.party_ms:24.0f}{cost.coordinator:24.2f}{cost.up / 1000:24.0f}{cost.down / 1000:24.0f}"
            f"{1000 * cost.coordinator / count**2:24.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
