"""Glyphs: students and plurality of 5,000 parties of 24 images, by family and by lot, at epsilon 1 and 2.

    python -m benchmarks.glyph_students [--epsilons 1 2] [--seeds 1] [--divisions "5,000 of 24" ...]

The scenario `glyphs` with its own rows, labels, parties, label service, ledger and students, but two things: nothing
travels, and teachers see the 512 principal components of the pool's scattering (99.8 % of its variance), so that 5,000
of them vote in a minute. Judges are the public test rows; nothing was chosen on them.

It prints for each division what one teacher, the plurality and a model of all rows have right, what labels by hand
teach; and for each epsilon and way what was promised (worst case), asked, answered and confirmed, how many labels are
right, and the student's accuracy with its 95 % interval over the test rows. Processor seconds, peak of memory. Over
all seeds of a division it makes a table of docs/laboratory/papers.md (docs/figures.py).
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh

from benchmarks.cells import command_of, spread
from consilium.models.teachers import RidgeTeacher
from consilium.protocol.images import represent
from consilium.protocol.label_source import Outcome
from consilium.simulations.divide import Case, make_case
from consilium.simulations.metrics import mean_interval
from consilium.simulations.release import replay
from consilium.simulations.scenario import load_scenario
from consilium.simulations.vote import TeacherVotes
from consilium.student.learn import inputs, train
from docs.figures import figure

COMPONENTS = 512
BLOCK = 4000

_SHARED = "set='glyphs', representation='scattering', public_share=0.1, shift={wrong=0.1}"
DIVISIONS = {
    "5,000 of 24": f"data={{{_SHARED}, partition='iid', parties=5000, most_rows=24}}",
    "5,000 of 13, unbalanced": f"data={{{_SHARED}, partition='iid', parties=5000, least_rows=10, unbalanced=5}}",
    "by family": f"data={{{_SHARED}, partition='owners'}}",
    "as many by lot": f"data={{{_SHARED}, partition='shuffled'}}",
}

_GRAPH = "trainer={name='graph', gamma=2.0}"
_CONFIDENT = "federation.mechanism={name='confident', threshold=600}"
_INTERACTIVE = (
    "{mechanism={name='interactive', threshold=300, confidence=0.9}, query_budget={queries=750, answers=250}}"
)
WAYS = {
    "histograms, even": [],
    "histograms": ["student={queries=1000, trainer={name='kernel_ridge', gamma=0.7}}"],
    "GNMax": [
        "federation.mechanism={name='gnmax'}",
        "federation.query_budget={queries=500, answers=500}",
        f"student={{queries=500, {_GRAPH}}}",
    ],
    "Confident": [
        _CONFIDENT,
        "federation.query_budget={queries=1500, answers=500}",
        f"student={{queries=1500, {_GRAPH}}}",
    ],
    "Confident, then Interactive": [
        _CONFIDENT,
        "federation.query_budget={queries=750, answers=250}",
        f"federation.schedule=[{_INTERACTIVE}]",
        f"student={{queries=750, {_GRAPH}, later=[{{queries=750, rounds=2, selection='margin', {_GRAPH}}}]}}",
    ],
}
"""Thresholds: of Confident a little above the votes for the plurality (530 in the mean), of Interactive half of it."""
FEW_WAYS = ("histograms, even", "histograms", "GNMax")
BY_HAND = (150, 500, 1000, 2000, 6000)


@dataclass(frozen=True)
class Summed(TeacherVotes):
    """Votes of which only the sums are known: `sums` int64 (rows, classes)."""

    sums: np.ndarray = field(repr=False, default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

    def totals(
        self,
        rows: np.ndarray,
        parties: Sequence[str],
        federation: str,
        query_ids: Sequence[str],
        classes: int,
        weights: Sequence[int] | None = None,
    ) -> np.ndarray:
        """See `TeacherVotes.totals`."""
        return self.sums[rows]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0])
    parser.add_argument("--seeds", type=int, default=1, help="from 0")
    parser.add_argument("--divisions", nargs="+", choices=list(DIVISIONS), default=list(DIVISIONS))
    wanted, _ = parser.parse_known_args()
    command = command_of("benchmarks.glyph_students", sys.argv[1:])
    for division in wanted.divisions:
        together([taught(division, seed, wanted.epsilons) for seed in range(wanted.seeds)], division, command)


@dataclass(frozen=True)
class Taught:
    """One student. way: what it learnt from. right: share of its labels. hits: bool (test rows,), where it is right."""

    way: str
    epsilon: str
    asked: int
    answered: int
    right: float
    hits: np.ndarray = field(repr=False)


def together(seeds: Sequence[Sequence[Taught]], division: str, command: str) -> None:
    """A row for each way and epsilon: mean and standard deviation over the seeds, interval over all their test rows."""
    columns = ("released", "epsilon, worst case", "asked", "answered", "labels right, %", "student, %", "interval")
    split = "judged on the public test rows, on which nothing was chosen; each seed has public families of its own"
    name = "papers/glyph-students"
    if division != next(iter(DIVISIONS)):
        name += "-" + re.sub("[^a-z0-9]+", "-", division)
    with figure(name, command, columns, split=split, seeds=range(len(seeds))) as table:
        table.seconds = time.process_time()
        for way, epsilon in dict.fromkeys((each.way, each.epsilon) for of_seed in seeds for each in of_seed):
            same = [each for of_seed in seeds for each in of_seed if (each.way, each.epsilon) == (way, epsilon)]
            low, high = mean_interval(np.concatenate([each.hits for each in same]).astype(np.float64))
            counts = (spread([getattr(each, count) for each in same], 0) for count in ("asked", "answered"))
            right, student = ([100 * float(share) for share in shares] for shares in (
                [each.right for each in same], [each.hits.mean() for each in same]))  # fmt: skip
            interval = f"{100 * low:.1f} to {100 * high:.1f}"
            table.add(way, epsilon, *counts, spread(right, 1), spread(student, 1), interval)


def taught(division: str, seed: int, epsilons: Sequence[float]) -> list[Taught]:
    """Students of one division with one seed, and print them."""
    start = time.process_time()
    shared = [DIVISIONS[division], "federation.minimum_parties=150"]
    case = make_case(load_scenario("glyphs", shared), seed, 0.0)
    sizes = [len(rows) for rows in case.partition.parties.values()]
    print(
        f"\n{division}, seed {seed}: {len(sizes)} parties of {min(sizes)} to {max(sizes)}, median {np.median(sizes):g}"
    )
    pool, judged = len(case.pool_y), case.test_y
    votes, alone, pooled = heard(case)
    top = np.sort(votes[:pool], axis=1)[:, -2:]
    print(f"{pool} pool, {len(judged)} test rows; votes for the plurality {np.median(top[:, 1]):g} (median)")
    print(f"one teacher {alone:.3f}, plurality {told(votes[pool:], judged)}, all rows {told(pooled, judged)}")
    print(f"votes: {time.process_time() - start:.0f} s, {peak()} MB", flush=True)
    said = Summed(np.zeros((0, 1, 0), dtype=np.uint8), sums=votes[:pool])
    ways = WAYS if division == next(iter(DIVISIONS)) else {way: WAYS[way] for way in FEW_WAYS}
    print("| epsilon | way | promised | asked | answered | confirmed | labels right | student |\n" + "|---" * 8 + "|")
    students = []
    for epsilon in epsilons:
        for way, keys in ways.items():
            own = case.of(load_scenario("glyphs", [*shared, f"federation.privacy.epsilon={epsilon}", *keys]))
            found = replay(own, said)
            answered = found.outcomes == Outcome.ANSWERED
            right = (found.labels == case.pool_y[found.rows])[answered].mean() if answered.any() else 0.0
            scores = found.student.predict_proba(case.test_x)
            cells = [
                f"{found.to_student.epsilon:.3f}",
                str(int((found.outcomes != Outcome.NOT_ASKED).sum())),
                str(int(answered.sum())),
                str(int((found.outcomes == Outcome.REINFORCED).sum())),
                f"{right:.3f}",
                told(scores, judged),
            ]
            hits = scores.argmax(axis=1) == judged
            students.append(Taught(way, f"{epsilon:.2f}", int(cells[1]), int(cells[2]), float(right), hits))
            print(f"| {epsilon:g} | {way} | {' | '.join(cells)} |", flush=True)
    students += by_hand(case, votes[:pool])
    print(f"together {time.process_time() - start:.0f} s of one processor, {peak()} MB", flush=True)
    return students


def heard(case: Case) -> tuple[np.ndarray, float, np.ndarray]:
    """All votes int64 (pool and test, classes), how often one teacher is right, and a ridge of all rows' scores."""
    schema, teacher = case.config.rows, case.config.teacher
    pool = represent("scattering", case.pool_x)
    mean, width = pool.mean(axis=0), pool.shape[1]
    _, turn = eigh((pool - mean).T @ (pool - mean), subset_by_index=[width - COMPONENTS, width - 1])

    def seen(rows: np.ndarray) -> np.ndarray:
        parts = np.array_split(rows, max(len(rows) // BLOCK, 1))
        return np.concatenate([(represent(schema.representation, part) - mean) @ turn for part in parts])

    asked = np.concatenate([(pool - mean) @ turn, seen(case.test_x)])
    owned = [case.partition.parties[party] for party in case.parties]
    places = np.concatenate(owned)
    own, y = seen(case.dataset.x[places]), case.dataset.y[places]
    votes, right, tested = np.zeros((len(asked), len(case.classes)), dtype=np.int64), [], len(case.pool_y)
    at = np.arange(len(asked))
    for rows in np.split(np.arange(len(places)), np.cumsum([len(each) for each in owned])[:-1]):
        says = RidgeTeacher(teacher.alpha).fit(own[rows], y[rows]).predict(asked)  # pyright: ignore
        votes[at, says] += 1
        right.append((says[tested:] == case.test_y).mean())
    every = RidgeTeacher(teacher.alpha).fit(own, y)  # pyright: ignore
    scores = np.zeros((len(case.test_y), len(case.classes)))
    scores[:, every.classes_] = every.scores(asked[tested:])
    return votes, float(np.mean(right)), scores


def by_hand(case: Case, votes: np.ndarray) -> list[Taught]:
    """What true labels teach the student `graph`, and what the plurality's labels of the pool do; printed, too."""
    spec = load_scenario("glyphs", [f"student={{{_GRAPH}}}"]).student
    rows, judging = inputs(spec, case.config.rows, case.pool_x), inputs(spec, case.config.rows, case.test_x)
    lot = np.random.default_rng(case.seed).permutation(len(rows))
    found = []
    for count, labels, name in (
        *((count, case.pool_y, f"labels by hand: {count:,}") for count in BY_HAND if count <= len(rows)),
        (len(rows), votes.argmax(axis=1), "the plurality's, on the whole pool"),
    ):
        known, rest = lot[:count], lot[count:]
        model = train(rows[known], labels[known], rows[rest], len(case.classes), spec, case.seed)
        hits = model.predict_proba(judging).argmax(axis=1) == case.test_y
        right = float((labels[known] == case.pool_y[known]).mean())
        found.append(Taught(name, "none", count, count, right, hits))
        print(f"{name} {hits.mean():.3f}")
    return found


def told(scores: np.ndarray, y: np.ndarray) -> str:
    """Accuracy with its interval over the rows."""
    right = (scores.argmax(axis=1) == y).astype(np.float64)
    low, high = mean_interval(right)
    return f"{right.mean():.3f} ({low:.3f} to {high:.3f})"


def peak() -> int:
    """Of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
