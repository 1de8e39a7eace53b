"""Sentences that the numbers of a study carry, found by fixed rules; what did not show is told too.

Beside them what each party gains at home, and which properties of a division go with what a method reaches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from consilium.report.disclosure import epsilon_text
from consilium.report.words import range_text, signed_text, upper_first, value_text
from consilium.simulations.study.measures.between import SHIFT_KINDS, ShiftKind
from consilium.simulations.study.row_scores import RowScores
from consilium.simulations.study.summaries.inference import LEAST, rank_correlation
from consilium.simulations.study.summaries.questions import Family, Kind, Likeness, MeanContrast, compared, questions
from consilium.simulations.study.summaries.tidy import (
    axis_names,
    less_is_better,
    methods_of,
    metric_words,
    noun,
    private_methods,
    short,
    tidy,
    title,
)
from consilium.simulations.study.summaries.view import Point, StudyView, study_view

ALONE = "local"
AT_HOME = ("accuracy", "brier", "auc")
"""Metrics of parties, the first of them for pictures: all rows of a party have it, and it needs no probabilities."""


def party_gains(frame: pl.DataFrame, method: str, metric: str) -> pl.DataFrame:
    """How much better a method is than one party alone on its own held-out rows: mean over the seeds with both.

    frame: `results.parquet`.

    Columns: the axes, party, gain (positive: better, also of a metric of which less is better), seeds; hellinger and
    rows as measured of the division (means over seeds), null where they were not.

    Raises
    ------
    DataError : a column is missing.
    """
    plain = tidy(frame).filter(pl.col("scope") == "party")
    axes = axis_names(frame)
    keys = [*axes, "name", "seed"]
    sides = plain.filter(pl.col("metric") == metric).select(*keys, "method", "value")
    alone = sides.filter(pl.col("method") == ALONE).select(*keys, other="value")
    both = sides.filter(pl.col("method") == method).join(alone, on=keys, how="inner")
    sign = -1.0 if less_is_better(metric) else 1.0
    gains = both.group_by(*axes, "name").agg(
        gain=sign * (pl.col("value") - pl.col("other")).mean(), seeds=pl.len().cast(pl.Int64)
    )
    for of in ("hellinger", "rows"):
        measured = plain.filter((pl.col("method") == "division") & (pl.col("metric") == of))
        gains = gains.join(
            measured.group_by(*axes, "name").agg(pl.col("value").mean().alias(of)), on=[*axes, "name"], how="left"
        )
    return gains.rename({"name": "party"}).sort(*axes, "party")


def worst_decile(gains: np.ndarray) -> float:
    """Mean of the tenth of gains float64 (parties,) that is least, of at least one party.

    >>> worst_decile(np.arange(20.0)), worst_decile(np.array([-1.0, 2.0]))
    (0.5, -1.0)
    """
    return float(np.sort(gains)[: math.ceil(len(gains) / 10)].mean())


PROPERTIES = (
    "parties",
    "rows",
    "rows_median",
    "gini",
    "effective_parties",
    "hellinger_mean",
    "hellinger_weighted",
    "mmd2_mean",
    "c2st_auc_mean",
)
"""Of a division, known before anything is trained; those of the teachers are `VOTES`."""
VOTES = ("consensus", "kappa", "plurality_right")


class Going(NamedTuple):
    """The rank correlation of a property with what `method` reaches, or with what it loses `against` another."""

    property: str
    method: str
    against: str | None
    value: float
    low: float
    high: float
    pairs: int


def set_axis(frame: pl.DataFrame, order: Mapping[str, Sequence[str]]) -> tuple[str, list[str]] | None:
    """The axis along which the data set itself changes, and the first of its points for each; None with fewer than
    `LEAST` data sets.

    Data sets are those that the results name (`spec.FACTS`): divisions of one table are one. frame: tidy. order: of
    axes their points.
    """
    best: tuple[str, list[str]] | None = None
    for axis, points in order.items():
        of_point: dict[str, set[str | None]] = {}
        for point, name in frame.select(axis, "data_set").unique(maintain_order=True).iter_rows():
            of_point.setdefault(point, set()).add(name)
        first: dict[str, str] = {}
        for point in points:
            for name in of_point.get(point, set()) if len(of_point.get(point, set())) == 1 else ():
                if name is not None:
                    first.setdefault(name, point)
        if len(first) >= max(LEAST, 1 + len(best[1]) if best else 0):
            best = axis, list(first.values())
    return best


def goes_with(frame: pl.DataFrame, axis: str, metric: str, points: Sequence[str]) -> list[Going]:
    """Correlations over these points of `axis`, each figure a mean over seeds and over all other axes.

    Outcomes: what the first private method reaches, and what it loses against pooled and against one party alone.

    Raises
    ------
    DataError : a column is missing.
    """
    plain = tidy(frame).filter(pl.col("scope") == "run")
    private = private_methods(frame)
    if axis not in axis_names(frame) or not private:
        return []
    means = plain.group_by(axis, "method", "metric").agg(pl.col("value").mean())
    known = {(row[0], row[1], row[2]): row[3] for row in means.iter_rows()}
    method, correlations = private[0], []
    outcomes: dict[str | None, np.ndarray] = {None: _values(known, points, method, metric)}
    for other in [name for name in methods_of(frame) if name in ("pooled", "local")]:
        outcomes[other] = _values(known, points, other, metric) - outcomes[None]
    for of, names in (("division", PROPERTIES), ("teachers", VOTES)):
        for name in names:
            measured = _values(known, points, of, name)
            for against, reached in outcomes.items():
                both = np.isfinite(measured) & np.isfinite(reached)
                correlation = rank_correlation(measured[both], reached[both])
                if correlation is not None:
                    correlations.append(Going(name, method, against, *correlation))
    return correlations


def _values(known: Mapping[tuple[str, str, str], float], points: Sequence[str], method: str, metric: str) -> np.ndarray:
    """float64 (points,), NaN where there is none."""
    return np.array([known.get((point, method, metric), np.nan) for point in points])


_ALL_SPENT = 0.99
"""Share of the promise from which on the votes at hand have saved nothing."""
_MOST_NAMED = 3
"""Points or comparisons that a sentence names; of more it says how many."""


class _Lost(NamedTuple):
    """Parties that lose, of how many; mean gain of the tenth that gains least, and what chance alone gives it."""

    worse: float
    parties: float
    decile: float
    floor: float | None

    @property
    def share(self) -> float:
        return self.worse / self.parties


def findings(
    frame: pl.DataFrame, order: Mapping[str, Sequence[str]] | None = None, row_scores: RowScores | None = None
) -> list[str]:
    """Of `results.parquet`; order: of axes their points as the study's file has them. row_scores: of the same study.

    Raises
    ------
    DataError : a column is missing.
    """
    return findings_of(study_view(frame, order or {}, row_scores=row_scores))


def findings_of(view: StudyView) -> list[str]:
    """The same of a view."""
    if view.metric is None:
        return []
    families = questions(view)
    sentences = _costs(view)
    for question in families:
        if question.kind == "methods":
            sentences += _rivals(view, question)
    sentences += [*_changes(view, families, "divisions"), *_changes(view, families, "ends")]
    sentences += [*_floors(view), *_shifts(view), *_losers(view)]
    sentences += [*_privacy(view), *_across(view)]
    return sentences


def answers_of(view: StudyView) -> list[str]:
    """What most readers ask first, in at most four of these sentences: which method did best at its guarantee, or what
    the private one costs; what the first other division changes; which kind of difference there is; who loses."""
    if view.metric is None:
        return []
    families = questions(view)
    best = [sentence for family in families if family.kind == "methods" for sentence in _winners(view, family)]
    answers = (
        [*best, *_costs(view)[::-1]],
        [*_changes(view, families, "divisions"), *_changes(view, families, "ends")],
        _shifts(view),
        _losers(view),
    )
    return [sentences[0] for sentences in answers if sentences]


def _kind(view: StudyView, name: str) -> str | None:
    """The method of this name, or the first that is called so with keys."""
    return next((method for method in view.methods if method == name or method.startswith(f"{name} ")), None)


def _costs(view: StudyView) -> list[str]:
    """What is lost from the pooled model to the plurality, and from there to the private student: gaps, not tested."""
    pooled, plurality = _kind(view, "pooled"), _kind(view, "plurality")
    private = next(iter(view.private), None)
    sentences = []
    for more, less, words in (
        (pooled, plurality, "Teachers of single parties and their vote, in place of one model of all rows, cost"),
        (plurality, private, "Noise, query budget and learning from labels cost"),
    ):
        if more is None or less is None:
            continue
        gaps = _once(compared(view, view.metric or "", less), more)
        if gaps:
            metric = f"{metric_words(view.metric or '')}, {title(more)} less {title(less)}"
            sentences.append(f"{words} {_spanned(view, gaps, value_text)} ({metric}).")
    return sentences


def _once(question: Family, method: str) -> list[MeanContrast]:
    """Contrasts of this method, those that were made before left out."""
    mine = [contrast for contrast in question.contrasts if contrast.method == method]
    return [contrast for contrast in mine if contrast.standing is not Likeness.REPEATED]


def _spanned(view: StudyView, gaps: Sequence[MeanContrast], text: Callable[[float], str]) -> str:
    """The difference with its interval; of several points the least and the largest, with where they are."""
    if len(gaps) == 1:
        return _told(gaps[0], text)
    least = min(gaps, key=lambda gap: gap.difference)
    most = max(gaps, key=lambda gap: gap.difference)
    return (
        f"from {_told(least, text)} at {view.label(least.point)} to {_told(most, text)} at {view.label(most.point)}"
        f" over {len(gaps)} points"
    )


def _told(contrast: MeanContrast, text: Callable[[float], str]) -> str:
    ends = range_text(contrast.low, contrast.high)
    return text(contrast.difference) + (f" ({ends})" if ends else "")


def _turned(contrast: MeanContrast) -> MeanContrast:
    """The other side less this one."""
    low = None if contrast.high is None else -contrast.high
    high = None if contrast.low is None else -contrast.low
    return replace(contrast, difference=-contrast.difference, low=low, high=high)


def _rivals(view: StudyView, question: Family) -> Iterator[str]:
    """The reference against every other method: first what was tested, with what that shows, then gaps to what
    guarantees something else."""
    gaps = []
    rivals = {contrast.method for contrast in question.contrasts}
    for rival in [method for method in view.methods if method in rivals]:
        rows = [_turned(row) for row in _once(question, rival)]
        alike = [row for row in rows if row.standing in (Likeness.TESTED, Likeness.TOO_LITTLE)]
        others = [row for row in rows if row not in alike]
        if alike:
            yield _rival(view, question, rival, alike)
        if others:
            gaps.append(_gap(view, question, rival, others))
    yield from _winners(view, question)
    yield from _largest(view, question)
    yield from _not_significant(view, question)
    yield from gaps


def _winners(view: StudyView, question: Family) -> Iterator[str]:
    """Which of the methods with the reference's guarantee did best, by means over seeds, whichever it is."""
    at_points: dict[Point, list[MeanContrast]] = {}
    for row in question.contrasts:
        if row.standing in (Likeness.TESTED, Likeness.TOO_LITTLE):
            at_points.setdefault(row.point, []).append(row)
    if not question.private or not at_points:
        return
    leaders = [max(rows, key=lambda row: row.difference) for rows in at_points.values()]
    best = Counter(row.method if row.difference > 0 else question.method for row in leaders)
    start = f"Of the methods with the guarantee of {noun(question.method)}, by {metric_words(view.metric or '')},"
    if len(leaders) == 1:
        row, (winner,) = leaders[0], best
        less = row.method if winner == question.method else question.method
        gap = _told(_turned(row) if winner == question.method else row, signed_text)
        yield f"{start} {noun(winner)} did best: {gap} against {noun(less)}, {_verdict(row)}."
        return
    counts = [f"{noun(method)} did best at {count}" for method, count in best.most_common()]
    none = [] if question.method in best else [f"{noun(question.method)} at none"]
    yield f"{start} {', '.join([*counts, *none])} of {len(leaders)} points."


