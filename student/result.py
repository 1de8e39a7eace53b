"""What a student reached: counts of its queries, and its quality on labelled public rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from consilium.report.warnings import RunWarning


@dataclass(frozen=True)
class StudentResult:
    """The result of a student's run. `answered`: by the teachers; `reinforced`: own predictions confirmed. `warnings`:
    of public numbers alone."""

    asked: int
    answered: int
    reinforced: int
    metrics: dict[str, Any] | None
    warnings: list[RunWarning]
    seconds: float
