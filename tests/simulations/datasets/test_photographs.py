"""SVHN as it was published, in small files that the tests write; and files that are something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from consilium.protocol.errors import DataError
from consilium.protocol.images import ImageShape
from consilium.simulations.datasets import images, mat
from consilium.simulations.datasets.images import read_mat
from consilium.simulations.datasets.source import load_dataset
from tests.simulations.datasets.photographs import write_svhn


def corner(row: np.ndarray) -> list[list[int]]:
    """Red, green and blue of the second pixel of the first line, and of the first of the second."""
    planes = ImageShape(3, 32).planes(row[None])[0]
    return [np.rint(255 * planes[:, 0, 1]).astype(int).tolist(), np.rint(255 * planes[:, 1, 0]).astype(int).tolist()]


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("beside", ["svhn"])
def test_svhn(tmp_path: Path, compressed: bool, beside: str) -> None:
    (tmp_path / beside).mkdir(exist_ok=True)
    train, test = write_svhn(tmp_path / beside, 12, 13, do_compression=compressed)
    data = load_dataset("svhn", str(tmp_path))
    assert (data.x.shape, data.x.dtype, len(data.features)) == ((25, 3072), np.float32, 3072)
    assert (data.y[:12].tolist(), data.classes[0]) == ((train["y"].reshape(-1) % 10).tolist(), "0")
    assert data.public is not None  # of the published 26,032 it would be 10,000, of 13 it is 4
    assert (data.public.queries.tolist(), data.public.test.tolist()) == (list(range(12, 16)), list(range(16, 25)))
    for row, (image, at) in {0: (train["X"], 0), 24: (test["X"], 12)}.items():
        assert corner(data.x[row]) == [image[0, 1, :, at].tolist(), image[1, 0, :, at].tolist()]
    assert data.features[3:5] == ("pixel-00-01-red", "pixel-00-01-green")


def test_the_extra_images_of_svhn_are_the_parties_where_they_are_there(tmp_path: Path) -> None:
    write_svhn(tmp_path, 12, 13, extra=5)
    data = load_dataset("svhn", str(tmp_path))
    assert data.public is not None
    assert (len(data.y), int(data.public.queries[0])) == (30, 17)


def arrays(n: int = 4, **other: Any) -> dict[str, Any]:
    return {"X": np.zeros((32, 32, 3, n), dtype=np.uint8), "y": np.ones((n, 1), dtype=np.uint8), **other}


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ({"X": arrays()["X"]}, "there is no array y"),
        (arrays(X=np.zeros((32, 32, 3, 4))), r"images float64 \(4, 32, 32, 3\)"),
        (arrays(y=np.full((4, 1), 11, dtype=np.uint8)), "labels from 0 to 9 are needed"),
        (arrays(y=np.full((4, 1), 1j)), "there is no array y"),
        (arrays(9), "array X has 27,648 numbers, the limit is 24,576"),
    ],
)
def test_what_is_no_svhn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: dict[str, Any], told: str) -> None:
    monkeypatch.setattr(images, "MOST_IMAGES", 8)
    scipy.io.savemat(tmp_path / "x.mat", held, do_compression=True)
    with pytest.raises(DataError, match=told):
        read_mat(tmp_path / "x.mat")


@pytest.mark.parametrize(
    "spoilt", [lambda content: b"MATLAB 7.3 MAT-file" + bytes(600), lambda content: content[:-20]], ids=["hdf5", "end"]
)
def test_damaged_mat_files(tmp_path: Path, spoilt: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, arrays(), do_compression=True)
    path.write_bytes(spoilt(path.read_bytes()))
    with pytest.raises(DataError, match=r"cannot read .*Get it anew"):
        read_mat(path)


def test_a_mat_file_on_which_its_reader_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `scipy.io.loadmat` does on some damaged files: it ends a process of its own."""
    scipy.io.savemat(tmp_path / "x.mat", arrays())
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(mat, "_MAT_READER", dies)
    with pytest.raises(DataError, match=r"cannot read .*it is damaged"):
        read_mat(tmp_path / "x.mat")
    half = 'print(\'{"arrays": [["|u1", [32, 32, 3, 4]], ["|u1", [4, 1]]]}\', flush=True);'
    monkeypatch.setattr(mat, "_MAT_READER", half + dies)
    with pytest.raises(DataError, match=r"cannot read .*it is damaged"):
        read_mat(tmp_path / "x.mat")


def test_too_few_test_images(tmp_path: Path) -> None:
    write_svhn(tmp_path, 2, 1)
    with pytest.raises(DataError, match="1 test images cannot be divided"):
        load_dataset("svhn", str(tmp_path))
