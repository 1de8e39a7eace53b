"""What a study computes, as plain functions of plain values: a division's teachers, a cell's figures, who gains.

What several of them need, and what each of them gives, lies in the study's folder (joblib.Memory) under the digest of
all that decides it. So a study that was cut short, and is run again, finds what is done.
"""

from __future__ import annotations

import functools
import json
import math
import traceback
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
from consilium.protocol.errors import ConsiliumError, DataError
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.divide import Case, make_case
from consilium.simulations.judge import Row, judged, judged_row_scores
from consilium.simulations.methods.base import Arrays, Predicted
from consilium.simulations.methods.kinds import method_of
from consilium.simulations.methods.manual_labels import HandLabels, PublicTruth
from consilium.simulations.methods.worth import labels_reaching
from consilium.simulations.population.specs import HandLabelMode
from consilium.simulations.scenario import Scenario, scenario_json
from consilium.simulations.study.cells import Plot, deciding_versions
from consilium.simulations.study.measures.division import division_rows
from consilium.simulations.study.measures.gain import gain_rows
from consilium.simulations.study.measures.votes import influence_rows, teacher_rows
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


def tried(make: Callable[[], T]) -> T | StudyFailure:
    """What it gives; what is wrong with one thing ends no other."""
    try:
        return make()
    except Exception as error:
        return failure_of(error)


def address(kind: str, **decides: Any) -> str:
    """Under which a result lies: SHA-256 in hex of plain data that decides it, and of the versions that compute it."""
    return canonical_digest({"kind": kind, "versions": deciding_versions(), **decides})


def _made(address: str, make: Callable[[], Any]) -> Any:
    return make()


def _memory(cache: str) -> Any:
    return Memory(cache, verbose=0).cache(_made, ignore=["make"])


def kept(cache: str, name: str, make: Callable[[], T]) -> T:
    """What lies in this folder under this address, else what `make` gives, which then lies there."""
    return _memory(cache)(name, make)


def is_kept(cache: str, name: str) -> bool:
    """Whether something lies there."""
    return _memory(cache).check_call_in_cache(name, None)


@dataclass(frozen=True)
class Division:
    """Parties with their rows and their teachers, which several points of a study may share.

    cache: folder. address: of what the teachers say. teaching: the scenario (`cells.teaching`) as JSON. data: digest of
    the rows that are divided.
    """

    cache: str
    address: str
    teaching: str = field(repr=False)
    data: str
    seed: int
    home_share: float

    @property
    def case(self) -> Case:
        """With no mechanism of its own: what is computed of it holds for every mechanism."""
        return _case(self)

    @property
    def ensemble(self) -> Ensemble:
        """What its teachers say."""
        return _ensemble(self)

    def kept(self, kind: str, make: Callable[[], T], **decides: Any) -> T:
        """What was computed of it, or what `make` gives. decides: what else does."""
        return kept(self.cache, address(kind, of=self.address, **decides), make)


def source_table(data: SourceSpec) -> str:
    """Of the table `[data]` what says which rows there are, as JSON."""
    return json.dumps(data.model_dump(mode="json", include=set(SourceSpec.model_fields)))


@functools.lru_cache(maxsize=1)
def _source(table: str, data: str) -> Source:
    return open_source(validate(json.loads(table), SourceSpec, "data of a study"))


@functools.lru_cache(maxsize=2)
def _case(division: Division) -> Case:
    scenario = validate(json.loads(division.teaching), Scenario, "scenario of a study")
    source = _source(source_table(scenario.data), division.data)
    return make_case(scenario, division.seed, division.home_share, source)


@functools.lru_cache(maxsize=2)
def _ensemble(division: Division) -> Ensemble:
    return kept(division.cache, division.address, lambda: train_ensemble(division.case))


def forget() -> None:
    """Let go of what this process has read and made for the next piece of work."""
    for recent in (_source, _case, _ensemble):
        recent.cache_clear()


