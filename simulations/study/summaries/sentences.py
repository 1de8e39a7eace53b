"""Sentences that the numbers of a study carry, found by fixed rules; what did not show is told too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from consilium.simulations.study.row_scores import RowScores
from consilium.simulations.study.summaries.across import goes_with, set_axis
from consilium.simulations.study.summaries.differences import paired
from consilium.simulations.study.summaries.gains import ALONE, AT_HOME, party_gains, worst_decile
from consilium.simulations.study.summaries.tidy import NATURAL, title
from consilium.simulations.study.summaries.view import Point, StudyView, study_view
from consilium.simulations.study.summaries.words import metric_words, range_text, short, signed_text, value_text

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
    view = study_view(frame, order or {}, row_scores=row_scores)
    if view.metric is None:
        return []
    compared = (
        paired(view.frame, view.metric, view.reference, row_scores=view.row_scores)
        if view.reference is not None
        else pl.DataFrame()
    )
    found = [*_costs(view)]
    if view.private:
        found += _rivals(view, compared)
    found += [*_largest(view, compared), *_not_significant(view, compared), *_natural(view), *_along(view)]
    found += [*_floors(view), *_losers(view), *_privacy(view), *_across(view)]
    return found


def _kind(view: StudyView, name: str) -> str | None:
    """The method of this name, or the first that is called so with keys."""
    return next((each for each in view.methods if each == name or each.startswith(f"{name} ")), None)


def _costs(view: StudyView) -> list[str]:
    """What is lost from the pooled model to the plurality, and from there to the private student."""
    pooled, plurality = _kind(view, "pooled"), _kind(view, "plurality")
    private = next(iter(view.private), None)
    found = []
    for more, less, what in (
        (pooled, plurality, "The division itself costs"),
        (plurality, private, "Noise, caps and learning from labels cost"),
    ):
        if more is None or less is None:
            continue
        lost = _lost(view, more, less)
        if lost:
            found.append(
                _cost(view, lost, f"{what} {{}} {metric_words(view.metric or '')} ({title(more)} less {title(less)})")
            )
    return found


def _lost(view: StudyView, more: str, less: str) -> dict[Point, float]:
    """Difference of the means at every point that has both."""
    metric = view.metric or ""
    both = {at: (view.mean(at, more, metric), view.mean(at, less, metric)) for at in view.points}
    return {at: first - second for at, (first, second) in both.items() if first is not None and second is not None}


def _cost(view: StudyView, lost: Mapping[Point, float], told: str) -> str:
    values = list(lost.values())
    if len(values) == 1:
        return told.format(value_text(values[0])) + "."
    most, least = max(lost, key=lambda at: lost[at]), min(lost, key=lambda at: lost[at])
    return (
        told.format(value_text(float(np.mean(values))))
        + f" in the mean over {len(values)} points: most at {view.label(most)} ({value_text(lost[most])}), least at"
        f" {view.label(least)} ({value_text(lost[least])})."
    )


def _rivals(view: StudyView, compared: pl.DataFrame) -> list[str]:
    """The private reference against every other method, one sentence each."""
    found = []
    for rival in view.methods:
        rows = compared.filter(pl.col("method") == rival).to_dicts()
        if rows:
            found.append(_rival(view, rival, rows))
    return found


def _rival(view: StudyView, rival: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The table has rival less reference; the sentence tells it the other way round."""
    reference, metric = title(view.reference or ""), metric_words(view.metric or "")
    told = f"{reference} against {title(rival)} ({metric}): "
    if len(rows) == 1:
        row = rows[0]
        ends = "" if row["low"] is None else f" ({range_text(-row['high'], -row['low'])})"
        return told + f"{signed_text(-row['difference'])}{ends}, {_verdict(row)}."
    better = [row for row in rows if row["significant"] and row["difference"] < 0]
    worse = [row for row in rows if row["significant"] and row["difference"] > 0]
    least = max(rows, key=lambda row: row["difference"])
    most = min(rows, key=lambda row: row["difference"])
    mean = -float(np.mean([row["difference"] for row in rows]))
    return (
        f"{told}better at {len(better)} of {len(rows)} points, worse at {len(worse)}, not significant at"
        f" {len(rows) - len(better) - len(worse)}; {signed_text(mean)} in the mean, from"
        f" {signed_text(-least['difference'])}"
        f" ({_where(view, least)}) to {signed_text(-most['difference'])} ({_where(view, most)})."
    )


