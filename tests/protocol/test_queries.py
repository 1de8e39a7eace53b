"""Queries in the one form that everybody hashes; the schema; the Merkle tree of the public pool, in which every row is
provable and nothing else; reference rows by a public lot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ValidationError

from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.pool import PoolTerms, PoolTree, proves, thin
from consilium.protocol.queries import (
    MOST_NUMBERS,
    canonical_queries,
    draw_reference,
    query_ids,
    query_set_hash,
    reference_of,
    reference_text,
    why_no_reference,
)
from consilium.protocol.schema import Range, Schema

WIDTH = 3
POOL = canonical_queries(np.random.default_rng(0).normal(size=(100, WIDTH)), WIDTH)
BASE = {"features": ("a", "b", "c"), "classes": ("x", "y"), "center": (0.0, 0.0, 0.0), "scale": (1.0, 1.0, 1.0)}
SCHEMA = Schema.model_validate(BASE)
RANGED = Schema.model_validate({**BASE, "ranges": (Range(feature="b", low=0, high=9),)})


def test_equal_rows_are_one_query_whatever_their_type_or_layout_and_order_changes_the_set() -> None:
    rows = np.array([[0.0, 1.5], [2.0, -0.0]])
    forms = [rows, rows.astype(np.float32), np.asfortranarray(rows), rows.astype(">f8"), rows + 0]
    assert len({tuple(query_ids(canonical_queries(form, 2))) for form in forms}) == 1
    assert query_ids(canonical_queries(np.array([[-0.0]]), 1)) == query_ids(canonical_queries(np.array([[0]]), 1))
    ordered = canonical_queries(np.arange(4.0).reshape(2, 2), 2)
    assert len({query_set_hash(each) for each in (ordered, ordered[::-1], ordered.reshape(4, 1))}) == 3


@pytest.mark.parametrize(
    ("rows", "features", "told"),
    [
        (np.zeros((0, 2)), 2, "empty"),
        (np.zeros(3), 3, "dimensions"),
        (np.zeros((2, 3)), 2, "3 features"),
        (np.array([[np.nan, 0]]), 2, "row 0"),
        (np.array([[0, 0], [np.inf, 0]]), 2, "row 1"),
        (np.array([[1e300, 0]]), 2, "float32"),
        (np.array([["a", "b"]]), 2, "matrix of numbers"),
        (np.array([[True, False]]), 2, "matrix of numbers"),
    ],
)
def test_rows_that_cannot_be_asked(rows: np.ndarray, features: int, told: str) -> None:
    with pytest.raises(DataError, match=told):
        canonical_queries(rows, features)


def test_standardises_with_public_statistics() -> None:
    schema = Schema.from_public_rows(("a", "b"), ("x", "y"), np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert (schema.center, schema.scale) == ((2.0, 5.0), (1.0, 1.0))  # a constant column is left as it is
    assert (schema.standardise(np.array([[1.0, 5.0], [3.0, 5.0]])) == [[-1, 0], [1, 0]]).all()


def test_the_digest_depends_on_every_field_of_a_schema_and_inconsistent_ones_are_refused() -> None:
    changes = [{}, {"features": ("b", "a", "c")}, {"classes": ("y", "x")}, {"center": (0, 0, 1)}, {"scale": (1, 2, 1)}]
    assert len({Schema.model_validate({**BASE, **change}).digest() for change in changes}) == len(changes)
    for wrong in (
        {"features": ("a", "a", "b")},
        {"classes": ("x",)},
        {"classes": ("x", "x")},
        {"center": (0.0,)},
        {"center": (0.0, 0.0, float("nan"))},
        {"scale": (1.0, 0.0, 1.0)},
        {"scale": (1.0, float("inf"), 1.0)},
        {"more": 1},
    ):
        with pytest.raises(ValidationError):
            Schema.model_validate({**BASE, **wrong})


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 31, 100])
def test_every_subset_is_provable_and_no_changed_proof(size: int) -> None:
    pool = POOL[:size]
    tree, ids, generator = PoolTree.of_rows(pool), query_ids(pool), np.random.default_rng(size)
    assert PoolTree.of_rows(np.concatenate([pool[::-1], pool[:5]])).terms(0.1) == tree.terms(0.1)
    terms, stranger = tree.terms(0.0), query_ids(POOL[:1] + 1)
    for count in {1, min(2, size), (size + 1) // 2, size}:
        asked = [ids[at] for at in generator.permutation(size)[:count]]
        places, proof = tree.prove(asked)
        assert proves(terms, asked, places, proof)
        moved = places.copy()
        moved[0] = (int(moved[0]) + 1) % (size + 1)
        lies = [
            (asked, moved, proof),
            (asked, places, np.concatenate([proof, np.zeros((1, 32), dtype=np.uint8)])),
            ([*stranger, *asked[1:]], places, proof),
            ([*asked, asked[0]], np.append(places, places[0]), proof),
        ]
        for at in range(len(proof)):
            other = proof.copy()
            other[at, generator.integers(32)] ^= 1
            lies += [(asked, places, other), (asked, places, proof[:at])]
        assert not any(proves(terms, *lie) for lie in lies)
        assert not proves(terms.model_copy(update={"root": "0" * 64}), asked, places, proof)


def test_a_row_that_differs_in_one_ulp_is_not_in_the_pool() -> None:
    tree, moved = PoolTree.of_rows(POOL), POOL[:1].copy()
    moved[0, 0] = np.nextafter(moved[0, 0], np.float32(np.inf))
    with pytest.raises(DataError, match="1 of 1 queries are no public rows"):
        tree.prove(query_ids(moved))
    assert not proves(tree.terms(0.0), query_ids(moved), *tree.prove(query_ids(POOL[:1])))
    with pytest.raises(ValueError, match="least_distance"):
        PoolTerms(root="0" * 64, size=1, least_distance=float("nan"))


@pytest.mark.parametrize(
    ("places", "shape", "dtype"),
    [
        ([], (0, 32), np.uint8),
        ([2**32 - 1], (0, 32), np.uint8),
        ([[0]], (0, 32), np.uint8),
        ([0], (4,), np.uint8),
        ([0], (4, 31), np.uint8),
        ([0], (4, 32), np.float32),
    ],
)
def test_proofs_of_a_wrong_form_are_none(places: list, shape: tuple[int, ...], dtype: type) -> None:
    terms = PoolTree.of_rows(POOL[:10]).terms(0.0)
    assert not proves(terms, query_ids(POOL[:1]), np.array(places, dtype=np.uint32), np.zeros(shape, dtype=dtype))


def test_nearness_against_brute_force() -> None:
    generator = np.random.default_rng(3)
    x = generator.integers(0, 6, size=(300, 2)) / 10.0
    kept = x[thin(x, 0.11)]
    distances = np.sqrt(((kept[:, None] - kept[None]) ** 2).sum(axis=2))
    assert not ((distances > 0) & (distances < 0.11)).any()
    # what was left out was near to something that stayed
    assert (np.sqrt(((kept[:, None] - x[None]) ** 2).sum(axis=2)).min(axis=0) < 0.11).all()
    far = np.full((2, 4), 1e4)  # from the origin
    far[1, 0] += 1e-3
    assert [len(thin(far, least)) for least in (0.01, 1e-4)] == [1, 2]


def test_reference_rows_depend_on_the_pool_as_a_set_alone_and_come_back_from_their_text() -> None:
    drawn = draw_reference(POOL, SCHEMA, 20)
    mixed = np.concatenate([POOL, POOL[:30]])[np.random.default_rng(1).permutation(130)]
    assert (draw_reference(mixed, SCHEMA, 20) == drawn).all()
    assert (draw_reference(POOL, SCHEMA, 10) == drawn[:10]).all()
    assert {row.tobytes() for row in drawn} < {row.tobytes() for row in POOL} and len(np.unique(drawn, axis=0)) == 20
    assert len(draw_reference(POOL[:7], SCHEMA, 200)) == 7
    inside = draw_reference(POOL, RANGED, 200)
    assert len(inside) == (POOL[:, 1] >= 0).sum() and (inside[:, 1] >= 0).all()
    assert why_no_reference(inside, RANGED, 200) == ""
    found = reference_of(reference_text(POOL), WIDTH)
    assert found.dtype == POOL.dtype and (found == POOL).all()
    assert reference_of("", WIDTH).shape == (0, WIDTH)


DRAW: Callable = draw_reference
CASES = [
    (DRAW, np.repeat(POOL[:1], 9, axis=0), SCHEMA, 200, "1 different public rows are within"),
    (DRAW, POOL[POOL[:, 1] < 0], RANGED, 200, "0 different public rows are within the schema's ranges"),
    (DRAW, np.zeros((5, 2000), dtype=np.float32), SCHEMA, 1000, f"more than {MOST_NUMBERS} numbers"),
    (why_no_reference, POOL[:10], SCHEMA, 0, "a voting rule that takes none"),
    (why_no_reference, POOL[:21], SCHEMA, 20, "there must be 2 to 20 of 3 features"),
    (why_no_reference, POOL[[0, 1, 1]], SCHEMA, 20, "stands there twice"),
    (why_no_reference, POOL[:10], RANGED, 20, "outside the schema's ranges"),
    (why_no_reference, np.full((2, WIDTH), np.inf), SCHEMA, 20, "not finite"),
]


@pytest.mark.parametrize(("of", "rows", "schema", "most", "told"), CASES)
def test_rows_that_are_no_reference(of: Callable, rows: np.ndarray, schema: Schema, most: int, told: str) -> None:
    """As parties refuse them, see `party/teachers/test_voting.py`."""
    assert why_no_reference(POOL[:10], SCHEMA, 20) == ""
    if of is why_no_reference:
        assert told in why_no_reference(rows, schema, most)
    else:
        with pytest.raises(ConfigError, match=told):
            draw_reference(rows, schema, most)
