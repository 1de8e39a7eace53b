"""Who is in an exact sum: whole blocks of parties, the same for ever.

Proof that no sums, of whatever rosters, pools and federations, tell one honest party's vote. A party gives to an exact
sum only where the roster's block of it is the one that it gave with first, and all of that block is in the sum, with
one weight. Of a block's c + 2 parties two are honest, and both hold to it: they are in the same sums. So every linear
combination of sums has one coefficient for both, and none has a single honest party's vote in it alone.

A block is remembered by public keys, and never grows: a sum before and one after would tell the vote of who came. One
of which a party left or has a new key is never whole again. Sums with noise in them have no such rule, since what they
tell together is charged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from consilium.protocol.secagg.errors import BrokenBlock

Blocks = tuple[frozenset[int], ...]
"""Places of the parties of each block of a roster."""


def assigned(
    keys: Sequence[str], weights: Sequence[int], least: int, earlier: Iterable[Collection[str]] = ()
) -> tuple[int, ...]:
    """The number of each party's block, from 1 on; 0 for one that is in no exact sum.

    Earlier blocks that are there whole stay. Parties of others have none any more. All others form blocks of at least
    `least` parties of one weight, as small as that allows, in the order of `keys`; of too few of a weight, none.

    >>> assigned("abcdefg", [1, 1, 1, 1, 1, 2, 2], 2)
    (1, 1, 1, 2, 2, 3, 3)
    >>> assigned("abcdefg", [1] * 7, 2, earlier=["cd", "ex"])
    (2, 2, 1, 1, 0, 3, 3)
    """
    numbers, last = [0] * len(keys), 0
    place = {key: at for at, key in enumerate(keys)}
    blocks = [set(block) for block in earlier]
    free = set(keys).difference(*blocks)
    for block in blocks:
        there = [place[key] for key in block if key in place]
        if len(there) == len(block) >= least and len({weights[at] for at in there}) == 1 and not numbers[there[0]]:
            last += 1
            for at in there:
                numbers[at] = last
    for weight in sorted(set(weights)):
        group = [at for at, key in enumerate(keys) if key in free and weights[at] == weight]
        count = len(group) // least
        for order, at in enumerate(group if count else ()):
            numbers[at] = last + 1 + order * count // len(group)
        last += count
    return tuple(numbers)


def blocks_of(numbers: Sequence[int]) -> Blocks:
    """Places by block.

    >>> blocks_of([1, 0, 2, 1])
    (frozenset({0, 3}), frozenset({2}))
    """
    places: dict[int, set[int]] = {}
    for place, number in enumerate(numbers):
        if number:
            places.setdefault(number, set()).add(place)
    return tuple(frozenset(places[number]) for number in sorted(places))


def check_blocks(numbers: Sequence[int], weights: Sequence[int], least: int) -> None:
    """Raise ValueError for a roster of which a block has fewer than `least` parties, or several weights."""
    for block in blocks_of(numbers):
        if len(block) < least:
            raise ValueError(
                f"a block has {len(block)} parties, at least c + 2 = {least} are needed: its sum would tell a single"
                " honest party's votes"
            )
        if len({weights[place] for place in block}) > 1:
            raise ValueError("the parties of a block have several weights: an exact sum would tell them apart")


def whole(blocks: Blocks, there: Collection[int]) -> frozenset[int]:
    """The parties of all blocks that are there whole.

    >>> sorted(whole((frozenset({0, 1}), frozenset({2, 3})), {0, 2, 3}))
    [2, 3]
    """
    return frozenset[int]().union(*(block for block in blocks if block <= frozenset(there)))


def check_whole(blocks: Blocks, summed: Collection[int]) -> None:
    """Raise BrokenBlock for an exact sum that has a part of a block, or somebody of none, in it."""
    alone = frozenset(summed) - whole(blocks, summed)
    if alone:
        raise BrokenBlock(f"{len(alone)} parties of this exact sum are there without all of their block")


def check_kept(block: frozenset[str], first: frozenset[str]) -> None:
    """Raise BrokenBlock if a party may not give to an exact sum.

    block : keys of its block in the roster of that sum, its own among them; empty if it has none.
    first : keys of its block in the first exact sum that it gave to; empty if it gave to none.
    """
    if not block:
        raise BrokenBlock("the roster has it in no block, and so in no exact sum")
    if first and block != first:
        raise BrokenBlock(
            f"{len(first - block)} of the {len(first)} parties of a block that was in exact sums are in it no more, and"
            f" {len(block - first)} others are"
        )
