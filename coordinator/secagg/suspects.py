"""In whose block is the party that gives an exact sum a wrong total?

Masks hide who it is. But exact sums are over whole blocks (`protocol.secagg.blocks`), asking one again uses nothing up,
and honest parties never spoil a total: one of the blocks that were in a spoiled sum lies. So a block that was in none
of the sums that were spoiled since is cleared, and each sum is taken without half of those that are left, as far as
enough parties remain. Sums that come out right clear nobody, since a liar may lie now and then; they cost nothing
either. With k blocks of which g can be spared, one liar spoils at most `most_spoiled(k, g)` sums before its block is
the only one left, however it chooses when to lie. Liars in several blocks can have another block left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

Block = frozenset[int]
"""Places in the roster."""


def narrowed(suspects: Sequence[Block], summed: Collection[Block]) -> list[Block]:
    """The blocks of which one holds a liar, once the sum over the blocks `summed` was spoiled.

    suspects : those so far; none where no sum was spoiled yet. Where they were all left out of this sum there is a
    second liar, and the search begins anew.

    >>> a, b, c = frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5})
    >>> narrowed([], [a, b]) == [a, b], narrowed([a, b], [b, c]) == [b], narrowed([a], [b, c]) == [b, c]
    (True, True, True)
    """
    return [block for block in suspects if block in summed] or sorted(summed, key=min)


def set_aside(suspects: Sequence[Block], there: Collection[int], least: int, rng: np.random.Generator) -> Block:
    """Who is left out of the next sum: blocks at random, so that half of the suspects are not in it.

    there : places of the parties that could be summed. least : how many must be.
    """
    present = [block for block in suspects if block <= {*there}]
    wanted, room = len(suspects) // 2 - (len(suspects) - len(present)), len(there) - least
    aside: list[Block] = []
    for at in rng.permutation(len(present)):
        if len(aside) < wanted and len(present[at]) <= room:
            aside.append(present[at])
            room -= len(present[at])
    return frozenset[int]().union(*aside)


def most_spoiled(blocks: int, spare: int) -> int:
    """Sums that one liar can spoil before its block is out, where all parties are there. spare : blocks that a sum can
    do without, at least one.

    >>> most_spoiled(5, 1), most_spoiled(103, 34)
    (5, 9)
    """
    spoiled = 1
    while blocks > 1:
        blocks -= min(spare, blocks // 2)
        spoiled += 1
    return spoiled
