"""The public part of a division: the schema that its statistics give, and the pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import ValidationError

from consilium.protocol.config_files import faults_of
from consilium.protocol.errors import ConfigError
from consilium.protocol.queries import canonical_queries
from consilium.protocol.schema import Schema
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.population.partition import Partition
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
