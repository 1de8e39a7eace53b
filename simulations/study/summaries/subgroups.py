"""What a method costs each group of rows, such as women or the old: small groups beside all others.

Of each group but the largest of its column: what the method has more than another there, and by how much this differs
from the same among all other rows. That difference of differences is tested, over seeds and test rows together, and p
is corrected over all groups and points (Holm). The largest group is what the others are held against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from consilium.report.words import range_text, signed_text, value_text
from consilium.simulations.artifact import AGAINST_REST, SUBGROUP
from consilium.simulations.study.summaries.questions import holm, paired
from consilium.simulations.study.summaries.tidy import less_is_better, metric_words, noun
from consilium.simulations.study.summaries.view import Point, StudyView, over_seeds

AGAINST = ("plurality", "pooled")
"""What a private method is held against, where a study has it: the same votes without noise, and all rows together."""
COST = "brier"
"""The figure that is tested: of probabilities, whatever the threshold, and defined within a class."""
ERROR = 0.05


@dataclass(frozen=True)
class GroupCost:
    """Of one group at one point: what `method` has more of a metric than `against`, mean over seeds with its interval.
    share: of the training rows. against_rest: that less the same of all other rows. p: of `against_rest`, p_holm over
    all groups but the largest of each column, whose p_holm is None."""

    point: Point
    name: str
    method: str
    against: str
    share: float
    rows: float
    difference: float
    low: float | None
    high: float | None
    against_rest: float
    rest_low: float | None
    rest_high: float | None
    p: float | None
    p_holm: float | None = None

    @property
    def column(self) -> str:
        return self.name.partition(": ")[0]

    @property
    def significant(self) -> bool:
        return self.p_holm is not None and self.p_holm < ERROR


def held_against(view: StudyView) -> list[str]:
    """Of the study's methods the first of each kind of `AGAINST`."""
    firsts = (
        next((name for name in view.methods if name == kind or name.startswith(f"{kind} ")), None) for kind in AGAINST
    )
    return [name for name in firsts if name is not None and name != view.reference]


def group_costs(view: StudyView, method: str, against: str, metric: str = COST) -> list[GroupCost]:
    """Of all groups at all points, those with the smallest share of the training rows first; none without subgroups."""
    frame = view.frame.filter((pl.col("scope") == SUBGROUP) & pl.col("method").is_in([method, against]))
    if frame.is_empty():
        return []
    axes, keys = list(view.axes), [*view.axes, "name"]
    steps = paired(frame, metric, against, keys, row_scores=view.row_scores, scope=SUBGROUP)
    rest = paired(frame, metric + AGAINST_REST, against, keys, row_scores=view.row_scores, scope=SUBGROUP)
    means = over_seeds(frame.filter(pl.col("method") == method), ("train_share", "rows"), SUBGROUP)
    sizes = {tuple(row[key] for key in (*keys, "metric")): row["mean"] for row in means.iter_rows(named=True)}
    others = {tuple(row[key] for key in keys): row for row in rest.iter_rows(named=True)}
    costs = []
    for row in steps.iter_rows(named=True):
        key = tuple(row[name] for name in keys)
        if (other := others.get(key)) is not None:
            point = tuple(str(row[axis]) for axis in axes)
            costs.append(
                GroupCost(
                    point=point,
                    name=row["name"],
                    method=method,
                    against=against,
                    share=sizes[*key, "train_share"],
                    rows=sizes[*key, "rows"],
                    **{name: row[name] for name in ("difference", "low", "high")},
                    against_rest=other["difference"],
                    rest_low=other["low"],
                    rest_high=other["high"],
                    p=other["p"],
                )
            )
    return _corrected(sorted(costs, key=lambda cost: (cost.share, cost.name, cost.point)))


def _corrected(costs: Sequence[GroupCost]) -> list[GroupCost]:
    largest: dict[tuple[Point, str], str] = {}
    for cost in costs:  # by share, so that the last one of a column is its largest
        largest[cost.point, cost.column] = cost.name
    small = [largest[cost.point, cost.column] != cost.name for cost in costs]
    p = holm([cost.p if is_small else None for cost, is_small in zip(costs, small, strict=True)])
    return [replace(cost, p_holm=corrected) for cost, corrected in zip(costs, p, strict=True)]


def cost_sentences(view: StudyView) -> list[str]:
    """One sentence for each method that the reference is held against; none without subgroups, or with one seed."""
    if view.reference is None:
        return []
    sentences = []
    for against in held_against(view):
        costs = group_costs(view, view.reference, against)
        tested = [cost for cost in costs if cost.p_holm is not None]
        if tested:
            sentences.append(_sentence(view, tested))
    return sentences


def _sentence(view: StudyView, tested: Sequence[GroupCost]) -> str:
    sign = 1.0 if less_is_better(COST) else -1.0
    first, words, count = tested[0], metric_words(COST), len(tested)
    start = f"Small groups: {noun(first.method)}’s loss in {words} against {noun(first.against)}"
    more = [cost for cost in tested if cost.significant and sign * cost.against_rest > 0]
    less = [cost for cost in tested if cost.significant and sign * cost.against_rest < 0]
    if not more and not less:
        return f"{start} differs significantly from that of all other rows in none of {count} groups and points."
    text = f"{start} is significantly larger than that of all other rows in {len(more)} of {count} groups and points"
    text += f", smaller in {len(less)}"
    if not more:
        return f"{text}."
    worst = max(more, key=lambda cost: sign * cost.against_rest)
    where = f" at {view.label(worst.point)}" if view.axes else ""
    interval = range_text(worst.rest_low, worst.rest_high)
    return (
        f"{text}; most for {worst.name}{where}, with {value_text(worst.share)} of the training rows:"
        f" {signed_text(worst.against_rest)} ({interval})."
    )
