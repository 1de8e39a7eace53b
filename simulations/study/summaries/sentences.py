"""In short: five sentences at most that the numbers of a study carry, found by fixed rules, the negative ones too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from consilium.report.words import many, range_text, signed_text, upper_first, value_text
from consilium.simulations.metrics import holm
from consilium.simulations.study.measures.between import SHIFT_KINDS
from consilium.simulations.study.summaries.questions import Likeness, MeanContrast
from consilium.simulations.study.summaries.view import Point, StudyView, kind, metric_words, noun, title

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
    alike = [each for each in contrasts if each.standing is not Likeness.NOT_ALIKE]
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
    """The interval; "" where there is none, or it is a point."""
    text = range_text(contrast.low, contrast.high)
    return f" ({text})" if text else ""


def _best(view: StudyView, between: Sequence[MeanContrast]) -> str:
    """Which of the methods with the reference's guarantee did best, by means over seeds, whichever it is."""
    if not between:
        return ""
    reference = between[0].against
    rivals = [each for each in between if each.standing in (Likeness.TESTED, Likeness.TOO_LITTLE)]
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
        gaps = [each for each in between if each.method == method and each.standing is not Likeness.REPEATED]
        if gaps := sorted(gaps, key=lambda each: each.difference):
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
