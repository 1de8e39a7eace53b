"""The field, its extension, streams and proofs against Python's integers, term by term."""

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

from consilium.protocol.messages import MOST_CLASSES
from consilium.sums.field import FIELD, Field
from consilium.sums.verified.proof import (
    MOST_ROWS,
    Challenge,
    Opener,
    Prover,
    VoteGrid,
    challenge_of,
    holds,
    proof_elements,
    reading_point,
    soundness_error,
)
from tests.sums.verified import random_elements, true_squares

NUMBER = st.integers(0, 2**21)
COEFFICIENTS = st.lists(NUMBER, min_size=7, max_size=7)


def ints(values: np.ndarray):
    """Reduced floats -> Python integers below the prime, nested lists."""
    return FIELD.to_wire(values).astype(object).tolist()


def fit(values: list[int]) -> list[int]:
    """Any numbers -> an element."""
    return [value % FIELD.prime for value in values[: FIELD.degree]]


def one_of() -> list[int]:
    return [1, *[0] * (FIELD.degree - 1)]


def times(one: list[int], other: list[int]) -> list[int]:
    """The product modulo X^degree - constant, term by term."""
    product = [0] * FIELD.degree
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            product[(i + j) % FIELD.degree] += a * b * (FIELD.constant if i + j >= FIELD.degree else 1)
    return [value % FIELD.prime for value in product]


def plus(one: list[int], other: list[int]) -> list[int]:
    return [(a + b) % FIELD.prime for a, b in zip(one, other, strict=True)]


def total(elements) -> list[int]:
    return fold_left(plus, elements)


def scaled(one: list[int], factor: int) -> list[int]:
    return [value * factor % FIELD.prime for value in one]


def element(values: list[int]) -> np.ndarray:
    return FIELD.reduce(np.array(values, dtype=np.float64))


@given(values=st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=50))
def test_reduction_is_that_of_integers(values) -> None:
    reduced = FIELD.reduce(np.array(values, dtype=np.float64))
    assert (np.abs(reduced) <= FIELD.most_reduced).all()
    assert [(int(got) - value) % FIELD.prime for got, value in zip(reduced, values, strict=True)] == [0] * len(values)
    assert FIELD.to_wire(np.array(values, dtype=np.float64)).tolist() == [value % FIELD.prime for value in values]


@pytest.mark.parametrize("share", [0, 2**-37, 0.125, 0.5, 1 - 2**-32])
def test_reduction_is_exact_around_every_edge(share) -> None:
    """Around multiples of the prime and of half of it, up to 2^53."""
    multiple, half = int(share * (2**53 // FIELD.prime)), FIELD.prime // 2
    edges = [multiple * FIELD.prime + offset for offset in (-1, 0, 1, half - 1, half, half + 1, half + 2, -half - 1)]
    signed = [sign * value for value in edges for sign in (1, -1)]
    assert FIELD.to_wire(np.array(signed, dtype=np.float64)).tolist() == [value % FIELD.prime for value in signed]


def is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))


def test_the_primes() -> None:
    """The largest of 21 bits before which stands a multiple of 7."""
    assert [number for number in range(FIELD.prime, 2**21) if is_prime(number) and number % 7 == 1] == [2_097_131]


