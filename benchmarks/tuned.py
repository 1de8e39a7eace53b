"""What was tuned on stroke, chosen anew on development hospitals, and what that does to the headline.

    python -m benchmarks.tuned [--part student teachers queries labels tables headline digits]

Development hospitals are those whose SHA-256 says so (`is_development`): three in ten. A federation of them alone has a
public part of its own, and students and teachers are judged there by their AUC on all of its public rows, whose labels
nobody is told. The noise is as large a share of the votes as in the whole federation. `tables` does the same for the
student on Adult and Diabetes, on the labels of the rows that may be asked, which judge nothing. `headline` is the
default scenario, seeds 0 to 9, judged on all test rows and on those of hospitals that are not development hospitals.
`digits` is what version 0.1 chose with a look at test images, on MNIST's training images alone: two splits by writers,
9,000 images to ask about, the rest of those writers' to judge, the others' for 190 ridge teachers; the graph and the
last kernel on scattering, without networks. Needs the files in a folder, see docs/scenarios.md.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from consilium.party.teachers.ridge import RidgeTeacher
from consilium.protocol.noise import SeededNoise
from consilium.protocol.rows.queries import query_ids
from consilium.protocol.rows.representation import represent
from consilium.simulations.datasets import load_dataset
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.stroke import load_stroke
from consilium.simulations.scenario import load_scenario
from consilium.simulations.study.case import Case, make_case
from consilium.simulations.study.ensemble import Ensemble, train_ensemble
from consilium.simulations.study.replay import replay
from consilium.student.asking.graph import principal_places
from consilium.student.asking.selection import choose
from consilium.student.evaluation import area_under_curve
from consilium.student.run import train
from consilium.student.trainers.base import Shares
from consilium.student.trainers.counts import softmax
from consilium.student.trainers.images.smooth import smooth_shares
from consilium.student.trainers.kernel import kernel_ridge

SEEDS = range(10)
TABLE_SEEDS = range(3)
DRAWS = 4
"""Of the queries and the noise, for each seed."""
POWERS = (0.0, 0.125, 0.25, 0.375, 0.5)
TEACHERS_C = (0.03, 0.1, 0.3, 1.0, 3.0)
BALLOTS = ("relative", "top")
QUERIES = (20, 50, 100, 200, 300, 500)
LABELS_C = (0.0003, 0.001, 0.002, 0.005, 0.02, 0.1)
SHARE_NOISE = 112.1 / 371
"""Of one share of 300 in the default scenario."""
TABLES = {"adult-250": 237.0 / 250, "diabetes-rf": 237.0 / 250}
"""Share of the votes that the noise of each of 2,000 histograms is."""
DEVELOPMENT = 77
"""Of 256."""
LOT = 0x74756E65
SPLITS = range(2)
WRITERS, POOL, DIGIT_PARTIES, DIGIT_DRAWS, KERNEL_ROWS = 66, 9000, 190, 10, 3000
"""Writers to show, of 256; images to ask about; parties of 240 images; draws of the noise; rows of a kernel."""
SHIPPED_ALPHA = 0.0015
TEACHERS_ALPHA = (0.00015, 0.0005, SHIPPED_ALPHA, 0.005, 0.015, 0.05, 0.5)
NEIGHBOURS = (5, 10, 20, 40)
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
        model = train(inputs[asked], counts.argmax(axis=1), rest, classes, spec, case.seed, told=told)
        aucs.append(area_under_curve(model.predict_proba(judge[0])[:, 1], judge[1] == 1))
    return float(np.mean(aucs))


@contextmanager
def student_with(power: float, scaled: bool) -> Iterator[None]:
    """The linear student of shares with another prior."""
    before = softmax.POWER, softmax.column_scales
    softmax.POWER = power
    if not scaled:
        softmax.column_scales = lambda rows: (rows.std(axis=0) > 1e-12).astype(float)
    try:
        yield
    finally:
        softmax.POWER, softmax.column_scales = before


def print_table(title: str, cells: dict[str, list[float]], shipped: str) -> None:
    """Mean of each setting, and its difference from what ships, by seed: mean and standard error."""
    print(f"\n{title}\n\n| setting | AUC | less what ships |\n|---|---|---|")
    for name, aucs in cells.items():
        apart = np.array(aucs) - np.array(cells[shipped])
        error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else 0.0
        mark = " (ships)" if name == shipped else ""
        print(f"| {name}{mark} | {np.mean(aucs):.4f} | {apart.mean():+.4f} ± {error:.4f} |", flush=True)


def student_part() -> None:
    """Power of the prior's lengths and scales of columns, on development hospitals."""
    _student("Student, development hospitals", [("stroke", seed, development()) for seed in SEEDS], 300, SHARE_NOISE)


