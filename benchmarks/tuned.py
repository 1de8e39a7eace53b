"""What was tuned, on which rows, chosen anew on development rows, and what that does to the headline.

    python -m benchmarks.tuned [--part development headline digits listed]

`development`: what was tuned on stroke, on development hospitals, which are those whose SHA-256 says so
(`is_development`): three in ten. A federation of them alone has a public part of its own, and students and teachers are
judged there by their AUC on all of its public rows, whose labels nobody is told. The noise is as large a share of the
votes as in the whole federation. The student, and what is released, also on Adult and Diabetes, on the labels of the
rows that may be asked, which judge nothing; teachers are logistic regressions there, for speed. `headline`: the default
scenario, seeds 0 to 9, judged on all test rows and on those of hospitals that are not development hospitals. `digits`:
what version 0.1 chose with a look at test images, on MNIST's training images alone: two splits by writers, 3,000 images
to ask about, 2,000 of the same writers to judge, others' for 60 ridge teachers; the graph and the last kernel on
scattering, without networks. `listed`: what the scenarios that ship say themselves. Tables need CONSILIUM_DATA.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from consilium.coordinator.mechanisms import Confident
from consilium.models import evidence
from consilium.models.base import Shares
from consilium.models.evaluation import area_under_curve
from consilium.models.evidence import fit_softmax
from consilium.models.images.graph_cnn import smooth_shares
from consilium.models.kernel import kernel_ridge, principal_places
from consilium.models.tabular import LinearTrainer
from consilium.models.teachers import RidgeTeacher
from consilium.protocol.images import represent
from consilium.protocol.noise import SeededNoise
from consilium.protocol.queries import query_ids
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.embedded import load_stroke
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.divide import Case, make_case
from consilium.simulations.release import replay
from consilium.simulations.scenario import load_scenario
from consilium.simulations.shipped import Shipped
from consilium.simulations.vote import Ensemble, train_ensemble
from consilium.student.learn import train
from consilium.student.selection import choose
from docs.figures import Table, figure

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
SPLITS = range(2)
WRITERS, POOL, JUDGES, DIGIT_PARTIES, DIGIT_DRAWS, KERNEL_ROWS = 66, 3000, 2000, 60, 5, 1000
"""Writers to show, of 256; images to ask about, to judge; parties of 240 images; draws of noise; rows of a kernel."""
SHIPPED_ALPHA = 0.0015
TEACHERS_ALPHA = (0.00015, 0.0005, SHIPPED_ALPHA, 0.005, 0.015, 0.05, 0.5)
NEIGHBOURS = (5, 10, 20)
GAMMAS = (0.5, 1.0, 2.0, 4.0, 8.0)
KERNEL_ALPHAS = (0.03, 0.1, 0.3)


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
    whole = load_stroke()
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
    for draw in range(DRAWS):
        asked = np.random.default_rng([case.seed, draw, LOT]).permutation(len(inputs))[:queries]
        noise = SeededNoise(1000 * case.seed + draw)
        counts = votes[asked] + noise.gaussian(sigma, (len(asked), classes))
        told = None if labels else Shares(counts / parties, np.full(len(asked), sigma / parties))
        spec, rest = case.scenario.student, np.zeros((0, inputs.shape[1]))
        model = train(inputs[asked], counts.argmax(axis=1), rest, classes, spec, case.seed, shares=told)
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


def judged(table: Table, value: str, rows: str, cells: dict[str, list[float]], shipped: str, measure: str) -> None:
    """Mean of each setting and its difference from what ships, seed by seed; of the best a row of the table."""
    print_table(f"{value}, {rows}", cells, shipped)
    best = max(cells, key=lambda name: np.mean(cells[name]))
    apart = np.array(cells[best]) - np.array(cells[shipped])
    error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else 0.0
    told = "–" if best == shipped else f"{apart.mean():+.4f} ± {error:.4f}"
    table.add(value, rows, f"{shipped} ({np.mean(cells[shipped]):.4f})", len(cells), best, f"{measure} {told}")


def print_table(title: str, cells: dict[str, list[float]], shipped: str) -> None:
    """All settings."""
    print(f"\n{title}\n\n| setting | mean | less what ships |\n|---|---|---|")
    for name, aucs in cells.items():
        apart = np.array(aucs) - np.array(cells[shipped])
        error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else 0.0
        mark = " (ships)" if name == shipped else ""
        print(f"| {name}{mark} | {np.mean(aucs):.4f} | {apart.mean():+.4f} ± {error:.4f} |", flush=True)


def student_part(table: Table) -> None:
    """Power of the prior's lengths and scales of columns, on development hospitals."""
    _student(table, HOSPITALS, [("stroke", seed, development()) for seed in SEEDS], 300, SHARE_NOISE)


