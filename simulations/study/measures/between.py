"""Rows owner after owner: what of their variance lies between them; whether features say the same of the label.

For the second question one regression of all rows, logistic, one class against the others, made to sum to 1, and what
owners leave of it. Lots draw labels from its own probabilities and take the refit into account to first order (a
projection of the residuals). Sources: Cochran 1954 (Q), DerSimonian and Laird 1986 (tau^2), Higgins and Thompson 2002
(I^2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import expit, logit
from scipy.stats import pearson3, rankdata, skew

from consilium.protocol.errors import DataError
from consilium.report.words import many
from consilium.simulations.study.measures.figures import ratio

ShiftKind = Literal["quantity", "label", "covariate", "concept"]
SHIFT_KINDS: tuple[ShiftKind, ...] = get_args(ShiftKind)
ERROR = 0.025  # share of divisions by lot in which some kind is named, at most
LOTS = 200
MOST_ROWS = 20_000
"""Rows that are looked at: of each owner at most so many, by lot, that all owners together have no more."""
MOST_INPUTS = 64  # columns beyond which principal components of so many are looked at
PURPOSE = 0x7768696368
LEAST_INFORMATION = 0.5  # Fisher information that an owner has of a coefficient, at least, to be asked about it
_RIDGE, _STEPS, _CLIP = 1.0, 12, 1e-4


@dataclass(frozen=True)
class ShiftPart:
    """strength: from 0 to 1, see `SCALES`; low, high: 95 %, owners drawn anew. floor: mean of rows dealt by lot. p:
    corrected over all kinds."""

    kind: ShiftKind
    strength: float
    low: float
    high: float
    floor: float
    p: float

    @property
    def named(self) -> bool:
        return self.p <= ERROR


SCALES: dict[ShiftKind, str] = {
    "quantity": "Gini index of the sizes",
    "label": "share of the labels' variance that lies between owners",
    "covariate": "share of the features' variance within a class that lies between owners",
    "concept": "I² of what features say of the label",
}


@dataclass(frozen=True)
class OwnerRows:
    """Rows owner after owner. x: float64 (n, d). y, owner: int64 (n,). sizes: of the owners as looked at, every: all"""

    x: np.ndarray
    y: np.ndarray
    owner: np.ndarray
    classes: int
    sizes: np.ndarray
    every: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, owners: np.ndarray, unit: np.ndarray | None, seed: int) -> OwnerRows:
        if x.ndim != 2 or not len(x) == len(y) == len(owners):
            shapes = f"x is {x.shape}, with {len(y)} labels and {len(owners)} owners"
            raise DataError(shapes, "Give one of each for every row")
        if unit is not None and len(unit) != len(x):
            raise DataError(f"unit has {len(unit)} values for {len(x)} rows", "Give one for every row")
        if np.isinf(x).any():
            raise DataError("x has a value that is infinite", "Write NaN where a value is missing")
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        names, owner = np.unique(np.asarray(owners), return_inverse=True)
        if len(names) < 2:
            raise DataError(f"there are rows of {many(len(names), 'owner')}", "Compare two owners at least")
        every, generator = np.bincount(owner), np.random.default_rng([seed, PURPOSE, 1])
        places = np.arange(len(x))
        if unit is not None:
            lot = generator.permutation(len(x))
            pairs = np.stack([owner[lot], np.unique(np.asarray(unit), return_inverse=True)[1][lot]])
            places = np.sort(lot[np.unique(pairs, axis=1, return_index=True)[1]])
        places = places[np.argsort(owner[places], kind="stable")]
        sizes = np.bincount(owner[places], minlength=len(names))
        if sizes.sum() > MOST_ROWS:  # of each owner as many by lot as keep the whole within that, at least 2
            caps = range(2, int(sizes.max()))
            most = max((cap for cap in caps if np.minimum(sizes, cap).sum() <= MOST_ROWS), default=2)
            lot = generator.permutation(len(places))
            by_owner = lot[np.argsort(owner[places][lot], kind="stable")]
            place = np.arange(len(places)) - np.repeat(np.r_[0, np.cumsum(sizes)[:-1]], sizes)
            places, sizes = places[np.sort(by_owner[place < most])], np.minimum(sizes, most)
        return cls(x[places], codes[places], owner[places], len(classes), sizes, every)

    @property
    def starts(self) -> np.ndarray:
        """Where each owner's rows begin."""
        return np.r_[0, np.cumsum(self.sizes)[:-1]]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """By owner, float64 (owners, ...), of values (n, ...)."""
        return np.add.reduceat(values, self.starts, axis=0, dtype=np.float64)

    def dealt(self, strata: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Positions int64 (n,): rows by lot in the place of others, of the same stratum int64 (n,)."""
        order = np.argsort(strata, kind="stable")
        drawn = np.empty_like(order)
        drawn[order] = np.argsort(strata + generator.random(len(strata)))
        return drawn


class BetweenOwners(NamedTuple):
    """What of the variance of features lies between owners. value: their mean share, floor: of rows by lot; by_owner:
    Σ S²/n. p: of the mean share, or of the direction in which owners differ most."""

    value: float
    floor: float
    by_owner: np.ndarray
    p: float

    def part(self, kind: ShiftKind, rows: OwnerRows, p: float, generator: np.random.Generator) -> ShiftPart:
        columns = max(self.by_owner.sum() / max(self.value, 1e-300) / rows.sizes.sum(), 1.0)
        value, low, high = ratio(self.by_owner, rows.sizes * columns, generator)
        return ShiftPart(kind, value, low or 0.0, min(high or 1.0, 1.0), self.floor, p)


def between_owners(
    rows: OwnerRows, values: np.ndarray, strata: np.ndarray, generator: np.random.Generator
) -> BetweenOwners:
    """values: float64 (n, m), of mean 0 in each stratum and deviation 1 (or 0) in all. Components of equal deviation
    are dealt, so that correlated columns count once, and a difference along one direction is seen among many (Pillai's
    trace and Roy's largest root, by lot in place of a normal law)."""
    content = components(values) if values.shape[1] > 1 else values
    by_owner = np.zeros(len(rows.sizes))
    if not content.shape[1]:
        return BetweenOwners(0.0, 0.0, by_owner, 1.0)
    content, root, columns = content.astype(np.float32), np.sqrt(rows.sizes)[:, None], content.shape[1]
    trace, largest = np.empty((2, 1 + LOTS))
    for lot in range(1 + LOTS):
        dealt = content[rows.dealt(strata, generator)] if lot else content
        means = np.add.reduceat(dealt, rows.starts, axis=0).astype(np.float64) / root
        inner = means.T @ means
        trace[lot], largest[lot] = np.trace(inner), np.linalg.eigvalsh(inner)[-1]
        if not lot:
            by_owner = (means**2).sum(axis=1)
    both = tail(trace[0], trace[1:]), tail(largest[0], largest[1:])
    shares = trace / (len(values) * columns)
    p = min(1.0, 2 * min(both)) if columns > 1 else both[0]
    return BetweenOwners(shares[0], float(shares[1:].mean()), by_owner, p)


def tail(value: float, lots: np.ndarray) -> float:
    """Probability of at least `value`, of lots float (n,): counted where many are above, else of Pearson's type III law
    with their mean, variance and skewness (Josse, Pages, Husson 2008)."""
    above, spread = int((lots >= value).sum()), float(lots.std())
    if above >= 10 or spread <= 1e-12 * max(abs(value), 1e-300):
        return (1 + above) / (1 + len(lots))
    skewness = float(skew(lots))
    return float(pearson3.sf((value - lots.mean()) / spread, skewness if skewness >= 0.02 else 0.0))


def centred(values: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Less the mean of the stratum, of deviation 1, and 0 where NaN."""
    centred = np.zeros_like(values)
    for stratum in np.unique(strata):
        part = values[strata == stratum]
        known = ~np.isnan(part)
        mean = np.where(known, part, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        centred[strata == stratum] = np.where(known, part - mean, 0)
    spread = centred.std(axis=0)
    return centred / np.where(spread > 1e-9, spread, np.inf)


def ranks(x: np.ndarray) -> np.ndarray:
    """Ranks of each column from -1 to 1, NaN where missing: what a row says whatever the column's scale and tails."""
    return 2 * rankdata(x, axis=0, nan_policy="omit") / ((~np.isnan(x)).sum(axis=0) + 1) - 1


def components(values: np.ndarray) -> np.ndarray:
    """The first principal components of deviation 1, at most `MOST_INPUTS`."""
    size, turned = np.linalg.eigh(values.T @ values / len(values))
    chosen = np.argsort(-size)[:MOST_INPUTS]
    chosen = chosen[size[chosen] > 1e-6]
    return values @ turned[:, chosen] / np.sqrt(size[chosen])


@dataclass(frozen=True)
class Labelled:
    """design: float64 (n, m), of mean 0, of the regression of all rows; directions: float64 (n, g), in which
    coefficients may differ between owners."""

    rows: OwnerRows = field(repr=False)
    design: np.ndarray = field(repr=False)
    directions: np.ndarray = field(repr=False)

    @property
    def modelled(self) -> range:
        return range(1 if self.rows.classes == 2 else 0, self.rows.classes)

    def fit(self) -> np.ndarray:
        """Probabilities float64 (n, classes) by the regression of all rows."""
        from sklearn.linear_model import LogisticRegression  # half a second to import: only where it is used

        fitted = np.empty((len(self.design), self.rows.classes))
        for label in self.modelled:
            model = LogisticRegression(C=1 / _RIDGE, solver="newton-cholesky", tol=1e-8)
            fitted[:, label] = expit(model.fit(self.design, self.rows.y == label).decision_function(self.design))
        return self._whole(fitted)

    def _whole(self, p: np.ndarray) -> np.ndarray:
        """Of the classes asked, those of all, which sum to 1."""
        if self.rows.classes == 2:
            p[:, 0] = 1 - p[:, 1]
        p = np.clip(p, _CLIP, 1 - _CLIP)
        return p / p.sum(axis=1, keepdims=True)

    def with_levels(self, p: np.ndarray, tau2: float) -> np.ndarray:
        """Probabilities with an intercept for each owner, drawn from N(0, tau2)."""
        rows, moved = self.rows, np.empty_like(p)
        precision = 1 / max(tau2, 1e-3)
        for label in self.modelled:
            level, target = np.zeros(len(rows.sizes)), rows.sums((rows.y == label).astype(np.float64))
            odds = logit(p[:, label])
            for _ in range(_STEPS):
                now = expit(odds + level[rows.owner])
                step = (target - rows.sums(now) - level * precision) / (rows.sums(now * (1 - now)) + precision)
                level += np.clip(step, -2, 2)
            moved[:, label] = expit(odds + level[rows.owner])
        return self._whole(moved)

    def residuals(self, p: np.ndarray, generator: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
        """Each class modelled, with label less probability, float32 (n, 1 + LOTS): the real labels first, then lots of
        `p` float64 (n, classes)."""
        drawn = np.zeros((len(p), 1 + LOTS), dtype=np.int8)
        point = generator.random((len(p), LOTS), dtype=np.float32)
        for bound in np.cumsum(p, axis=1)[:, :-1].T.astype(np.float32):
            drawn[:, 1:] += point > bound[:, None]
        drawn[:, 0] = self.rows.y
        for label in self.modelled:
            yield label, (drawn == label).astype(np.float32) - p[:, [label]].astype(np.float32)

    def q_along(self, residual: np.ndarray, along: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Q of each owner and lot along a direction float64 (n,); 0 of owners with too little information."""
        information = self.rows.sums(weight * along**2)
        scores = self.rows.sums(residual * along.astype(np.float32)[:, None])
        q = scores**2 / np.maximum(information, 1e-9)[:, None]
        return np.where((information >= LEAST_INFORMATION)[:, None], q, 0.0)


class Heterogeneity(NamedTuple):
    """Q over owners, beside its lots. by_owner: float64 (owners,), what each has of Q."""

    q: float
    lots: np.ndarray
    by_owner: np.ndarray
    p: float

    @classmethod
    def of(cls, q: np.ndarray) -> Heterogeneity:
        """Of each owner and lot, float64 (owners, 1 + LOTS), the real one first."""
        total = q.sum(axis=0)
        return cls(float(total[0]), total[1:], q[:, 0], tail(float(total[0]), total[1:]))


def _without(residual: np.ndarray, design: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Residuals (n, lots) as a refit of the design (n, m) leaves them, to first order."""
    design, weight = design.astype(np.float32), weight.astype(np.float32)
    inner = (design * weight[:, None]).T @ design + np.float32(_RIDGE) * np.eye(design.shape[1], dtype=np.float32)
    return residual - (design * weight[:, None]) @ np.linalg.solve(inner, design.T @ residual)


def levels(labelled: Labelled, p: np.ndarray, generator: np.random.Generator) -> tuple[Heterogeneity, float]:
    """Whether a class is as frequent at each owner as features say; and tau^2, the variance between owners of the
    log-odds (DerSimonian and Laird)."""
    rows, ones, unit, q = labelled.rows, np.ones(len(p)), 0.0, 0.0
    design = np.column_stack([ones, labelled.design])
    for label, residual in labelled.residuals(p, generator):
        weight = (p[:, label] * (1 - p[:, label])).astype(np.float32)
        q = q + labelled.q_along(_without(residual, design, weight), ones, weight)
        information = rows.sums(weight)
        judged = information[information >= LEAST_INFORMATION]
        if total := float(judged.sum()):
            unit += total - float((judged**2).sum()) / total  # what one unit of tau^2 adds to Q
    found = Heterogeneity.of(np.asarray(q))
    return found, max(0.0, (found.q - float(found.lots.mean())) / unit) if unit > 0 else 0.0


def slopes(
    labelled: Labelled, p: np.ndarray, common: np.ndarray, generator: np.random.Generator
) -> tuple[Heterogeneity, Heterogeneity]:
    """Whether owners have the same calibration slope along the log-odds of `common`, and the same coefficients. p: with
    what owners may differ in, such as levels; common: without, float64 (n, classes) both."""
    rows = labelled.rows
    slope, rest = np.zeros((2, len(rows.sizes), 1 + LOTS))
    for label, residual in labelled.residuals(p, generator):
        weight = p[:, label] * (1 - p[:, label])
        information = np.maximum(rows.sums(weight), 1e-9)

        def centred(values: np.ndarray, weight: np.ndarray = weight, by: np.ndarray = information) -> np.ndarray:
            return values - (rows.sums(values * weight[:, None]) / by[:, None])[rows.owner]

        odds = centred(logit(common[:, [label]]))
        left = _without(residual, np.column_stack([odds, centred(labelled.design)]), weight)
        slope += labelled.q_along(left, odds[:, 0], weight)
        for column in labelled.directions.T:
            rest += labelled.q_along(left, centred(column[:, None])[:, 0], weight)
    return Heterogeneity.of(slope), Heterogeneity.of(rest)
