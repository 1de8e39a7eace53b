"""One study from its file to its folder: what is not kept yet is computed in worker processes, then all is written.

What is done lies in the study's folder as it ends (`compute`), so that running it again goes on. The results are the
same for any number of workers: every piece of work has its own seed, and numerical libraries one thread."""

from __future__ import annotations

import io
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import for_its_owner_alone, private_folder, replace_private, writing
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.strict_json import dumps, strict
from consilium.protocol.versions import versions
from consilium.report.progress import COMPARE, LOAD, REPORT, about, stage
from consilium.report.warnings import parties_too_small
from consilium.simulations.datasets.base import SourceSpec
from consilium.simulations.datasets.source import open_source
from consilium.simulations.interruption import Interrupted, interruptible
from consilium.simulations.methods.base import StudyMethod
from consilium.simulations.study.compute import (
    Division,
    Part,
    Result,
    StudyFailure,
    compute,
    in_workers,
    source_table,
    tried,
)
from consilium.simulations.study.spec import (
    COLUMNS,
    FACTS,
    Plot,
    StudySpec,
    compared,
    ensemble_address,
    plots,
    points_of,
    source_digest,
)
from consilium.simulations.study.summaries.inference import UnitScores

RESULTS, RESULTS_CSV, FACTS_FILE, CACHE, PAGE = "results.parquet", "results.csv", "study.json", "cache", "study.html"
Opened = dict[str, dict[str, Any] | StudyFailure]
"""By `source_table`: what study.json says of a data set, its digest among it, or why it cannot be opened."""
Parts = Sequence[tuple[Plot, str, Part]]
"""Of each plot what there is, under the name of a method or of what was measured."""


class StudyInterrupted(Interrupted):
    """A signal ended a study. again: the command that goes on with it."""

    def __init__(self, number: int, again: str) -> None:
        super().__init__(number)
        self.again = again

    def __str__(self) -> str:
        return f"interrupted; what is done is kept. Go on with: {self.again}"


def open_rows(cases: Sequence[Plot], progress: Progress = no_progress) -> Opened:
    """Open each data set once; one that cannot be opened fails its own plots alone."""
    specs = {source_table(plot.teaching.data): plot.teaching.data for plot in cases}
    opened: Opened = {}
    for table, spec in specs.items():
        progress(LOAD, len(opened), len(specs))
        opened[table] = tried(_opened, spec)
    progress(LOAD, len(specs), len(specs))
    return opened


def _opened(spec: SourceSpec) -> dict[str, Any]:
    source = open_source(spec)
    words = {"set": spec.set, "title": source.title, "attribution": source.attribution}
    return words | {"digest": source_digest(source)}


def divisions(
    spec: StudySpec, methods: Mapping[str, StudyMethod], cases: Sequence[Plot], rows: Opened, kept: Path
) -> list[Division]:
    """The plots that can be computed, those together that share their teachers."""
    together: dict[tuple[str, str], list[Plot]] = defaultdict(list)
    for plot in cases:
        if isinstance(opened := rows[source_table(plot.teaching.data)], dict):
            digest = opened["digest"]
            together[ensemble_address(plot.teaching, plot.seed, digest), digest].append(plot)
    shared = methods, spec.study.measures, spec.study.home_share
    return [Division(plots, *shared, digest, kept) for (_, digest), plots in together.items()]


def outlook(spec: StudySpec, out: Path, workers: int) -> tuple[dict[str, Any], list[str]]:
    """What there is to do, as plain values and as lines for people. Data sets are opened, and nothing is computed.
    seconds: by what cells took that are done; None where none is. Raises ConfigError: see `plots` and `compared`."""
    methods, cases = compared(spec), plots(spec)
    rows = open_rows(cases)
    every = divisions(spec, methods, cases, rows, out / CACHE)
    left = [of.left() for of in every]
    missing, at_once = sum(cells for cells, _, _ in left), sum(some for _, some, _ in left)
    done = sum(of.cells for of in every) - missing
    pace = sum(seconds for _, _, seconds in left) / max(done, 1)
    seconds = round(pace * missing / min(workers, max(at_once, 1)), 1) if done else None
    failed = [asdict(each) for each in rows.values() if isinstance(each, StudyFailure)]
    count = len(cases) * len(methods)
    lines = [
        f"{spec.name}: {count:,} cells, {len(cases):,} cases; kept already in {out}: {done:,}",
        *([f"time: {'known after the first cells' if seconds is None else about(seconds)}"] if every else []),
        *(f"cannot be computed: {failure['what']}" for failure in failed),
    ]
    counts = {"cells": count, "cases": len(cases), "kept": done, "seconds": seconds, "failed": failed}
    return {"study": spec.name, **counts}, lines


