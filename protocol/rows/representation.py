"""What models see instead of the bare features: a fixed transform that every node computes for itself.

It is part of the schema, so parties and student agree on it by the federation's digest. Queries travel, and have their
ids, as they are. Nothing here learns: no private row has any influence on it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

Representation = Literal["none", "scattering"]
"""none: the standardised features. scattering: of images of 28x28 or 32x32 pixels with values from 0 to 1, grey or in
colour, see `scattering`.
"""


def represent(representation: Representation, rows: np.ndarray) -> np.ndarray:
    """Standardised rows (n, features) -> what teachers and students are trained on, (n, inputs).

    Of "none" the very rows; of "scattering" float32 (n, `width`), each row of length 1.
    """
    if representation == "none":
        return rows
    from consilium.protocol.rows.scattering import hellinger, scatter  # scipy: only for those who use it

    return hellinger(scatter(rows))


def width(representation: Representation, features: int) -> int:
    """Numbers that `represent` gives for a row of so many features. Raises ValueError if it does not take such rows.

    >>> width("none", 3), width("scattering", 28 * 28), width("scattering", 3 * 32 * 32)
    (3, 3969, 15552)
    """
    if representation == "none":
        return features
    from consilium.protocol.rows.scattering import scattered_shape, scattered_width

    shape = scattered_shape(features)
    if shape is None:
        raise ValueError(
            f"scattering is of images of 28x28 or 32x32 pixels, grey or in colour, not {features} features"
        )
    return scattered_width(shape)
