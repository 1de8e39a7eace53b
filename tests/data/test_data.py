"""A party's data file: every way it can be wrong ends in a typed refusal that tells nothing about the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.data.private_rows import load_rows
from consilium.protocol.refusals import Refusal, Refused, Rule
from tests.federation import CLASSES, FEATURES, make_config, make_rows

SCHEMA = make_config().rows


def save(path: Path, **changes) -> Path:
    x, y = make_rows(20, 1)
    values = {"x": x, "y": y, "features": np.array(FEATURES), "classes": np.array(CLASSES), **changes}
    np.savez(path, **{name: value for name, value in values.items() if value is not None})
    return path


def test_columns_and_classes_are_matched_by_name(tmp_path: Path) -> None:
    x, y = make_rows(20, 1)
    straight = load_rows(save(tmp_path / "a.npz"), SCHEMA)
    turned = load_rows(
        save(
            tmp_path / "b.npz",
            x=np.column_stack([x[:, ::-1], np.zeros(20)]),
            features=np.array([*FEATURES[::-1], "more"]),
            y=1 - y,
            classes=np.array(CLASSES[::-1]),
        ),
        SCHEMA,
    )
    assert (straight.x == turned.x).all()
    assert (straight.y == turned.y).all()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"x": None}, Rule.DATA),
        ({"y": None}, Rule.DATA),
        ({"x": np.full((20, 3), np.nan)}, Rule.DATA),
        ({"x": np.zeros((20, 2))}, Rule.DATA),
        ({"x": np.zeros((19, 3))}, Rule.DATA),
        ({"y": np.zeros(20)}, Rule.DATA),
        ({"y": np.full(20, 2)}, Rule.DATA),
        ({"y": np.full(20, -1)}, Rule.DATA),
        ({"x": np.zeros((0, 3)), "y": np.zeros(0, dtype=int)}, Rule.DATA),
        ({"x": np.array([["a"] * 3] * 20)}, Rule.DATA),
        ({"x": np.array([[None] * 3] * 20, dtype=object)}, Rule.DATA),
        ({"features": np.array(["age", "pressure", "other"])}, Rule.SCHEMA),
        ({"classes": np.array(["well", "dead"])}, Rule.SCHEMA),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, change: dict, rule: Rule) -> None:
    with pytest.raises(Refused) as caught:
        load_rows(save(tmp_path / "a.npz", **change), SCHEMA)
    assert caught.value.refusal == Refusal(rule=rule)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04broken"])
def test_files_that_are_no_npz_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(Refused):
        load_rows(path, SCHEMA)
    with pytest.raises(Refused):
        load_rows(tmp_path / "absent.npz", SCHEMA)


def test_rows_are_not_in_repr(tmp_path: Path) -> None:
    rows = load_rows(save(tmp_path / "a.npz"), SCHEMA)
    assert repr(rows) == "Rows()"
