"""The schema: public statistics only, and always consistent."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from consilium.protocol.rows.schema import Schema


def test_standardises_with_public_statistics() -> None:
    rows = np.array([[1.0, 5.0], [3.0, 5.0]])
    schema = Schema.from_public_rows(("a", "b"), ("x", "y"), rows)
    assert schema.center == (2.0, 5.0)
    assert schema.scale == (1.0, 1.0)  # a constant column is left as it is
    assert (schema.standardise(rows) == [[-1, 0], [1, 0]]).all()


def test_digest_depends_on_every_field() -> None:
    base = {"features": ("a", "b"), "classes": ("x", "y"), "center": (0.0, 0.0), "scale": (1.0, 1.0)}
    changes = [{}, {"features": ("b", "a")}, {"classes": ("y", "x")}, {"center": (0.0, 0.1)}, {"scale": (1.0, 2.0)}]
    assert len({Schema(**{**base, **change}).digest() for change in changes}) == len(changes)


@pytest.mark.parametrize(
    "change",
    [
        {"features": ("a", "a")},
        {"classes": ("x",)},
        {"classes": ("x", "x")},
        {"center": (0.0,)},
        {"center": (0.0, float("nan"))},
        {"scale": (1.0, 0.0)},
        {"scale": (1.0, float("inf"))},
        {"more": 1},
    ],
)
def test_inconsistent_schemas_are_refused(change: dict) -> None:
    base = {"features": ("a", "b"), "classes": ("x", "y"), "center": (0.0, 0.0), "scale": (1.0, 1.0)}
    with pytest.raises(ValidationError):
        Schema(**{**base, **change})
