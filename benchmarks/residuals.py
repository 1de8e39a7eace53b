"""Fashion-MNIST at epsilon 1, a whole party as unit: what one release gives its student, and what rounds of residuals.

    python -m benchmarks.residuals [--out FOLDER] [--splits 0 1 2] [--looks 1200] [--draws 5]

On training images alone. A split has 9,000 images as public pool, and 191 parties of 240 others with ridge teachers on
scattering; noise is as large a share of the votes as with 250 parties. Judged is the share of the pool that the graph
of like images has right, before any network learns classes. Everything costs what 200 histograms with sigma 75 cost:
n histograms have sigma 75 sqrt(n / 200).

In rounds a party sends one vector: its votes on all of the pool less the shares of the student so far (the first time
less nothing), their products with the graph's 100 smoothest functions, clipped by the party to a public norm C. The
sum gets Gaussian noise. One party in place of another moves it by 2 C at most, and by sqrt(2) in the first round, which
is of votes as they are; so a share s of the budget has noise 2 C / (mu sqrt(s)), mu^2 = 2 * 200 / 75^2. The student is
fitted anew to all that was released. Norms are per root of the pool's size. Arrays that take long stay in FOLDER.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from benchmarks.cells import command_of
from benchmarks.papers import worst_case
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.mechanisms import NoisyHistogram
from consilium.models.base import Shares
from consilium.models.images import graph_cnn
from consilium.models.images.graph_cnn import GraphCnnTrainer, smoothed
from consilium.models.kernel import nearest_rows, neighbour_graph, principal_places, smoothest
from consilium.models.specs import GraphCnnStudent, Smoothing
from consilium.models.teachers import RidgeTeacher
from consilium.protocol.images import represent
from consilium.simulations.datasets.source import load_dataset
from consilium.student.selection import typical_rows
from docs.figures import Table, figure

POOL, PARTIES, ROWS, SCENARIO_PARTIES = 9000, 191, 240, 250
LEFT_OUT = 5000
"""Images of a split that are neither public nor a party's: earlier choices were judged on them."""

QUERIES, SIGMA, ALPHA, CLASSES = 200, 75.0, 0.0015, 10
MU = (2 * QUERIES) ** 0.5 / SIGMA
FUNCTIONS, DECAY, VARIANCE = graph_cnn.FUNCTIONS, graph_cnn._DECAY, graph_cnn._VARIANCE
LOT = 37

ONE: dict[str, tuple[int, Smoothing]] = {
    "200 typical rows, linear": (QUERIES, "linear"),
    "200 typical rows, softmax": (QUERIES, "softmax"),
    "all 9,000 rows, linear": (POOL, "linear"),
    "all 9,000 rows, softmax": (POOL, "softmax"),
}
ROUNDS: dict[str, tuple[tuple[float, float | None], ...]] = {
    "votes, one round, softmax": ((1.0, None),),
    "two rounds: .4, then .6 with C .2": ((0.4, None), (0.6, 0.2)),
    "three: .3, .3 with C .2, .4 with C .15": ((0.3, None), (0.3, 0.2), (0.4, 0.15)),
    "five: .2 each, C .2, .15, .15, .15": ((0.2, None), (0.2, 0.2), (0.2, 0.15), (0.2, 0.15), (0.2, 0.15)),
}
"""Of each round its share of the budget and C; None: votes as they are."""


