"""What a study computes, in worker processes: of each division its teachers and measures, then the cells of it.

Whatever is done lies in the study's folder (joblib.Memory) under the digest of all that decides it. So a study that was
cut short, and is run again, finds it."""

from __future__ import annotations

import functools
import itertools
import json
import logging
import math
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from joblib import Memory

from consilium.accounting.errors import AccountingError
from consilium.coordinator.mechanisms import noise_scales
from consilium.protocol.config_files import validate
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConsiliumError, DataError, StorageError
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.divide import Case, make_case
from consilium.simulations.judge import Row, judged, judged_row_scores
from consilium.simulations.methods.base import Arrays, Predicted, StudyMethod
from consilium.simulations.methods.manual_labels import ManualLabels, PublicTruth
from consilium.simulations.population.specs import ManualLabelMode
from consilium.simulations.scenario import Scenario
from consilium.simulations.study.cells import Plot, address
from consilium.simulations.study.measures.division import division_rows
from consilium.simulations.study.measures.gain import gain_rows
from consilium.simulations.study.measures.votes import teacher_rows
from consilium.simulations.vote import Ensemble, train_ensemble

T = TypeVar("T")


@dataclass(frozen=True)
class StudyFailure:
    """Why something has no result. type: the error's class. known: a mistake or a limit, no fault of the program."""

    type: str
    what: str
    action: str = ""
    known: bool = True


def failure_of(error: Exception) -> StudyFailure:
    """What may be told of an error: the text of one that nobody foresaw might quote a row."""
    name = type(error).__name__
    if isinstance(error, ConsiliumError):
        return StudyFailure(name, error.what, error.action)
    if isinstance(error, AccountingError):
        return StudyFailure(name, *error.told())
    if isinstance(error, MemoryError):
        return StudyFailure(name, "there is not enough memory", "Run it with fewer --workers")
    frames = traceback.extract_tb(error.__traceback__)
    line = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return StudyFailure(name, f"internal error: {name}{line}", "Report this line", known=False)


def tried(make: Callable[..., T], *given: Any) -> T | StudyFailure:
    """What it gives; what is wrong with one thing ends no other. A full disk is wrong with all: nothing can be kept."""
    try:
        return make(*given)
    except StorageError:
        raise
    except Exception as error:
        return failure_of(error)


_FULL = "Unable to cache to disk"  # as joblib begins to say that a disk is full, or broken


def _made(address: str, make: Callable[[], Any]) -> Any:
    return make()


@functools.lru_cache(maxsize=1)
def _memory(cache: str) -> Any:
    logging.getLogger("joblib").setLevel(logging.ERROR)  # what is damaged is made anew, without a traceback
    return Memory(cache, verbose=0).cache(_made, ignore=["make"])


