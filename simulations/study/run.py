"""One study from its file to its results: what is missing is computed, and everything else read from the cache."""

from __future__ import annotations

import contextlib
import json
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from consilium.node.progress import COMPARE, ENSEMBLES, MEASURE, REPORT, SETTLE, about, stage
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import writing
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.strict_json import dumps, strict
from consilium.protocol.versions import versions
from consilium.report.row_warnings import parties_too_small
from consilium.report.warnings import WarningCode
from consilium.simulations.artifact import Arrays
from consilium.simulations.datasets.base import Source
from consilium.simulations.interruption import Interrupted, interruptible
from consilium.simulations.judge import unit_arrays_in
from consilium.simulations.study.cache import LostStep, Shelf, StepCache
from consilium.simulations.study.cells import ComparedMethod, Plot, cell_id, compared, plots
from consilium.simulations.study.graph import Graph, OpenedRows, ResultStep, open_rows
from consilium.simulations.study.results import (
    FORMAT,
    PAGE,
    RESULTS,
    study_folder,
    tidy,
    write_facts,
    write_matrices,
    write_results,
)
from consilium.simulations.study.row_scores import write_row_scores
from consilium.simulations.study.schedule import StepPool, Tally, compute, local_pool, missing
from consilium.simulations.study.spec import StudySpec, points_of
from consilium.simulations.study.summaries.sentences import shifts_at
from consilium.simulations.study.summaries.tidy import as_number
from consilium.simulations.study.summaries.view import study_view
from consilium.simulations.study.tasks import ABSENT, KINDS, StepFailure, frame_and_matrices


@dataclass(frozen=True)
class Outlook:
    """cases: points of the axes with a seed. unsettled: of them, those whose further steps are not known yet.

    missing, cached: steps by kind. seconds: that the missing ones take, one after the other; None where there is none
    like one of them in the cache. failed: of data that cannot be opened, by words.
    """

    study: str
    cells: int
    cases: int
    unsettled: int
    missing: dict[str, int]
    cached: dict[str, int]
    seconds: float | None
    workers: int
    failed: list[StepFailure] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        names = {"cached": "kept"}
        plain = {names.get(name, name): value for name, value in asdict(self).items()}
        return {**plain, "failed": [failure.to_json() for failure in self.failed]}

    def lines(self) -> list[str]:
        """For people."""
        todo = ", ".join(f"{count} {kind}" for kind, count in self.missing.items()) or "none"
        lines = [
            f"{self.study}: {self.cells:,} cells, {self.cases:,} cases",
            f"kept already: {sum(self.cached.values()):,} steps",
            f"to do: {todo}",
        ]
        if self.unsettled:
            lines.append(
                f"and what follows from {self.unsettled:,} cases, which is known once their noise is calibrated"
            )
        if self.seconds is None:
            lines.append("time: unknown, no steps like these were done before")
        elif self.missing:
            lines.append(f"time: {about(self.seconds / self.workers)} on {self.workers} workers, by steps like these")
        return [*lines, *(f"cannot be computed: {failure.message}" for failure in self.failed)]


def outlook(spec: StudySpec, cache: StepCache, workers: int) -> Outlook:
    """Look, and compute nothing but what is cheap: data sets are opened for their hashes.

    Raises
    ------
    ConfigError : see `expand`.
    """
    methods, cases = compared(spec), plots(spec)
    with tempfile.TemporaryDirectory(prefix="consilium-study-rows-") as folder:
        rows = open_rows(cases, StepCache(Path(folder) / "rows"), False, None, no_progress)
    graph = Graph(spec, methods, rows.plots)
    targets: list[str] = []
    unsettled, further = 0, list[str]()
    for plot in cases:
        if plot.id not in rows.plots:
            continue
        targets.append(address := graph.settle(plot))
        try:
            settled = json.loads(cache.get(address))
        except LostStep:
            targets.append(graph.ensemble(plot))
            unsettled += 1
            further += graph.likely(plot)
            continue
        targets += [step.address for step in graph.methods(plot, settled)]
        if "gain" in spec.study.measures:
            predicted = {method.label: graph.predict(plot, method, settled) for method in methods}
            targets.append(graph.gain(plot, predicted).address)
    todo = missing(graph.steps, targets, cache)
    usual = cache.usual_seconds() if todo else {}
    known = [usual.get(label) for label in (*(step.label for step in todo.values()), *further)]
    return Outlook(
        spec.name,
        len(cases) * len(methods),
        len(cases),
        unsettled,
        dict(Counter(step.kind for step in todo.values())),
        dict(Counter(step.kind for address, step in graph.steps.items() if address not in todo)),
        None if None in known else sum(seconds for seconds in known if seconds is not None),
        workers,
        list(dict.fromkeys(rows.failures.values())),
    )


