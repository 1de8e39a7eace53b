"""Seconds to draw the outcomes of a whole batch, for every mechanism, with seeded and with the system's noise.

`python -m benchmarks mechanisms`. Votes are made up, of the shape of the golden sets: 250 teachers and 10 classes,
5,000 teachers and 150 classes. Seconds of wall time, one batch each; the system's noise uses all cores of this process,
so its processor time is printed beside it.
"""

from __future__ import annotations

import time

import numpy as np

from consilium.coordinator.mechanisms import (
    Confident,
    Distributed,
    DistributedTwoPhase,
    GNMax,
    Immutable,
    Interactive,
    LNMax,
    Mechanism,
)
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise

SETS = {"10,000 x 10": (10_000, 10, 250), "12,000 x 150": (12_000, 150, 5000)}


class Counting:
    """A noise source that counts its numbers."""

    simulated = True

    def __init__(self, source: NoiseSource) -> None:
        self._source, self.numbers = source, 0

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        self.numbers += int(np.prod(shape))
        return self._source.gaussian(sigma, shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        self.numbers += int(np.prod(shape))
        return self._source.laplace(gamma, shape)


def make_votes(queries: int, classes: int, teachers: int) -> tuple[np.ndarray, np.ndarray]:
    """Histograms with a leading class, int64 (queries, classes), and a student's guess at their shares, float64."""
    rng = np.random.default_rng(0)
    lead = rng.beta(6, 1.5, queries)
    rest = rng.dirichlet(np.full(classes - 1, 0.3), queries) * (1 - lead)[:, None]
    shares = np.concatenate((lead[:, None], rest), axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    votes = rng.permuted(rng.multinomial(teachers, shares), axis=1).astype(np.int64)
    guess = votes / teachers * 0.8 + 0.2 / classes
    return votes, guess / guess.sum(axis=1, keepdims=True)


def mechanisms(teachers: int) -> list[Mechanism]:
    """All of them at scales that fit so many teachers."""
    sigma, coarse, threshold = (40.0, 150.0, 150) if teachers < 1000 else (100.0, 500.0, 1000)
    return [
        LNMax(gamma=0.05),
        GNMax(sigma=sigma),
        Confident(threshold=threshold, sigma1=coarse, sigma2=sigma),
        Interactive(threshold=threshold // 4, sigma1=coarse, sigma2=sigma, confidence=0.8),
        Immutable(gamma=0.05, constant=2000, unsafe_not_private=True),
        Distributed(threshold=threshold, sigma=sigma, noise_shares=200),
        DistributedTwoPhase(threshold=threshold, sigma1=coarse, sigma2=sigma, noise_shares=200),
    ]


def measure(mechanism: Mechanism, votes: np.ndarray, p: np.ndarray, source: NoiseSource) -> tuple[float, float, int]:
    """(wall seconds, processor seconds, numbers drawn) of one batch."""
    noise = Counting(source)
    wall, cpu = time.perf_counter(), time.process_time()
    mechanism.draw(votes, noise, p)
    return time.perf_counter() - wall, time.process_time() - cpu, noise.numbers


def main() -> None:
    """Print the table."""
    start = time.perf_counter()
    SystemNoise().gaussian(1.0, (1,))
    print(f"loading the system's samplers once: {time.perf_counter() - start:.2f} s")
    print(f"{'':22}{'votes':>14}{'numbers':>11}{'seeded s':>10}{'system s':>10}{'system cpu s':>14}")
    for name, size in SETS.items():
        votes, p = make_votes(*size)
        for mechanism in mechanisms(size[2]):
            mechanism.draw(votes[:1], SeededNoise(0), p[:1])
            seeded, _, _ = measure(mechanism, votes, p, SeededNoise(0))
            wall, cpu, numbers = measure(mechanism, votes, p, SystemNoise())
            print(f"{mechanism.name:22}{name:>14}{numbers:11,}{seeded:10.3f}{wall:10.2f}{cpu:14.2f}")
    votes, p = make_votes(*SETS["10,000 x 10"])
    narrow = Distributed(threshold=150, sigma=20.0, noise_shares=250)
    seeded, _, numbers = measure(narrow, votes, p, SeededNoise(0))
    print(f"{'distributed, narrow':22}{'10,000 x 10':>14}{numbers:11,}{seeded:10.3f}{'':>10}{'':>14}")


if __name__ == "__main__":
    main()