def _verdict(row: Mapping[str, Any]) -> str:
    if row["p_holm"] is None:
        return f"not tested ({row['seeds']} seed{'' if row['seeds'] == 1 else 's, all alike'})"
    return f"{'significant' if row['significant'] else 'not significant'} over {row['seeds']} seeds"


def _where(view: StudyView, row: Mapping[str, Any]) -> str:
    return view.label(tuple(row[axis] for axis in view.axes))


def _largest(view: StudyView, compared: pl.DataFrame) -> list[str]:
    rows = [row for row in compared.to_dicts() if row["significant"]]
    if not rows:
        return []
    row = max(rows, key=lambda each: abs(each["difference"]))
    return [
        f"The largest significant difference from {title(view.reference or '')}: {title(row['method'])} at"
        f" {_where(view, row)}, {signed_text(row['difference'])} {metric_words(view.metric or '')}"
        f" ({range_text(row['low'], row['high'])}; corrected p {row['p_holm']:.2g})."
    ]


def _not_significant(view: StudyView, compared: pl.DataFrame) -> list[str]:
    tested = [row for row in compared.to_dicts() if row["p_holm"] is not None]
    unclear = [row for row in tested if not row["significant"]]
    if not tested:
        return ["No comparison could be tested: every point has one seed."] if compared.height else []
    if not unclear:
        return [f"All {len(tested)} comparisons with {title(view.reference or '')} are significant."]
    named = [f"{title(row['method'])} at {_where(view, row)}" for row in unclear[:_MOST_NAMED]]
    more = f" and {len(unclear) - len(named)} more" if len(unclear) > len(named) else ""
    return [
        f"{len(unclear)} of {len(tested)} comparisons with {title(view.reference or '')} are not significant, and"
        f" nothing is claimed of them: {', '.join(named)}{more}."
    ]


def _followed(view: StudyView) -> list[str]:
    """Methods that are told of along an axis: the plurality and the private one."""
    return [name for name in (_kind(view, "plurality"), *view.private[:1]) if name is not None]


def _few(view: StudyView) -> pl.DataFrame:
    """Their rows alone, so that only what is told counts as a comparison."""
    return view.frame.filter(pl.col("method").is_in(_followed(view)))


def _natural(view: StudyView) -> list[str]:
    """Other divisions in place of the natural one: the plurality and the private method."""
    found = []
    for axis in view.axes:
        natural = next((point for point in view.order[axis] if point.lower() in NATURAL), None)
        if natural is None or view.metric is None:
            continue
        table = paired(_few(view), view.metric, natural, along=axis, row_scores=view.row_scores)
        for point in view.order[axis]:
            parts = [
                _changed(name, table.filter((pl.col(axis) == point) & (pl.col("method") == name)).to_dicts())
                for name in _followed(view)
            ]
            told = [part for part in parts if part]
            if told:
                found.append(f"{point} in place of {natural} ({metric_words(view.metric)}): {'; '.join(told)}.")
    return found


