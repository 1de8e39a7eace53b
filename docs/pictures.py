"""Pictures of the pages that are drawn from measured tables: `python -m docs.pictures` writes them.

A test holds each to its table, so that a picture changes when its figure is measured anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from consilium.report.charts import ValueRow, rows_chart, svg_file
from docs.figures import read_all
from docs.marked import DOCS


def headline() -> str:
    """What a council of hospitals has, between one alone and all rows in one place: AUC, mean and standard deviation
    over the seeds of `results/default-scenario`."""
    tables = read_all()
    scenario, runs = tables["results/default-scenario"], tables["results/default-runs"]
    cells = {
        "one hospital alone": scenario.cell("as shipped", "mean teacher"),
        "council: the student": scenario.cell("as shipped", "student"),
        "noisy average of weights": runs.cell("all", "noisy average of weights"),
        "all rows in one place": scenario.cell("as shipped", "pooled"),
    }
    rows = [_row(label, cell, marked=label.startswith("council")) for label, cell in cells.items()]
    title = (
        f"Dead or dependent after a stroke: AUC at other hospitals, epsilon {scenario.cell('as shipped', 'promised')}"
    )
    return svg_file(title, [("", rows_chart("AUC, mean and standard deviation over ten seeds", rows))])


def _row(label: str, cell: str, marked: bool) -> ValueRow:
    mean, deviation = (float(number) for number in re.findall(r"[\d.]+", cell))
    return ValueRow(label, mean, (mean - deviation, mean + deviation), cell, marked=marked)


PICTURES: Mapping[str, Callable[[], str]] = {"headline.svg": headline}
"""By file in docs/."""


def main() -> None:
    """Write them all."""
    for name, draw in PICTURES.items():
        (DOCS / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
