"""How far the features of a party lie from those of all others: MMD, and how well a classifier tells them apart.

Both look at rows as models see them (`Schema.inputs`), and never at labels.

MMD (Gretton, Borgwardt, Rasch, Schoelkopf, Smola, A kernel two-sample test, JMLR 13, 2012): E k(a, a') + E k(b, b') -
2 E k(a, b) for rows a of the party and b of the others, the *squared* distance of their mean embeddings, by the
unbiased estimate (their Lemma 6), which is 0 in the mean where both come from one distribution, and so below 0 at
times. The kernel is exp(-|x - y|^2 / 2 s^2) on random Fourier features (Rahimi, Recht 2007), with the same frequencies
and the same s for all parties; s is the median distance of public rows, which no party has a hand in.

Classifier two-sample test (Lopez-Paz, Oquab, Revisiting classifier two-sample tests, ICLR 2017): the area under the ROC
curve of a logistic regression that tells a party's rows from those of the others, on rows that it was not trained on;
.5 where there is nothing to tell. All rows of one patient are in the same fold, where the data set says whose they are.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from consilium.simulations.study.case import Case
from consilium.simulations.study.measures.figures import Divided, Figures, ratio
from consilium.student.evaluation import area_under_curve

MOST_ROWS = 20_000
"""Rows that MMD looks at: of each party at most so many, by lot, that all parties together have no more."""
FREQUENCIES = 256
WIDTH = 256
"""Inputs beyond which rows are seen in so many random directions (Johnson, Lindenstrauss 1984), which keep distances:
images have thousands."""
MEDIAN_OF = 500
"""Public rows whose median distance is the kernel's width."""
LOTS = 20
"""Times that rows are dealt to the parties by lot, for the floor of MMD."""
JUDGED = 20
"""Parties, the largest ones, that a classifier tells from the others."""
LEAST_JUDGED = 12
"""Rows that such a party has at least."""
OWN_ROWS, OTHER_ROWS = 500, 1500
"""Of a party and of the others, by lot, that a classifier sees at most."""
FOLDS = 3
_BLOCK = 4096
_PURPOSE = 0x66656174


def add_features(told: Figures, case: Case, divided: Divided) -> None:
    """run: mmd2 (mean over parties with two rows at least, quantiles), mmd2_weighted (mean by rows), floors of both;
    c2st_auc_mean with its interval, c2st_parties: how many were judged. party: mmd2, c2st_auc."""
    generator = np.random.default_rng([case.seed, _PURPOSE])
    look = Look(case, generator)
    _add_mmd(told, case, divided, look, generator)
    _add_classifier(told, case, divided, look, generator)


class Look:
    """Rows as the kernel and the classifiers see them."""

    def __init__(self, case: Case, generator: np.random.Generator) -> None:
        self._case = case
        inputs = case.config.rows.inputs(case.pool_x[:1]).shape[1]
        self._onto: np.ndarray | None = None
        if inputs > WIDTH:
            self._onto = generator.standard_normal((inputs, WIDTH)) / np.sqrt(WIDTH)
        rows = case.partition.queries
        public = self.inputs(generator.permutation(rows)[:MEDIAN_OF])
        median = float(np.median(pdist(public))) if len(public) > 1 else 0.0
        self.width = median if median > 0 else 1.0  # public rows that are all alike say nothing
        self._frequencies = generator.standard_normal((public.shape[1], FREQUENCIES)) / self.width

    def inputs(self, rows: np.ndarray) -> np.ndarray:
        """Float64 (n, at most WIDTH) of rows by index int64 (n,)."""
        seen = self._case.config.rows.inputs(self._case.dataset.x[rows])
        return seen if self._onto is None else seen @ self._onto

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        """Float32 (n, 2 FREQUENCIES), each of length 1, whose products are the kernel."""
        found = np.empty((len(rows), 2 * FREQUENCIES), dtype=np.float32)
        for start in range(0, len(rows), _BLOCK):
            phases = self.inputs(rows[start : start + _BLOCK]) @ self._frequencies
            found[start : start + _BLOCK, :FREQUENCIES] = np.cos(phases)
            found[start : start + _BLOCK, FREQUENCIES:] = np.sin(phases)
        found /= np.sqrt(FREQUENCIES)
        return found