def _changed(method: str, rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    if len(rows) == 1:
        ends = "" if rows[0]["low"] is None else f" ({range_text(rows[0]['low'], rows[0]['high'])})"
        return f"{title(method)} {signed_text(rows[0]['difference'])}{ends}, {_verdict(rows[0])}"
    clear = sum(row["significant"] for row in rows)
    mean = float(np.mean([row["difference"] for row in rows]))
    return f"{title(method)} {signed_text(mean)} in the mean, significant at {clear} of {len(rows)} points"


def _along(view: StudyView) -> list[str]:
    """From one end of a numeric axis to the other."""
    found = []
    for axis in view.numeric_axes(2):
        first, last = view.order[axis][0], view.order[axis][-1]
        ends = _few(view).filter(pl.col(axis).is_in([first, last]))
        table = paired(ends, view.metric or "", first, along=axis, row_scores=view.row_scores)
        parts = [
            _changed(name, table.filter((pl.col(axis) == last) & (pl.col("method") == name)).to_dicts())
            for name in _followed(view)
        ]
        told = [part for part in parts if part]
        if told:
            words = metric_words(view.metric or "")
            found.append(f"From {short(axis)} {first} to {last} ({words}): {'; '.join(told)}.")
    return found


def _floors(view: StudyView) -> list[str]:
    """Where labels differ more than chance gives parties of these sizes."""
    above, within = [], []
    points, axes = view.distinct("division")
    for at in points:
        found = view.mean(at, "division", "hellinger_mean")
        floor = view.means.get((at, "division", "hellinger_mean_floor"))
        if found is None or floor is None:
            continue
        high = floor["mean"] if floor["high"] is None else floor["high"]
        (above if found > high else within).append(
            f"{view.label(at, axes)} ({value_text(found)}, {value_text(floor['mean'])})"
        )
    if not above and not within:
        return []
    names = _some(within)
    told = f"; not at {names}" if within else ""
    return [
        f"Labels differ between parties by more than chance at {len(above)} of {len(above) + len(within)} points (mean"
        f" Hellinger distance, and its floor){f': {_some(above)}' if above else ''}{told}."
    ]


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
        found = {at: lost for at in view.points if (lost := _lost_at(view, at, method, metric, gains)) is not None}
        if found:
            return [_told_of_losers(view, method, metric, found)]
    return []


def _by_point(view: StudyView, gains: pl.DataFrame) -> Iterator[tuple[Point, np.ndarray]]:
    """Gains float64 (parties,) of each point."""
    for at, some in gains.group_by(*view.axes) if view.axes else [((), gains)]:
        yield tuple(str(value) for value in at), some["gain"].to_numpy()


def _lost_at(
    view: StudyView, at: Point, method: str, metric: str, by_point: Mapping[Point, np.ndarray]
) -> _Lost | None:
    """As measured in the cells (means over seeds), else of each party's mean over seeds."""
    names = ("worse", "parties", "worst_decile", "worst_decile_floor")
    worse, parties, decile, floor = (view.mean(at, method, f"gain_{metric}_{name}") for name in names)
    if worse is not None and parties and decile is not None:
        return _Lost(worse, parties, decile, floor)
    gains = by_point.get(at, np.zeros(0))
    return _Lost(float((gains < -1e-12).sum()), float(len(gains)), worst_decile(gains), None) if len(gains) else None


def _told_of_losers(view: StudyView, method: str, metric: str, found: Mapping[Point, _Lost]) -> str:
    most = max(found, key=lambda at: found[at].share)
    lost = found[most]
    chance = "" if lost.floor is None else f" (by chance alone {signed_text(lost.floor)})"
    told = (
        f"On their own held-out rows ({metric_words(metric)}) {lost.worse:.0f} of {lost.parties:.0f} parties do worse"
        f" by {title(method)} than alone at {view.label(most)}; the tenth that gains least changes by"
        f" {signed_text(lost.decile)} in the mean{chance}."
    )
    if len(found) == 1:
        return told
    least = min(found, key=lambda at: found[at].share)
    smallest = f"{found[least].share:.0%} ({view.label(least)})"
    return f"{told} That is the largest share of {len(found)} points; the least is {smallest}."


def _privacy(view: StudyView) -> list[str]:
    """What labels cost, and what the data-dependent epsilon is beside the promise."""
    method = next(iter(view.private), None)
    if method is None:
        return []
    rows = []
    for at in view.points:
        promised, spent = view.mean(at, method, "epsilon"), view.mean(at, method, "epsilon_data_dependent")
        if promised and spent is not None:
            rows.append((spent / promised, at, promised, spent))
    if not rows:
        return []
    least, most = min(rows), max(rows)
    if least[0] > _ALL_SPENT:
        return [
            f"The votes save nothing of what {title(method)} promises: at the votes at hand epsilon is at least"
            f" {least[0]:.0%} of the promise at every point."
        ]
    told = (
        f"{title(method)} promises epsilon {value_text(least[2])} at {view.label(least[1])}, and at the votes at hand"
        f" it is {value_text(least[3])} ({least[0]:.0%} of the promise)"
    )
    if len(rows) == 1:
        return [told + "; only the promise may be published."]
    return [f"{told}, the smallest share of {len(rows)} points; the largest is {most[0]:.0%} ({view.label(most[1])})."]


def _across(view: StudyView) -> list[str]:
    axis = set_axis(view.order)
    if axis is None or view.metric is None:
        return []
    found = goes_with(view.frame, axis, view.metric)
    if not found:
        return []
    clear = [each for each in found if not each.low <= 0 <= each.high]
    if not clear:
        return [
            f"None of {len(found)} rank correlations between properties of a division and what is reached or lost over"
            f" “{axis}” has an interval without 0."
        ]
    best = max(clear, key=lambda each: abs(each.value))
    outcome = title(best.method) if best.against is None else f"{title(best.against)} less {title(best.method)}"
    return [
        f"Over “{axis}” {metric_words(best.property)} goes most clearly with the {metric_words(view.metric)} of"
        f" {outcome}: rank correlation {value_text(best.value)} ({range_text(best.low, best.high)}, {best.pairs}"
        f" points); of {len(found)} such correlations {len(clear)} have an interval without 0, and none was fixed"
        " beforehand."
    ]
