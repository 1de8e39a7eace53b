"""`consilium run` of a paper: its rows in worker processes, and the table of its figures beside ours.

A row that is done is not done again, teachers' votes stay in the folder: give `--out` again."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import consilium
from consilium.models.evaluation import Interval
from consilium.protocol.errors import ConfigError, DataError, OutputExists
from consilium.protocol.files import replace_text
from consilium.protocol.label_source import Progress, no_progress
from consilium.report.exhibits import Cell, Exhibit, Page, PagePart, Table, TableLine, as_html, as_text
from consilium.report.progress import Display
from consilium.simulations.datasets.base import data_folder
from consilium.simulations.metrics import wilson
from consilium.simulations.papers import ORDER
from consilium.simulations.papers.description import Choice, PaperRow, load_paper
from consilium.simulations.papers.measure import Images, at_once, measure, train_teachers, votes_file
from consilium.simulations.study.compute import in_workers
from consilium.simulations.study.summaries.inference import crossed

RESULTS, REPORT = "results.json", "report.html"


def result_of(row: PaperRow, seed: int, kept: Path) -> Path:
    """What a row leaves where it is done."""
    return kept / "rows" / f"{row.name}-{seed}-{row.digest}.json"


Job = tuple[
    list[PaperRow], int, Path, Path
]  # rows of the same teachers, a seed, and the folders of results and of data


def work(job: Job, progress: Progress = no_progress) -> None:
    """Do it, and leave the results."""
    rows, seed, kept, data = job
    images = Images.of(rows[0].data, data)
    if rows[0].teachers:
        train_teachers(rows[0], seed, images, kept, progress)
    for row in rows:
        before = time.process_time()
        figures = measure(row, seed, images, kept, data, progress)
        figures["seconds"] = round(time.process_time() - before, 1)
        replace_text(result_of(row, seed, kept), json.dumps(figures))


class PaperRun:
    """One run: of which rows, with which seeds, in which folder. left_out: rows without their files, and why. Raises
    DataError: files of the paper are not there, or not these. ConfigError: no such row; or the folder is another's."""

    def __init__(self, path: Path, choice: Choice, folder: Path) -> None:
        self.path, self.folder, self.choice = path, folder, choice
        self.paper = load_paper(path)
        self.seeds = choice.seeds or (self.paper.seeds[:1] if choice.fast else self.paper.seeds)
        self.data = data_folder(choice.data.path)
        self.rows: list[PaperRow] = []
        self.left_out: dict[str, str] = {}
        for row in self.paper.chosen(choice.rows):
            try:
                self.paper.check_files(row, self.data)
                self.rows.append(at_once(row) if choice.fast else row)
            except DataError as error:
                if row.data == "mnist":  # the papers' own; what else they used may be absent
                    raise
                self.left_out[row.name] = str(error)

    def run(self, display: Display) -> dict[str, Any]:
        """Do what is not done, and write the table. Raises EngineError where a worker ends; see `measure` too."""
        written, names = self.folder / ORDER, [row.name for row in self.rows]
        if written.exists():
            before = json.loads(written.read_text(encoding="utf-8"))["paper"]
            if before != self.path.stem:
                raise ConfigError(f"{self.folder} holds a run of {before}", "Name a new folder with --out")
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise OutputExists(f"{self.folder} is there and holds no run of a paper", "Name another with --out")
        (self.folder / "rows").mkdir(parents=True, exist_ok=True)
        replace_text(written, json.dumps({"paper": self.path.stem}))
        display.say(self.paper.title)
        display.say(f"rows: {', '.join(names)}; seeds: {', '.join(map(str, self.seeds))}")
        for name, why in self.left_out.items():
            display.say(f"left out: {name}: {why}")
        if extra := [row.name for row in self.paper.rows if row.extra and row.name not in names]:
            display.say(f"not among them, --set rows=[...] runs them: {', '.join(extra)}")
        together: dict[tuple[Path | str, int], list[PaperRow]] = defaultdict(list)
        for row in self.rows:
            for seed in self.seeds:
                if not result_of(row, seed, self.folder).exists():
                    together[votes_file(self.folder, row, seed) if row.teachers else row.name, seed].append(row)
        if jobs := [(rows, seed, self.folder, self.data) for (_, seed), rows in together.items()]:
            display.update("rows", 0, len(jobs))
            with closing(in_workers(work, jobs, self.choice.workers or len(os.sched_getaffinity(0)))) as done:
                for count, _ in enumerate(done, 1):
                    display.update("rows", count, len(jobs))
        return self.write()

    def write(self) -> dict[str, Any]:
        rows = [
            {"name": row.name, "title": row.title, "paper": row.paper.figures, "ours": self._mean(row),
             "differs": row.differs, "data": row.data, "delta": row.delta}
            for row in self.rows
        ]  # fmt: skip
        left_out = [
            (row.title, row.paper, self.left_out[row.name]) for row in self.paper.rows if row.name in self.left_out
        ]
        left_out += [(item.title, item.paper, item.why) for item in self.paper.absent]
        results = {
            "paper": self.path.stem, "title": self.paper.title, "link": self.paper.link, "seeds": list(self.seeds),
            "fast": self.choice.fast, "version": consilium.__version__, "rows": rows,
            "absent": [{"title": title, "paper": paper.figures, "why": why} for title, paper, why in left_out],
            "seconds": sum(row["ours"]["seconds"] for row in rows), "out": str(self.folder),
        }  # fmt: skip
        replace_text(self.folder / RESULTS, json.dumps(results, indent=1))
        words = (f"Consilium {results['version']}; {self.paper.link}",)
        replace_text(self.folder / REPORT, as_html(Page("Papers", self.paper.title, exhibits(results), words)))
        return results

    def _mean(self, row: PaperRow) -> dict[str, Any]:
        """Over the seeds: mean and sample deviation of each figure, and what each seed gave."""
        each = [json.loads(result_of(row, seed, self.folder).read_text(encoding="utf-8")) for seed in self.seeds]
        figures: dict[str, Any] = {name: each[0][name] for name in ("judges", "asked", "unbounded")}
        figures |= {"each": each, "seconds": sum(item["seconds"] for item in each)}
        for name in ("answers", "labels", "epsilon", "worst", "teacher", "plurality", "gap", "student"):
            values = [item[name] for item in each if item[name] is not None]
            if values:
                figures[name] = [float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0]
        if "student" in figures:
            figures["interval"] = _interval([item.pop("right_of") for item in each])
        return figures


