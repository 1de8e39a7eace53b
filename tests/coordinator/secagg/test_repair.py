"""Wrong shares are found: as many as the code allows, and more where the commitment can be tried."""

from __future__ import annotations

import random
import secrets

import pytest

from consilium.sums.curve import ORDER
from consilium.sums.masks.shares import evaluate, split
from consilium.sums.masks.unmasking import correct, interpolate


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
