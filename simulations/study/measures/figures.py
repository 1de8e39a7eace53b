"""Rows of figures with their intervals. And what the teachers of a division say: how good, how alike, what one party
changes; and who gains at home.

A gain is positive where a method is better on the rows that a party held out than what the party has by itself. The
parties with the largest gains and losses may be those with the fewest rows. So the worst decile stands beside its
floor: the same after all rows' differences were dealt to parties of the same sizes by lot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import jensenshannon
from scipy.stats import spearmanr

from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.methods.base import Predicted
from consilium.simulations.metrics import shares, wilson
from consilium.simulations.vote import Ensemble, TeacherVotes

REPLICATES = 1000
QUANTILES = (10, 50, 90)  # percentiles that say how a figure is spread over parties or rows


def ends(drawn: np.ndarray) -> tuple[float, float]:
    """Of the 95 % interval that replicates float64 (n,) give."""
    low, high = np.quantile(drawn, [(1 - 0.95) / 2, (1 + 0.95) / 2])
    return float(low), float(high)


def ratio(
    points: np.ndarray, of: np.ndarray, generator: np.random.Generator
) -> tuple[float, float | None, float | None]:
    """sum points / sum of, each float64 (parties,), `of` positive, with both ends of its interval over parties.

    >>> ratio(np.array([1.0, 1.0]), np.array([2.0, 2.0]), np.random.default_rng(0))
    (0.5, 0.5, 0.5)
    """
    value, parties = float(points.sum() / of.sum()), len(points)
    if parties < 2:
        return value, None, None
    times = generator.multinomial(parties, np.full(parties, 1 / parties), size=REPLICATES)
    return value, *ends((times @ points) / (times @ of))


def hellinger(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """sqrt(1/2 sum (sqrt p - sqrt q)^2), of distributions float64 (..., classes).

    >>> float(hellinger(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    1.0
    """
    return np.sqrt(((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=-1) / 2)


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Jensen-Shannon *distance*: the square root of the divergence in bits (Endres, Schindelin 2003), a metric.

    >>> float(jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    1.0
    """
    distance = jensenshannon(p, q, base=2, axis=-1)  # pyright: ignore[reportCallIssue]
    return np.nan_to_num(distance)  # NaN: a root of what rounding leaves below 0


DISTANCES = {"hellinger": hellinger, "js": jensen_shannon}  # by the name of the metric in the results


def gini(values: np.ndarray) -> float:
    """Gini's index of sizes float (n,), none negative, n at least 2: the common one times n / (n - 1), 0 where all are
    equal, 1 where one has all (Raffinetti, Siletti, Vernizzi 2015).

    >>> gini(np.array([1.0, 1.0])), gini(np.array([0.0, 4.0]))
    (0.0, 1.0)
    """
    ordered, count, total = np.sort(values.astype(np.float64)), len(values), float(values.sum())
    differences = 2 * ((2 * np.arange(count) - count + 1) * ordered).sum()
    return float(differences / (2 * (count - 1) * total)) if total else 0.0


def rows_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Rows int64 (n,) of all parties, party after party, what it holds out last; and the index of each row's party."""
    none = np.zeros(0, dtype=np.int64)
    parts = [np.r_[case.partition.parties[party], case.home.get(party, none)] for party in case.parties]
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def counted(party: np.ndarray, y: np.ndarray, parties: int, classes: int) -> np.ndarray:
    """Rows by party and class, int64 (parties, classes), from each row's party and label, int64 (n,)."""
    return np.bincount(party * classes + y, minlength=parties * classes).reshape(parties, classes)


def label_counts(case: Case) -> np.ndarray:
    """Rows of each party and class, int64 (parties, classes)."""
    rows, party = rows_of(case)
    return counted(party, case.dataset.y[rows], len(case.parties), len(case.classes))


@dataclass
class Figures:
    """Rows of one method, in the order in which they are added."""

    method: str
    rows: list[Row] = field(default_factory=list, repr=False)

    def run(self, metric: str, value: float, low: float | None = None, high: float | None = None) -> None:
        self.add("run", "", metric, value, low, high)

    def spread(self, metric: str, values: np.ndarray) -> None:
        """Mean and `QUANTILES` of float (n,) as METRIC_mean, METRIC_p10 ...; nothing where there are no values."""
        if len(values):
            self.run(f"{metric}_mean", values.mean())
            for percent, value in zip(QUANTILES, np.percentile(values, QUANTILES), strict=True):
                self.run(f"{metric}_p{percent}", value)

    def floor(self, metric: str, drawn: np.ndarray) -> None:
        """What chance alone gives, as METRIC_floor: the mean of lots float (n,) with what 95 % of them are in."""
        self.run(f"{metric}_floor", drawn.mean(), *ends(drawn))

    def series(self, scope: str, names: Sequence[str], metric: str, values: Iterable[float]) -> None:
        """Of each party, class or group; NaN says that one has none, and it gets no row."""
        for name, value in zip(names, values, strict=True):
            if not np.isnan(value):
                self.add(scope, name, metric, value)

    def add(
        self, scope: str, name: str, metric: str, value: float, low: float | None = None, high: float | None = None
    ) -> None:
        self.rows.append(Row(self.method, scope, name, metric, float(value), low, high))


DIGITS = 6  # of sums of shares: what differs in later ones is equal
AMBIGUOUS = 0.1  # lead of the winner, as a share of all votes, below which a row counts as ambiguous
AGAINST = "local"  # the method that gains are against: each party's own teachers
LOTS = 200
_EQUAL = 1e-12
_PURPOSE = 0x6761696E


def shares_of(votes: TeacherVotes, classes: int) -> np.ndarray:
    """Share of each teacher's vote that each class has, float32 (parties, teachers, rows, classes)."""
    shares = np.eye(classes, dtype=np.float32)[votes.cast]
    if len(votes.tied_row):
        part = votes.tied / votes.tied.sum(axis=1, keepdims=True)
        shares[votes.tied_party, votes.tied_teacher, votes.tied_row] = part
    return shares


def kappa(shares: np.ndarray) -> float:
    """Cohen's, of at least two teachers, in the mean over their pairs that have one (not where both always say the same
    class); NaN where none does."""
    rows = shares.shape[2]
    flat, means = shares.reshape(-1, rows * shares.shape[3]), shares.mean(axis=2, dtype=np.float64)
    means = means.reshape(len(flat), -1)
    pairs = np.triu_indices(len(flat), 1)
    same, chance = (flat @ flat.T)[pairs] / rows, (means @ means.T)[pairs]
    exists = chance < 1 - 1e-9
    kappas = (same[exists] - chance[exists]) / (1 - chance[exists])
    return float(kappas.mean()) if len(kappas) else float("nan")


def teacher_rows(case: Case, ensemble: Ensemble) -> list[Row]:
    """Figures of the teachers, as method "teachers". Secret. run, on the pool: consensus (mean share of the votes that
    the winner has), gap (the winner's lead, in votes), ambiguity_10 (share of rows whose lead is below a tenth of the
    votes), plurality_right; kappa; winners_flipped (rows whose plurality is another without a party). On the test rows:
    teacher_right, accuracy of each party's teachers. party: teacher_right, winners_flipped."""
    figures, y, shares = Figures("teachers"), case.pool_y, shares_of(ensemble.pool, len(case.classes))
    votes = shares.sum(axis=(0, 1), dtype=np.float64).round(DIGITS)
    ordered, total = np.sort(votes, axis=1), round(float(votes[0].sum()))
    gap, right = ordered[:, -1] - ordered[:, -2], votes.argmax(axis=1) == y
    figures.run("consensus", ordered[:, -1].mean() / total)
    figures.spread("gap", gap)
    figures.run("ambiguity_10", (gap < AMBIGUOUS * total).mean())
    figures.run("plurality_right", right.mean(), *wilson(int(right.sum()), len(y)))
    if len(shares) > 1:
        flipped = winners_flipped(shares)
        figures.series("party", case.parties, "winners_flipped", flipped)
        figures.spread("winners_flipped", flipped)
        figures.run("winners_flipped_most", flipped.max())
    if shares.shape[0] * shares.shape[1] > 1:
        figures.series("run", ("",), "kappa", (kappa(shares),))
    if len(case.test_y):
        figures.spread("teacher_right", ensemble.test_right)
        figures.series("party", case.parties, "teacher_right", ensemble.test_right)
    return figures.rows


def winners_flipped(shares: np.ndarray) -> np.ndarray:
    """Rows whose plurality is another without each party, int64 (parties,), by `shares_of`; of equal sums the first
    class is it."""
    by_party = shares.sum(axis=1, dtype=np.float64)
    total = by_party.sum(axis=0)
    winner = total.round(DIGITS).argmax(axis=1)
    return np.array([((total - own).round(DIGITS).argmax(axis=1) != winner).sum() for own in by_party])


def gain_rows(case: Case, mine: Mapping[str, Predicted]) -> list[Row]:
    """Gains in accuracy of each method, by name, as rows of that method; none where nothing is held out. Secret. party:
    gain_accuracy. run: the same over all rows of all parties, with parties drawn anew; _parties; _better, _worse: how
    many parties gain and lose; _worst_decile: mean over the tenth of the parties (rounded up) with the least gain, and
    its floor; _by_size, _by_distance: Spearman's correlation of the gain with a party's rows, and with the Hellinger
    distance of its labels to those of all."""
    alone, rows = mine.get(AGAINST), list[Row]()
    if alone is None or alone.home is None or not len(case.home_y):
        return rows
    y, name = case.home_y, "gain_accuracy"
    place, starts, sizes = np.unique(case.home_party, return_index=True, return_counts=True)
    counts = label_counts(case)
    far = hellinger(shares(counts), shares(counts.sum(axis=0)))
    for method, predicted in mine.items():
        if method == AGAINST or predicted.home is None:
            continue
        figures, generator = Figures(method, rows), np.random.default_rng([case.seed, _PURPOSE])
        more = (predicted.home.argmax(axis=1) == y).astype(np.float64) - (alone.home.argmax(axis=1) == y)
        points = np.add.reduceat(more, starts)
        gains = points / sizes
        figures.series("party", [case.parties[party] for party in place], name, gains)
        figures.run(name, *ratio(points, sizes.astype(np.float64), generator))
        figures.run(f"{name}_parties", len(gains))
        figures.run(f"{name}_better", (gains > _EQUAL).sum())
        figures.run(f"{name}_worse", (gains < -_EQUAL).sum())
        tenth = int(np.ceil(0.1 * len(gains)))
        dealt = [np.add.reduceat(generator.permutation(more), starts) / sizes for _ in range(LOTS)]
        figures.run(f"{name}_worst_decile", np.sort(gains)[:tenth].mean())
        figures.floor(f"{name}_worst_decile", np.array([np.sort(lot)[:tenth].mean() for lot in dealt]))
        for along, values in {"size": counts.sum(axis=1)[place], "distance": far[place]}.items():
            if np.ptp(values) > _EQUAL and np.ptp(gains) > _EQUAL:
                alike = spearmanr(values, gains).statistic  # pyright: ignore[reportAttributeAccessIssue]
                figures.run(f"{name}_by_{along}", alike)
    return rows
