"""Classes made rarer than they are: a data set that is balanced by design becomes one that is not.

In the Glyph data of Papernot et al. 2018 (section 4.1) some classes are five times as frequent as others, at parties as
among the public rows.
"""

from __future__ import annotations

import numpy as np

_PURPOSE = 0x72617265


def unbalanced(y: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Which rows are left, bool (rows,). y: int64 (rows,) of the whole data set.

    In an order of the classes by lot, the first keeps all of its rows and the last 1 / `ratio` of them, those between
    in geometric steps; which rows, is drawn by lot.
    """
    classes = np.unique(y)
    generator = np.random.default_rng([seed, _PURPOSE])
    shares = ratio ** -np.linspace(0, 1, max(len(classes), 2))[: len(classes)]
    left = np.zeros(len(y), dtype=bool)
    for label, share in zip(generator.permutation(classes), shares, strict=True):
        mine = generator.permutation(np.flatnonzero(y == label))
        left[mine[: round(share * len(mine))]] = True
    return left
