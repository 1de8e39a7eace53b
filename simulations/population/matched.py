"""Matched Dirichlet: a division by lot whose parties' labels are as far from the pooled ones as the natural division's.

"Far" is the mean over parties, each counted once whatever its size, of the Hellinger distance between a party's label
distribution and that of all parties together: the same definition for the natural division and for the matched one, of
finite rows as they are. A small party is far from the pool in any division (one row has one class), so the distance
says little without the sizes: the matched division keeps the sizes of the natural one, and all its rows, and changes
only who has which class. What is left of a difference between the two is then neither size nor label skew, but what
real parties differ in besides (features, and what a label means).

Each party's class shares are drawn from Dirichlet(alpha * pooled shares), and its rows are dealt in these shares,
rounded, as `population.dirichlet` rounds; every class is used up exactly. Were rows drawn by lot in these shares
instead, no alpha could go below the distance of an iid division, and natural divisions that are more even than a lot
would have no match: writers of MNIST wrote all digits alike (.048, by lot .100). So alpha stands for the whole spread
of labels, that of the lot included; the distance by lot is told beside it.

Dirichlet draws come from fixed quantiles of Gamma(alpha * pooled share), whatever alpha is tried: one seed is one lot,
and the distance falls with alpha nearly without steps. Where a bisection looks for a crossing it needs no more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import gammaincinv, gammaln, logit, logsumexp

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Source
from consilium.simulations.population.partition import Partition, named, shuffled_partition

TOLERANCE = 0.005
"""Of the distance. Shuffled labels of 207 hospitals of the stroke trial differ by .0023 from lot to lot."""
LEAST, MOST = 1e-3, 1e6  # of alpha
STEPS = 30
_PURPOSE = 0x6D617463
_SMALL = 1e-12
"""Below, P(a, x) = x^a / Gamma(a + 1) to twelve digits, and its inverse is taken in logarithms: it may be 1e-1000."""


def label_distance(counts: np.ndarray) -> float:
    """Mean over parties of sqrt(1 - sum_c sqrt(p_c q_c)), with p of the party and q of all parties together.

    counts: int (parties, classes), rows of each class; every party has one at least.

    >>> label_distance(np.array([[1, 1], [5, 5]])), round(label_distance(np.array([[4, 0], [0, 4]])), 4)
    (0.0, 0.5412)
    """
    pooled = counts.sum(axis=0) / counts.sum()
    shares = counts / counts.sum(axis=1, keepdims=True)
    return float(np.sqrt(np.maximum(0.0, 1.0 - np.sqrt(shares * pooled).sum(axis=1))).mean())


def class_counts(y: np.ndarray, partition: Partition) -> np.ndarray:
    """int64 (parties, classes): rows of each class at each party. y: int64, of all rows."""
    classes = int(y.max()) + 1
    return np.stack([np.bincount(y[rows], minlength=classes) for rows in partition.parties.values()])


@dataclass(frozen=True)
class _Lot:
    """What one seed fixes, for every alpha. sizes: int64 (parties,). totals: int64 (classes,), rows of each class, all
    above 0. quantiles, offsets: float64 (parties, classes) in (0, 1), of the Gamma draws and of the rounding."""

    sizes: np.ndarray = field(repr=False)
    totals: np.ndarray = field(repr=False)
    quantiles: np.ndarray = field(repr=False)
    offsets: np.ndarray = field(repr=False)

    @classmethod
    def drawn(cls, sizes: np.ndarray, totals: np.ndarray, generator: np.random.Generator) -> _Lot:
        uniform = generator.uniform(_SMALL, 1.0, size=(2, len(sizes), len(totals)))
        return cls(sizes, totals, *uniform)

    def counts(self, alpha: float) -> np.ndarray:
        """int64 (parties, classes) with rows of `sizes` and columns of `totals`. Class after class: of a party's rows
        that have no class yet, the share that its Dirichlet draw gives to this one against the later ones, with odds
        raised or lowered for all parties alike until the class is used up. It is rounded by systematic sampling: every
        row has a threshold, spread evenly over the party from a random start."""
        log_shares = _log_gamma_quantiles(alpha * self.totals / self.totals.sum(), self.quantiles)
        dealt = np.zeros(self.quantiles.shape, dtype=np.int64)
        room = self.sizes.copy()
        for label, total in enumerate(self.totals[:-1]):
            odds = log_shares[:, label] - logsumexp(log_shares[:, label + 1 :], axis=1)
            party = np.repeat(np.arange(len(room)), room)
            place = np.arange(len(party)) - np.repeat(np.cumsum(room) - room, room)
            score = odds[party] + logit((place + self.offsets[party, label]) / room[party])
            dealt[:, label] = np.bincount(party[np.argsort(-score, kind="stable")[:total]], minlength=len(room))
            room = room - dealt[:, label]
        dealt[:, -1] = room
        return dealt


def _log_gamma_quantiles(shapes: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Logarithms (parties, classes) of quantiles of Gamma(shape), however small. shapes: (classes,)."""
    plain = gammaincinv(shapes, quantiles)
    tiny = (np.log(quantiles) + gammaln(shapes + 1.0)) / shapes
    return np.where(plain < _SMALL, tiny, np.log(np.maximum(plain, _SMALL)))


