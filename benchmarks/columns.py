"""Three kinds of hospitals, each without a part of the columns: one federation against every kind alone.

    python -m benchmarks.columns [adult diabetes] [--seeds 3]

Columns are dealt by turns, in the order of the data set, into four parts. All parties have the first. Of the others
each kind, a third of the 250 parties by lot, lacks one, or has one alone. Teachers, voting rule, number of queries and
student are those of the study of natural divisions; nothing is chosen here. A party is the unit, epsilon 1, delta 1e-5.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.cells import command_of, spread, student_interval
from consilium.coordinator.privacy import promised
from consilium.models.base import Shares
from consilium.models.evaluation import area_under_curve
from consilium.protocol.noise import SeededNoise
from consilium.simulations.divide import Case, make_case
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.noisy_average import noisy_averages
from consilium.simulations.methods.pooled import pooled_probabilities
from consilium.simulations.population.shift import lacking_columns
from consilium.simulations.scenario import Scenario
from consilium.simulations.vote import Ensemble, train_ensemble
from consilium.student.learn import train
from docs.figures import figure

KINDS, DRAWS, FEW_DRAWS, QUERIES, PARTIES = 3, 20, 7, 300, 250
SIGMA = 237.0 * (QUERIES / 2000) ** 0.5
"""Of the noise on each count, for epsilon just below 1; `promised` is asked whether it is."""
DIVIDED: Mapping[str, dict[str, Any]] = {
    "adult": {"set": "adult", "partition": "iid", "parties": PARTIES},
    "diabetes": {"set": "diabetes", "partition": "groups", "parties": PARTIES},
}
SETTINGS: dict[str, Any] = {
    "federation": {
        "name": "three kinds",
        "collection": "plaintext",
        "minimum_parties": 2,
        "teacher": {"model": "logistic_regression", "C": 0.03, "class_weight": "balanced"},
        "mechanism": {"name": "histogram", "sigma": SIGMA},
        "voting_rule": {"rule": "relative", "shares": [0.5, 0.5]},
        "privacy": {"unit": "party", "delta": 1e-5},
        "query_budget": {"queries": QUERIES, "answers": QUERIES},
    },
    "student": {"trainer": {"name": "logistic_regression"}},
}
ROWS = (
    "student of the three kinds",
    "best single kind, its own federation's student",
    "best single kind, its rows pooled, no privacy",
    "noisy average of weights, common columns",
    "exact average of weights, common columns, no privacy",
    "noisy average of weights, lacking ones 0",
    "exact average of weights, lacking ones 0, no privacy",
    "student of teachers on the common columns",
    "student, nobody lacks any",
)


def parts_of(features: Sequence[str]) -> list[list[str]]:
    """The features of each part: the common one, then what each kind lacks.

    >>> parts_of(["a", "b=1", "b=2", "c", "d", "e"])
    [['a', 'e'], ['b=1', 'b=2'], ['c'], ['d']]
    """
    columns = list(dict.fromkeys(name.split("=")[0] for name in features))
    part_of = {name: place % (KINDS + 1) for place, name in enumerate(columns)}
    return [[name for name in features if part_of[name.split("=")[0]] == part] for part in range(KINDS + 1)]


def case_of(data: str, seed: int, lacking: Sequence[Mapping[str, Any]]) -> Case:
    """The division, its parties lacking these columns; epsilon is 1 at most."""
    table = {**SETTINGS, "data": {**DIVIDED[data], "shift": {"lacking": list(lacking)}}}
    case = make_case(Scenario.model_validate(table), seed, 0.0)
    if promised(case.config).epsilon > 1:
        raise ValueError(f"{data}: epsilon is {promised(case.config).epsilon}, above 1")
    return case


def student_aucs(case: Case, votes: np.ndarray, rows: np.ndarray, draws: int = DRAWS) -> list[float]:
    """Of the student, once for each draw of the noise. votes: int64 (queries, classes), exact, on pool rows `rows`."""
    schema, spec = case.config.rows, case.scenario.student
    pool, test = schema.inputs(case.pool_x), schema.inputs(case.test_x)
    rest, total = np.setdiff1d(np.arange(len(pool)), rows), votes.sum(axis=1)
    aucs = []
    for draw in range(draws):
        noisy = votes + SeededNoise(1000 * case.seed + draw).gaussian(SIGMA, votes.shape)
        shares = Shares(noisy / total[:, None], SIGMA / total)
        labels = noisy.argmax(axis=1)
        model = train(pool[rows], labels, pool[rest], 2, spec, case.seed, schema=schema, shares=shares)
        aucs.append(auc(case, model.predict_proba(test)))
    return aucs


def auc(case: Case, scores: np.ndarray) -> float:
    """On the test rows, of scores float (test, classes)."""
    return area_under_curve(scores[:, 1] - scores[:, 0], case.test_y == 1)


def votes_of(case: Case, ensemble: Ensemble, rows: np.ndarray, parties: np.ndarray) -> np.ndarray:
    """Exact counts int64 (queries, classes) of the parties with these indices."""
    ids = [case.pool_ids[row] for row in rows]
    return ensemble.pool.votes(rows, case.parties, case.config.digest(), ids, 2)[parties].sum(axis=0)


def average_aucs(case: Case, ensemble: Ensemble, lacking: Sequence[str]) -> tuple[list[float], list[float]]:
    """Of the noisy averages of all teachers' weights, by draw, and of the exact one.

    lacking: features that no party has: no noise is spent on their weights.
    """
    promise, summed = StatedGuarantee.of(promised(case.config)), ensemble.direction_sum(len(case.parties), 1)
    if promise is None or summed is None:
        raise ValueError("there are no weights, or no epsilon")
    schema = case.config.rows
    places = np.array(schema.places_of(schema.without(lacking).features))
    pool, test = schema.inputs(case.pool_x)[:, places], schema.inputs(case.test_x)[:, places]
    summed.total = summed.total[places]
    averages = noisy_averages(summed, promise, pool, case.pool_y, case.seed)
    return [auc(case, drawn) for drawn in averages.probabilities(test)], [auc(case, test @ summed.total)]


def kind_auc(case: Case, lacking: Sequence[str], parties: Sequence[str]) -> float:
    """Of one model of all rows of these parties, on the columns that they have, by itself."""
    schema = case.config.rows
    without = schema.without(lacking)
    places = np.array(schema.places_of(without.features))
    rows = np.concatenate([case.partition.parties[party] for party in parties])
    x, y = case.dataset.x[np.ix_(rows, places)], case.dataset.y[rows]
    return auc(case, pooled_probabilities(without, case.config.teacher, x, y, without.inputs(case.test_x[:, places])))


def lacking_of(features: Sequence[str], alone: bool) -> list[list[str]]:
    """What each kind lacks: its part; or all parts but that one, where it has one part `alone`."""
    _, *parts = parts_of(features)
    if not alone:
        return parts
    return [[name for other in parts if other is not part for name in other] for part in parts]


def measured(data: str, alone: bool, seed: int) -> dict[str, list[float]]:
    """AUCs of each of `ROWS`: one, or one for each draw of noise."""
    whole = case_of(data, seed, [])
    kinds = lacking_of(whole.dataset.features, alone)
    missing = list(dict.fromkeys(name for columns in kinds for name in columns))
    shares = [{"share": 1 / KINDS, "columns": columns} for columns in kinds]
    case, poor = case_of(data, seed, shares), case_of(data, seed, [{"share": 1, "columns": missing}])
    rows = np.sort(np.random.default_rng([seed, QUERIES]).permutation(len(case.pool_x))[:QUERIES])
    everybody = np.arange(len(case.parties))
    lacking = lacking_columns(case.scenario.data.shift, case.parties, seed)
    of_kind = [[place for place in everybody if lacking[case.parties[place]] == tuple(columns)] for columns in kinds]
    ensemble, of_poor, of_whole = train_ensemble(case), train_ensemble(poor), train_ensemble(whole)
    names = [[case.parties[place] for place in places] for places in of_kind]
    alone_aucs = [
        student_aucs(case, votes_of(case, ensemble, rows, np.array(places)), rows, FEW_DRAWS) for places in of_kind
    ]
    noisy, exact = average_aucs(case, ensemble, [])
    noisy_common, exact_common = average_aucs(poor, of_poor, missing)
    found = (
        student_aucs(case, votes_of(case, ensemble, rows, everybody), rows),
        max(alone_aucs, key=np.mean),
        [max(kind_auc(case, columns, parties) for columns, parties in zip(kinds, names, strict=True))],
        noisy_common,
        exact_common,
        noisy,
        exact,
        student_aucs(poor, votes_of(poor, of_poor, rows, everybody), rows),
        student_aucs(whole, votes_of(whole, of_whole, rows, everybody), rows),
    )
    return dict(zip(ROWS, found, strict=True))


def cell(results: Sequence[Mapping[str, list[float]]], row: str) -> str:
    """Mean ± deviation over seeds and draws; in brackets, by how much the student is better, with the interval."""
    values = [value for result in results for value in result[row]]
    differences = [float(np.mean(result[ROWS[0]]) - np.mean(result[row])) for result in results]
    if row == ROWS[0]:
        return f"**{spread(values)}**"
    low, high = student_interval(differences)
    return f"{spread(values)} ({np.mean(differences):+.3f}, {low:+.3f} to {high:+.3f})"


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table, and record it where that is asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.columns")
    parser.add_argument("data", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args(arguments)
    seeds, names = range(chosen.seeds), chosen.data or list(DIVIDED)
    settings = {
        f"{name}, each kind {words}": (name, alone)
        for name in names
        for alone, words in ((False, "lacks a part"), (True, "has one part"))
    }
    note = (
        f"AUC, mean ± standard deviation over seeds and, where noise is, {DRAWS} draws of it for epsilon 1 ({FEW_DRAWS}"
        " of a single kind's); in brackets by how much the student is better, with the 95 % interval over seeds."
    )
    split = "judged on public people that are held out; settings are those of the study of natural divisions"
    command = command_of("benchmarks.columns", arguments)
    with figure("tables/three-kinds", command, ["method", *settings], split=split, seeds=seeds, note=note) as table:
        results = {name: [measured(data, alone, seed) for seed in seeds] for name, (data, alone) in settings.items()}
        for row in ROWS:
            table.add(row, *(cell(results[name], row) for name in settings))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
