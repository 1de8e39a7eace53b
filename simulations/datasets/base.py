"""What a data set is to a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Dataset:
    """Rows with their natural owner.

    `x` float32 (rows, features), `y` int64 (rows,) indices into `classes`, `owner` int64 (rows,) id of the hospital
    (or writer, or site) the row came from; `owner_label` names one of them ("hospital").
    """

    name: str
    title: str
    attribution: str
    features: tuple[str, ...]
    classes: tuple[str, ...]
    owner_label: str
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    owner: np.ndarray = field(repr=False)