def _rival(view: StudyView, question: Family, rival: str, rows: Sequence[MeanContrast]) -> str:
    start = f"{upper_first(noun(question.method))} against {noun(rival)} ({metric_words(view.metric or '')}): "
    if len(rows) == 1:
        return f"{start}{_told(rows[0], signed_text)}, {_verdict(rows[0])}{_corrected(question)}."
    better = sum(row.significant and row.difference > 0 for row in rows)
    worse = sum(row.significant and row.difference < 0 for row in rows)
    tested = sum(row.standing is Likeness.TESTED for row in rows)
    untested = f", not tested at {len(rows) - tested}" if tested < len(rows) else ""
    counts = f"better at {better} of {len(rows)} points, worse at {worse}, not significant at {tested - better - worse}"
    outcome = f"{counts}{untested}{_corrected(question)}" if tested else "not tested"
    return f"{start}{outcome}; {_spanned(view, rows, signed_text)}."


def _gap(view: StudyView, question: Family, rival: str, rows: Sequence[MeanContrast]) -> str:
    why = _WHY_NOT[rows[0].standing]
    start = f"{upper_first(noun(question.method))} less {noun(rival)} ({metric_words(view.metric or '')}; {why}): "
    return f"{start}{_spanned(view, rows, signed_text)}."


