"""Pictures that anybody may reuse: `python -m docs.pictures` writes them, and the page that shows each with its code.

Those of measurements are drawn from the tables of docs/figures, so that a picture changes when its figure is measured
anew; a test holds each file to what is drawn here.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from textwrap import indent

import numpy as np
from scipy.stats import norm

from consilium import accounting
from consilium.accounting.curves.subsampled import subsampled_epsilon
from consilium.accounting.units import Neighbouring
from consilium.accounting.vote_files import typical_votes
from consilium.report.charts import (
    SHARES,
    Axis,
    Drawing,
    Series,
    ValueRow,
    heat_chart,
    lines_chart,
    rows_axis,
    rows_chart,
    svg_file,
)
from docs.figures import read_all
from docs.marked import DOCS

GALLERY = DOCS / "gallery"
COLOURS = ("blue", "orange", "ink dashed")


def headline() -> Drawing:
    """What a council of hospitals has, between one alone and all rows in one place. AUC at other hospitals, mean and
    standard deviation over ten seeds; dead or dependent after a stroke, epsilon .8."""
    tables = read_all()
    scenario, runs = tables["results/default-scenario"], tables["results/default-runs"]
    cells = {
        "one hospital alone": scenario.cell("as shipped", "mean teacher"),
        "council: the student": scenario.cell("as shipped", "student"),
        "noisy average of weights": runs.cell("all", "noisy average of weights"),
        "private gradient descent": runs.cell("all", "private gradient descent"),
        "300 labels by hand": runs.cell("all", "as many labels by hand"),
        "all rows in one place": scenario.cell("as shipped", "pooled"),
    }
    rows = [_row(label, cell, marked=label.startswith("council")) for label, cell in cells.items()]
    return rows_chart("AUC, mean and standard deviation over ten seeds", rows)


def rivals() -> Drawing:
    """Methods of one guarantee (epsilon 1 for a whole owner) beside those of none. Mean AUC on eleven divisions that
    nature made, of 40 owners or more."""
    tables, line = read_all(), "40 parties or more, mean"
    private, free = tables["results/natural-divisions"], tables["results/natural-divisions-open"]
    names = ("PATE", "distilled", "average of weights", "FedAvg", "gradient descent")
    cells = {"one party alone, no guarantee": free.cell(line, "local")}
    cells |= {f"{name}, private": private.cell(line, name) for name in names}
    cells |= {"all rows in one place, no guarantee": free.cell(line, "pooled")}
    rows = [ValueRow(name, _mean(cell), None, cell, marked="private" in name) for name, cell in cells.items()]
    return rows_chart("mean AUC", rows)


def divisions() -> Drawing:
    """Twenty divisions: the council's student at epsilon 1 (diamonds, 95 % intervals) and one party alone (rings)."""
    tables = read_all()
    private, free = tables["results/natural-divisions"], tables["results/natural-divisions-open"]
    names = [row[0] for row in private.rows if "mean" not in row[0]]
    rows = [_row(name, private.cell(name, "PATE"), True, free.cell(name, "local")) for name in names]
    return rows_chart("AUC; the ring is one party alone", rows, rows_axis(rows, shares=True))


def guess() -> Drawing:
    """What epsilon means. Somebody knows all but which of two versions of a hospital's data was used: how often can any
    guess be right?"""
    epsilon = np.linspace(0, 6, 61)
    right = 100 * np.exp(epsilon) / (1 + np.exp(epsilon))
    rule = Axis(50, 100, tuple((share, f"{share}") for share in range(50, 101, 10)), "guesses right in 100, at most")
    return lines_chart([Series("", "blue", epsilon.tolist(), right.tolist())], ("epsilon", ""), y=rule)


def trade_off() -> Drawing:
    """Who looks for one hospital in noisy counts: missed at least so often for so many false alarms. Gaussian noise,
    300 counts, at three promises (delta 1e-5)."""
    alarms, series = np.linspace(0, 1, 101), []
    for colour, target in zip(COLOURS, (0.5, 1.0, 3.0), strict=True):
        missed = norm.cdf(norm.isf(alarms) - math.sqrt(300 * 2) / _sigma(target, 300))
        series.append(Series(f"epsilon {target:g}", colour, alarms.tolist(), missed.tolist()))
    titles = ("false alarms", "missed")
    return lines_chart(series, titles, x=Axis(0, 1, SHARES.ticks, titles[0]), y=Axis(0, 1, SHARES.ticks, titles[1]))


def flips() -> Drawing:
    """How often noise leaves the plurality on top: two classes, by the lead in votes."""
    lead = np.arange(0, 161, 2)
    series = [
        Series(f"sigma {sigma}", colour, lead.tolist(), norm.cdf(lead / (sigma * math.sqrt(2))).tolist())
        for colour, sigma in zip(COLOURS, (20, 40, 80), strict=True)
    ]
    up = Axis(0.5, 1, SHARES.ticks[3:], "the plurality wins")
    return lines_chart(series, ("lead in votes", ""), y=up)


