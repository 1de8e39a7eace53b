"""What a network for images needs of the rows: bare pixels of a square image with one channel, row by row."""

from __future__ import annotations

import math

from consilium.protocol.rows.schema import Schema

LEAST_SIDE = 16
"""Two 5x5 convolutions without a margin, each followed by a 2x2 max-pool, leave one pixel of 16."""


def image_side(inputs: int, least: int = LEAST_SIDE) -> int | None:
    """Side in pixels of the square image that a row of `inputs` numbers is; None if it is none, or below `least`.

    >>> image_side(784), image_side(785), image_side(100)
    (28, None, None)
    """
    side = math.isqrt(inputs)
    return side if side * side == inputs and side >= least else None


def why_no_images(schema: Schema) -> str:
    """Why the rows of `schema` are no images for a network; empty if they are.

    Only a schema with center 0 and one scale leaves an image as it is: standardised pixel by pixel, a pixel that
    is nearly always black would outweigh all others.
    """
    if schema.representation != "none":
        return f"representation {schema.representation!r} gives no images"
    if image_side(len(schema.features)) is None:
        return f"{len(schema.features)} features are no square image of {LEAST_SIDE}x{LEAST_SIDE} or more"
    if any(schema.center) or len(set(schema.scale)) > 1:
        return "the pixels are standardised one by one"
    return ""