_WHY_NOT = {
    Likeness.NOT_ALIKE: "not like with like, not tested: the guarantees differ",
    Likeness.UNKNOWN: "not tested: the guarantees are not known",
}


def _corrected(question: Family) -> str:
    count = len(question.tested)
    return "" if count < 2 else f" (Holm over {count} comparisons with {question.rivals})"


def _verdict(row: MeanContrast) -> str:
    if row.standing in _WHY_NOT:
        return _WHY_NOT[row.standing]
    if row.standing is Likeness.TOO_LITTLE:
        return f"not tested ({row.seeds} seed{'' if row.seeds == 1 else 's, all alike'})"
    return f"{'significant' if row.significant else 'not significant'} over {row.seeds} seeds"


def _largest(view: StudyView, question: Family) -> list[str]:
    rows = [row for row in question.tested if row.significant]
    if not rows:
        return []
    row = max(rows, key=lambda row: abs(row.difference))
    return [
        f"The largest significant difference from {noun(question.method)}, among {question.count} with"
        f" {question.rivals}: {noun(row.method)} at {view.label(row.point)},"
        f" {signed_text(row.difference)} {metric_words(view.metric or '')}"
        f" ({range_text(row.low, row.high)}; corrected p {row.p_holm or 0.0:.2g})."
    ]


