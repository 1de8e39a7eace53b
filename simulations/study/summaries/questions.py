"""A study as its questions: what is compared with what, in which family, and what is shown without a test.

Like with like: two sides are tested against each other only where both guarantee the same (epsilon to one in a
thousand, delta, unit, neighbouring relation), or both guarantee nothing. What has another guarantee, or none beside
one, is a gap: its interval is shown, it has no p and counts in no family. Guarantees come from the table of results
(`spec.FACTS`), never from names.

Questions: the reference against the other methods; along each axis of one data set, every other point in place of the
natural division, or of the first point where there is none. The latter is asked of the plurality and of every private
method, each a question of its own. One question is one family: p of its contrasts is corrected over them by Holm's
method. A method that does not depend on a further axis, as the plurality on a mechanism, has the same values at each of
its points: such a contrast is made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import polars as pl

from consilium.simulations.metrics import holm
from consilium.simulations.study.row_scores import UnitScores
from consilium.simulations.study.spec import FACTS
from consilium.simulations.study.summaries.inference import LEVEL, Spread, minus, spread
from consilium.simulations.study.summaries.tidy import NATURAL, title
from consilium.simulations.study.summaries.view import Point, StudyView

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
    """What `method` at `point` has more than `against`, another method at the same point, or another point of the
    question's axis, at the same seeds.

    difference: mean over the common seeds. low, high: its interval. over: "seeds and rows", "seeds", "rows" of one
    seed, or "none": what might have been otherwise. unit, units: of test rows, what and how many; "" and 0 where
    nothing is known of them. p: of this contrast alone, p_holm: in its family; both None where it is not tested.
    """

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
    """All that a study asks of its leading metric; none where it has none, or one method at one point."""
    if view.metric is None or view.reference is None:
        return []
    families = [compared(view, view.metric, view.reference)]
    plurality = [name for name in view.methods if name == "plurality" or name.startswith("plurality ")]
    for axis in view.axes:
        if (against := _against(view, axis)) is not None:
            followed = [*plurality[:1], *view.private]
            families += [along_axis(view, view.metric, against, axis, name) for name in followed]
    return [question for question in families if question.contrasts]


def _against(view: StudyView, axis: str) -> str | None:
    """The point that others stand in place of; None along an axis of several data sets."""
    sets = view.frame.group_by([name for name in view.axes if name != axis] or pl.lit(0)).agg(pl.n_unique("data_set"))
    if sets["data_set"].max() != 1:
        return None
    return next((point for point in view.order[axis] if point.lower() in NATURAL), view.order[axis][0])


Side = tuple[Point, str]
"""A point and a method."""


def compared(view: StudyView, metric: str, reference: str) -> Family:
    """Every other method against the reference, at every point."""
    rivals = [name for name in view.methods if name != reference]
    sides = [((point, name), (point, reference)) for point in view.points for name in rivals]
    contrasts = _contrasts(view, metric, sides, reference)
    return Family("", reference, reference, reference in view.private, contrasts)


def along_axis(view: StudyView, metric: str, against: str, axis: str, method: str) -> Family:
    """Other points of an axis in place of `against`, by one method; what does not depend on the axis is no contrast."""
    index = view.axes.index(axis)
    moved = [
        (point, (*point[:index], against, *point[index + 1 :])) for point in view.points if point[index] != against
    ]
    sides = [((point, method), (other, method)) for point, other in moved]
    return Family(axis, method, against, method in view.private, _contrasts(view, metric, sides, against, axis))


def _contrasts(
    view: StudyView, metric: str, sides: Iterable[tuple[Side, Side]], against: str, axis: str = ""
) -> tuple[MeanContrast, ...]:
    runs, stated = _runs(view, metric), stated_terms(view)
    contrasts: list[MeanContrast] = []
    seen: set[object] = set()
    for one, other in sides:
        mine, others = runs.get(one, {}), runs.get(other, {})
        both = [(seed, *mine[seed], *others[seed]) for seed in sorted(mine.keys() & others.keys())]
        values = tuple((seed, first, second) for seed, first, _, second, _ in both)
        if not both or (axis and all(first == second for _, first, second in values)):
            continue
        steps = np.array([first - second for _, first, second in values])
        known = _spread(view, metric, steps, [(cell, other_cell) for _, _, cell, _, other_cell in both])
        (point, method), mean, p = one, float(steps.mean()), known.p(float(steps.mean()))
        standing = Likeness.TOO_LITTLE if p is None else Likeness.TESTED
        if not all(_alike(first, second) for first in stated[one] for second in stated[other]):
            standing = Likeness.NOT_ALIKE
        key = (method, point[view.axes.index(axis)] if axis else "", standing, values)
        standing = Likeness.REPEATED if key in seen else standing
        seen.add(key)
        ends = known.interval(mean)
        units = (len(steps), known.over, known.unit, known.units)
        tested = p if standing is Likeness.TESTED else None
        contrasts.append(MeanContrast(point, method, against, mean, *ends, *units, standing, tested))
    places = [place for place, contrast in enumerate(contrasts) if contrast.p is not None]
    for place, p in zip(places, holm([contrasts[place].p or 0.0 for place in places]), strict=True):
        contrasts[place] = replace(contrasts[place], p_holm=p)
    return tuple(contrasts)


def _spread(view: StudyView, metric: str, steps: np.ndarray, cells: Sequence[tuple[str, str]]) -> Spread:
    """cells: of each seed that of both sides."""
    scores: list[UnitScores] = []
    for pair in cells:
        one, other = (None if view.row_scores is None else view.row_scores.of(cell, metric) for cell in pair)
        if one is None or other is None:
            return spread(steps)
        scores.append(minus(one, other))
    return spread(steps, scores)


def _runs(view: StudyView, metric: str) -> dict[Side, dict[int, tuple[float, str]]]:
    """Of each side value and cell at each seed."""
    runs: dict[Side, dict[int, tuple[float, str]]] = {}
    rows = view.frame.filter((pl.col("scope") == "run") & (pl.col("metric") == metric))
    for *point, method, seed, value, cell in rows.select(*view.axes, "method", "seed", "value", "cell").iter_rows():
        runs.setdefault((tuple(point), method), {})[seed] = (value, cell)
    return runs


Terms = tuple[float | None, float | None, str | None, str | None]
"""Epsilon, delta, unit, neighbouring, as `FACTS` has them."""


def stated_terms(view: StudyView) -> dict[Side, list[Terms]]:
    """Of each point and method what it guarantees, once for all seeds where that is the same."""
    names = FACTS[:4]
    terms: dict[Side, list[Terms]] = {}
    runs = view.frame.filter(pl.col("scope") == "run").select(*view.axes, "method", *names).unique(maintain_order=True)
    for row in runs.iter_rows():
        *point, method = row[: -len(names)]
        terms.setdefault((tuple(point), method), []).append(row[-len(names) :])
    return terms


def _alike(first: Terms, second: Terms) -> bool:
    one, other = first[0], second[0]
    if one is None or other is None:
        return first == second
    return first[1:] == second[1:] and abs(one - other) <= SAME_EPSILON * max(one, other)


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
