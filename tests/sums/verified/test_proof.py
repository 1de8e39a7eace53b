"""The field, its extension, streams and proofs against Python's integers, term by term; and the bytes of an upload."""

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

from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import MOST_CLASSES
from consilium.sums.roster import AggregatorEntry, VerifiedRoster
from consilium.sums.verified import field, proof
from consilium.sums.verified.aggregators import Helper, Leader
from consilium.sums.verified.field import DEGREE, DTYPE, PRIME
from consilium.sums.verified.messages import BATCH, CHECKED
from consilium.sums.verified.proof import Opener, VoteGrid, challenges, hold, prove, reading_point
from consilium.sums.verified.sealing import Link
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.uploads import make_upload
from tests.sums.verified.network import FEDERATION, make_queries, random_elements, true_squares

NUMBER = st.integers(0, PRIME - 1)
ELEMENT = st.lists(NUMBER, min_size=DEGREE, max_size=DEGREE)
ZERO = [0] * DEGREE


def ints(values: np.ndarray):
    """Reduced floats -> Python integers below the prime, nested lists."""
    return field.to_wire(values).astype(object).tolist()


def times(one: list[int], other: list[int]) -> list[int]:
    """The product modulo X^7 - 2, term by term."""
    product = [0] * DEGREE
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            product[(i + j) % DEGREE] += a * b * (2 if i + j >= DEGREE else 1)
    return [value % PRIME for value in product]


def plus(one: list[int], other: list[int]) -> list[int]:
    return [(a + b) % PRIME for a, b in zip(one, other, strict=True)]


def total(elements) -> list[int]:
    return fold_left(plus, elements, ZERO)


def scaled(one: list[int], factor: int) -> list[int]:
    return [value * factor % PRIME for value in one]


def element(values: list[int]) -> np.ndarray:
    return field.reduced(np.array(values, dtype=np.float64))


@given(values=st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=50))
def test_reduction_is_that_of_integers(values) -> None:
    found = field.reduced(np.array(values, dtype=np.float64))
    assert (np.abs(found) <= field.MOST_REDUCED).all()
    assert [(int(got) - value) % PRIME for got, value in zip(found, values, strict=True)] == [0] * len(values)


@pytest.mark.parametrize("share", [0, 2**-37, 0.125, 0.5, 1 - 2**-32])
def test_reduction_is_exact_around_every_edge(share) -> None:
    """Around multiples of the prime and of half of it, up to 2^53."""
    multiple, half = int(share * (2**53 // PRIME)), PRIME // 2
    edges = [multiple * PRIME + offset for offset in (-1, 0, 1, half - 1, half, half + 1, half + 2, -half - 1)]
    signed = [sign * value for value in edges for sign in (1, -1)]
    assert field.to_wire(np.array(signed, dtype=np.float64)).tolist() == [value % PRIME for value in signed]


def is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))


def test_the_prime_and_its_extension() -> None:
    """The largest prime of 21 bits before which stands a multiple of 7; and X^7 - 2 is irreducible (Rabin): X^(p^7) = X
    modulo it, and X^p - X, a multiple of X by a scalar, has no factor in common with it."""
    assert [number for number in range(PRIME, 2**21) if is_prime(number) and number % 7 == 1] == [PRIME]

    def power_of_x(exponent: int) -> list[int]:
        power, base = [1, *ZERO[1:]], [0, 1, *ZERO[2:]]
        while exponent:
            power = times(power, base) if exponent & 1 else power
            base, exponent = times(base, base), exponent >> 1
        return power

    assert power_of_x(PRIME**7) == [0, 1, *ZERO[2:]]
    difference = plus(power_of_x(PRIME), [0, PRIME - 1, *ZERO[2:]])
    assert [bool(value) for value in difference] == [False, True, *[False] * 5]


@given(pairs=st.lists(st.tuples(ELEMENT, ELEMENT), min_size=1, max_size=6))
def test_products_in_the_extension(pairs) -> None:
    one, other = (np.stack([element(pair[at]) for pair in pairs]) for at in (0, 1))
    assert ints(field.multiply(one, other)) == [times(a, b) for a, b in pairs]
    assert ints(field.inner(one, other[:, None])[0]) == total(times(a, b) for a, b in pairs)
    both = field.inner(np.stack((one, other)), np.stack((other, other))[:, :, None])[:, 0]  # of two at once
    assert ints(both) == [total(times(a, b) for a, b in pairs), total(times(b, b) for _, b in pairs)]
    assert ints(field.square_sums(one)) == total(times(a, a) for a, _ in pairs)


@pytest.mark.parametrize("count", [field.MOST_PRODUCTS, field.MOST_FOLDED, field.MOST_FOLDED + 1])
def test_the_largest_sums_are_exact(count) -> None:
    """As many terms as are ever added up without a reduction, each as large as reduced numbers are, less a single one:
    an odd sum, which would be rounded above 2^53."""
    largest = np.full((count, DEGREE), float(field.MOST_REDUCED))
    largest[-1], odd = 1, [1] * DEGREE
    product = times([field.MOST_REDUCED] * DEGREE, [field.MOST_REDUCED] * DEGREE)
    wanted = plus(scaled(product, count - 1), times(odd, odd))
    assert ints(field.inner(largest, largest[:, None])[0]) == ints(field.square_sums(largest)) == wanted