def _not_significant(view: StudyView, question: Family) -> list[str]:
    tested = question.tested
    unclear = [row for row in tested if not row.significant]
    if not tested:
        return [_nothing_tested(question)]
    if not unclear:
        return [f"Significant are all of {question.count} of {noun(question.method)} with {question.rivals}."]
    named = [f"{noun(row.method)} at {view.label(row.point)}" for row in unclear[:_MOST_NAMED]]
    more = f" and {len(unclear) - len(named)} more" if len(unclear) > len(named) else ""
    return [
        f"Not significant are {len(unclear)} of {question.count} of {noun(question.method)} with {question.rivals},"
        f" and nothing is claimed of them: {', '.join(named)}{more}."
    ]


def _nothing_tested(question: Family) -> str:
    standings = {contrast.standing for contrast in question.contrasts}
    if Likeness.TOO_LITTLE in standings:
        alone = all(contrast.seeds < 2 for contrast in question.contrasts)
        return f"No comparison could be tested: {'every point has one seed' if alone else 'all seeds are alike'}."
    return f"Nothing was tested between methods: none has the guarantee of {noun(question.method)}."


def _changes(view: StudyView, families: Sequence[Family], kind: Kind) -> list[str]:
    """Other divisions in place of the natural one, or one end of a numeric axis in place of the other: the plurality
    and the private methods."""
    sentences, metric = [], metric_words(view.metric or "")
    of_kind = [question for question in families if question.kind == kind]
    for axis, against in dict.fromkeys((question.axis, question.against) for question in of_kind):
        for point in view.order[axis] if kind == "divisions" else view.order[axis][-1:]:
            changes = (_changed(view, question, point) for question in of_kind if question.axis == axis)
            start = (
                f"{point} in place of {against}" if kind == "divisions" else f"From {short(axis)} {against} to {point}"
            )
            if parts := [change for change in changes if change]:
                sentences.append(f"{start} ({metric}): {'; '.join(parts)}.")
    return sentences


