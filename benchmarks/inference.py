"""Comparisons of a study by simulation: how often equal methods are told apart, and what intervals cover.

    RECORD=1 python -m benchmarks.inference [--replicates 700]

A study has 12 methods of the same law and 160 test rows for each seed: all, half or none the same at every seed. A row
is hard for all methods alike or for one of them (correlated: mostly for all), a seed is lucky for a method, and what is
left is noise. Rows come one by one, or eight from an owner who is hard too. Error: share of comparisons at .05,
and of studies whose family (the first method against 11, Holm's correction) holds any. Beside it Student's paired t and
Wilcoxon's signed ranks over the seeds, which take test rows for given. Coverage: of intervals of a method's mean and of
differences, of the true figure, which has a closed form.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, ttest_1samp, wilcoxon

from benchmarks.results import table
from consilium.models.evaluation import one_against_rest
from consilium.simulations.metrics import holm
from consilium.simulations.study.summaries.inference import UnitScores, spread

METHODS, ROWS, OWNER, LUCK, SIGNAL = 12, 160, 8, 0.1, 1.0
"""Luck: its deviation, where the noise of a row has 1 in all."""
SPLIT = "simulated: methods of the same law, 160 test rows for each seed, 12 methods"
COLUMNS = (
    "seeds; rows shared; figure", "error, one test", "error, family of 11", "paired t over seeds", "signed ranks",
    "coverage, means", "coverage, differences",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """shared: of the test rows, which every seed has. auc: else accuracy. owners: rows come eight from an owner.
    correlated: of what is hard for good, four fifths are hard for all methods, else one fifth."""

    seeds: int
    shared: float
    auc: bool
    owners: bool
    correlated: bool

    @property
    def truth(self) -> float:
        """Of every method."""
        return float(norm.cdf(SIGNAL / np.sqrt((2 if self.auc else 1) + LUCK**2)))

    def study(self, generator: np.random.Generator) -> tuple[np.ndarray, list[list[UnitScores]]]:
        """Values float64 (methods, seeds), and of each what its units add."""
        size = OWNER if self.owners else 1
        units, both = ROWS // size, round(self.shared * ROWS / size)
        ids = np.tile(np.arange(units), (self.seeds, 1))
        ids[:, both:] += units * np.arange(1, self.seeds + 1)[:, None]
        every, parts = ids.max() + 1, np.sqrt((0.2, 0.4, 0.1, 0.3) if self.correlated else (0.2, 0.1, 0.4, 0.3))
        rows = (ids[:, :, None] * size + np.arange(size)).reshape(self.seeds, ROWS)
        positive = generator.random(every * size) < 0.5
        hard = parts[0] * np.repeat(generator.normal(size=every), size) + parts[1] * generator.normal(size=every * size)
        own = hard + parts[2] * generator.normal(size=(METHODS, every * size))
        score = own[:, rows] + parts[3] * generator.normal(size=(METHODS, self.seeds, ROWS))
        signal = SIGNAL + LUCK * generator.normal(size=(METHODS, self.seeds, 1))
        score += signal * (positive[rows] - 0.5) if self.auc else signal
        points = (score > 0).astype(float)
        if self.auc:
            points = np.array(
                [[one_against_rest(*one) for one in zip(of, positive[rows], strict=True)] for of in score]
            )
        values, counts = points.mean(axis=2), np.full(units, size)
        off = (points - values[:, :, None]).reshape(METHODS, self.seeds, units, size).sum(axis=3) / ROWS
        return values, [[UnitScores("", "row", at, counts, one) for at, one in zip(ids, of, strict=True)] for of in off]


def measure(setting: Setting, replicates: int, seed: int = 0) -> np.ndarray:
    """In the order of COLUMNS, shares float64 (6,)."""
    generator, found = np.random.default_rng([seed, setting.seeds, round(10 * setting.shared)]), []
    for _ in range(replicates):
        values, scores = setting.study(generator)
        steps = values[1:] - values[0]
        known = [spread(step, of, scores[0]) for step, of in zip(steps, scores[1:], strict=True)]
        p = np.array([one.p(float(step.mean())) for one, step in zip(known, steps, strict=True)], dtype=float)
        low, high = np.array(spread(values[0], scores[0]).interval(float(values[0].mean()), (0, 1)), dtype=float)
        ends = [one.interval(float(step.mean()), (-1, 1)) for one, step in zip(known, steps, strict=True)]
        covered = [None in both or both[0] <= 0 <= both[1] for both in ends]  # type: ignore[operator]
        naive, ranks = ttest_1samp(steps, 0, axis=1)[1], wilcoxon(steps, axis=1, method="asymptotic")[1]
        errors = [np.mean(np.asarray(each) < 0.05) for each in (p, naive, ranks)]
        family, truth = min(holm(p.tolist())) < 0.05, low <= setting.truth <= high
        found.append([errors[0], family, *errors[1:], truth, np.mean(covered)])
    return np.mean(found, axis=0)


def main(arguments: list[str] | None = None) -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=700)
    replicates = parser.parse_args(arguments or []).replicates
    command = f"python -m benchmarks.inference --replicates {replicates}"
    with table("inference", command, COLUMNS, split=f"{SPLIT}; {replicates:,} studies a line") as lines:
        for seeds in (5, 10, 20):
            for name, shared in (("all", 1.0), ("half", 0.5), ("none", 0.0)):
                for auc, owners, correlated in ((False, True, True), (True, False, False)):
                    words = "AUC, by row, uncorrelated" if auc else "accuracy, owners, correlated"
                    shares = measure(Setting(seeds, shared, auc, owners, correlated), replicates)
                    lines.add(f"{seeds}; {name}; {words}", *(f"{share:.3f}" for share in shares))


if __name__ == "__main__":
    main(sys.argv[1:])
