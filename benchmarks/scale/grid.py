"""The shipped local grid and nothing else: parties that take three milliseconds each and answer, on two workers.

The workers are threads that sleep, so that what is measured is the grid and the coordinator's transport: how long the
workers have nothing to do. Beside it stands the time that the parties alone take, which nothing can be below.
CONSILIUM_GRID_PARTIES (default "1000 2000 5000") chooses the numbers of parties.
"""

from __future__ import annotations

import os
import time
from typing import Any, cast

from flwr.app import Context, Message, RecordDict

from benchmarks.cells import command_of
from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.collection.exchange import Failure, FlowerTransport
from consilium.simulations.engines.flower import assume_identity
from consilium.simulations.engines.local import RUN_ID, LocalGrid
from docs.figures import figure
from tests.federation import make_config

PARTIES, SECONDS, WORKERS = "1000 2000 5000", 0.003, 2
COLUMNS = ("parties", "parties alone", "exchange", "ratio")


class Sleeper:
    """A worker whose parties sleep."""

    def handle(self, message: Message, context: Context, seconds: float) -> tuple[Message, None]:
        """Answer after the party's time."""
        time.sleep(SECONDS)
        return Message(RecordDict(), reply_to=message), None

    def kill(self) -> None:
        """There is no process."""


def seconds_of(parties: int) -> float:
    """Of one exchange with so many parties."""
    workers = cast(Any, [Sleeper() for _ in range(WORKERS)])
    request = Greeting.of_empty("0" * 64).request(make_config())
    with LocalGrid(RUN_ID, {}, parties, workers) as grid:
        start = time.monotonic()
        replies = FlowerTransport(grid).exchange(
            dict.fromkeys(grid.get_node_ids(), request), 3600.0, lambda done, total: None
        )
        if any(isinstance(reply, Failure) for _, reply in replies):
            raise SystemExit("a party did not answer")
        return time.monotonic() - start


def main() -> None:
    """Print the table."""
    assume_identity(RUN_ID, 1)
    command = command_of("benchmarks.scale.grid", variables=["CONSILIUM_GRID_PARTIES"])
    with figure("scale/grid", command, COLUMNS, split="parties that sleep", timings=COLUMNS[1:]) as table:
        for parties in map(int, os.environ.get("CONSILIUM_GRID_PARTIES", PARTIES).split()):
            alone, took = parties * SECONDS / WORKERS, seconds_of(parties)
            table.add(f"{parties:,}", f"{alone:.1f} s", f"{took:.1f} s", f"{took / alone:.2f}")


if __name__ == "__main__":
    main()