def matched_partition(source: Source, natural: Partition, dealt: Partition, seed: int) -> Partition:
    """A division with the sizes and rows of `dealt`, and the label distance of `natural`. dealt: the natural division,
    or one with another number of parties. `measures` has alpha, the distances `hellinger` and `hellinger_natural`, and
    `hellinger_by_lot`: that of rows dealt by lot with these sizes and this seed. Raises DataError: no alpha from .001
    to 1,000,000 comes as near as `TOLERANCE`, with what can be reached."""
    generator = np.random.default_rng([seed, _PURPOSE])
    rows = np.concatenate(list(dealt.parties.values()))
    labels, y = np.unique(source.y[rows], return_inverse=True)
    sizes = np.array([len(part) for part in dealt.parties.values()])
    lot = _Lot.drawn(sizes, np.bincount(y, minlength=len(labels)), generator)
    wanted = label_distance(class_counts(source.y, natural))
    alpha, counts = _bisect(lot, wanted)
    distance = label_distance(counts)
    if abs(distance - wanted) > TOLERANCE:
        far, near = (label_distance(lot.counts(extreme)) for extreme in (LEAST, MOST))
        raise DataError(
            f"{source.name}: labels of the natural division are {wanted:.4f} from the pooled ones (mean Hellinger"
            f" distance), and a Dirichlet division of {len(sizes)} parties reaches {near:.4f} to {far:.4f}, at the"
            f" nearest {distance:.4f}",
            'Choose another seed, or partition = "shuffled", or "dirichlet" with an alpha of your own',
        )
    by_lot = label_distance(class_counts(source.y, shuffled_partition(dealt, seed)))
    measures = {"alpha": alpha, "hellinger": distance, "hellinger_natural": wanted, "hellinger_by_lot": by_lot}
    parties = named(_deal(rows, y, counts, generator))
    return replace(
        dealt, parties=parties, left_out=0, measures={name: float(f"{value:.6g}") for name, value in measures.items()}
    )


def _bisect(lot: _Lot, wanted: float) -> tuple[float, np.ndarray]:
    """The alpha, and its counts, whose distance is nearest among those that are tried. The distance is at least
    `wanted` at the lower end and at most that at the upper one all along, so that they close in on a crossing even
    where it does not fall all the way."""
    low, high = np.log(LEAST), np.log(MOST)
    tried = {float(end): lot.counts(float(np.exp(end))) for end in (low, high)}
    for _ in range(STEPS):
        middle = float((low + high) / 2)
        tried[middle] = counts = lot.counts(float(np.exp(middle)))
        if (distance := label_distance(counts)) == wanted:
            break
        low, high = (middle, high) if distance > wanted else (low, middle)
    best = min(tried, key=lambda alpha: abs(label_distance(tried[alpha]) - wanted))
    return float(np.exp(best)), tried[best]


def _deal(rows: np.ndarray, y: np.ndarray, counts: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
    """Rows of each party: of every class as many as `counts` says, by lot."""
    ends = np.cumsum(counts, axis=0)[:-1]
    of_class = [np.split(generator.permutation(rows[y == label]), ends[:, label]) for label in range(counts.shape[1])]
    return [np.concatenate([parts[party] for parts in of_class]) for party in range(len(counts))]
