"""Reference rows: a public lot, their text, and which rows are none."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError
from consilium.protocol.queries import (
    MOST_NUMBERS,
    canonical_queries,
    draw_reference,
    reference_of,
    reference_text,
    why_no_reference,
)
from consilium.protocol.schema import Range, Schema

WIDTH = 3
POOL = canonical_queries(np.random.default_rng(0).normal(size=(100, WIDTH)), WIDTH)
SCHEMA = Schema(features=("a", "b", "c"), classes=("x", "y"), center=(0, 0, 0), scale=(1, 1, 1))
RANGED = Schema(**{**SCHEMA.model_dump(), "ranges": (Range(feature="b", low=0, high=9),)})


def test_the_lot_depends_on_the_pool_as_a_set_alone() -> None:
    drawn = draw_reference(POOL, SCHEMA, 20)
    mixed = np.concatenate([POOL, POOL[:30]])[np.random.default_rng(1).permutation(130)]
    assert (draw_reference(mixed, SCHEMA, 20) == drawn).all()
    assert (draw_reference(POOL, SCHEMA, 10) == drawn[:10]).all()
    assert len(np.unique(drawn, axis=0)) == 20
    assert {row.tobytes() for row in drawn} < {row.tobytes() for row in POOL}


def test_a_small_pool_gives_what_it_has_and_rows_outside_the_ranges_are_not_drawn() -> None:
    assert len(draw_reference(POOL[:7], SCHEMA, 200)) == 7
    drawn = draw_reference(POOL, RANGED, 200)
    assert len(drawn) == (POOL[:, 1] >= 0).sum()
    assert (drawn[:, 1] >= 0).all()
    assert why_no_reference(drawn, RANGED, 200) == ""


@pytest.mark.parametrize(
    ("pool", "schema", "most", "told"),
    [
        (np.repeat(POOL[:1], 9, axis=0), SCHEMA, 200, "1 different public rows are within"),
        (POOL[POOL[:, 1] < 0], RANGED, 200, "0 different public rows are within the schema's ranges"),
        (np.zeros((5, 2000), dtype=np.float32), SCHEMA, 1000, f"more than {MOST_NUMBERS} numbers"),
    ],
)
def test_pools_without_reference_rows(pool: np.ndarray, schema: Schema, most: int, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        draw_reference(pool, schema, most)


def test_the_text_gives_the_very_rows_back() -> None:
    found = reference_of(reference_text(POOL), WIDTH)
    assert found.dtype == POOL.dtype
    assert (found == POOL).all()
    assert reference_of("", WIDTH).shape == (0, WIDTH)


@pytest.mark.parametrize(
    ("rows", "schema", "most", "told"),
    [
        (POOL[:10], SCHEMA, 0, "a voting rule that takes none"),
        (POOL[:21], SCHEMA, 20, "there must be 2 to 20 of 3 features"),
        (POOL[[0, 1, 1]], SCHEMA, 20, "stands there twice"),
        (POOL[:10], RANGED, 20, "outside the schema's ranges"),
        (np.full((2, WIDTH), np.inf), SCHEMA, 20, "not finite"),
    ],
)
def test_rows_that_are_no_reference(rows: np.ndarray, schema: Schema, most: int, told: str) -> None:
    """As parties refuse them, see `party/teachers/test_teachers.py`."""
    assert told in why_no_reference(rows, schema, most) and why_no_reference(POOL[:10], SCHEMA, 20) == ""
