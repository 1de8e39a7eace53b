"""The steps of a study as functions from what they need to bytes: in this process, another, or on another machine."""

from __future__ import annotations

import json
import math
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from consilium.accounting.errors import AccountingError
from consilium.coordinator.mechanisms.calibration import KINDS as MECHANISMS
from consilium.coordinator.mechanisms.calibration import noise_scales
from consilium.models.devices import one_thread
from consilium.node.progress import COMPARE, ENSEMBLES, MEASURE, SETTLE
from consilium.protocol.config_files import validate
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConsiliumError, DataError
from consilium.simulations.artifact import Arrays, from_bytes, to_bytes
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.source import open_source
from consilium.simulations.divide import Case, make_case
from consilium.simulations.judge import Row, judged, judged_row_scores
from consilium.simulations.methods.base import Predicted
from consilium.simulations.methods.kinds import method_of
from consilium.simulations.methods.manual_labels import HandLabels, PublicTruth
from consilium.simulations.methods.worth import labels_reaching
from consilium.simulations.scenario import Scenario, scenario_json
from consilium.simulations.study.cache import LostStep
from consilium.simulations.study.cells import deciding_versions
from consilium.simulations.study.measures.division import division_matrices, division_rows
from consilium.simulations.study.measures.gain import gain_rows
from consilium.simulations.study.measures.influence import influence_rows
from consilium.simulations.study.measures.votes import teacher_matrices, teacher_rows
from consilium.simulations.study.sources import unpacked
from consilium.simulations.vote import Ensemble, train_ensemble

_TEXTS, _NUMBERS = ("method", "scope", "name", "metric"), ("value", "low", "high")
ABSENT = "absent"
"""In place of a matrix: why a method has no rows."""
_ROWS, _MATRIX = "rows.", "matrix."


def rows_bytes(rows: Sequence[Row], matrices: Mapping[str, np.ndarray] | None = None) -> bytes:
    """Rows, and matrices for pictures, as one artifact."""
    arrays: Arrays = {}
    for name in _TEXTS:
        arrays[_ROWS + name] = np.array([getattr(row, name) for row in rows], dtype=str)
    for name in _NUMBERS:
        numbers = (getattr(row, name) for row in rows)
        arrays[_ROWS + name] = np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)
    arrays |= {_MATRIX + name: matrix for name, matrix in (matrices or {}).items()}
    return to_bytes(arrays)


def frame_and_matrices(content: bytes) -> tuple[pl.DataFrame, Arrays]:
    """The rows of an artifact (method, scope, name, metric, value, low, high; NaN where there is no number), and its
    matrices. Raises DataError."""
    arrays = from_bytes(content)
    texts = [pl.Series(name, arrays[_ROWS + name].tolist(), dtype=pl.String) for name in _TEXTS]
    numbers = [pl.Series(name, arrays[_ROWS + name], dtype=pl.Float64) for name in _NUMBERS]
    matrices = {name.removeprefix(_MATRIX): array for name, array in arrays.items() if name.startswith(_MATRIX)}
    return pl.DataFrame([*texts, *numbers]), matrices


T = TypeVar("T")
Read = Callable[[str], bytes]
"""From the address of a step to its bytes; raises LostStep."""
KEPT = {"source": 1, "division": 2, "case": 128, "ensemble": 2, "scenario": 128, "predicted": 8, "labelled": 2}
"""Kind -> how many of it are kept. Cases of a division share its rows, and their scenarios come back: what is settled
in one batch is predicted in another."""


class StepDesk:
    """What a process has read and made for steps, so that it does it once for what is used several times in a row."""

    def __init__(self) -> None:
        self._kept: dict[str, OrderedDict[str, Any]] = {kind: OrderedDict() for kind in KEPT}

    def case(self, table: Mapping[str, Any], params: Mapping[str, Any], read: Read) -> Case:
        """The division that `params` name, with a scenario in full form for everything else."""
        scenario = self.scenario(table)
        key = params["division"]
        divided = self.divided(params, read)
        return self._keep("case", f"{key} {canonical_digest(dict(table))}", lambda: divided.of(scenario))

    def divided(self, params: Mapping[str, Any], read: Read) -> Case:
        """The division that `params` name, whatever is asked of its teachers."""
        return self._keep("division", params["division"], lambda: self._divided(params, read))

    def _divided(self, params: Mapping[str, Any], read: Read) -> Case:
        scenario = self.scenario(params["teaching"])
        return make_case(scenario, params["seed"], params["home_share"], self.source(scenario, params, read))

    def source(self, scenario: Scenario, params: Mapping[str, Any], read: Read) -> Source:
        """The rows: those that travelled under the address in `params`, else opened by name."""
        travels = params["source"]
        if travels is None:
            name = canonical_digest(scenario.data.model_dump(mode="json"))
            return self._keep("source", name, lambda: open_source(scenario.data))
        return self._keep("source", travels, lambda: unpacked(read(travels)))

    def scenario(self, table: Mapping[str, Any]) -> Scenario:
        """From its full form."""
        key = canonical_digest(dict(table))
        return self._keep("scenario", key, lambda: validate(dict(table), Scenario, "scenario of a study"))

    def ensemble(self, address: str, read: Read) -> Ensemble:
        """What the teachers said."""
        return self._keep("ensemble", address, lambda: Ensemble.of_arrays(from_bytes(read(address))))

    def predicted(self, address: str, read: Read) -> Predicted:
        """What a method predicted."""
        return self._keep("predicted", address, lambda: Predicted.of_arrays(from_bytes(read(address))))

    def labelled(self, case: Case, params: Mapping[str, Any]) -> HandLabels:
        """The public rows that somebody labels instead: the same for every mechanism and method of a division."""
        student, mode = case.scenario.student, params["mode"]
        key = canonical_digest([params["division"], student.model_dump(mode="json"), mode])
        public = PublicTruth(case.config.rows, case.pool_x, case.pool_y, case.test_x, case.test_y)
        none = np.zeros(0, dtype=np.int64)  # nothing is learned here on rows as a student chose them
        return self._keep("labelled", key, lambda: HandLabels(public, student, none, case.seed, mode))

    def _keep(self, kind: str, key: str, make: Callable[[], T]) -> T:
        recent = self._kept[kind]
        if key in recent:
            recent.move_to_end(key)
        else:
            while len(recent) >= KEPT[kind]:
                recent.popitem(last=False)  # before the next is made: both may be large
            recent[key] = make()
        return recent[key]


