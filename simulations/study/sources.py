"""The rows that a study divides: their content hash, and how they come to those who work on them."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np

from consilium.protocol.digests import canonical_digest
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.source import OWN
from consilium.simulations.datasets.spec import IN_PACKAGE, NAMES, SourceSpec


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


def is_everywhere(spec: SourceSpec) -> bool:
    """Whether a node that has this program, or the package that the set is from, has the rows too."""
    return spec.set in IN_PACKAGE or (spec.set not in OWN and spec.set not in NAMES)


def packed(source: Source) -> bytes:
    """For a node that cannot open it by name."""
    return pickle.dumps(source, protocol=pickle.HIGHEST_PROTOCOL)


def unpacked(content: bytes) -> Source:
    """The inverse; only of what this program has packed."""
    return pickle.loads(content)
