"""A study as its questions: what is compared with what, in which family, and what is shown without a test.

Like with like: two sides are tested against each other only where both are known to guarantee the same (epsilon to
one in a thousand, delta, unit, neighbouring relation), or both guarantee nothing. What has another guarantee, or none
beside one, is a gap: its interval is shown, it has no p and counts in no family. Guarantees come from the table of
results (`spec.FACTS`), never from names.

Questions: the reference against the other methods; along each axis of one data set, every other point in place of the
natural division, or of the first point where there is none. The latter is asked of the plurality and of every private
method, each a question of its own. One question is one family: p of its contrasts is corrected over them (Holm
1979, "A simple sequentially rejective multiple test procedure"). A method that does not depend on a further axis, as
the plurality on a mechanism, has the same values at each of its points: such a contrast is made once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import polars as pl

from consilium.simulations.study.row_scores import RowScores, UnitScores
from consilium.simulations.study.spec import FACTS
from consilium.simulations.study.summaries.inference import LEVEL, Spread, minus, spread
from consilium.simulations.study.summaries.tidy import MEASURED, NATURAL, axis_names, tidy, title
from consilium.simulations.study.summaries.view import Point, StudyView


def paired(
    frame: pl.DataFrame, metric: str, reference: str, along: str = "method", row_scores: RowScores | None = None
) -> pl.DataFrame:
    """What every method has more than the reference at the same seed and the same point of the axes.

    frame: `results.parquet`. metric: of runs. along: what is compared; an axis's name compares its points, each with
    the point `reference`, for the same method. row_scores: of the same study; without them nothing is known of test
    rows, and intervals are of seeds alone.

    Columns: what both sides have in common (the axes, or the other axes and the method), `along`, difference (mean over
    the common seeds), low, high, seeds, over ("seeds and rows", "seeds", "rows" of one seed, "none": what might have
    been otherwise), unit and units (of test rows, what and how many; "" and 0 where nothing is known of them), p (of
    this comparison alone; null of fewer than 3 seeds).

    Raises
    ------
    DataError : a column is missing.
    """
    plain = tidy(frame).filter((pl.col("scope") == "run") & (pl.col("metric") == metric))
    by = [name for name in (*axis_names(frame), "method") if name != along]
    keys = [*by, "seed"]
    plain = plain.filter(~pl.col("method").is_in(MEASURED)) if along == "method" else plain
    base = plain.filter(pl.col(along) == reference)
    base = base.select(*keys, pl.col("value").alias("other"), pl.col("cell").alias("other_cell"))
    both = plain.filter(pl.col(along) != reference).join(base, on=keys, how="inner")
    both = both.with_columns(step=pl.col("value") - pl.col("other")).sort(*by, along, "seed")
    rows = []
    for row in both.group_by(*by, along, maintain_order=True).agg("step", "cell", "other_cell").iter_rows(named=True):
        mean, known = float(np.mean(row["step"])), _spread(row, metric, row_scores)
        low, high = known.interval(mean)
        ends = {"difference": mean, "low": low, "high": high, "seeds": len(row["step"])}
        units = {"over": known.over, "unit": known.unit, "units": known.units, "p": known.p(mean)}
        rows.append({**{name: row[name] for name in (*by, along)}, **ends, **units})
    kinds = {name: kind for name, kind in _COLUMNS.items() if name in _PAIRED}
    return pl.DataFrame(rows, schema={**dict.fromkeys((*by, along), pl.String), **kinds})


def _spread(row: Mapping[str, Any], metric: str, row_scores: RowScores | None) -> Spread:
    """row: step, cell and other_cell, a list over seeds each."""
    scores: list[UnitScores] = []
    for one, other in zip(row["cell"], row["other_cell"], strict=True):
        pair = None if row_scores is None else [row_scores.of(side, metric) for side in (one, other)]
        if pair is None or pair[0] is None or pair[1] is None:
            return spread(np.array(row["step"]))
        scores.append(minus(pair[0], pair[1]))
    return spread(np.array(row["step"]), scores)


SAME_EPSILON = 1e-3
"""By so much of themselves may two epsilons differ that are called equal: noise is calibrated to less."""


class Likeness(StrEnum):
    """What may be made of a contrast."""

    TESTED = "tested"
    NOT_ALIKE = "not like with like"
    """One side guarantees something else, or nothing where the other guarantees something."""
    TOO_LITTLE = "too few seeds"
    """Fewer than three, or the same difference at every seed."""
    REPEATED = "made once"
    """The very same values as of an earlier contrast of the question."""


@dataclass(frozen=True)
class MeanContrast:
    """`difference` of the means, of `method` at `point` less `against`: another method at the same point, or
    another point of the question's axis. low, high: its interval; over, unit, units: what that is over, see `paired`.
    p: of this contrast alone, p_holm: in its family; both None where it is not tested."""

    point: Point
    method: str
    against: str
    difference: float
    low: float | None
    high: float | None
    seeds: int
    over: str
    unit: str
    units: int
    standing: Likeness
    p: float | None = None
    p_holm: float | None = None

    @property
    def significant(self) -> bool:
        """In its family."""
        return self.p_holm is not None and self.p_holm < 1 - LEVEL


@dataclass(frozen=True)
class Family:
    """One family of contrasts. axis: along which, "" between methods. method: the reference, or whose points are
    compared. against: the reference, or the axis's point that the others stand in place of. private: whether the
    method has a guarantee."""

    axis: str
    method: str
    against: str
    private: bool
    contrasts: tuple[MeanContrast, ...] = field(repr=False)

    @property
    def tested(self) -> list[MeanContrast]:
        """Those that are corrected together."""
        return [contrast for contrast in self.contrasts if contrast.standing is Likeness.TESTED]

    @property
    def family(self) -> str:
        """In words, with the number of its comparisons."""
        if not self.axis:
            return f"{title(self.method)} against {self.rivals} ({self.count})"
        return f"other points of “{self.axis}” in place of {self.against}, {title(self.method)} ({self.count})"

    @property
    def rivals(self) -> str:
        """Between methods: which may be tested against the reference."""
        return "methods of the same guarantee" if self.private else "methods without a guarantee"

    @property
    def count(self) -> str:
        """
        >>> Family("", "pate", "pate", True, ()).count
        '0 comparisons'
        """
        count = len(self.tested)
        return f"{count} {'comparison' if count == 1 else 'comparisons'}"


def questions(view: StudyView) -> list[Family]:
    """All that a study asks of its leading metric; none where it has none, or one method at one point.

    Raises
    ------
    DataError : a column is missing.
    """
    if view.metric is None:
        return []
    families: list[Family] = []
    if view.reference is not None:
        families.append(compared(view, view.metric, view.reference))
    for axis in view.axes:
        if (against := _against(view, axis)) is not None:
            families += [along_axis(view, view.metric, against, axis, name) for name in _followed(view)]
    return [question for question in families if question.contrasts]


def _against(view: StudyView, axis: str) -> str | None:
    """The point that others stand in place of; None along an axis of several data sets."""
    sets = view.frame.group_by([name for name in view.axes if name != axis] or pl.lit(0)).agg(pl.n_unique("data_set"))
    if sets["data_set"].max() != 1:
        return None
    return next((point for point in view.order[axis] if point.lower() in NATURAL), view.order[axis][0])


def compared(view: StudyView, metric: str, reference: str) -> Family:
    """Every other method against the reference, at every point."""
    table = paired(view.frame, metric, reference, row_scores=view.row_scores)
    rows = sorted(table.to_dicts(), key=lambda row: view.methods.index(row["method"]))
    contrasts = _contrasts(view, metric, rows, "method", reference)
    return Family("", reference, reference, reference in view.private, contrasts)


def along_axis(view: StudyView, metric: str, against: str, axis: str, method: str) -> Family:
    """Other points of an axis in place of `against`, by one method."""
    frame = view.frame.filter(pl.col("method") == method)
    rows = paired(frame, metric, against, along=axis, row_scores=view.row_scores).to_dicts()
    contrasts = _contrasts(view, metric, rows, axis, against)
    return Family(axis, method, against, method in view.private, contrasts)


def contrast_frame(view: StudyView, shown: Sequence[tuple[Family, Sequence[MeanContrast]]]) -> pl.DataFrame:
    """A row for each contrast that is shown of a family: family, comparisons, axis, the axes, method, against,
    difference, low, high, seeds, over, unit, units, standing, p, p_holm, significant."""
    rows = [
        {
            "family": family.family,
            "comparisons": len(family.tested),
            "axis": family.axis or "method",
            **dict(zip(view.axes, contrast.point, strict=True)),
            **{name: getattr(contrast, name) for name in _COLUMNS},
            "standing": contrast.standing.value,
        }
        for family, contrasts in shown
        for contrast in contrasts
    ]
    first = {"family": pl.String, "comparisons": pl.Int64, "axis": pl.String}
    return pl.DataFrame(rows, schema={**first, **dict.fromkeys(view.axes, pl.String), **_COLUMNS})


_COLUMNS = {
    **dict.fromkeys(("method", "against"), pl.String),
    **dict.fromkeys(("difference", "low", "high"), pl.Float64),
    **{"seeds": pl.Int64, "over": pl.String, "unit": pl.String, "units": pl.Int64, "standing": pl.String},
    **dict.fromkeys(("p", "p_holm"), pl.Float64),
    "significant": pl.Boolean,
}
"""Of a frame of contrasts: their fields."""
_PAIRED = ("difference", "low", "high", "seeds", "over", "unit", "units", "p")


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's corrected p of each; what has none is in no comparison.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    there = sorted((p, index) for index, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (p, index) in enumerate(there):
        least = max(least, min(1.0, (len(there) - rank) * p))
        corrected[index] = least
    return corrected


def _followed(view: StudyView) -> list[str]:
    """Methods that are compared with themselves along an axis: the plurality, and all with a guarantee."""
    plurality = [name for name in view.methods if name == "plurality" or name.startswith("plurality ")]
    return [*plurality[:1], *view.private]


def _contrasts(
    view: StudyView, metric: str, rows: Sequence[Mapping[str, Any]], along: str, against: str
) -> tuple[MeanContrast, ...]:
    """rows: of `paired`. In the order of the points; what does not depend on the axis is no contrast."""
    place = {point: index for index, point in enumerate(view.points)}
    values, stated = _values(view, metric), stated_terms(view)
    contrasts: list[MeanContrast] = []
    seen: set[object] = set()
    for row in sorted(rows, key=lambda row: place[tuple(row[axis] for axis in view.axes)]):
        point, method = tuple(row[axis] for axis in view.axes), row["method"]
        other = (point, against) if along == "method" else (_moved(view, point, along, against), method)
        mine, others = values[point, method], values[other]
        both = tuple((seed, mine[seed], others[seed]) for seed in sorted(mine.keys() & others.keys()))
        if along != "method" and all(first == second for _, first, second in both):
            continue
        standing = _standing(stated[point, method], stated[other], row["p"])
        key = (method, row.get(along), standing, both)
        standing = Likeness.REPEATED if key in seen else standing
        seen.add(key)
        p = row["p"] if standing is Likeness.TESTED else None
        known = {name: row[name] for name in _PAIRED} | {"standing": standing, "p": p}
        contrasts.append(MeanContrast(point, method, against, **known))
    corrected = holm([contrast.p for contrast in contrasts])
    return tuple(replace(contrast, p_holm=p) for contrast, p in zip(contrasts, corrected, strict=True))


def _moved(view: StudyView, point: Point, axis: str, value: str) -> Point:
    index = view.axes.index(axis)
    return (*point[:index], value, *point[index + 1 :])


def _values(view: StudyView, metric: str) -> dict[tuple[Point, str], dict[int, float]]:
    """Of each point and method the value at each seed."""
    values: dict[tuple[Point, str], dict[int, float]] = {}
    runs = view.frame.filter((pl.col("scope") == "run") & (pl.col("metric") == metric))
    for *point, method, seed, value in runs.select(*view.axes, "method", "seed", "value").iter_rows():
        values.setdefault((tuple(point), method), {})[seed] = value
    return values


Terms = tuple[float | None, float | None, str | None, str | None]
"""Epsilon, delta, unit, neighbouring, as `FACTS` has them."""


def stated_terms(view: StudyView) -> dict[tuple[Point, str], list[Terms]]:
    """Of each point and method what it guarantees, once for all seeds where that is the same."""
    names = FACTS[:4]
    terms: dict[tuple[Point, str], list[Terms]] = {}
    runs = view.frame.filter(pl.col("scope") == "run").select(*view.axes, "method", *names).unique(maintain_order=True)
    for row in runs.iter_rows():
        *point, method = row[: -len(names)]
        terms.setdefault((tuple(point), method), []).append(row[-len(names) :])
    return terms


def _standing(mine: Sequence[Terms], others: Sequence[Terms], p: float | None) -> Likeness:
    if not all(_alike(first, second) for first in mine for second in others):
        return Likeness.NOT_ALIKE
    return Likeness.TOO_LITTLE if p is None else Likeness.TESTED


def _alike(first: Terms, second: Terms) -> bool:
    if first[1:] != second[1:]:
        return False
    one, other = first[0], second[0]
    return one == other or (
        one is not None and other is not None and abs(one - other) <= SAME_EPSILON * max(one, other)
    )