def kept(cache: str, name: str, make: Callable[[], T]) -> T:
    """What lies in this folder under this address, else what `make` gives, which then lies there. Raises StorageError:
    the disk is full, so that the study could not go on after an interruption."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", _FULL)
        try:
            return _memory(cache)(name, make)
        except Warning as warning:
            if not str(warning).startswith(_FULL):
                raise
            raise StorageError(f"cannot write {cache}", "Make room on its disk, and run it again") from None


def is_kept(cache: str, name: str) -> bool:
    """Whether something lies there."""
    return _memory(cache).check_call_in_cache(name, None)


def recalled(cache: str, name: str) -> Part | None:
    """What lies there; None where nothing does, or it is damaged."""

    def lost() -> Part:
        raise LookupError

    part = tried(kept, cache, name, lost) if is_kept(cache, name) else None
    return part if isinstance(part, Part) else None


@dataclass(frozen=True)
class Division:
    """Parties with their rows and their teachers, which several points of a study may share. address: of what the
    teachers say. teaching: see `cells.teaching`. data: digest of the rows."""

    cache: str
    address: str
    teaching: Scenario = field(repr=False, compare=False)
    data: str
    seed: int
    home_share: float

    @property
    def ensemble(self) -> Ensemble:
        """What its teachers say. Raises what kept them from it, which is found out once."""
        trained = _ensemble(self)
        if isinstance(trained, Exception):
            raise trained
        return trained


def source_table(data: SourceSpec) -> str:
    """Of the table `[data]` what says which rows there are, as JSON."""
    return json.dumps(data.model_dump(mode="json", include=set(SourceSpec.model_fields)))


@functools.lru_cache(maxsize=1)
def _source(table: str, data: str) -> Source:
    return open_source(validate(json.loads(table), SourceSpec, "data of a study"))


@functools.lru_cache(maxsize=2)
def _case(division: Division) -> Case:
    """With no mechanism of its own: what is computed of it holds for every mechanism."""
    source = _source(source_table(division.teaching.data), division.data)
    return make_case(division.teaching, division.seed, division.home_share, source)


@functools.lru_cache(maxsize=2)
def _ensemble(division: Division) -> Ensemble | Exception:
    try:
        return kept(division.cache, division.address, lambda: train_ensemble(_case(division)))
    except Exception as error:
        return error


def forget() -> None:
    """Let go of what this process has read and made for the next piece of work."""
    for recent in (_source, _case, _ensemble, _settled, _measured):
        recent.cache_clear()


@dataclass(frozen=True)
class Part:
    """What is kept of a cell or a measure. frame: of `Row`. Of a cell alone: scores on test rows (`judge.unit_arrays`);
    absent: why there is no such method; guarantee, of unit "none" where there is none; how many parties take part, or
    were too small; seconds, with all that was made for it."""

    frame: pl.DataFrame = field(repr=False)
    scores: Arrays = field(repr=False, default_factory=dict)
    absent: str = ""
    guarantee: Mapping[str, Any] = field(default_factory=dict)
    parties: int = 0
    left_out: int = 0
    seconds: float = 0.0


def _frame(rows: list[Row]) -> pl.DataFrame:
    texts = dict.fromkeys(("method", "scope", "name", "metric"), pl.String)
    numbers = dict.fromkeys(("value", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema={**texts, **numbers}, orient="row")


@dataclass(frozen=True)
class GridCell:
    """One method at one point with one seed. manual_labels: whether those that it is worth are counted."""

    division: Division
    plot: Plot
    label: str
    method: StudyMethod
    manual_labels: ManualLabelMode

    @functools.cached_property
    def address(self) -> str:
        """Of its `Part`."""
        method = self.method.model_dump(mode="json")
        decides = {"plot": self.plot.id, "label": self.label, "method": method, "manual_labels": self.manual_labels}
        return address("cell", of=self.division.address, **decides)


MEASURES: dict[str, Callable[[Division], list[Row]]] = {
    "division": lambda of: division_rows(_case(of)),
    "teachers": lambda of: teacher_rows(_case(of), of.ensemble),
}
"""What is measured of a division, by what its rows are called as methods are."""
Result = tuple[Plot, str, Part | StudyFailure]
"""What there is of a plot under the name of a method, or of what was measured; "" where nothing of it can be done."""


def compute(division: Division, cells: Sequence[GridCell], measures: Sequence[str]) -> list[Result]:
    """All of one division, in one process: cells share its teachers, and what they say."""
    results: list[Result] = []
    began = time.monotonic()
    for plot, group in itertools.groupby(cells, lambda cell: cell.plot):
        mine = list(group)
        if not all(is_kept(division.cache, cell.address) for cell in mine):
            settled = tried(_settled, division, plot)
            if isinstance(settled, StudyFailure):
                results.append((plot, "", settled))
                continue
        for name in MEASURES:
            if name in measures:
                results.append((plot, name, tried(_measured, division, name)))
        judged: list[GridCell] = []
        for cell in mine:
            part = tried(_judged, cell, began)
            results.append((plot, cell.label, part))
            judged += [cell] if isinstance(part, Part) else []
            began = time.monotonic()
        if judged and "gain" in measures:
            results.append((plot, "gain", tried(_gain, division, judged)))
    return results


@functools.lru_cache(maxsize=1)
def _settled(division: Division, plot: Plot) -> Case:
    """The case of a plot, with its noise calibrated, which may take seconds."""
    federation = _within_rows(plot.table["federation"], len(set(_case(division).pool_ids)))
    return _case(division).of(validate({**plot.table, "federation": federation}, Scenario, "scenario"))


def _within_rows(federation: Mapping[str, Any], rows: int) -> Mapping[str, Any]:
    """Where noise is yet to be calibrated, the query budget is the number of different public `rows` if it is above, so
    that no noise is paid for queries that cannot be asked: one study has one budget for many divisions."""
    mechanism, budget = federation["mechanism"], federation["query_budget"]
    stated = set(noise_scales(mechanism["name"])) & mechanism.keys()
    if stated or federation["privacy"].get("epsilon") is None:
        return federation
    return {**federation, "query_budget": {key: min(count, rows) for key, count in budget.items()}}


@functools.lru_cache(maxsize=len(MEASURES))
def _measured(division: Division, name: str) -> Part:
    place, made = address("measure", of=division.address, name=name), MEASURES[name]
    return kept(division.cache, place, lambda: Part(_frame(made(division))))


def _judged(cell: GridCell, began: float) -> Part:
    """began: when the work began that nothing else has counted yet."""

    def part() -> Part:
        case, predicted = _settled(cell.division, cell.plot), _predicted(cell)
        rows = judged(cell.label, case, predicted)
        if cell.manual_labels != "none" and predicted.test is not None and manual_labels(case).quick:
            rows.append(_worth(cell, case, predicted.test))
        scores = {} if predicted.absent else judged_row_scores(case, predicted)
        stated, counts = cell.method.guarantee(case), (len(case.parties), case.partition.left_out)
        guarantee = stated.to_json() if stated else {"unit": "none"}
        return Part(_frame(rows), scores, predicted.absent, guarantee, *counts, time.monotonic() - began)

    return kept(cell.division.cache, cell.address, part)


def _predicted(cell: GridCell) -> Predicted:
    """What a method says: the same at all points of a division that it does not depend on."""
    division, method = cell.division, cell.method
    case = _settled(division, cell.plot)

    def made() -> Predicted:
        return _finite(method.predict(case, division.ensemble if method.needs_ensemble else None))

    decides = {"method": method.model_dump(mode="json"), "depends": canonical_digest(method.depends_on(case))}
    return kept(division.cache, address("predict", of=division.address, **decides), made)


def _gain(division: Division, cells: Sequence[GridCell]) -> Part:
    """Who gains at home by these methods at one point."""

    def made() -> Part:
        return Part(_frame(gain_rows(_case(division), {cell.label: _predicted(cell) for cell in cells})))

    return kept(division.cache, address("gain", cells=[cell.address for cell in cells]), made)


def _finite(predicted: Predicted) -> Predicted:
    arrays = {"test": predicted.test, "home": predicted.home}
    wrong = [name for name, value in predicted.figures.items() if np.isnan(value)]
    wrong += [name for name, array in arrays.items() if array is not None and not np.isfinite(array).all()]
    if wrong:
        fault = f"the method gives no number for {', '.join(wrong)}"
        raise DataError(fault, "See whether its settings let it learn at all")
    return predicted


def _worth(cell: GridCell, case: Case, test: np.ndarray) -> Row:
    """The number of manual labels that reach the model."""
    labels, *ends = (manual := manual_labels(case)).equivalent(test, case.seed)
    if math.isinf(labels):
        return Row(cell.label, "run", "", "manual_labels_above", float(manual.counts[-1]))
    low, high = (None if math.isinf(end) else end for end in ends)
    return Row(cell.label, "run", "", "manual_labels", labels, low, high)


def manual_labels(case: Case) -> ManualLabels:
    """The public rows that somebody labels instead: the same for every mechanism and method of a division."""
    student, none = case.scenario.student, np.zeros(0, dtype=np.int64)  # none are learned as a student chose them
    public = PublicTruth(case.config.rows, case.pool_x, case.pool_y, case.test_x, case.test_y)
    name = f"manual labels {student.model_dump_json()}"
    return case.once(name, lambda: ManualLabels(public, student, none, case.seed))
