"""One study from its file to its results: divisions, then cells, then who gains, each in worker processes.

What is done lies in the study's folder as it ends (`compute`), so that running it again goes on. The results are the
same for any number of workers: every piece of work has its own seed, and numerical libraries one thread.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config

from consilium.models.devices import one_thread
from consilium.protocol.errors import ConfigError, EngineError
from consilium.protocol.files import writing
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.strict_json import dumps, strict
from consilium.protocol.versions import versions
from consilium.report.progress import COMPARE, ENSEMBLES, LOAD, MEASURE, REPORT, stage
from consilium.report.warnings import parties_too_small
from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.interruption import Interrupted, begin_worker, interruptible
from consilium.simulations.study.cells import Plot, cell_id, compared, ensemble_address, plots, source_digest
from consilium.simulations.study.compute import (
    Division,
    MethodJob,
    Part,
    Prepared,
    StudyFailure,
    compute,
    forget,
    gain,
    is_kept,
    prepare,
    source_table,
    tried,
)
from consilium.simulations.study.results import (
    PAGE,
    RESULTS,
    cache_folder,
    study_folder,
    tidy,
    write_facts,
    write_results,
)
from consilium.simulations.study.row_scores import write_row_scores
from consilium.simulations.study.spec import StudySpec, points_of

K = TypeVar("K")
T = TypeVar("T")


class StudyInterrupted(Interrupted):
    """A signal ended a study. again: the command that goes on with it."""

    again = ""

    def __str__(self) -> str:
        return f"interrupted; what is done is kept. Go on with: {self.again}"


def run_study(
    spec: StudySpec, out: Path, workers: int = 1, progress: Progress = no_progress, command: str = ""
) -> dict[str, Any]:
    """Compute what is missing of a study, and write its folder; the folder of the same study is written again.

    Parameters
    ----------
    workers : processes; 1: this one alone.
    command : that goes on with the study, for people.

    Returns
    -------
    What `consilium study --format json` prints.

    Raises
    ------
    ConsiliumError : what is wrong, and what to do; what was done is kept. StudyInterrupted : at Ctrl-C, SIGTERM or
        SIGHUP, in the main thread.
    """
    began = time.monotonic()
    study = _Study(spec, workers, progress)
    study_folder(out, spec)
    try:
        with interruptible(), writing(out):
            study.carry_out(cache_folder(out))
            with stage(progress, REPORT):
                return study.write(out, time.monotonic() - began, command)
    except Interrupted as error:
        raised = StudyInterrupted(error.number)
        raised.again = command or f"consilium study {shlex.quote(spec.name)} --out {shlex.quote(str(out))}"
        raise raised from None
    finally:
        forget()


def in_workers(
    work: Callable[..., T], jobs: Mapping[K, tuple[Any, ...]], workers: int, tell: Callable[[int, int], None]
) -> dict[K, T]:
    """What `work` gives for each job, a tuple of its arguments. tell: called with how many are done, of how many.

    Raises
    ------
    EngineError : a worker process died.
    """
    if not jobs:
        return {}
    tell(0, len(jobs))
    done: dict[K, T] = {}
    pool: Any = Parallel(min(workers, len(jobs)), return_as="generator_unordered")
    try:
        with _worker_settings():
            for key, result in pool(delayed(_named)(key, work, given) for key, given in jobs.items()):
                done[key] = result
                tell(len(done), len(jobs))
    except BrokenProcessPool:
        raise EngineError(
            "a worker process ended, perhaps for want of memory",
            "What is done is kept: run it again with fewer --workers",
        ) from None
    return {key: done[key] for key in jobs}


def _named(key: K, work: Callable[..., T], given: tuple[Any, ...]) -> tuple[K, T]:
    before = os.umask(0o077)  # joblib's files are nobody else's to read, wherever their folder is moved to
    try:
        with one_thread():
            return key, work(*given)
    finally:
        os.umask(before)


@contextlib.contextmanager
def _worker_settings() -> Iterator[None]:
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"  # a module in the user's folder is none of a worker's
    try:
        with parallel_config("loky", inner_max_num_threads=1, initializer=begin_worker, initargs=(os.getpid(),)):
            yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


Opened = dict[str, dict[str, Any] | StudyFailure]
"""By `source_table`: what study.json says of a data set, its digest among it, or why it cannot be opened."""


def open_rows(cases: Sequence[Plot], progress: Progress = no_progress) -> Opened:
    """Open each data set once; one that cannot be opened fails its own plots alone."""
    opened: Opened = {}
    specs = {source_table(plot.teaching.data): plot.teaching.data for plot in cases}
    for done, (table, spec) in enumerate(specs.items()):
        progress(LOAD, done, len(specs))
        opened[table] = tried(functools.partial(_opened, spec))
    progress(LOAD, len(specs), len(specs))
    return opened


def _opened(spec: SourceSpec) -> dict[str, Any]:
    source = open_source(spec)
    words = {"set": spec.set, "title": source.title, "attribution": source.attribution}
    return words | {"digest": source_digest(source)}


def outlook(spec: StudySpec, out: Path) -> tuple[dict[str, Any], list[str]]:
    """What there is to do, as plain values and as lines for people. Data sets are opened, and nothing is computed.

    Raises
    ------
    ConfigError : see `cells.plots`.
    """
    methods, cases = compared(spec), plots(spec)
    rows = open_rows(cases)
    divisions = divisions_of(spec, cases, rows, str(out / "cache"))
    trained = sum(is_kept(division.cache, division.address) for division in divisions) if out.is_dir() else 0
    failed = list(dict.fromkeys(each for each in rows.values() if isinstance(each, StudyFailure)))
    facts = {"study": spec.name, "cells": len(cases) * len(methods), "cases": len(cases), "divisions": len(divisions)}
    lines = [
        f"{spec.name}: {facts['cells']:,} cells, {len(cases):,} cases",
        f"teachers of {len(divisions):,} divisions; trained already in {out}: {trained:,}",
        *(f"cannot be computed: {failure.what}" for failure in failed),
    ]
    return {**facts, "trained": trained, "failed": [asdict(failure) for failure in failed]}, lines


def divisions_of(spec: StudySpec, cases: Sequence[Plot], rows: Opened, cache: str) -> dict[Division, list[Plot]]:
    """The plots that share parties and teachers, those of one division after the other."""
    divisions: dict[Division, list[Plot]] = {}
    share = spec.study.home_share
    for plot in cases:
        if isinstance(opened := rows[source_table(plot.teaching.data)], dict):
            name = ensemble_address(plot.teaching, plot.seed, share, digest := opened["digest"])
            division = Division(cache, name, plot.teaching.model_dump_json(), digest, plot.seed, share)
            divisions.setdefault(division, []).append(plot)
    return divisions


class _Study:
    """A study on its way. settled, division: by id of a plot. parts: figures of each plot under the name of a method,
    or of what was measured. found: cells that were there already."""

    def __init__(self, spec: StudySpec, workers: int, progress: Progress) -> None:
        self.spec, self.workers, self.progress = spec, workers, progress
        self.methods, self.plots = compared(spec), plots(spec)
        self.rows: Opened = {}
        self.found = 0
        self.division: dict[str, Division] = {}
        self.settled: dict[str, dict[str, Any]] = {}
        self.parts: list[tuple[Plot, str, Part]] = []
        self.failed: list[dict[str, Any]] = []

    def carry_out(self, cache: Path) -> None:
        """Compute all that there is; what fails is told, and ends nothing else.

        Raises
        ------
        ConfigError : everything failed.
        """
        self.rows = open_rows(self.plots, self.progress)
        for plot in self.plots:
            if isinstance(opened := self.rows[source_table(plot.teaching.data)], StudyFailure):
                self._take(plot, "", opened)
        divisions = divisions_of(self.spec, self.plots, self.rows, str(cache))
        methods = {label: method.model_dump(mode="json") for label, method in self.methods.items()}
        measures = self.spec.study.measures
        given = {division: (division, cases, methods, measures) for division, cases in divisions.items()}
        cells = self._cells(divisions, methods, self._each(ENSEMBLES, prepare, given))
        self.found = sum(is_kept(str(cache), job.address) for _, job in cells)
        judged = self._each(COMPARE, compute, {job.address: (job,) for _, job in cells})
        for plot, job in cells:
            self._take(plot, job.label, judged[job.address])
        if "gain" in measures:
            self._gains([(plot, job) for plot, job in cells if isinstance(judged[job.address], Part)])
        if not self.parts:
            first = self.failed[0]
            raise ConfigError(
                f"no cell of the study can be computed. {first['place']}: {first['what']}", first["action"]
            )

    def _cells(
        self,
        divisions: Mapping[Division, list[Plot]],
        methods: Mapping[str, Mapping[str, Any]],
        prepared: Mapping[Division, Prepared],
    ) -> list[tuple[Plot, MethodJob]]:
        """What is to be computed of each plot that is settled; those of one division after the other."""
        cells: list[tuple[Plot, MethodJob]] = []
        for division, cases in divisions.items():
            ready = prepared[division]
            for plot in cases:
                settled = ready.settled[plot.id]
                if isinstance(settled, StudyFailure):
                    self._take(plot, "", settled)
                    continue
                self.settled[plot.id], self.division[plot.id] = settled, division
                for name, part in ready.measured:
                    self._take(plot, name, part)
                for label, method in self.methods.items():
                    if ready.untrained is not None and method.needs_ensemble:
                        self._take(plot, label, ready.untrained)
                        continue
                    worth = self.spec.study.hand_labels if method.private else "none"
                    known = settled["scenario"], settled["depends"][label]
                    cells.append((plot, MethodJob(division, label, methods[label], *known, worth)))
        return cells

    def _gains(self, cells: Sequence[tuple[Plot, MethodJob]]) -> None:
        """Once for plots whose methods say the same."""
        jobs: dict[str, list[MethodJob]] = {}
        for plot, job in cells:
            jobs.setdefault(plot.id, []).append(job)
        same = {id: tuple(job.predicted for job in mine) for id, mine in jobs.items()}
        gained = self._each(MEASURE, gain, {same[id]: (self.division[id], mine) for id, mine in jobs.items()})
        for plot in self.plots:
            if plot.id in same:
                self._take(plot, "gain", gained[same[plot.id]])

    def _each(self, name: str, work: Callable[..., T], jobs: Mapping[K, tuple[Any, ...]]) -> dict[K, T]:
        return in_workers(work, jobs, self.workers, lambda done, total: self.progress(name, done, total))

    def _take(self, plot: Plot, method: str, part: Part | StudyFailure) -> None:
        """method: "" where nothing of the plot could be done."""
        if isinstance(part, Part):
            self.parts.append((plot, method, part))
            return
        why = f"{part.what}. {part.action}" if part.action else part.what
        place = f"{plot}, {method}" if method else str(plot)
        entry = {
            "axes": dict(plot.axes),
            "seed": plot.seed,
            "method": method,
            "place": place,
            "why": why,
            **asdict(part),
        }
        if entry not in self.failed:
            self.failed.append(entry)

    def write(self, out: Path, seconds: float, command: str) -> dict[str, Any]:
        """The study's folder; what the command prints."""
        from consilium.simulations.study.report.build import write_study_report  # libraries that drawing alone needs

        stated = {
            (plot, label): guarantee
            for plot, settled in self.settled.items()
            for label, guarantee in settled["guarantees"].items()
        }
        write_results(out, tidy([(plot, method, part.frame) for plot, method, part in self.parts], self.spec, stated))
        scored = [(plot, method, part.scores) for plot, method, part in self.parts if part.scores]
        write_row_scores(
            out, {cell_id(plot, method): (self.division[plot.id].data, scores) for plot, method, scores in scored}
        )
        facts = self._facts(seconds, command)
        write_facts(out, facts)
        return strict(
            {
                "study": self.spec.name,
                "out": str(out),
                **{name: facts[name] for name in ("cells", "found", "failed", "warnings", "seconds")},
                "cases": len(self.plots),
                "absent": len(facts["absent"]),
                "results": str(out / RESULTS),
                "answers": write_study_report(out, out / PAGE),
                "report": str(out / PAGE),
            }
        )

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
            warning = {"code": "parties-left-out", "text": f"{plot}: {text}"}
            warning |= {"made": divided, "too_small": out, "least_rows": least, "points": []}
            key = f"{self.division[plot.id].address} {text}"
            warnings.setdefault(key, warning)["points"].append(dict(plot.axes))
        for warning in warnings.values():
            if more := len(warning["points"]) - 1:
                warning["text"] += f" (the same at {more} further {'point' if more == 1 else 'points'})"
        return list(warnings.values())

    def _facts(self, seconds: float, command: str) -> dict[str, Any]:
        """What study.json says."""
        spec = self.spec
        return {
            "status": "complete",
            "title": spec.title,
            "description": spec.study.description.strip(),
            "spec": spec.model_dump(mode="json", by_alias=True),
            "spec_digest": spec.digest(),
            "command": command,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "axes": {axis.column: list(points_of(axis)) for axis in spec.axis},
            "seeds": list(spec.seeds),
            "cells": len(self.plots) * len(self.methods),
            "found": self.found,
            "failed": self.failed,
            "absent": [
                {"axes": dict(plot.axes), "seed": plot.seed, "method": method, "why": part.absent}
                for plot, method, part in self.parts
                if part.absent
            ],
            "warnings": self._warnings(),
            "data": [opened for opened in self.rows.values() if isinstance(opened, dict)],
            "seconds": round(seconds, 1),
            "workers": self.workers,
        }
