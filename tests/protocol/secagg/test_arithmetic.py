"""Rings, masks and shared secrets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.sums.curve import ORDER
from consilium.sums.errors import OverflowRisk
from consilium.sums.masks.ring import MaskAdder, choose_ring, decode, encode, pair_key, self_key, sigma_total
from consilium.sums.masks.shares import combine, dual_weights, lagrange, point, share_bytes, share_value, split


@pytest.mark.parametrize(
    ("largest", "noise", "bits"),
    [(1, 0.0, 16), (2**15 - 1, 0.0, 16), (2**15, 0.0, 32), (100, 3629.0, 16), (107, 3629.0, 32), (2**31 - 1, 0.0, 32)],
)
def test_the_smallest_ring_that_is_safe(largest: int, noise: float, bits: int) -> None:
    assert choose_ring(largest, noise) == bits


@pytest.mark.parametrize(("largest", "noise"), [(2**31, 0.0), (0, 2**31 / 9)])
def test_no_ring_is_large_enough(largest: int, noise: float) -> None:
    with pytest.raises(OverflowRisk, match="2147483648"):
        choose_ring(largest, noise)


def test_noise_is_taken_as_if_nobody_drops() -> None:
    assert sigma_total(100.0, 25, 100) == 200.0
    assert sigma_total(0.0, 1, 100) == 0.0


@pytest.mark.parametrize("bits", [16, 32])
def test_ring_is_signed(bits) -> None:
    edge = 2 ** (bits - 1)
    values = np.array([0, 1, -1, edge - 1, -edge, edge, -edge - 1, 2**bits + 3])
    coded = encode(values, bits)
    assert coded.dtype == np.dtype(f"uint{bits}")
    assert decode(coded, bits).tolist() == [0, 1, -1, edge - 1, -edge, -edge, edge - 1, 3]
    with np.errstate(over="ignore"):
        assert decode(encode(np.array([edge - 1]), bits) + encode(np.array([-5]), bits), bits) == [edge - 6]


@pytest.mark.parametrize("bits", [16, 32])
def test_pair_masks_cancel_and_own_masks_come_off(bits) -> None:
    shape, key = (7, 3), bytes(range(32))
    adder = MaskAdder(shape, bits)
    one, other = (np.zeros(shape, dtype=f"uint{bits}") for _ in range(2))
    adder.add_pair(one, key, 1, 2)
    assert one.any()
    adder.add_pair(other, key, 2, 1)
    assert not (one + other).any()
    adder.remove_pair(one, key, 1, 2)
    adder.add(other, key)
    adder.subtract(other, key)
    adder.remove_pair(other, key, 2, 1)
    assert not one.any() and not other.any()


def test_keys_differ_by_purpose_session_and_party() -> None:
    secret, ctx = bytes(32), bytes(range(32))
    keys = [
        self_key(secret, ctx, 1),
        self_key(secret, ctx, 2),
        self_key(secret, bytes(32), 1),
        pair_key(secret, ctx, 1, 2),
        pair_key(secret, ctx, 1, 3),
        pair_key(secret, bytes(32), 1, 2),
    ]
    assert len(set(keys)) == 6
    assert pair_key(secret, ctx, 2, 1) == pair_key(secret, ctx, 1, 2)


def test_the_prime_is_one() -> None:
    """Fermat's test to forty bases."""
    assert all(pow(base, ORDER - 1, ORDER) == 1 for base in range(2, 42))


@given(st.integers(0, ORDER - 1), st.data())
def test_any_t_shares_give_the_secret(secret: int, data: st.DataObject) -> None:
    points = data.draw(st.lists(st.integers(1, 1000), min_size=1, max_size=12, unique=True))
    t = data.draw(st.integers(1, len(points)))
    shares = dict(zip(points, split(secret, t, points), strict=True))
    chosen = data.draw(st.permutations(points))[:t]
    assert combine(lagrange(chosen), [shares[x] for x in chosen]) == secret
    assert all(share_value(share_bytes(share)) == share for share in shares.values())


def test_fewer_than_t_shares_fit_any_secret() -> None:
    """t - 1 shares and any other secret lie on a polynomial of degree t - 1: they tell nothing."""
    points = [1, 2, 3, 4]
    shares = split(7, 5, [*points, 5])[:4]
    other = 9
    weights = lagrange([*points, 9])
    missing = (
        (other - sum(w * s for w, s in zip(weights[:4], shares, strict=True))) * pow(weights[4], -1, ORDER) % ORDER
    )
    assert combine(weights, [*shares, missing]) == other
    assert combine(lagrange(points), shares) != 7


def test_sharing_is_random_and_of_full_degree() -> None:
    points = list(range(1, 6))
    first, second = split(0, 3, points), split(0, 3, points)
    assert not set(first) & set(second)
    assert combine(lagrange(points[:2]), first[:2]) != 0


@pytest.mark.parametrize(("n", "t"), [(3, 3), (4, 3), (10, 7), (50, 34)])
def test_dual_weights_see_every_polynomial_of_too_high_degree(n: int, t: int) -> None:
    """And no other; of n = t points there is none. A false alarm, or a miss, comes once in 2^252."""
    points = list(range(1, n + 1))
    dual = dual_weights(points, lagrange(points), t)
    assert combine(dual, split(5, t, points)) == 0
    if n > t:
        assert combine(dual, split(5, t + 1, points)) != 0
        shares = split(5, t, points)
        shares[1] += 1
        assert combine(dual, shares) != 0


@pytest.mark.parametrize(
    ("secret", "threshold", "points"),
    [(ORDER, 2, [1, 2]), (-1, 2, [1, 2]), (0, 3, [1, 2]), (0, 0, [1]), (0, 1, [0, 1])],
)
def test_sharing_that_cannot_be(secret: int, threshold: int, points: list[int]) -> None:
    with pytest.raises(ValueError):
        split(secret, threshold, points)


def test_values_that_are_no_share_or_secret() -> None:
    assert share_value(ORDER.to_bytes(32, "little")) is None
    assert share_value((ORDER - 1).to_bytes(32, "little")) == ORDER - 1
    assert share_value(bytes(33)) is None
    assert point(0) == 1
    with pytest.raises(ValueError, match="twice"):
        lagrange([1, 1])
