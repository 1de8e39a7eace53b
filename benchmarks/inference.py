"""How often tests find a difference where there is none, and intervals cover the truth: rules for means over seeds.

    python -m benchmarks.inference [--quick]

Results of a study are means over seeds of a figure on test rows. Each world below draws seeds and test rows anew in
each trial, and asks whether a rule's 95 % interval misses the truth, which of a difference is the error of its test.
Rules:

- seeds: Student's t over seeds, test rows ignored (differences up to 0.9).
- wider: the wider of that and the mean interval over the test rows of one seed (figures of one method up to 0.9).
- sum: variance over seeds plus mean variance over the test rows of one seed, Student's with seeds - 1.
- two-way: clustered by seeds and by units of rows, V_seeds + V_units - V_both (Cameron, Gelbach, Miller 2011),
  Student's with the smaller number less 1.
- bootstrap: seeds and rows drawn together with replacement, percentiles of 400 draws; where all seeds share all rows.
- Nadeau, Bengio 2003: (1 / seeds + test rows / training rows) times the variance over seeds.
- Satterthwaite: A + C of `summaries.inference` as one variance, with his degrees of freedom.
- crossed: `summaries.inference.crossed`, which the program uses.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, t

from consilium.simulations.metrics import one_against_rest
from consilium.simulations.study.summaries.inference import LEVEL, crossed
from docs.figures import figure

TRIALS, QUICK_TRIALS = 4000, 400
BOOTSTRAP_TRIALS, BOOTSTRAP_DRAWS = 1000, 400
SEEDS = (3, 5, 10, 20)
COMMAND = "python -m benchmarks.inference"
SPLIT = "nothing but drawn numbers"


class Trial(NamedTuple):
    """One study. values: float64 (seeds,). scores, weights: float64 (seeds, units), see `crossed`. truth: what the mean
    estimates. ratio: test rows for each training row where both are drawn from one pool, else 0."""

    values: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    truth: float = 0.0
    ratio: float = 0.0


World = Callable[[np.random.Generator, int], Iterator[Trial]]
"""From a generator and a number of seeds to studies."""


def shared(points: np.ndarray, truth: float = 0.0) -> Trial:
    """Of points float (seeds, rows), the same rows for all seeds."""
    values = points.mean(axis=1)
    return Trial(
        values, (points - values[:, None]) / points.shape[1], np.full(points.shape, 1 / points.shape[1]), truth
    )


def discordant(rows: int, stays: float = 0.7, more: float = 0.0) -> World:
    """On a tenth of the rows one of two methods alone is right; which one stays the same at the next seed with
    probability `stays`, else it is drawn anew, as is whether the row is of that tenth. more: true difference."""

    def draw(generator: np.random.Generator, seeds: int) -> Iterator[Trial]:
        ends = np.array([0.05 - more / 2, 0.95 - more / 2])

        def points(*shape: int) -> np.ndarray:
            return np.searchsorted(ends, generator.random(shape, dtype=np.float32)).astype(np.float32) - 1

        while True:
            same = generator.random((seeds, rows), dtype=np.float32) < stays
            yield shared(np.where(same, points(rows), points(seeds, rows)).astype(np.float64), more)

    return draw


def effects(rows: int, of_seed: float = 0.005, of_row: float = 0.3, rest: float = 0.3) -> World:
    """Normal effects of seed, row and both."""

    def draw(generator: np.random.Generator, seeds: int) -> Iterator[Trial]:
        while True:
            both = generator.standard_normal((seeds, rows), dtype=np.float32) * rest
            row, seed = generator.normal(0, of_row, rows), generator.normal(0, of_seed, (seeds, 1))
            yield shared(both + row + seed)

    return draw


def areas(rows: int, learns: float = 0.5, sees: float = 1.0) -> World:
    """Difference of two AUCs on shared rows, row scores by DeLong. A score is class, row, what the seed learnt."""

    def draw(generator: np.random.Generator, seeds: int) -> Iterator[Trial]:
        while True:
            y = np.arange(rows) % 3 == 0
            row = [sees * y + generator.normal(0, 1, rows) for _ in range(2)]
            one, other = (each + generator.normal(0, learns, (seeds, rows)) for each in row)
            found = [np.stack([one_against_rest(each, y) for each in scores]) for scores in (one, other)]
            yield shared(found[0] - found[1])

    return draw


def redrawn(rows: int, share: float = 0.1, of_seed: float = 0.005) -> World:
    """Normal effects; each seed has test rows of its own from a pool of which they are this share."""

    def draw(generator: np.random.Generator, seeds: int) -> Iterator[Trial]:
        count = int(rows / share)
        while True:
            row = generator.normal(0, 0.3, count)
            test = [generator.permutation(count)[:rows] for _ in range(seeds)]
            points = [row[each] + generator.normal(0, 0.3, rows) + generator.normal(0, of_seed) for each in test]
            yield _of_some(test, points, np.arange(count), share / (1 - share))

    return draw


def owners(count: int, share: float = 0.2, by_rows: bool = False) -> World:
    """Of so many owners of very different size a share is held out by each seed; half of their rows are test rows. A
    twentieth of the variance of row effects is the owner's. by_rows: rows are taken for the units all the same."""

    def draw(generator: np.random.Generator, seeds: int) -> Iterator[Trial]:
        while True:
            sizes = np.maximum(2, 12 * generator.lognormal(0, 1, count)).astype(int)
            whose = np.repeat(np.arange(count), sizes)
            row = generator.normal(0, 0.3 * math.sqrt(0.05), count)[whose]
            row = row + generator.normal(0, 0.3 * math.sqrt(0.95), len(whose))
            test, points = [], []
            for _ in range(seeds):
                held = np.zeros(count, dtype=bool)
                held[generator.permutation(count)[: max(1, int(share * count))]] = True
                public = generator.permutation(np.flatnonzero(held[whose]))
                test.append(public[: (len(public) + 1) // 2])
                points.append(row[test[-1]] + generator.normal(0, 0.3, len(test[-1])) + generator.normal(0, 0.005))
            yield _of_some(test, points, np.arange(len(whose)) if by_rows else whose, share / (1 - share))

    return draw


def learners(count: int, share: float = 0.1, features: int = 10) -> World:
    """Two ridge classifiers on halves of the columns that say equally much; each seed divides `count` rows of a
    population anew into training rows (eight tenths) and test rows (this share)."""

    def draw(generator: np.random.Generator, seeds: int) -> Iterator[Trial]:
        test_rows, train_rows = int(share * count), int(0.8 * count)
        while True:
            x = generator.standard_normal((count, 2 * features))
            y = np.sign(0.25 * x.sum(axis=1) + generator.standard_normal(count))
            test, points = [], []
            for _ in range(seeds):
                order = generator.permutation(count)
                test.append(order[:test_rows])
                train = order[test_rows : test_rows + train_rows]
                right = [_ridge(x[:, half], y, train, test[-1]) for half in np.split(np.arange(2 * features), 2)]
                points.append(np.subtract(*right))
            yield _of_some(test, points, np.arange(count), share / 0.8)

    return draw


def accuracy(rows: int, right: float, of_row: float = 0.8, of_seed: float = 0.0) -> World:
    """Accuracy of one method on shared rows; whether a row is right stays at the next seed with probability `of_row`.
    of_seed: deviation of what seeds differ by themselves."""

    def draw(generator: np.random.Generator, seeds: int) -> Iterator[Trial]:
        while True:
            stays = generator.random((seeds, rows)) < of_row
            hard = np.where(stays, generator.random(rows), generator.random((seeds, rows)))
            yield shared((hard < right + generator.normal(0, of_seed, (seeds, 1))).astype(np.float64), right)

    return draw


def area(rows: int, learns: float = 0.5, sees: float = 1.0) -> World:
    """AUC of one method on shared rows, as in `areas`."""
    truth = float(norm.cdf(sees / math.sqrt(2 * (1 + learns**2))))

    def draw(generator: np.random.Generator, seeds: int) -> Iterator[Trial]:
        while True:
            y = np.arange(rows) % 3 == 0
            scores = sees * y + generator.normal(0, 1, rows) + generator.normal(0, learns, (seeds, rows))
            yield shared(np.stack([one_against_rest(each, y) for each in scores]), truth)

    return draw


def redrawn_accuracy(rows: int, right: float, share: float = 0.1) -> World:
    """Accuracy of one method, test rows of each seed from one pool; see `accuracy` and `redrawn`."""

    def draw(generator: np.random.Generator, seeds: int) -> Iterator[Trial]:
        count = int(rows / share)
        while True:
            row = generator.random(count) < right
            test = [generator.permutation(count)[:rows] for _ in range(seeds)]
            points = [np.where(generator.random(rows) < 0.8, row[at], generator.random(rows) < right) for at in test]
            yield _of_some(test, points, np.arange(count), share / (1 - share))._replace(truth=right)

    return draw


def _ridge(x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Whether each test row is right, float64."""
    own = x[train]
    weights = np.linalg.solve(own.T @ own + np.eye(x.shape[1]), own.T @ y[train])
    return (np.sign(x[test] @ weights) == y[test]).astype(np.float64)


def _of_some(test: Sequence[np.ndarray], points: Sequence[np.ndarray], unit: np.ndarray, ratio: float) -> Trial:
    """test: rows of each seed; points: of these; unit: int64 (rows,) of all rows."""
    scores, weights = np.zeros((2, len(test), int(unit.max()) + 1))
    for seed, (at, each) in enumerate(zip(test, points, strict=True)):
        width = scores.shape[1]
        scores[seed] = np.bincount(unit[at], weights=(each - each.mean()) / len(at), minlength=width)
        weights[seed] = np.bincount(unit[at], minlength=width) / len(at)
    used = weights.any(axis=0)
    values = np.array([each.mean() for each in points])
    return Trial(values, scores[:, used], weights[:, used], 0.0, ratio)


def _quantile(df: float) -> float:
    return float(t.ppf((1 + LEVEL) / 2, df))


_quantiles = cache(_quantile)


def _seeds(trial: Trial) -> float:
    return _quantiles(len(trial.values) - 1) * math.sqrt(trial.values.var(ddof=1) / len(trial.values))


def _rows_variance(trial: Trial) -> float:
    units = trial.scores.shape[1]
    return float((trial.scores**2).sum()) / len(trial.values) * units / (units - 1)


def _wider(trial: Trial) -> float:
    return max(_seeds(trial), 1.96 * math.sqrt(_rows_variance(trial)))


def _sum(trial: Trial) -> float:
    count = len(trial.values)
    return _quantiles(count - 1) * math.sqrt(trial.values.var(ddof=1) / count + _rows_variance(trial))


def _two_way(trial: Trial) -> float:
    seeds, units = trial.scores.shape
    moved = trial.scores + (trial.values - trial.values.mean())[:, None] * trial.weights
    by_units = float((moved.sum(axis=0) ** 2).sum()) * units / (units - 1)
    variance = trial.values.var(ddof=1) / seeds + (by_units - float((moved**2).sum())) / seeds**2
    return _quantiles(min(seeds, units) - 1) * math.sqrt(max(variance, 0.0))


def _bootstrap(trial: Trial) -> float:
    """Half of the distance of percentiles; needs the same rows at all seeds."""
    seeds, units = trial.scores.shape
    of_seeds, of_rows = _lots(seeds, units)
    moved = trial.scores * units + trial.values[:, None]
    means = ((of_seeds @ moved) * of_rows).sum(axis=1) / seeds / units
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(high - low) / 2


@cache
def _lots(seeds: int, units: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each draw has each seed and each row."""
    generator = np.random.default_rng([0x696E66, seeds, units])
    return tuple(
        generator.multinomial(count, np.full(count, 1 / count), size=BOOTSTRAP_DRAWS).astype(np.float64)
        for count in (seeds, units)
    )  # type: ignore[return-value]


def _nadeau_bengio(trial: Trial) -> float:
    return _seeds(trial) * math.sqrt(1 + len(trial.values) * trial.ratio)


def _satterthwaite(trial: Trial) -> float:
    found = crossed(trial.values, trial.scores, trial.weights)
    squares = found.seeds**2 / found.seeds_df + found.rows**2 / found.rows_df
    total = found.seeds + found.rows
    return _quantile(total**2 / squares) * math.sqrt(total) if squares else 0.0


def _crossed(trial: Trial) -> float:
    return crossed(trial.values, trial.scores, trial.weights).half()


RULES: dict[str, Callable[[Trial], float]] = {
    "seeds (0.9)": _seeds,
    "sum": _sum,
    "two-way": _two_way,
    "bootstrap": _bootstrap,
    "Nadeau-Bengio": _nadeau_bengio,
    "Satterthwaite": _satterthwaite,
    "crossed": _crossed,
}
DIFFERENCES: dict[str, World] = {
    "discordant rows, 1,000 shared": discordant(1000),
    "discordant rows, 2,000 shared": discordant(2000),
    "the same 1,000, true difference .02": discordant(1000, more=0.02),
    "seed and row effects, 200 shared": effects(200),
    "AUC, 200 rows shared": areas(200),
    "redrawn, 200 of 2,000 rows": redrawn(200),
    "redrawn, 1,000 of 2,000 rows": redrawn(1000, 0.5),
    "redrawn, a fifth of 400 owners": owners(400),
    "redrawn, a fifth of 50 owners": owners(50),
    "redrawn, a fifth of 15 owners": owners(15),
    "classifiers, 1,000 rows redivided": learners(1000),
    "classifiers, 300 rows redivided": learners(300),
}
"""Two methods that are equally good, but for one world."""
FIGURES: dict[str, World] = {
    "accuracy .85, 1,000 shared": accuracy(1000, 0.85),
    "accuracy .85, 1,000 shared, seeds differ by .03": accuracy(1000, 0.85, 1.0, 0.03),
    "accuracy .85, 200 shared": accuracy(200, 0.85),
    "accuracy .99, 1,000 shared": accuracy(1000, 0.99),
    "accuracy .85, 200 of 2,000 redrawn": redrawn_accuracy(200, 0.85),
    "AUC .74, 200 shared": area(200),
    "AUC .97, 200 shared": area(200, sees=3.0),
}
"""One method."""


def share_outside(found: int, trials: int) -> str:
    """Percent, with the half of its 95 % interval by chance of the simulation.

    >>> share_outside(200, 4000)
    '5.0 ± .7'
    """
    share = found / trials
    half = 1.96 * math.sqrt(max(share, 1 / trials) * (1 - share) / trials)
    return f"{100 * share:.1f} ± {100 * half:.1f}".replace("± 0.", "± .")


def outside(world: World, seeds: int, trials: int, rules: Sequence[str]) -> dict[str, int]:
    """In how many trials the truth is outside of each rule's interval."""
    found = dict.fromkeys(rules, 0)
    for trial in islice(world(np.random.default_rng([7, seeds]), seeds), trials):
        off = abs(float(trial.values.mean()) - trial.truth)
        for rule in rules:
            found[rule] += off > RULES[rule](trial)
    return found


def outside_of_shares(world: World, seeds: int, trials: int) -> tuple[int, int]:
    """The same of the rule `wider` and of the program's own interval of a share."""
    wider = crossed_misses = 0
    for trial in islice(world(np.random.default_rng([8, seeds]), seeds), trials):
        mean = float(trial.values.mean())
        low, high = crossed(trial.values, trial.scores, trial.weights).share_interval(mean)
        wider += abs(mean - trial.truth) > _wider(trial)
        crossed_misses += low is None or high is None or not low <= trial.truth <= high
    return wider, crossed_misses


def _errors(trials: int, worlds: dict[str, World], seeds: Sequence[int]) -> None:
    """Errors of the tests; one less of each is the coverage."""
    rules = [rule for rule in RULES if rule != "bootstrap"]
    columns = ["world", "seeds", *rules[:3], "bootstrap", *rules[3:]]
    note = (
        f"Percent of {trials:,} trials in which the interval misses the truth, ± half of the 95 % interval of the"
        f" simulation; the bootstrap in {min(trials, BOOTSTRAP_TRIALS):,}. Seed of the simulation: 7"
    )
    with figure("study/errors-of-rules", COMMAND, columns, split=SPLIT, note=note, quick=False) as table:
        for name, world in worlds.items():
            for count in seeds:
                found = {
                    rule: share_outside(each, trials) for rule, each in outside(world, count, trials, rules).items()
                }
                is_shared = "shared" in name or "same" in name
                if is_shared:
                    few = min(trials, BOOTSTRAP_TRIALS)
                    found["bootstrap"] = share_outside(outside(world, count, few, ["bootstrap"])["bootstrap"], few)
                if next(world(np.random.default_rng(0), 2)).ratio == 0:
                    del found["Nadeau-Bengio"]
                table.add(name, str(count), *(found.get(column) for column in columns[2:]))


def _figures(trials: int, seeds: Sequence[int]) -> None:
    """Coverage of intervals of one method's figure."""
    note = f"Percent of {trials:,} trials in which the interval misses the truth. Seed of the simulation: 8"
    columns = ["world", "seeds", "wider (0.9)", "crossed"]
    with figure("study/errors-of-figures", COMMAND, columns, split=SPLIT, note=note, quick=False) as table:
        for name, world in FIGURES.items():
            for count in seeds:
                table.add(
                    name, str(count), *(share_outside(each, trials) for each in outside_of_shares(world, count, trials))
                )


def main(arguments: Sequence[str] = ()) -> None:
    """Print both tables; `--quick`: a tenth of the trials of two worlds at 5 seeds, in seconds."""
    if "--quick" in arguments:
        some = {name: DIFFERENCES[name] for name in (next(iter(DIFFERENCES)), "redrawn, a fifth of 50 owners")}
        _errors(QUICK_TRIALS, some, (5,))
        return
    _errors(TRIALS, DIFFERENCES, SEEDS)
    _figures(TRIALS, SEEDS)


if __name__ == "__main__":
    main(sys.argv[1:])
