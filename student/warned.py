"""What a student can warn of itself: public numbers only, since its card is for anybody."""

from __future__ import annotations

from typing import Any

from consilium.protocol.label_source import LabelTerms
from consilium.report.warnings import Expected, InPlace, RunWarning, StudentFacts, after_run, before_run
from consilium.student.config import StudentSpec

CONSTANT = "constant"
"""The kind of a published model that says the same of every row."""


def student_warnings(
    terms: LabelTerms,
    spec: StudentSpec,
    kind: str,
    answered: int,
    metrics: dict[str, Any] | None,
    tested: dict[str, Any] | None,
) -> list[RunWarning]:
    """Warnings of a finished student. kind: of its published model. metrics, tested: as its card has them."""
    expected = Expected(
        epsilon=terms.epsilon,
        delta=terms.delta,
        unit=terms.unit,
        classes=len(terms.schema.classes),
        answers=answered,
        votes=0,  # how many teachers a party has, and so the noise beside them, the terms do not say
        asks_typical=spec.asks_typical,
    )
    rows = {} if tested is None else tested["rows_per_class"]
    in_place = InPlace(terms.count_sigma > 0, None, bool(spec.prevalence))  # how teachers vote, the terms do not say
    reached = StudentFacts(in_place, answered, kind == CONSTANT, metrics, rows)
    return [*after_run(reached), *before_run(expected)]