@pytest.mark.parametrize("more", [0, 1, 4096])
def test_products_with_numbers_that_are_not_reduced(more) -> None:
    """All lines of the largest proof, and more than may be added up at once: in parts."""
    count = field.MOST_UNREDUCED + more + 1
    one, other = np.full((2, count), float(field.MOST_REDUCED)), np.full((count, 3), float(PRIME - 1))
    one[:, -1], other[-1] = 1, 1
    wanted = ((count - 1) * field.MOST_REDUCED * (PRIME - 1) + 1) % PRIME
    assert ints(field.product(one, other)) == [[wanted] * 3] * 2


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
        assert 1 <= grid.last_points <= grid.points and 2 * grid.points < PRIME


@given(where=ELEMENT, coefficients=st.lists(NUMBER, min_size=1, max_size=6))
def test_lagrange_reads_a_polynomial_anywhere_and_continues_it(where, coefficients) -> None:
    count = len(coefficients)

    def value(point: int) -> int:
        return sum(c * point**k for k, c in enumerate(coefficients)) % PRIME

    wanted, power = ZERO, [1, *ZERO[1:]]
    for coefficient in coefficients:
        wanted, power = plus(wanted, scaled(power, coefficient)), times(power, where)
    factors = ints(field.lagrange_at(element(where), count))
    assert total(scaled(each, value(point)) for point, each in enumerate(factors)) == wanted
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
    drawn = iter([np.array([[3, *ZERO[1:]]]), np.arange(DEGREE)[None]])
    monkeypatch.setattr(proof, "elements", lambda keys, count: next(drawn))
    assert reading_point(bytes(32), bytes(32)).tolist() == list(range(DEGREE))


@pytest.mark.parametrize(("queries", "classes", "teachers"), [(1, 2, 1), (2, 2, 1), (7, 3, 2), (50, 10, 1), (33, 4, 5)])
def test_the_prover_is_the_plain_formula(queries, classes, teachers) -> None:
    grid = VoteGrid(queries, classes, teachers)
    picks = np.random.default_rng(3).integers(0, classes, grid.rows)
    challenge, starts = challenges(grid, [bytes(32)]), random_elements(grid.lines)
    plain = true_squares(grid, np.eye(classes, dtype=np.int64)[picks], challenge, starts)
    assert np.array_equal(field.to_wire(prove(grid, picks, challenge, starts)), field.to_wire(plain))


def test_an_opening_is_what_the_formulas_say() -> None:
    """All of it in Python's integers: f_l(t), F(t) and the two linear checks, for the leader; two uploads at once."""
    grid, rng, keys = VoteGrid(5, 3, 1), np.random.default_rng(0), [bytes(32), bytes([1]) * 32]
    shares = rng.integers(0, PRIME, (2, grid.cells)).astype(DTYPE)
    proofs = rng.integers(0, PRIME, (2, proof.proof_elements(grid))).astype(DTYPE)
    t = reading_point(bytes(32), bytes(32))
    found = Opener(grid, t, leads=True)(shares, proofs, keys).reshape(2, -1, DEGREE).tolist()
    along, whole = ints(field.lagrange_at(t, grid.points + 1)), ints(field.lagrange_at(t, grid.values))
    for share, content, key, opened in zip(shares, proofs, keys, found, strict=True):
        challenge = challenges(grid, [key])
        r, u, y = ints(challenge.r[0]), ints(challenge.u[0]), ints(challenge.y[0])
        starts, values = np.split(content.reshape(-1, DEGREE), [grid.lines])
        lines, squares, ones = [times(along[0], start) for start in starts.tolist()], ZERO, ZERO
        for row, cells in enumerate(share.reshape(-1, 3).tolist()):
            line, point = divmod(row, grid.points)
            z = total(scaled(factor, cell) for factor, cell in zip(r, cells, strict=True))
            lines[line] = plus(lines[line], times(along[point + 1], times(y[line], z)))
            weight = times(u[point], times(y[line], y[line]))
            of_squares = total(scaled(times(factor, factor), c) for factor, c in zip(r, cells, strict=True))
            squares, ones = plus(squares, times(weight, of_squares)), plus(ones, scaled(weight, sum(cells) - 1))
        of_values = total(times(u[m], values[m + 1].tolist()) for m in range(grid.points))
        assert opened[: grid.lines] == lines
        assert opened[-3] == total(times(a, b) for a, b in zip(whole, values.tolist(), strict=True))
        assert opened[-2] == plus(of_values, scaled(squares, PRIME - 1))
        assert opened[-1] == ones


def test_the_stated_soundness() -> None:
    """After 2^60 hashes, one challenge each, with 5 roots at most; and by all readings of an F that is not the sum."""
    for grid in (VoteGrid(10_000, 10, 1), VoteGrid(proof.MOST_ROWS, 2, 1)):
        assert 2**60 * 5 / field.ORDER + 2 * grid.points / (field.ORDER - PRIME) < 2**-84


