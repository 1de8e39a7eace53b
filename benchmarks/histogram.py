"""Labels against noisy histograms at the same epsilon, on tables and X-rays: AUC of the student over five seeds.

    python -m benchmarks.histogram [--scenarios stroke ...] [--seeds 0 1 ...] [--out F]

Teachers are trained and asked once for each seed, and their votes kept beside F. Labels are GNMax's, for as many
queries as the scenario has, learned by its own student; histograms are of up to 2,000 rows, learned by the same kind of
student and by `auto`. Both have the same worst-case epsilon at delta 1e-5, from exact composition. Student and noise
are functions of the seed. Nothing is chosen on the test rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.cells import command_of, spread
from benchmarks.papers import Kept, Place, Votes, teachers_votes
from consilium.accounting.curves.gdp import sigma_needed
from consilium.coordinator.mechanisms.counts import GNMax, NoisyHistogram
from consilium.models.base import Shares
from consilium.models.evaluation import evaluate
from consilium.models.specs import AutoStudent
from consilium.protocol.noise import SeededNoise
from consilium.student.config import StudentSpec
from consilium.student.learn import train
from docs.figures import figure

SCENARIOS = ("stroke", "adult-250", "diabetes-rf", "pneumonia")
EPSILONS = (1.0, 0.5)
DELTA = 1e-5
MOST_QUERIES = 2000
LOT = 0x68697374
SPLIT = "AUC on public test rows; on those of stroke, seeds 0 to 4, the histogram student's scales were chosen"
LEARNS = ("labels", "histogram", "histogram, auto", "plurality")


def measure(place: Place, votes: Votes, epsilon: float, draw: int) -> dict[str, float]:
    """AUC by what the student learns from."""
    spec, x = place.scenario.student, place.schema.inputs(place.pool)
    test, classes = place.schema.inputs(place.test), place.schema.classes
    order = np.random.default_rng([place.seed, draw, LOT]).permutation(len(x))
    noise = SeededNoise(1000 * place.seed + draw)
    few, many = order[: place.scenario.federation.query_budget.answers], order[:MOST_QUERIES]
    labels = GNMax(sigma=sigma_needed(len(few), epsilon, DELTA)).draw(votes.pool[few], noise).labels
    sigma = sigma_needed(len(many), epsilon, DELTA)
    counts = NoisyHistogram(sigma=sigma).draw(votes.pool[many], noise).counts
    if counts is None:
        raise TypeError("a histogram without counts")
    teachers = len(place.partition.parties)
    told = Shares(counts / teachers, np.full(len(many), sigma / teachers))
    wide = order[MOST_QUERIES:]
    models = {"labels": train(x[few], labels, x[order[len(few) :]], len(classes), spec, place.seed)}
    for name, student in {"histogram": spec, "histogram, auto": StudentSpec(trainer=AutoStudent())}.items():
        models[name] = train(x[many], counts.argmax(axis=1), x[wide], len(classes), student, place.seed, shares=told)
    found = {name: evaluate(model.predict_proba(test), place.truth, classes)["auc"] for name, model in models.items()}
    return {**found, "plurality": evaluate(votes.test / teachers, place.truth, classes)["auc"]}


def rows(scenarios: Iterable[str], seeds: Sequence[int], draws: int, kept: Kept) -> Iterator[list[str]]:
    """A row for each scenario and epsilon, from `kept` or measured: over the seeds, of each the mean over its draws."""
    for scenario in scenarios:
        for seed in seeds:
            keys = [
                {"scenario": scenario, "seed": seed, "epsilon": e, "draw": d} for e in EPSILONS for d in range(draws)
            ]
            missing = [each for each in keys if not kept.has(**each)]
            if missing:
                place = Place(scenario, seed)
                votes = teachers_votes(place, kept.path)
            for each in missing:
                kept.add(**each, **measure(place, votes, each["epsilon"], each["draw"]))
        for epsilon in EPSILONS:
            mine = [item for item in kept.found if (item["scenario"], item["epsilon"]) == (scenario, epsilon)]
            yield [scenario, f"{epsilon:g}"] + [
                spread([float(np.mean([item[name] for item in mine if item["seed"] == seed])) for seed in seeds])
                for name in LEARNS
            ]


def main(arguments: list[str] | None = None) -> None:
    """Measure what F does not hold yet, and print the table."""
    parser = argparse.ArgumentParser(description="Labels against noisy histograms at the same epsilon.")
    parser.add_argument("--scenarios", nargs="*", default=list(SCENARIOS))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--draws", type=int, default=2, help="of the noise, for each seed")
    parser.add_argument("--out", type=Path, default=Path("histogram.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept = Kept(chosen.out)
    name, command = "results/histograms-or-labels", command_of("benchmarks.histogram", arguments or [])
    columns = ("set", "epsilon", *LEARNS)
    with figure(name, command, columns, seeds=chosen.seeds, split=SPLIT, quick=False) as table:
        for row in rows(chosen.scenarios, chosen.seeds, chosen.draws, kept):
            table.add(*row)
        table.seconds = kept.seconds


if __name__ == "__main__":
    main(sys.argv[1:])
