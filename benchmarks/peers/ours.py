"""The round in Consilium: a whole `consilium run`, of whose stages train and vote are the round.

`python -m benchmarks.peers.ours PARTIES ROWS OUT` runs it; `rows` makes what all peers are given.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.peers.processes import processor_seconds
from benchmarks.peers.task import Rows
from consilium.coordinator.collection.clear import kept_votes
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.divide import divide
from consilium.simulations.population.partition import natural_partition
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import Scenario, load_scenario

SEED, QUERIES = 0, 300
FEWEST, MOST = 6, 20
"""Rows of a party beyond the hospitals."""
LONG = 7200


def scenario_of(parties: int) -> Scenario:
    """The default scenario, with one vote for each teacher's own class, for so many parties."""
    stages = [f"federation.timeouts.{stage}={LONG}" for stage in ("enrol", "train", "vote")]
    changes = ["federation.voting_rule.rule=top", f"federation.minimum_parties={parties}", "data.least_rows=1"]
    return load_scenario("stroke", [*changes, *stages])


def dataset_of(parties: int) -> Dataset:
    """Rows of the stroke trial: its hospitals as far as there are any, and beyond them parties of 6 to 20 of their
    rows, drawn with replacement; 300 public rows are asked."""
    data, scenario = load_dataset("stroke"), load_scenario("stroke")
    parts = natural_partition(data, scenario.data.public_rule, 1, 2, SEED)
    hospitals = [rows for _, rows in sorted(parts.parties.items())][:parties]
    everybody = np.concatenate(list(parts.parties.values()))
    generator = np.random.default_rng(SEED)
    sizes = generator.integers(FEWEST, MOST + 1, parties - len(hospitals))
    drawn = np.split(generator.choice(everybody, sizes.sum()), np.cumsum(sizes)[:-1]) if len(sizes) else []
    _, first = np.unique(data.x[parts.queries], axis=0, return_index=True)
    asked = parts.queries[np.sort(first)[:QUERIES]]
    shards = [*hospitals, *drawn]
    private = np.concatenate(shards)
    rows = np.concatenate((private, asked, parts.test))
    owner = np.repeat(np.arange(parties + 1), [*map(len, shards), len(asked) + len(parts.test)])
    queries = len(private) + np.arange(len(asked))
    public = Public(queries, np.arange(queries[-1] + 1, len(rows)))
    x, y = data.x[rows], data.y[rows]
    return Dataset(data.name, data.title, data.attribution, data.features, data.classes, "party", x, y, owner, public)


def rows(parties: int) -> Rows:
    """What the parties' teachers see of these rows in Consilium: standardised by what is public."""
    data = dataset_of(parties)
    case = divide(scenario_of(parties), SEED, data)
    schema, shards = case.config.rows, [shard for _, shard in sorted(case.partition.parties.items())]
    mine = np.concatenate(shards)
    queries = canonical_queries(data.x[case.partition.queries], len(schema.features))
    ends = np.cumsum([len(shard) for shard in shards])
    return Rows(schema.standardise(data.x[mine]), data.y[mine], ends, schema.standardise(queries))


def votes_in(folder: Path, queries: np.ndarray) -> np.ndarray:
    """Of a finished run: uint8 (parties, queries), by name, in the order of the queries, canonical rows."""
    (file,) = (folder / "private").glob("votes-*.npz")
    with kept_votes(file) as kept:
        places = [kept.query_ids.index(query_id) for query_id in query_ids(queries)]
        return np.stack([kept.votes(party)[places].argmax(axis=1) for party in sorted(kept.weights)]).astype(np.uint8)


class Meter:
    """Processor seconds of all processes at the first event of each stage, and where votes are all there."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self._done = threading.Event()

    @contextmanager
    def watch(self, events: Path) -> Iterator[None]:
        """While the run goes on."""
        thread = threading.Thread(target=self._follow, args=(events,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    def _follow(self, events: Path) -> None:
        place = 0
        while not self._done.wait(0.02):
            if not events.exists():
                continue
            with open(events, "rb") as lines:
                lines.seek(place)
                new = lines.read()
            new = new[: new.rfind(b"\n") + 1]
            place += len(new)
            for line in new.splitlines():
                event = json.loads(line)
                if event["event"] in ("stage", "voted"):
                    self.at.setdefault(event.get("stage", event["event"]), processor_seconds())


def main(parties: int, folder: Path, out: Path) -> None:
    """Run it; votes and seconds lie in `out` as those of the other peers."""
    data, meter, start = dataset_of(parties), Meter(), time.perf_counter()
    summary = run_scenario("stroke", scenario_of(parties), "local", SEED, out / "run", meter.watch, source=data)
    took = summary["seconds"]
    queries = canonical_queries(data.x[data.public.queries], len(data.features))  # pyright: ignore[reportOptionalMemberAccess]
    np.save(out / "votes.npy", votes_in(out / "run", queries))
    seconds = {
        "wall": took["train"] + took["vote"],
        "processor": meter.at["voted"] - meter.at["train"],
        "start": took["prepare"] + took["enrol"],
        "all": time.perf_counter() - start,
    }
    (out / "seconds.json").write_text(json.dumps(seconds))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
