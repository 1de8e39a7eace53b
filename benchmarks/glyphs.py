"""Glyphs: which teacher learns most from few images of 150 kinds of characters, and what many such parties take.

    python -m benchmarks.glyphs [--parties 200] [--rows 24] [--kinds ridge-scattering ...] [--queries 2000]

For each kind of teacher: how often one is right, how often the plurality of all is, votes for its class and how far the
next one is behind (means), processor seconds of training and voting, and the peak of memory so far. A tenth of the
teachers' labels are wrong and classes are unbalanced, as in the scenario `glyphs`. Judges are images of 60 families of
fonts that are private with seed 0, and that no teacher here has; families that are public with seed 0 take no part.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from typing import Any

import numpy as np

from consilium.data.private_rows import Rows
from consilium.party.teach import train
from consilium.protocol.images import Representation, represent
from consilium.protocol.teachers import teacher_spec
from consilium.simulations.datasets.source import open_source
from consilium.simulations.scenario import divided_data, load_scenario

KINDS: dict[str, tuple[Representation, dict[str, Any]]] = {
    "ridge-scattering": ("scattering", {"model": "ridge", "alpha": 0.0015}),
    "logistic-scattering": ("scattering", {"model": "logistic_regression", "C": 10.0}),
    "ridge-pixels": ("none", {"model": "ridge", "alpha": 1.0}),
    "forest-pixels": ("none", {"model": "random_forest", "trees": 50, "depth": 16}),
    "mlp-pixels": ("none", {"model": "mlp", "hidden": 64, "epochs": 40, "batch": 8}),
}
FAMILIES = 60


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=200)
    parser.add_argument("--rows", type=int, default=24, help="images of each party")
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    wanted, _ = parser.parse_known_args()
    warnings.filterwarnings("ignore", message="The number of unique classes")
    scenario = load_scenario("glyphs", ["data.most_rows=1000"])
    dataset, partition = divided_data(scenario, 0)
    truth = open_source(scenario.data).y  # of the judges no label is wrong
    private = np.concatenate(list(partition.parties.values()))
    generator = np.random.default_rng(0)
    judges = generator.permutation(np.unique(dataset.owner[private]))[:FAMILIES]
    judging = np.isin(dataset.owner[private], judges)
    queries = generator.permutation(private[judging])[: wanted.queries]
    dealt = generator.permutation(private[~judging])[: wanted.parties * wanted.rows]
    shards = np.array_split(dealt, wanted.parties)
    print(
        f"{wanted.parties} parties of {len(shards[-1])} images, {len(queries)} queries, {len(dataset.classes)} classes"
    )
    print(
        "| teacher | right alone | plurality | its votes | ahead by | cpu s | peak MB |\n|---|---|---|---|---|---|---|"
    )
    for name in wanted.kinds:
        start = time.process_time()
        representation, keys = KINDS[name]
        seen, spec = represent(representation, dataset.x[queries]), teacher_spec(**keys)
        votes, right = np.zeros((len(queries), len(dataset.classes)), dtype=np.int32), []
        for seed, rows in enumerate(shards):
            own = Rows(represent(representation, dataset.x[rows]), dataset.y[rows])
            said = train(own, spec, np.arange(len(rows)), seed, len(dataset.classes)).predict(seen)  # pyright: ignore
            votes[np.arange(len(queries)), said] += 1
            right.append((said == truth[queries]).mean())
        ordered = np.sort(votes, axis=1)
        plurality = (votes.argmax(axis=1) == truth[queries]).mean()
        print(
            f"| {name} | {np.mean(right):.3f} | {plurality:.3f} | {ordered[:, -1].mean():.1f}"
            f" | {(ordered[:, -1] - ordered[:, -2]).mean():.1f} | {time.process_time() - start:.1f}"
            f" | {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
