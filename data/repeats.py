"""Rows that stand in a table again, at another owner or as copies, and names that are written in two ways.

Each is said only where so many rows hardly agree by chance. Results are places of rows, int (n,), empty where nothing
is to be said.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl

_ABOVE_CHANCE, _MOST_BY_CHANCE = 20, 0.5
"""How many times as many as by chance, and of how many pairs by chance nothing can be said."""
_NONE = np.empty(0, dtype=np.intp)


def at_two_owners(columns: Sequence[pl.Series], owners: pl.Series) -> np.ndarray:
    """Rows that stand at a second owner too, equal in all columns: texts (rows,), null where a cell is empty."""
    import polars as pl

    if not columns:
        return _NONE
    hashes = pl.DataFrame(columns).hash_rows(seed=0)
    sides = pl.DataFrame({"row": hashes, "owner": owners}).drop_nulls().group_by("row").agg(pl.col("owner").n_unique())
    shared = hashes.is_in(sides.filter(pl.col("owner") > 1)["row"].to_list()).to_numpy()
    return np.flatnonzero(shared) if _beyond_chance(shared.sum() / 2, columns) else _NONE


def copies(texts: Mapping[str, pl.Series], owner: str) -> np.ndarray:
    """Rows that stand there before, equal in all columns. owner: a column that chance is not counted in, or none."""
    import polars as pl

    if not texts:
        return _NONE
    frame = pl.DataFrame([column.rename(name) for name, column in texts.items()])
    again = ~frame.is_unique().to_numpy()
    again[again] = ~frame.filter(again).select(pl.struct(pl.all()).is_first_distinct()).to_series()
    return np.flatnonzero(again) if _beyond_chance(again.sum(), _but(texts, owner)) else _NONE


def _but(texts: Mapping[str, pl.Series], owner: str) -> list[pl.Series]:
    return [column for name, column in texts.items() if name != owner]


def _beyond_chance(alike: float, columns: Sequence[pl.Series]) -> bool:
    """Whether so many pairs of rows hardly agree in all columns where these are independent."""
    logs, rows = 0.0, 1
    for column in columns:
        shares = np.array(column.rename("value").value_counts()["count"])
        logs, rows = logs + math.log(float(((shares / shares.sum()) ** 2).sum())), len(column)
    by_chance = math.exp(logs) * rows * (rows - 1) / 2
    return bool(alike > _ABOVE_CHANCE * by_chance and by_chance < _MOST_BY_CHANCE)


def plain_name(text: str) -> str:
    """What is left of a name without case, blanks, invisible signs, and zeros before a number; a blank between digits
    stays.

    >>> plain_name("Ward  07\u200b"), plain_name("ward7"), plain_name("1 05"), plain_name("0.05")
    ('ward7', 'ward7', '1 5', '0.05')
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    text = "".join(sign for sign in text if unicodedata.category(sign) not in ("Cf", "Cc"))
    text = re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", text)
    return re.sub(r"(?<![\d.,])0+(?=\d)", "", text)


def spelled_twice(names: Iterable[str]) -> dict[str, str]:
    """Name -> the first one that it equals but for what `plain_name` takes away.

    >>> spelled_twice(["Ward 7", "Ward 8", "ward 07"])
    {'ward 07': 'Ward 7'}
    """
    first: dict[str, str] = {}
    return {name: known for name in names if (known := first.setdefault(plain_name(name), name)) != name}
