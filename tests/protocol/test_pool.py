"""The Merkle tree of the public pool: every row is provable, nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilium.data.distances import thin
from consilium.protocol.errors import DataError
from consilium.protocol.pool import PoolTerms, PoolTree, proves
from consilium.protocol.queries import canonical_queries, query_ids
from tests.marks import some


def rows(count: int, features: int = 3, seed: int = 0) -> np.ndarray:
    return canonical_queries(np.random.default_rng(seed).normal(size=(count, features)), features)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 31, 100])
def test_every_subset_size_is_provable(size):
    pool = rows(size)
    tree = PoolTree.of_rows(pool)
    ids, terms = query_ids(pool), tree.terms(0.1)
    generator = np.random.default_rng(size)
    for count in {1, 2, size // 2, size} - {0} & set(range(1, size + 1)):
        chosen = generator.permutation(size)[:count]
        asked = [ids[at] for at in chosen]
        assert proves(terms, asked, *tree.prove(asked))


@settings(max_examples=some(200), deadline=None)
@given(st.integers(1, 40), st.data())
def test_a_changed_proof_is_none(size, data):
    pool = rows(size, seed=size)
    tree, ids = PoolTree.of_rows(pool), query_ids(pool)
    asked = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=size, unique=True))
    places, proof = tree.prove(asked)
    terms = tree.terms(0.0)
    how = data.draw(st.sampled_from(["place", "hash", "short", "long", "row", "twice", "root"]))
    match how:
        case "place":
            other = places.copy()
            other[0] = (int(other[0]) + 1) % (size + 1)
            assert not proves(terms, asked, other, proof)
        case "hash" if len(proof):
            other = proof.copy()
            other[data.draw(st.integers(0, len(proof) - 1)), data.draw(st.integers(0, 31))] ^= 1
            assert not proves(terms, asked, places, other)
        case "short" if len(proof):
            assert not proves(terms, asked, places, proof[:-1])
        case "long":
            assert not proves(terms, asked, places, np.concatenate([proof, np.zeros((1, 32), dtype=np.uint8)]))
        case "row":
            stranger = query_ids(rows(1, seed=size + 1000))
            assert not proves(terms, [*stranger, *asked[1:]], places, proof)
        case "twice":
            assert not proves(terms, [*asked, asked[0]], np.append(places, places[0]), proof)
        case "root":
            assert not proves(terms.model_copy(update={"root": "0" * 64}), asked, places, proof)


def test_a_row_that_differs_in_one_ulp_is_not_in_the_pool():
    pool = rows(50)
    tree = PoolTree.of_rows(pool)
    moved = pool[:1].copy()
    moved[0, 0] = np.nextafter(moved[0, 0], np.float32(np.inf))
    with pytest.raises(DataError, match="1 of 1 queries are no public rows"):
        tree.prove(query_ids(moved))
    places, proof = tree.prove(query_ids(pool[:1]))
    assert not proves(tree.terms(0.0), query_ids(moved), places, proof)


@pytest.mark.parametrize(
    ("places", "proof"),
    [
        (np.zeros(0, dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8)),
        (np.array([2**32 - 1], dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8)),
        (np.array([[0]], dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8)),
        (np.array([0], dtype=np.uint32), np.zeros((4,), dtype=np.uint8)),
        (np.array([0], dtype=np.uint32), np.zeros((4, 31), dtype=np.uint8)),
        (np.array([0], dtype=np.uint32), np.zeros((4, 32), dtype=np.float32)),
    ],
)
def test_proofs_of_a_wrong_form_are_none(places, proof):
    pool = rows(10)
    assert not proves(PoolTree.of_rows(pool).terms(0.0), query_ids(pool[:1]), places, proof)


def test_the_root_does_not_depend_on_order_or_repetition():
    pool = rows(20)
    tree = PoolTree.of_rows(pool)
    assert PoolTree.of_rows(np.concatenate([pool[::-1], pool[:5]])).terms(0.1) == tree.terms(0.1)


def test_terms_have_bounds():
    with pytest.raises(ValueError, match="least_distance"):
        PoolTerms(root="0" * 64, size=1, least_distance=float("nan"))


def test_nearness_against_brute_force():
    generator = np.random.default_rng(3)
    x = generator.integers(0, 6, size=(300, 2)) / 10.0
    kept = x[thin(x, 0.11)]
    distances = np.sqrt(((kept[:, None] - kept[None]) ** 2).sum(axis=2))
    assert not ((distances > 0) & (distances < 0.11)).any()
    for row in x:  # what was left out was near to something that stayed
        gaps = np.sqrt(((kept - row) ** 2).sum(axis=1))
        assert gaps.min() < 0.11


def test_near_rows_far_from_the_origin_are_found():
    x = np.full((2, 4), 1e4)
    x[1, 0] += 1e-3
    assert [len(thin(x, least)) for least in (0.01, 1e-4)] == [1, 2]
