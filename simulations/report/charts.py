"""Charts of a run as SVG text: drawn once, no scripts, no network.

Colour never carries a difference alone: shape, dash, position or a written label says the same, for print and for
colour-blind readers. Every chart is one column of `WIDTH` pixels; long series are thinned, so that a report of 10,000
queries is as small as one of 100.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import altair as alt
import numpy as np
import vl_convert

WIDTH = 600
MOST_POINTS = 500
INK, MUTED, GRID = "#1d2733", "#5c6876", "#e3e8ed"
BLUE, SKY, PALE, ORANGE, SECRET = "#1f6391", "#6aa5cf", "#aebcc9", "#c8560b", "#9c2a4f"
FONT = "Arial, Helvetica, sans-serif"
ANSWERED, CONFIRMED, ABSTAINED, NOT_ASKED = "answered", "confirmed", "abstained", "never asked"
SECRET_CURVE = "data-dependent (secret: do not publish)"

# A hundredth of a pixel is enough, and halves the file.
_COORDINATES = re.compile(r'\s(?:d|transform|x2|y2|width|height)="[^"]*"')
_DECIMALS = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")

_CONFIG: dict[str, Any] = {
    # the figure in the template says what the picture shows; a label on each of 500 marks would only repeat numbers
    "aria": False,
    "background": "transparent",
    "font": FONT,
    # where Arial is missing, the browser's own font is up to a fifth wider than what was measured
    "padding": {"left": 28, "right": 12, "top": 4, "bottom": 4},
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "labelFontSize": 12,
        "titleColor": MUTED,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": GRID,
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
    },
    "legend": {
        "labelColor": INK,
        "labelFontSize": 12,
        "labelLimit": 400,
        "symbolSize": 120,
        "title": None,
        "orient": "top",
        "offset": 4,
    },
    "text": {"color": INK, "fontSize": 12},
}


def consensus_chart(consensus: np.ndarray, answered: np.ndarray) -> str:
    """Two panels over the same axis: queries by consensus, answered and abstained; and the share that was answered.

    `consensus` float64 (asked,) in 0..1, `answered` bool (asked,); at least one query.
    """
    low, step = bin_edges(consensus)
    # a whole number of votes over a whole number of parties may fall a rounding error below its edge
    bins = np.minimum(np.floor((consensus - low) / step + 1e-9), round((1 - low) / step) - 1).astype(np.int64)
    totals = np.bincount(bins)
    said_yes = np.bincount(bins, weights=answered, minlength=len(totals)).astype(np.int64)
    bars, shares = [], []
    for index in np.flatnonzero(totals):
        start = round(low + float(index) * step, 6)
        span = {"start": start, "end": round(start + step, 6)}
        bars.append({**span, "outcome": ANSWERED, "count": int(said_yes[index])})
        bars.append({**span, "outcome": ABSTAINED, "count": int(totals[index] - said_yes[index])})
        shares.append({**span, "share": float(said_yes[index] / totals[index])})
    scale = alt.Scale(domain=[low, 1], nice=False)
    plain = alt.X("start:Q", bin="binned", scale=scale, title=None, axis=alt.Axis(labels=False, tickCount=10))
    titled = alt.X(
        "start:Q",
        bin="binned",
        scale=scale,
        title="consensus: share of all votes that the top class got",
        axis=alt.Axis(format=".0%", tickCount=10),
    )
    histogram = (
        alt.Chart(alt.Data(values=bars))
        .mark_bar(binSpacing=1)
        .encode(
            x=plain,
            x2="end:Q",
            y=alt.Y("count:Q", title="queries", axis=alt.Axis(tickMinStep=1, tickCount=5)),
            color=_outcome_colour(),
            order=alt.Order("outcome:N", sort="descending"),  # answered stand on the axis
        )
        .properties(width=WIDTH - 70, height=170)
    )
    share = (
        alt.Chart(alt.Data(values=shares))
        .mark_bar(color=BLUE, binSpacing=1)
        .encode(
            x=titled,
            x2="end:Q",
            y=alt.Y(
                "share:Q",
                scale=alt.Scale(domain=[0, 1]),
                title="share answered",
                axis=alt.Axis(format="%", values=[0, 0.5, 1]),
            ),
        )
        .properties(width=WIDTH - 70, height=80)
    )
    return _svg(alt.vconcat(histogram, share, spacing=14), "consensus")


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


def outcome_chart(answered: int, abstained: int, not_asked: int, confirmed: int = 0) -> str:
    """How many queries were answered, abstained from, or never asked although the caps allowed them.

    `confirmed`: the student's own predictions that interactive rounds reinforced; shown where there are any.
    """
    total = max(answered + confirmed + abstained + not_asked, 1)
    counts = {ANSWERED: answered, CONFIRMED: confirmed, ABSTAINED: abstained, NOT_ASKED: not_asked}
    if not confirmed:
        del counts[CONFIRMED]
    values = [
        {"outcome": name, "count": count, "label": f"{count:,} ({count / total:.0%})"} for name, count in counts.items()
    ]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("outcome:N", sort=list(counts), title=None, axis=alt.Axis(grid=False)),
        x=alt.X(
            "count:Q",
            # the widest label needs a fifth of the width beside the longest bar
            scale=alt.Scale(domain=[0, 1.25 * max(*counts.values(), 1)], nice=False),
            title="queries, and share of the queries that the cap allows",
            axis=alt.Axis(tickMinStep=1, tickCount=6),
        ),
    )
    bars = base.mark_bar(height=24, cornerRadiusEnd=2).encode(color=_outcome_colour(legend=False))
    chart = bars + base.mark_text(align="left", dx=6).encode(text="label:N")
    return _svg(chart.properties(width=WIDTH - 100, height=120), "outcome")


def privacy_chart(
    worst_case: np.ndarray, data_dependent: np.ndarray | None, promised: float, promised_text: str, delta: str
) -> str:
    """Epsilon against queries asked, with the promise as a horizontal line.

    `worst_case`, `data_dependent` float64 (asked,), epsilon after each query; None leaves the secret curve out.
    `promised` may be +inf: then there is no line. `promised_text`, `delta`: as the rest of the report writes them.
    """
    curves = {"worst case": worst_case} | ({} if data_dependent is None else {SECRET_CURVE: data_dependent})
    values, highest = [], promised if np.isfinite(promised) else 0.0
    for name, curve in curves.items():
        for index in thin(len(curve)):
            if np.isfinite(curve[index]):
                values.append({"queries": int(index) + 1, "epsilon": round(float(curve[index]), 5), "curve": name})
                highest = max(highest, float(curve[index]))
    names = list(curves)
    last = max(len(worst_case), 2)
    x = alt.X(
        "queries:Q",
        title="queries asked so far",
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(tickCount=8, tickMinStep=1, format=",d"),
    )
    y = alt.Y(
        "epsilon:Q",
        title=f"epsilon spent so far, at delta {delta}",
        scale=alt.Scale(domain=[0, 1.15 * highest or 1.0], nice=False),
    )
    colour = alt.Color(
        "curve:N",
        scale=alt.Scale(domain=names, range=[SKY, SECRET][: len(names)]),
        legend=alt.Legend(symbolType="stroke", symbolSize=500),
    )
    dash = alt.StrokeDash("curve:N", scale=alt.Scale(domain=names, range=[[1, 0], [7, 4]][: len(names)]))
    # where both coincide, the thin dashes lie on the wide pale line and both are seen
    wide = alt.StrokeWidth("curve:N", scale=alt.Scale(type="ordinal", domain=names, range=[5, 2][: len(names)]))
    marks: list[alt.Chart] = [
        alt.Chart(alt.Data(values=values)).mark_line().encode(x=x, y=y, color=colour, strokeDash=dash, strokeWidth=wide)
    ]
    if np.isfinite(promised):
        line = alt.Chart(alt.Data(values=[{"epsilon": promised, "queries": 0}]))
        label = f"promised before the run: at most {promised_text}"
        marks += [
            line.mark_rule(color=INK, strokeWidth=1.5).encode(y=y),
            line.mark_text(align="left", baseline="bottom", dx=4, dy=-4, text=label).encode(x=x, y=y),
        ]
    return _svg(alt.layer(*marks).properties(width=WIDTH - 70, height=240), "privacy")


def thin(length: int) -> np.ndarray:
    """Indices int64 of at most `MOST_POINTS` points of a series, first and last among them.

    >>> thin(3), len(thin(10_000)), thin(10_000)[-1]
    (array([0, 1, 2]), 500, np.int64(9999))
    """
    return np.unique(np.linspace(0, length - 1, min(length, MOST_POINTS)).round().astype(np.int64))


def models_chart(models: list[tuple[str, dict[str, Any]]], student: str) -> str:
    """Accuracy and AUC of each model, student highlighted; a panel without any value is left out.

    `models`: labels and metrics, top to bottom. `student`: the label of the one that was learnt from released labels.
    """
    labels = [label for label, _ in models]
    panels = []
    for metric, title in (("accuracy", "accuracy on public test cases"), ("auc", "AUC on public test cases")):
        values = [
            {"model": label, "value": metrics[metric], "text": f"{metrics[metric]:.3f}"}
            for label, metrics in models
            if metrics.get(metric) is not None
        ]
        if values:
            panels.append((values, title))
    drawn = [
        _models_panel(values, title, labels, student, first=index == 0) for index, (values, title) in enumerate(panels)
    ]
    return _svg(alt.hconcat(*drawn, spacing=18), "models")


def _models_panel(
    values: list[dict[str, Any]], title: str, labels: list[str], student: str, first: bool
) -> alt.LayerChart | alt.FacetChart:
    numbers = [item["value"] for item in values]
    low, high = min(numbers), max(numbers)
    room = max(high - low, 0.05)
    is_student = alt.datum.model == student
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X(
            "value:Q",
            title=title,
            # the written value stands right of its dot
            scale=alt.Scale(domain=[low - 0.1 * room, high + 0.3 * room], zero=False, nice=False),
            axis=alt.Axis(values=_ticks(low - 0.1 * room, min(high + 0.3 * room, 1.0)), format=".2f"),
        ),
        y=alt.Y(
            "model:N",
            sort=labels,
            scale=alt.Scale(domain=labels),
            title=None,
            axis=alt.Axis(
                labels=first,
                labelLimit=240,
                labelFontWeight={  # pyright: ignore
                    "condition": {"test": f"datum.value === {student!r}", "value": "bold"},
                    "value": "normal",
                },
            ),
        ),
    )
    dots = base.mark_point(filled=True, opacity=1).encode(
        color=alt.condition(is_student, alt.value(ORANGE), alt.value(BLUE)),
        shape=alt.condition(is_student, alt.value("diamond"), alt.value("circle")),
        size=alt.condition(is_student, alt.value(230), alt.value(90)),
    )
    named = base.encode(text="text:N")
    written = [
        named.transform_filter(is_student).mark_text(align="left", dx=11, fontWeight="bold"),
        named.transform_filter(alt.datum.model != student).mark_text(align="left", dx=11),
    ]
    return alt.layer(dots, *written).properties(width=(WIDTH - 160) // 2, height=34 * len(labels))


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, both from 0 to 1: about five, and none that an accuracy cannot have."""
    step = next((step for step in (0.01, 0.02, 0.05, 0.1) if (high - low) / step <= 5), 0.2)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [round(index * step, 2) for index in range(first, last + 1)]


