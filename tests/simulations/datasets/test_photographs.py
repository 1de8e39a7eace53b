"""SVHN and CIFAR-10 as they were published, in small files that the tests write; and files that are something else."""

from __future__ import annotations

import builtins
import contextlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from consilium.protocol.errors import DataError
from consilium.protocol.rows.images import ImageShape
from consilium.simulations.datasets import photographs
from consilium.simulations.datasets.photographs import BATCHES, BINARY, PYTHON, TEST, read_binary, read_mat, read_python
from consilium.simulations.datasets.source import load_dataset
from tests.simulations.datasets.photographs import cifar_parts, write_cifar, write_svhn


def corner(row: np.ndarray) -> list[list[int]]:
    """Red, green and blue of the second pixel of the first line, and of the first of the second."""
    planes = ImageShape(3, 32).planes(row[None])[0]
    return [np.rint(255 * planes[:, 0, 1]).astype(int).tolist(), np.rint(255 * planes[:, 1, 0]).astype(int).tolist()]


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("beside", ["svhn", "."])
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


def test_the_published_test_part_of_svhn_is_divided_as_in_the_paper() -> None:
    assert photographs.PUBLISHED * photographs.ASKED // photographs.PUBLISHED == 10_000
    assert photographs.PUBLISHED - photographs.ASKED == 16_032


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
        ({"y": arrays()["y"]}, "there is no array X"),
        (arrays(X=np.zeros((32, 32, 3, 4))), r"X is float64 \(32, 32, 3, 4\)"),
        (arrays(X=np.zeros((4, 32, 32, 3), dtype=np.uint8)), r"X is uint8 \(4, 32, 32, 3\)"),
        (arrays(y=np.ones((3, 1), dtype=np.uint8)), r"y \(3, 1\)"),
        (arrays(y=np.full((4, 1), 11, dtype=np.uint8)), "labels other than 1 to 10"),
        (arrays(y=np.full((4, 1), 1.5)), "labels other than 1 to 10"),
        (arrays(y=np.full((4, 1), np.nan)), "labels other than 1 to 10"),
        (arrays(y=np.full((4, 1), 1j)), "there is no array y"),
        (arrays(y=np.array([["one"]] * 4, dtype=object)), "there is no array y"),
        (arrays(9), "array X has 27,648 numbers, the limit is 24,576"),
    ],
)
def test_what_is_no_svhn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: dict[str, Any], told: str) -> None:
    monkeypatch.setattr(photographs, "MOST_IMAGES", 8)
    scipy.io.savemat(tmp_path / "x.mat", held, do_compression=True)
    with pytest.raises(DataError, match=told):
        read_mat(tmp_path / "x.mat")


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda content: b"",
        lambda content: b"MATLAB 7.3 MAT-file" + bytes(600),
        lambda content: content[:-20],
        lambda content: content[:140],
    ],
    ids=["empty", "hdf5", "end", "begin"],
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
    monkeypatch.setattr(photographs, "_MAT_READER", dies)
    with pytest.raises(DataError, match=r"cannot read .*it is damaged"):
        read_mat(tmp_path / "x.mat")
    half = 'print(\'{"arrays": [["|u1", [32, 32, 3, 4]], ["|u1", [4, 1]]]}\', flush=True);'
    monkeypatch.setattr(photographs, "_MAT_READER", half + dies)
    with pytest.raises(DataError, match=r"cannot read .*it is damaged"):
        read_mat(tmp_path / "x.mat")


@pytest.mark.parametrize("form", [BINARY, PYTHON, "cifar10", "."])
def test_cifar(tmp_path: Path, form: str) -> None:
    (tmp_path / form).mkdir(exist_ok=True)
    parts = cifar_parts(6, 10)
    write_cifar(tmp_path / form, parts, binary=form != PYTHON)
    data = load_dataset("cifar10", str(tmp_path))
    assert (data.x.shape, data.classes[0], data.classes[9]) == ((40, 3072), "airplane", "truck")
    assert data.y.tolist() == np.concatenate([labels for _, labels in parts]).tolist()
    assert data.public is not None
    assert (data.public.queries.tolist(), data.public.test.tolist()) == (list(range(30, 39)), [39])
    last = parts[-1][0][9].reshape(3, 32, 32)  # a plane for each colour
    assert corner(data.x[39]) == [last[:, 0, 1].tolist(), last[:, 1, 0].tolist()]


