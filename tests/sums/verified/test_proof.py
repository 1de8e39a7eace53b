"""The field, its extension, streams and proofs against Python's integers, term by term; and the bytes of an upload."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from hypothesis import example, given
from hypothesis import strategies as st

from consilium.protocol.messages import MOST_CLASSES
from consilium.sums.verified import field, proof
from consilium.sums.verified.field import DEGREE, DTYPE, PRIME
from consilium.sums.verified.messages import BATCH, CHECKED
from consilium.sums.verified.proof import Opener, VoteGrid, challenges, reading_point
from tests.sums.verified.network import VerifiedFederation

NUMBER = st.integers(0, PRIME - 1)
ELEMENT = st.lists(NUMBER, min_size=DEGREE, max_size=DEGREE)
EDGES = [
    sign * (int(share * (2**53 // PRIME)) * PRIME + offset)
    for share in (0, 2**-37, 0.125, 0.5, 1 - 2**-32)
    for offset in (-1, 0, 1, PRIME // 2 - 1, PRIME // 2, PRIME // 2 + 1, PRIME // 2 + 2, -PRIME // 2)
    for sign in (1, -1)
]
"""Around multiples of the prime and of half of it, up to 2^53."""


def ints(values: np.ndarray) -> np.ndarray:
    """Reduced floats -> Python's integers below the prime."""
    return field.to_wire(values).astype(object)


def times(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The product modulo X^7 - 2, of Python's integers."""
    whole = np.convolve(one, other)
    return (whole[:DEGREE] + 2 * np.append(whole[DEGREE:], 0)) % PRIME


def power(base: np.ndarray, exponent: int) -> np.ndarray:
    found = np.eye(DEGREE, dtype=object)[0]
    while exponent:
        found = times(found, base) if exponent & 1 else found
        base, exponent = times(base, base), exponent >> 1
    return found


def element(values: list[int]) -> np.ndarray:
    return field.reduced(np.array(values, dtype=np.float64))


@given(values=st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=50))
@example(values=EDGES)
def test_reduction_is_that_of_integers(values) -> None:
    numbers = np.array(values, dtype=np.float64)
    assert (np.abs(field.reduced(numbers)) <= field.MOST_REDUCED).all()
    assert field.to_wire(numbers).tolist() == [value % PRIME for value in values]


def test_the_prime_and_its_extension() -> None:
    """The largest prime of 21 bits before which stands a multiple of 7; and X^7 - 2 is irreducible (Rabin): X^(p^7) = X
    modulo it, and X^p - X, a multiple of X by a scalar, has no factor in common with it."""
    found = range(PRIME + (1 - PRIME) % 7, 2**21, 7)
    assert [number for number in found if all(number % factor for factor in range(2, 1449))] == [PRIME]
    x = np.eye(DEGREE, dtype=object)[1]
    assert np.array_equal(power(x, PRIME**7), x)
    assert np.flatnonzero((power(x, PRIME) - x) % PRIME).tolist() == [1]


@given(pairs=st.lists(st.tuples(ELEMENT, ELEMENT), min_size=1, max_size=6))
def test_products_in_the_extension(pairs) -> None:
    one, other = (np.stack([element(pair[at]) for pair in pairs]) for at in (0, 1))
    products = np.array([times(a, b) for a, b in pairs])
    squares = [np.sum([times(pair[at], pair[at]) for pair in pairs], axis=0) % PRIME for at in (0, 1)]
    assert np.array_equal(ints(field.multiply(one, other)), products)
    both = field.inner(np.stack((one, other)), np.stack((other, other))[:, :, None])[:, 0]  # of two at once
    assert np.array_equal(ints(both), [products.sum(axis=0) % PRIME, squares[1]])
    assert np.array_equal(ints(field.square_sums(one)), squares[0])


@pytest.mark.parametrize("count", [field.MOST_PRODUCTS, field.MOST_FOLDED, field.MOST_FOLDED + 1])
def test_the_largest_sums_are_exact(count) -> None:
    """As many terms as are ever added up without a reduction, each as large as reduced numbers are, less a single one:
    an odd sum, which would be rounded above 2^53."""
    largest = np.full((count, DEGREE), float(field.MOST_REDUCED))
    largest[-1] = 1
    whole, odd = ints(largest[0]), ints(largest[-1])
    wanted = ((count - 1) * times(whole, whole) + times(odd, odd)) % PRIME
    assert np.array_equal(ints(field.inner(largest, largest[:, None])[0]), wanted)
    assert np.array_equal(ints(field.square_sums(largest)), wanted)


@pytest.mark.parametrize("more", [0, 1, 4096])
def test_products_with_numbers_that_are_not_reduced(more) -> None:
    """All lines of the largest proof, and more than may be added up at once: in parts."""
    count = field.MOST_UNREDUCED + more + 1
    one, other = np.full((2, count), float(field.MOST_REDUCED)), np.full((count, 3), float(PRIME - 1))
    one[:, -1], other[-1] = 1, 1
    wanted = ((count - 1) * field.MOST_REDUCED * (PRIME - 1) + 1) % PRIME
    assert (ints(field.product(one, other)) == wanted).all()


def test_no_proof_adds_up_more_than_is_exact() -> None:
    """Every sum of products that is taken, at the most rows of a session."""
    grid = VoteGrid(proof.MOST_ROWS, 2, 1)
    assert max(grid.points + 1, grid.lines, grid.values, MOST_CLASSES) <= field.MOST_PRODUCTS
    assert grid.points + 1 <= field.MOST_UNREDUCED  # along lines, shares are not reduced; across, in parts
    assert field.MOST_FOLDED * 13 * field.MOST_REDUCED**2 < 2**53
    assert DEGREE**2 * 13 * field.MOST_REDUCED < 2**53, "what is folded after a reduction"
    for rows in (1, 2, 3, 4, 5, 12, 99, 10_000, proof.MOST_ROWS):
        grid = VoteGrid(rows, 2, 1)
        assert (grid.lines - 1) * grid.points < rows <= grid.lines * grid.points
        assert 2 * grid.points < PRIME


