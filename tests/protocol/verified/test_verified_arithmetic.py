"""The small field, its extension, streams and proofs against Python's integers, term by term."""

from __future__ import annotations

import hashlib
from functools import reduce as fold_left

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from hypothesis import given
from hypothesis import strategies as st

from consilium.sums.aggregators import field
from consilium.sums.aggregators import field as extension
from consilium.sums.aggregators import field as streams
from consilium.sums.aggregators.field import PRIME
from consilium.sums.aggregators.proof import (
    Opener,
    ProofShare,
    Prover,
    VoteGrid,
    challenge_of,
    holds,
    opening_elements,
    proof_elements,
    reading_point,
    soundness_error,
)
from tests.protocol.verified.liars import inverse, random_elements, true_squares

ELEMENT = st.lists(st.integers(0, PRIME - 1), min_size=8, max_size=8)


def ints(values: np.ndarray):
    """Reduced floats -> Python integers below the prime, nested lists."""
    return field.to_wire(values).astype(object).tolist()


def times(one: list[int], other: list[int]) -> list[int]:
    """The product modulo X^8 - 17, term by term."""
    found = [0] * 8
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            found[(i + j) % 8] += a * b * (17 if i + j >= 8 else 1)
    return [value % PRIME for value in found]


def plus(one: list[int], other: list[int]) -> list[int]:
    return [(a + b) % PRIME for a, b in zip(one, other, strict=True)]


def scaled(one: list[int], factor: int) -> list[int]:
    return [value * factor % PRIME for value in one]


def element(values: list[int]) -> np.ndarray:
    return field.reduce(np.array(values, dtype=np.float64))


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=50))
def test_reduction_is_that_of_integers(values) -> None:
    reduced = field.reduce(np.array(values, dtype=np.float64))
    assert (np.abs(reduced) <= 32761).all()
    assert [(int(got) - value) % PRIME for got, value in zip(reduced, values, strict=True)] == [0] * len(values)
    assert field.to_wire(np.array(values, dtype=np.float64)).tolist() == [value % PRIME for value in values]


@pytest.mark.parametrize("multiple", [0, 1, 2**20, 2**36, 2**37 - 9])
def test_reduction_is_exact_around_every_edge(multiple) -> None:
    edges = [multiple * PRIME + offset for offset in (-1, 0, 1, 32759, 32760, 32761, 32762, 65520)]
    signed = [sign * value for value in edges for sign in (1, -1)]
    assert field.to_wire(np.array(signed, dtype=np.float64)).tolist() == [value % PRIME for value in signed]


def test_the_prime_is_the_largest_of_16_bits() -> None:
    def is_prime(number: int) -> bool:
        return all(number % factor for factor in range(2, 257))

    assert [number for number in range(PRIME, 2**16) if is_prime(number)] == [PRIME]


def test_the_extension_is_a_field() -> None:
    """X^8 - 17 is irreducible: X^(p^8) = X modulo it, and X^(p^4) - X has no factor in common with it (Rabin)."""

    def power_of_x(exponent: int) -> list[int]:
        found, base = [1, *[0] * 7], [0, 1, *[0] * 6]
        while exponent:
            found = times(found, base) if exponent & 1 else found
            base, exponent = times(base, base), exponent >> 1
        return found

    x = [0, 1, *[0] * 6]
    assert power_of_x(PRIME**8) == x
    difference = plus(power_of_x(PRIME**4), scaled(x, PRIME - 1))
    # a multiple of X by a scalar that is not zero: no factor in common with X^8 - 17
    assert [bool(value) for value in difference] == [False, True, *[False] * 6]


@given(ELEMENT, ELEMENT)
def test_products_in_the_extension(one, other) -> None:
    product = times(one, other)
    assert ints(extension.multiply(element(one), element(other))) == product
    assert ints(extension.multiply_all(element(one)[None], element(other)[None])[0, 0]) == product
    assert ints(extension.inner(element(one)[None], element(other)[None])) == product


@given(st.lists(st.tuples(ELEMENT, ELEMENT), min_size=1, max_size=6))
def test_inner_products_and_sums_of_squares(pairs) -> None:
    one, other = (np.stack([element(pair[at]) for pair in pairs]) for at in (0, 1))
    assert ints(extension.inner(one, other)) == fold_left(plus, (times(a, b) for a, b in pairs))
    assert ints(extension.square_sums(one[None])[0]) == fold_left(plus, (times(a, a) for a, _ in pairs))


def test_the_largest_sums_are_exact() -> None:
    """2^15 terms, each as large as reduced numbers are: the bound of the folds."""
    largest = np.full((extension.MOST_TERMS, 8), 32761.0)
    product = times([32761] * 8, [32761] * 8)
    assert ints(extension.inner(largest, largest)) == scaled(product, extension.MOST_TERMS)
    assert ints(extension.square_sums(largest[None])[0]) == scaled(product, extension.MOST_TERMS)


