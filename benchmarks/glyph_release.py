"""Glyphs: what one epsilon teaches a student, by what is released; how the scenario `glyphs` was chosen.

    python -m benchmarks.glyph_release [--epsilons 1 2] [--queries 500 1000 2000] [--draws 3]

61 families of fonts that are private with seed 0, and that no teacher here has, are pool and judges; families that are
public with seed 0 take no part. All others' images are dealt to parties of 24, a tenth of their labels wrong. Noise is
that of 5,000 parties, smaller in the proportion of the parties that there are. To be quick, everybody sees the 512
principal components of the pool's scattering (99.8 % of its variance).

It prints for each epsilon and number of queries, means over the draws of the noise: of labels (GNMax) how many are
right, and how many of the rest of the pool once a graph has spread them; of histograms how many judges the student
`kernel_ridge` has right, classes as they are and even. Noise is that of Gaussian differential privacy for histograms,
and `LABEL` times as much for labels, about what the exact worst case of a label allows.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.stats import norm

from benchmarks.cells import command_of
from consilium.models.base import Shares
from consilium.models.kernel import spread_labels
from consilium.models.shares import KernelShares
from consilium.models.specs import EvenStudent, SpreadingStudent
from consilium.models.teachers import RidgeTeacher
from consilium.protocol.images import represent
from consilium.simulations.datasets.source import open_source
from consilium.simulations.scenario import divided_data, load_scenario
from docs.figures import figure

PARTIES, ROWS, FAMILIES, COMPONENTS, POOL, JUDGES = 5000, 24, 61, 512, 13_900, 5000
DELTA = 1e-5
LABEL = 0.8


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0])
    parser.add_argument("--queries", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--gamma", type=float, default=0.7, help="of the kernel")
    wanted, _ = parser.parse_known_args()
    start = time.process_time()
    seen, truth, votes, parties = heard()
    pool, judges = seen[:POOL], seen[POOL:]
    right = (votes.argmax(axis=1) == truth)[POOL:].mean()
    print(f"{parties} parties of {ROWS}; plurality {right:.3f}; {time.process_time() - start:.0f} s")
    columns = ("epsilon", "queries", "labels right", "spread", "histograms", "histograms, even")
    command = command_of("benchmarks.glyph_release", sys.argv[1:])
    split = "chosen and judged on the same rows, of families that are private with seed 0"
    with figure("papers/glyph-chosen", command, columns, split=split, seeds=(0,)) as table:
        for epsilon in wanted.epsilons:
            for queries in wanted.queries:
                found = [
                    taught(pool, judges, truth, votes, parties, epsilon, queries, wanted.gamma, draw)
                    for draw in range(wanted.draws)
                ]
                table.add(f"{epsilon:g}", queries, *(f"{value:.3f}" for value in np.mean(found, axis=0)))
    print(f"{time.process_time() - start:.0f} s of one processor")


def heard() -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Components float32 and classes int64 of pool and judges, all votes on them (rows, classes), number of parties."""
    scenario = load_scenario("glyphs", ["data.public_share=0.2"])
    dataset, partition = divided_data(scenario, 0)
    truth = open_source(scenario.data).y  # of the judges no label is wrong
    private = np.concatenate(list(partition.parties.values()))
    generator = np.random.default_rng(1)
    judging = np.isin(dataset.owner[private], generator.permutation(np.unique(dataset.owner[private]))[:FAMILIES])
    public = generator.permutation(private[judging])[: POOL + JUDGES]
    dealt = generator.permutation(private[~judging])
    some = represent("scattering", dataset.x[public[: POOL // 2]])
    mean = some.mean(axis=0)
    width = some.shape[1]
    _, turn = eigh((some - mean).T @ (some - mean), subset_by_index=[width - COMPONENTS, width - 1])

    def seen(rows: np.ndarray) -> np.ndarray:
        parts = [represent("scattering", dataset.x[part]) for part in np.array_split(rows, max(len(rows) // 4000, 1))]
        return np.concatenate([(part - mean) @ turn for part in parts])

    asked, own = seen(public), seen(dealt)
    votes = np.zeros((len(public), len(dataset.classes)), dtype=np.int32)
    shards = np.array_split(np.arange(len(dealt)), len(dealt) // ROWS)
    for rows in shards:
        teacher = RidgeTeacher(0.0015).fit(own[rows], dataset.y[dealt[rows]])
        votes[np.arange(len(votes)), teacher.predict(asked)] += 1
    return asked, truth[public], votes, len(shards)


def taught(
    pool: np.ndarray,
    judges: np.ndarray,
    truth: np.ndarray,
    votes: np.ndarray,
    parties: int,
    epsilon: float,
    queries: int,
    gamma: float,
    draw: int,
) -> list[float]:
    """The four columns of the table."""
    generator = np.random.default_rng(draw)
    rows = generator.permutation(len(pool))[:queries]
    rest = np.setdiff1d(np.arange(len(pool)), rows)
    sigma = np.sqrt(2 * queries) / gaussian_mu(epsilon) * parties / PARTIES
    noisy = votes[rows] + sigma * generator.normal(size=(queries, votes.shape[1]))
    told = Shares(noisy / parties, np.full(queries, sigma / parties))
    labels = (votes[rows] + LABEL * sigma * generator.normal(size=noisy.shape)).argmax(axis=1)
    told_first = np.concatenate([rows, rest])
    spread, _ = spread_labels(pool[told_first], labels, votes.shape[1], SpreadingStudent(name="graph"))
    answer = truth[len(pool) :]
    found = [(labels == truth[rows]).mean(), (spread[queries:] == truth[rest]).mean()]
    for made_even in (False, True):
        spec = EvenStudent(name="kernel_ridge", gamma=gamma, even=made_even)
        model = KernelShares(spec, pool[rest]).fit_shares(pool[rows], told, draw)
        found.append((model.predict_proba(judges).argmax(axis=1) == answer).mean())
    return [float(value) for value in found]


def gaussian_mu(epsilon: float) -> float:
    """The mu of Gaussian differential privacy (Dong, Roth, Su 2022, corollary 2.13) that is (epsilon, DELTA)."""

    def excess(mu: float) -> float:
        spent = norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        return float(spent) - DELTA

    return float(brentq(excess, 0.01, 10.0))  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    main()
