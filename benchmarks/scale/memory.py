"""Memory of a party that evaluates a promise, and of a coordinator that releases a batch, beside the limit of 100 MB.

Each in a process of its own, on one thread: the most that the process ever held beyond what it had when its modules
were loaded (libraries that are loaded on first use count). Promises are those of the shipped scenarios, and of 1,000
queries with more noise than any of them. The release is that of 12,000 queries with 150 classes, with deployed noise
and a durable ledger.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from benchmarks.cells import command_of
from benchmarks.scale.measured import answering, in_own_process, peak_mb
from consilium.accounting.events import ConfidentEvent, GNMaxEvent, HistogramEvent, ReleaseEvent
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.coordinator.ledger import Batch, Ledger
from consilium.coordinator.mechanisms import GNMax
from consilium.party.promise import epsilon
from consilium.protocol.noise import SystemNoise
from consilium.simulations.scenario import load_scenario
from consilium.simulations.shipped import Shipped
from docs.figures import figure

LIMIT = 100
"""MB."""
QUERIES, CLASSES = 12_000, 150
_OF_THOUSAND: dict[str, Any] = {
    "asked": 1000,
    "answered": 1000,
    "unit": Unit.RECORD,
    "neighbouring": Neighbouring.REPLACE,
    "teachers_per_party": 1,
    "towards": Towards.STUDENT,
    "noise": Noise.DISCRETE,
}


def promises() -> dict[str, list[ReleaseEvent]]:
    """What is promised, by its name."""
    scenarios = {name: load_scenario(name).federation.promised_events() for name in Shipped.SCENARIO.files()}
    thousand: list[ReleaseEvent] = [
        *(GNMaxEvent(sigma=sigma, **_OF_THOUSAND) for sigma in (40.0, 150.0, 1000.0)),
        ConfidentEvent(threshold=200, sigma1=150.0, sigma2=40.0, **_OF_THOUSAND),
        HistogramEvent(sigma=1000.0, **_OF_THOUSAND),
    ]
    return scenarios | {
        f"1,000 queries, {event.TYPE}, sigma {event.label_sigma or 1000.0:g}": [event] for event in thousand
    }


def _beyond(work: Callable[[], object]) -> dict[str, Any]:
    before = peak_mb()
    work()
    return {"before": before, "beyond": peak_mb() - before}


def promise(number: int) -> dict[str, Any]:
    """Of the promise with this number."""
    events = list(promises().values())[number]
    policy = SimpleNamespace(unit=events[0].unit, neighbouring=events[0].neighbouring, delta=1e-5)
    return _beyond(lambda: epsilon(events, cast(Any, policy)))


def release() -> dict[str, Any]:
    """Noise on the votes, and the charge. The votes themselves (14 MB) are there before."""
    votes = np.zeros((QUERIES, CLASSES), dtype=np.int64)
    votes[:, 3] = 250

    def work() -> None:
        drawn = GNMax(sigma=40.0).draw(votes, SystemNoise())
        ids = tuple(f"{index:064d}" for index in range(QUERIES))
        log_q = np.full(QUERIES, -1.0)
        batch = Batch({}, 250, ids, drawn.labels, drawn.reinforced, log_q_label=log_q, histogram=votes)
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder) / "ledger.db", "f" * 64, "{}")
            ledger.commit(batch, QUERIES, QUERIES)
            ledger.close()

    return _beyond(work)


COLUMNS = ("", "before it", "peak beyond that", "of the limit")


def rows() -> Iterator[list[str]]:
    """A promise or release each. Raises SystemExit where one is beyond the limit."""
    measures = [(f"promise of {name}", ("promise", number)) for number, name in enumerate(promises())]
    for name, arguments in [*measures, (f"release of {QUERIES:,} queries, {CLASSES} classes", ("release",))]:
        found = in_own_process(__spec__.name, *arguments)
        if found["beyond"] > LIMIT:
            raise SystemExit(f"{name}: {found['beyond']:.0f} MB, where the limit is {LIMIT}")
        yield [name, f"{found['before']:.0f} MB", f"{found['beyond']:.0f} MB", f"{found['beyond'] / LIMIT:.2f}"]


def main() -> None:
    """Print the table."""
    command = command_of("benchmarks.scale.memory")
    with figure("scale/memory", command, COLUMNS, split="made-up votes", timings=COLUMNS[1:], quick=False) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    answering({"promise": promise, "release": release}) if len(sys.argv) > 1 else main()
