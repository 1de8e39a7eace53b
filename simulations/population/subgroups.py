"""Groups of rows that are judged apart: the key `data.subgroups`, such as sex and age."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from consilium.data.cells import texts_of
from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.base import Dataset, Source, Subgroups
from consilium.simulations.datasets.spec import SubgroupColumn
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.population.specs import DataSpec

MOST_GROUPS = 12
"""Of one column: of more each has too few rows to be judged."""
MOST_CODES = 6
"""Different numbers among the public rows of a column that is taken for codes, and not cut."""
THIRDS = ("lowest third", "middle third", "highest third")
MISSING = "missing"


def subgroups_of(data: DataSpec, source: Source, dataset: Dataset, public_rows: np.ndarray) -> tuple[Subgroups, ...]:
    """Of each column of `data.subgroups` the group of every row, by what stood there before `data.shift`.

    Numbers are cut at the cuts that are stated, else at the thirds of the public rows, int64 (public rows,). Whether
    they are numbers, and cut at all, public rows say too: no cut is a function of private rows. Rows without a value,
    or with text where public rows have numbers, are a group.

    Raises
    ------
    ConfigError : there is no such column, it has too many values, or all rows are in one group.
    """
    return tuple(
        _of_column(wanted if isinstance(wanted, SubgroupColumn) else SubgroupColumn(column=wanted), source, dataset,
                   public_rows)
        for wanted in data.subgroups
    )  # fmt: skip


def _of_column(wanted: SubgroupColumn, source: Source, dataset: Dataset, public_rows: np.ndarray) -> Subgroups:
    values = _values(wanted.column, source, dataset, public_rows)
    if values.dtype.kind == "f" and (wanted.cuts or len(_different(values[public_rows])) > MOST_CODES):
        names, group = _cut(wanted, values, public_rows)
    elif wanted.cuts:
        raise ConfigError(
            f"data.subgroups: column {wanted.column!r} holds categories, and cuts belong to numbers", "Leave cuts out"
        )
    else:
        names, group = _by_value(values)
    there = np.unique(group)
    if len(there) > MOST_GROUPS:
        raise ConfigError(
            f"data.subgroups: column {wanted.column!r} has {len(there)} different values, at most {MOST_GROUPS} may be",
            'Name another column, or of numbers the cuts: { column = "age", cuts = [65, 80] }',
        )
    if len(there) < 2:
        raise ConfigError(
            f"data.subgroups: all rows are in one group of column {wanted.column!r}, {names[there[0]]!r}",
            "Name another column, or other cuts",
        )
    return Subgroups(wanted.column, tuple(names[place] for place in there), np.searchsorted(there, group))


def _cut(wanted: SubgroupColumn, values: np.ndarray, public_rows: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Names, and the group int64 (rows,), of numbers float64 (rows,)."""
    if wanted.cuts:
        cuts = list(wanted.cuts)
        between = [f"{low:g} to below {high:g}" for low, high in pairwise(cuts)]
        names = [f"below {cuts[0]:g}", *between, f"{cuts[-1]:g} and more"]
    else:
        public = values[public_rows]
        if not np.isfinite(public).any():
            raise ConfigError(
                f"data.subgroups: no public row has a value of column {wanted.column!r}, so nothing says where to cut",
                f'State the cuts: {{ column = "{wanted.column}", cuts = [65, 80] }}',
            )
        cuts, names = np.nanquantile(public, [1 / 3, 2 / 3]).tolist(), list(THIRDS)
    group = np.searchsorted(np.array(cuts), values, side="right")
    return [*names, MISSING], np.where(np.isnan(values), len(names), group)


def _by_value(values: np.ndarray) -> tuple[list[str], np.ndarray]:
    if values.dtype.kind == "f":
        different = _different(values)
        names = [f"{value:g}" for value in different]
        return [*names, MISSING], np.where(np.isnan(values), len(names), np.searchsorted(different, values))
    names, group = np.unique(values, return_inverse=True)
    return [str(name) for name in names], group.astype(np.int64)


def _different(values: np.ndarray) -> np.ndarray:
    return np.unique(values[~np.isnan(values)])


def _values(column: str, source: Source, dataset: Dataset, public_rows: np.ndarray) -> np.ndarray:
    """float64 (rows,) with NaN, or texts (rows,) with `MISSING`, of a raw column or of features that encode one."""
    if isinstance(source, TableSource):
        import polars as pl

        raw = source.frame if source.beside is None else source.frame.hstack(source.beside)
        name = _matching(column, raw.columns)
        texts = texts_of(raw[name])
        numbers = texts.cast(pl.Float64, strict=False)
        if numbers[public_rows].null_count() > texts[public_rows].null_count():
            return np.array([MISSING if text is None else text for text in texts])
        return numbers.to_numpy().astype(np.float64)
    codes = [name.partition("=")[0] for name in dataset.features]
    name = _matching(column, list(dict.fromkeys([*dataset.features, *codes])))
    if name in dataset.features:
        return dataset.x[:, dataset.features.index(name)].astype(np.float64)
    places = [place for place, code in enumerate(codes) if code == name]
    words = [dataset.features[place].partition("=")[2] for place in places]
    seen = dataset.x[:, places] > 0.5
    other = "other" if len(words) > 1 else f"not {words[0]}"
    return np.array([*words, other])[np.where(seen.any(axis=1), seen.argmax(axis=1), len(words))]


def _matching(column: str, columns: Sequence[str]) -> str:
    """The column of this name; else the only one that has it in other letters' case."""
    if column in columns:
        return column
    same = [name for name in columns if name.casefold() == column.casefold()]
    if len(same) != 1:
        more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
        raise ConfigError(
            f"data.subgroups: there is no column {column!r}", f"There are {', '.join(columns[:20])}{more}"
        )
    return same[0]