@given(where=ELEMENT, coefficients=st.lists(NUMBER, min_size=1, max_size=6))
def test_lagrange_reads_a_polynomial_anywhere_and_continues_it(where, coefficients) -> None:
    count = len(coefficients)

    def value(point: int) -> int:
        return sum(c * point**k for k, c in enumerate(coefficients)) % PRIME

    powers = [power(np.array(where, dtype=object), exponent) for exponent in range(count)]
    wanted = np.dot(coefficients, powers) % PRIME
    read = np.dot([value(point) for point in range(count)], ints(field.lagrange_at(element(where), count)))
    assert np.array_equal(read % PRIME, wanted)
    points = max(1, count - 1)
    known = np.array([value(point) for point in range(points + 1)], dtype=np.float64)
    continued = field.to_wire(field.continuation(points) @ known).tolist()
    assert continued == [value(point) for point in range(points + 1, 2 * points + 1)]


def test_a_stream_is_the_keystream_without_what_is_too_large() -> None:
    """A second implementation, number by number, on enough of them that some are replaced."""
    key, count = hashlib.sha256(b"stream").digest(), 400_000
    stream = Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(4 * count + 4096))
    words = [int.from_bytes(stream[at : at + 4], "little") & (2**21 - 1) for at in range(0, len(stream), 4)]
    later = (word for word in words[count:] if word < PRIME)
    wanted = [word if word < PRIME else next(later) for word in words[:count]]
    assert sum(word >= PRIME for word in words[:count]) > 0
    assert field.elements([bytes(32), key], count)[1].tolist() == wanted


def test_the_reading_point_is_never_in_the_prime_field(monkeypatch) -> None:
    drawn = iter([3 * np.eye(1, DEGREE), np.arange(DEGREE)[None]])
    monkeypatch.setattr(proof, "elements", lambda keys, count: next(drawn))
    assert reading_point(bytes(32), bytes(32)).tolist() == list(range(DEGREE))


def test_an_opening_is_what_the_formulas_say() -> None:
    """All of it in Python's integers: f_l(t), F(t) and the two linear checks, for the leader; two uploads at once."""
    grid, rng, keys = VoteGrid(5, 3, 1), np.random.default_rng(0), [bytes(32), bytes([1]) * 32]
    shares = rng.integers(0, PRIME, (2, grid.cells)).astype(DTYPE)
    proofs = rng.integers(0, PRIME, (2, grid.proof)).astype(DTYPE)
    t = reading_point(bytes(32), bytes(32))
    found = Opener(grid, t, leads=True)(shares, proofs, keys).reshape(2, -1, DEGREE)
    along, whole = ints(field.lagrange_at(t, grid.points + 1)), ints(field.lagrange_at(t, grid.values))
    for share, content, key, opened in zip(shares.astype(object), proofs.astype(object), keys, found, strict=True):
        challenge = challenges(grid, [key])
        r, u, y = ints(challenge.r[0]), ints(challenge.u[0]), ints(challenge.y[0])
        starts, values = np.split(content.reshape(-1, DEGREE), [grid.lines])
        lines = [times(along[0], start) for start in starts]
        linear = ones = np.zeros(DEGREE, dtype=object)
        for row, cells in enumerate(share.reshape(-1, 3)):
            line, point = divmod(row, grid.points)
            lines[line] = lines[line] + times(along[point + 1], times(y[line], cells @ r % PRIME))
            weight = times(u[point], times(y[line], y[line]))
            of_squares = np.sum([times(factor, factor) * cell for factor, cell in zip(r, cells, strict=True)], axis=0)
            linear, ones = linear - times(weight, of_squares), ones + weight * (sum(cells) - 1)
        linear = linear + sum(times(u[m], values[m + 1]) for m in range(grid.points))
        at_t = sum(times(a, b) for a, b in zip(whole, values, strict=True))
        assert np.array_equal(opened, np.array([*lines, at_t, linear, ones]) % PRIME)


def test_the_stated_soundness() -> None:
    """After 2^60 hashes, one challenge each, with 5 roots at most; and by all readings of an F that is not the sum."""
    for grid in (VoteGrid(10_000, 10, 1), VoteGrid(proof.MOST_ROWS, 2, 1)):
        assert 2**60 * 5 / field.ORDER + 2 * grid.points / (field.ORDER - PRIME) < 2**-84


def test_the_bytes_of_uploads_and_of_what_is_opened_never_change() -> None:
    """Of fixed keys and fixed random bytes. A changed digest is a changed wire: raise the version in `proof.SPACE`."""
    calls = iter(range(100))

    def drawn(count: int) -> bytes:
        return hashlib.shake_256(f"upload/{next(calls)}".encode()).digest(count)

    federation = VerifiedFederation(2, queries=5, teachers=2, drawn=drawn)
    federation.terms = federation.new_terms(sid="5" * 32)
    federation.votes = [np.array([[2, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 2], [0, 2, 0]])] * 2
    uploads = {at: federation.upload(at, entropy=drawn) for at in (0, 1)}
    batch, link = federation.leader().batch(uploads), federation.link()
    assert batch is not None
    transcript = *uploads.values(), link.open(BATCH, batch), link.open(CHECKED, federation.helper().check(batch))
    found = [hashlib.sha256(content).hexdigest()[:16] for content in transcript]
    assert found == ["02ec7c84c4312dd3", "069cdd20e239b139", "fefd10e0637b2fa9", "62412fc47b707288"]