def unbiased_mmd2(embedded: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Each party against all others, float64 (parties,); NaN for one row by itself, or against one.

    `embedded` float (n, width), rows of length 1, party after party; `sizes` int64 (parties,), each at least 1.

    >>> rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> unbiased_mmd2(rows, np.array([2, 2])).tolist()
    [2.0, 2.0]
    """
    starts = np.r_[0, np.cumsum(sizes)[:-1]]
    own = np.add.reduceat(embedded, starts, axis=0, dtype=np.float64)
    others, rest = own.sum(axis=0) - own, len(embedded) - sizes
    with np.errstate(invalid="ignore", divide="ignore"):
        within = ((own**2).sum(axis=1) - sizes) / (sizes * (sizes - 1.0))
        outside = ((others**2).sum(axis=1) - rest) / (rest * (rest - 1.0))
        found = within + outside - 2 * (own * others).sum(axis=1) / (sizes * rest)
    return np.where((sizes > 1) & (rest > 1), found, np.nan)


def _add_mmd(told: Figures, case: Case, divided: Divided, look: Look, generator: np.random.Generator) -> None:
    taken = _capped(divided.party, generator)
    sizes, every = np.bincount(divided.party[taken]), np.bincount(divided.party)
    embedded = look.embedded(divided.rows[taken])
    found = unbiased_mmd2(embedded, sizes)
    known = ~np.isnan(found)
    told.each("party", case.parties, "mmd2", found)
    if not known.any():
        return
    weights = every[known] / every[known].sum()
    chance = [unbiased_mmd2(embedded[generator.permutation(len(embedded))], sizes)[known] for _ in range(LOTS)]
    told.spread("mmd2", found[known])
    told.floor("mmd2_mean", np.array([dealt.mean() for dealt in chance]))
    told.run("mmd2_weighted", found[known] @ weights)
    told.floor("mmd2_weighted", np.array([dealt @ weights for dealt in chance]))


def _capped(party: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Positions int64, in order: of each party as many rows by lot as keep the whole within `MOST_ROWS`, at least 2."""
    sizes = np.bincount(party)
    if sizes.sum() <= MOST_ROWS:
        return np.arange(len(party))
    most = max((cap for cap in range(2, int(sizes.max())) if np.minimum(sizes, cap).sum() <= MOST_ROWS), default=2)
    lot = generator.permutation(len(party))
    by_party = lot[np.argsort(party[lot], kind="stable")]
    place = np.arange(len(party)) - np.repeat(np.r_[0, np.cumsum(sizes)[:-1]], sizes)
    return np.sort(by_party[place < most])


def _add_classifier(told: Figures, case: Case, divided: Divided, look: Look, generator: np.random.Generator) -> None:
    sizes = np.bincount(divided.party)
    if len(sizes) < 2:
        return
    areas = np.full(len(sizes), np.nan)
    for at in np.argsort(-sizes, kind="stable")[:JUDGED]:
        own, others = np.flatnonzero(divided.party == at), np.flatnonzero(divided.party != at)
        if min(len(own), len(others)) >= LEAST_JUDGED:
            mine, rest = generator.permutation(own)[:OWN_ROWS], generator.permutation(others)[:OTHER_ROWS]
            rows = divided.rows[np.r_[mine, rest]]
            unit = rows if case.dataset.patient is None else case.dataset.patient[rows]
            areas[at] = told_apart(look.inputs(rows), np.arange(len(rows)) < len(mine), unit, generator)
    judged = areas[~np.isnan(areas)]
    told.each("party", case.parties, "c2st_auc", areas)
    told.run("c2st_parties", len(judged))
    if len(judged):
        told.estimate("c2st_auc_mean", ratio(judged, np.ones(len(judged)), generator))


def told_apart(x: np.ndarray, own: np.ndarray, unit: np.ndarray, generator: np.random.Generator) -> float:
    """Area under the curve of a logistic regression that tells rows that are `own` bool (n,) from the others.

    x: float64 (n, inputs), standardised. unit: int64 (n,), whose each row is. Pairs are of rows of one fold, that one
    regression has judged and not seen; NaN where no fold has both kinds.
    """
    from sklearn.linear_model import LogisticRegression  # half a second to import: only where it is used

    fold = np.zeros(len(x), dtype=np.int64)
    for kind in (own, ~own):
        fold[kind] = _folds(unit[kind], generator)
    ordered, pairs = 0.0, 0.0
    for index in range(FOLDS):
        tested = fold == index
        of = float((own & tested).sum()) * float((~own & tested).sum())
        if of and own[~tested].any() and not own[~tested].all():
            model = LogisticRegression(max_iter=300).fit(x[~tested], own[~tested])
            ordered += of * area_under_curve(model.decision_function(x[tested]), own[tested])
            pairs += of
    return ordered / pairs if pairs else float("nan")


def _folds(unit: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Fold int64 (n,) of each row: units by lot, or rows where there are few units."""
    names, which = np.unique(unit, return_inverse=True)
    if len(names) < 2 * FOLDS:
        which = np.arange(len(unit))
    return (generator.permutation(which.max() + 1) % FOLDS)[which]
