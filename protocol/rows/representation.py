"""What models see instead of the bare features: a fixed transform that every node computes for itself.

It is part of the schema, so parties and student agree on it by the federation's digest. Queries travel, and have their
ids, as they are. Nothing here learns: no private row has any influence on it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

Representation = Literal["none", "scattering"]
"""none: the standardised features. scattering: of 28x28 images with values from 0 (background) to 1, see `scattering`.
"""

IMAGE_FEATURES = 28 * 28


def represent(representation: Representation, rows: np.ndarray) -> np.ndarray:
    """Standardised rows (n, features) -> what teachers and students are trained on, (n, inputs).

    Of "none" the very rows; of "scattering" float32 (n, 3969), each row of length 1.
    """
    if representation == "none":
        return rows
    from consilium.protocol.rows.scattering import hellinger, scatter  # scipy: only for those who use it

    return hellinger(scatter(rows))


def width(representation: Representation, features: int) -> int:
    """Numbers that `represent` gives for a row of so many features.

    >>> width("none", 3), width("scattering", IMAGE_FEATURES)
    (3, 3969)
    """
    if representation == "none":
        return features
    from consilium.protocol.rows.scattering import FEATURES

    return FEATURES
