"""Classes made rarer at parties than they are: a data set that is balanced by design becomes one that is not.

In the Glyph data of Papernot et al. 2018 (section 4.1) some classes are five times as frequent as others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from consilium.simulations.population.partition import Partition

_PURPOSE = 0x72617265


def unbalanced(partition: Partition, y: np.ndarray, ratio: float, least_rows: int, seed: int) -> Partition:
    """The division with fewer private rows: in an order of the classes by lot, the first keeps all of its rows and
    the last 1 / `ratio` of them, those between in geometric steps; which rows, is drawn by lot over all parties.

    y: int64 (rows,) of the whole data set. Parties that are left with fewer than `least_rows` rows are left out.
    Public rows stay as they are.
    """
    rows = np.concatenate([*partition.parties.values()])
    classes = np.unique(y[rows])
    generator = np.random.default_rng([seed, _PURPOSE])
    shares = ratio ** -np.linspace(0, 1, max(len(classes), 2))[: len(classes)]
    kept = np.zeros(len(y), dtype=bool)
    for label, share in zip(generator.permutation(classes), shares, strict=True):
        mine = generator.permutation(rows[y[rows] == label])
        kept[mine[: round(share * len(mine))]] = True
    left = {name: own[kept[own]] for name, own in partition.parties.items()}
    large = {name: own for name, own in left.items() if len(own) >= least_rows}
    return replace(partition, parties=large, left_out=partition.left_out + len(left) - len(large))
