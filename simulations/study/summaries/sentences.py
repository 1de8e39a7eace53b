"""In short: five sentences at most that the numbers of a study carry, found by fixed rules, the negative ones too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from consilium.report.words import range_text, signed_text, upper_first, value_text
from consilium.simulations.study.measures.between import SHIFT_KINDS, ShiftKind
from consilium.simulations.study.summaries.questions import Family, Likeness, MeanContrast, compared, questions
from consilium.simulations.study.summaries.tidy import metric_words, noun, title
from consilium.simulations.study.summaries.view import Point, StudyView


def answers_of(view: StudyView) -> list[str]:
    """Which method did best at its guarantee; what votes and privacy cost; the largest change along an axis; which kind
    of difference there is; who loses. Nothing of a study that judged no method."""
    if view.metric is None:
        return []
    families = questions(view)
    answers = (_best(view, families), _cost(view), _largest(view, families), _shifts(view), _losers(view))
    return [answer for answer in answers if answer]


def _told(contrast: MeanContrast, text: Callable[[float], str] = signed_text) -> str:
    ends = range_text(contrast.low, contrast.high)
    return text(contrast.difference) + (f" ({ends})" if ends else "")


def _turned(contrast: MeanContrast) -> MeanContrast:
    """The other side less this one."""
    low = None if contrast.high is None else -contrast.high
    high = None if contrast.low is None else -contrast.low
    return replace(contrast, difference=-contrast.difference, low=low, high=high)


def _verdict(contrast: MeanContrast, family: Family) -> str:
    """What may be said of it."""
    if contrast.standing is Likeness.TOO_LITTLE:
        return f"not tested ({contrast.seeds} seed{'' if contrast.seeds == 1 else 's'})"
    if contrast.standing is not Likeness.TESTED:
        return "not tested: the guarantees differ"
    of = f", of {len(family.tested)} comparisons" if len(family.tested) > 1 else ""
    return f"{'significant' if contrast.significant else 'not significant'} over {contrast.seeds} seeds{of}"


def _best(view: StudyView, families: Sequence[Family]) -> str:
    """Which of the methods with the reference's guarantee did best, by means over seeds, whichever it is."""
    family = next((each for each in families if not each.axis), None)
    if family is None or not family.private:
        return ""
    at_points: dict[Point, list[MeanContrast]] = {}
    for row in family.contrasts:
        if row.standing in (Likeness.TESTED, Likeness.TOO_LITTLE):
            at_points.setdefault(row.point, []).append(row)
    leaders = [max(rows, key=lambda row: row.difference) for rows in at_points.values()]
    start = f"Of the methods with the guarantee of {noun(family.method)}, by {metric_words(view.metric or '')},"
    if not leaders:
        return f"No other method has the guarantee of {noun(family.method)}: nothing was tested against it."
    best = Counter(row.method if row.difference > 0 else family.method for row in leaders)
    if len(leaders) == 1:
        row, (winner,) = leaders[0], best
        less = row.method if winner == family.method else family.method
        gap = _told(_turned(row) if winner == family.method else row)
        return f"{start} {noun(winner)} did best: {gap} against {noun(less)}, {_verdict(row, family)}."
    counts = [f"{noun(method)} did best at {count}" for method, count in best.most_common()]
    none = [] if family.method in best else [f"{noun(family.method)} at none"]
    clear = sum(row.significant for row in family.tested)
    tested = f"; significant are {clear} of {family.count}" if family.tested else "; nothing was tested"
    return f"{start} {', '.join([*counts, *none])} of {len(leaders)} points{tested}."


def _cost(view: StudyView) -> str:
    """What is lost from the best that has no guarantee to the private method: a gap, not tested."""
    private = next(iter(view.private), None)
    for words, of in (("In place of one model of all rows", "pooled"), ("Beside votes without noise", "plurality")):
        free = next((method for method in view.methods if method == of or method.startswith(f"{of} ")), None)
        if free is None or private is None:
            continue
        gaps = [row for row in compared(view, view.metric or "", private).contrasts if row.method == free]
        if gaps := [row for row in gaps if row.standing is not Likeness.REPEATED]:
            metric = f"{metric_words(view.metric or '')}, {title(free)} less {title(private)}; not tested"
            return f"{words}, {noun(private)} costs {_spanned(view, gaps)} ({metric})."
    return ""


