"""Image sets that are not shipped: where they lie, what their files may be, and how they are divided."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.images import ImageShape
from consilium.simulations.datasets.base import data_folder
from consilium.simulations.datasets.images import read_idx, read_mat
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.population.partition import not_public
from consilium.simulations.population.partitions import divided
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import divided_data, load_scenario
from tests.simulations.datasets.photographs import write_svhn


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["data.partition=groups"], '"groups" needs parties'),
        (["data.parties=250"], "parties belongs to partition"),
        (
            ["data.partition=iid", "data.parties=9", "data.least_rows=20", "data.most_rows=5"],
            "most_rows 5 is below least_rows 20",
        ),
        (["data.partition=dirichlet", "data.parties=9"], "needs alpha"),
        (["data.partition=iid", "data.parties=9", "data.alpha=1.0"], 'alpha belongs to partition "dirichlet"'),
    ],
)
def test_what_a_division_may_not_say(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_scenario("stroke", overrides)


def test_absent_data_are_told_with_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"mnist/train-images.* is not there\. Get it from https://.*CONSILIUM_DATA"):
        load_dataset("mnist", str(tmp_path))
    monkeypatch.setenv("CONSILIUM_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    with pytest.raises(DataError, match=r"data\.path is /absent, which is no folder\. Name it with data\.path"):
        data_folder("/absent")  # a path comes before the variable


def test_no_folder_beside_the_package_is_a_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared" / "data").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("CONSILIUM_DATA", raising=False)
    with pytest.raises(DataError, match=r"no folder .* is named\. Name it with data\.path .*CONSILIUM_DATA"):
        data_folder()


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"\0\0\x0d\x01\0\0\0\x01\0"),
        gzip.compress(b"\0\0\x08\x01\0\0\0\x05\0"),
        gzip.compress(bytes(1000))[:20],
    ],
    ids=["no gzip", "floats", "cut off", "gzip cut off"],
)
def test_damaged_idx_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.gz").write_bytes(content)
    with pytest.raises(DataError, match="cannot read"):
        read_idx(tmp_path / "x.gz")


def test_mnist_is_what_it_should_be(shared_data: Path) -> None:
    data = load_dataset("mnist", str(shared_data))
    assert data.x.shape == (70_000, 784)
    assert (data.x.dtype, data.x.min(), data.x.max()) == (np.float32, 0, 1)
    assert np.bincount(data.y[:60_000]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert data.public is not None
    assert (data.public.queries[0], len(data.public.queries), len(data.public.test)) == (60_000, 9_000, 1_000)
    assert len(not_public(data)) == 60_000


def test_writers_are_on_one_side_only(shared_data: Path) -> None:
    data = load_dataset("mnist-writers", str(shared_data))
    assert (len(np.unique(data.owner[:60_000])), len(np.unique(data.owner[60_000:]))) == (539, 297)
    assert not set(data.owner[:60_000]) & set(data.owner[60_000:])
    parts = divided(data, DataSpec(set="mnist-writers", least_rows=50), 400, 0)
    assert all(len(np.unique(data.owner[rows])) == 1 for rows in parts.parties.values())


def test_the_scenario_divides_mnist(shared_data: Path) -> None:
    dataset, parts = divided_data(load_scenario("mnist-250", [f"data.path={shared_data}"]), 0)
    assert len(parts.parties) == 250
    assert {len(rows) for rows in parts.parties.values()} == {240}
    assert (dataset.y[np.concatenate(list(parts.parties.values()))].shape) == (60_000,)


def corner(row: np.ndarray) -> list[list[int]]:
    """Red, green and blue of the second pixel of the first line, and of the first of the second."""
    planes = ImageShape(3, 32).planes(row[None])[0]
    return [np.rint(255 * planes[:, 0, 1]).astype(int).tolist(), np.rint(255 * planes[:, 1, 0]).astype(int).tolist()]


def test_svhn(tmp_path: Path) -> None:
    """Its extra images are the parties', too."""
    train, test, _ = write_svhn(tmp_path, 12, 13, extra=5)
    data = load_dataset("svhn", str(tmp_path))
    assert (data.x.shape, data.x.dtype, len(data.features)) == ((30, 3072), np.float32, 3072)
    assert (data.y[:12].tolist(), data.classes[0]) == ((train["y"].reshape(-1) % 10).tolist(), "0")
    assert data.public is not None  # of the published 26,032 it would be 10,000, of 13 it is 4
    assert (data.public.queries.tolist(), data.public.test.tolist()) == (list(range(17, 21)), list(range(21, 30)))
    for row, (image, at) in {0: (train["X"], 0), 29: (test["X"], 12)}.items():
        assert corner(data.x[row]) == [image[0, 1, :, at].tolist(), image[1, 0, :, at].tolist()]
    assert data.features[3:5] == ("pixel-00-01-red", "pixel-00-01-green")


def svhn_arrays(**other: Any) -> dict[str, Any]:
    return {"X": np.zeros((32, 32, 3, 4), dtype=np.uint8), "y": np.ones((4, 1), dtype=np.uint8), **other}


@pytest.mark.parametrize(
    ("held", "spoilt", "told"),
    [
        ({"X": svhn_arrays()["X"]}, bytes, "cannot read .*'y'. Get it anew"),
        (svhn_arrays(X=np.zeros((32, 32, 3, 4))), bytes, r"images float64 \(4, 32, 32, 3\)"),
        (svhn_arrays(y=np.full((4, 1), 11, dtype=np.uint8)), bytes, "labels from 0 to 9 are needed"),
        (svhn_arrays(), lambda content: b"MATLAB 7.3 MAT-file" + bytes(600), "cannot read"),
        (svhn_arrays(), lambda content: content[:-20], "cannot read"),
    ],
)
def test_what_is_no_svhn(tmp_path: Path, held: dict[str, Any], spoilt: Callable[[bytes], bytes], told: str) -> None:
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, held, do_compression=True)
    path.write_bytes(spoilt(path.read_bytes()))
    with pytest.raises(DataError, match=told):
        read_mat(path)
