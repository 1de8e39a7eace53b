"""What is public, alike for every partition; what a partition is; Matched Dirichlet. `partitions` has the table.

Matched Dirichlet: a division by lot whose parties' labels are as far from the pooled ones as the natural division's, by
the mean over parties of the Hellinger distance between a party's label distribution and that of all together. A small
party is far from the pool in any division. So the matched one keeps sizes and rows of the natural one, and changes only
who has which class: what is left of a difference is neither size nor label skew.

Each party's class shares are drawn from Dirichlet(alpha * pooled shares), and its rows are dealt in these shares,
rounded; every class is used up exactly. Were rows drawn by lot in these shares, no alpha could go below the distance of
an iid division, and natural divisions that are more even than a lot would have no match: writers of MNIST wrote all
digits alike (.048, by lot .100). Dirichlet draws come from fixed quantiles of Gamma(alpha * pooled share), whatever
alpha is tried: one seed is one lot, and the distance falls with alpha nearly without steps."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import gammaincinv, gammaln, logit, logsumexp

from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.base import Public, PublicSpec, Source

LONGEST = 48  # characters that are kept of an owner's name: with a number behind it, it is still a party's (64 at most)


def party_names(source: Source, owners: np.ndarray) -> dict[int, str]:
    """Id of each of the owners -> its name as a party; no two are alike, also where case does not count."""
    label, width = safe(source.owner_label) or "party", len(str(source.owner.max()))
    numbers = {int(who): f"{who:0{width}d}" for who in owners}
    if source.owner_names is None:
        return {who: f"{label}-{number}" for who, number in numbers.items()}
    safe_names = {who: safe(source.owner_names[who]) for who in numbers}
    if all(not name or name.isdecimal() for name in safe_names.values()):
        safe_names = {who: f"{label}-{name}" if name else "" for who, name in safe_names.items()}
    same = Counter(name.casefold() for name in safe_names.values())
    return {
        who: name if name and same[name.casefold()] == 1 else f"{name or label}-{numbers[who]}"
        for who, name in safe_names.items()
    }


def safe(name: str) -> str:
    """What is left of a name where only letters without accents, digits and `.`, `_`, `-` may be; perhaps nothing.

    >>> safe("Universitätsspital Zürich (Süd)"), safe("../etc"), safe("北京")
    ('Universitatsspital-Zurich-Sud', 'etc', '')
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-._")[:LONGEST].rstrip("-._")


_DIRICHLET = 0x64697269


def deal_by_class(y: np.ndarray, parties: int, alpha: float, sizes: float, seed: int) -> list[np.ndarray]:
    """Label skew: positions in `y` int64 (n,) of each party's rows, in the order of the lot; every row is dealt once.

    Yurochkin et al. 2019 (Bayesian nonparametric federated learning, section 4) and Li et al. 2022 (Federated learning
    on non-IID data silos, "distribution-based label imbalance"), where parties with too few rows are drawn anew; here
    none is. Each class has shares (parties,) of its own from Dirichlet(alpha, ..., alpha): the smaller alpha, the fewer
    parties have most of it. They are multiplied by the parties' weights exp(sizes z), z standard normal, and scaled to
    sum 1. A party that gets nothing takes one row by lot from the first that has most; `n` must be `parties` at least.

    >>> [len(part) for part in deal_by_class(np.zeros(5, dtype=np.int64), 5, 0.01, 0.0, 0)]
    [1, 1, 1, 1, 1]
    """
    generator = np.random.default_rng([seed, _DIRICHLET])
    weights = np.exp(sizes * generator.standard_normal(parties))
    dealt: list[list[np.ndarray]] = [[] for _ in range(parties)]
    for label in np.unique(y):
        shares = generator.dirichlet(np.full(parties, alpha)) * weights
        ends = np.rint(np.cumsum(shares / shares.sum()) * np.count_nonzero(y == label)).astype(np.int64)
        rows = generator.permutation(np.flatnonzero(y == label))
        for party, part in enumerate(np.split(rows, ends[:-1])):
            dealt[party].append(part)
    shards = [generator.permutation(np.concatenate(parts)) for parts in dealt]
    for party in [index for index, shard in enumerate(shards) if not len(shard)]:
        giver = max(range(parties), key=lambda index: len(shards[index]))
        shards[party], shards[giver] = shards[giver][-1:], shards[giver][:-1]
    return shards


_PUBLIC = 0x7061727469