def tables_part(table: Table) -> None:
    """The same on Adult and Diabetes, on rows that may be asked; teachers are logistic regressions, for speed."""
    for name, noise in TABLES.items():
        _student(table, f"pool of `{name}`", [(name, seed, None) for seed in TABLE_SEEDS], 2000, noise)


def _student(table: Table, rows: str, places: list[tuple[str, int, Source | None]], queries: int, noise: float) -> None:
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
    judged(table, "student, prior", rows, cells, "power 0.25, columns by mean absolute deviation", "AUC")


def teachers_part(table: Table) -> None:
    """Penalty of the hospitals' teachers and rule of the voting rule, on development hospitals."""
    cells: dict[str, list[float]] = {}
    for seed in SEEDS:
        for rule in VOTING_RULES:
            voting_rule = ["federation.voting_rule={rule='top'}"] if rule == "top" else []
            for penalty in TEACHERS_C:
                case, said = case_of("stroke", seed, development(), [f"federation.teacher.C={penalty}", *voting_rule])
                auc = students_auc(case, votes_on_pool(case, said), 300, SHARE_NOISE, public_rows(case), labels=False)
                cells.setdefault(f"C {penalty:g}, voting rule {rule}", []).append(auc)
    judged(table, "teachers' C and voting rule", HOSPITALS, cells, "C 0.3, voting rule relative", "AUC")


def queries_part(table: Table) -> None:
    """How many queries, at the same epsilon, on development hospitals."""
    cells: dict[str, list[float]] = {}
    for seed in SEEDS:
        case, said = case_of("stroke", seed, development())
        votes, judge = votes_on_pool(case, said), public_rows(case)
        for queries in QUERIES:
            noise = SHARE_NOISE * float(np.sqrt(queries / 300))
            cells.setdefault(f"{queries} queries", []).append(students_auc(case, votes, queries, noise, judge, False))
    judged(table, "queries", HOSPITALS, cells, "300 queries", "AUC")


def release_part(table: Table) -> None:
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
        judged(table, "what is released", title, own, "histograms", "AUC")


def labels_part(table: Table) -> None:
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
    judged(table, "queries and threshold of 300 labels", HOSPITALS, thresholds, "800 queries, threshold 250", "AUC")
    judged(table, "C, 300 true labels", HOSPITALS, by_hand, "C 0.01", "AUC")


def _labels_auc(
    mechanism: Confident, inputs: np.ndarray, truth: np.ndarray, votes: np.ndarray, queries: int, parties: int, lot: int
) -> float:
    asked = np.random.default_rng([lot, LOT]).permutation(len(inputs))[:queries]
    drawn = mechanism.draw(votes[asked], SeededNoise(lot)).up_to(300)
    rows = asked[: len(drawn.labels)][drawn.answered]
    step = mechanism.label_step * mechanism.sigma2 / parties
    told = Shares.of_labels(drawn.labels[drawn.answered], np.ones(len(rows), dtype=bool), step)
    model = fit_softmax(inputs[rows], told).model  # pyright: ignore[reportArgumentType]
    return area_under_curve(model.predict_proba(inputs)[:, 1], truth == 1)