@given(ELEMENT, st.lists(st.integers(0, PRIME - 1), min_size=1, max_size=6))
def test_lagrange_reads_a_polynomial_anywhere(where, coefficients) -> None:
    count = len(coefficients)
    values = [sum(c * point**k for k, c in enumerate(coefficients)) % PRIME for point in range(count)]
    wanted, power = [0] * 8, [1, *[0] * 7]
    for coefficient in coefficients:
        wanted, power = plus(wanted, scaled(power, coefficient)), times(power, where)
    factors = ints(extension.lagrange_at(element(where), count))
    assert fold_left(plus, (scaled(factor, value) for factor, value in zip(factors, values, strict=True))) == wanted


@pytest.mark.parametrize("points", [1, 2, 7, 50])
def test_continuation_follows_a_polynomial(points) -> None:
    coefficients = np.random.default_rng(points).integers(0, PRIME, points + 1).tolist()
    values = [sum(c * pow(x, k, PRIME) for k, c in enumerate(coefficients)) % PRIME for x in range(2 * points + 1)]
    found = field.continuation(points) @ np.array(values[: points + 1], dtype=np.float64)
    assert field.to_wire(found).tolist() == values[points + 1 :]


def test_fermat_inverts() -> None:
    one = random_elements(1)[0]
    assert ints(extension.multiply(one, inverse(one))) == [1, *[0] * 7]


def test_a_stream_is_the_keystream_without_what_is_too_large() -> None:
    """A second implementation, number by number, on enough of them that some are replaced."""
    key, count = hashlib.sha256(b"stream").digest(), 40_000
    cipher = Cipher(AES(key), CTR(bytes(16))).encryptor()
    words = np.frombuffer(cipher.update(bytes(2 * count + 4096)), dtype="<u2").tolist()
    later = (word for word in words[count:] if word < PRIME)
    wanted = [word if word < PRIME else next(later) for word in words[:count]]
    assert sum(word >= PRIME for word in words[:count]) > 0
    assert streams.elements(key, count).tolist() == wanted


def test_a_stream_finds_enough_replacements() -> None:
    """Half a million numbers, of which more are too large than one look ahead gives."""
    found = streams.elements(hashlib.sha256(b"long").digest(), 600_000)
    assert len(found) == 600_000
    assert field.is_canonical(found)


def test_the_reading_point_is_never_in_the_small_field(monkeypatch) -> None:
    from consilium.sums.aggregators import proof as binder

    drawn = iter([np.array([3] + [0] * 7, dtype=np.uint16), np.arange(8, dtype=np.uint16)])
    monkeypatch.setattr(binder, "elements", lambda key, count: next(drawn))
    assert reading_point(bytes(32), bytes(32)).tolist() == list(range(8))


def test_grids_hold_all_rows_and_little_else() -> None:
    for rows in (1, 2, 3, 4, 5, 12, 99, 10_000, 2**24):
        grid = VoteGrid(rows, 2, 1)
        assert (grid.lines - 1) * grid.points < rows <= grid.lines * grid.points
        assert 1 <= grid.last_points <= grid.points
        assert grid.lines <= extension.MOST_TERMS
        assert 2 * grid.points < PRIME


@pytest.mark.parametrize(("queries", "classes", "teachers"), [(1, 2, 1), (2, 2, 1), (7, 3, 2), (50, 10, 1), (33, 4, 5)])
def test_the_prover_is_the_plain_formula(queries, classes, teachers) -> None:
    grid = VoteGrid(queries, classes, teachers)
    picks = np.random.default_rng(3).integers(0, classes, grid.rows)
    challenge, starts = challenge_of(grid, bytes(32), 0, b"a", b"b"), random_elements(grid.lines)
    matrix = np.eye(classes, dtype=np.int64)[picks]
    prover = Prover(grid)
    plain = field.to_wire(true_squares(grid, matrix, challenge, starts))
    for _ in range(2):  # its memory is reused
        assert np.array_equal(field.to_wire(prover(picks, challenge, starts)), plain)


