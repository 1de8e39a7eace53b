"""Characters of fonts: what the file says, and what is refused of one that says something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.models.published.model import check_names
from consilium.protocol.errors import DataError
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.population.public import schema
from consilium.simulations.scenario import divided_data, load_scenario


def arrays(**changes: Any) -> dict[str, Any]:
    held = {
        "x": np.arange(6 * 784).reshape(6, 28, 28).astype(np.uint8),
        "y": np.array([0, 1, 2, 2, 1, 0], dtype=np.uint8),
        "family": np.array([0, 0, 0, 1, 1, 1], dtype=np.uint16),
        "chars": np.array(["a", "<", "é"]),
        "families": np.array([".\x7f", "Go"]),
    }
    return {name: value for name, value in {**held, **changes}.items() if value is not None}


def test_what_the_file_says(tmp_path: Path) -> None:
    np.savez(tmp_path / "glyphs.npz", **arrays())
    data = load_dataset("glyphs", str(tmp_path))
    assert (data.classes, data.owner_names, data.owner_label) == (
        ("a", "less-than sign", "é"),
        (".\x7f", "Go"),
        "family",
    )
    assert (data.x.shape, data.x.dtype, float(data.x.max())) == ((6, 784), np.float32, 1.0)
    assert (data.y.tolist(), data.owner.tolist()) == ([0, 1, 2, 2, 1, 0], [0, 0, 0, 1, 1, 1])
    assert data.public is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"families": None}, "has no array families"),
        ({}, r"glyphs\.npz is not there"),
        ({"x": np.zeros((6, 784), dtype=np.uint8)}, r"images uint8 \(6, 784\) and labels uint8 \(6,\)"),
        ({"y": np.zeros(5, dtype=np.uint8)}, r"labels uint8 \(5,\)"),
        ({"y": np.full(6, 3, dtype=np.uint8)}, "labels from 0 to 2 are needed"),
        ({"chars": np.array([{}, {}, {}])}, "cannot read"),
    ],
)
def test_what_is_no_such_file(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    if changes:
        np.savez(tmp_path / "glyphs.npz", **arrays(**changes))
    with pytest.raises(DataError, match=told):
        load_dataset("glyphs", str(tmp_path))


def test_the_scenario_deals_24_images_each_with_wrong_labels(shared_data: Path) -> None:
    scenario = load_scenario("glyphs", [f"data.path={shared_data}"])
    dataset, parts = divided_data(scenario, 0)
    whole = load_dataset("glyphs", str(shared_data))
    assert len(whole.y) == 152_826 and len(set(whole.classes)) == 150
    check_names(schema(scenario.data, dataset, parts))  # none is a formula to a spreadsheet
    assert {len(rows) for rows in parts.parties.values()} == {24} and len(parts.parties) == 5000
    theirs, public = np.concatenate(list(parts.parties.values())), np.concatenate([parts.queries, parts.test])
    dealt = (dataset.y[theirs] != whole.y[theirs]).mean()
    assert abs(dealt - 0.1) < 1e-9
    assert (dataset.y[public] == whole.y[public]).all()
    assert not set(dataset.owner[theirs]) & set(dataset.owner[public])


def test_families_are_natural_parties(shared_data: Path) -> None:
    keys = ['data.partition="owners"', "data.least_rows=20", "federation.minimum_parties=200"]
    table = ['data={set="glyphs", representation="scattering"}', *keys, f"data.path={shared_data}"]
    _, parts = divided_data(load_scenario("glyphs", table), 0)
    assert len(parts.parties) == 244
    assert all(name.isascii() and name.isprintable() for name in parts.parties)