def headline_part() -> None:
    """The default scenario's student, on all test rows and without those of development hospitals."""
    columns = ("AUC", "on all test rows", "on hospitals that are not development hospitals")
    split = "all test rows, and those of hospitals on which nothing was chosen anew"
    with figure("results/tuned-headline", f"{COMMAND} headline", columns, seeds=SEEDS, split=split) as table:
        found = []
        for seed in SEEDS:
            case, said = case_of("stroke", seed)
            others = ~np.array([is_development(int(each)) for each in case.dataset.owner[case.partition.test]])
            student = replay(case, said.pool).student.predict_proba(case.test_x)[:, 1]
            rows, ids = np.arange(len(case.test_x)), query_ids(case.test_x)
            plurality = said.test.totals(rows, case.parties, case.config.digest(), ids, 2)[:, 1]
            masks = np.ones(len(others), dtype=bool), others
            truth = case.test_y == 1
            found.append([area_under_curve(each[mask], truth[mask]) for each in (student, plurality) for mask in masks])
        cells = np.array(found)
        apart = cells[:, :2] - cells[:, 2:]
        for name, values in (("student", cells[:, :2]), ("plurality", cells[:, 2:]), ("student less plurality", apart)):
            mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
            table.add(name, *(f"{m:.4f} ± {d:.4f}" for m, d in zip(mean, deviation, strict=True)))


def digits_part(kept: Path | None) -> None:
    """The teachers' penalty, and neighbours, gamma and alpha of the student's graph and kernel, on training images."""
    done, seconds = _done({f"split {split}": partial(_of_split, split) for split in SPLITS}, kept)
    with figure("results/tuned-digits", f"{COMMAND} digits", COLUMNS, seeds=SPLITS, split=DIGITS_SPLIT) as table:
        table.seconds = seconds
        found: dict[str, dict[str, list[float]]] = {}
        for of_split in done.values():
            for value, cells in of_split.items():
                for setting, right in cells.items():
                    found.setdefault(value, {}).setdefault(setting, []).append(right)
        settings = (f"alpha {SHIPPED_ALPHA:g}", "10 neighbours", "gamma 2, alpha 0.1")
        for (value, cells), ships in zip(found.items(), settings, strict=True):
            judged(table, value, "MNIST's training images", cells, ships, "share right")


def _of_split(split: int) -> dict[str, dict[str, float]]:
    """Value -> setting -> share that is right: of images to judge, and for the graph of those that may be asked."""
    whole = load_dataset("mnist-writers")
    public = np.concatenate([whole.public.queries, whole.public.test]) if whole.public else np.zeros(0, dtype=np.int64)
    training = np.setdiff1d(np.arange(len(whole.y)), public)
    writers = [digest(f"writer {split} {each}") < WRITERS for each in range(int(whole.owner.max()) + 1)]
    is_open, generator = np.array(writers)[whole.owner[training]], np.random.default_rng([split, LOT])
    shown, private = generator.permutation(training[is_open]), generator.permutation(training[~is_open])
    pool, judges = (
        represent("scattering", whole.x[shown[:POOL]]),
        represent("scattering", whole.x[shown[POOL : POOL + JUDGES]]),
    )
    pool_truth, truth = whole.y[shown[:POOL]], whole.y[shown[POOL : POOL + JUDGES]]
    sums = np.zeros((len(pool), 10), dtype=np.int64)
    judged_sums = {alpha: np.zeros((len(judges), 10), dtype=np.int64) for alpha in TEACHERS_ALPHA}
    for part in np.array_split(private[: DIGIT_PARTIES * 240], DIGIT_PARTIES):
        own = represent("scattering", whole.x[part])
        for alpha, counts in judged_sums.items():
            teacher = RidgeTeacher(alpha).fit(own, whole.y[part])
            counts[np.arange(len(judges)), teacher.predict(judges)] += 1
            if alpha == SHIPPED_ALPHA:
                sums[np.arange(len(pool)), teacher.predict(pool)] += 1
    inputs, nobody = pool.astype(np.float32), np.zeros(0, dtype=np.int64)
    asked = choose("typical", np.arange(len(pool)), 30, inputs, nobody, None, generator, np.arange(len(pool)))
    order = np.concatenate([asked, np.setdiff1d(np.arange(len(pool)), asked)])
    places, sigma = principal_places(inputs, 256)[order], 67 / 250 * DIGIT_PARTIES

    def by_graph(neighbours: int) -> float:
        right = []
        for draw in range(DIGIT_DRAWS):
            counts = sums[asked] + SeededNoise(1000 * split + draw).gaussian(sigma, (len(asked), 10))
            told = Shares(counts / DIGIT_PARTIES, np.full(len(asked), sigma / DIGIT_PARTIES))
            right.append((smooth_shares(places, told, neighbours).argmax(axis=1) == pool_truth[order]).mean())
        return float(np.mean(right))

    few = order[:KERNEL_ROWS]
    labels = np.eye(10, dtype=np.float32)[sums[few].argmax(axis=1)]

    def by_kernel(gamma: float, alpha: float) -> float:
        model = kernel_ridge(inputs[few], labels, gamma, alpha)
        return float((model.predict_proba(judges.astype(np.float32)).argmax(axis=1) == truth).mean())

    return {
        "teachers' alpha, plurality": {
            f"alpha {alpha:g}": float((counts.argmax(axis=1) == truth).mean()) for alpha, counts in judged_sums.items()
        },
        "graph on scattering alone": {f"{neighbours} neighbours": by_graph(neighbours) for neighbours in NEIGHBOURS},
        f"kernel around {KERNEL_ROWS:,} rows with the plurality's labels": {
            f"gamma {gamma:g}, alpha {alpha:g}": by_kernel(gamma, alpha) for gamma in GAMMAS for alpha in KERNEL_ALPHAS
        },
    }


