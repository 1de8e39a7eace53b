"""Divisions: how far labels are from the pooled ones, by what alpha, and what the adapter to flwr-datasets costs.

    python -m benchmarks.divisions [--seeds 0 1 2] [--parties 5000] [--rows 100000] [--rounds 1]

The first table has the natural division of scenarios that ship, the matched one and the shuffled one. The second
divides made-up rows with every partitioner of flwr-datasets that can make so many parties of them: by the library
alone, every partition made, as its users do; and by `index_sets`. The two take turns, medians are told, and the index
sets must be the same.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.source import open_source
from consilium.simulations.population.flower import index_sets
from consilium.simulations.scenario import divided_source, load_scenario

SCENARIOS = ("stroke", "mnist-writers")


def matched(seeds: Sequence[int]) -> None:
    """Print the table of distances."""
    print("| scenario | seed | parties | `owners` | `matched` | `shuffled` | alpha | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name in SCENARIOS:
        scenario = load_scenario(name, ["data.partition=matched"])
        try:
            source = open_source(scenario.data)
        except DataError as error:
            print(f"| {name} | {error} |")
            continue
        for seed in seeds:
            start = time.perf_counter()
            _, parts = divided_source(scenario, seed, source)
            seconds, found = time.perf_counter() - start, parts.measures
            told = (found[f"hellinger{which}"] for which in ("_natural", "", "_by_lot"))
            distances = " | ".join(f"{distance:.4f}" for distance in told)
            print(f"| {name} | {seed} | {len(parts.parties)} | {distances} | {found['alpha']:.3g} | {seconds:.2f} |")


def asked(parties: int, rows: int) -> dict[str, dict[str, Any]]:
    """Options of each partitioner, for rows of ten classes and as many owners as parties."""
    number, label = {"num_partitions": parties}, {"partition_by": "label"}
    sizes = [rows // parties] * parties
    return {
        "ContinuousPartitioner": {**number, "partition_by": "age", "strictness": 0.5},
        "DirichletPartitioner": {**number, **label, "alpha": 1.0, "min_partition_size": 0},
        "DistributionPartitioner": {
            **number, **label, "num_unique_labels_per_partition": 2, "preassigned_num_samples_per_label": 1,
            "distribution_array": np.random.default_rng(0).lognormal(0, 1, (10, parties // 5)),
        },
        "GroupedNaturalIdPartitioner": {"partition_by": "owner", "group_size": 1},
        "IidPartitioner": number,
        "InnerDirichletPartitioner": {**label, "partition_sizes": sizes, "alpha": 1.0},
        "NaturalIdPartitioner": {"partition_by": "owner"},
        "PathologicalPartitioner": {**number, **label, "num_classes_per_partition": 2},
        "ShardPartitioner": {**number, **label, "num_shards_per_partition": 2},
        "SizePartitioner": {"partition_sizes": sizes},
    }  # fmt: skip


def adapter(parties: int, rows: int, rounds: int) -> None:
    """Print the table of seconds."""
    import datasets
    from flwr_datasets import partitioner as library

    generator = np.random.default_rng(0)
    columns = {
        "label": generator.permutation(np.arange(rows) % 10),
        "owner": generator.permutation(np.arange(rows) % parties),
        "age": generator.normal(size=rows).astype(np.float32),
    }
    print(f"\n{parties} parties, {rows} rows, median of {rounds} rounds\n")
    print("| partitioner | library, s | adapter, s | ratio |\n|---|---|---|---|")
    for name, options in asked(parties, rows).items():
        seconds: dict[str, list[float]] = {"library": [], "adapter": []}
        for _ in range(rounds):
            start = time.perf_counter()
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                partitioner = getattr(library, name)(**options)
                partitioner.dataset = datasets.Dataset.from_dict({**columns, "id": np.arange(rows)})
                parts = [partitioner.load_partition(at) for at in range(partitioner.num_partitions)]
            seconds["library"].append(time.perf_counter() - start)
            start = time.perf_counter()
            found = index_sets(columns, {"name": name, **options}, 42)  # the library's own seed
            seconds["adapter"].append(time.perf_counter() - start)
            assert all(list(part["id"]) == mine.tolist() for part, mine in zip(parts, found, strict=True))
        alone, ours = (statistics.median(seconds[who]) for who in ("library", "adapter"))
        print(f"| {name} | {alone:.2f} | {ours:.2f} | {ours / alone:.2f} |", flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.divisions", description="How rows are divided.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--parties", type=int, default=5000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args(arguments)
    matched(given.seeds)
    adapter(given.parties, given.rows, given.rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