def parties_chart(
    rows: list[int], quality: list[float], metric: Literal["AUC", "accuracy"], student: float | None, label: str
) -> str:
    """Each party's rows and its teachers' mean quality, one point each, with the student's as a line.

    `label`: the word for one party, for the axis.
    """
    values = [{"rows": size, "quality": round(value, 4)} for size, value in zip(rows, quality, strict=True)]
    x = alt.X(
        "rows:Q",
        scale=alt.Scale(type="log", nice=False, domain=[0.9 * min(rows), 1.1 * max(rows) + 1]),
        title=f"rows of the {label} (log scale)",
        axis=alt.Axis(values=_log_ticks(min(rows), max(rows)), format=",d"),
    )
    y = alt.Y("quality:Q", title=f"its teachers’ {metric}", scale=alt.Scale(zero=False), axis=alt.Axis(format=".2f"))
    points = alt.Chart(alt.Data(values=values)).mark_circle(color=BLUE, opacity=0.55, size=46).encode(x=x, y=y)
    marks: list[alt.Chart] = [points]
    if student is not None:
        line = alt.Chart(alt.Data(values=[{"quality": student}]))
        text = ["student", f"{student:.3f}"]
        marks += [
            line.mark_rule(color=ORANGE, strokeWidth=2).encode(y=y),
            # right of the panel, where no point can lie under it
            line.mark_text(align="left", dx=6, dy=-7, color=ORANGE, fontWeight="bold", text=text).encode(
                x=alt.value("width"), y=y
            ),
        ]
    return _svg(alt.layer(*marks).properties(width=WIDTH - 120, height=240), "parties")