_STAGES = (SETTLE, COMPARE, ENSEMBLES, MEASURE)
"""In this order: a stage that ends also ends those that were opened after it, and teachers are needed first."""
_DRAWN = ("division", "teachers")

Opening = Callable[[Shelf], AbstractContextManager[StepPool]]
"""From the shelf where steps find what they need to the pool that computes them."""


class StudyInterrupted(Interrupted):
    """A signal ended a study. again: the command that goes on with it."""

    again = ""

    def __str__(self) -> str:
        return f"interrupted; what is done is kept. Go on with: {self.again}"


def on_this_machine(workers: int) -> Opening:
    """Steps are done here, by so many processes."""
    return partial(local_pool, workers=workers)


def run_study(
    spec: StudySpec,
    out: Path,
    cache: StepCache,
    opening: Opening | None = None,
    progress: Progress = no_progress,
    far: bool = False,
    source: Source | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Compute what is missing of a study, and write its folder; the folder of the same study is written again.

    Parameters
    ----------
    opening : where steps are done; left out: in this process. far : on machines that may not have the data.
    source : rows in memory, for `data.set = "memory"`.
    command : that goes on with the study, for people.

    Returns
    -------
    What `consilium study --format json` prints.

    Raises
    ------
    ConsiliumError : what is wrong, and what to do; what was done is in the cache. StudyInterrupted : at Ctrl-C, SIGTERM
        or SIGHUP, in the main thread.
    """
    began = time.monotonic()
    methods, cases = compared(spec), plots(spec)
    with contextlib.ExitStack() as stack:
        stack.enter_context(study_folder(out, spec))
        loose = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="consilium-study-rows-"))) / "rows"
        shelf = Shelf(cache, StepCache(loose))
        pool = stack.enter_context((opening or on_this_machine(1))(shelf))
        try:
            stack.enter_context(interruptible())
            stack.enter_context(writing(out))
            rows = open_rows(cases, shelf.loose, far, source, progress)
            study = _Study(spec, methods, cases, rows, cache, pool, progress)
            study.carry_out()
            with stage(progress, REPORT):
                summary = study.write(out, time.monotonic() - began, command)
        except Interrupted as error:
            raised = StudyInterrupted(error.number)
            raised.again = command or f"consilium study {shlex.quote(spec.name)} --out {shlex.quote(str(out))}"
            raise raised from None
    return summary


@dataclass
class _Study:
    spec: StudySpec
    methods: list[ComparedMethod]
    plots: list[Plot]
    rows: OpenedRows
    cache: StepCache
    pool: StepPool
    progress: Progress
    tally: Tally = field(default_factory=Tally)
    failed: list[dict[str, Any]] = field(default_factory=list)
    absent: list[dict[str, Any]] = field(default_factory=list)
    settled: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id of a plot what its settling step gave: scenario, depends, guarantees, parties, left_out."""
    results: list[ResultStep] = field(default_factory=list)

    def carry_out(self) -> None:
        """Do every step, those first from which it follows what others there are."""
        graph = self.graph = Graph(self.spec, self.methods, self.rows.plots)
        for plot in self.plots:
            if plot.id in self.rows.failures:
                self._fail(plot, "", self.rows.failures[plot.id])
        settling = [(plot, graph.settle(plot)) for plot in self.plots if plot.id in self.rows.plots]
        self._compute([address for _, address in settling])
        for plot, address in settling:
            if address in self.tally.failures:
                self._fail(plot, "", self.tally.failures[address])
            else:
                self.settled[plot.id] = json.loads(self._content(address))
        there = [plot for plot in self.plots if plot.id in self.settled]
        self.results = [step for plot in there for step in graph.methods(plot, self.settled[plot.id])]
        self._compute([step.address for step in self.results])
        if "gain" in self.spec.study.measures:
            gains = []
            for plot in there:
                places = {method.label: graph.predict(plot, method, self.settled[plot.id]) for method in self.methods}
                places = {label: address for label, address in places.items() if address not in self.tally.failures}
                gains += [graph.gain(plot, places)] if places else []
            self._compute([step.address for step in gains])
            self.results += gains
        if all(step.address in self.tally.failures for step in self.results):
            self._nothing()

    def _compute(self, targets: list[str]) -> None:
        shown: dict[str, tuple[int, int]] = {}

        def report(kinds: Mapping[str, tuple[int, int]]) -> None:
            for name in _STAGES:
                same = [counts for kind, counts in kinds.items() if KINDS[kind].stage == name]
                count = sum(done for done, _ in same), sum(total for _, total in same)
                if same and count != shown.get(name):
                    shown[name] = count
                    self.progress(name, *count)

        compute(self.graph.steps, targets, self.cache, self.pool, self.tally, report)

    def _content(self, address: str) -> bytes:
        """Of a step that is done; done again where its file is damaged."""
        try:
            return self.cache.get(address)
        except LostStep:
            self.cache.drop(address)
            self._compute([address])
            return self.cache.get(address)

    def write(self, out: Path, seconds: float, command: str) -> dict[str, Any]:
        """The study's folder; what the command prints."""
        artifacts: dict[str, tuple[pl.DataFrame, Arrays]] = {}
        of_cells: dict[str, tuple[str, Arrays]] = {}
        parts: list[tuple[Plot, str, pl.DataFrame]] = []
        drawn: dict[str, list[str]] = {}
        for step in self.results:
            plot, method, failure = step.plot, step.method, self.tally.failures.get(step.address)
            if failure is not None:
                self._fail(plot, method, failure)
                continue
            if step.address not in artifacts:
                frame, matrices = frame_and_matrices(self._content(step.address))
                reason = {ABSENT: matrices[ABSENT]} if ABSENT in matrices else {}
                artifacts[step.address] = frame, {**unit_arrays_in(matrices), **reason}
            frame, matrices = artifacts[step.address]
            if scores := unit_arrays_in(matrices):
                of_cells[cell_id(plot, method)] = self.rows.plots[plot.id].digest, scores
            parts.append((plot, method, frame))
            if method in _DRAWN:
                drawn.setdefault(plot.id, []).append(step.address)
            elif ABSENT in matrices:
                self.absent.append({**_case(plot), "method": method, "why": str(matrices[ABSENT])})
        stated = {
            (plot, label): guarantee
            for plot, settled in self.settled.items()
            for label, guarantee in settled["guarantees"].items()
        }
        table = tidy(parts, self.spec, stated)
        write_results(out, table)
        write_row_scores(out, of_cells)
        same: dict[tuple[str, ...], list[str]] = {}
        for plot, addresses in drawn.items():
            same.setdefault(tuple(addresses), []).append(plot)
        write_matrices(out, same, self._matrices)
        facts = self._facts(seconds, command)
        write_facts(out, facts)
        return strict(
            {
                "study": self.spec.name,
                "out": str(out),
                "cells": facts["cells"],
                "cases": len(self.plots),
                "steps": {"computed": self.tally.done, "from_cache": self.tally.hits},
                "failed": self.failed,
                "absent": len(self.absent),
                "warnings": facts["warnings"],
                "shifts": self._shifts(table),
                "results": str(out / RESULTS),
                **_draw(out),
                "cache": {"folder": str(self.cache.folder), **asdict(self.cache.size())},
                "seconds": round(seconds, 1),
            }
        )

    def _shifts(self, table: pl.DataFrame) -> dict[str, list[str]]:
        """Kinds of difference by point."""
        order = {axis.column: list(points_of(axis)) for axis in self.spec.axis}
        view = study_view(table.filter(pl.col("method") == "division"), order)
        return {shift.label: list(shift.named) for shift in shifts_at(view)}

    def _matrices(self, addresses: tuple[str, ...]) -> Arrays:
        merged: Arrays = {}
        for address in addresses:
            merged |= frame_and_matrices(self._content(address))[1]
        return merged

    def _warnings(self) -> list[dict[str, Any]]:
        """Parties that `least_rows` cut: once for a division, of the seed with the most; points: all that have it."""
        worst: dict[str, Plot] = {}
        left = {plot.id: self.settled.get(plot.id, {}).get("left_out", 0) for plot in self.plots}
        for plot in self.plots:
            point = dumps(plot.axes)
            if left[plot.id] > (left[worst[point].id] if point in worst else 0):
                worst[point] = plot
        warnings: dict[str, dict[str, Any]] = {}
        for plot in worst.values():
            out, least = left[plot.id], plot.teaching.data.rows_needed
            divided = self.settled[plot.id]["parties"] + out
            text = parties_too_small(divided, out, least)
            warning = {"code": WarningCode.PARTIES_TOO_SMALL.value, "text": f"{plot}: {text}"}
            warning |= {"made": divided, "too_small": out, "least_rows": least, "points": []}
            warnings.setdefault(f"{self.graph.division(plot)} {text}", warning)["points"].append(dict(plot.axes))
        for warning in warnings.values():
            if more := len(warning["points"]) - 1:
                warning["text"] += f" (the same at {more} further {'point' if more == 1 else 'points'})"
        return list(warnings.values())

    def _facts(self, seconds: float, command: str) -> dict[str, Any]:
        """What study.json says."""
        spec, none = self.spec, {"parties": None, "left_out": None}
        return {
            "format": FORMAT,
            "status": "complete",
            "name": spec.name,
            "title": spec.title,
            "description": spec.study.description.strip(),
            "findings": list(spec.study.findings),
            "spec": spec.model_dump(mode="json", by_alias=True),
            "spec_digest": spec.digest(),
            "command": command,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "axes": [_axis(spec, place, self.plots) for place in range(len(spec.axis))],
            "seeds": list(spec.seeds),
            "home_share": spec.study.home_share,
            "methods": [
                {"label": method.label, "title": method.method.title, "private": method.method.private}
                | {"keys": method.table}
                for method in self.methods
            ],
            "measures": list(spec.study.measures),
            "cells": len(self.plots) * len(self.methods),
            "cases": {
                plot.id: {**_case(plot), **{name: self.settled.get(plot.id, none)[name] for name in none}}
                for plot in self.plots
            },
            "failed": self.failed,
            "absent": self.absent,
            "warnings": self._warnings(),
            "data": self.rows.sets,
            "steps": {
                "computed": self.tally.done,
                "from_cache": self.tally.hits,
                "failed": len(self.tally.failures),
                "by_kind": dict(Counter(step.kind for step in self.graph.steps.values())),
            },
            "seconds": {"wall": round(seconds, 1), "computing": round(self.tally.seconds, 1)},
            "workers": self.pool.workers,
        }

    def _fail(self, plot: Plot, method: str, failure: StepFailure) -> None:
        """method: "" where nothing of the plot could be done."""
        why = f"{failure.message}. {failure.action}" if failure.action else failure.message
        entry = {**_case(plot), "method": method, "why": why, **failure.to_json()}
        if entry not in self.failed:
            self.failed.append(entry)

    def _nothing(self) -> None:
        """Raise ConfigError: every cell failed, and the first says why."""
        for step in self.results:
            self._fail(step.plot, step.method, self.tally.failures[step.address])
        first = self.failed[0]
        point = ", ".join(f"{name} = {label}" for name, label in first["axes"].items())
        raise ConfigError(
            f"no cell of the study can be computed. {point or 'The first'}: {first['what']}", first["action"]
        )


def _case(plot: Plot) -> dict[str, Any]:
    return {"case": plot.id, "axes": dict(plot.axes), "seed": plot.seed}


def _axis(spec: StudySpec, place: int, cases: list[Plot]) -> dict[str, Any]:
    axis = spec.axis[place]
    values = list(dict.fromkeys(plot.axes[axis.column] for plot in cases))
    scale = axis.range.scale if axis.range is not None else None
    numeric = all(as_number(value) is not None for value in values)
    return {"name": axis.column, "key": axis.key, "values": values, "numeric": numeric, "scale": scale}


def _draw(out: Path) -> dict[str, Any]:
    """study.html: its path, and the sentences that it begins with."""
    from consilium.simulations.study.report.build import write_study_report  # libraries that drawing alone needs

    return {"answers": write_study_report(out, out / PAGE), "report": str(out / PAGE)}
