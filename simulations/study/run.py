"""One study from its file to its folder: what is not kept yet is computed in worker processes, then all is written.

What is done lies in the study's folder as it ends (`compute`), so that running it again goes on. The results are the
same for any number of workers: every piece of work has its own seed, and numerical libraries one thread."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import for_its_owner_alone, writing
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.strict_json import strict
from consilium.protocol.versions import versions
from consilium.report.progress import LOAD, REPORT, about, stage
from consilium.report.warnings import parties_too_small
from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.interruption import Interrupted, interruptible
from consilium.simulations.methods.base import StudyMethod
from consilium.simulations.study.cells import Plot, compared, ensemble_address, plots, source_digest
from consilium.simulations.study.compute import (
    Division,
    GridCell,
    Part,
    Result,
    StudyFailure,
    compute,
    forget,
    is_kept,
    recalled,
    source_table,
    tried,
)
from consilium.simulations.study.results import CACHE, PAGE, RESULTS, Parts, cache_folder, study_folder, write_results
from consilium.simulations.study.spec import StudySpec, points_of
from consilium.simulations.study.workers import in_workers, watched

Opened = dict[str, dict[str, Any] | StudyFailure]
"""By `source_table`: what study.json says of a data set, its digest among it, or why it cannot be opened."""


class StudyInterrupted(Interrupted):
    """A signal ended a study. again: the command that goes on with it."""

    again = ""

    def __str__(self) -> str:
        return f"interrupted; what is done is kept. Go on with: {self.again}"


@for_its_owner_alone()
def outlook(spec: StudySpec, out: Path, workers: int) -> tuple[dict[str, Any], list[str]]:
    """What there is to do, as plain values and as lines for people. Data sets are opened, and nothing is computed.
    Raises ConfigError: see `cells.plots`, `cells.compared` and `results.cache_folder`."""
    methods, cases, there = compared(spec), plots(spec), (out / CACHE).is_dir()
    rows = open_rows(cases)
    cache = cache_folder(out) if there else out / CACHE
    cells = [cell for cells in divided(spec, methods, cases, rows, cache).values() for cell in cells]
    parts = [(cell.label, recalled(str(cache), cell.address) if there else None) for cell in cells]
    seconds = _seconds_left(parts, workers) if cells else None
    count, done = len(cases) * len(spec.study.methods), sum(part is not None for _, part in parts)
    failed = [asdict(each) for each in rows.values() if isinstance(each, StudyFailure)]
    lines = [
        f"{spec.name}: {count:,} cells, {len(cases):,} cases; kept already in {out}: {done:,}",
        *([f"time: {'known after the first cells' if seconds is None else about(seconds)}"] if cells else []),
        *(f"cannot be computed: {failure['what']}" for failure in failed),
    ]
    counts = {"cells": count, "cases": len(cases), "kept": done, "seconds": seconds, "failed": failed}
    return {"study": spec.name, **counts}, lines


def _seconds_left(parts: Sequence[tuple[str, Part | None]], workers: int) -> float | None:
    """What cells that are done took, by method, for those that are not; None while a method has none that is done."""
    took: dict[str, list[float]] = defaultdict(list)
    for label, part in parts:
        if part is not None:
            took[label].append(part.seconds)
    missing = [label for label, part in parts if part is None]
    if not took.keys() >= set(missing):
        return None
    return round(sum(fmean(took[label]) for label in missing) / workers, 1)


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


def divided(
    spec: StudySpec, methods: Mapping[str, StudyMethod], cases: Sequence[Plot], rows: Opened, cache: Path
) -> dict[Division, list[GridCell]]:
    """The cells of each division, those of one plot one after the other."""
    share = spec.study.home_share
    divisions: dict[Division, list[GridCell]] = defaultdict(list)
    for plot in cases:
        if isinstance(opened := rows[source_table(plot.teaching.data)], dict):
            name = ensemble_address(plot.teaching, plot.seed, share, digest := opened["digest"])
            division = Division(str(cache), name, plot.teaching, digest, plot.seed, share)
            for label, method in methods.items():
                manual_labels = spec.study.manual_labels if method.private else "none"
                divisions[division].append(GridCell(division, plot, label, method, manual_labels))
    return divisions


@for_its_owner_alone()
def run_study(
    spec: StudySpec, out: Path, workers: int = 1, progress: Progress = no_progress,
    command: str = "the same command", cluster: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Compute what is missing of a study, and write its folder; it gives what `consilium study --format json` prints.

    command: that goes on with the study, for people. cluster: address of a Ray cluster that computes instead. Raises
    ConsiliumError: what is wrong; what was done is kept. StudyInterrupted: at a signal, in the main thread."""
    began = time.monotonic()
    methods, cases = compared(spec), plots(spec)
    study_folder(out, spec)
    try:
        with interruptible(), writing(out):
            cache = cache_folder(out)
            rows = open_rows(cases, progress)
            divisions = divided(spec, methods, cases, rows, cache)
            every = [cell.address for cells in divisions.values() for cell in cells]
            missing = [name for name in every if not is_kept(str(cache), name)]
            jobs = [(division, cells, spec.study.measures) for division, cells in divisions.items()]
            with watched(str(cache), missing, progress):
                results = in_workers(compute, jobs, workers, cache, cluster)
            opened = [(plot, rows[source_table(plot.teaching.data)]) for plot in cases]
            closed = [(plot, "", why) for plot, why in opened if isinstance(why, StudyFailure)]
            parts, failed = _parted([*closed, *itertools.chain.from_iterable(results)])
            with stage(progress, REPORT):
                facts = _facts(spec, cases, rows, parts) | {"found": len(every) - len(missing), "failed": failed}
                facts |= {"command": command, "workers": workers, "seconds": round(time.monotonic() - began, 1)}
                return _write(spec, out, facts, rows, parts)
    except Interrupted as error:
        raised = StudyInterrupted(error.number)
        raised.again = command
        raise raised from None
    finally:
        forget()


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
        if (entry := entry | asdict(part)) not in failed:  # several measures of the teachers have one name
            failed.append(entry)
    if not parts:
        first = failed[0]
        raise ConfigError(f"no cell of the study can be computed. {first['place']}: {first['what']}", first["action"])
    return parts, failed


