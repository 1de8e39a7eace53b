"""What one lying hospital does to the student, by how votes are collected.

    python -m benchmarks.liar

Hospitals of the stroke trial with 20 patients or more vote on 300 public rows; noisy counts are released, and the
student is that of `stroke`. Teachers are trained once for each seed: n of them are drawn, and one of the n lies. Noise
on a count is .54 n, so that numbers of hospitals differ by the liar's weight alone; the epsilon of that is printed.

The liar knows the truth, more than any party does, and wants the opposite. With plaintext and with verified votes it
has one vote, and casts it against the truth. Under masks it moves three standard deviations of the noise from the true
class to the other, so that the row's total is right ("unseen"); or far more ("loud"), which is brought back to nine.
Warned: share of rows that `sums.masks.unmasking.clip` tells the operator of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.cells import spread
from benchmarks.papers import Place
from consilium.accounting.target import worst_case
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.mechanisms import NoisyHistogram
from consilium.data.private_rows import Rows
from consilium.models.base import Shares
from consilium.party.teach import train as train_teacher
from consilium.party.teach import vote
from consilium.protocol.noise import SeededNoise
from consilium.student.learn import inputs
from consilium.student.learn import train as train_student
from consilium.sums.masks.ring import choose_ring
from consilium.sums.masks.unmasking import clip
from docs.figures import figure

SEEDS, PARTIES, ASKED = range(3), (10, 50, 207), 300
NOISE = 112.1 / 207
"""Standard deviation on a count, as a share of the parties: that of `stroke` at 207."""
DELTA = 1e-5
LIES = {"nobody lies": 0.0, "a liar with one vote": 0.0, "an unseen one under masks": 3.0, "a loud one": 200.0}
"""What the one liar does; under masks, by how many standard deviations of the noise it moves a cell."""
COLUMNS = (
    "hospitals", "noise on a count", "epsilon", *LIES, "labels turned by one vote, %", "by the unseen one, %",
    "rows warned of, unseen, %", "loud, %",
)  # fmt: skip


def votes_of(place: Place, rows: np.ndarray) -> np.ndarray:
    """Of every hospital, int64 (hospitals, rows, classes)."""
    asked, classes = place.schema.inputs(place.pool[rows]), len(place.schema.classes)
    found = []
    for own in place.partition.parties.values():
        patients = Rows(place.schema.inputs(place.dataset.x[own]), place.dataset.y[own])
        teacher = train_teacher(patients, place.scenario.federation.teacher, np.arange(len(own)), place.seed, classes)
        found.append(vote([teacher], asked, classes))
    return np.array(found)


def summed(honest: np.ndarray, lie: np.ndarray, sigma: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy counts as the student gets them, int64 (rows, classes), and of which rows the operator is warned, bool.

    honest, lie : int64 (rows, classes), of all others and of the liar.
    """
    votes = int(honest[0].sum()) + 1
    noisy = honest + lie + SeededNoise(seed).gaussian(sigma, honest.shape)
    return clip(noisy, choose_ring(votes, sigma), votes, sigma)


def auc(place: Place, rows: np.ndarray, counts: np.ndarray, sigma: float, n: int) -> float:
    """Of the student that learns from noisy counts, on patients of hospitals that took no part."""
    spec = place.scenario.student
    given = inputs(spec, place.schema, place.pool)
    rest = np.setdiff1d(np.arange(len(given)), rows)
    told = Shares(counts / n, np.full(len(rows), sigma / n))
    model = train_student(
        given[rows], counts.argmax(axis=1), given[rest], counts.shape[1], spec, place.seed,
        schema=place.schema, shares=told,
    )  # fmt: skip
    found = model.predict_proba(inputs(spec, place.schema, place.test))
    return float(roc_auc_score(place.truth, found[:, 1]))


def measured(place: Place, rows: np.ndarray, votes: np.ndarray, n: int) -> dict[str, float]:
    """Of one seed and one number of hospitals."""
    sigma, seed = NOISE * n, 1000 * place.seed + n
    drawn = np.random.default_rng(seed).permutation(len(votes))[:n]
    against = np.eye(votes.shape[2], dtype=np.int64)[1 - place.pool_truth[rows]]  # one vote against the truth
    honest, found = votes[drawn[1:]].sum(axis=0), {}
    plain, _ = summed(honest, votes[drawn[0]], sigma, seed)
    for name, deviations in LIES.items():
        lie = votes[drawn[0]] if name == "nobody lies" else against + int(deviations * sigma) * (2 * against - 1)
        counts, warned = summed(honest, lie, sigma, seed)
        found[name] = auc(place, rows, counts, sigma, n)
        found[f"{name}: turned"] = 100 * float((counts.argmax(axis=1) != plain.argmax(axis=1)).mean())
        found[f"{name}: warned"] = 100 * float(warned.mean())
    return found


def epsilon(n: int) -> float:
    """Of all rows at DELTA, a hospital as the unit."""
    event = NoisyHistogram(sigma=NOISE * n).event(
        asked=ASKED, answered=ASKED, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
    )
    return worst_case([event], DELTA).epsilon


def rows_of_table(seeds: Sequence[int], parties: Sequence[int]) -> Iterator[list[str]]:
    """A row for each number of hospitals, under COLUMNS."""
    found: dict[int, list[dict[str, float]]] = {n: [] for n in parties}
    for seed in seeds:
        place = Place("stroke", seed, ("data.least_rows=20",))
        rows = np.random.default_rng(seed).permutation(len(place.pool))[:ASKED]
        votes = votes_of(place, rows)
        for n in parties:
            found[n].append(measured(place, rows, votes, min(n, len(votes))))
    for n, of in found.items():
        column = {key: [item[key] for item in of] for key in of[0]}
        yield [
            str(n),
            f"{NOISE * n:.1f}",
            f"{epsilon(n):.2f}",
            *(spread(column[name]) for name in LIES),
            *(spread(column[f"{name}: turned"], 0) for name in list(LIES)[1:3]),
            *(spread(column[f"{name}: warned"], 0) for name in list(LIES)[2:]),
        ]


def main(seeds: Sequence[int] = SEEDS, parties: Sequence[int] = PARTIES) -> None:
    """Print the table."""
    split = "AUC on patients of hospitals that took no part; nothing was chosen here"
    with figure("results/one-liar", "python -m benchmarks.liar", COLUMNS, seeds=seeds, split=split) as table:
        for row in rows_of_table(seeds, parties):
            table.add(*row)


if __name__ == "__main__":
    main()
