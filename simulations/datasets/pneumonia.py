"""PneumoniaMNIST: has a child pneumonia, by its chest X-ray of 28x28 pixels?

Kermany et al., Cell 2018; Yang et al., MedMNIST v2, Scientific Data 2023. The 4,708 images of the training part are the
parties'; the student asks about the 524 of the validation part, and the 624 of the test part are held out. The test
part was collected apart from the others: models do worse there. The files do not say which images are of one child.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.arrays import read_arrays
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.folder import data_file
from consilium.simulations.datasets.images import PIXELS, SIDE

FILES = ("pneumoniamnist.npz", "pneumoniamnist_rebuilt.npz")
SOURCE = "https://zenodo.org/records/10519652 (pneumoniamnist.npz)"
PARTS = ("train", "val", "test")


@cache
def load_pneumonia(folder: Path) -> Dataset:
    """Rows of all three parts; without owners (every row's owner is 0)."""
    there = [name for name in FILES if (folder / name).is_file()]
    path = data_file(folder, there[0] if there else FILES[0], SOURCE)
    arrays = read_arrays(path, SOURCE)
    images, labels = [], []
    for part in PARTS:
        x, y = arrays.get(f"{part}_images"), arrays.get(f"{part}_labels")
        if x is None or y is None or x.shape != (y.size, SIDE, SIDE) or x.dtype != np.uint8 or y.size == 0:
            raise DataError(f"{path}: the {part} part is not 28x28 images with labels", f"Get it anew from {SOURCE}")
        images.append(x.reshape(len(x), -1).astype(np.float32) / np.float32(255))
        labels.append(y.reshape(-1).astype(np.int64))
    y = np.concatenate(labels)
    if not np.isin(y, (0, 1)).all():
        raise DataError(f"{path} has labels other than 0 and 1", f"Get it anew from {SOURCE}")
    queries, test = len(labels[0]), len(labels[0]) + len(labels[1])
    return Dataset(
        name="pneumonia",
        title="PneumoniaMNIST",
        attribution="Yang J et al. MedMNIST v2. Scientific Data 2023; Kermany DS et al. Cell 2018. CC BY 4.0.",
        features=PIXELS,
        classes=("normal", "pneumonia"),
        owner_label="party",
        x=np.concatenate(images),
        y=y,
        owner=np.zeros(len(y), dtype=np.int64),
        public=Public(np.arange(queries, test), np.arange(test, len(y))),
    )
