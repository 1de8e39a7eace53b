"""Tables of docs/papers.md from runs of papers by their names.

    consilium run near-zero --out RUN
    python -m benchmarks.by_name RUN [RUN ...] [--name NAME]

The command of a run is that of its table: rows and seeds are read from its folder. Of PATE 2017 there are three tables:
rows, teachers, and the experiments on its student.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from consilium.report.exhibits import Table
from consilium.simulations.papers import ORDER
from consilium.simulations.papers.run import RESULTS, exhibits
from docs.figures import figure

SPLIT = (
    "nothing was chosen on images that judge; intervals are 95 %, over seeds and test images together, of one seed over"
    " images"
)
EXPERIMENT = "experiment: "
"""How titles of rows begin that are no rows of the paper."""


def command_of(folder: Path) -> str:
    """What was typed to make this run."""
    order = json.loads((folder / ORDER).read_text(encoding="utf-8"))
    words = ["consilium run", order["paper"]]
    for key in ("rows", "seeds"):
        if chosen := order["choice"].get(key):
            words.append(f"--set '{key}={json.dumps(chosen)}'")
    return " ".join(words)


def not_the_papers(rows: Sequence[dict[str, Any]]) -> str:
    """Settings of these rows that are none of the paper's, for below a table."""
    differs = "; ".join(f"{row['title']}: {row['differs']}" for row in rows if row["differs"])
    return f"Settings are the papers'{f', but for these. {differs}' if differs else ''}"


def record(folder: Path, name: str, columns: Sequence[str], lines: Sequence[Sequence[str]], results: dict[str, Any]
           ) -> None:  # fmt: skip
    """A table, unless it has no lines."""
    if lines:
        seeds, note = results["seeds"], not_the_papers(results["rows"])
        with figure(name, command_of(folder), columns, seeds=seeds, split=SPLIT, note=note, quick=False) as table:
            for line in lines:
                table.add(*(text or None for text in line))
            table.seconds = results["seconds"]


def lines_of(table: Table | None) -> list[list[str]]:
    """Text of its cells."""
    return [] if table is None else [[str(line.name), *(str(cell.text) for cell in line.cells)] for line in table.lines]


def thousands(row: dict[str, Any]) -> list[str]:
    """A student that 2,000 images judge, on each thousand of them; seeds' means in percent."""
    each = [item["thousands"] for item in row["ours"]["each"]]
    return [f"{100 * sum(values) / len(values):.1f}" for values in zip(*each, strict=True)]


def main(arguments: list[str] | None = None) -> None:
    """Write the tables of each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--name", default="", help="of its tables; left out: the paper's")
    options = parser.parse_args(arguments or [])
    for folder in options.runs:
        results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        name = f"papers/{options.name or results['paper']}"
        tried = [row for row in results["rows"] if row["title"].startswith(EXPERIMENT)]
        parts = {
            part.name: part.exhibits[0].table
            for part in exhibits({**results, "rows": [row for row in results["rows"] if row not in tried]})
        }
        for place, part in (("", "rows"), ("-teachers", "teachers")):
            table = parts.get(part)
            if table is not None and any(column.startswith("paper:") for column in table.columns):
                record(folder, name + place, table.columns, lines_of(table), results)
        columns = ("experiment", "labels right, %", "student, %", "the thousand before the last, %", "last 1,000, %")
        lines = [
            [
                row["title"].removeprefix(EXPERIMENT),
                *(f"{100 * row['ours'][key][0]:.2f}" for key in ("labels", "student")),
                *thousands(row),
            ]
            for row in tried
        ]
        record(folder, f"{name}-why", columns, lines, results)


if __name__ == "__main__":
    main(sys.argv[1:])