def _log_ticks(low: int, high: int) -> list[int]:
    """1, 2 and 5 times powers of ten around `low` to `high`."""
    return [lead * 10**power for power in range(8) for lead in (1, 2, 5) if 0.9 * low <= lead * 10**power <= 1.1 * high]


def _outcome_colour(legend: bool = True) -> alt.Color:
    if legend:
        return alt.Color("outcome:N", scale=alt.Scale(domain=[ANSWERED, ABSTAINED], range=[BLUE, PALE]))
    scale = alt.Scale(domain=[ANSWERED, CONFIRMED, ABSTAINED, NOT_ASKED], range=[BLUE, SKY, PALE, GRID])
    return alt.Color("outcome:N", scale=scale, legend=None)


def _svg(chart: alt.TopLevelMixin, name: str) -> str:
    """The chart as an `<svg>` element for use inside a page: own ids, no namespace declarations."""
    svg = vl_convert.vegalite_to_svg(chart.configure(**_CONFIG).to_dict())
    svg = _COORDINATES.sub(lambda match: _DECIMALS.sub(lambda number: f"{float(number[0]):.2f}", match[0]), svg)
    svg = re.sub(r'\sxmlns(?::\w+)?="[^"]*"', "", svg, count=2)
    # vl-convert numbers ids through the life of the process; a page has one name space, and the same run the same page
    for number, found in enumerate(dict.fromkeys(re.findall(r'\bid="([^"]*)"', svg))):
        svg = re.sub(rf'(\bid="|url\(#){re.escape(found)}(?=["\)])', rf"\g<1>{name}-{number}", svg)
    return svg