@dataclass(frozen=True)
class StudyStep:
    """One thing to compute, and all that it takes.

    address: of its result. kind: which function. label: the same in more words, for times that are alike. params: plain
    data. needs: addresses of results that it reads, by what they are to it.
    """

    address: str
    kind: str
    label: str
    params: Mapping[str, Any] = field(repr=False)
    needs: Mapping[str, str] = field(repr=False, default_factory=dict)

    @property
    def reads(self) -> set[str]:
        """Addresses of everything that it reads, rows that travel among them."""
        source = self.params["source"]
        return {*self.needs.values(), *([] if source is None else [source])}


@dataclass(frozen=True)
class StepFailure:
    """Why a step has no result. type: the error's class. known: a mistake or a limit, no fault of the program."""

    type: str
    message: str
    action: str = ""
    known: bool = True

    def to_json(self) -> dict[str, Any]:
        """As study.json has it."""
        return {"type": self.type, "what": self.message, "action": self.action, "known": self.known}


@dataclass(frozen=True)
class StepDone:
    """What became of a step: `content`, or why there is none. lost: address that it needed and that is gone."""

    address: str
    content: bytes | None = field(repr=False, default=None)
    seconds: float = 0.0
    failure: StepFailure | None = None
    lost: str = ""


@dataclass(frozen=True)
class BatchDone:
    """versions: of what computed it, see `cells.deciding_versions`. node: of a cluster, "" for this machine."""

    steps: list[StepDone]
    versions: Mapping[str, str]
    node: str = ""


def compute_batch(steps: Sequence[StudyStep], read: Read, desk: StepDesk, node: str = "") -> BatchDone:
    """Do steps one after the other; what is wrong with one does not touch the others."""
    with one_thread():
        return BatchDone([_done(step, read, desk) for step in steps], deciding_versions(), node)


def _done(step: StudyStep, read: Read, desk: StepDesk) -> StepDone:
    began = time.perf_counter()
    try:
        content = KINDS[step.kind].compute(step, read, desk)
    except LostStep as error:
        return StepDone(step.address, lost=error.address)
    except Exception as error:
        return StepDone(step.address, failure=failure_of(error))
    return StepDone(step.address, content, time.perf_counter() - began)


def failure_of(error: Exception) -> StepFailure:
    """What may be told of an error: the text of one that nobody foresaw might quote a row."""
    name = type(error).__name__
    if isinstance(error, ConsiliumError):
        return StepFailure(name, error.what, error.action)
    if isinstance(error, AccountingError):
        return StepFailure(name, *error.told())
    if isinstance(error, MemoryError):
        return StepFailure(name, "there is not enough memory", "Run it with fewer --workers")
    frames = traceback.extract_tb(error.__traceback__)
    line = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return StepFailure(name, f"internal error: {name}{line}", "Report this line", known=False)


def _settle(step: StudyStep, read: Read, desk: StepDesk) -> bytes:
    """The scenario with its noise calibrated, for each method the hash of what it depends on and what it guarantees,
    and how many parties the division made and left out."""
    table = dict(step.params["table"])
    table["federation"] = _within_rows(table["federation"], len(set(desk.divided(step.params, read).pool_ids)))
    full = scenario_json(validate(table, Scenario, "scenario"))
    case = desk.case(full, step.params, read)
    methods = {label: method_of(dict(keys)) for label, keys in step.params["methods"].items()}
    guarantees = {label: method.guarantee(case) for label, method in methods.items()}
    return json.dumps(
        {
            "scenario": full,
            "depends": {label: canonical_digest(method.depends_on(case)) for label, method in methods.items()},
            "guarantees": {label: stated and stated.to_json() for label, stated in guarantees.items()},
            "parties": len(case.parties),
            "left_out": case.partition.left_out,
        }
    ).encode()


