"""Epsilon by query as a chart. Altair is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from consilium.accounting.research.growth import Growth

if TYPE_CHECKING:
    import altair as alt

_DASHES = {"worst case": [1, 0], "published bound (secret)": [6, 3], "exact (secret)": [2, 2]}
"""Colour does not carry the difference alone."""
_COLOURS = ("#1f6391", "#5c6876", "#9c2a4f")


def epsilon_chart(growth: Growth, delta: float, show_secret: bool) -> alt.LayerChart | alt.Chart:
    """Cumulative epsilon by number of queries; without ``show_secret`` the worst case alone."""
    import altair as alt

    lines: list[tuple[str, np.ndarray]] = [("worst case", growth.worst_case)]
    if show_secret and growth.published is not None:
        lines.append(("published bound (secret)", growth.published))
    if show_secret:
        lines.append(("exact (secret)", growth.exact))
    rows = [
        {"queries": int(asked), "epsilon": float(value), "bound": name}
        for name, values in lines
        for asked, value in zip(growth.asked, values, strict=True)
    ]
    names = list(_DASHES)
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(
            x=alt.X("queries:Q", title="queries asked"),
            y=alt.Y("epsilon:Q", title=f"epsilon at delta {delta:g}"),
            color=alt.Color("bound:N", title=None, scale=alt.Scale(domain=names, range=list(_COLOURS))),
            strokeDash=alt.StrokeDash(
                "bound:N", title=None, scale=alt.Scale(domain=names, range=list(_DASHES.values()))
            ),
        )
    )
