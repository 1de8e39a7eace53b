"""Which sets of parties may be summed exactly, one after another.

The difference of two exact sums is the sum over the parties that are in one of them only. On one side of it must be
nobody on both sides, or enough that no honest party is alone: `least_difference` of the roster, at least c + 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


def difference(one: Collection[int], other: Collection[int]) -> int | None:
    """By how many parties two sets differ on the side where they differ least; None if they are the same.

    >>> difference({1, 2, 3, 4}, {3, 4, 5, 6}), difference({1, 2, 3}, {1, 2}), difference({1}, {1})
    (2, 0, None)
    """
    one, other = set(one), set(other)
    return None if one == other else min(len(one - other), len(other - one))


def nearest(chosen: Collection[int], earlier: Iterable[Collection[int]]) -> int | None:
    """The smallest `difference` to any earlier set; None if there is none but the same.

    >>> nearest({1, 2, 3, 4}, [{3, 4, 5, 6}, {1, 2, 3, 5}])
    1
    """
    differences = [difference(chosen, other) for other in earlier]
    return min((found for found in differences if found is not None), default=None)


def allowed(chosen: Collection[int], earlier: Iterable[Collection[int]], least: int) -> bool:
    """Whether the set may be summed after the earlier ones.

    >>> allowed({1, 2, 3, 4}, [{3, 4, 5, 6}], 2), allowed({1, 2, 3, 4}, [{1, 2, 3}], 2)
    (True, False)
    """
    found = nearest(chosen, earlier)
    return found is None or found >= least
