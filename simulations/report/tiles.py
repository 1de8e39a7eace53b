"""The key figures of the first screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from consilium.coordinator.ledger.privacy import NODES
from consilium.protocol.releases import ReleaseKind
from consilium.simulations.metrics import wilson
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import PROMISED, SPENT, GuaranteeRow, disclosure_of
from consilium.simulations.report.models import METRIC_NAMES, lead, with_interval
from consilium.simulations.report.wording import many, plural, share_text
from consilium.simulations.report.worth import METRIC_NAMES as WRITTEN


@dataclass(frozen=True)
class Tile:
    """A key figure: a label, a value of a few letters, and what to know about it."""

    label: str
    value: str
    note: str
    accent: bool = False


def tiles(
    data: ReportData, asked: int, answered: int, guarantees: Mapping[str, GuaranteeRow], public: bool
) -> list[Tile]:
    """In the order of the page."""
    promised, spent = guarantees[PROMISED], guarantees.get(SPENT)
    used = f", {spent.epsilon_text} spent" if spent else "" if asked else ", nothing spent"
    nodes = guarantees.get(NODES)
    beside = f"; {nodes.epsilon_text} towards the nodes" if nodes else ""
    if not nodes and not disclosure_of(data).noise_in_sums:
        beside = "; none towards the coordinator"
    teachers = many(data.teachers, "teacher")
    return [
        Tile(plural(data.party_label), f"{data.parties:,}", f"invited, with {teachers}" if public else teachers),
        Tile(
            f"{plural(data.release.noun)} released",
            f"{answered:,}",
            f"of {asked:,} asked; at most {data.most_answers:,} of {data.most_queries:,} allowed",
        ),
        Tile(
            "epsilon, worst case",
            promised.epsilon_text,
            f"at delta {promised.delta_text} for each {promised.unit}; promised before the run{used}{beside}",
        ),
        _student(data),
        _labels(data, answered),
    ]


def _student(data: ReportData) -> Tile:
    student, intervals = data.student or {}, data.open_figures.get("intervals") or {}
    first = lead(data, student)
    shown = first if student.get(first) is not None else "accuracy"
    other = next(name for name in METRIC_NAMES if name != shown)
    notes = []
    if intervals.get(shown):
        low, high = intervals[shown]
        tested = sum((data.open_figures.get("test") or {}).values())
        notes.append(f"{share_text(low)} to {share_text(high)} (95%) on {many(tested, 'case')}")
    if data.student is None:
        notes.append("not evaluated")
    elif student.get("auc") is None:
        notes.append("no AUC: one class only among the test cases")
    else:
        notes.append(f"{WRITTEN[other]} {with_interval(student.get(other), intervals.get(other))}")
    label = "student AUC" if shown == "auc" or data.student is None else "student accuracy"
    return Tile(label, share_text(student.get(shown)), "; ".join(notes), accent=True)


def _labels(data: ReportData, answered: int) -> Tile:
    right = data.released_label_accuracy
    label = "largest noisy counts right" if data.release is ReleaseKind.COUNTS else "released labels right"
    if right is None or not answered:
        return Tile(label, "–", "nobody knows the truth" if answered else f"no {data.release.noun} to compare")
    low, high = wilson(right * answered, answered)
    return Tile(label, f"{right:.1%}", f"{low:.1%} to {high:.1%} (95%), against the public truth")