def _write(spec: StudySpec, out: Path, facts: dict[str, Any], rows: Opened, parts: Parts) -> dict[str, Any]:
    """The study's folder; what the command prints."""
    from consilium.simulations.study.page import write_study_report  # libraries that drawing alone needs

    digests = {table: opened["digest"] for table, opened in rows.items() if isinstance(opened, dict)}
    write_results(out, spec, facts, parts, digests)
    return strict(
        {
            "study": spec.name,
            "out": str(out),
            **{name: facts[name] for name in ("cells", "found", "failed", "warnings", "seconds")},
            "absent": len(facts["absent"]),
            "results": str(out / RESULTS),
            "answers": write_study_report(out, out / PAGE),
            "report": str(out / PAGE),
        }
    )


def _facts(spec: StudySpec, cases: Sequence[Plot], rows: Opened, parts: Parts) -> dict[str, Any]:
    """What study.json says of a study that is done."""
    absent = [(plot, method, part.absent) for plot, method, part in parts if part.absent]
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
        "warnings": _warnings(parts),
        "data": [opened for opened in rows.values() if isinstance(opened, dict)],
    }


def _warnings(parts: Parts) -> list[dict[str, Any]]:
    """Parties that `least_rows` cut: once for a division, of the seed with the most; points: all that have it."""
    warnings: dict[str, dict[str, Any]] = {}
    for plot, _, part in parts:
        if not part.left_out:
            continue
        warning = warnings.setdefault(plot.teaching.model_dump_json(), {"code": "parties-left-out", "points": []})
        if plot.axes not in warning["points"]:
            warning["points"].append(dict(plot.axes))
        if part.left_out > warning.get("too_small", 0):
            made, least = part.parties + part.left_out, plot.teaching.data.rows_needed
            text = f"{plot}: {parties_too_small(made, part.left_out, least)}"
            warning |= {"text": text, "made": made, "too_small": part.left_out, "least_rows": least}
    for warning in warnings.values():
        if more := len(warning["points"]) - 1:
            warning["text"] += f" (the same at {more} further {'point' if more == 1 else 'points'})"
    return list(warnings.values())
