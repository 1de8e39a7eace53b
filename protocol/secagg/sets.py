"""Which sets of parties may be summed exactly, one after another.

The difference of two exact sums is the sum over the parties that are in one of them only. On one side of it must be
nobody on both sides, or enough that no honest party is alone: `least_difference` of the roster, at least c + 2.

Where parties have weights, a sum may tell the votes of each weight by themselves: an odd count shows the one party of
weight 1 among parties of weight 2. So the rule holds for the parties of each weight, and those of one weight who are in
a sum are as many at least, as if a sum without them had gone before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def difference(one: Collection[int], other: Collection[int]) -> int | None:
    """By how many parties two sets differ on the side where they differ least; None if they are the same.

    >>> difference({1, 2, 3, 4}, {3, 4, 5, 6}), difference({1, 2, 3}, {1, 2}), difference({1}, {1})
    (2, 0, None)
    """
    one, other = set(one), set(other)
    return None if one == other else min(len(one - other), len(other - one))


def by_weight(weights: Sequence[int]) -> tuple[frozenset[int], ...]:
    """Places of the parties of each weight, the least weight first.

    >>> by_weight([2, 1, 2])
    (frozenset({1}), frozenset({0, 2}))
    """
    return tuple(
        frozenset(place for place, weight in enumerate(weights) if weight == each) for each in sorted(set(weights))
    )


def nearest(
    chosen: Collection[int], earlier: Iterable[Collection[int]], groups: Sequence[frozenset[int]] = ()
) -> int | None:
    """The smallest `difference` to any earlier set; None if there is none but the same.

    groups: places of the parties of each weight, where there are several: the smallest of any group, and of how many
    of a group are there if any are.

    >>> nearest({1, 2, 3, 4}, [{3, 4, 5, 6}, {1, 2, 3, 5}])
    1
    >>> nearest({1, 2, 3, 4}, [{3, 4, 5, 6}], [frozenset({1, 2, 5}), frozenset({3, 4, 6})])
    0
    """
    if len(groups) < 2:
        differences = [difference(chosen, other) for other in earlier]
    else:
        differences = [difference(group & {*chosen}, group & {*other}) for other in earlier for group in groups]
        differences += [len(group & {*chosen}) or None for group in groups]
    return min((found for found in differences if found is not None), default=None)


def allowed(chosen: Collection[int], earlier: Iterable[Collection[int]], least: int) -> bool:
    """Whether the set may be summed after the earlier ones.

    >>> allowed({1, 2, 3, 4}, [{3, 4, 5, 6}], 2), allowed({1, 2, 3, 4}, [{1, 2, 3}], 2)
    (True, False)
    """
    found = nearest(chosen, earlier)
    return found is None or found >= least