def test_both_forms_of_cifar_are_the_same_images(tmp_path: Path) -> None:
    parts = cifar_parts(3, 4)
    for name, binary in (("a", True), ("b", False)):
        (tmp_path / name).mkdir()
        write_cifar(tmp_path / name, parts, binary)
    one, other = (load_dataset("cifar10", str(tmp_path / name)) for name in "ab")
    assert (one.x == other.x).all() and (one.y == other.y).all()


@pytest.mark.parametrize("absent", [BATCHES[3], TEST])
@pytest.mark.parametrize("binary", [True, False])
def test_a_batch_that_is_absent(tmp_path: Path, absent: str, binary: bool) -> None:
    write_cifar(tmp_path, cifar_parts(2, 2), binary)
    name = absent + ".bin" * binary
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match=f"{name} is not there. Get it from https://www.cs.toronto.edu"):
        load_dataset("cifar10", str(tmp_path))


PYTHON_2 = (
    b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02M\x00\x0c"
    b"\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x00\x18\0\0"
    + bytes(range(256)) * 24
    + b"tbU\x06labels](K\x07K\x09eu."
)
"""As the published files were written, by Python 2 and its numpy: two images, 7 and 9."""


def test_a_pickle_of_python_2(tmp_path: Path) -> None:
    (tmp_path / "batch").write_bytes(PYTHON_2)
    found = read_python(tmp_path / "batch")
    assert found.labels.tolist() == [7, 9]
    assert found.images[1, 31, 31].tolist() == [255, 255, 255] and found.images[0, 0, 1].tolist() == [1, 1, 1]
    known = pickle.loads(PYTHON_2, encoding="bytes")[b"data"]
    assert (found.images == known.reshape(2, 3, 32, 32).transpose(0, 2, 3, 1)).all()


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("keys", [bytes, str])
@pytest.mark.parametrize("order", "CF")
def test_pickles_of_python_3(tmp_path: Path, protocol: int, keys: type, order: str) -> None:
    data = np.asarray(np.random.default_rng(0).integers(0, 256, (3, 3072), dtype=np.uint8), order=order)  # pyright: ignore
    name = (lambda word: word.encode()) if keys is bytes else str
    held = {name("data"): data, name("labels"): [1, 2, 3], name("filenames"): ["a.png"] * 3}
    (tmp_path / "batch").write_bytes(pickle.dumps(held, protocol))
    found = read_python(tmp_path / "batch")
    assert (found.images == data.reshape(3, 3, 32, 32).transpose(0, 2, 3, 1)).all()