@dataclass(frozen=True)
class Split:
    """The pool: `scattered` float32 (POOL, inputs); `votes` int64 (PARTIES, POOL); `truth` int64 (POOL,); `places`
    float32 (POOL, dimensions), what the graph is built on."""

    number: int
    scattered: np.ndarray = field(repr=False)
    votes: np.ndarray = field(repr=False)
    truth: np.ndarray = field(repr=False)
    places: np.ndarray = field(repr=False)

    @cached_property
    def functions(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (FUNCTIONS,) and vectors (POOL, FUNCTIONS) of the graph, the smoothest first."""
        return smoothest(neighbour_graph(*nearest_rows(self.places, 10)), FUNCTIONS)

    @cached_property
    def shares(self) -> np.ndarray:
        """Of the parties, float64 (POOL, CLASSES), without noise."""
        return np.stack([(self.votes == each).mean(axis=0) for each in range(CLASSES)], axis=1)

    def right(self, shares: np.ndarray) -> float:
        """The share of the pool whose largest share is the truth."""
        return float((shares.argmax(axis=1) == self.truth).mean())


def split_of(number: int, looks: int, kept: Path) -> Split:
    """Deal the images, train the teachers, and look at the pool without labels."""
    whole = load_dataset("fashion")
    public = np.concatenate([whole.public.queries, whole.public.test]) if whole.public else np.zeros(0, dtype=np.int64)
    training = np.setdiff1d(np.arange(len(whole.y)), public)
    scattered = _kept(kept / "scattered.npy", lambda: represent("scattering", whole.x[training]))
    truth, order = whole.y[training], np.random.default_rng([LOT, number]).permutation(len(training))
    pool, private = order[:POOL], order[POOL + LEFT_OUT :]
    inputs = np.asarray(scattered[pool])

    def votes() -> np.ndarray:
        teachers = (
            RidgeTeacher(ALPHA).fit(np.asarray(scattered[np.sort(rows)]), truth[np.sort(rows)])
            for rows in np.split(private[: PARTIES * ROWS], PARTIES)
        )
        return np.stack([teacher.predict(inputs) for teacher in teachers])

    def seen() -> np.ndarray:
        spec = GraphCnnStudent(augment="objects", looks=looks)
        trainer = GraphCnnTrainer(spec, whole.x[training][pool], lambda rows: rows)
        (network,) = trainer.first_look(trainer.unlabelled, principal_places(inputs, 256), CLASSES, number)
        return network.features(trainer.unlabelled)

    features = _kept(kept / f"seen-{number}-{looks}.npy", seen)
    places = principal_places(inputs, 256)
    scale = np.sqrt(graph_cnn._total_variance(inputs) / graph_cnn._total_variance(features))
    both = np.concatenate([places, features * np.float32(scale)], axis=1) * np.float32(np.sqrt(0.5))
    return Split(number, inputs, _kept(kept / f"votes-{number}.npy", votes), truth[pool], both)


def _kept(path: Path, make: Callable[[], np.ndarray]) -> np.ndarray:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, make())
    return np.load(path, mmap_mode="r")


def one_release(split: Split, draws: int) -> dict[str, list[float]]:
    """Name of `ONE` -> share right of each draw of the noise."""
    nobody, generator = np.zeros(0, dtype=np.int64), np.random.default_rng([LOT, split.number, QUERIES])
    typical = typical_rows(split.scattered, np.arange(POOL), nobody, QUERIES, generator)
    (values, vectors), found = split.functions, dict[str, list[float]]()
    for name, (queries, smoothing) in ONE.items():
        asked = typical if queries < POOL else np.arange(POOL)
        order = np.concatenate([asked, np.setdiff1d(np.arange(POOL), asked)])
        deviation = SIGMA * np.sqrt(queries / QUERIES) / SCENARIO_PARTIES
        for draw in range(draws):
            noise = np.random.default_rng([LOT, split.number, draw, queries]).normal(size=(queries, CLASSES))
            told = Shares(split.shares[asked] + deviation * noise, np.full(queries, deviation))
            shares = np.empty((POOL, CLASSES))
            shares[order] = smoothed(values, vectors[order], told, smoothing)
            found.setdefault(name, []).append(split.right(shares))
    return found


def in_rounds(split: Split, draws: int) -> dict[str, list[float]]:
    """Name of `ROUNDS` -> share right of each draw of the noise, after the last round."""
    values, vectors = split.functions
    basis = vectors * np.sqrt(POOL)
    rough = (values[0] - values) / (values[0] - values[-1])
    scales = np.sqrt(VARIANCE * np.exp(-DECAY * rough))[:, None]
    sent = np.stack([basis.T @ (np.eye(CLASSES)[votes] - 1 / CLASSES) / POOL for votes in split.votes])
    found: dict[str, list[float]] = {}
    for name, rounds in ROUNDS.items():
        for draw in range(draws):
            generator, student = np.random.default_rng([LOT, split.number, draw]), Student(basis, scales)
            for share, norm in rounds:
                student.learn(*release(sent - student.centre, share, norm, generator))
            found.setdefault(name, []).append(split.right(student.shares))
    return found


def release(
    vectors: np.ndarray, share: float, norm: float | None, generator: np.random.Generator
) -> tuple[np.ndarray, float]:
    """The noisy mean of the parties' `vectors` (parties, functions, classes), and the noise's standard deviation.

    Each party clips its own. Without a `norm` they are votes, and nothing is clipped.
    """
    if norm is not None:
        lengths = np.linalg.norm(vectors, axis=(1, 2), keepdims=True)
        vectors = vectors * np.minimum(1, norm / lengths)
    moved = 2**0.5 if norm is None else 2 * norm
    deviation = moved / (MU * share**0.5 * SCENARIO_PARTIES)
    return vectors.mean(axis=0) + generator.normal(0, deviation, vectors.shape[1:]), deviation


class Student:
    """The softmax of sums of `basis` (POOL, functions), whose weights have the deviations `scales` (functions, 1).

    shares (POOL, CLASSES); centre: their products with the functions, (functions, CLASSES); both nothing at first.
    """

    def __init__(self, basis: np.ndarray, scales: np.ndarray) -> None:
        self._basis, self._scales = basis, scales
        self._sum, self._precision = np.zeros((basis.shape[1], CLASSES)), 0.0
        self._weights = np.zeros((basis.shape[1], CLASSES))
        self.centre = np.zeros((basis.shape[1], CLASSES))
        self.shares = np.full((len(basis), CLASSES), 1 / CLASSES)

    def learn(self, mean: np.ndarray, deviation: float) -> None:
        """Fit anew, to the `mean` of what parties sent too."""
        self._sum += (self.centre + mean) / deviation**2
        self._precision += deviation**-2.0
        seen = self._sum / self._precision

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            weights = flat.reshape(self._weights.shape)
            shares = softmax(self._basis @ (self._scales * weights), axis=1)
            missed = self._products(shares) - seen
            pull = shares * (self._basis @ missed) * (self._precision / POOL)
            slope = self._basis.T @ (pull - shares * pull.sum(axis=1, keepdims=True))
            return float(self._precision * (missed**2).sum() + flat @ flat) / 2, (self._scales * slope).ravel() + flat

        fitted = minimize(loss, self._weights.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100})
        self._weights = fitted.x.reshape(self._weights.shape)
        self.shares = softmax(self._basis @ (self._scales * self._weights), axis=1)
        self.centre = self._products(self.shares)

    def _products(self, shares: np.ndarray) -> np.ndarray:
        return self._basis.T @ (shares - 1 / CLASSES) / POOL


def epsilon() -> float:
    """Of all that is compared here, worst case, by the accountant."""
    event = NoisyHistogram(sigma=SIGMA).event(
        asked=QUERIES, answered=QUERIES, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
    )
    return worst_case(event)


def rows(found: Sequence[dict[str, list[float]]], table: Table) -> None:
    """A row for each setting, a cell for each split: mean and deviation over the draws, in percent."""
    for name in found[0]:
        cells = [f"{100 * np.mean(each[name]):.1f} ± {100 * np.std(each[name], ddof=1):.1f}" for each in found]
        mean = 100 * float(np.mean([np.mean(each[name]) for each in found]))
        table.add(name, *cells, f"{mean:.1f}")


SPLIT = (
    "the share of 9,000 training images that is right, before networks. Settings were looked for on split 0,"
    " the prior of a softmax on the others too"
)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="One release, or rounds of residuals, at one epsilon.")
    parser.add_argument("--out", type=Path, default=Path("residuals"))
    parser.add_argument("--splits", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--looks", type=int, default=1200)
    parser.add_argument("--draws", type=int, default=5)
    chosen = parser.parse_args(arguments or [])
    columns = ("what is released, student", *(f"split {each}, %" for each in chosen.splits), "mean, %")
    note = f"Worst-case epsilon {epsilon():.3f}; {chosen.draws} draws of the noise; {chosen.looks} steps without labels"
    name = "results/residuals" if chosen.looks == 1200 else f"results/residuals-{chosen.looks}"
    command = command_of("benchmarks.residuals", arguments or [])
    with figure(name, command, columns, seeds=chosen.splits, split=SPLIT, note=note, quick=False) as table:
        splits = [split_of(number, chosen.looks, chosen.out) for number in chosen.splits]
        alone = [[split.right(split.shares) for split in splits]]
        alone.append([float((split.votes == split.truth).mean()) for split in splits])
        for title, cells in zip(("plurality without noise", "one teacher"), alone, strict=True):
            table.add(title, *(f"{100 * each:.1f}" for each in cells), f"{100 * np.mean(cells):.1f}")
        rows([one_release(split, chosen.draws) for split in splits], table)
        rows([in_rounds(split, chosen.draws) for split in splits], table)


if __name__ == "__main__":
    main(sys.argv[1:])
