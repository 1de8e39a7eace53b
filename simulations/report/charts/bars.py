"""Bars: what became of the queries, seconds by stage, and how far the parties agreed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from consilium.simulations.report.charts.svg import Axis, element, panel, percent, round_ticks, swatch

ANSWERED, CONFIRMED, ABSTAINED, NOT_ASKED = "answered", "confirmed", "abstained", "never asked"
_FILLS = {ANSWERED: "fill blue", CONFIRMED: "fill sky", ABSTAINED: "fill grey", NOT_ASKED: "hollow"}


def outcome_chart(answered: int, abstained: int, not_asked: int, confirmed: int = 0) -> Markup:
    """How many queries were answered, abstained from, or never asked although the caps allowed them.

    `confirmed`: the student's own predictions that interactive rounds reinforced; shown where there are any.
    """
    total = max(answered + confirmed + abstained + not_asked, 1)
    counts = {ANSWERED: answered, CONFIRMED: confirmed, ABSTAINED: abstained, NOT_ASKED: not_asked}
    if not confirmed:
        del counts[CONFIRMED]
    return bars_chart(
        {name: (count, f"{count:,} ({count / total:.0%})") for name, count in counts.items()},
        {name: _FILLS[name] for name in counts},
    )


def bars_chart(values: Mapping[str, tuple[float, str]], fills: Mapping[str, str] | None = None) -> Markup:
    """One bar for each name, as long as its value (at least 0), with its text behind it."""
    most = max((value for value, _ in values.values()), default=0) or 1
    rows = []
    for name, (value, text) in values.items():
        width = percent(value / most)
        bar = element("rect", class_=f"mark {(fills or {}).get(name, 'fill blue')}", width=width, height=16, y=4, rx=2)
        rows.append(
            element(
                "div",
                element("span", name, class_="name"),
                element("svg", bar, class_="track", width="100%", height=24),
                element("span", text, class_="number"),
                class_="dot",
            )
        )
    return element("div", *rows, class_="dots bars")


def consensus_chart(consensus: np.ndarray, answered: np.ndarray) -> Markup:
    """Queries by consensus, those answered below those that were not; the share answered is written out for each bar.

    `consensus` float64 (asked,) in 0..1, `answered` bool (asked,); at least one query.
    """
    low, step = bin_edges(consensus)
    count = round((1 - low) / step)
    # a whole number of votes over a whole number of parties may fall a rounding error below its edge
    bins = np.minimum(np.floor((consensus - low) / step + 1e-9), count - 1).astype(np.int64)
    totals = np.bincount(bins, minlength=count)
    yes = np.bincount(bins, weights=answered, minlength=count).astype(np.int64)
    top = int(totals.max())
    whole = "{:,.0f}".format
    y = Axis(0, 1.02 * top, tuple(tick for tick in round_ticks(0, top, 5, whole) if tick[0] == int(tick[0])), "queries")
    share = f".{1 if step < 0.01 else 0}%"
    ticks = tuple((value, format(value, share)) for value, _ in round_ticks(low, 1.0, 6, str))
    x = Axis(low, 1.0, ticks, "share of the votes for the top class")
    marks = []
    for index in np.flatnonzero(totals):
        left, width = percent(index / count), percent(0.94 / count)
        for start, end, fill in ((0, yes[index], ANSWERED), (yes[index], totals[index], ABSTAINED)):
            if end > start:
                marks.append(
                    element(
                        "rect",
                        class_=f"mark {_FILLS[fill]}",
                        x=left,
                        width=width,
                        y=percent(1 - y.at(float(end))),
                        height=percent(y.at(float(end)) - y.at(float(start))),
                    )
                )
    return panel(x, y, 190, marks, [swatch(_FILLS[name], name) for name in (ANSWERED, ABSTAINED)])


def bin_edges(consensus: np.ndarray) -> tuple[float, float]:
    """Left edge and width of about twenty bins up to 1.

    >>> bin_edges(np.array([0.52, 0.9]))
    (0.5, 0.025)
    >>> bin_edges(np.array([0.13, 0.9]))
    (0.1, 0.05)
    >>> bin_edges(np.array([1.0, 1.0]))
    (0.9, 0.005)
    """
    least = float(consensus.min())
    if least >= 0.9:
        return 0.9, 0.005
    step = 0.025 if least >= 0.5 else 0.05
    return min(round(float(np.floor(least / step + 1e-9)) * step, 6), round(1 - step, 6)), step
