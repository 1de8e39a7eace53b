"""Makes the data sets that are in the package: `python tools/embedded_data.py stroke|heart IN.npz`, and
`python tools/embedded_data.py digits MNIST_FOLDER WRITERS.npz`.

Of `stroke`, IN.npz holds one array for each column of the trial and `vocab_json` with the words of the coded ones and
the trial's abbreviations of countries. Of `heart`, it holds the four "processed" files of the UCI repository one below
the other: `X` (rows, 13) with NaN for "?", `feature_names`, `num`, `hospital` as an index into `hospital_names`.

Of `digits`, MNIST_FOLDER holds MNIST's training images and labels as gzipped idx files, and WRITERS.npz who wrote each
of them, as QMNIST numbers writers (`train_writer`).
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import numpy as np

from consilium.simulations.datasets import coded
from consilium.simulations.datasets.base import named
from consilium.simulations.datasets.images import LEVELS, ROWS, SIDE, read_idx

FOLDER = Path(coded.__file__).parent


def stroke(source: str, folder: Path = FOLDER) -> None:
    """Keep the baseline columns, hospital, country and outcome of the patients whose outcome is known."""
    with np.load(source, allow_pickle=False) as file:
        known = np.isin(file["OCCODE"], [int(code) for code in named("stroke")["label"]["words"]])
        columns = [*coded.used_columns("stroke"), "HOSPNUM"]
        kept = {name: file[name][known] for name in columns}
        words = json.loads(str(file["vocab_json"]))
        country = file["CNTRYNUM"][known]
    kept["OCCODE"] = kept["OCCODE"].astype(np.uint8)
    vocabulary = np.array(json.dumps({name: words[name] for name in columns if name in words}))
    abbreviations = {int(number): name for number, name in words["CNTRYNUM_names"].items()}
    places = [list(named("stroke")["countries"]).index(abbreviations[number]) for number in country]
    kept["COUNTRY"] = np.array(places, dtype=np.uint8)
    np.savez_compressed(folder / "stroke.npz", vocabulary=vocabulary, **kept)


def heart(source: str, folder: Path = FOLDER) -> None:
    """Keep all rows and columns, each column by its name."""
    with np.load(source, allow_pickle=False) as file:
        columns = {str(name): values for name, values in zip(file["feature_names"], file["X"].T, strict=True)}
        kept = {**columns, **{name: file[name] for name in ("num", "hospital", "hospital_names")}}
    np.savez_compressed(folder / "heart.npz", **kept)


WRITERS = 295
"""250 parties, and 45 writers of public rows."""


def digits(mnist: str, writers: str, folder: Path = FOLDER) -> None:
    """Keep `ROWS` images by lot of each of `WRITERS` writers by lot, in 4 bits, each within the box of its ink.

    Only writers of training images are drawn: those of test images have 33 each. Whoever is not drawn is left for
    choosing parameters (docs/scenarios.md). As LZMA they take 1.8 MB, as zip's usual way 2.1.
    """
    x = read_idx(Path(mnist) / "train-images-idx3-ubyte.gz")
    y = read_idx(Path(mnist) / "train-labels-idx1-ubyte.gz")
    with np.load(writers, allow_pickle=False) as file:
        writer = file["train_writer"]
    everybody, counts = np.unique(writer, return_counts=True)
    lot = np.random.default_rng(0)
    drawn = np.sort(lot.permutation(everybody[counts >= ROWS])[:WRITERS])
    rows = np.concatenate([np.sort(lot.permutation(np.flatnonzero(writer == who))[:ROWS]) for who in drawn])
    grey = np.rint(np.stack([_box(image) for image in x[rows]]) / 255 * (LEVELS - 1)).astype(np.uint8)
    pairs = grey.reshape(len(rows), -1)
    arrays = {"images": pairs[:, ::2] << 4 | pairs[:, 1::2], "labels": y[rows], "writers": drawn}
    with zipfile.ZipFile(folder / "digits.npz", "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # of no time of day, so that the file is the same each time
            entry.compress_type = zipfile.ZIP_LZMA
            with archive.open(entry, "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _box(image: np.ndarray) -> np.ndarray:
    """uint8 (28, 28) -> (SIDE, SIDE): what has ink, in the middle. MNIST scales digits to fit in such a square."""
    down, right = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
    ink = image[down[0] : down[-1] + 1, right[0] : right[-1] + 1]
    boxed = np.zeros((SIDE, SIDE), dtype=np.uint8)
    top, left = ((SIDE - size) // 2 for size in ink.shape)
    boxed[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
    return boxed


if __name__ == "__main__":
    {"stroke": stroke, "heart": heart, "digits": digits}[sys.argv[1]](*sys.argv[2:])