def verdict(grid: VoteGrid, matrix: np.ndarray, content: np.ndarray, key: bytes, t: np.ndarray) -> bool:
    """Of votes (rows, classes) and a proof (values + lines, DEGREE), split at random between two aggregators."""
    rng, opened = np.random.default_rng(7), []
    halves = [rng.integers(0, PRIME, whole.size) for whole in (matrix, content)]
    others = [field.to_wire(whole.ravel() - half) for whole, half in zip((matrix, content), halves, strict=True)]
    for leads, (share, values) in ((True, map(field.to_wire, halves)), (False, others)):
        opened.append(Opener(grid, t, leads)(share[None], values[None], [key]))
    return bool(hold(grid, *opened)[0])


def test_a_proof_of_so_many_lines_that_they_are_reduced_before_they_are_folded() -> None:
    grid, t = VoteGrid(110_000, 2, 1), reading_point(bytes(32), bytes(32))
    assert grid.lines > field.MOST_FOLDED
    picks = np.random.default_rng(5).integers(0, 2, grid.rows)
    challenge, starts = challenges(grid, [bytes(32)]), random_elements(grid.lines)
    content, matrix = np.concatenate((starts, prove(grid, picks, challenge, starts))), np.eye(2)[picks]
    assert verdict(grid, matrix, content, bytes(32), t)
    matrix[-1] = matrix[-1, ::-1].copy()
    assert not verdict(grid, matrix, content, bytes(32), t)


@pytest.mark.slow
def test_five_hundred_random_vectors_fail() -> None:
    grid, rng, t = VoteGrid(4, 3, 1), np.random.default_rng(0), reading_point(bytes(32), bytes(32))
    shares = rng.integers(0, PRIME, (2, 500, grid.cells)).astype(DTYPE)
    proofs = rng.integers(0, PRIME, (2, 500, proof.proof_elements(grid))).astype(DTYPE)
    opened = [Opener(grid, t, at == 0)(shares[at], proofs[at], [bytes(32)] * 500) for at in (0, 1)]
    assert not hold(grid, *opened).any()


def test_prime_fields_would_let_liars_through() -> None:
    """The control of the bound: read in the prime field, where t has so few values, an F that is true at t = 5 alone of
    its points passes there, and nowhere else."""
    grid = VoteGrid(9, 3, 1)
    challenge, starts = challenges(grid, [bytes(32)]), random_elements(grid.lines)
    matrix = np.eye(3, dtype=np.int64)[np.random.default_rng(0).integers(0, 3, 9)]
    values, where = true_squares(grid, matrix, challenge, starts), np.arange(grid.values)
    # a multiple of (X - 5)(X - 1)...(X - points): zero at the points, so that the linear checks hold, and at 5
    factor = np.ones(grid.values, dtype=np.int64)
    for root in [*range(1, grid.points + 1), 5]:
        factor = factor * (where - root) % PRIME
    values[:, 0] += factor
    content = np.concatenate((starts, field.reduced(values)))
    small = [verdict(grid, matrix, content, bytes(32), t * np.eye(DEGREE)[0]) for t in range(4, 60)]
    assert small == [t == 5 for t in range(4, 60)]
    assert not any(verdict(grid, matrix, content, bytes(32), t) for t in random_elements(50))


def test_the_bytes_of_uploads_and_of_what_is_opened_never_change() -> None:
    """Of fixed keys and fixed random bytes. A changed digest is a changed wire: raise the version in `proof.SPACE`."""
    calls = iter(range(100))

    def drawn(count: int) -> bytes:
        return hashlib.shake_256(f"upload/{next(calls)}".encode()).digest(count)

    identities, keys = [Identity.of_secret(drawn(32)) for _ in range(4)], [SealingKey(drawn(32)) for _ in range(4)]
    roster = VerifiedRoster.build(
        {"a": identities[0].public.hex(), "b": identities[1].public.hex()},
        identities[2].public.hex(),
        sealing=keys[0].public.hex(),
        second=AggregatorEntry(ed25519_pk=identities[3].public.hex(), x25519_pk=keys[1].public.hex()),
    )
    more = {"leader_key": keys[2].public.hex(), "sigma": 3.0, "sid": "5" * 32}
    terms = VerifiedTerms.of_queries(roster, FEDERATION, make_queries(5), 3, 2, **more)
    votes = np.array([[2, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 2], [0, 2, 0]])
    uploads = {at: make_upload(terms, at, identities[at], keys[3].public, votes, drawn) for at in (0, 1)}
    batch = Leader(terms, roster, keys[0], keys[2], keys[3].public).batch(uploads)
    assert batch is not None
    link = Link(keys[0], keys[1].public, keys[2], keys[3].public, terms.ctx)
    checked = link.open(CHECKED, Helper(terms, roster, keys[1], keys[3]).check(batch))
    transcript = *uploads.values(), link.open(BATCH, batch), checked
    found = [hashlib.sha256(content).hexdigest()[:16] for content in transcript]
    assert found == ["83186e72867667d1", "5f5c0cc241fc26a9", "bcc6cf89233c6a1d", "f2b5bfc83671f76c"]