def _interval(right_of: Sequence[dict[str, int]]) -> Interval:
    """Of the mean of the seeds' students, over seeds and test images together; of one seed over images (Wilson).
    right_of: of each seed, `measure`'s."""
    values = np.array([np.mean(list(right.values())) for right in right_of])
    if len(values) == 1:
        return wilson(float(sum(right_of[0].values())), len(right_of[0]))
    place = {image: number for number, image in enumerate(sorted(set().union(*right_of)))}
    scores, weights = np.zeros((2, len(values), len(place)))
    for seed, right in enumerate(right_of):
        where = [place[image] for image in right]
        weights[seed, where] = 1 / len(right)
        scores[seed, where] = (np.array(list(right.values())) - values[seed]) / len(right)
    low, high = crossed(values, scores, weights).interval(mean := float(values.mean()), (0, 1))
    return [mean if low is None else low, mean if high is None else high]


COLUMNS = (
    ("answers", "answers", 1, 0), ("labels", "labels right, %", 100, 2),
    ("epsilon", "epsilon, as the paper counts", 1, 3),
    ("worst", "worst case", 1, 3), ("student", "student, %", 100, 2),
)  # fmt: skip
ENSEMBLE = (("teacher", "one teacher, %", 100, 2), ("plurality", "plurality, %", 100, 2), ("gap", "gap, %", 100, 1))


def exhibits(results: dict[str, Any]) -> list[PagePart]:
    """The paper's figures beside ours, what teachers are like, and what could not be had."""
    seeds = ", ".join(map(str, results["seeds"]))
    words = (
        f"Mean and standard deviation over seeds {seeds}. The interval is 95 %, over seeds and test images together, of"
        " one seed over images (Wilson). The worst case holds whatever the votes are; epsilon as the paper counts is a"
        " function of the votes, and secret where they are.",
    )
    if results["fast"]:
        words = ("A fast run: a few images and steps. Its figures mean nothing.", *words)
    rows = results["rows"]
    ensembles = {row["ours"]["plurality"][0]: row for row in reversed(rows) if "plurality" in row["ours"]}
    absent = []
    for item in results["absent"]:
        printed = ", ".join(f"{name} {value}" for name, value in item["paper"].items())
        absent.append(TableLine(item["title"], (Cell(printed), Cell(item["why"]))))
    notes = tuple(f"{row['title']}: {row['differs']}" for row in rows if row["differs"])
    told = {
        "rows": ("Rows", words, _table(rows, COLUMNS), ()),
        "teachers": ("Teachers", (), _table(list(reversed(ensembles.values())), ENSEMBLE) if ensembles else None, ()),
        "differs": ("What is not the paper's", (), None, notes),
        "absent": (
            "Not measured", (), Table(("row", "paper", "why it is not here"), tuple(absent)) if absent else None, ()
        ),
    }  # fmt: skip
    return [
        PagePart(name, heading, (Exhibit(name, "", words, table, items=items),))
        for name, (heading, words, table, items) in told.items()
        if table or items
    ]


def _table(rows: Sequence[dict[str, Any]], columns: Sequence[tuple[str, str, float, int]]) -> Table:
    printed = {name for row in rows for name in row["paper"]}
    headings, judged = ["row"], any("interval" in row["ours"] for row in rows) and columns is COLUMNS
    for name, words, _, _ in columns:
        headings += [f"paper: {words}"] * (name in printed) + [words]
    lines = []
    for row in rows:
        cells = []
        for name, _, scale, digits in columns:
            cells += [Cell(row["paper"].get(name, ""))] * (name in printed) + [Cell(_figure(row, name, scale, digits))]
        if judged:
            low, high = row["ours"].get("interval", (None, None))
            cells.append(Cell("" if low is None else f"{100 * low:.2f} to {100 * high:.2f}"))
        lines.append(TableLine(row["title"], tuple(cells)))
    return Table((*headings, *["interval"] * judged), tuple(lines), frozenset(range(1, len(headings) + judged)))


def _figure(row: dict[str, Any], name: str, scale: float, digits: int) -> str:
    if name == "worst" and row["ours"]["unbounded"]:
        return "unbounded"
    if name not in row["ours"]:
        return ""
    mean, deviation = (scale * value for value in row["ours"][name])
    return f"{mean:,.{digits}f}" + (f" ± {deviation:.{digits}f}" if round(deviation, digits) else "")


def as_lines(results: dict[str, Any]) -> Iterator[str]:
    """The same for a terminal."""
    yield from (results["title"], as_text(exhibits(results)))
    yield f"{results['out']}/{REPORT}, {results['out']}/{RESULTS}"
