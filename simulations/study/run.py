"""One study from its file to its results: what is missing is computed, and everything else read from the cache."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from consilium.node.progress import COMPARE, ENSEMBLES, MEASURE, REPORT, SETTLE, about, stage
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import writing
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.strict_json import dumps, strict
from consilium.protocol.versions import versions
from consilium.report.warnings import WarningCode, parties_too_small
from consilium.simulations.artifact import Arrays
from consilium.simulations.datasets.base import Source
from consilium.simulations.interruption import Interrupted, interruptible
from consilium.simulations.judge import unit_arrays_in
from consilium.simulations.study.cache import LostStep, StepCache
from consilium.simulations.study.cells import ComparedMethod, Plot, cell_id, compared, plots
from consilium.simulations.study.graph import Graph, OpenedRows, ToldStep, open_rows, settled_of
from consilium.simulations.study.results import (
    FORMAT,
    PAGE,
    RESULTS,
    Stated,
    study_folder,
    tidy,
    write_matrices,
    write_results,
    write_told,
)
from consilium.simulations.study.row_scores import write_row_scores
from consilium.simulations.study.schedule import Executor, Shelf, Tally, do_steps, local_executor, missing
from consilium.simulations.study.spec import StudySpec
from consilium.simulations.study.tasks import ABSENT, StepFailure, frame_and_matrices


@dataclass(frozen=True)
class Outlook:
    """cases: points of the axes with a seed. unsettled: of them, those whose further steps are not known yet.

    missing, kept: steps by kind. seconds: that the missing ones take, one after the other; None where there is none
    like one of them in the cache. failed: of data that cannot be opened, by words.
    """

    study: str
    cells: int
    cases: int
    unsettled: int
    missing: dict[str, int]
    kept: dict[str, int]
    seconds: float | None
    workers: int
    failed: list[StepFailure] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        todo = ", ".join(f"{count} {kind}" for kind, count in self.missing.items()) or "none"
        lines = [
            f"{self.study}: {self.cells:,} cells, {self.cases:,} cases",
            f"kept already: {sum(self.kept.values()):,} steps",
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
        return [*lines, *(f"cannot be computed: {each.what}" for each in self.failed)]


def outlook(spec: StudySpec, cache: StepCache, workers: int) -> Outlook:
    """Look, and compute nothing but what is cheap: data sets are opened for their hashes.

    Raises
    ------
    ConfigError : see `expand`.
    """
    methods, places = compared(spec), plots(spec)
    with tempfile.TemporaryDirectory(prefix="consilium-study-rows-") as folder:
        rows = open_rows(places, StepCache(Path(folder) / "rows"), False, None, no_progress)
    graph = Graph(spec, methods, rows.plots)
    targets, unsettled = [], 0
    further: list[str] = []
    for plot in places:
        if plot.id not in rows.plots:
            continue
        address = graph.settle(plot)
        targets.append(address)
        try:
            settled = settled_of(cache.get(address))
        except LostStep:
            unsettled += 1
            targets.append(graph.ensemble(plot))
            further += graph.likely(plot)
            continue
        targets += [each.address for each in graph.methods(plot, settled)]
        if "gain" in spec.study.measures:
            predicted = {each.label: graph.predict(plot, each, settled) for each in methods}
            targets.append(graph.gain(plot, predicted).address)
    todo = missing(graph.steps, targets, cache)
    usual = cache.usual_seconds() if todo else {}
    known = [usual.get(what) for what in (*(step.what for step in todo.values()), *further)]
    seconds = None if None in known else sum(each for each in known if each is not None)
    return Outlook(
        spec.name,
        len(places) * len(methods),
        len(places),
        unsettled,
        dict(Counter(step.kind for step in todo.values())),
        dict(Counter(step.kind for address, step in graph.steps.items() if address not in todo)),
        seconds,
        workers,
        list(dict.fromkeys(rows.failures.values())),
    )


STAGES = {
    "plan": SETTLE,
    "settle": SETTLE,
    "ensemble": ENSEMBLES,
    "predict": COMPARE,
    "judge": COMPARE,
    "worth": COMPARE,
    "division": COMPARE,
    "teachers": COMPARE,
    "influence": COMPARE,
    "gain": MEASURE,
}
"""What people are shown while a kind of step is done."""
_STAGES = (SETTLE, COMPARE, ENSEMBLES, MEASURE)
"""In this order: a stage that ends also ends those that were opened after it, and teachers are needed first."""
_DRAWN = ("division", "teachers")

Opening = Callable[[Shelf], AbstractContextManager[Executor]]
"""From where steps find what they need to what does them."""


class StudyInterrupted(Interrupted):
    """A signal ended a study. again: the command that goes on with it."""

    again = ""

    def __str__(self) -> str:
        return f"interrupted; what is done is kept. Go on with: {self.again}"


def on_this_machine(workers: int) -> Opening:
    """Steps are done here, by so many processes."""
    return lambda shelf: local_executor(shelf, workers)


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
    methods, places = compared(spec), plots(spec)
    with contextlib.ExitStack() as stack:
        stack.enter_context(study_folder(out, spec))
        loose = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="consilium-study-rows-"))) / "rows"
        shelf = Shelf(cache, StepCache(loose))
        executor = stack.enter_context((opening or on_this_machine(1))(shelf))
        try:
            stack.enter_context(interruptible())
            stack.enter_context(writing(out))
            study = _Study(spec, methods, places, cache, executor, progress)
            study.carry_out(open_rows(places, shelf.loose, far, source, progress))
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
    cache: StepCache
    executor: Executor
    progress: Progress
    tally: Tally = field(default_factory=Tally)
    failed: list[dict[str, Any]] = field(default_factory=list)
    absent: list[dict[str, Any]] = field(default_factory=list)
    parties: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    stated: dict[tuple[str, str], Stated] = field(default_factory=dict)
    told: list[ToldStep] = field(default_factory=list)

    def carry_out(self, rows: OpenedRows) -> None:
        """Do every step, those first from which it follows what others there are."""
        self.rows = rows
        self.graph = Graph(self.spec, self.methods, rows.plots)
        settled = self._settled()
        predicted: dict[str, dict[str, str]] = {}
        for plot, found in settled:
            self.told += self.graph.methods(plot, found)
            predicted[plot.id] = {each.label: self.graph.predict(plot, each, found) for each in self.methods}
        self._do([each.address for each in self.told])
        if "gain" in self.spec.study.measures:
            gains = []
            for plot, _ in settled:
                there = {label: at for label, at in predicted[plot.id].items() if at not in self.tally.failures}
                if there:
                    gains.append(self.graph.gain(plot, there))
            self._do([each.address for each in gains])
            self.told += gains
        if not any(each.address not in self.tally.failures for each in self.told):
            self._nothing()

    def _settled(self) -> list[tuple[Plot, dict[str, Any]]]:
        """The plots that can be: their scenarios with all noise calibrated."""
        for plot in self.plots:
            if plot.id in self.rows.failures:
                self._fail(plot, "", self.rows.failures[plot.id])
        places = [(plot, self.graph.settle(plot)) for plot in self.plots if plot.id in self.rows.plots]
        self._do([address for _, address in places])
        found = []
        for plot, address in places:
            if address in self.tally.failures:
                self._fail(plot, "", self.tally.failures[address])
            else:
                settled = settled_of(self._content(address))
                self.parties[plot.id], self.left_out[plot.id] = settled["parties"], settled["left_out"]
                self.stated |= {(plot.id, label): each for label, each in settled["guarantees"].items()}
                found.append((plot, settled))
        return found

    def _do(self, targets: list[str]) -> None:
        shown: dict[str, tuple[int, int]] = {}

        def tell(kinds: Mapping[str, tuple[int, int]]) -> None:
            for name in _STAGES:
                same = [count for kind, count in kinds.items() if STAGES[kind] == name]
                count = sum(done for done, _ in same), sum(total for _, total in same)
                if same and count != shown.get(name):
                    shown[name] = count
                    self.progress(name, *count)

        do_steps(self.graph.steps, targets, self.cache, self.executor, self.tally, tell)

    def _content(self, address: str) -> bytes:
        """Of a step that is done; done again where its file is damaged."""
        try:
            return self.cache.get(address)
        except LostStep:
            self.cache.drop(address)
            self._do([address])
            return self.cache.get(address)

    def write(self, out: Path, seconds: float, command: str) -> dict[str, Any]:
        """The study's folder; what the command prints."""
        frames: dict[str, pl.DataFrame] = {}
        reasons: dict[str, str] = {}
        scores: dict[str, Arrays] = {}
        of_cells: dict[str, tuple[str, Arrays]] = {}
        parts, drawn = [], {}
        for each in self.told:
            failure = self.tally.failures.get(each.address)
            if failure is not None:
                self._fail(each.plot, each.method, failure)
                continue
            if each.address not in frames:
                frames[each.address], matrices = frame_and_matrices(self._content(each.address))
                reasons[each.address] = str(matrices.get(ABSENT, ""))
                scores[each.address] = unit_arrays_in(matrices)
            if scores[each.address]:
                of_cells[cell_id(each.plot, each.method)] = self.rows.plots[each.plot.id].digest, scores[each.address]
            parts.append((each.plot, each.method, frames[each.address]))
            if each.method in _DRAWN:
                drawn.setdefault(each.plot.id, []).append(each.address)
            elif why := reasons[each.address]:
                self.absent.append({**_place(each.plot), "method": each.method, "why": why})
        write_results(out, tidy(parts, self.spec, self.stated))
        write_row_scores(out, of_cells)
        same: dict[tuple[str, ...], list[str]] = {}
        for plot, found in drawn.items():
            same.setdefault(tuple(found), []).append(plot)
        write_matrices(out, same, self._matrices)
        told = self._told(seconds, command)
        write_told(out, told)
        page = _draw(out)
        steps = {"computed": self.tally.done, "from_cache": self.tally.hits}
        return strict(
            {
                "study": self.spec.name,
                "out": str(out),
                "cells": len(self.plots) * len(self.methods),
                "cases": len(self.plots),
                "steps": steps,
                "failed": self.failed,
                "absent": len(self.absent),
                "warnings": told["warnings"],
                "results": str(out / RESULTS),
                "report": page,
                "cache": {"folder": str(self.cache.folder), **asdict(self.cache.size())},
                "seconds": round(seconds, 1),
            }
        )

    def _matrices(self, found: tuple[str, ...]) -> Arrays:
        made: Arrays = {}
        for address in found:
            made |= frame_and_matrices(self._content(address))[1]
        return made

    def _warnings(self) -> list[dict[str, Any]]:
        """Parties that `least_rows` cut: once for a division, of the seed with the most; points: all that have it."""
        worst: dict[str, Plot] = {}
        for plot in self.plots:
            point = dumps(plot.axes)
            if self.left_out.get(plot.id, 0) > self.left_out.get(worst[point].id if point in worst else "", 0):
                worst[point] = plot
        found: dict[str, dict[str, Any]] = {}
        for plot in worst.values():
            left, least = self.left_out[plot.id], plot.teaching.data.party_rows_needed
            made = self.parties[plot.id] + left
            text = parties_too_small(made, left, least)
            told = {"code": WarningCode.PARTIES_TOO_SMALL.value, "text": f"{plot}: {text}"}
            told |= {"made": made, "too_small": left, "least_rows": least}
            key = f"{self.graph.division(plot)} {text}"
            found.setdefault(key, {**told, "points": []})["points"].append(dict(plot.axes))
        for told in found.values():
            if more := len(told["points"]) - 1:
                told["text"] += f" (the same at {more} further {'point' if more == 1 else 'points'})"
        return list(found.values())

    def _told(self, seconds: float, command: str) -> dict[str, Any]:
        spec = self.spec
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
                {"label": each.label, "title": each.method.title, "private": each.method.private, "keys": each.table}
                for each in self.methods
            ],
            "measures": list(spec.study.measures),
            "cells": len(self.plots) * len(self.methods),
            "cases": {
                plot.id: {
                    **_place(plot),
                    "parties": self.parties.get(plot.id),
                    "left_out": self.left_out.get(plot.id),
                }
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
            "workers": self.executor.workers,
        }

    def _fail(self, plot: Plot, method: str, failure: StepFailure) -> None:
        """method: "" where nothing of the plot could be done."""
        why = f"{failure.what}. {failure.action}" if failure.action else failure.what
        told = {**_place(plot), "method": method, "why": why, **asdict(failure)}
        if told not in self.failed:
            self.failed.append(told)

    def _nothing(self) -> None:
        """Raise ConfigError: every cell failed, and the first says why."""
        for each in self.told:
            if each.address in self.tally.failures:
                self._fail(each.plot, each.method, self.tally.failures[each.address])
        first = self.failed[0]
        where = ", ".join(f"{name} = {label}" for name, label in first["axes"].items())
        raise ConfigError(
            f"no cell of the study can be computed. {where or 'The first'}: {first['what']}", first["action"]
        )


def _place(plot: Plot) -> dict[str, Any]:
    return {"case": plot.id, "axes": dict(plot.axes), "seed": plot.seed}


def _axis(spec: StudySpec, place: int, found: list[Plot]) -> dict[str, Any]:
    axis = spec.axis[place]
    values = list(dict.fromkeys(plot.axes[axis.column] for plot in found))
    scale = axis.range.scale if axis.range is not None else None
    return {"name": axis.column, "key": axis.key, "values": values, "numeric": _numeric(values), "scale": scale}


def _numeric(values: list[str]) -> bool:
    try:
        return all(abs(float(value)) >= 0 for value in values)
    except ValueError:
        return False


def _draw(out: Path) -> str:
    """study.html; its path."""
    from consilium.simulations.study.report.build import write_study_report  # libraries that drawing alone needs

    write_study_report(out, out / PAGE)
    return str(out / PAGE)
