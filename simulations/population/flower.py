"""Every division of flwr-datasets, by the library itself: it is given columns, and only indices come back.

The library is optional, imported where a scenario asks for it, and kept from the network.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import warnings
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from consilium.protocol.errors import ConfigError

ROW = "row of consilium"
"""Column of the rows' own numbers: partitions are read off it, whatever order a partitioner brings the rows into."""
_COLUMNS_NOT_ROWS = "divides columns, and every teacher needs all of them"
_UNUSABLE = {
    "VerticalEvenPartitioner": _COLUMNS_NOT_ROWS,
    "VerticalSizePartitioner": _COLUMNS_NOT_ROWS,
    "IdToSizeFncPartitioner": "takes a function, which no file holds: choose Linear, Square, Exponential or Size",
    "Partitioner": "is the base of the others",
}
_ARRAYS = ("distribution_array",)
"""Options that the library takes as arrays only."""


def index_sets(
    columns: Mapping[str, np.ndarray], table: Mapping[str, Any], seed: int, shuffle: bool = False
) -> list[np.ndarray]:
    """Positions int64 of the rows of each partition, in the library's order.

    columns: arrays (rows,) by name. table: `name` of a class of `flwr_datasets.partitioner`, and its arguments; where
    it takes a `seed` that is not given it gets this one. shuffle: whether the library brings all rows into an order by
    lot first, with this seed, as its `FederatedDataset` does.

    >>> [part.tolist() for part in index_sets({"a": np.arange(5)}, {"name": "IidPartitioner", "num_partitions": 2}, 0)]
    [[0, 1, 2], [3, 4]]

    Raises
    ------
    ConfigError : flwr-datasets is not installed, there is no such class or argument, or the library refuses.
    """
    datasets, partitioners = _libraries()
    name, options = str(table.get("name", "")), {key: value for key, value in table.items() if key != "name"}
    kind = _kind(partitioners, name)
    _check_options(kind, name, options)
    if "seed" in inspect.signature(kind).parameters:
        options.setdefault("seed", seed)
    options |= {key: np.array(options[key]) for key in _ARRAYS if key in options}
    rows, wanted = len(next(iter(columns.values()))), options.get("num_partitions")
    if isinstance(wanted, int) and wanted > rows:  # before anything is made for each of them
        fault = f"data.partitioner.num_partitions {wanted} is more than the {rows} rows that there are"
        raise ConfigError(fault, "Lower it")
    with _quiet():
        try:
            partitioner = kind(**options)
            whole = datasets.Dataset.from_dict({**columns, ROW: np.arange(rows)})
            partitioner.dataset = whole.shuffle(seed=seed) if shuffle else whole
            return _positions(partitioner, partitioner.num_partitions)
        except Exception as error:  # of many kinds, from the library and those below it
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise ConfigError(f"data.partitioner: {name} refuses: {reason}", f"It takes {_told(kind)}") from None


def _positions(partitioner: Any, count: int) -> list[np.ndarray]:
    """What each partition has in the column `ROW`.

    Most partitioners have noted all indices once they have made the first partition; where one has not, or calls it
    otherwise, each partition is made, which takes several times as long.
    """
    first = partitioner.load_partition(0)
    noted = getattr(partitioner, "_partition_id_to_indices", {})
    if set(noted) == set(range(count)):
        rows = np.array(partitioner.dataset[:][ROW], dtype=np.int64)  # one partitioner sorts the data set
        return [rows[np.asarray(noted[index], dtype=np.int64)] for index in range(count)]
    parts = [first, *(partitioner.load_partition(index) for index in range(1, count))]
    return [np.array(part[:][ROW], dtype=np.int64) for part in parts]


def _kind(partitioners: ModuleType, name: str) -> type:
    usable = [partitioner for partitioner in partitioners.__all__ if partitioner not in _UNUSABLE]
    if name in _UNUSABLE:
        raise ConfigError(f"data.partitioner.name {name!r} {_UNUSABLE[name]}", f"Choose from {', '.join(usable)}")
    if name not in usable:
        fault = (
            f"data.partitioner.name {name!r} is no partitioner of flwr-datasets"
            if name
            else "data.partitioner has no name"
        )
        raise ConfigError(fault, f"Choose from {', '.join(usable)}")
    return getattr(partitioners, name)


def _check_options(kind: type, name: str, options: Mapping[str, Any]) -> None:
    known = inspect.signature(kind).parameters
    if unknown := [key for key in options if key not in known]:
        raise ConfigError(f"data.partitioner.{unknown[0]}: {name} has no such option", f"It takes {_told(kind)}")
    needed = [key for key, option in known.items() if option.default is option.empty]
    if missing := [key for key in needed if key not in options]:
        raise ConfigError(f"data.partitioner: {name} needs {', '.join(missing)}", f"It takes {_told(kind)}")


def _told(kind: type) -> str:
    """Its options, with the defaults that they have.

    The seed's is the run's here.
    """
    options = inspect.signature(kind).parameters.values()
    return ", ".join(
        option.name if option.default is option.empty or option.name == "seed" else f"{option.name} = {option.default}"
        for option in options
    )


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


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's bars and warnings on stderr, where runs have their own."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