def charge() -> Drawing:
    """Charged for the label that leaves, or for the noisy histogram behind it, as the papers do. Sigma 40, delta
    1e-5."""
    labels = [1, 3, 10, 30, 100, 200, 300, 500, 700, 1000]
    found = [accounting.epsilon(np.tile([9, 1], (count, 1)), "GNMax(sigma=40)") for count in labels]
    series = [
        Series("the label", "blue", labels, [one.worst_case for one in found]),
        Series("the histogram", "orange", labels, [one.worst_case_as_histogram for one in found]),
    ]
    return lines_chart(series, ("labels", "epsilon"))


def least_noise() -> Drawing:
    """The noise that a promise takes, by the number of counts that are released (delta 1e-5, one vote of a party)."""
    counts, series = [10, 30, 100, 300, 1000], []
    for colour, target in zip(COLOURS, (0.5, 1.0, 3.0), strict=True):
        sigmas = [_sigma(target, count) for count in counts]
        series.append(Series(f"epsilon {target:g}", colour, counts, sigmas))
    return lines_chart(series, ("noisy histograms", "sigma, in votes"))


def at_hand() -> Drawing:
    """One promise and what came of it: the worst case may be published; what depends on the votes is secret. Votes of
    250 teachers that were made up, most of them nearly unanimous."""
    votes = np.random.default_rng(0).permutation(np.resize(typical_votes(250, 10), (200, 10)))
    grown = accounting.epsilon(votes, "GNMax(sigma=40)", noise="continuous").growth()
    curves = {"worst case": grown.worst_case, "exact at these votes": grown.exact}
    curves |= {} if grown.published is None else {"the papers' bound at these votes": grown.published}
    series = [
        Series(name, colour, grown.asked.tolist(), curve.tolist())
        for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False)
    ]
    return lines_chart(series, ("labels", "epsilon"))


def samples() -> Drawing:
    """To ask only a share of the parties does not pay: 300 counts of equal signal, the sample secret or public."""
    shares, sigma, promise = [0.1, 0.2, 0.3, 0.5, 0.7, 1.0], 112.1 / math.sqrt(2), (Neighbouring.ADD_OR_REMOVE, 1e-5)
    secret = [subsampled_epsilon(share, share * sigma, 300, *promise) for share in shares]
    public = [subsampled_epsilon(1.0, share * sigma, round(300 * share), *promise) for share in shares]
    series = [Series("a secret sample", "blue", shares, secret), Series("a public sample", "orange", shares, public)]
    return lines_chart(series, ("share of the parties that is asked", "epsilon"))


def skew() -> Drawing:
    """Forty parties whose classes were divided by Dirichlet .3: the share of each class at each party."""
    drawn = np.random.default_rng(1).dirichlet([0.3] * 10, size=40)
    return heat_chart(drawn[np.lexsort(drawn.T)].T, (), ("party", "class"), (0.0, 1.0))


def _sigma(epsilon: float, counts: int) -> float:
    found = accounting.calibrate("Histogram(sigma=1)", epsilon, 1e-5, asked=counts, noise="continuous")
    return found.value("sigma") or math.nan


def _mean(cell: str) -> float:
    return float(re.findall(r"[\d.]+", cell)[0])


def _row(label: str, cell: str, marked: bool, other: str = "") -> ValueRow:
    mean, deviation = (float(number) for number in re.findall(r"[\d.]+", cell)[:2])
    beside = _mean(other) if other else None
    return ValueRow(label, mean, (mean - deviation, mean + deviation), cell, marked=marked, other=beside)


PICTURES: Mapping[str, tuple[str, Callable[[], Drawing]]] = {
    "headline": ("A council of hospitals", headline),
    "rivals": ("Who wins at one guarantee", rivals),
    "divisions": ("Twenty divisions that nature made", divisions),
    "guess": ("What epsilon means", guess),
    "trade-off": ("False alarms against misses", trade_off),
    "flips": ("Noise and the plurality", flips),
    "charge": ("Charge what leaves", charge),
    "least-noise": ("The noise that a promise takes", least_noise),
    "at-hand": ("The promise, and what came of it", at_hand),
    "samples": ("Samples of parties do not pay", samples),
    "skew": ("A division by Dirichlet", skew),
}
"""By file in docs/gallery, with its title."""


def svg(name: str) -> str:
    """The file of a picture."""
    title, draw = PICTURES[name]
    return svg_file(title, [("", draw())])


def page() -> str:
    """docs/gallery.md."""
    parts = [_HEAD]
    for name, (title, draw) in PICTURES.items():
        caption = " ".join((inspect.getdoc(draw) or "").split())
        code = "\n".join(("```python", inspect.getsource(draw).rstrip(), "```"))
        parts += [
            f"## {title}",
            f"![{title}](gallery/{name}.svg)",
            caption,
            f'??? note "Code"\n\n{indent(code, "    ")}',
        ]
    return "\n\n".join(parts) + "\n"


_HEAD = """# Pictures to reuse

Each is an SVG file in `docs/gallery`, under the licence of the code. `python -m docs.pictures` draws them anew.
Those of measurements follow the tables of `docs/figures`. Imports stand in `docs/pictures.py`."""


def main() -> None:
    """Write them all."""
    GALLERY.mkdir(exist_ok=True)
    for name in PICTURES:
        (GALLERY / f"{name}.svg").write_text(svg(name), encoding="utf-8")
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