def test_the_extension_is_a_field() -> None:
    """X^k - c is irreducible (Rabin): X^(p^k) = X modulo it, and for each prime r that divides k, X^(p^(k/r)) - X has
    no factor in common with it."""
    p, k, zeros = FIELD.prime, FIELD.degree, [0] * (FIELD.degree - 2)
    x, minus_x = [0, 1, *zeros], [0, p - 1, *zeros]

    def power_of_x(exponent: int) -> list[int]:
        power, base = one_of(), x
        while exponent:
            power = times(power, base) if exponent & 1 else power
            base, exponent = times(base, base), exponent >> 1
        return power

    assert power_of_x(p**k) == x
    prime_factors = [factor for factor in range(2, k + 1) if k % factor == 0 and is_prime(factor)]
    assert prime_factors == [k if k == 7 else 2]
    for factor in prime_factors:
        difference = plus(power_of_x(p ** (k // factor)), minus_x)
        # a multiple of X by a scalar that is not zero: no factor in common with X^k - c
        assert [bool(value) for value in difference] == [False, True, *map(bool, zeros)]


@given(one=COEFFICIENTS, other=COEFFICIENTS)
def test_products_in_the_extension(one, other) -> None:
    one, other = fit(one), fit(other)
    product = times(one, other)
    first, second = element(one), element(other)
    assert ints(FIELD.multiply(first, second)) == product
    assert ints(FIELD.multiply_all(first[None], second[None])[0, 0]) == product
    assert ints(FIELD.inner(first[None], second[None])) == product


@given(pairs=st.lists(st.tuples(COEFFICIENTS, COEFFICIENTS), min_size=1, max_size=6))
def test_inner_products_and_sums_of_squares(pairs) -> None:
    pairs = [(fit(a), fit(b)) for a, b in pairs]
    one, other = (np.stack([element(pair[at]) for pair in pairs]) for at in (0, 1))
    assert ints(FIELD.inner(one, other)) == total((times(a, b) for a, b in pairs))
    assert ints(FIELD.square_sums(one[None])[0]) == total((times(a, a) for a, _ in pairs))


@pytest.mark.parametrize("edge", ["most_products", "most_folded", "one more to fold", "lines of a proof"])
def test_the_largest_sums_are_exact(edge) -> None:
    """As many terms as are ever added up without a reduction, each as large as reduced numbers are, less a single one:
    an odd sum, which would be rounded above 2^53."""
    named = {"one more to fold": FIELD.most_folded + 1, "lines of a proof": 8192}
    count = min(named[edge] if edge in named else getattr(FIELD, edge), 2**20)
    largest = np.full((count, FIELD.degree), float(FIELD.most_reduced))
    largest[-1], odd = 1, [1] * FIELD.degree
    product = times([FIELD.most_reduced] * FIELD.degree, [FIELD.most_reduced] * FIELD.degree)
    wanted = plus(scaled(product, count - 1), times(odd, odd))
    assert ints(FIELD.inner(largest, largest)) == wanted
    assert ints(FIELD.square_sums(largest[None])[0]) == wanted


@pytest.mark.parametrize("more", [0, 1, 4096, 8192])
def test_products_with_numbers_that_are_not_reduced(more) -> None:
    """All lines of the largest proof, and more than may be added up at once: in parts."""
    count = 4096 + more + 1
    one = np.full((2, count), float(FIELD.most_reduced))
    other = np.full((count, 3), float(FIELD.prime - 1))
    one[:, -1], other[-1] = 1, 1
    wanted = ((count - 1) * FIELD.most_reduced * (FIELD.prime - 1) + 1) % FIELD.prime
    assert ints(FIELD.product(one, other)) == [[wanted] * 3] * 2


def test_no_proof_adds_up_more_than_is_exact() -> None:
    """Every sum of products that `Prover`, `Opener` and `holds` take, at the most rows of a session."""
    grid = VoteGrid(MOST_ROWS, 2, 1)
    along_a_line, across, values, classes = grid.points + 1, grid.lines, grid.values, MOST_CLASSES
    assert max(along_a_line, across, values, classes) <= FIELD.most_products
    assert max(along_a_line, classes) <= FIELD.most_unreduced  # along lines, shares are not reduced; across, in parts
    assert FIELD.most_products * FIELD.most_reduced**2 < 2**53
    assert FIELD.most_unreduced * FIELD.most_reduced * (FIELD.prime - 1) < 2**53
    heaviest = 1 + (FIELD.degree - 1) * FIELD.constant
    assert FIELD.most_folded * heaviest * FIELD.most_reduced**2 < 2**53
    assert FIELD.degree**2 * heaviest * FIELD.most_reduced < 2**53, "what is folded after a reduction"


@given(where=COEFFICIENTS, coefficients=st.lists(NUMBER, min_size=1, max_size=6))
def test_lagrange_reads_a_polynomial_anywhere(where, coefficients) -> None:
    where, count = fit(where), len(coefficients)
    values = [sum(c * point**k for k, c in enumerate(coefficients)) % FIELD.prime for point in range(count)]
    wanted, power = [0] * FIELD.degree, one_of()
    for coefficient in coefficients:
        wanted, power = plus(wanted, scaled(power, coefficient)), times(power, where)
    factors = ints(FIELD.lagrange_at(element(where), count))
    assert total((scaled(each, value) for each, value in zip(factors, values, strict=True))) == wanted


@pytest.mark.parametrize("points", [1, 2, 7, 50])
def test_continuation_follows_a_polynomial(points) -> None:
    p = FIELD.prime
    coefficients = np.random.default_rng(points).integers(0, p, points + 1).tolist()
    values = [sum(c * pow(x, k, p) for k, c in enumerate(coefficients)) % p for x in range(2 * points + 1)]
    continued = FIELD.continuation(points) @ np.array(values[: points + 1], dtype=np.float64)
    assert FIELD.to_wire(continued).tolist() == values[points + 1 :]


@given(values=st.lists(NUMBER, max_size=20))
def test_numbers_have_one_form_in_a_message(values) -> None:
    values = [value % FIELD.prime for value in values]
    content = FIELD.write(np.array(values, dtype=FIELD.dtype))
    assert content == b"".join(value.to_bytes(FIELD.wire_bytes, "little") for value in values)
    read = FIELD.read(content)
    assert read is not None
    assert (read.tolist(), read.dtype) == (values, FIELD.dtype)


def test_numbers_that_are_not_below_the_prime_are_not_read() -> None:
    width = FIELD.wire_bytes
    for number in (FIELD.prime, FIELD.prime + 1, 2 ** (8 * width) - 1):
        assert FIELD.read(bytes(width) + number.to_bytes(width, "little") + bytes(width)) is None
    assert FIELD.read((FIELD.prime - 1).to_bytes(width, "little")) is not None


def test_a_stream_is_the_keystream_without_what_is_too_large() -> None:
    """A second implementation, number by number, on enough of them that some are replaced."""
    key, count, width = hashlib.sha256(b"stream").digest(), 400_000, FIELD.dtype.itemsize
    cipher = Cipher(AES(key), CTR(bytes(16))).encryptor()
    stream, mask = cipher.update(bytes(width * count + 4096)), 2 ** FIELD.prime.bit_length() - 1
    words = [int.from_bytes(stream[at : at + width], "little") & mask for at in range(0, len(stream), width)]
    later = (word for word in words[count:] if word < FIELD.prime)
    wanted = [word if word < FIELD.prime else next(later) for word in words[:count]]
    assert sum(word >= FIELD.prime for word in words[:count]) > 0
    assert FIELD.elements(key, count).tolist() == wanted


def test_the_reading_point_is_never_in_the_prime_field(monkeypatch) -> None:
    coefficients = np.arange(FIELD.degree, dtype=FIELD.dtype)
    drawn = iter([3 * (coefficients == 0).astype(FIELD.dtype), coefficients])
    monkeypatch.setattr(Field, "elements", lambda self, key, count: next(drawn))
    assert reading_point(bytes(32), bytes(32)).tolist() == list(range(FIELD.degree))


def test_grids_hold_all_rows_and_little_else() -> None:
    for rows in (1, 2, 3, 4, 5, 12, 99, 10_000, MOST_ROWS):
        grid = VoteGrid(rows, 2, 1)
        assert (grid.lines - 1) * grid.points < rows <= grid.lines * grid.points
        assert 1 <= grid.last_points <= grid.points
        assert 2 * grid.points < FIELD.prime


@pytest.mark.parametrize(("queries", "classes", "teachers"), [(1, 2, 1), (2, 2, 1), (7, 3, 2), (50, 10, 1), (33, 4, 5)])
def test_the_prover_is_the_plain_formula(queries, classes, teachers) -> None:
    grid = VoteGrid(queries, classes, teachers)
    picks = np.random.default_rng(3).integers(0, classes, grid.rows)
    challenge, starts = challenge_of(grid, bytes(32), 0, b"a", b"b"), random_elements(grid.lines)
    matrix = np.eye(classes, dtype=np.int64)[picks]
    prover = Prover(grid)
    plain = FIELD.to_wire(true_squares(grid, matrix, challenge, starts))
    for _ in range(2):  # its memory is reused
        assert np.array_equal(FIELD.to_wire(prover(picks, challenge, starts)), plain)


def test_an_opening_is_what_the_formulas_say() -> None:
    """All of it in Python's integers: f_l(t), F(t) and the two linear checks, for the leader of votes in one share."""
    grid = VoteGrid(5, 3, 1)
    rng = np.random.default_rng(0)
    share = rng.integers(0, FIELD.prime, grid.cells).astype(FIELD.dtype)
    content = rng.integers(0, FIELD.prime, proof_elements(grid)).astype(FIELD.dtype)
    challenge, t = challenge_of(grid, bytes(32), 0, b"a", b"b"), reading_point(bytes(32), bytes(32))
    opened = Opener(grid, t, leads=True)(share, (content), challenge).reshape(-1, FIELD.degree).tolist()
    r, u, y = ints(challenge.r), ints(challenge.u), ints(challenge.y)
    starts, values = (
        content[: grid.lines * FIELD.degree].reshape(-1, FIELD.degree).tolist(),
        content[grid.lines * FIELD.degree :].reshape(-1, FIELD.degree).tolist(),
    )
    along, whole = ints(FIELD.lagrange_at(t, grid.points + 1)), ints(FIELD.lagrange_at(t, grid.values))
    zero = [0] * FIELD.degree
    lines = [times(along[0], start) for start in starts]
    squares, ones = zero, zero
    for row, cells in enumerate(share.reshape(-1, 3).tolist()):
        line, point = divmod(row, grid.points)
        z = total((scaled(factor, cell) for factor, cell in zip(r, cells, strict=True)))
        lines[line] = plus(lines[line], times(along[point + 1], times(y[line], z)))
        weight = times(u[point], times(y[line], y[line]))
        of_squares = total((scaled(times(factor, factor), c) for factor, c in zip(r, cells, strict=True)))
        squares = plus(squares, times(weight, of_squares))
        ones = plus(ones, scaled(weight, sum(cells) - 1))
    of_values = total(times(u[m], values[m + 1]) for m in range(grid.points))
    assert opened[: grid.lines] == lines
    assert opened[-3] == total((times(a, b) for a, b in zip(whole, values, strict=True)))
    assert opened[-2] == plus(of_values, scaled(squares, FIELD.prime - 1))
    assert opened[-1] == ones


def test_the_stated_soundness() -> None:
    few, many = VoteGrid(10_000, 10, 1), VoteGrid(MOST_ROWS, 2, 1)
    assert soundness_error(few, 1) < 2**-140
    assert soundness_error(many, 1) < 2**-134
    assert soundness_error(few, 2**60) < 2**-84
    assert soundness_error(many, 2**60) < 2**-84


def verdict(grid: VoteGrid, picks: np.ndarray, proof: np.ndarray, challenge: Challenge) -> bool:
    """Of votes for these classes and a proof (proof_elements,), split at random between two aggregators."""
    rng, t = np.random.default_rng(7), reading_point(bytes(32), bytes(32))
    votes = np.eye(grid.classes, dtype=np.int64)[picks].ravel()
    halves = [rng.integers(0, FIELD.prime, len(whole)) for whole in (votes, proof)]
    others = [FIELD.to_wire(whole - half) for whole, half in zip((votes, proof), halves, strict=True)]
    mine = [FIELD.to_wire(half) for half in halves]
    one = Opener(grid, t, leads=True)(mine[0], (mine[1]), challenge)
    other = Opener(grid, t, leads=False)(others[0], (others[1]), challenge)
    return holds(grid, one, other)


def test_a_proof_of_so_many_lines_that_they_are_reduced_before_they_are_folded() -> None:
    grid = VoteGrid(110_000, 2, 1)
    assert FIELD.most_folded < grid.lines
    picks = np.random.default_rng(5).integers(0, 2, grid.rows)
    challenge, starts = challenge_of(grid, bytes(32), 0, b"a", b"b"), random_elements(grid.lines)
    proof = FIELD.to_wire(np.concatenate((starts, Prover(grid)(picks, challenge, starts))).ravel()).astype(np.int64)
    assert verdict(grid, picks, proof, challenge)
    other = picks.copy()
    other[-1] ^= 1
    assert not verdict(grid, other, proof, challenge)


def openings_of_random(grid: VoteGrid, count: int, seed: int) -> int:
    """How many of so many random vectors with random proofs pass."""
    rng = np.random.default_rng(seed)
    t, passed = reading_point(bytes(32), bytes(32)), 0
    lead, other = Opener(grid, t, leads=True), Opener(grid, t, leads=False)
    challenge = challenge_of(grid, bytes(32), 0, b"a", b"b")
    for _ in range(count):
        shares = rng.integers(0, FIELD.prime, (2, grid.cells)).astype(FIELD.dtype)
        proofs = rng.integers(0, FIELD.prime, (2, proof_elements(grid))).astype(FIELD.dtype)
        one = lead(shares[0], (proofs[0]), challenge)
        passed += holds(grid, one, other(shares[1], (proofs[1]), challenge))
    return passed


@pytest.mark.slow
def test_five_hundred_random_vectors_fail() -> None:
    assert openings_of_random(VoteGrid(4, 3, 1), 500, 0) == 0


def test_prime_fields_would_let_liars_through() -> None:
    """The control of the bound: read in the prime field, where t has so few values, an F that is true at t = 5 alone of
    its points passes there, and nowhere else."""
    grid = VoteGrid(9, 3, 1)
    rng = np.random.default_rng(0)
    challenge, starts = challenge_of(grid, bytes(32), 0, b"a", b"b"), random_elements(grid.lines)
    matrix = np.eye(3, dtype=np.int64)[rng.integers(0, 3, 9)]
    values = true_squares(grid, matrix, challenge, starts)
    # a multiple of (X - 5)(X - 1)...(X - points): zero at the points, so that the linear checks hold, and at 5
    where = np.arange(grid.values)
    factor = np.ones(grid.values, dtype=np.int64)
    for root in [*range(1, grid.points + 1), 5]:
        factor = factor * (where - root) % FIELD.prime
    forged = values.copy()
    forged[:, 0] += factor
    proof = np.concatenate((starts, FIELD.reduce(forged))).ravel()
    share, none = matrix.ravel().astype(FIELD.dtype), np.zeros(grid.cells, dtype=FIELD.dtype)
    empty = np.zeros(proof_elements(grid), dtype=FIELD.dtype)

    def passes(t: np.ndarray) -> bool:
        one = Opener(grid, t, leads=True)(share, (FIELD.to_wire(proof)), challenge)
        return holds(grid, one, Opener(grid, t, leads=False)(none, empty, challenge))

    small = [passes(t * np.eye(FIELD.degree)[0]) for t in range(4, 60)]
    assert small == [t == 5 for t in range(4, 60)]
    assert not any(passes(t) for t in random_elements(50))
