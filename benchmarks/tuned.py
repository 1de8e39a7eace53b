"""What was tuned, on which rows, chosen anew on development rows, and what that does to the headline.

    python -m benchmarks.tuned [--part development headline]

`development`: what was tuned on stroke, on development hospitals, which are those whose SHA-256 says so
(`is_development`): three in ten. A federation of them alone has a public part of its own, and students and teachers are
judged there by their AUC on all of its public rows, whose labels nobody is told. The noise is as large a share of the
votes as in the whole federation. The student, and what is released, also on Adult and Diabetes, on the labels of the
rows that may be asked, which judge nothing; teachers are logistic regressions there, for speed. `headline`: the default
scenario, seeds 0 to 9, judged on all test rows and on those of hospitals that are not development hospitals. Tables
need CONSILIUM_DATA.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from benchmarks.results import Rows, table
from consilium.accounting.mechanisms import Confident
from consilium.coordinator.draw import draw, exact
from consilium.coordinator.mechanisms import law_of
from consilium.models import evidence
from consilium.models.base import Outcomes, Shares
from consilium.models.evaluation import area_under_curve
from consilium.models.evidence import fit_softmax
from consilium.models.shares import LinearTrainer
from consilium.protocol.label_source import LabelLaw, Outcome
from consilium.protocol.noise import SeededNoise
from consilium.protocol.queries import query_ids
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.divide import Case, make_case
from consilium.simulations.release import replay
from consilium.simulations.scenario import load_scenario
from consilium.simulations.vote import Ensemble, train_ensemble
from consilium.student.learn import train

SEEDS = range(10)
TABLE_SEEDS = range(3)
DRAWS = 4
"""Of the queries and the noise, for each seed."""
POWERS = (0.0, 0.125, 0.25, 0.375, 0.5)
TEACHERS_C = (0.03, 0.1, 0.3, 1.0, 3.0)
VOTING_RULES = ("relative", "top")
QUERIES = (20, 50, 100, 200, 300, 500)
LESS_FOR_LABELS = 94.17 / 112.1
"""Noise of labels for the epsilon of histograms, since a label is charged as a label."""
LABELS_C = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
PARTIES, SIGMA2 = 371, 98.0
LABEL_NOISE = {600: 240.0, 800: 277.1, 1200: 339.6}
"""Queries -> sigma1, with sigma2 for 300 labels at epsilon .8 (a federation's calibration)."""
THRESHOLDS = (150, 200, 220, 250, 280)
SHARE_NOISE = 112.1 / 371
"""Of one share of 300 in the default scenario."""
HOSPITALS = "development hospitals"
TABLES = {"adult-250": 237.0 / 250, "diabetes-rf": 237.0 / 250}
"""Share of the votes that the noise of each of 2,000 histograms is."""
LINEAR = "federation.teacher={model='logistic_regression', C=0.3}"
DEVELOPMENT = 77
"""Of 256."""
LOT = 0x74756E65


def is_development(hospital: int) -> bool:
    """Whether the hospital with this number of the trial (HOSPNUM) is one to choose on.

    >>> [number for number in range(1, 12) if is_development(number)]
    [2, 3, 4, 5, 10]
    """
    return digest(f"hospital {hospital}") < DEVELOPMENT


def digest(name: str) -> int:
    """A number from 0 to 255 that hangs on the name alone."""
    return hashlib.sha256(name.encode()).digest()[0]


def development() -> Source:
    """The trial's patients in development hospitals."""
    whole = load_dataset("stroke")
    rows = np.isin(whole.owner, [each for each in np.unique(whole.owner) if is_development(int(each))])
    return replace(whole, x=whole.x[rows], y=whole.y[rows], owner=whole.owner[rows])


def case_of(name: str, seed: int, source: Source | None = None, changes: Sequence[str] = ()) -> tuple[Case, Ensemble]:
    """A federation and what its teachers say; of few hospitals, where the source has few."""
    few = ["federation.minimum_parties=20"] if source is not None else []
    case = make_case(load_scenario(name, [*changes, *few]), seed, 0.0, source)
    return case, train_ensemble(case)


def votes_on_pool(case: Case, said: Ensemble) -> np.ndarray:
    """Sums int64 (pool, classes)."""
    rows = np.arange(len(case.pool_x))
    return said.pool.totals(rows, case.parties, case.config.digest(), query_ids(case.pool_x), len(case.classes))


def public_rows(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """What development judges by: inputs and truth of all public rows."""
    rows = case.config.rows.inputs(np.concatenate([case.pool_x, case.test_x]))
    return rows, np.concatenate([case.pool_y, case.test_y])


def students_auc(
    case: Case, votes: np.ndarray, queries: int, share_noise: float, judge: tuple[np.ndarray, np.ndarray], labels: bool
) -> float:
    """Mean over `DRAWS` of a student that gets noisy histograms, or only their winners."""
    inputs, classes, parties = case.config.rows.inputs(case.pool_x), len(case.classes), len(case.parties)
    sigma, aucs = share_noise * parties, []
    for lot in range(DRAWS):
        asked = np.random.default_rng([case.seed, lot, LOT]).permutation(len(inputs))[:queries]
        noise = SeededNoise(1000 * case.seed + lot)
        counts = votes[asked] + noise.gaussian(sigma, (len(asked), classes))
        winners = counts.argmax(axis=1)
        law = LabelLaw(parties, sigma)
        told = (
            Outcomes(winners, np.full(len(asked), Outcome.ANSWERED), classes, law)
            if labels
            else Shares(counts / parties, np.full(len(asked), sigma / parties))
        )
        spec, rest = case.scenario.student, np.zeros((0, inputs.shape[1]))
        model = train(inputs[asked], winners, rest, classes, spec, case.seed, told=told)
        aucs.append(area_under_curve(model.predict_proba(judge[0])[:, 1], judge[1] == 1))
    return float(np.mean(aucs))


@contextmanager
def student_with(power: float, scaled: bool) -> Iterator[None]:
    """The linear student of shares with another prior."""
    before = evidence.POWER, evidence.column_scales
    evidence.POWER = power
    if not scaled:
        evidence.column_scales = lambda rows: (rows.std(axis=0) > 1e-12).astype(float)
    try:
        yield
    finally:
        evidence.POWER, evidence.column_scales = before


def judged(made: Rows, value: str, rows: str, cells: dict[str, list[float]], shipped: str, measure: str) -> None:
    """Mean of each setting and its difference from what ships, seed by seed; of the best a row of the table."""
    print_table(f"{value}, {rows}", cells, shipped)
    best = max(cells, key=lambda name: np.mean(cells[name]))
    apart = np.array(cells[best]) - np.array(cells[shipped])
    error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else 0.0
    told = "–" if best == shipped else f"{apart.mean():+.4f} ± {error:.4f}"
    made.add(f"{value}, {rows}", f"{shipped} ({np.mean(cells[shipped]):.4f})", len(cells), best, f"{measure} {told}")


def print_table(title: str, cells: dict[str, list[float]], shipped: str) -> None:
    """All settings."""
    print(f"\n{title}\n\n| setting | mean | less what ships |\n|---|---|---|")
    for name, aucs in cells.items():
        apart = np.array(aucs) - np.array(cells[shipped])
        error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else 0.0
        mark = " (ships)" if name == shipped else ""
        print(f"| {name}{mark} | {np.mean(aucs):.4f} | {apart.mean():+.4f} ± {error:.4f} |", flush=True)


def student_part(made: Rows) -> None:
    """Power of the prior's lengths and scales of columns, on development hospitals."""
    _student(made, HOSPITALS, [("stroke", seed, development()) for seed in SEEDS], 300, SHARE_NOISE)


def tables_part(made: Rows) -> None:
    """The same on Adult and Diabetes, on rows that may be asked; teachers are logistic regressions, for speed."""
    for name, noise in TABLES.items():
        _student(made, f"pool of `{name}`", [(name, seed, None) for seed in TABLE_SEEDS], 2000, noise)


def _student(made: Rows, rows: str, places: list[tuple[str, int, Source | None]], queries: int, noise: float) -> None:
    cells: dict[str, list[float]] = {}
    for name, seed, source in places:
        case, said = case_of(name, seed, source, [] if source is not None else [LINEAR])
        votes = votes_on_pool(case, said)
        judge = public_rows(case) if source is not None else (case.config.rows.inputs(case.pool_x), case.pool_y)
        for scaled in (True, False):
            for power in POWERS:
                with student_with(power, scaled):
                    key = f"power {power:g}, columns {'by' if scaled else 'not by'} mean absolute deviation"
                    cells.setdefault(key, []).append(students_auc(case, votes, queries, noise, judge, labels=False))
    judged(made, "student, prior", rows, cells, "power 0.25, columns by mean absolute deviation", "AUC")


def teachers_part(made: Rows) -> None:
    """Penalty of the hospitals' teachers and rule of the voting rule, on development hospitals."""
    cells: dict[str, list[float]] = {}
    for seed in SEEDS:
        for rule in VOTING_RULES:
            voting_rule = ["federation.voting_rule={rule='top'}"] if rule == "top" else []
            for penalty in TEACHERS_C:
                case, said = case_of("stroke", seed, development(), [f"federation.teacher.C={penalty}", *voting_rule])
                auc = students_auc(case, votes_on_pool(case, said), 300, SHARE_NOISE, public_rows(case), labels=False)
                cells.setdefault(f"C {penalty:g}, voting rule {rule}", []).append(auc)
    judged(made, "teachers' C and voting rule", HOSPITALS, cells, "C 0.3, voting rule relative", "AUC")


def queries_part(made: Rows) -> None:
    """How many queries, at the same epsilon, on development hospitals."""
    cells: dict[str, list[float]] = {}
    for seed in SEEDS:
        case, said = case_of("stroke", seed, development())
        votes, judge = votes_on_pool(case, said), public_rows(case)
        for queries in QUERIES:
            noise = SHARE_NOISE * float(np.sqrt(queries / 300))
            cells.setdefault(f"{queries} queries", []).append(students_auc(case, votes, queries, noise, judge, False))
    judged(made, "queries", HOSPITALS, cells, "300 queries", "AUC")


def release_part(made: Rows) -> None:
    """Noisy histograms, or labels at the same epsilon, on development hospitals and on pools of tables."""
    places: list[tuple[str, str, int, Source | None]] = [(HOSPITALS, "stroke", seed, development()) for seed in SEEDS]
    places += [(f"pool of `{name}`", name, seed, None) for name in TABLES for seed in TABLE_SEEDS]
    cells: dict[str, dict[str, list[float]]] = {}
    for title, name, seed, source in places:
        changes = [] if source is not None else [LINEAR]
        case, said = case_of(name, seed, source, changes)
        votes, few = votes_on_pool(case, said), 300 if source is not None else 2000
        judge = public_rows(case) if source is not None else (case.config.rows.inputs(case.pool_x), case.pool_y)
        noise = TABLES.get(name, SHARE_NOISE)
        own = cells.setdefault(title, {})
        own.setdefault("histograms", []).append(students_auc(case, votes, few, noise, judge, labels=False))
        labels = students_auc(case, votes, few, noise * LESS_FOR_LABELS, judge, labels=True)
        own.setdefault("labels, a sixth less noise", []).append(labels)
    for title, own in cells.items():
        judged(made, "what is released", title, own, "histograms", "AUC")


def labels_part(made: Rows) -> None:
    """Threshold and queries of the default scenario's labels at its epsilon, and its C with as many true labels."""
    thresholds: dict[str, list[float]] = {}
    by_hand: dict[str, list[float]] = {}
    for seed in SEEDS:
        case, said = case_of("stroke", seed, development())
        inputs, truth = public_rows(case)
        rows, test = np.arange(len(case.pool_x)), np.arange(len(case.test_x))
        digest_, ids = case.config.digest(), (query_ids(case.pool_x), query_ids(case.test_x))
        votes = np.concatenate(
            [
                said.pool.totals(rows, case.parties, digest_, ids[0], 2),
                said.test.totals(test, case.parties, digest_, ids[1], 2),
            ]
        )
        part = len(case.parties) / PARTIES
        for queries, sigma1 in LABEL_NOISE.items():
            for threshold in THRESHOLDS:
                mechanism = Confident(threshold=round(threshold * part), sigma1=sigma1 * part, sigma2=SIGMA2 * part)
                aucs = [
                    _labels_auc(mechanism, inputs, truth, votes, queries, len(case.parties), 1000 * seed + draw)
                    for draw in range(DRAWS)
                ]
                key = f"{queries} queries, threshold {threshold}"
                thresholds.setdefault(key, []).append(float(np.mean(aucs)))
        for penalty in LABELS_C:
            chosen = np.random.default_rng([seed, LOT]).permutation(len(inputs))
            own, others = chosen[:300], chosen[300:]
            model = LinearTrainer(penalty).fit(inputs[own], truth[own], 2, seed)
            auc = area_under_curve(model.predict_proba(inputs[others])[:, 1], truth[others] == 1)
            by_hand.setdefault(f"C {penalty:g}", []).append(auc)
    judged(made, "queries and threshold of 300 labels", HOSPITALS, thresholds, "800 queries, threshold 250", "AUC")
    judged(made, "C, 300 true labels", HOSPITALS, by_hand, "C 0.01", "AUC")


def _labels_auc(
    mechanism: Confident, inputs: np.ndarray, truth: np.ndarray, votes: np.ndarray, queries: int, parties: int, lot: int
) -> float:
    asked = np.random.default_rng([lot, LOT]).permutation(len(inputs))[:queries]
    drawn = draw(mechanism, exact(votes[asked]), SeededNoise(lot), room=300)
    law, outcomes = law_of(mechanism, parties, 2, ()), np.where(drawn.answered, Outcome.ANSWERED, Outcome.ABSTAINED)
    model = fit_softmax(inputs[asked[: len(outcomes)]], Outcomes(drawn.labels, outcomes, 2, law))[0]  # pyright: ignore[reportArgumentType]
    return area_under_curve(model.predict_proba(inputs)[:, 1], truth == 1)


def headline_part() -> None:
    """The default scenario's student, on all test rows and without those of development hospitals."""
    columns = ("AUC", "on all test rows", "on hospitals that are not development hospitals")
    split = "all test rows, and those of hospitals on which nothing was chosen anew"
    with table("tuned-headline", f"{COMMAND} headline", columns, seeds=SEEDS, split=split) as rows:
        found = []
        for seed in SEEDS:
            case, said = case_of("stroke", seed)
            others = ~np.array([is_development(int(each)) for each in case.dataset.owner[case.partition.test]])
            student = replay(case, said.pool).student.predict_proba(case.test_x)[:, 1]
            places, ids = np.arange(len(case.test_x)), query_ids(case.test_x)
            plurality = said.test.totals(places, case.parties, case.config.digest(), ids, 2)[:, 1]
            masks = np.ones(len(others), dtype=bool), others
            truth = case.test_y == 1
            found.append([area_under_curve(each[mask], truth[mask]) for each in (student, plurality) for mask in masks])
        cells = np.array(found)
        apart = cells[:, :2] - cells[:, 2:]
        for name, values in (("student", cells[:, :2]), ("plurality", cells[:, 2:]), ("student less plurality", apart)):
            mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
            rows.add(name, *(f"{m:.4f} ± {d:.4f}" for m, d in zip(mean, deviation, strict=True)))


def development_part() -> None:
    """Everything that was tuned on stroke."""
    with table("tuned", f"{COMMAND} development", COLUMNS, seeds=SEEDS, split=DEVELOPMENT_SPLIT) as made:
        for step in (student_part, tables_part, release_part, teachers_part, queries_part, labels_part):
            step(made)


COMMAND = "python -m benchmarks.tuned --part"
COLUMNS = ("value, development rows", "ships (there)", "settings tried", "best there", "best less what ships")
DEVELOPMENT_SPLIT = (
    "judged on public rows of development hospitals, ten divisions of them, and on the rows of Adult and Diabetes that"
    " may be asked, seeds 0 to 2; mean and standard error over seeds"
)
PARTS: dict[str, Callable[[], None]] = {"development": development_part, "headline": headline_part}


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What was tuned, chosen anew on development rows.")
    parser.add_argument("--part", nargs="*", default=list(PARTS), choices=list(PARTS))
    chosen = parser.parse_args(arguments or [])
    for part in chosen.part:
        PARTS[part]()


if __name__ == "__main__":
    main(sys.argv[1:])