def _within_rows(federation: Mapping[str, Any], rows: int) -> Mapping[str, Any]:
    """A federation whose noise is yet to be calibrated asks each of the different public `rows` once at most: its query
    budget is theirs where it is above, so that no noise is paid for queries that cannot be asked. One study has one
    budget for many divisions."""
    mechanism, budget = federation["mechanism"], federation["query_budget"]
    stated = set(noise_scales(MECHANISMS[mechanism["name"]])) & mechanism.keys()
    if stated or federation["privacy"].get("epsilon") is None:
        return federation
    return {**federation, "query_budget": {key: min(count, rows) for key, count in budget.items()}}


def _ensemble(step: StudyStep, read: Read, desk: StepDesk) -> bytes:
    return to_bytes(train_ensemble(_taught(step, read, desk)).arrays())


def _predict(step: StudyStep, read: Read, desk: StepDesk) -> bytes:
    method = method_of(dict(step.params["method"]))
    case = desk.case(step.params["scenario"], step.params, read)
    ensemble = desk.ensemble(step.needs["ensemble"], read) if "ensemble" in step.needs else None
    predicted = method.predict(case, ensemble)
    _check_finite(predicted)
    return to_bytes(predicted.to_arrays())


def _judge(step: StudyStep, read: Read, desk: StepDesk) -> bytes:
    predicted = desk.predicted(step.needs["predicted"], read)
    if predicted.absent:
        return rows_bytes([], {ABSENT: np.array(predicted.absent)})
    case = _taught(step, read, desk)
    return rows_bytes(judged(step.params["label"], case, predicted), judged_row_scores(case, predicted))


def _worth(step: StudyStep, read: Read, desk: StepDesk) -> bytes:
    """The number of labels by hand that reach the model; nothing where there is none."""
    predicted = desk.predicted(step.needs["predicted"], read)
    case = desk.case(step.params["scenario"], step.params, read)
    if predicted.test is None:
        return rows_bytes([])
    by_hand, label = desk.labelled(case, step.params), step.params["label"]
    even = labels_reaching(by_hand, predicted.test, case.seed)
    if math.isinf(even.labels):
        return rows_bytes([Row(label, "run", "", "hand_labels_above", float(by_hand.most))])
    low, high = (None if math.isinf(end) else end for end in (even.low, even.high))
    return rows_bytes([Row(label, "run", "", "hand_labels", even.labels, low, high)])


def _division(step: StudyStep, read: Read, desk: StepDesk) -> bytes:
    case = _taught(step, read, desk)
    return rows_bytes(division_rows(case), division_matrices(case))


def _teachers(step: StudyStep, read: Read, desk: StepDesk) -> bytes:
    case, ensemble = _taught(step, read, desk), desk.ensemble(step.needs["ensemble"], read)
    return rows_bytes(teacher_rows(case, ensemble), teacher_matrices(case, ensemble))


def _influence(step: StudyStep, read: Read, desk: StepDesk) -> bytes:
    return rows_bytes(influence_rows(_taught(step, read, desk), desk.ensemble(step.needs["ensemble"], read)))


def _gain(step: StudyStep, read: Read, desk: StepDesk) -> bytes:
    case = _taught(step, read, desk)
    methods = {label: desk.predicted(address, read) for label, address in step.needs.items()}
    present = {label: result for label, result in methods.items() if not result.absent and result.home is not None}
    return rows_bytes(gain_rows(case, present))


def _taught(step: StudyStep, read: Read, desk: StepDesk) -> Case:
    """The case with no mechanism of its own: what is computed of it holds for every mechanism."""
    return desk.case(step.params["teaching"], step.params, read)


def _check_finite(predicted: Predicted) -> None:
    wrong = [name for name, value in predicted.figures.items() if np.isnan(value)]
    for name in ("test", "home"):
        array = getattr(predicted, name)
        if array is not None and not np.isfinite(array).all():
            wrong.append(name)
    if wrong:
        raise DataError(
            f"the method gives no number for {', '.join(wrong)}", "See whether its settings let it learn at all"
        )


@dataclass(frozen=True)
class StepKind:
    """compute: from a step, what reads and what is kept, to its bytes. stage: what people are shown meanwhile.
    format: a number that changes whenever the step gives something else for the same input."""

    compute: Callable[[StudyStep, Read, StepDesk], bytes]
    stage: str = COMPARE
    format: int = 1


KINDS = {
    "settle": StepKind(_settle, SETTLE, format=3),
    "ensemble": StepKind(_ensemble, ENSEMBLES, format=2),
    "predict": StepKind(_predict),
    "judge": StepKind(_judge, format=3),
    "worth": StepKind(_worth),
    "division": StepKind(_division, format=2),
    "teachers": StepKind(_teachers),
    "influence": StepKind(_influence),
    "gain": StepKind(_gain, MEASURE),
}
"""The kinds of steps by name."""


def address(kind: str, **decides: Any) -> str:
    """Of a step: SHA-256 in hex. decides: plain data."""
    return canonical_digest({"kind": kind, "format": KINDS[kind].format, "versions": deciding_versions(), **decides})
