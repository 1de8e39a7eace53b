"""Points of one axis of a study against one of them, seed by seed.

    python -m benchmarks.pairs FOLDER --axis selection --against random [--method pate] [--metric accuracy]

FOLDER is that of a study's results. For every combination of the other axes it prints what was asked and answered, the
share of right labels, the epsilon that was promised, the metric, and by how much the metric differs from that of the
point `--against` with the same seed: mean, and the 95 % interval of a t-test of pairs. Seeds redo division, lots and
noise and share the test rows, so that the interval is of that luck alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import t

from consilium.simulations.study.results import RESULTS
from consilium.simulations.study.spec import COLUMNS

BESIDE = ("asked", "answered", "labels_right", "epsilon")
"""Told in the mean, where the method has them."""


def interval(differences: np.ndarray) -> tuple[float, float, float]:
    """Mean of float64 (seeds,), and the ends of its 95 % interval; NaN for one seed alone.

    >>> [round(each, 3) for each in interval(np.array([0.01, 0.02, 0.03]))]
    [0.02, -0.005, 0.045]
    """
    mean, seeds = float(differences.mean()), len(differences)
    if seeds < 2:
        return mean, float("nan"), float("nan")
    half = float(t.ppf(0.975, seeds - 1) * differences.std(ddof=1) / np.sqrt(seeds))
    return mean, mean - half, mean + half


def pairs(table: pl.DataFrame, axis: str, against: str, method: str, metric: str) -> list[tuple[str, ...]]:
    """The lines of the table: the other axes, the point, `BESIDE`, the metric, and the difference.

    Raises
    ------
    SystemExit : no such axis, point, method or metric.
    """
    axes = [name for name in table.columns if name not in COLUMNS]
    if axis not in axes:
        sys.exit(f"no axis {axis}; there are {', '.join(axes)}")
    rows = table.filter((pl.col("method") == method) & (pl.col("scope") == "run"))
    others = [name for name in axes if name != axis]
    if rows.filter((pl.col(axis) == against) & (pl.col("metric") == metric)).is_empty():
        sys.exit(f"method {method} has no {metric} at {axis} {against}")
    found = []
    for place in rows.select(others).unique(maintain_order=True).rows() if others else [()]:
        here = rows.filter(pl.lit(True), *(pl.col(name) == value for name, value in zip(others, place, strict=True)))
        control = _by_seed(here, axis, against, metric)
        for point in here[axis].unique(maintain_order=True):
            values = _by_seed(here, axis, point, metric)
            told = [_mean(list(_by_seed(here, axis, point, name).values())) for name in BESIDE]
            shared = [seed for seed in values if seed in control]
            same = [_difference(np.array([values[seed] - control[seed] for seed in shared]))] if shared else [""]
            found.append((*place, point, *told, _mean(list(values.values())), *(["–"] if point == against else same)))
    return found


def _by_seed(rows: pl.DataFrame, axis: str, point: str, metric: str) -> dict[int, float]:
    chosen = rows.filter((pl.col(axis) == point) & (pl.col("metric") == metric) & pl.col("value").is_not_null())
    return dict(zip(chosen["seed"].to_list(), chosen["value"].to_list(), strict=True))


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    mean = np.mean(values)
    if all(float(value).is_integer() for value in values):
        return f"{mean:.0f}"
    spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 and np.ptp(values) > 1e-9 else ""
    return f"{mean:.3f}{spread}"


def _difference(differences: np.ndarray) -> str:
    mean, low, high = interval(differences)
    return f"{mean:+.4f} ({low:+.4f} to {high:+.4f})"


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description="Points of an axis, in pairs.")
    parser.add_argument("folder", type=Path, nargs="?", help="of a study's results")
    parser.add_argument("--axis", default="selection")
    parser.add_argument("--against", default="random")
    parser.add_argument("--method", default="pate")
    parser.add_argument("--metric", default="accuracy")
    chosen = parser.parse_args(arguments or [])
    if chosen.folder is None:
        print("needs the folder of a study: python -m benchmarks.pairs FOLDER --axis AXIS --against POINT")
        return
    path = chosen.folder / RESULTS
    if not path.is_file():
        sys.exit(f"{chosen.folder} is no folder of a study: it has no {RESULTS}")
    table = pl.read_parquet(path)
    lines = pairs(table, chosen.axis, chosen.against, chosen.method, chosen.metric)
    others = [name for name in table.columns if name not in (*COLUMNS, chosen.axis)]
    print("| " + " | ".join([*others, chosen.axis, *BESIDE, chosen.metric, f"less {chosen.against}"]) + " |")
    print("|---" * len(lines[0]) + "|")
    for line in lines:
        print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
