"""The public part of a division: the schema that its statistics give, the pool, and what is seen for warnings."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import numpy as np
from pydantic import ValidationError

from consilium.protocol.config_files import faults_of
from consilium.protocol.errors import ConfigError
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.schema import Schema
from consilium.report.warnings import RowFacts
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.population.partition import ANEW, OF_PUBLIC, Partition, of_public_patients
from consilium.simulations.population.specs import DataSpec


def completed(data: DataSpec, dataset: Dataset, partition: Partition) -> Dataset:
    """A table with its schema, and the mean of its pool where a value is missing; any other data set as it is."""
    if not dataset.columns:
        return dataset
    known = Schema.of_table(dataset.columns, dataset.classes, dataset.x[partition.queries])
    if data.as_they_are:
        count = len(known.features)
        known = known.model_copy(update={"center": (0.0,) * count, "scale": (1.0,) * count})
    return replace(dataset, x=known.filled(dataset.x), schema=known)


def schema(data: DataSpec, dataset: Dataset, partition: Partition) -> Schema:
    """The federation's schema; its statistics come from the pool alone, and not from the rows that are held out to
    evaluate the student. Raises ConfigError: the representation does not fit the data set."""
    if dataset.schema is not None:
        return dataset.schema
    try:
        if data.representation != "none":
            return Schema.of_images(dataset.features, dataset.classes, data.representation)
    except ValidationError as error:
        reason = "; ".join(faults_of(error, Schema, {}))
        fault = f"data.representation {data.representation!r} does not fit {dataset.name!r}: {reason}"
        raise ConfigError(fault) from None
    if data.as_they_are:
        return Schema.of_images(dataset.features, dataset.classes, "none")
    return Schema.from_public_rows(dataset.features, dataset.classes, dataset.x[partition.queries].astype(np.float64))


def queries(dataset: Dataset, partition: Partition) -> np.ndarray:
    """The pool's rows, canonical float32 (rows, features)."""
    return canonical_queries(dataset.x[partition.queries], len(dataset.features))


LEAST_ROWS = 30  # fewer labels agree with a pattern by chance
MOST_COLUMNS = 200  # more are pixels or embeddings


def look(data: DataSpec, most_queries: int, dataset: Dataset, partition: Partition) -> RowFacts:
    """Of the rows of a simulation whose query budget allows so many queries. Data sets that ship are known: their
    columns and copies are not looked at."""
    query_rows, test = partition.queries, partition.test
    public = np.concatenate([query_rows, test])
    counts = np.bincount(dataset.y[public], minlength=len(dataset.classes))
    x, y = dataset.x[public], dataset.y[public]
    described = data.is_described
    parts = dataset.places if described and len(dataset.features) <= MOST_COLUMNS else {}
    shared = of_public_patients(dataset, public)
    return RowFacts(
        public={name: int(count) for name, count in zip(dataset.classes, counts, strict=True)}, askable=len(query_rows),
        test=len(test), queries=most_queries, different=len(set(query_ids(queries(dataset, partition)))),
        leaks=tuple(name for name, part in parts.items() if _says_the_label(x[:, part], y)),
        twice=_twice(dataset, partition, public) if described else 0.0,
        parties=len(partition.parties) + partition.left_out, too_small=partition.left_out, least_rows=data.rows_needed,
        left_out={**dataset.left_out, OF_PUBLIC.format(dataset.owner_label): shared},
        anew=ANEW.format(dataset.owner_label) if shared else "",
    )  # fmt: skip


def _says_the_label(values: np.ndarray, y: np.ndarray) -> bool:
    """Whether each value stands for one class, or one number divides two classes."""
    classes = np.unique(y)
    if len(classes) < 2 or len(y) < LEAST_ROWS:
        return False
    _, code = np.unique(values, axis=0, return_inverse=True)
    pairs = np.unique(np.stack([code.reshape(-1), y]), axis=1).shape[1]
    if len(np.unique(code)) == pairs and pairs <= 2 * len(classes):
        return True
    if len(classes) > 2 or min(np.count_nonzero(y == label) for label in classes) < LEAST_ROWS // 2:
        return False
    low, high = (values[y == label, 0] for label in classes)
    return bool(low.max() < high.min() or high.max() < low.min())


def _twice(dataset: Dataset, partition: Partition, public: np.ndarray) -> float:
    """Share of the private rows that are equal, label and all, to one of another party or to a public one."""
    sides = [*partition.parties.values(), public]
    rows = np.concatenate(sides)
    side = np.repeat(np.arange(len(sides)), [len(part) for part in sides])
    whole = np.column_stack([dataset.x[rows], dataset.y[rows].astype(np.float32)]) + np.float32(0)  # -0 is 0
    _, code = np.unique([blake2b(row.tobytes(), digest_size=16).digest() for row in whole], return_inverse=True)
    pairs = np.unique(np.stack([code, side]), axis=1)[0]
    shared = np.bincount(pairs)[code] > 1
    private = side < len(partition.parties)
    return float(shared[private].mean())
