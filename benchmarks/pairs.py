"""Points of one axis of a study against one of them, seed by seed.

    python -m benchmarks.pairs FOLDER --axis selection --against random [--method pate] [--metric accuracy]
        [--figure PAGE/TABLE]

FOLDER is that of a study's results. For every combination of the other axes it prints what was asked and answered, the
share of right labels, the epsilon that was promised, the metric, and by how much the metric differs from that of the
point `--against` with the same seed: mean, and its 95 % interval over seeds and test rows, as the report of a study has
it (`summaries.paired`); over seeds alone, and said so, for figures that are no mean over test rows, and for results of
0.9, which kept nothing of single rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.cells import command_of
from consilium.simulations.study.results import RESULTS
from consilium.simulations.study.row_scores import RowScores
from consilium.simulations.study.summaries.questions import paired
from consilium.simulations.study.summaries.tidy import axis_names
from docs.figures import figure

BESIDE = ("asked", "answered", "labels_right", "epsilon")
"""Means over seeds, where the method has them."""


def pairs(
    table: pl.DataFrame, axis: str, against: str, method: str, metric: str, row_scores: RowScores | None = None
) -> list[tuple[str, ...]]:
    """The lines of the table: the other axes, the point, `BESIDE`, the metric, and the difference.

    row_scores: of the same study.

    Raises
    ------
    SystemExit : no such axis, point, method or metric.
    """
    axes = axis_names(table)
    if axis not in axes:
        sys.exit(f"no axis {axis}; there are {', '.join(axes)}")
    rows = table.filter((pl.col("method") == method) & (pl.col("scope") == "run"))
    others = [name for name in axes if name != axis]
    if rows.filter((pl.col(axis) == against) & (pl.col("metric") == metric)).is_empty():
        sys.exit(f"method {method} has no {metric} at {axis} {against}")
    compared = paired(rows, metric, against, along=axis, row_scores=row_scores)
    less = {tuple(row[name] for name in (*others, axis)): row for row in compared.iter_rows(named=True)}
    found = []
    for place in rows.select(others).unique(maintain_order=True).rows() if others else [()]:
        here = rows.filter(pl.lit(True), *(pl.col(name) == value for name, value in zip(others, place, strict=True)))
        for point in here[axis].unique(maintain_order=True):
            figures = [_mean(_values(here, axis, point, name)) for name in (*BESIDE, metric)]
            found.append((*place, point, *figures, "–" if point == against else _difference(less.get((*place, point)))))
    return found


def _values(rows: pl.DataFrame, axis: str, point: str, metric: str) -> list[float]:
    chosen = rows.filter((pl.col(axis) == point) & (pl.col("metric") == metric) & pl.col("value").is_not_null())
    return chosen["value"].to_list()


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    mean = np.mean(values)
    if all(float(value).is_integer() for value in values):
        return f"{mean:.0f}"
    spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 and np.ptp(values) > 1e-9 else ""
    return f"{mean:.3f}{spread}"


def _difference(row: Mapping[str, Any] | None) -> str:
    """row: of `paired`; None where no seed has both."""
    if row is None:
        return ""
    if row["low"] is None:
        return f"{row['difference']:+.4f} (one seed)"
    over = "" if row["over"] == "seeds and rows" else f", over {row['over']} alone"
    return f"{row['difference']:+.4f} ({row['low']:+.4f} to {row['high']:+.4f}{over})"


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description="Points of an axis, in pairs.")
    parser.add_argument("folder", type=Path, nargs="?", help="of a study's results")
    parser.add_argument("--axis", default="selection")
    parser.add_argument("--against", default="random")
    parser.add_argument("--method", default="pate")
    parser.add_argument("--metric", default="accuracy")
    parser.add_argument("--figure", default="papers/pairs", help="its name, PAGE/TABLE (docs/figures.py)")
    chosen = parser.parse_args(arguments or [])
    if chosen.folder is None:
        print("needs the folder of a study: python -m benchmarks.pairs FOLDER --axis AXIS --against POINT")
        return
    path = chosen.folder / RESULTS
    if not path.is_file():
        sys.exit(f"{chosen.folder} is no folder of a study: it has no {RESULTS}")
    table = pl.read_parquet(path)
    scores = RowScores.read(chosen.folder)
    lines = pairs(table, chosen.axis, chosen.against, chosen.method, chosen.metric, scores)
    others = [name for name in axis_names(table) if name != chosen.axis]
    columns = (*others, chosen.axis, *BESIDE, chosen.metric, f"less {chosen.against}")
    command = command_of("benchmarks.pairs", arguments or ())
    split = "the public test rows of the study, on which nothing is chosen"
    with figure(chosen.figure, command, columns, split=split, seeds=sorted(table["seed"].unique())) as rows:
        for line in lines:
            rows.add(*line)


if __name__ == "__main__":
    main(sys.argv[1:])