def _changed(view: StudyView, question: Family, point: str) -> str:
    """What this point of the question's axis changes; empty where nothing was compared there."""
    place = view.axes.index(question.axis)
    rows = [row for row in _once(question, question.method) if row.point[place] == point]
    if not rows:
        return ""
    count = len(question.tested)
    over = f" of {count} comparisons" if count > 1 else ""
    if len(rows) == 1:
        verdict = _verdict(rows[0]) + (over if rows[0].standing is Likeness.TESTED else "")
        return f"{title(question.method)} {_told(rows[0], signed_text)}, {verdict}"
    tested = [row for row in rows if row.standing is Likeness.TESTED]
    clear = f"significant at {sum(row.significant for row in tested)} of {len(tested)}{over}"
    untested = next((row for row in rows if row.standing is not Likeness.TESTED), None)
    verdict = clear if tested or untested is None else _verdict(untested)
    return f"{title(question.method)} {_spanned(view, rows, signed_text)}, {verdict}"


def _floors(view: StudyView) -> list[str]:
    """Where labels differ more than chance gives parties of these sizes."""
    above, within = [], []
    points, axes = view.distinct("division")
    for point in points:
        distance = view.mean(point, "division", "hellinger_mean")
        floor = view.means.get((point, "division", "hellinger_mean_floor"))
        if distance is None or floor is None:
            continue
        high = floor["mean"] if floor["high"] is None else floor["high"]
        (above if distance > high else within).append(
            f"{view.label(point, axes)} ({value_text(distance)}, {value_text(floor['mean'])})"
        )
    if not above and not within:
        return []
    names = _some(within)
    others = f"; not at {names}" if within else ""
    return [
        f"Labels differ between parties by more than chance at {len(above)} of {len(above) + len(within)} points (mean"
        f" Hellinger distance, and its floor){f': {_some(above)}' if above else ''}{others}."
    ]


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
            share = view.mean(point, "division", f"shift_{kind}_named")
            if share is not None:
                judged[kind] = share
        if judged:
            shifts.append(PointShift(point, view.label(point, axes), judged))
    return shifts


def _shifts(view: StudyView) -> list[str]:
    """Which kind of difference there is, where any is."""
    shifts = shifts_at(view)
    if not shifts:
        return []
    parts = [f"{shift.label}: {', '.join(shift.named) or 'nothing'}" for shift in shifts]
    most = ", in most seeds" if len(view.seeds) > 1 else ""
    return [f"What differs between parties beyond chance{most}: {'; '.join(parts)}."]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _losers(view: StudyView) -> list[str]:
    """How many parties do worse by the private method than alone, at the point where most of them do."""
    method = next(iter(view.private), None)
    if method is None or ALONE not in view.methods:
        return []
    for metric in AT_HOME:
        gains = dict(_by_point(view, party_gains(view.frame, method, metric)))
        lost = {point: _lost_at(view, point, method, metric, gains) for point in view.points}
        losses = {point: loss for point, loss in lost.items() if loss is not None}
        if losses:
            return [_told_of_losers(view, method, metric, losses)]
    return []