@dataclass(frozen=True)
class Part:
    """Figures: frame has method, scope, name, metric, value, low, high. scores: of a method on test rows, what units of
    these add (`judge.unit_arrays`). absent: why a method has none."""

    frame: pl.DataFrame = field(repr=False)
    scores: Arrays = field(repr=False, default_factory=dict)
    absent: str = ""

    @classmethod
    def of(cls, rows: Sequence[Row], scores: Arrays | None = None, absent: str = "") -> Part:
        """Of these rows."""
        texts = dict.fromkeys(("method", "scope", "name", "metric"), pl.String)
        numbers = dict.fromkeys(("value", "low", "high"), pl.Float64)
        return cls(pl.DataFrame(rows, schema={**texts, **numbers}, orient="row"), scores or {}, absent)


@dataclass(frozen=True)
class Prepared:
    """Of a division. settled: by id of a plot what `settle` gives. measured: by what its rows are called, its figures.
    untrained: why its teachers say nothing."""

    settled: dict[str, dict[str, Any] | StudyFailure] = field(repr=False)
    measured: list[tuple[str, Part | StudyFailure]] = field(repr=False)
    untrained: StudyFailure | None = None


MEASURES: dict[str, tuple[str, Callable[[Division], list[Row]]]] = {
    "division": ("division", lambda of: division_rows(of.case)),
    "teachers": ("teachers", lambda of: teacher_rows(of.case, of.ensemble)),
    "influence": ("teachers", lambda of: influence_rows(of.case, of.ensemble)),
}
"""What is measured of a division: what its rows are called as methods are, and how."""


def prepare(
    division: Division, plots: Sequence[Plot], methods: Mapping[str, Mapping[str, Any]], measures: Sequence[str]
) -> Prepared:
    """Divide, train, measure, and settle what scenarios leave open. methods: by label, their keys."""

    def settled(plot: Plot) -> dict[str, Any]:
        decides = {"table": dict(plot.table), "methods": dict(methods)}
        return division.kept("settle", lambda: settle(division.case, plot.table, methods), **decides)

    at_plots = {plot.id: tried(functools.partial(settled, plot)) for plot in plots}
    if all(isinstance(each, StudyFailure) for each in at_plots.values()):
        return Prepared(at_plots, [])
    trained = tried(lambda: division.ensemble)
    untrained = trained if isinstance(trained, StudyFailure) else None

    def measured(name: str) -> Part:
        return division.kept("measure", lambda: Part.of(MEASURES[name][1](division)), name=name)

    asked = [(name, of) for name, (of, _) in MEASURES.items() if name in measures]
    parts = [
        (of, untrained if untrained and of == "teachers" else tried(functools.partial(measured, name)))
        for name, of in asked
    ]
    return Prepared(at_plots, parts, untrained)