def test_an_opening_is_what_the_formulas_say() -> None:
    """All of it in Python's integers: f_l(t), F(t) and the two linear checks, for the leader of votes in one share."""
    grid = VoteGrid(5, 3, 1)
    rng = np.random.default_rng(0)
    share = rng.integers(0, PRIME, grid.cells).astype(np.uint16)
    content = rng.integers(0, PRIME, proof_elements(grid)).astype(np.uint16)
    challenge, t = challenge_of(grid, bytes(32), 0, b"a", b"b"), reading_point(bytes(32), bytes(32))
    opened = Opener(grid, t, leads=True)(share, ProofShare.read(grid, content), challenge).reshape(-1, 8).tolist()
    r, u, y = ints(challenge.r), ints(challenge.u), ints(challenge.y)
    starts, values = (
        content[: grid.lines * 8].reshape(-1, 8).tolist(),
        content[grid.lines * 8 :].reshape(-1, 8).tolist(),
    )
    along, whole = ints(extension.lagrange_at(t, grid.points + 1)), ints(extension.lagrange_at(t, grid.values))
    zero = [0] * 8
    lines = [times(along[0], start) for start in starts]
    squares, ones = zero, zero
    for row, cells in enumerate(share.reshape(-1, 3).tolist()):
        line, point = divmod(row, grid.points)
        z = fold_left(plus, (scaled(factor, cell) for factor, cell in zip(r, cells, strict=True)))
        lines[line] = plus(lines[line], times(along[point + 1], times(y[line], z)))
        weight = times(u[point], times(y[line], y[line]))
        of_squares = fold_left(plus, (scaled(times(factor, factor), c) for factor, c in zip(r, cells, strict=True)))
        squares = plus(squares, times(weight, of_squares))
        ones = plus(ones, scaled(weight, sum(cells) - 1))
    of_values = fold_left(plus, (times(u[m], values[m + 1]) for m in range(grid.points)))
    assert opened[: grid.lines] == lines
    assert opened[-3] == fold_left(plus, (times(a, b) for a, b in zip(whole, values, strict=True)))
    assert opened[-2] == plus(of_values, scaled(squares, PRIME - 1))
    assert opened[-1] == ones


def test_the_stated_soundness() -> None:
    small, large = VoteGrid(10_000, 10, 1), VoteGrid(2**24, 2, 1)
    assert soundness_error(small, 1) < 2**-120
    assert soundness_error(large, 2**60) < 2**-64


def openings_of_random(grid: VoteGrid, count: int, seed: int) -> int:
    """How many of so many random vectors with random proofs pass."""
    rng = np.random.default_rng(seed)
    t, passed = reading_point(bytes(32), bytes(32)), 0
    lead, other = Opener(grid, t, leads=True), Opener(grid, t, leads=False)
    challenge = challenge_of(grid, bytes(32), 0, b"a", b"b")
    for _ in range(count):
        shares = rng.integers(0, PRIME, (2, grid.cells)).astype(np.uint16)
        proofs = rng.integers(0, PRIME, (2, proof_elements(grid))).astype(np.uint16)
        one = lead(shares[0], ProofShare.read(grid, proofs[0]), challenge)
        passed += holds(grid, one, other(shares[1], ProofShare.read(grid, proofs[1]), challenge))
    return passed


@pytest.mark.slow
def test_five_hundred_random_vectors_fail() -> None:
    assert openings_of_random(VoteGrid(4, 3, 1), 500, 0) == 0


@pytest.mark.proofs
def test_a_hundred_thousand_random_vectors_fail() -> None:
    assert openings_of_random(VoteGrid(4, 3, 1), 100_000, 1) == 0


def test_small_fields_would_let_liars_through() -> None:
    """The control of the bound: read in the small field, where t has 65,521 values, an F that is false at t = 5 alone
    of the small points passes there, and nowhere else."""
    grid = VoteGrid(9, 3, 1)
    rng = np.random.default_rng(0)
    challenge, starts = challenge_of(grid, bytes(32), 0, b"a", b"b"), random_elements(grid.lines)
    matrix = np.eye(3, dtype=np.int64)[rng.integers(0, 3, 9)]
    values = true_squares(grid, matrix, challenge, starts)
    # a multiple of (X - 5)(X - 1)...(X - points): zero at the points, so that the linear checks hold, and at 5
    where = np.arange(grid.values)
    factor = np.ones(grid.values, dtype=np.int64)
    for root in [*range(1, grid.points + 1), 5]:
        factor = factor * (where - root) % PRIME
    forged = values.copy()
    forged[:, 0] += factor
    proof = np.concatenate((starts, field.reduce(forged))).ravel()
    share, none = matrix.ravel().astype(np.uint16), np.zeros(grid.cells, dtype=np.uint16)
    empty = ProofShare.read(grid, np.zeros(proof_elements(grid), dtype=np.uint16))

    def passes(t: np.ndarray) -> bool:
        one = Opener(grid, t, leads=True)(share, ProofShare.read(grid, field.to_wire(proof)), challenge)
        return holds(grid, one, Opener(grid, t, leads=False)(none, empty, challenge))

    small = [passes(np.array([float(t)] + [0.0] * 7)) for t in range(4, 60)]
    assert small == [t == 5 for t in range(4, 60)]
    assert not any(passes(t) for t in random_elements(50))


def test_an_opening_has_one_length() -> None:
    grid = VoteGrid(9, 3, 1)
    assert opening_elements(grid) == (grid.lines + 3) * 8
