"""Distillation as in the first version of Papernot et al. 2017 (appendix C.1, figure 5), on MNIST; and made private.

    python -m benchmarks.distillation [--parts figure noisy] [--seeds 0 1 2] [--teachers 50] [--kept DIR] [--out FILE]

Teachers are those of `benchmarks.cnn_teachers`, with 240 images each: 50 of them, or all 250. SVHN, which the figure
is of, is not at hand.

figure: a network learns from the plurality's labels, or from the teachers' summed probabilities at temperature 1 or 5,
of so many queries. **Neither is private**: no noise is added, as published, so that no epsilon holds for any row. It is
judged on the 6,000 images of the pool that nobody may ask about and the held-out thousand.

noisy: what would be private. A party's probabilities move the sum of all by the square root of 2 at most, as its vote
moves a histogram, so the same Gaussian noise costs the same. The linear student on scattering coefficients that
knows the noise learns from noisy sums at each temperature or from noisy histograms of votes, and its counterpart from
labels (GNMax), all at one worst-case epsilon, delta 1e-5, a party as the unit. The noise here is numpy's, seeded: it
measures and protects nobody.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import command_of
from benchmarks.cnn_teachers import DELTA, TEMPERATURES, Spoken, asked_rows, cnn_place, ensemble
from benchmarks.papers import Kept, Place, spread
from benchmarks.plain_network import accuracy, learn, one_hot
from consilium.accounting.curves.gdp import sigma_needed
from consilium.models.base import Shares
from consilium.models.specs import LogisticRegressionStudent
from consilium.simulations.scenario import load_scenario
from consilium.student.config import StudentSpec
from consilium.student.learn import train
from docs import figures

QUERIES = (100, 300, 1000)
NOISY_QUERIES = (100, 1000)
EPSILONS = (1.0, 5.0)
WAYS = ("labels", *(f"T = {temperature:g}" for temperature in TEMPERATURES))
NOISY_WAYS = (*WAYS, "votes")
"""Labels, noisy sums at each temperature, noisy histograms of votes."""

_LOT, _NOISE = 0x64697374, 0x6E6F6973


def targets_of(way: str, told: Spoken, rows: np.ndarray) -> tuple[np.ndarray, float]:
    """What a student of `rows` learns from without noise, float64 (rows, classes), and at which temperature."""
    if way == "labels":
        return one_hot(told.votes[rows].argmax(axis=1), told.votes.shape[1]), 1.0
    at = WAYS.index(way) - 1
    return told.averages[at][rows], TEMPERATURES[at]


def noisy_shares(way: str, told: Spoken, rows: np.ndarray, epsilon: float, noise: np.random.Generator) -> Shares:
    """Sums over the teachers with Gaussian noise, over their number; all of `rows` together cost `epsilon`."""
    teachers = len(told.right)
    exact = told.votes[rows] / teachers if way == "votes" else targets_of(way, told, rows)[0]
    deviation = sigma_needed(len(rows), epsilon, DELTA) / teachers
    return Shares(exact + deviation * noise.standard_normal(exact.shape), np.full(len(rows), deviation))


def label_sigma(queries: int, epsilon: float) -> float:
    """Of GNMax, whose so many labels cost `epsilon` towards the student, as a run would calibrate it."""
    changes = [
        f"federation.privacy.epsilon={epsilon:g}",
        "federation.mechanism={name='gnmax'}",
        f"federation.query_budget={{queries={queries}, answers={queries}}}",
    ]
    return float(load_scenario("mnist-250", changes).federation.mechanism.model_dump()["sigma"])


@dataclass(frozen=True)
class Asked:
    """Of one seed: `asked` int64 (n,), rows of the pool in the order in which they are asked; `told`, what so many
    teachers said of them; and the rows that judge, `x` float32 (judges, pixels) with `y` int64."""

    asked: np.ndarray = field(repr=False)
    told: Spoken = field(repr=False)
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


def rows_of(place: Place, told: Spoken) -> Asked:
    """`told`: of `asked_rows`, in their order."""
    asked = asked_rows(place)
    order = np.random.default_rng([place.seed, _LOT]).permutation(len(asked))
    rest = np.setdiff1d(np.arange(len(place.pool)), asked)
    x, y = np.concatenate([place.pool[rest], place.test]), np.concatenate([place.pool_truth[rest], place.truth])
    return Asked(asked[order], Spoken(told.votes[order], told.averages[:, order], told.right), x, y)


def figure(place: Place, rows: Asked, kept: Kept) -> None:
    """Figure 5 for one seed."""
    for queries in QUERIES:
        for way in WAYS:
            keys = {"part": "figure", "teachers": len(rows.told.right), "seed": place.seed}
            keys |= {"queries": queries, "way": way}
            if not kept.has(**keys):
                targets, temperature = targets_of(way, rows.told, np.arange(queries))
                model = learn(place.pool[rows.asked[:queries]], targets, place.seed, temperature)
                kept.add(**keys, accuracy=accuracy(model, rows.x, rows.y), private=False)


def noisy(place: Place, scattered: Place, rows: Asked, kept: Kept) -> None:
    """What is private, for one seed. `scattered`: the same public rows, with scattering coefficients."""
    classes, judging = rows.told.votes.shape[1], scattered.inputs(rows.x)
    spec = StudentSpec(trainer=LogisticRegressionStudent())
    for queries in NOISY_QUERIES:
        first, given = np.arange(queries), scattered.inputs(place.pool[rows.asked[:queries]])
        for epsilon in EPSILONS:
            for way in NOISY_WAYS:
                keys = {"part": "noisy", "teachers": len(rows.told.right), "seed": place.seed}
                keys |= {"queries": queries, "epsilon": epsilon, "way": way}
                if kept.has(**keys):
                    continue
                noise, told = np.random.default_rng([place.seed, queries, _NOISE]), None
                if way == "labels":
                    sigma = label_sigma(queries, epsilon)
                    counts = rows.told.votes[:queries] + sigma * noise.standard_normal((queries, classes))
                else:
                    told = noisy_shares(way, rows.told, first, epsilon, noise)
                    counts = told.shares
                model = train(given, counts.argmax(axis=1), given[:0], classes, spec, place.seed, shares=told)
                found = float((model.predict_proba(judging).argmax(axis=1) == rows.y).mean())
                kept.add(**keys, accuracy=found)


def tables(kept: Kept, command: str, seeds: Sequence[int]) -> None:
    """Mean and standard deviation over the seeds, in percent. Of the part `figure` no row is private."""
    split = "judged on test images that nobody asks about"
    for part, ways in (("figure", WAYS), ("noisy", NOISY_WAYS)):
        mine: dict[tuple[int, float, int], list[dict[str, Any]]] = {}
        for item in kept.found:
            if item["part"] == part:
                case = (item["teachers"], item.get("epsilon", math.inf), item["queries"])
                mine.setdefault(case, []).append(item)
        if not mine:
            continue
        name = "papers/distillation" + ("-noisy" if part == "noisy" else "")
        columns = ("teachers", "epsilon", "queries", *ways)
        with figures.figure(name, command, columns, split=split, seeds=seeds) as table:
            table.seconds = kept.seconds
            for (teachers, epsilon, queries), items in sorted(mine.items()):
                cells = [spread([item for item in items if item["way"] == way], "accuracy", 100) for way in ways]
                table.add(teachers, f"{epsilon:g}" if math.isfinite(epsilon) else "none", queries, *cells)


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="Distillation, without noise and with.")
    parser.add_argument("--parts", nargs="*", default=["figure", "noisy"], choices=["figure", "noisy"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--teachers", type=int, default=50)
    parser.add_argument("--kept", type=Path, default=Path("runs/cnn-teachers"), help="what the teachers said")
    parser.add_argument("--out", type=Path, default=Path("distillation.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept = Kept(chosen.out)
    for seed in chosen.seeds:
        place = cnn_place(seed)
        rows = rows_of(place, ensemble(place, chosen.kept, chosen.teachers)[0])
        if "figure" in chosen.parts:
            figure(place, rows, kept)
        if "noisy" in chosen.parts:
            noisy(place, Place("mnist-250", seed), rows, kept)
    tables(kept, command_of("benchmarks.distillation", arguments or ()), chosen.seeds)


if __name__ == "__main__":
    main(sys.argv[1:])