@for_its_owner_alone()
def run_study(
    spec: StudySpec, out: Path, workers: int = 1, progress: Progress = no_progress,
    command: str = "the same command", cluster: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Compute what is missing of a study, and write its folder; it gives what `consilium study --format json` prints.
    command: that goes on with the study, for people. cluster: address of a Ray cluster that computes instead. Raises
    ConsiliumError: what is wrong; what was done is kept. StudyInterrupted: at a signal, in the main thread."""
    from consilium.simulations.study.page import write_study_report  # libraries that drawing alone needs

    began = time.monotonic()
    methods, cases = compared(spec), plots(spec)
    study_folder(out, spec)
    try:
        with interruptible(), writing(out):
            rows = open_rows(cases, progress)
            every = divisions(spec, methods, cases, rows, private_folder(out / CACHE))
            results, found = _computed(every, workers, progress, cluster)
            opened = [(plot, rows[source_table(plot.teaching.data)]) for plot in cases]
            results += [(plot, "", why) for plot, why in opened if isinstance(why, StudyFailure)]
            order = {plot.id: place for place, plot in enumerate(cases)}
            parts, failed = _parted(sorted(results, key=lambda result: order[result[0].id]))
            with stage(progress, REPORT):
                facts = _facts(spec, cases, rows, parts) | {"found": found, "failed": failed}
                facts |= {"command": command, "workers": workers, "seconds": round(time.monotonic() - began, 1)}
                table = results_table(parts, spec).rechunk()
                replace_private(out / RESULTS, _parquet(table))
                replace_private(out / RESULTS_CSV, table.write_csv())
                answers = write_study_report(table, facts, unit_scores(parts, rows), out / PAGE)
                _write_facts(out, facts | {"answers": answers})
            summary = {name: facts[name] for name in ("cells", "found", "failed", "warnings", "seconds")}
            summary |= {"study": spec.name, "out": str(out), "absent": len(facts["absent"]), "answers": answers}
            return strict(summary | {"results": str(out / RESULTS), "report": str(out / PAGE)})
    except Interrupted as error:
        raise StudyInterrupted(error.number, command) from None


def _computed(every: Sequence[Division], workers: int, progress: Progress, cluster: str) -> tuple[list[Result], int]:
    results: list[Result] = []
    missing: list[Division] = []
    found = 0
    for division in every:
        left, some, _ = division.left()
        found += division.cells - left
        if some:
            missing.append(division)
        else:
            results += compute(division)  # nothing but reading
    total = sum(division.cells for division in every)
    done = total - sum(division.cells for division in missing)
    progress(COMPARE, done, total)
    with closing(in_workers(compute, missing, workers, cluster)) as computed:
        for of_division in computed:
            results += of_division
            done += len({plot.id for plot, *_ in of_division}) * len(every[0].methods)
            progress(COMPARE, done, total)
    return results, found


def _parted(results: Sequence[Result]) -> tuple[list[tuple[Plot, str, Part]], list[dict[str, Any]]]:
    """What there is, and what failed as study.json says it. Raises ConfigError where everything failed."""
    parts: list[tuple[Plot, str, Part]] = []
    failed: list[dict[str, Any]] = []
    for plot, method, part in results:
        if isinstance(part, Part):
            parts.append((plot, method, part))
            continue
        place = f"{plot}, {method}" if method else str(plot)
        why = f"{part.what}. {part.action}" if part.action else part.what
        entry = {"axes": dict(plot.axes), "seed": plot.seed, "method": method, "place": place, "why": why}
        failed.append(entry | asdict(part))
    if not parts:
        first = failed[0]
        raise ConfigError(f"no cell of the study can be computed. {first['place']}: {first['what']}", first["action"])
    return parts, failed


def _facts(spec: StudySpec, cases: Sequence[Plot], rows: Opened, parts: Parts) -> dict[str, Any]:
    absent = [(plot, method, part.absent) for plot, method, part in parts if part.absent]
    most: dict[str, tuple[int, str]] = {}
    for plot, _, part in parts:  # once for a division, at the seed where most are left out
        division = plot.teaching.model_dump_json()
        if part.left_out > most.get(division, (0, ""))[0]:
            text = parties_too_small(part.parties + part.left_out, part.left_out, plot.teaching.data.rows_needed)
            most[division] = part.left_out, f"{plot}: {text}"
    return {
        "status": "complete",
        "title": spec.title,
        "description": spec.study.description.strip(),
        "spec": spec.model_dump(mode="json", by_alias=True),
        "spec_digest": spec.digest(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "axes": {axis.column: list(points_of(axis)) for axis in spec.axis},
        "seeds": list(range(spec.study.seeds)),
        "cells": len(cases) * len(spec.study.methods),
        "absent": [{"axes": dict(at.axes), "seed": at.seed, "method": of, "why": why} for at, of, why in absent],
        "warnings": [{"code": "parties-left-out", "text": text} for _, text in most.values()],
        "data": [opened for opened in rows.values() if isinstance(opened, dict)],
    }


def study_folder(out: Path, spec: StudySpec) -> None:
    """Make the folder; one that holds the same study goes on. Raises OutputExists: it holds something else."""
    if out.exists() and not out.is_dir():
        raise OutputExists(f"{out} is a file", "Choose another with --out")
    try:
        facts = json.loads((out / FACTS_FILE).read_text(encoding="utf-8"))
        digest = facts["spec_digest"]
    except (OSError, ValueError, KeyError, TypeError):
        digest = None
    # a kill while study.json was first written leaves a part of it
    if out.is_dir() and any(path.name != f"{FACTS_FILE}.part" for path in out.iterdir()):
        if digest is None:
            raise OutputExists(f"output folder {out} exists already, and holds no study", "Choose another with --out")
        if digest != spec.digest():
            fault = f"{out} holds another study, or another version of this one"
            raise OutputExists(fault, "Choose another with --out, or remove it")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        if digest is None:
            _write_facts(out, {"status": "running", "spec_digest": spec.digest()})


def _write_facts(out: Path, facts: Mapping[str, Any]) -> None:
    replace_private(out / FACTS_FILE, dumps(facts, indent=2) + "\n")


def unit_scores(parts: Parts, rows: Opened) -> dict[tuple[str, str], UnitScores]:
    """Of the figures of runs that are means over test rows (of AUC to first order), by cell and metric."""
    found: dict[tuple[str, str], UnitScores] = {}
    for plot, of, part in parts:
        opened = rows[source_table(plot.teaching.data)]
        if part.scores and isinstance(opened, dict):
            scores = dict(part.scores)
            unit, ids, rows_of = (scores.pop(name) for name in ("unit", "ids", "rows"))
            space, ids, counts = f"{opened['digest'][:16]} {unit}", np.array(ids), np.array(rows_of)
            for metric, each in scores.items():
                found[plot.cell(of), metric] = UnitScores(space, unit, ids, counts, np.array(each))
    return found


def results_table(parts: Parts, spec: StudySpec) -> pl.DataFrame:
    """Cell, the axes, seed, a row's fields, then `FACTS`; sorted by all that names a row. A guarantee stands at all
    rows of its method."""
    sets, axes = _data_sets(parts), [axis.column for axis in spec.axis]
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


def _data_sets(parts: Parts) -> dict[str, str]:
    """Of each plot, by id, which data set its rows are of, whatever their division: a name, numbered where several sets
    have it. No path is in it: results are the same wherever files lie."""
    tables: dict[str, list[str]] = defaultdict(list)
    of_plot = {}
    for plot in {plot.id: plot for plot, _, _ in parts}.values():
        data = plot.teaching.data
        name = " ".join([data.set, *map(str, data.options.values())])
        same, table = tables[name], data.model_dump_json(include={"set", "path", "options"})
        if table not in same:
            same.append(table)
        of_plot[plot.id] = f"{name} ({same.index(table) + 1})" if same.index(table) else name
    return of_plot


def _parquet(table: pl.DataFrame) -> bytes:
    """The content of a file: polars' own errors of a full disk say neither which nor why."""
    content = io.BytesIO()
    table.write_parquet(content, compression="zstd", statistics=True)
    return content.getvalue()
