"""The folder of a study: its tables, study.json, what was computed; and what makes it this study's."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from consilium.protocol.errors import DataError, OutputExists, PathError
from consilium.protocol.files import replace_private, writing
from consilium.protocol.strict_json import dumps
from consilium.simulations.study.compute import Part, source_table
from consilium.simulations.study.spec import COLUMNS, FACTS, Plot, StudySpec

Parts = Sequence[tuple[Plot, str, Part]]
"""Of each plot what there is, under the name of a method or of what was measured."""
_SET = {"set", "path", "options"}
"""Keys of `[data]` that say which rows there are; the others say what is made of them, or who has them."""
RESULTS, RESULTS_CSV, FACTS_FILE = "results.parquet", "results.csv", "study.json"
ROW_SCORES, CACHE, PAGE = "row_scores.parquet", "cache", "study.html"
_METRICS = ("accuracy", "auc", "brier")
"""Figures of runs that are means over test rows, or are to first order (AUC: DeLong, DeLong, Clarke-Pearson 1988): kept
as sums over the rows of each unit, so that summaries know what cells have in common by their rows."""
_ROW_SCORES = {
    **dict.fromkeys(("cell", "space", "unit"), pl.String),
    "ids": pl.List(pl.Int64),
    "rows": pl.List(pl.Int32),
    **dict.fromkeys(_METRICS, pl.List(pl.Float32)),
}


def study_folder(out: Path, spec: StudySpec) -> None:
    """Make the folder; one that holds the same study goes on. Raises OutputExists: it holds something else."""
    if out.exists() and not out.is_dir():
        raise OutputExists(f"{out} is a file", "Choose another with --out")
    # a kill while study.json was first written leaves a part of it
    if out.is_dir() and any(path.name != f"{FACTS_FILE}.part" for path in out.iterdir()):
        facts = _facts_if_any(out)
        if facts is None:
            raise OutputExists(f"output folder {out} exists already, and holds no study", "Choose another with --out")
        if facts.get("spec_digest") != spec.digest():
            fault = f"{out} holds another study, or another version of this one"
            raise OutputExists(fault, "Choose another with --out, or remove it")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _facts_if_any(out) is None:
            _write_facts(out, {"status": "running", "spec_digest": spec.digest()})


@dataclass(frozen=True)
class UnitScores:
    """Of one figure of one cell, by what is drawn from a population when test rows are: an owner where whole owners
    were held out, a patient where patients are known, else a row. space: which data and which kind of unit; ids of
    different spaces are unrelated. ids, rows (how many): int64 (units,). scores: float64 (units,), the sum of (row
    score - figure) over a unit's rows, divided by the number of all rows; they add up to 0."""

    space: str
    unit: str
    ids: np.ndarray = field(repr=False)
    rows: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)


class RowScores:
    """Of all cells of a study, by cell and metric. frame: of row_scores.parquet."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self._places = {cell: place for place, cell in enumerate(frame["cell"].to_list())}

    def of(self, cell: str, metric: str) -> UnitScores | None:
        """None where the figure is no mean over test rows, or the cell has none of it."""
        place = self._places.get(cell)
        if place is None or metric not in _METRICS or (scores := self._frame[metric][place]) is None:
            return None
        ids, rows = (self._frame[name][place].to_numpy().astype(np.int64) for name in ("ids", "rows"))
        space, unit = (str(self._frame[name][place]) for name in ("space", "unit"))
        return UnitScores(space, unit, ids, rows, scores.to_numpy().astype(np.float64))


def write_row_scores(out: Path, cells: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Write row_scores.parquet. cells: of each the hash of its data, and its `judge.judged_row_scores`."""
    entries = [
        {"cell": cell, "space": f"{data[:16]} {scores['unit']}", **dict.fromkeys(_METRICS), **scores}
        for cell, (data, scores) in sorted(cells.items())
    ]
    replace_private(out / ROW_SCORES, _parquet(pl.DataFrame(entries, schema=_ROW_SCORES)))


class StudyFiles(NamedTuple):
    """What lies in the folder of a finished study. results: one row for each figure. facts: what study.json says."""

    results: pl.DataFrame
    facts: Mapping[str, Any]
    row_scores: RowScores


