"""What a network for images needs of the rows: bare pixels of a square image, see `shapes`."""

from __future__ import annotations

from consilium.protocol.rows.schema import Schema
from consilium.protocol.rows.shapes import LEAST_SIDE, image_shape


def why_no_images(schema: Schema) -> str:
    """Why the rows of `schema` are no images for a network; empty if they are.

    Only a schema with center 0 and one scale leaves an image as it is: standardised pixel by pixel, a pixel that
    is nearly always black would outweigh all others.
    """
    if schema.representation != "none":
        return f"representation {schema.representation!r} gives no images"
    if image_shape(len(schema.features)) is None:
        return f"{len(schema.features)} features are no square image of {LEAST_SIDE}x{LEAST_SIDE} or more"
    if any(schema.center) or len(set(schema.scale)) > 1:
        return "the pixels are standardised one by one"
    return ""
