"""The content hash of the rows that a study divides."""

from __future__ import annotations

import hashlib

import numpy as np

from consilium.protocol.digests import canonical_digest
from consilium.simulations.datasets.base import Source


def source_digest(source: Source) -> str:
    """SHA-256, hex, of rows, labels, owners and patients, of their names, and of what is public among them.

    Features are hashed as they are when all rows are public, so that every category is there.
    """
    rows = np.arange(len(source.y))
    dataset = source.dataset(rows)
    public = source.public
    arrays = {
        "x": dataset.x,
        "y": source.y,
        "owner": source.owner,
        "patient": source.patient,
        "time": source.time,
        "queries": None if public is None else public.queries,
        "test": None if public is None else public.test,
    }
    return canonical_digest(
        {
            "arrays": {name: _of_array(array) for name, array in arrays.items()},
            "names": [source.name, source.classes, dataset.classes, dataset.features, source.owner_names],
            "schema": None if dataset.schema is None else dataset.schema.model_dump(mode="json"),
        }
    )


def _of_array(array: np.ndarray | None) -> list[object]:
    if array is None:
        return []
    content = np.ascontiguousarray(array)
    return [str(content.dtype), list(content.shape), hashlib.sha256(content.tobytes()).hexdigest()]
