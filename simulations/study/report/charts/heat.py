"""Matrices as shades: parties by classes, distances, teachers on rows of others. The numbers are in the download."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from consilium.simulations.report.charts.svg import Axis, element
from consilium.simulations.study.report.charts.drawing import Drawing, Key, plot

SHADES = 7
_LETTERS = 60
"""Letters that the names of the columns may have together; longer ones are numbered."""


def heat_chart(
    values: np.ndarray, columns: Sequence[str], titles: tuple[str, str], limits: tuple[float, float] | None = None
) -> Drawing:
    """values: float64 (rows, columns), NaN where there is none; the first row stands above.

    columns: names, or () for none. titles: of both axes. limits: of the shades, so that several matrices share them;
    None: the least and the greatest value.
    """
    rows, width = values.shape
    there = np.isfinite(values)
    low, high = limits or ((float(values[there].min()), float(values[there].max())) if there.any() else (0.0, 1.0))
    span = (high - low) or 1.0
    shade = np.zeros(values.shape, dtype=np.int64)
    shade[there] = np.clip((values[there] - low) / span * SHADES, 0, SHADES - 1).astype(np.int64)
    cells = []
    for level in range(SHADES):
        path = "".join(_run(*run, rows, width) for run in _runs(there & (shade == level)))
        if path:
            cells.append(element("path", class_=f"heat{level}", d=path))
    box = element("rect", class_="outline", width=1000, height=1000, vector_effect="non-scaling-stroke")
    drawn = element(
        "svg", *cells, box, width="100%", height="100%", viewBox="0 0 1000 1000", preserveAspectRatio="none"
    )
    short = sum(len(name) for name in columns) <= _LETTERS
    named = [name if short else str(index + 1) for index, name in enumerate(columns)]
    ticks = tuple((index + 0.5, name) for index, name in enumerate(named)) if len(columns) <= 20 else ()
    x = Axis(0.0, float(width), ticks, titles[0])
    y = Axis(0.0, float(rows), (), titles[1])
    keys = [
        Key(f"heat{level}", f"≥ {low + span * level / SHADES:.2g}".replace("-", "−"), "square")
        for level in range(SHADES)
    ]
    return plot(x, y, min(300, max(150, 7 * rows)), [Markup(drawn)], keys)


def _runs(mask: np.ndarray) -> list[tuple[int, int, int]]:
    """Row, first and last column + 1 of cells beside each other."""
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, start = np.nonzero(edges == 1)
    _, end = np.nonzero(edges == -1)
    return list(zip(row.tolist(), start.tolist(), end.tolist(), strict=True))


def _run(row: int, start: int, end: int, rows: int, width: int) -> str:
    x, wide = 1000 * start / width, 1000 * (end - start) / width
    return f"M{x:.4g} {1000 * row / rows:.4g}h{wide:.4g}v{1000 / rows:.4g}h-{wide:.4g}z"