def tables_part() -> None:
    """The same on Adult and Diabetes, on rows that may be asked; teachers are logistic regressions, for speed."""
    for name, noise in TABLES.items():
        _student(f"Student, pool of {name}", [(name, seed, None) for seed in TABLE_SEEDS], 2000, noise)


def _student(title: str, places: list[tuple[str, int, Source | None]], queries: int, noise: float) -> None:
    cells: dict[str, list[float]] = {}
    for name, seed, source in places:
        changes = [] if source is not None else ["federation.teacher={model='logistic_regression', C=0.3}"]
        case, said = case_of(name, seed, source, changes)
        votes = votes_on_pool(case, said)
        judge = public_rows(case) if source is not None else (case.config.rows.inputs(case.pool_x), case.pool_y)
        for scaled in (True, False):
            for power in POWERS:
                with student_with(power, scaled):
                    key = f"power {power:g}, columns {'by' if scaled else 'not by'} mean absolute deviation"
                    cells.setdefault(key, []).append(students_auc(case, votes, queries, noise, judge, labels=False))
    print_table(title, cells, "power 0.25, columns by mean absolute deviation")


def teachers_part() -> None:
    """Penalty of the hospitals' teachers and rule of the ballot, on development hospitals."""
    cells: dict[str, list[float]] = {}
    for seed in SEEDS:
        for rule in BALLOTS:
            ballot = ["federation.ballot={rule='top'}"] if rule == "top" else []
            for penalty in TEACHERS_C:
                case, said = case_of("stroke", seed, development(), [f"federation.teacher.C={penalty}", *ballot])
                auc = students_auc(case, votes_on_pool(case, said), 300, SHARE_NOISE, public_rows(case), labels=False)
                cells.setdefault(f"C {penalty:g}, ballot {rule}", []).append(auc)
    print_table("Teachers and ballot, development hospitals", cells, "C 0.3, ballot relative")


def queries_part() -> None:
    """How many queries, at the same epsilon, on development hospitals."""
    cells: dict[str, list[float]] = {}
    for seed in SEEDS:
        case, said = case_of("stroke", seed, development())
        votes, judge = votes_on_pool(case, said), public_rows(case)
        for queries in QUERIES:
            noise = SHARE_NOISE * float(np.sqrt(queries / 300))
            cells.setdefault(f"{queries} queries", []).append(students_auc(case, votes, queries, noise, judge, False))
    print_table("Queries, development hospitals", cells, "300 queries")


def labels_part() -> None:
    """Penalty of the student that learns from labels (`stroke-labels`), on development hospitals of 20 patients."""
    cells: dict[str, list[float]] = {}
    for seed in SEEDS:
        case, said = case_of("stroke-labels", seed, development())
        votes, judge = votes_on_pool(case, said), public_rows(case)
        for penalty in LABELS_C:
            scenario = load_scenario("stroke-labels", [f"student.trainer.C={penalty}", "federation.minimum_parties=20"])
            other = replace(case, scenario=scenario)
            auc = students_auc(other, votes, 300, 108.0 / 207, judge, labels=True)
            cells.setdefault(f"C {penalty:g}", []).append(auc)
    print_table("Student of labels, development hospitals", cells, "C 0.002")


def headline_part() -> None:
    """The default scenario's student, on all test rows and without those of development hospitals."""
    found = []
    for seed in SEEDS:
        case, said = case_of("stroke", seed)
        owner = case.dataset.owner[case.partition.test]
        others = ~np.array([is_development(int(each)) for each in owner])
        student = replay(case, said.pool).student.predict_proba(case.test_x)[:, 1]
        rows = np.arange(len(case.test_x))
        ids = query_ids(case.test_x)
        plurality = said.test.totals(rows, case.parties, case.config.digest(), ids, 2)[:, 1]
        aucs = [
            area_under_curve(scores[mask], case.test_y[mask] == 1)
            for scores in (student, plurality)
            for mask in (np.ones(len(others), dtype=bool), others)
        ]
        found.append(aucs)
        print(seed, len(others), int(others.sum()), [round(auc, 4) for auc in aucs], flush=True)
    names = ("student, all test rows", "student, other hospitals", "plurality, all", "plurality, other hospitals")
    for name, values in zip(names, np.transpose(found), strict=True):
        print(f"| {name} | {values.mean():.4f} ± {values.std(ddof=1):.4f} |")