OF_PUBLIC = "of patients who are at a public {0} too"
ANEW = "If each {0} numbers its patients from 1, put the {0}'s name before the patient's"


def public_part(source: Source, public: PublicSpec, least_rows: int, seed: int) -> Public:
    """The data set's own public part if it has one, and no owner is held out; else what `public` says.

    Owners are drawn by lot, separately among those with `least_rows` rows and the others, so that the number of parties
    does not depend on the seed; or they are those that are named. By share, or where all rows have one owner, rows are
    drawn, or whole patients where the set says whose rows are. Half of what is public, by lot, is asked, the other half
    is the test set; no patient is in both. By numbers of rows, the two are of different owners. Nothing looks at more
    than owners, patients and sizes: every way to divide the rows of the others has the same public part. Raises
    DataError: fewer than two rows would be public. ConfigError: there is no such owner."""
    generator = np.random.default_rng([seed, _PUBLIC])
    if source.public is not None:
        if len(source.public.test):
            return source.public
        return Public(*_halves(source, generator.permutation(source.public.queries), "data.public"))
    if public.by == "share" or (not public.owners and len(np.unique(source.owner)) == 1):
        units = np.arange(len(source.y)) if source.patient is None else source.patient  # what is never divided
        held = generator.permutation(np.unique(units))[: round(public.share * len(np.unique(units)))]
        rows = generator.permutation(np.flatnonzero(np.isin(units, held)))
        return Public(*_halves(source, rows, f"data.public.share {public.share:g}"))
    if public.rows is not None:
        return _of_size(source, public.rows, generator)
    owners = _named(source, public.owners) if public.owners else _drawn(source, public.share, least_rows, generator)
    rows = generator.permutation(np.flatnonzero(np.isin(source.owner, owners)))
    return Public(*_halves(source, rows, f"data.public_share {public.share:g}"), owners)


def _of_size(source: Source, sizes: tuple[int, int], generator: np.random.Generator) -> Public:
    owners, counts = np.unique(source.owner, return_counts=True)
    order = generator.permutation(len(owners))
    parts, held = list[np.ndarray](), 0
    for size in sizes:
        enough = held + int(np.searchsorted(counts[order[held:]].cumsum(), size)) + 1
        if enough >= len(owners):
            raise DataError(
                f"{source.name}: data.public.rows {list(sizes)} leaves no {source.owner_label} private", "Lower it"
            )
        rows = np.flatnonzero(np.isin(source.owner, owners[order[held:enough]]))
        parts.append(generator.permutation(rows)[:size])
        held = enough
    return Public(parts[0], parts[1], owners[order[:held]])


def not_public(source: Source) -> np.ndarray:
    """Indices of the rows that are not public by the data set's own division, ascending."""
    rows = np.arange(len(source.y))
    if source.public is None:
        return rows
    return np.setdiff1d(rows, np.concatenate([source.public.queries, source.public.test]))


def private_rows(source: Source, public: Public) -> np.ndarray:
    """Indices of the rows that parties may have, ascending: neither public nor of an owner that is held out, nor of a
    patient who has public rows; where the data set itself says which rows are public, it decides."""
    public_rows = np.concatenate([public.queries, public.test])
    rows = np.setdiff1d(not_public(source), public_rows)
    rows = rows[~np.isin(source.owner[rows], public.owners)]
    if source.patient is None or source.public is not None:
        return rows
    return rows[~np.isin(source.patient[rows], source.patient[public_rows])]


def of_public_patients(source: Source, public: np.ndarray) -> int:
    """Rows that no party has since their patient has public ones, at an owner that is held out. See `private_rows`."""
    if source.patient is None or source.public is not None:
        return 0
    private = ~np.isin(source.owner, source.owner[public])
    return int(np.count_nonzero(private & np.isin(source.patient, source.patient[public])))


def _drawn(source: Source, share: float, least_rows: int, generator: np.random.Generator) -> np.ndarray:
    owners, sizes = np.unique(source.owner[not_public(source)], return_counts=True)
    large = owners[sizes >= least_rows]  # whatever their rows say
    small = np.setdiff1d(np.unique(source.owner), large)
    return np.concatenate([generator.permutation(group)[: round(share * len(group))] for group in (large, small)])


