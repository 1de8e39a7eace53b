"""The student beside its public yardsticks, as an Altair chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from consilium.simulations.council.card import METRICS, shown_models

if TYPE_CHECKING:
    import altair as alt


def quality_chart(summary: Mapping[str, Any]) -> alt.Chart:
    """One bar for each model and metric; nothing that takes private rows is in it."""
    import altair as alt

    values = [
        {"model": name, "metric": METRICS[metric], "value": metrics[metric]}
        for name, metrics in shown_models(summary).items()
        for metric in METRICS
        if isinstance(metrics.get(metric), float)
    ]
    shown = list(dict.fromkeys(str(item["model"]) for item in values))
    return (
        alt.Chart(alt.Data(values=values), title="On the public test rows")
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("model:N", title=None, sort=shown),
            color=alt.condition(alt.datum.model == "student", alt.value("#0f766e"), alt.value("#64748b")),
            row=alt.Row("metric:N", title=None),
            tooltip=["model:N", "metric:N", alt.Tooltip("value:Q", format=".3f")],
        )
    )