def digits_part() -> None:
    """The teachers' penalty, and neighbours, gamma and alpha of the student's graph and kernel, on training images."""
    whole = load_dataset("mnist-writers")
    public = np.concatenate([whole.public.queries, whole.public.test]) if whole.public else np.zeros(0, dtype=np.int64)
    training = np.setdiff1d(np.arange(len(whole.y)), public)
    cells: dict[str, dict[str, list[float]]] = {name: {} for name in ("teachers", "graph", "kernel")}
    for split in SPLITS:
        open_writer = [digest(f"writer {split} {each}") < WRITERS for each in range(int(whole.owner.max()) + 1)]
        generator = np.random.default_rng([split, LOT])
        shown = generator.permutation(training[np.array(open_writer)[whole.owner[training]]])
        private = generator.permutation(training[~np.array(open_writer)[whole.owner[training]]])
        pool, judge = shown[:POOL], shown[POOL:]
        seen, truth = represent("scattering", whole.x[shown]), whole.y[shown]
        votes = {alpha: np.zeros((len(shown), 10), dtype=np.int64) for alpha in TEACHERS_ALPHA}
        for part in np.array_split(private[: DIGIT_PARTIES * 240], DIGIT_PARTIES):
            own = represent("scattering", whole.x[part])
            for alpha, sums in votes.items():
                sums[np.arange(len(shown)), RidgeTeacher(alpha).fit(own, whole.y[part]).predict(seen)] += 1
        for alpha, sums in votes.items():
            right = float((sums.argmax(axis=1) == truth).mean())
            cells["teachers"].setdefault(f"alpha {alpha:g}", []).append(right)
        sums, inputs = votes[SHIPPED_ALPHA][: len(pool)], seen[: len(pool)].astype(np.float32)
        places = principal_places(inputs, 256)
        asked = choose("typical", np.arange(len(pool)), 30, inputs, np.zeros(0, dtype=np.int64), None, generator)
        order = np.concatenate([asked, np.setdiff1d(np.arange(len(pool)), asked)])
        for neighbours in NEIGHBOURS:
            right = []
            for draw in range(DIGIT_DRAWS):
                sigma = 67 / 250 * DIGIT_PARTIES
                counts = sums[asked] + SeededNoise(1000 * split + draw).gaussian(sigma, (len(asked), 10))
                told = Shares(counts / DIGIT_PARTIES, np.full(len(asked), sigma / DIGIT_PARTIES))
                shares = smooth_shares(places[order], told, neighbours)
                right.append(float((shares.argmax(axis=1) == truth[: len(pool)][order]).mean()))
            cells["graph"].setdefault(f"neighbours {neighbours}", []).append(float(np.mean(right)))
        few = order[:KERNEL_ROWS]
        labels = np.eye(10, dtype=np.float32)[sums[few].argmax(axis=1)]
        for gamma in GAMMAS:
            for alpha in KERNEL_ALPHAS:
                model = kernel_ridge(inputs[few], labels, gamma, alpha)
                found = model.predict_proba(seen[len(pool) :].astype(np.float32)).argmax(axis=1)
                right = float((found == truth[len(pool) :]).mean())
                cells["kernel"].setdefault(f"gamma {gamma:g}, alpha {alpha:g}", []).append(right)
        print(f"split {split}: {len(pool)} images to ask about, {len(judge)} to judge", flush=True)
    print_table("MNIST: plurality of all teachers", cells["teachers"], f"alpha {SHIPPED_ALPHA:g}")
    print_table("MNIST: pool right by the graph on scattering", cells["graph"], "neighbours 10")
    print_table(
        f"MNIST: kernel around {KERNEL_ROWS} rows and plurality's labels", cells["kernel"], "gamma 2, alpha 0.1"
    )


PARTS: dict[str, Callable[[], None]] = {
    "student": student_part,
    "teachers": teachers_part,
    "queries": queries_part,
    "labels": labels_part,
    "tables": tables_part,
    "headline": headline_part,
    "digits": digits_part,
}


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What was tuned on stroke, chosen anew on development hospitals.")
    parser.add_argument("--part", nargs="*", default=list(PARTS), choices=list(PARTS))
    for part in parser.parse_args(arguments or []).part:
        PARTS[part]()


if __name__ == "__main__":
    main(sys.argv[1:])
