"""A study as its questions: what is compared with what, in which family, and what is shown without a test.

Two sides are tested against each other only where both guarantee the same (epsilon to one in a thousand, delta, unit,
neighbouring relation, from `spec.FACTS`), or both guarantee nothing. Anything else is a gap: its interval is shown, it
has no p and counts in no family.

Questions: every other method against the reference; along each axis of one data set, and for each method by itself,
every other point in place of the natural partition, or of the first. One question is one family, corrected by Holm's
method. A method that does not depend on a further axis has the same values at its points: a contrast is made once.

In short: five sentences at most that the numbers of a study carry, found by fixed rules, the negative ones too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from consilium.report.words import many, range_text, signed_text, upper_first, value_text
from consilium.simulations.metrics import holm
from consilium.simulations.study.measures.between import SHIFT_KINDS
from consilium.simulations.study.spec import FACTS
from consilium.simulations.study.summaries.inference import LEAST, LEVEL, spread
from consilium.simulations.study.summaries.view import Point, StudyView, kind, metric, metric_words, noun, title

SAME_EPSILON = 1e-3  # by so much of themselves may epsilons differ that are called equal: noise is calibrated to less
NATURAL = ("natural", "owners", "owner")  # how the partition that the data came with is called, in small letters


@dataclass(frozen=True)
class MeanContrast:
    """What `method` at `point` has more than `against`, over the seeds that both have. axis: "" where `against` is
    another method at the same point; else it is another point of this axis, for the same method. value, other: means of
    both sides; low, high: interval of their difference. over: see `Spread`. alike: whether both guarantee the same. p:
    of this contrast alone, p_holm: in its family, of so many comparisons; both None where it is not tested."""

    axis: str
    point: Point
    method: str
    against: str
    value: float
    other: float
    difference: float
    low: float | None
    high: float | None
    seeds: int
    over: str
    alike: bool
    p: float | None
    p_holm: float | None = None
    comparisons: int = 0

    @property
    def significant(self) -> bool:
        return self.p_holm is not None and self.p_holm < 1 - LEVEL

    @property
    def family(self) -> str:
        along = f"other points of “{self.axis}” in place of {self.against}, {title(self.method)}"
        between = f"methods of the same guarantee against {title(self.against)}"
        return f"{along if self.axis else between} ({many(self.comparisons, 'comparison')})"

    @property
    def verdict(self) -> str:
        if self.seeds < LEAST:
            lacking = "no interval and no test" if self.low is None else "not tested"
            return f"{lacking}: {many(self.seeds, 'seed')} {'is' if self.seeds == 1 else 'are'} too few"
        if self.p is None:
            few = "too few test rows" if self.low is None else "the same at every seed"
            return f"not tested: {few if self.alike else 'the guarantees differ'}"
        of = f", of {self.comparisons} comparisons" if self.comparisons > 1 else ""
        return f"{'significant' if self.significant else 'not significant'} over {self.seeds} seeds{of}"


def questions(view: StudyView) -> list[MeanContrast]:
    """All that a study asks of its leading metric; none where it has none, or one method at one point."""
    if view.metric is None or view.reference is None:
        return []
    found = compared(view, view.metric, view.reference)
    for axis in view.axes:
        sets = view.frame.group_by([name for name in view.axes if name != axis] or pl.lit(0))
        if sets.agg(pl.n_unique("data_set"))["data_set"].max() == 1:
            against = next((point for point in view.order[axis] if point.lower() in NATURAL), view.order[axis][0])
            made = _contrasts(view, view.metric, axis, against)
            for method in view.methods:
                found += _corrected([one for one in made if one.method == method])
    return found


def compared(view: StudyView, name: str, reference: str) -> list[MeanContrast]:
    """Every other method against the reference, at every point, by the metric of this name: one family."""
    return _corrected(_contrasts(view, name, "method", reference))


def _corrected(family: Sequence[MeanContrast]) -> list[MeanContrast]:
    known = [contrast.p for contrast in family if contrast.p is not None]
    p_holm = iter(holm(known))
    return [replace(each, p_holm=None if each.p is None else next(p_holm), comparisons=len(known)) for each in family]


def _contrasts(view: StudyView, name: str, column: str, against: str) -> list[MeanContrast]:
    sides = [*view.axes, "method"]
    chosen = (pl.col("scope") == "run") & (pl.col("metric") == name) & pl.col("method").is_in(view.methods)
    runs = view.frame.filter(chosen).select(*sides, "seed", "value", "cell", *FACTS[:4])
    others = runs.filter(pl.col(column) == against).drop(column)
    keys = [*(side for side in sides if side != column), "seed"]
    pairs = runs.filter(pl.col(column) != against).join(others, on=keys, suffix="_other").sort("seed")
    # both sides of a pair guarantee the same
    epsilon, other = pl.col(FACTS[0]), pl.col(f"{FACTS[0]}_other")
    near = (epsilon - other).abs() <= SAME_EPSILON * pl.max_horizontal(epsilon, other)
    same = [pl.col(fact).eq_missing(pl.col(f"{fact}_other")) for fact in FACTS[:4]]
    pairs = pairs.with_columns(alike=(near.fill_null(False) | same[0]) & pl.all_horizontal(same[1:]))
    groups = pairs.group_by(sides).agg("seed", "value", "value_other", "cell", "cell_other", pl.col("alike").all())
    rows = {(tuple(row[axis] for axis in view.axes), row["method"]): row for row in groups.iter_rows(named=True)}
    found: list[MeanContrast] = []
    seen: set[object] = set()
    for point, method in sorted(rows, key=lambda side: (view.points.index(side[0]), view.methods.index(side[1]))):
        row = rows[point, method]
        if column != "method" and row["value"] == row["value_other"]:
            continue
        key = (row[column], method, row["alike"], *map(tuple, (row["seed"], row["value"], row["value_other"])))
        if key not in seen:
            axis = "" if column == "method" else column
            found.append(_contrast(view, name, axis, point, method, against, row))
        seen.add(key)
    return found


def _contrast(
    view: StudyView, name: str, axis: str, point: Point, method: str, against: str, row: dict[str, Any]
) -> MeanContrast:
    first, second = np.array(row["value"]), np.array(row["value_other"])
    sides = ([view.row_scores.get((cell, name)) for cell in row[side]] for side in ("cell", "cell_other"))
    one, other = ([score for score in scores if score] for scores in sides)  # seed by seed
    known = spread(first - second, *((one, other) if len(one) == len(other) == len(first) else ()))
    difference, (low, high) = float((first - second).mean()), metric(name).within
    ends = known.interval(difference, (low - high, high - low))
    return MeanContrast(
        axis, point, method, against, float(first.mean()), float(second.mean()), difference, *ends, len(first),
        "none" if ends[0] is None else known.over, row["alike"], known.p(difference) if row["alike"] else None,
    )  # fmt: skip


def contrast_frame(view: StudyView, contrasts: Sequence[MeanContrast]) -> pl.DataFrame:
    """A row for each: family, the axes, all of `MeanContrast`, significant."""
    told = [(each, dict(zip(view.axes, each.point, strict=True))) for each in contrasts]
    rows = [{"family": each.family, **at, **vars(each), "significant": each.significant} for each, at in told]
    return pl.DataFrame(rows, infer_schema_length=None).drop("point", strict=False)


_MOST_NAMED = 3  # points in a sentence; the table has all


def answers_of(view: StudyView, contrasts: Sequence[MeanContrast]) -> list[str]:
    """The largest change; which method did best at its guarantee; what privacy costs; which kind of difference there is
    between parties; who loses. Nothing of a study that judged no method. contrasts: its `questions`."""
    if view.metric is None:
        return []
    between = [each for each in contrasts if not each.axis and each.against in view.private]
    answers = (_largest(view, contrasts), _best(view, between), _cost(view, between), _shifts(view), _losers(view))
    return [answer for answer in answers if answer]


def changed(view: StudyView, contrast: MeanContrast) -> str:
    """Which point of an axis stands in place of which, and at which points of the further axes that change anything, or
    at whose other points the method has nothing, as where cells failed."""
    point, method, changing = contrast.point, contrast.method, view.distinct(contrast.method)[1]

    def alone(place: int, axis: str) -> bool:
        others = ((*point[:place], other, *point[place + 1 :]) for other in view.order[axis] if other != point[place])
        return not any((at, method, view.metric) in view.means for at in others)

    others = [
        axis
        for place, axis in enumerate(view.axes)
        if axis != contrast.axis and len(view.order[axis]) > 1 and (axis in changing or alone(place, axis))
    ]
    at = f", at {view.label(point, others)}" if others else ""
    return f"{view.named(contrast.axis, point[view.axes.index(contrast.axis)])} in place of {contrast.against}{at}"


def _largest(view: StudyView, contrasts: Sequence[MeanContrast]) -> str:
    """Over all axes and methods; where no axis changes anything, between methods, those of the same guarantee first."""
    along = [each for each in contrasts if each.axis]
    alike = [each for each in contrasts if each.alike]
    one = max(along or alike or contrasts, key=lambda each: abs(each.difference), default=None)
    if one is None:
        return ""
    if one.p is not None:  # picked out of all families, and so corrected over all
        tested = sorted((each for each in along or alike if each.p is not None), key=lambda each: each is not one)
        p = holm([each.p or 0.0 for each in tested])[0]
        one = replace(one, p_holm=p, comparisons=len(tested))
    told = f"{signed_text(one.difference)}{_in_brackets(one)}; {one.verdict}."
    ends = f"{value_text(one.other)} to {value_text(one.value)} {metric_words(view.metric or '')}"
    if one.axis:
        place = f"{place}," if ", at " in (place := changed(view, one)) else place
        return f"The largest change: {place} takes {noun(one.method)} from {ends}, {told}"
    sides = f"{noun(one.method)} in place of {noun(one.against)}, at {view.label(one.point)}"
    return f"The largest difference between methods: {sides}, from {ends}, {told}"


def _in_brackets(contrast: MeanContrast) -> str:
    text = range_text(contrast.low, contrast.high)
    return f" ({text})" if text else ""


def _best(view: StudyView, between: Sequence[MeanContrast]) -> str:
    """Which of the methods with the reference's guarantee did best, by means over seeds, whichever it is."""
    if not between:
        return ""
    reference = between[0].against
    rivals = [each for each in between if each.alike]
    if not rivals:
        return f"No other method has the guarantee of {noun(reference)}: nothing was tested against it."
    leaders = {each.point: each for each in sorted(rivals, key=lambda each: each.difference)}
    best = Counter(each.method if each.difference > 0 else reference for each in leaders.values())
    counts = [(method, str(count)) for method, count in best.most_common()]
    counts += [] if reference in best else [(reference, "none")]
    told = [f"{noun(method)}{'' if place else ' did best'} at {count}" for place, (method, count) in enumerate(counts)]
    clear, tested = sum(each.significant for each in rivals), rivals[0].comparisons
    of = f"Significant are {clear} of {many(tested, 'comparison')}." if tested else "None was tested."
    start = f"Of the methods with the guarantee of {noun(reference)}, by {metric_words(view.metric or '')},"
    return f"{start} {', '.join(told)} of {many(len(leaders), 'point')}. {of}"


