"""One study's tables: cells of means and differences from its folder, written as figures of the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from consilium.simulations.study.summaries.inference import LEVEL
from consilium.simulations.study.summaries.questions import Family, MeanContrast, holm, paired, questions
from consilium.simulations.study.summaries.tidy import title
from consilium.simulations.study.summaries.view import Point, StudyView
from docs.figures import Table, figure

_HELD_OUT = "test rows are half of the rows of held-out hospitals; above the table of what was tuned on which rows"
SPLIT = {
    "heart": "test rows are half of the public patients; no method learnt from them, and nothing was chosen on them",
    "hospitals": _HELD_OUT,
    "naturals": "test rows are half of the rows of held-out owners; after a first run query budgets were lowered to the"
    " different public rows, and nothing else was chosen on these sets",
    "skew": "test rows are people of the census's own test part; above the table of what was tuned on which rows",
    "writers": "test rows are images of people who are no party; above the table of what was tuned on which rows",
    "papers": _HELD_OUT.replace("above", "docs/laboratory/results.md has"),
    "stroke_skew": _HELD_OUT,
    "teachers": "students ask among 9,000 of MNIST's own test images, and 1,000 others judge; nothing was chosen",
}
MEANS = "Mean over seeds ± half of its 95 % interval, over seeds and {unit} together"
DIFFERENCES = (
    "Mean difference at the same seed, with its 95 % interval over seeds and {unit} together; *: p below .05, corrected"
    " (Holm) within its family"
)


@dataclass(frozen=True)
class StudyTables:
    """One study's folder, for tables. command: that made it."""

    name: str
    view: StudyView
    command: str
    seconds: float

    def figure(self, name: str, columns: Sequence[str], fill: Callable[[Table], None], note: str) -> None:
        """Write one table; note: with {unit} for what test rows are drawn as."""
        command = f"{self.command}; python -m benchmarks.study_tables runs/study-{self.name}"
        split, seeds = SPLIT[self.name], self.view.seeds
        with figure(
            name, command, columns, split=split, seeds=seeds, note=note.format(unit=self.unit), quick=False
        ) as made:
            fill(made)
            made.seconds = self.seconds

    @property
    def unit(self) -> str:
        """What might have been others: test rows, by what these came from where it is more than rows."""
        table = paired(
            self.view.frame, self.view.metric or "", self.view.reference or "", row_scores=self.view.row_scores
        )
        units = sorted({unit for unit in table["unit"].to_list() if unit})
        return "test rows" if units in ([], ["row"]) else f"test rows (by {', '.join(units)})"

    def mean(self, at: Point, method: str, metric: str = "") -> str:
        """`.766 ± .021`; a dash where some seeds have none, as of fewer labels by hand than there are rows."""
        row = self.view.means.get((at, method, metric or self.view.metric or ""))
        if row is None or row["seeds"] < len(self.view.seeds):
            return "–"
        return digits(row["mean"]) + ("" if row["low"] is None else f" ± {digits((row['high'] - row['low']) / 2)}")

    def plain(self, at: Point, method: str, metric: str, places: int = 3) -> str:
        """Without an interval."""
        found = self.view.mean(at, method, metric)
        return "–" if found is None else digits(found, places)

    def methods(self, name: str, labels: Mapping[str, str], points: Mapping[Point, str]) -> None:
        """Methods down, points across."""

        def fill(table: Table) -> None:
            for method, label in labels.items():
                table.add(label, *(self.mean(at, method) for at in points))

        self.figure(name, ["", *points.values()], fill, MEANS)

    def rivals(self, name: str, points: Mapping[Point, str]) -> None:
        """Methods of the same guarantee less the reference: methods down, points across; what is no test is a dash."""
        asked = [question for question in questions(self.view) if question.kind == "methods" and question.tested]
        found = {(each.method, each.point): each for question in asked for each in question.tested}
        rows = [method for method in self.view.methods if any(method == of for of, _ in found)]
        lines = [(f"{title(method)} less {title(asked[0].method)}", method) for method in rows] if asked else []
        cells = {method: [found.get((method, at)) for at in points] for method in rows}
        self._contrasts(name, ["", *points.values()], [(line, cells[method]) for line, method in lines], asked)

    def divisions(self, name: str, axis: str, points: Mapping[str, str]) -> None:
        """Each method at other points of the axis in place of the natural one: methods down, points across."""
        asked = [question for question in questions(self.view) if (question.kind, question.axis) == ("divisions", axis)]
        place = self.view.axes.index(axis)
        lines = []
        for question in asked:
            found = {each.point[place]: each for each in question.tested}
            lines.append((title(question.method), [found.get(point) for point in points]))
        heads = [f"{label} in place of {asked[0].against}" for label in points.values()] if asked else []
        self._contrasts(name, ["", *heads], lines, asked)

    def ends(self, name: str, axis: str) -> None:
        """Methods at the last point of a numeric axis in place of the first: the other axes down, methods across."""
        asked = [question for question in questions(self.view) if (question.kind, question.axis) == ("ends", axis)]
        place = self.view.axes.index(axis)
        by_point: dict[Point, list[MeanContrast | None]] = {}
        for number, question in enumerate(asked):
            for each in question.tested:
                rest = (*each.point[:place], *each.point[place + 1 :])
                by_point.setdefault(rest, [None] * len(asked))[number] = each
        order = [self.view.order[other] for other in self.view.axes if other != axis]
        by_place = sorted(
            by_point, key=lambda rest: [each.index(value) for each, value in zip(order, rest, strict=True)]
        )
        lines = [(", ".join(rest), by_point[rest]) for rest in by_place]
        first, last = self.view.order[axis][0], self.view.order[axis][-1]
        others = ", ".join(other for other in self.view.axes if other != axis)
        heads = [others, *(f"{title(question.method)}, {axis} {last} in place of {first}" for question in asked)]
        self._contrasts(name, heads, lines, asked)

    def _contrasts(
        self,
        name: str,
        columns: Sequence[str],
        lines: Sequence[tuple[str, Sequence[MeanContrast | None]]],
        families: Sequence[Family],
    ) -> None:
        def fill(table: Table) -> None:
            for label, found in lines:
                table.add(label, *(None if each is None else difference(each) for each in found))

        self.figure(name, columns, fill, f"{DIFFERENCES}: {'; '.join(question.family for question in families)}")


