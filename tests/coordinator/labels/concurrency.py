"""Two coordinator processes on one ledger, many students at once; shared by a test and a benchmark."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.events import EventLog
from consilium.coordinator.label_server import Door, serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.label_source import Outcome
from consilium.protocol.noise import SystemNoise
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.student.channel import LabelChannel
from tests.coordinator.labels.site import WAIT, Site
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import make_config, make_rows


def shared_config(queries: int) -> FederationConfig:
    """A federation with real noise, as a deployed one."""
    return make_config(
        simulation=False, noise_seed=None, seed=-1, query_budget=QueryBudget(queries=queries, answers=queries)
    )


def coordinator(folder: str, name: str, door: Door, queries: int, addresses: Any, stop: Any) -> None:
    """One coordinator process: label service on a free port until told to stop."""
    config = shared_config(queries)
    ledger = Ledger.of(Path(folder) / "ledger.db", config)
    log = EventLog(Path(folder) / f"{name}.jsonl")
    service = LabelService(config, ledger, Votes(), lambda _: SystemNoise(), T, log)
    with serving(service, door, queries) as address:
        addresses.put(address)
        stop.wait()


@contextmanager
def two_coordinators(folder: Path, door: Door, queries: int) -> Iterator[list[str]]:
    """Addresses of two coordinators, each a process of its own, on the same ledger file."""
    context = multiprocessing.get_context("spawn")
    addresses, stop = context.Queue(), context.Event()
    processes = [
        context.Process(target=coordinator, args=(str(folder), name, door, queries, addresses, stop))
        for name in ("a", "b")
    ]
    for process in processes:
        process.start()
    try:
        yield [addresses.get(timeout=WAIT) for _ in processes]
    finally:
        stop.set()
        for process in processes:
            process.join(WAIT)
            process.kill()


def storm(folder: Path, requests: int, rows: int = 400, threads: int = 16) -> dict[str, Any]:
    """`requests` concurrent requests of one to three of `rows` rows each, at both coordinators.

    Returns the label and outcome that each query id got, over all requests, and seconds; asserts that every request
    for an id got the same.
    """
    x = canonical_queries(make_rows(rows, 11)[0], 3)
    ids = query_ids(x)
    got: dict[str, set[tuple[int, int]]] = defaultdict(set)
    lock = threading.Lock()
    generator = np.random.default_rng(0)
    wanted = [generator.choice(rows, size=generator.integers(1, 4), replace=False) for _ in range(requests)]
    site = Site(folder / "site", [f"student-{number}" for number in range(threads)])
    with two_coordinators(folder, site.door, rows) as addresses:
        # a student has one request under way: as many as there are threads
        free: SimpleQueue[list[LabelChannel]] = SimpleQueue()
        for name in site.students:
            free.put([site.channel(address, name) for address in addresses])

        def ask(number: int) -> None:
            channels = free.get()
            answers = channels[number % 2].ask(x[wanted[number]])
            free.put(channels)
            with lock:
                for row, outcome, label in zip(wanted[number], answers.outcomes, answers.labels, strict=True):
                    got[ids[row]].add((int(outcome), int(label)))

        start = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(ask, range(requests)))
        seconds = time.perf_counter() - start
        while not free.empty():
            for channel in free.get():
                channel.__exit__()
    assert all(len(outcomes) == 1 for outcomes in got.values()), "one query, two labels"
    ledger = Ledger(folder / "ledger.db", shared_config(rows).digest(), "{}")
    batches = ledger.batches()  # checks the chain
    recorded = ledger.find(list(got))
    asked, answered = ledger.spent()
    ledger.close()
    assert {name: {(int(r.outcome), r.label)} for name, r in recorded.items()} == dict(got), "a label was lost"
    assert asked == len(got) == sum(len(batch.query_ids) for batch in batches), "a query was charged twice"
    assert answered == sum(outcome == Outcome.ANSWERED for ((outcome, _),) in got.values())
    return {"seconds": seconds, "queries": len(got), "batches": len(batches), "answered": answered}
