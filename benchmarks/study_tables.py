"""The tables of docs/results.md and docs/papers.md that stand on studies, from the folders of their results.

    consilium study hospitals
    python -m benchmarks.study_tables runs/study-hospitals

Which tables, the study's name says. Means over seeds ± half of the 95 % interval over seeds and test rows together;
differences with their interval, and a star where p, corrected for the comparisons of the question (Holm), is below .05.
Only what guarantees the same is tested (`summaries.questions`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from consilium.simulations.study.report.folder import open_folder
from consilium.simulations.study.report.told import read_told
from consilium.simulations.study.summaries.differences import paired
from consilium.simulations.study.summaries.questions import Family, MeanContrast, questions
from consilium.simulations.study.summaries.tidy import title
from consilium.simulations.study.summaries.view import Point, StudyView, study_view
from docs.figures import Table, figure

_HELD_OUT = "test rows are half of the rows of held-out hospitals; above the table of what was tuned on which rows"
SPLIT = {
    "heart": "test rows are half of the public patients; no method learnt from them, and nothing was chosen on them",
    "hospitals": _HELD_OUT,
    "naturals": "test rows are half of the rows of held-out owners; nothing was chosen on any of these sets",
    "skew": "test rows are people of the census's own test part; what was tuned on Adult had no look at them",
    "writers": "test rows are images of people who are no party; above the table of what was tuned on which rows",
    "papers": _HELD_OUT.replace("above", "docs/results.md has"),
    "stroke_skew": _HELD_OUT,
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
        found = {(each.method, each.at): each for question in asked for each in question.tested}
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
            found = {each.at[place]: each for each in question.tested}
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
                rest = (*each.at[:place], *each.at[place + 1 :])
                by_point.setdefault(rest, [None] * len(asked))[number] = each
        lines = [(", ".join(rest), found) for rest, found in by_point.items()]
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


METHODS = {
    "local": "local only",
    "plurality": "clear plurality",
    "pate": "**PATE{}**",
    "noisy_average": "**noisy average{}**",
    "fedavg epsilon=1.0": "**FedAvg{}**",
    "fedavg, private": "**FedAvg, private**",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "pooled": "pooled",
    "pooled kind=boosted": "pooled, boosted",
    "50 labels by hand": "50 labels by hand",
    "100 labels by hand": "100 labels by hand",
    "300 labels by hand": "300 labels by hand",
}


def labels(view: StudyView, terms: str) -> dict[str, str]:
    """Of the methods that a study has. terms: of the guarantee."""
    return {method: label.format(terms) for method, label in METHODS.items() if method in view.methods}


def hospitals(study: StudyTables) -> None:
    """Methods, divisions, what a division changes."""
    points = {(point,): point for point in ("natural", "shuffled", "matched", "iid", "skewed", "country")}
    study.methods("results/hospitals", labels(study.view, ", epsilon 1"), points)
    study.divisions("results/hospitals-divisions", "division", {at[0]: at[0] for at in list(points)[1:]})
    study.rivals("results/hospitals-methods", points)
    told = {
        "natural": "natural",
        "shuffled": "shuffled: the same sizes by lot",
        "matched": "matched: the same distance of labels",
        "iid": "iid: equal sizes",
        "skewed": "skewed: Dirichlet, alpha .1",
        "country": "country",
    }
    columns = ["parties", "Hellinger distance of labels (by chance alone)", "MMD² of features"]
    columns += ["classifier that tells one party from the rest, AUC", "kappa of teachers", "lead of the winner, votes"]

    def fill(table: Table) -> None:
        for point, label in told.items():
            at = (point,)
            table.add(label, f"{study.view.mean(at, 'division', 'parties'):.0f}", *measured(study, at), lead(study, at))

    study.figure("results/hospitals-2", ["division", *columns], fill, "Means over seeds")


def measured(study: StudyTables, at: Point) -> list[str]:
    """Distances of a division, and kappa."""
    chance = study.plain(at, "division", "hellinger_mean_floor")
    return [
        f"{study.plain(at, 'division', 'hellinger_mean')} ({chance})",
        study.plain(at, "division", "mmd2_mean"),
        study.plain(at, "division", "c2st_auc_mean"),
        study.plain(at, "teachers", "kappa"),
    ]


def lead(study: StudyTables, at: Point) -> str:
    """Votes by which the winner leads, in the mean."""
    return study.plain(at, "teachers", "gap_mean", 0)


def heart(study: StudyTables) -> None:
    """Methods at each promise; PATE against methods of the same guarantee."""
    points = {at: at[0] for at in study.view.points}
    study.methods("results/four-hospitals", labels(study.view, ""), points)
    study.rivals("results/four-hospitals-methods", points)


def writers(study: StudyTables) -> None:
    """Methods and divisions."""
    points = {(point,): point for point in ("natural", "iid", "matched")}
    study.methods("results/writers", labels(study.view, ", epsilon 1"), points)
    study.divisions("results/writers-divisions", "division", {"iid": "iid", "matched": "matched"})
    columns = ["Hellinger distance of labels (by chance alone)", "MMD² of features", "classifier, AUC"]
    columns += ["kappa of teachers", "teachers of others on a writer's images, less the writer's own"]

    def fill(table: Table) -> None:
        for at, point in points.items():
            table.add(point, *measured(study, at), study.plain(at, "teachers", "cross_site_accuracy_shift"))

    study.figure("results/writers-2", ["division", *columns], fill, "Means over seeds")


def stroke_skew(study: StudyTables) -> None:
    """Methods and divisions."""
    points = {at: at[0] for at in study.view.points}
    study.methods("results/known-from-scripts-confirmed-or-refuted", labels(study.view, ", epsilon .99"), points)
    study.divisions("results/skewed-hospitals-divisions", "division", {at[0]: at[0] for at in list(points)[1:]})


def naturals(study: StudyTables) -> None:
    """A line for each division; and PATE less its rivals of the same guarantee."""
    view, private = study.view, "fedavg, private"
    low, high = view.order["epsilon"]
    parties = {name: view.mean((low, name), "division", "parties") or 0.0 for name in view.order["division"]}
    by_size = sorted(parties, key=lambda name: -parties[name])
    columns = ["division", "parties", "kappa", "pooled", "clear plurality", "100 labels by hand", "PATE, 1", "PATE, 3"]
    columns += ["noisy average, 1", "3", "FedAvg, 1", "3", "FedAvg, not private", "PATE worth, 1 / 3"]

    def fill(table: Table) -> None:
        for name in by_size:
            one, three = (low, name), (high, name)
            plain = [study.mean(one, method) for method in ("pooled", "plurality", "100 labels by hand")]
            noisy = [study.mean(at, method) for method in ("pate", "noisy_average", private) for at in (one, three)]
            worth = " / ".join(hand_labels(view, at) for at in (one, three))
            kappa = study.plain(one, "teachers", "kappa")
            table.add(name, f"{parties[name]:,.0f}", kappa, *plain, *noisy, study.mean(one, "fedavg"), worth)

    note = MEANS + ". Worth: labels by hand, median of the seeds"
    study.figure("results/a-dozen-natural-divisions", columns, fill, note)
    against = {(each.at, each.method): each for question in questions(view) for each in question.tested}
    rivals = {"noisy_average": "noisy average", private: "private FedAvg"}

    def fill_contrasts(table: Table) -> None:
        for name in by_size:
            cells = [against.get(((epsilon, name), rival)) for rival in rivals for epsilon in (low, high)]
            table.add(name, *("–" if each is None else difference(each) for each in cells))

    heads = [f"{label} less PATE, epsilon {epsilon[:1]}" for label in rivals.values() for epsilon in (low, high)]
    families = [question.family for question in questions(view) if question.kind == "methods"]
    note = f"{DIFFERENCES}: {'; '.join(families)}"
    study.figure("results/natural-divisions-methods", ["division", *heads], fill_contrasts, note)


def hand_labels(view: StudyView, at: Point) -> str:
    """Median over seeds of what PATE is worth; those above the most that was tried count as that."""
    rows = view.at(view.frame, at).filter(
        (pl.col("method") == "pate") & pl.col("metric").is_in(["hand_labels", "hand_labels_above"])
    )
    return f"{np.median(rows['value'].to_numpy()):,.0f}" if rows.height else "–"


def skew(study: StudyTables) -> None:
    """A line for each number of parties and alpha; what the ends of alpha change."""
    view = study.view
    columns = ["parties", "alpha", "local only", "clear plurality", "PATE, labels (GNMax)", "PATE, histograms"]
    columns += ["the same, relative ballots", "noisy average"]
    place = {axis: view.axes.index(axis) for axis in ("alpha", "parties", "mechanism")}

    def point(alpha: str, parties: str, mechanism: str) -> Point:
        values = {"alpha": alpha, "parties": parties, "mechanism": mechanism}
        return tuple(values[axis] for axis in sorted(place, key=lambda axis: place[axis]))

    def fill(table: Table) -> None:
        for parties in view.order["parties"]:
            for alpha in view.order["alpha"]:
                at = [point(alpha, parties, mechanism) for mechanism in ("gnmax", "histogram", "histogram, relative")]
                pate = [study.mean(each, "pate") for each in at]
                others = [study.mean(at[1], method) for method in ("local", "plurality", "noisy_average")]
                table.add(parties, digits(float(alpha), 2).rstrip("0").rstrip("."), *others[:2], *pate, others[2])

    study.figure("results/skew-number-of-parties-mechanism", columns, fill, MEANS)
    study.ends("results/skew-ends", "alpha")


def papers(study: StudyTables) -> None:
    """Mechanisms at equal epsilon, and their differences at the same point and seed."""
    view = study.view
    later = "Confident, then Interactive"
    confident = {"100": "Confident, 60 votes", "250": "Confident, 150 votes", "1000": "Confident, 600 votes"}
    columns = ["epsilon", "parties"]
    for name in ("LNMax", "GNMax", "Confident"):
        columns += [f"{name}: right", "AUC", "at the votes"]
    columns += ["Confident, then Interactive: right", "AUC", "histogram: AUC", "plurality: AUC"]

    def right(at: Point) -> str:
        found = view.mean(at, "pate", "labels_right")
        return "" if found is None else f"{100 * found:.1f}"

    def auc(at: Point) -> str:
        return "" if view.mean(at, "pate", "auc") is None else study.mean(at, "pate")

    def fill(table: Table) -> None:
        for epsilon in view.order["epsilon"]:
            for parties in view.order["parties"]:
                cells = []
                for mechanism in ("LNMax", "GNMax", confident[parties]):
                    at = (epsilon, parties, mechanism)
                    spent = [study.plain(at, "pate", f"epsilon_{name}", 2) for name in ("data_dependent", "published")]
                    cells += [right(at), auc(at), " / ".join(spent)]
                last = (epsilon, parties, later)
                cells += [right(last), auc(last), auc((epsilon, parties, "histogram"))]
                cells.append(study.mean((epsilon, parties, "histogram"), "plurality"))
                table.add(digits(float(epsilon), 1).removesuffix(".0"), f"{int(parties):,}", *cells)

    study.figure("papers/mechanisms-at-equal-epsilon", columns, fill, MEANS)
    pairs = [("GNMax", "LNMax"), ("Confident", "GNMax"), (later, "GNMax"), ("histogram", "GNMax")]
    points = [(epsilon, parties) for epsilon in view.order["epsilon"] for parties in view.order["parties"]]
    heads = [f"epsilon {digits(float(epsilon), 1).removesuffix('.0')}, {int(parties):,}" for epsilon, parties in points]

    def fill_pairs(table: Table) -> None:
        for metric, told, scale in (("labels_right", "labels right, points, over seeds alone", 100), ("auc", "AUC", 1)):
            for more, less in pairs if metric == "auc" else pairs[:-1]:
                named = {parties: confident[parties] if more == "Confident" else more for _, parties in points}
                cells = [mechanisms(view, metric, at, named[at[1]], less, scale) for at in points]
                table.add(f"{more} less {less}: {told}", *cells)

    note = "Mean difference at the same seed, with its 95 % interval over seeds and {unit} together; not corrected"
    study.figure("papers/mechanisms-at-equal-epsilon-2", ["", *heads], fill_pairs, note)


def mechanisms(view: StudyView, metric: str, at: tuple[str, str], more: str, less: str, scale: int) -> str:
    """PATE by one mechanism less PATE by another. at: epsilon, parties. scale: 100 for points."""
    frame = view.frame.filter(
        (pl.col("epsilon") == at[0]) & (pl.col("parties") == at[1]) & (pl.col("method") == "pate")
    )
    rows = paired(frame, metric, less, along="mechanism", row_scores=view.row_scores)
    rows = rows.filter(pl.col("mechanism") == more).to_dicts()
    if not rows:
        return ""
    parts = [scale * rows[0][name] for name in ("difference", "low", "high")]
    texts = [signed(part, 3 if scale == 1 else 1) for part in parts]
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


TABLES = {
    "heart": heart,
    "hospitals": hospitals,
    "naturals": naturals,
    "papers": papers,
    "skew": skew,
    "stroke_skew": stroke_skew,
    "writers": writers,
}


def read_study(folder: Path) -> StudyTables:
    """A folder of results.

    Raises
    ------
    PathError, DataError : it is none.
    """
    found = open_folder(folder)
    told = read_told(found.told, folder.name)
    view = study_view(found.results, told.order, logarithmic=told.logarithmic, row_scores=found.row_scores)
    name = str(found.told.get("name") or folder.name)
    asked = {"stroke_skew": "benchmarks/studies/stroke_skew.toml"}.get(name, name)
    files = {"skew": " --set data.path=FOLDER", "writers": " --set data.path=FOLDER"}.get(name, "")
    return StudyTables(name, view, f"consilium study {asked}{files}", float(found.told["seconds"]["computing"]))


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables of the folders that are named."""
    if not arguments:
        print("needs folders of studies: python -m benchmarks.study_tables runs/study-hospitals")
    for folder in arguments:
        study = read_study(Path(folder))
        if study.name not in TABLES:
            sys.exit(f"{folder}: no page has tables of the study {study.name}; those of {', '.join(TABLES)} have")
        TABLES[study.name](study)


if __name__ == "__main__":
    main(sys.argv[1:])
