"""One liar among blocks is left out after a bounded number of spoiled sums, whenever it chooses to lie.

Wrong shares are found: as many as the code allows, and more where the commitment can be tried.
"""

from __future__ import annotations

import random
import secrets

import numpy as np
import pytest

from consilium.coordinator.collection.history import Block, most_spoiled, narrowed, set_aside
from consilium.sums.curve import ORDER
from consilium.sums.masks.shares import evaluate, split
from consilium.sums.masks.unmasking import correct, interpolate
from consilium.sums.roster import least_sum


def blocks_of(n: int) -> list[Block]:
    """Pairs; the last block has three of an odd number."""
    pairs = [frozenset({at, at + 1}) for at in range(0, n - 1, 2)]
    return pairs if n % 2 == 0 else [*pairs[:-1], pairs[-1] | {n - 1}]


def search(n: int, liar: int, lies: float, rng: np.random.Generator, away: int = 0, sums: int = 500) -> tuple[int, int]:
    """Spoiled sums, and sums in all, until the liar's block is out. lies: in how many of the sums that it is in.
    away: parties that are not there, others each time."""
    blocks, least = blocks_of(n), least_sum(n, 0)
    suspects: list[Block] = []
    spoiled = 0
    for number in range(1, sums + 1):
        gone = set(rng.choice(n, away, replace=False).tolist())
        there = frozenset[int]().union(*(block for block in blocks if not block & gone))
        summed = there - set_aside(suspects, there, least, rng)
        if len(summed) < least:
            continue
        if liar in summed and rng.random() < lies:
            spoiled += 1
            suspects = narrowed(suspects, [block for block in blocks if block <= summed])
            if len(suspects) == 1:
                assert liar in suspects[0], "nobody else is left out"
                return spoiled, number
    return spoiled, sums


@pytest.mark.parametrize("lies", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("n", [7, 20, 207])
def test_whoever_lies_now_and_then_is_out_after_a_bounded_number_of_spoiled_sums(n: int, lies: float) -> None:
    rng = np.random.default_rng([n, int(10 * lies)])
    spare = (n - least_sum(n, 0)) // 2
    for _ in range(30):
        spoiled, _ = search(n, int(rng.integers(n)), lies, rng)
        assert 0 < spoiled <= most_spoiled(n // 2, spare)


def test_of_a_hundred_and_more_the_liar_is_out_though_a_tenth_is_away() -> None:
    rng = np.random.default_rng(5)
    found = [search(207, int(rng.integers(207)), 1.0, rng, away=21) for _ in range(20)]
    assert max(spoiled for spoiled, _ in found) <= 12 and max(sums for _, sums in found) < 60


def test_while_nobody_can_be_spared_a_sum_is_not_made_smaller() -> None:
    """Ten, of which seven must be there: with one away, its block is cleared and no other is set aside."""
    blocks = blocks_of(10)
    there = frozenset(range(8))
    assert set_aside(blocks, there, 7, np.random.default_rng(0)) == frozenset()
    assert narrowed(blocks, blocks[:4]) == blocks[:4]


def shared(m: int, t: int, wrong: list[int]) -> tuple[int, list[int], list[int]]:
    """A secret, points and shares, those at `wrong` being random."""
    secret = secrets.randbelow(ORDER)
    points = random.Random(m).sample(range(1, 4 * m), m)
    shares = split(secret, t, points)
    for at in wrong:
        shares[at] = secrets.randbelow(ORDER)
    return secret, points, shares


@pytest.mark.parametrize(
    ("m", "t", "wrong"),
    [
        (3, 3, []),
        (7, 5, [0]),
        (7, 5, [6]),
        (6, 5, [2]),
        (20, 14, [1, 5, 19]),
        (20, 2, list(range(9))),
        (60, 30, list(range(15))),
        (12, 4, [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_wrong_shares_are_found(m: int, t: int, wrong: list[int]) -> None:
    secret, points, shares = shared(m, t, wrong)
    assert correct(points, shares, t, lambda found: found == secret) == (secret, wrong)


@pytest.mark.parametrize(("m", "t", "wrong"), [(3, 3, [1]), (60, 30, list(range(16))), (6, 5, [0, 1])])
def test_too_many_wrong_shares(m: int, t: int, wrong: list[int]) -> None:
    secret, points, shares = shared(m, t, wrong)
    assert correct(points, shares, t, lambda found: found == secret) is None


def test_what_the_commitment_denies_is_not_taken() -> None:
    _, points, shares = shared(9, 4, [])
    assert correct(points, shares, 4, lambda found: False) is None


def test_interpolation_goes_through_all_points() -> None:
    values = [secrets.randbelow(ORDER) for _ in range(20)]
    points = list(range(5, 25))
    assert evaluate(interpolate(points, values), points) == values
    assert interpolate([1, 2, 3], [0, 0, 0]) == []
