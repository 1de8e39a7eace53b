"""Label skew: the rows of each class are dealt to the parties in shares from a Dirichlet distribution.

Yurochkin et al. 2019 (Bayesian nonparametric federated learning, section 4) and Li et al. 2022 (Federated learning on
non-IID data silos, "distribution-based label imbalance"), where parties with too few rows are drawn anew; here none is.
"""

from __future__ import annotations

import numpy as np

_PURPOSE = 0x64697269


def deal_by_class(y: np.ndarray, parties: int, alpha: float, sizes: float, seed: int) -> list[np.ndarray]:
    """Positions in `y` int64 (n,) of each party's rows, in the order of the lot; every row is dealt once.

    Each class has shares (parties,) of its own from Dirichlet(alpha, ..., alpha): the smaller alpha, the fewer parties
    have most of it. The shares are multiplied by the parties' weights exp(sizes z), z standard normal, and scaled to
    sum 1; with sizes 0 the parties are of different sizes by their shares alone. A party that gets nothing takes one
    row by lot from the party that has most, the first of these; `n` must be `parties` at least.

    >>> [len(part) for part in deal_by_class(np.zeros(5, dtype=np.int64), 5, 0.01, 0.0, 0)]
    [1, 1, 1, 1, 1]
    """
    generator = np.random.default_rng([seed, _PURPOSE])
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