def open_study(folder: Path) -> StudyFiles:
    """Raises PathError: there is none, or it is not finished. DataError: a file is none of a study."""
    facts = _facts_if_any(folder)
    for file in (folder / FACTS_FILE, folder / RESULTS):
        if not file.is_file():
            raise PathError(f"{file} is not there: no finished study", "Run: consilium study NAME --out ...")
    if facts is None or facts["status"] != "complete":
        raise DataError(f"{folder / FACTS_FILE} is none of a finished study", "Run the study again: it goes on")
    try:
        results, row_scores = (pl.read_parquet(folder / name) for name in (RESULTS, ROW_SCORES))
    except (pl.exceptions.PolarsError, OSError) as error:
        fault = f"a table of study {folder} cannot be read ({type(error).__name__})"
        raise DataError(fault, "Run the study again: it goes on") from None
    return StudyFiles(results, facts, RowScores(row_scores))


def _write_facts(out: Path, facts: Mapping[str, Any]) -> None:
    replace_private(out / FACTS_FILE, dumps(facts, indent=2) + "\n")


def _facts_if_any(out: Path) -> dict[str, Any] | None:
    try:
        facts = json.loads((out / FACTS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and "spec_digest" in facts else None


def _tidy(parts: Parts, spec: StudySpec) -> pl.DataFrame:
    """The table of results: cell, the axes, seed, a row's fields, then `FACTS`; sorted by all that names a row. A
    guarantee stands at all rows of its method."""
    sets, axes = data_sets({plot.id: plot for plot, _, _ in parts}), [axis.column for axis in spec.axis]
    stated = {(plot.id, of): part.guarantee for plot, of, part in parts if part.guarantee}

    def rows() -> Iterator[tuple[Any, ...]]:
        for plot, of, part in parts:
            start = plot.cell(of), *plot.axes.values(), plot.seed
            for row in part.rows:
                terms = stated.get((plot.id, row.method), {})
                yield *start, *row, *(terms.get(fact.removeprefix("guarantee_")) for fact in FACTS[:4]), sets[plot.id]

    schema: dict[str, Any] = dict.fromkeys(("cell", *axes, *COLUMNS[1:], *FACTS), pl.String) | {"seed": pl.Int64}
    schema |= dict.fromkeys((*COLUMNS[-3:], *FACTS[:2]), pl.Float64)
    table = pl.DataFrame(rows(), schema=schema, orient="row").with_columns(pl.col(pl.Float64).fill_nan(None))
    return table.sort([*axes, "seed", "method", "scope", "name", "metric", "cell"], maintain_order=True)


def data_sets(plots: Mapping[str, Plot]) -> dict[str, str]:
    """Of each plot, by id, which data set its rows are of, whatever their division: a name, numbered where several sets
    have it. No path is in it: results are the same wherever files lie."""
    tables: dict[str, list[str]] = {}
    of_plot = {}
    for id, plot in plots.items():
        data = plot.teaching.data
        name = " ".join([data.set, *map(str, data.options.values())])
        same, table = tables.setdefault(name, []), data.model_dump_json(include=_SET)
        if table not in same:
            same.append(table)
        of_plot[id] = f"{name} ({same.index(table) + 1})" if same.index(table) else name
    return of_plot


def write_results(
    out: Path, spec: StudySpec, facts: Mapping[str, Any], parts: Parts, digests: Mapping[str, str]
) -> None:
    """Write results.parquet and results.csv, the same table, of the same parts the same bytes; row_scores.parquet; and
    study.json. digests: of the rows, by `source_table`."""
    table = _tidy(parts, spec)
    scored = [(plot, plot.cell(of), part.scores) for plot, of, part in parts if part.scores]
    write_row_scores(out, {cell: (digests[source_table(at.teaching.data)], scores) for at, cell, scores in scored})
    replace_private(out / RESULTS, _parquet(table.rechunk()))
    replace_private(out / RESULTS_CSV, table.write_csv())
    _write_facts(out, facts)


def _parquet(table: pl.DataFrame) -> bytes:
    """The content of a file: polars' own errors of a full disk say neither which nor why."""
    content = io.BytesIO()
    table.write_parquet(content, compression="zstd", statistics=True)
    return content.getvalue()