def _spanned(view: StudyView, gaps: Sequence[MeanContrast]) -> str:
    """The difference with its interval; of several points the least and the largest, with where they are."""
    if len(gaps) == 1:
        return _told(gaps[0], value_text)
    least = min(gaps, key=lambda gap: gap.difference)
    most = max(gaps, key=lambda gap: gap.difference)
    least_text, most_text = (f"{_told(gap, value_text)} at {view.label(gap.point)}" for gap in (least, most))
    return f"from {least_text} to {most_text} over {len(gaps)} points"


def _largest(view: StudyView, families: Sequence[Family]) -> str:
    """What changes most along an axis: of the private methods, or without any of the plurality."""
    along = [family for family in families if family.axis]
    mine = [family for family in along if family.private] or along
    rows = [(abs(row.difference), family, row) for family in mine for row in family.contrasts]
    if not rows:
        return ""
    _, family, row = max(rows, key=lambda each: each[0])
    place = view.axes.index(family.axis)
    before = (*row.point[:place], family.against, *row.point[place + 1 :])
    ends = [view.mean(point, family.method, view.metric or "") for point in (before, row.point)]
    from_to = " to ".join("?" if end is None else value_text(end) for end in ends)
    others = [axis for axis in view.telling(family.method) if axis != family.axis and len(view.order[axis]) > 1]
    at = f" at {view.label(row.point, others)}" if others else ""
    return (
        f"The largest change along “{family.axis}”: {row.point[place]} in place of {family.against} takes"
        f" {noun(family.method)} from {from_to} {metric_words(view.metric or '')}{at}: {_told(row)},"
        f" {_verdict(row, family)}."
    )


class PointShift(NamedTuple):
    """kinds: those that could be judged in any seed, each with the share of seeds in which it was named."""

    point: Point
    label: str
    kinds: Mapping[ShiftKind, float]

    @property
    def named(self) -> tuple[ShiftKind, ...]:
        """Those named in most seeds."""
        return tuple(kind for kind, share in self.kinds.items() if share > 0.5)


def shifts_at(view: StudyView) -> list[PointShift]:
    """Which kinds of difference each division has; nothing where none was looked for."""
    points, axes = view.distinct("division")
    shifts = []
    for point in points:
        judged: dict[ShiftKind, float] = {}
        for kind in SHIFT_KINDS:
            if (share := view.mean(point, "division", f"shift_{kind}_named")) is not None:
                judged[kind] = share
        if judged:
            shifts.append(PointShift(point, view.label(point, axes), judged))
    return shifts


def _shifts(view: StudyView) -> str:
    parts = [f"{shift.label}: {', '.join(shift.named) or 'nothing'}" for shift in shifts_at(view)]
    most = ", in most seeds" if len(view.seeds) > 1 else ""
    return f"What differs between parties beyond chance{most}: {'; '.join(parts)}." if parts else ""


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
    most, least = max(shares, key=lambda at: shares[at]), min(shares, key=lambda at: shares[at])
    names = ("worse", "parties", "worst_decile", "worst_decile_floor")
    worse, parties, decile, floor = (view.mean(most, method, f"gain_accuracy_{name}") or 0.0 for name in names)
    others = f" Over {len(shares)} points the least share is {shares[least]:.0%}." if len(shares) > 1 else ""
    return (
        f"{upper_first(noun(method))} serves {worse:.0f} of {parties:.0f} parties worse than they serve themselves"
        f" (accuracy on their own held-out rows) at {view.label(most)}; the tenth that gains least changes by"
        f" {signed_text(decile)} in the mean, by chance alone {signed_text(floor)}.{others}"
    )
