"""Every division of flwr-datasets, by the library itself: it is given columns, and only indices come back.

The library is optional, imported where a scenario asks for it, and kept from the network."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from consilium.protocol.errors import ConfigError

ROW = "row of consilium"
"""Column of the rows' own numbers: partitions are read off it, whatever order a partitioner brings the rows into."""
_UNUSABLE = ("VerticalEvenPartitioner", "VerticalSizePartitioner", "IdToSizeFncPartitioner", "Partitioner")
"""They divide columns, and every teacher needs all of them; or take a function, which no file holds; the last is the
base of the others."""
_ARRAYS = ("distribution_array",)  # options that the library takes as arrays only


def index_sets(columns: Mapping[str, np.ndarray], table: Mapping[str, Any], seed: int) -> list[np.ndarray]:
    """Positions int64 of the rows of each partition, in the library's order. columns: arrays (rows,) by name. table:
    `name` of a class of `flwr_datasets.partitioner`, and its arguments; where it takes a `seed` that is not given it
    gets this one. All rows are brought into an order by lot first, with this seed, as the library's `FederatedDataset`
    does: several partitioners cut contiguous pieces. Raises ConfigError: flwr-datasets is not installed, there is no
    such class or argument, or the library refuses."""
    datasets, partitioners = _libraries()
    options = dict(table)
    name = str(options.pop("name", ""))
    usable = [partitioner for partitioner in partitioners.__all__ if partitioner not in _UNUSABLE]
    if name not in usable:
        raise ConfigError(
            f"data.partitioner.name is {name!r}, no partitioner of flwr-datasets for rows", f"Choose from {usable}"
        )
    kind = getattr(partitioners, name)
    takes = f"{name} takes {inspect.signature(kind)}"
    if "seed" in inspect.signature(kind).parameters:
        options.setdefault("seed", seed)
    options |= {key: np.array(options[key]) for key in _ARRAYS if key in options}
    rows, wanted = len(next(iter(columns.values()))), options.get("num_partitions")
    if isinstance(wanted, int) and wanted > rows:  # before anything is made for each of them
        fault = f"data.partitioner.num_partitions {wanted} is more than the {rows} rows that there are"
        raise ConfigError(fault, "Lower it")
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # runs have bars of their own
        warnings.simplefilter("ignore")
        try:
            partitioner = kind(**options)
            partitioner.dataset = datasets.Dataset.from_dict({**columns, ROW: np.arange(rows)}).shuffle(seed=seed)
            parts = map(partitioner.load_partition, range(partitioner.num_partitions))
            return [np.array(part[:][ROW], dtype=np.int64) for part in parts]
        except Exception as error:  # of many kinds, from the library and those below it
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise ConfigError(f"data.partitioner: {name} refuses: {reason}", takes) from None


OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
"""Variables that keep the libraries from the network; read when they are imported."""


def _libraries() -> tuple[ModuleType, ModuleType]:
    """`datasets` and `flwr_datasets.partitioner`; both are told to stay away from the network."""
    before = {variable: os.environ.get(variable) for variable in OFFLINE}
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    try:
        return importlib.import_module("datasets"), importlib.import_module("flwr_datasets.partitioner")
    except ImportError:
        raise ConfigError(
            'data.partition "flwr" needs flwr-datasets, which is not installed',
            "pip install 'consilium-pate[partitions]'",
        ) from None
    finally:
        for variable, value in before.items():
            os.environ.pop(variable, None) if value is None else os.environ.update({variable: value})