def development_part(kept: Path | None) -> None:
    """Everything that was tuned on stroke."""

    def rows_of(step: Callable[[Table], None]) -> Callable[[], list[tuple[str, ...]]]:
        def measure() -> list[tuple[str, ...]]:
            table = Table(COLUMNS)
            step(table)
            return table.rows

        return measure

    steps = (student_part, tables_part, release_part, teachers_part, queries_part, labels_part)
    done, seconds = _done({step.__name__: rows_of(step) for step in steps}, kept)
    with figure("results/tuned", f"{COMMAND} development", COLUMNS, seeds=SEEDS, split=DEVELOPMENT_SPLIT) as table:
        table.seconds = seconds
        for rows in done.values():
            for row in rows:
                table.add(*row)


def _done(steps: Mapping[str, Callable[[], Any]], kept: Path | None) -> tuple[dict[str, Any], float]:
    """What each step gives, and their processor seconds; `kept` has those that were done, so that it goes on there."""
    known: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}
    for name, step in steps.items():
        if name not in known:
            start = time.process_time()
            known[name] = {"gives": step(), "seconds": time.process_time() - start}
            if kept:
                kept.write_text(json.dumps(known), encoding="utf-8")
    return {name: known[name]["gives"] for name in steps}, sum(known[name]["seconds"] for name in steps)


def listed_part() -> None:
    """What the scenarios that ship, and the trainers of their students, say themselves."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for name in Shipped.SCENARIO.files():
        for entry in load_scenario(name).tuned:
            told.setdefault((", ".join(entry.keys), entry.chosen, entry.where), []).append(name)
    with figure("results/provenance", f"{COMMAND} listed", LISTED, split="as the files say") as table:
        for (keys, chosen, where), names in told.items():
            values = ", ".join(f"`{key}`" for key in keys.split(", "))
            table.add(", ".join(f"`{name}`" for name in names), values, chosen, where)


COMMAND = "python -m benchmarks.tuned --part"
COLUMNS = ("value", "development rows", "ships (there)", "settings tried", "best there", "best less what ships")
LISTED = ("scenario", "values", "chosen", "where")
DEVELOPMENT_SPLIT = (
    "judged on public rows of development hospitals, ten divisions of them, and on the rows of Adult and Diabetes that"
    " may be asked, seeds 0 to 2; mean and standard error over seeds"
)
DIGITS_SPLIT = (
    "judged on 2,000 training images of other writers than those of the 60 teachers, the graph on the 3,000 that may be"
    " asked; two splits by writers"
)
PARTS: dict[str, Callable[[Path | None], None]] = {
    "development": development_part,
    "headline": lambda kept: headline_part(),
    "digits": digits_part,
    "listed": lambda kept: listed_part(),
}


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What was tuned, chosen anew on development rows.")
    parser.add_argument("--part", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--kept", type=Path, help="file in which steps of `development` and `digits` are kept")
    chosen = parser.parse_args(arguments or [])
    for part in chosen.part:
        PARTS[part](chosen.kept)


if __name__ == "__main__":
    main(sys.argv[1:])