def _named(source: Source, names: tuple[str, ...]) -> np.ndarray:
    known = {str(who): int(who) for who in np.unique(source.owner)}
    if source.owner_names is not None:
        known = {source.owner_names[who]: who for who in known.values()}
    if unknown := [name for name in names if name not in known]:
        more = f" and {len(known) - 10} more" if len(known) > 10 else ""
        raise ConfigError(
            f"data.public.owners: {source.name} has no {source.owner_label} {unknown[0]!r}",
            f"It has {', '.join(list(known)[:10])}{more}",
        )
    return np.array([known[name] for name in names], dtype=np.int64)


def _halves(source: Source, rows: np.ndarray, why: str) -> tuple[np.ndarray, np.ndarray]:
    """The first half of rows in an order by lot, and the second; of patients, where these are known."""
    if source.patient is None:
        cut = np.arange(len(rows)) < len(rows) // 2
    else:
        whose = source.patient[rows]
        patients = whose[np.sort(np.unique(whose, return_index=True)[1])]  # in the order of the lot
        cut = np.isin(whose, patients[: len(patients) // 2])
    if not cut.any() or cut.all():
        size = "no rows are public" if not len(rows) else f"{len(rows)} public rows cannot be halved"
        raise DataError(f"{source.name}: {size} with {why}", "Make more rows public: data.public_share or data.public")
    return rows[cut], rows[~cut]


@dataclass(frozen=True)
class Partition:
    """Row indices into the data set: of each party by name, of the student's queries, and of the test set. left_out:
    owners, or shards, that are no party since they have too few rows. measures: what the division had to look for, by
    name, six digits each (`matched`)."""

    parties: dict[str, np.ndarray] = field(repr=False)
    queries: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    left_out: int = 0
    measures: dict[str, float] = field(default_factory=dict)


def large_enough(shards: Sequence[np.ndarray], public: Public, least_rows: int) -> Partition:
    """The shards (row indices) as parties, but for those with fewer than `least_rows` rows, which are left out."""
    everybody = named(shards)
    large = {name: shard for name, shard in everybody.items() if len(shard) >= least_rows}
    return Partition(large, public.queries, public.test, left_out=len(everybody) - len(large))


def named(shards: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Parties by name, numbered in the order of the shards; rows ascending."""
    width = len(str(len(shards) - 1))
    return {f"party-{index:0{width}d}": np.sort(shard) for index, shard in enumerate(shards)}


_SHUFFLED = 0x73687566


def shuffled_partition(natural: Partition, seed: int) -> Partition:
    """The rows of the natural division by lot: as many parties, each as large as one of the natural ones."""
    sizes = [len(rows) for rows in natural.parties.values()]
    rows = np.random.default_rng([seed, _SHUFFLED]).permutation(np.concatenate(list(natural.parties.values())))
    return Partition(named(np.split(rows, np.cumsum(sizes)[:-1])), natural.queries, natural.test)


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
        raised or lowered for all parties alike until the class is used up; rounded by systematic sampling, in which
        every row has a threshold, spread evenly over the party from a random start."""
        shapes = alpha * self.totals / self.totals.sum()
        plain = gammaincinv(shapes, self.quantiles)
        tiny = (np.log(self.quantiles) + gammaln(shapes + 1.0)) / shapes
        log_shares = np.where(plain < _SMALL, tiny, np.log(np.maximum(plain, _SMALL)))
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


def matched_partition(source: Source, natural: Partition, dealt: Partition, seed: int) -> Partition:
    """A division with the sizes and rows of `dealt`, and the label distance of `natural`. dealt: the natural division,
    or one with another number of parties. `measures` has alpha, the distances `hellinger`, `hellinger_natural` and
    `hellinger_by_lot`, of rows dealt by lot with these sizes. Raises DataError: no alpha from .001 to 1,000,000 comes
    as near as `TOLERANCE`, with what can be reached."""
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
    measures = {name: float(f"{value:.6g}") for name, value in measures.items()}
    ends = np.cumsum(counts, axis=0)[:-1]
    of_class = [np.split(generator.permutation(rows[y == label]), ends[:, label]) for label in range(len(labels))]
    parties = named([np.concatenate([parts[party] for parts in of_class]) for party in range(len(sizes))])
    return replace(dealt, parties=parties, left_out=0, measures=measures)


def _bisect(lot: _Lot, wanted: float) -> tuple[float, np.ndarray]:
    """The alpha, and its counts, whose distance is nearest among those that are tried. The distance is at least
    `wanted` at the lower end and at most that at the upper one all along: they close in on a crossing."""
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