def _by_point(view: StudyView, gains: pl.DataFrame) -> Iterator[tuple[Point, np.ndarray]]:
    """Gains float64 (parties,) of each point."""
    for point, some in gains.group_by(*view.axes) if view.axes else [((), gains)]:
        yield tuple(str(value) for value in point), some["gain"].to_numpy()


def _lost_at(
    view: StudyView, point: Point, method: str, metric: str, by_point: Mapping[Point, np.ndarray]
) -> _Lost | None:
    """As measured in the cells (means over seeds), else of each party's mean over seeds."""
    names = ("worse", "parties", "worst_decile", "worst_decile_floor")
    worse, parties, decile, floor = (view.mean(point, method, f"gain_{metric}_{name}") for name in names)
    if worse is not None and parties and decile is not None:
        return _Lost(worse, parties, decile, floor)
    gains = by_point.get(point, np.zeros(0))
    return _Lost(float((gains < -1e-12).sum()), float(len(gains)), worst_decile(gains), None) if len(gains) else None


def _told_of_losers(view: StudyView, method: str, metric: str, losses: Mapping[Point, _Lost]) -> str:
    most = max(losses, key=lambda point: losses[point].share)
    lost = losses[most]
    chance = "" if lost.floor is None else f" (by chance alone {signed_text(lost.floor)})"
    sentence = (
        f"On their own held-out rows ({metric_words(metric)}) {lost.worse:.0f} of {lost.parties:.0f} parties do worse"
        f" by {noun(method)} than alone at {view.label(most)}; the tenth that gains least changes by"
        f" {signed_text(lost.decile)} in the mean{chance}."
    )
    if len(losses) == 1:
        return sentence
    least = min(losses, key=lambda point: losses[point].share)
    smallest = f"{losses[least].share:.0%} ({view.label(least)})"
    return f"{sentence} That is the largest share of {len(losses)} points; the least is {smallest}."


def _privacy(view: StudyView) -> list[str]:
    """What labels cost, and what the data-dependent epsilon is beside the promise."""
    method = next(iter(view.private), None)
    if method is None:
        return []
    rows = []
    for point in view.points:
        promised, spent = view.mean(point, method, "epsilon"), view.mean(point, method, "epsilon_data_dependent")
        if promised and spent is not None:
            rows.append((spent / promised, point, promised, spent))
    if not rows:
        return []
    least, most = min(rows), max(rows)
    if least[0] > _ALL_SPENT:
        return [
            f"The votes save nothing of what {noun(method)} promises: at the votes at hand epsilon is at least"
            f" {least[0]:.0%} of the promise at every point."
        ]
    sentence = (
        f"{upper_first(noun(method))} promises epsilon {epsilon_text(least[2])} at {view.label(least[1])}, and"
        f" at the votes at hand it is {value_text(least[3])} ({least[0]:.0%} of the promise)"
    )
    if len(rows) == 1:
        return [sentence + "; only the promise may be published."]
    largest = f"{most[0]:.0%} ({view.label(most[1])})"
    return [f"{sentence}, the smallest share of {len(rows)} points; the largest is {largest}."]


def _across(view: StudyView) -> list[str]:
    over = set_axis(view.frame, view.order)
    if over is None or view.metric is None:
        return []
    axis, points = over
    correlations = goes_with(view.frame, axis, view.metric, points)
    if not correlations:
        return []
    clear = [going for going in correlations if not going.low <= 0 <= going.high]
    if not clear:
        return [
            f"None of {len(correlations)} rank correlations between properties of a division and what is reached or"
            f" lost over “{axis}” has an interval without 0."
        ]
    best = max(clear, key=lambda going: abs(going.value))
    outcome = title(best.method) if best.against is None else f"{title(best.against)} less {title(best.method)}"
    return [
        f"Over “{axis}” {metric_words(best.property)} goes most clearly with the {metric_words(view.metric)} of"
        f" {outcome}: rank correlation {value_text(best.value)} ({range_text(best.low, best.high)}, {best.pairs}"
        f" data sets); of {len(correlations)} such correlations {len(clear)} have an interval without 0, and none was"
        " fixed beforehand."
    ]