class Calls:
    """Pickled, it says: call this function with these arguments."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._told = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self._told


@pytest.mark.parametrize("place", ["alone", "label", "key", "beside"])
@pytest.mark.parametrize("function", ["system", "exec", "fromfile"])
def test_a_pickle_that_would_run_code_is_not_run(tmp_path: Path, place: str, function: str) -> None:
    marker = tmp_path / "ran"
    call = {
        "system": Calls(os.system, f"touch {marker}"),
        "exec": Calls(builtins.exec, f"open({str(marker)!r}, 'w').close()"),
        "fromfile": Calls(np.memmap, str(marker), "uint8", "w+", 0, (1,)),
    }[function]
    good = {b"data": np.zeros((1, 3072), dtype=np.uint8), b"labels": [1]}
    held = {
        "alone": call,
        "label": {**good, b"labels": [call]},
        "key": {**good, (call,): 1},
        "beside": {**good, b"more": [{"deep": call}]},
    }[place]
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(held))
    with pytest.raises(DataError, match=r"it names .*, which plain data do not need; nothing of it was run"):
        read_python(path)
    assert not marker.exists()
    with contextlib.suppress(TypeError):  # what it is given is unhashable, after it was called
        pickle.loads(path.read_bytes())  # the control: what anybody else's reader does
    assert marker.exists()


def test_what_a_pickle_does_to_what_it_finds_is_gone_with_it(tmp_path: Path) -> None:
    """Attributes of a function that is named can be set; the next file must not find them."""
    spoil = b"\x80\x02c_codecs\nencode\nN}U\x0c__defaults__K\x07s\x86b."
    held = {b"data": np.zeros((1, 3072), dtype=np.uint8), b"labels": [1]}
    path = tmp_path / "batch"
    path.write_bytes(spoil)
    with pytest.raises(DataError):
        read_python(path)
    path.write_bytes(pickle.dumps(held, 2))
    assert read_python(path).labels.tolist() == [1]


def batch(**other: Any) -> dict[str, Any]:
    return {"data": np.zeros((2, 3072), dtype=np.uint8), "labels": [1, 2], **other}


class Kept:
    """What an array's pickle says, told by hand."""

    def __init__(self, shape: Any, content: Any) -> None:
        self._state = shape, content

    def __reduce__(self) -> tuple[Any, ...]:
        build, arguments, state = np.zeros((2, 2), dtype=np.uint8).__reduce__()
        assert isinstance(state, tuple)
        return build, arguments, (state[0], self._state[0], state[2], False, self._state[1])


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ([], "data is no array"),
        ({}, "data is no array"),
        (batch(data=[1, 2]), "data is no array"),
        (batch(data=np.zeros((2, 3072))), "data is an array that is not one of bytes"),
        (batch(data=np.array([[None] * 3072] * 2)), "data is an array that is not one of bytes"),
        (batch(data=np.zeros((2, 784), dtype=np.uint8)), r"data is uint8 \(2, 784\)"),
        (batch(data=np.zeros((2, 3, 32, 32), dtype=np.uint8)), r"data is uint8 \(2, 3, 32, 32\)"),
        (batch(data=Kept((10**9, 3072), b"few")), r"an array of shape \(1000000000, 3072\) in 3 bytes"),
        (batch(data=Kept((-1, 3072), b"")), "not one of bytes"),
        (batch(data=Kept("many", b"")), "not one of bytes"),
        (batch(data=Kept((2, 3072), 10**15)), "not one of bytes"),
        (batch(labels=[1]), "labels are no list of 2 whole numbers"),
        (batch(labels=[1, 2.0]), "labels are no list of 2 whole numbers"),
        (batch(labels=[True, 2]), "labels are no list of 2 whole numbers"),
        (batch(labels=None), "labels are no list of 2 whole numbers"),
        (batch(labels=[1, 10]), "labels other than 0 to 9"),
        (batch(labels=[-1, 1]), "labels other than 0 to 9"),
        (batch(labels=[10**30, 1]), "labels other than 0 to 9"),
    ],
)
def test_pickles_that_are_no_batch(tmp_path: Path, held: Any, told: str) -> None:
    (tmp_path / "batch").write_bytes(pickle.dumps(held, 4))
    with pytest.raises(DataError, match=told):
        read_python(tmp_path / "batch")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle",
        PYTHON_2[:-1],
        PYTHON_2[:100],
        b"\x80\x02}b.",
        b"\x80\x02](K\x01s.",
        b"\x80\x04\x8e" + b"\xff" * 8,
    ],
    ids=["empty", "text", "no end", "cut off", "built out of nothing", "item of no dict", "more bytes than there are"],
)
def test_damaged_pickles(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read .*nothing of it was run"):
        read_python(tmp_path / "batch")


def test_a_pickle_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photographs, "MOST_BYTES", 100)
    (tmp_path / "batch").write_bytes(PYTHON_2)
    with pytest.raises(DataError, match="has 6,293 bytes, the limit is 100"):
        read_python(tmp_path / "batch")


@pytest.mark.parametrize("cut", [1, 3072])
def test_a_binary_batch_that_is_cut_off(tmp_path: Path, cut: int) -> None:
    (tmp_path / "batch.bin").write_bytes(bytes(2 * 3073)[:-cut])
    with pytest.raises(DataError, match="no multiple of the 3,073 of one image"):
        read_binary(tmp_path / "batch.bin")


@pytest.mark.parametrize(("labels", "told"), [([], "0 images"), ([0, 10], "labels other than 0 to 9")])
def test_a_binary_batch_of_something_else(tmp_path: Path, labels: list[int], told: str) -> None:
    parts = cifar_parts(2, 2)
    parts[2] = np.zeros((len(labels), 3072), dtype=np.uint8), np.array(labels, dtype=np.int64)
    write_cifar(tmp_path, parts, binary=True)
    with pytest.raises(DataError, match=rf"data_batch_3.bin has {told}"):
        load_dataset("cifar10", str(tmp_path))


@pytest.mark.parametrize("name", ["svhn", "cifar10"])
def test_too_few_test_images(tmp_path: Path, name: str) -> None:
    write_svhn(tmp_path, 2, 1)
    write_cifar(tmp_path, cifar_parts(2, 1), binary=True)
    with pytest.raises(DataError, match="1 test images cannot be divided"):
        load_dataset(name, str(tmp_path))


def test_the_classes_are_those_of_the_published_files() -> None:
    assert len(photographs.CLASSES) == 10 and photographs.CLASSES[3] == "cat"