def _cost(view: StudyView, between: Sequence[MeanContrast]) -> str:
    """What is lost from the best that has no guarantee to the private method: a gap, not tested."""
    for words, rival in (("In place of one model of all rows", "pooled"), ("Beside votes without noise", "plurality")):
        method = next((name for name in view.methods if kind(name) == rival), None)
        if gaps := sorted((each for each in between if each.method == method), key=lambda each: each.difference):
            told = [f"{value_text(gap.difference)}{_in_brackets(gap)} at {view.label(gap.point)}" for gap in gaps]
            several = (f"from {told[0]} to {told[-1]}", f", at {len(gaps)} points")
            span, of = (told[0], "") if len(gaps) == 1 else several
            sides = f"{metric_words(view.metric or '')}, {title(gaps[0].method)} less {title(gaps[0].against)}"
            return f"{words}, {noun(gaps[0].against)} costs {span}. That is {sides}{of}; it is not tested."
    return ""


def _shifts(view: StudyView) -> str:
    """Which kinds of difference each partition has, by what most seeds name."""
    points, axes = view.distinct("division")
    found: dict[str, list[str]] = {}
    for point in points:
        named = {kind: view.mean(point, "division", f"shift_{kind}_named") for kind in SHIFT_KINDS}
        if any(share is not None for share in named.values()):
            most = [kind for kind, share in named.items() if share is not None and share > 0.5]
            found.setdefault(", ".join(most) or "nothing", []).append(view.label(point, axes))
    often = ", in most seeds" if len(view.seeds) > 1 else ""
    told = [
        f"{' and '.join(of) if len(of) <= _MOST_NAMED else many(len(of), 'point')}: {kinds}"
        for kinds, of in found.items()
    ]
    return f"What differs between parties beyond chance{often}: {'; '.join(told)}." if told else ""


def _losers(view: StudyView) -> str:
    """How many parties do worse by the private method than alone, at the point where most of them do."""
    method = next(iter(view.private), "")
    shares: dict[Point, float] = {}
    for point in view.points:
        worse, parties = (view.mean(point, method, f"gain_accuracy_{name}") for name in ("worse", "parties"))
        if worse is not None and parties:
            shares[point] = worse / parties
    if not shares:
        return ""
    most = max(shares, key=lambda at: shares[at])
    names = ("worse", "parties", "worst_decile", "worst_decile_floor")
    worse, parties, decile, floor = (view.mean(most, method, f"gain_accuracy_{name}") or 0.0 for name in names)
    others = f" Over {len(shares)} points the least share is {min(shares.values()):.0%}." if len(shares) > 1 else ""
    return (
        f"{upper_first(noun(method))} serves {worse:.0f} of {parties:.0f} parties worse than they serve themselves"
        f" at {view.label(most)} (accuracy on their own held-out rows). The tenth that gains least changes by"
        f" {signed_text(decile)} in the mean, by chance alone {signed_text(floor)}.{others}"
    )
