"""The table of results as summaries read it: which columns are axes, in which order their points stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from consilium.protocol.errors import DataError
from consilium.simulations.study.spec import COLUMNS as FIELDS
from consilium.simulations.study.spec import FACTS

_FACT_TYPES = dict(zip(FACTS, (pl.Float64, pl.Float64, pl.String, pl.String, pl.String), strict=True))
MEASURED = ("division", "teachers")
"""In the column `method`: what is measured of the division and of the votes, and no method."""
LEADING = ("auc", "accuracy")
"""By which of the metrics methods are compared first."""
NATURAL = ("natural", "owners", "owner")
"""How the division that the data came with is called, in small letters."""


def tidy(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with every figure once: one of several cells of a point is kept of what the cells share.

    The columns `FACTS`, which tables of 0.9 lack, are there, null where nothing is known. Figures that are no number,
    or that belong to no seed, are left out. An epsilon may be infinite.

    Raises
    ------
    DataError : a column is missing.
    """
    missing = [name for name in FIELDS if name not in frame.columns]
    if missing:
        raise DataError(f"a table of a study's results has no column {', '.join(missing)}", "Run: consilium study")
    unknown = {name: pl.lit(None, dtype=kind) for name, kind in _FACT_TYPES.items() if name not in frame.columns}
    plain = frame.with_columns(**unknown).with_columns(
        pl.col("value", "low", "high").cast(pl.Float64), pl.col("seed").cast(pl.Int64)
    )
    key = [*axis_names(frame), "seed", "method", "scope", "name", "metric"]
    return (
        plain.with_columns(pl.col(axis_names(frame)).cast(pl.String).fill_null(""), pl.col("name").fill_null(""))
        .filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null() & pl.col("seed").is_not_null())
        .unique(key, keep="first", maintain_order=True)
    )


def axis_names(frame: pl.DataFrame) -> list[str]:
    """Of the columns those that are axes, in their order: all but `COLUMNS` and `FACTS` of `study.spec`.

    >>> axis_names(pl.DataFrame(schema=["cell", "division", "seed", *FIELDS[2:]]))
    ['division']
    """
    return [name for name in frame.columns if name not in (*FIELDS, *FACTS)]


def as_number(text: str) -> float | None:
    """A point of a numeric axis as a number; None for one that is a name.

    >>> as_number("0.05"), as_number("natural"), as_number("nan")
    (0.05, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) != float("inf") and number == number else None


def ordered(points: Iterable[str], told: Sequence[str] = ()) -> list[str]:
    """Points as the study's file names them (`told`), then numbers by size, then names, the natural division first.

    >>> ordered(["10", "2"]), ordered(["iid", "natural"]), ordered(["b", "a", "c"], ["c", "b"])
    (['2', '10'], ['natural', 'iid'], ['c', 'b', 'a'])
    """
    place = {point: index for index, point in enumerate(told)}

    def key(point: str) -> tuple[int, float, bool, str]:
        number = as_number(point)
        return place.get(point, len(place)), float("inf") if number is None else number, point not in NATURAL, point

    return sorted(set(points), key=key)


def methods_of(frame: pl.DataFrame) -> list[str]:
    """Names of all that is compared, those without privacy first: see `title`."""
    found = set(frame["method"].to_list()) - set(MEASURED)
    return sorted(found, key=lambda method: (_ORDER.get(_kind(method), len(_ORDER)), method))


def private_methods(frame: pl.DataFrame) -> list[str]:
    """Those that state a finite epsilon, PATE first."""
    states = frame.filter((pl.col("scope") == "run") & (pl.col("metric") == "epsilon") & pl.col("value").is_finite())[
        "method"
    ].to_list()
    found = [method for method in methods_of(frame) if method in set(states)]
    return sorted(found, key=lambda method: _kind(method) != "pate")


def lead(frame: pl.DataFrame) -> str | None:
    """The metric of runs that most of the methods have, AUC before accuracy; None where there is neither."""
    run = frame.filter((pl.col("scope") == "run") & ~pl.col("method").is_in(MEASURED))
    having = {metric: run.filter(pl.col("metric") == metric)["method"].n_unique() for metric in LEADING}
    best = max(LEADING, key=lambda metric: having[metric])
    return best if having[best] else None


_TITLES = {
    "local": "local only",
    "pooled": "pooled",
    "plurality": "clear plurality",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "noisy_average": "noisy average",
    "pate": "PATE",
    "hand_labels": "labels by hand",
}
_ORDER = {kind: index for index, kind in enumerate(_TITLES)}


def _kind(method: str) -> str:
    """The name of a method without its keys, as `fedavg` of `fedavg (rounds=20)` or `fedavg-2`."""
    return next((kind for kind in sorted(_TITLES, key=len, reverse=True) if method.startswith(kind)), method)


def title(method: str) -> str:
    """As tables and pictures call it.

    >>> title("pate"), title("pate (most_answers=10)"), title("median_of_means")
    ('PATE', 'PATE (most_answers=10)', 'median of means')
    """
    kind = _kind(method)
    return _TITLES[kind] + method.removeprefix(kind) if kind in _TITLES else method.replace("_", " ")
