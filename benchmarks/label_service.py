"""A thousand concurrent requests at two coordinators on one ledger, and where the time of a request goes."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from consilium.coordinator.events import EventLog
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.noise import SystemNoise
from tests.coordinator.labels.concurrency import shared_config, storm
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import make_rows

REQUESTS = 1000
SINGLE = 200


class Timed:
    """Calls a function and adds up its seconds."""

    def __init__(self, function) -> None:
        self.function = function
        self.seconds = 0.0

    def __call__(self, *arguments, **named):
        start = time.perf_counter()
        try:
            return self.function(*arguments, **named)
        finally:
            self.seconds += time.perf_counter() - start


class TimedVotes(Timed):
    """The same of a collector."""

    def __init__(self) -> None:
        super().__init__(Votes())

    def settle(self) -> None:
        """Nothing is kept between requests."""


def parts() -> dict[str, float]:
    """Milliseconds of the parts of a one-query request, in one process without a socket."""
    with tempfile.TemporaryDirectory() as folder:
        config = shared_config(SINGLE)
        ledger = Ledger(Path(folder) / "ledger.db", config.digest(), "{}")
        commit, collector = Timed(ledger.commit), TimedVotes()
        ledger.commit = commit  # pyright: ignore[reportAttributeAccessIssue]
        noise = SystemNoise()
        draw = Timed(noise.gaussian)
        noise.gaussian = draw  # pyright: ignore[reportAttributeAccessIssue]

        log = EventLog(Path(folder) / "events.jsonl")
        service = LabelService(config, ledger, lambda _: noise, collector, T, log)
        x, _ = make_rows(SINGLE, 3)
        service.ask(x[:1])
        commit.seconds = draw.seconds = collector.seconds = 0.0
        start = time.perf_counter()
        for row in x[1:]:
            service.ask(row[np.newaxis])
        total = time.perf_counter() - start
        ledger.close()
    named = {"ledger commit": commit.seconds, "noise": draw.seconds, "votes (made up)": collector.seconds}
    named["rest: hashing, look-up, lock, accounting"] = total - sum(named.values())
    return {name: 1000 * seconds / (SINGLE - 1) for name, seconds in named.items()} | {
        "total": 1000 * total / (SINGLE - 1)
    }


def main() -> None:
    """Print requests per second and the parts."""
    with tempfile.TemporaryDirectory() as folder:
        result = storm(Path(folder), REQUESTS)
    print(
        f"{REQUESTS} requests, two coordinator processes, one ledger, 16 students: {result['seconds']:.1f} s,"
        f" {REQUESTS / result['seconds']:.0f} requests/s; {result['queries']} queries charged once each in"
        f" {result['batches']} batches, {result['answered']} labels, none lost, none twice"
    )
    for name, milliseconds in parts().items():
        print(f"  {name:42} {milliseconds:6.2f} ms a request")


if __name__ == "__main__":
    main()