def settle(case: Case, table: Mapping[str, Any], methods: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The scenario of this table with its noise calibrated; for each method the digest of what it depends on, and what
    it guarantees; and how many parties the division made and left out."""
    federation = _within_rows(table["federation"], len(set(case.pool_ids)))
    settled = case.of(validate({**table, "federation": federation}, Scenario, "scenario"))
    compared = {label: method_of(dict(keys)) for label, keys in methods.items()}
    stated = {label: method.guarantee(settled) for label, method in compared.items()}
    return {
        "scenario": scenario_json(settled.scenario),
        "depends": {label: canonical_digest(method.depends_on(settled)) for label, method in compared.items()},
        "guarantees": {label: guarantee and guarantee.to_json() for label, guarantee in stated.items()},
        "parties": len(case.parties),
        "left_out": case.partition.left_out,
    }


def _within_rows(federation: Mapping[str, Any], rows: int) -> Mapping[str, Any]:
    """A federation whose noise is yet to be calibrated asks each of the different public `rows` once at most: its query
    budget is theirs where it is above, so that no noise is paid for queries that cannot be asked. One study has one
    budget for many divisions."""
    mechanism, budget = federation["mechanism"], federation["query_budget"]
    stated = set(noise_scales(mechanism["name"])) & mechanism.keys()
    if stated or federation["privacy"].get("epsilon") is None:
        return federation
    return {**federation, "query_budget": {key: min(count, rows) for key, count in budget.items()}}


@dataclass(frozen=True)
class MethodJob:
    """One method on one division, for all points at which it gives the same. method: its keys. scenario: settled.
    hand_labels: how labels by hand are tried that its model is worth, "none" where they are not."""

    division: Division
    label: str
    method: Mapping[str, Any] = field(repr=False)
    scenario: Mapping[str, Any] = field(repr=False)
    depends: str
    hand_labels: HandLabelMode

    @property
    def predicted(self) -> str:
        """Address of what the method predicts."""
        return address("predict", of=self.division.address, method=self.method, depends=self.depends)

    @property
    def address(self) -> str:
        """Address of its figures."""
        learning = {"student": self.scenario["student"], "budget": self.scenario["federation"]["query_budget"]}
        worth = {} if self.hand_labels == "none" else {"hand_labels": self.hand_labels, **learning}
        return address("cell", predicted=self.predicted, label=self.label, **worth)

    def predict(self) -> tuple[Case, Predicted]:
        """What it says, and of which case."""
        method = method_of(dict(self.method))
        case = self.division.case.of(validate(dict(self.scenario), Scenario, "scenario of a study"))

        def made() -> Predicted:
            return _finite(method.predict(case, self.division.ensemble if method.needs_ensemble else None))

        return case, kept(self.division.cache, self.predicted, made)


def _finite(predicted: Predicted) -> Predicted:
    wrong = [name for name, value in predicted.figures.items() if np.isnan(value)]
    for name in ("test", "home"):
        array = getattr(predicted, name)
        if array is not None and not np.isfinite(array).all():
            wrong.append(name)
    if wrong:
        raise DataError(
            f"the method gives no number for {', '.join(wrong)}", "See whether its settings let it learn at all"
        )
    return predicted


def compute(job: MethodJob) -> Part | StudyFailure:
    """The figures of a cell."""
    return tried(lambda: kept(job.division.cache, job.address, lambda: _judged(job)))


def _judged(job: MethodJob) -> Part:
    case, predicted = job.predict()
    if predicted.absent:
        return Part.of([], absent=predicted.absent)
    rows = judged(job.label, case, predicted)
    if job.hand_labels != "none" and predicted.test is not None:
        rows.append(_worth(job, case, predicted.test))
    return Part.of(rows, judged_row_scores(case, predicted))


def _worth(job: MethodJob, case: Case, test: np.ndarray) -> Row:
    """The number of labels by hand that reach the model."""
    even = labels_reaching(by_hand := hand_labels(case, job.hand_labels), test, case.seed)
    if math.isinf(even.labels):
        return Row(job.label, "run", "", "hand_labels_above", float(by_hand.most))
    low, high = (None if math.isinf(end) else end for end in (even.low, even.high))
    return Row(job.label, "run", "", "hand_labels", even.labels, low, high)


def hand_labels(case: Case, mode: HandLabelMode) -> HandLabels:
    """The public rows that somebody labels instead: the same for every mechanism and method of a division."""
    student = case.scenario.student
    public = PublicTruth(case.config.rows, case.pool_x, case.pool_y, case.test_x, case.test_y)
    none = np.zeros(0, dtype=np.int64)  # nothing is learned here on rows as a student chose them
    name = f"labels by hand {mode} {student.model_dump_json()}"
    return case.once(name, lambda: HandLabels(public, student, none, case.seed, mode))


def gain(division: Division, jobs: Sequence[MethodJob]) -> Part | StudyFailure:
    """Who gains at home by these methods on one division."""

    def gained() -> Part:
        said = {job.label: job.predict()[1] for job in jobs}
        return Part.of(gain_rows(division.case, said))

    return tried(lambda: division.kept("gain", gained, predicted={job.label: job.predicted for job in jobs}))