def digits(value: float, places: int = 3) -> str:
    """
    >>> digits(0.7664), digits(-0.05), digits(1.5, 2), digits(-0.0001)
    ('.766', '−.050', '1.50', '.000')
    """
    text = f"{abs(value):.{places}f}"
    sign = "−" if value < 0 and float(text) else ""
    return sign + text.removeprefix("0" if places and float(text) < 1 else "")


def signed(value: float, places: int = 3) -> str:
    """
    >>> signed(0.012), signed(-0.012), signed(0.0), signed(7.56, 1)
    ('+.012', '−.012', '.000', '+7.6')
    """
    return ("+" if float(f"{value:.{places}f}") > 0 else "") + digits(value, places)


def difference(each: MeanContrast) -> str:
    """`+.011 (+.004 to +.019)*`."""
    ends = "" if each.low is None or each.high is None else f" ({signed(each.low)} to {signed(each.high)})"
    return f"{signed(each.difference)}{ends}{'*' if each.significant else ''}"


def corrected(rows: pl.DataFrame, by: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Differences of `paired` as one family, by what they have in `by`."""
    found = {}
    for row, p in zip(rows.to_dicts(), holm(rows["p"].to_list()), strict=True):
        star = "*" if p is not None and p < 1 - LEVEL else ""
        ends = f"{signed(row['low'])} to {signed(row['high'])}"
        found[tuple(row[name] for name in by)] = f"{signed(row['difference'])} ({ends}){star}"
    return found
