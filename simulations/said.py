"""What teachers give beside votes, in simulations alone: weights and directions of linear ones, and what those of one
party say of public, test and held-out rows. Computed where the teachers are: by a study in its own process, by the
analysis of a run over Flower."""

from __future__ import annotations

import pickle
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from consilium.models.evaluation import Metric
from consilium.models.keys import LogisticRegressionSpec, RidgeSpec, TeacherKind
from consilium.models.linear import ConstantTeacher, Teacher
from consilium.models.own_model import OwnClassifier
from consilium.models.table import fit_teachers
from consilium.party.node import PartyNode
from consilium.party.voting import Decides, Latest, Lot, TeacherSet, query_inputs, votes_of_teachers
from consilium.protocol.choices import add_choices, choice_dtype
from consilium.protocol.digests import Hash
from consilium.protocol.messages import PartyName, WireModel
from consilium.protocol.queries import query_ids, query_set_hash
from consilium.protocol.schema import Schema
from consilium.simulations.divide import Case
from consilium.simulations.metrics import judged_area


def class_probabilities(model: Any, x: np.ndarray, classes: int) -> np.ndarray:
    """Probabilities float64 (rows, classes) that a trained classifier with scikit-learn's methods gives for `x` float
    (rows, inputs); 0 for a class that it has not seen."""
    probabilities = np.zeros((len(x), classes))
    if len(x):
        probabilities[:, model.classes_] = model.predict_proba(x)
    return probabilities


def directions(weights: np.ndarray) -> np.ndarray:
    """`weights` (teachers, inputs, classes), each teacher's scaled to Euclidean norm 1; zeros stay zeros.

    >>> directions(np.array([[[3.0], [4.0]], [[0.0], [0.0]]])).ravel().round(6).tolist()
    [0.6, 0.8, 0.0, 0.0]
    """
    largest = np.abs(weights).max(axis=(1, 2), keepdims=True)  # squares of tiny weights are 0
    scaled = weights / np.where(largest > 0, largest, 1.0)
    return scaled / np.maximum(np.sqrt((scaled**2).sum(axis=(1, 2), keepdims=True)), 1.0)


LINEAR = LogisticRegressionSpec | RidgeSpec  # kinds whose teachers have weights


def linear_scores(spec: TeacherKind, teacher: Any, inputs: int, classes: int) -> np.ndarray | None:
    """Weights float64 (inputs + 1, classes) of a trained teacher, the intercept last, less their mean over the classes;
    None for a kind that has none. Before that a class that the teacher never saw has zeros. All are zeros where it saw
    one class only."""
    if not isinstance(spec, LINEAR):
        return None
    every = np.zeros((inputs + 1, classes))
    if len(teacher.classes_) < 2:
        return every
    if isinstance(spec, RidgeSpec):
        weights = np.concatenate([teacher.weights, teacher.intercept[None, :]])
    else:
        weights = np.concatenate([teacher.coef_, teacher.intercept_[:, None]], axis=1).T
        if weights.shape[1] == 1:  # of two classes scikit-learn keeps the second's
            weights = np.concatenate([np.zeros_like(weights), weights], axis=1)
    every[:, teacher.classes_] = weights
    return every - every.mean(axis=1, keepdims=True)  # the same decisions with the least norm


SETS = ("pool", "test", "home")
"""Rows that teachers are asked about: public ones that may be queries, test rows, and a party's own that a study holds
out."""


class TieLog:
    """In place of a `Lot`, which decides between classes of equal score: gives the first, and keeps which ones were
    equal. In flat arrays: a party of one class has equal scores on every row, and there may be hundreds of them."""

    def __init__(self) -> None:
        self.teacher, self.row = array("i"), array("i")
        self.equal, self.counts = array("i"), array("i")
        """The equal classes of all ties, one tie after the other, and how many each tie has."""

    def draw_all(self, teacher: int, queries: np.ndarray, equal: np.ndarray) -> np.ndarray:
        self.teacher.extend([teacher] * len(queries))
        self.row.extend(queries.tolist())
        self.equal.extend(np.nonzero(equal)[1].tolist())
        self.counts.extend(equal.sum(axis=1).tolist())
        return equal.argmax(axis=1)


@dataclass(frozen=True)
class Questions:
    """rows: canonical float32 (rows, features) by name, of `SETS`. test_y: true classes int64 (test,). study: whether a
    study asks, which takes scores and not all of `Quality`. teacher: the kind that the coordinator asks for."""

    schema: Schema
    rows: Mapping[str, np.ndarray] = field(repr=False)
    test_y: np.ndarray = field(repr=False)
    study: bool
    teacher: TeacherKind

    @classmethod
    def of(cls, case: Case, study: bool) -> Questions:
        """What the teachers of a case are asked: in a run about test rows alone."""
        rows = {name: getattr(case, f"{name}_x") for name in (SETS if study else ("test",))}
        return cls(case.config.rows, rows, case.test_y, study, case.config.teacher)

    @cached_property
    def inputs(self) -> dict[str, np.ndarray]:
        """float (rows, inputs) of each set."""
        none = np.zeros((0, 0))
        return {
            name: query_inputs(self.schema, x, query_set_hash(x)) if len(x) else none for name, x in self.rows.items()
        }

    @cached_property
    def ids(self) -> dict[str, list[str]]:
        """`query_ids` of each set."""
        return {name: query_ids(x) if len(x) else [] for name, x in self.rows.items()}


@dataclass(frozen=True)
class Quality:
    """How good a party's own model (`model_alone`) is on the test rows; a study gets the accuracy and its parts only.
    auc: None where there is none. parts: each test row's part in either figure, float32 (test,). failures: how many
    teachers are as good as none, by `failure`."""

    accuracy: float
    auc: float | None = None
    parts: dict[Metric, np.ndarray] = field(default_factory=dict, repr=False)
    failures: Counter[str] = field(default_factory=Counter, repr=False)


@dataclass(frozen=True)
class Said:
    """What the teachers of one party say; all of it is secret. cast: uint (teachers, rows) by set, the class that each
    teacher votes for. Of the party's own model (`model_alone`): quality; in a study score, float32 (test,), of two
    classes the probability of the second, else (0,); and home, float32 (own, classes), probabilities of the party's
    held-out rows. direction: float64 (inputs, classes), the mean of `directions`; None where teachers have none."""

    cast: dict[str, np.ndarray] = field(repr=False)
    quality: Quality = field(repr=False)
    score: np.ndarray = field(repr=False)
    home: np.ndarray = field(repr=False)
    direction: np.ndarray | None = field(repr=False)


NOBODY = np.zeros(0, dtype=np.int64)


def model_alone(node: PartyNode, trained: TeacherSet, stated: TeacherKind) -> Teacher:
    """The model that a party has without any federation: its only teacher or, where it has several on shards, one of
    their kind on all its rows."""
    if len(trained.teachers) == 1:
        return trained.teachers[0]
    rows, classes = node.rows.read(trained.schema), len(trained.schema.classes)
    whole = [np.arange(len(rows.y))]
    shown = rows.represented(trained.schema, whole)
    return fit_teachers(node.settings.teacher or stated, shown, whole, [0], classes)[0]


def said(
    questions: Questions, node: PartyNode, federation: str, lots: Mapping[str, Decides], own: np.ndarray = NOBODY
) -> Said:
    """What one party's teachers in a federation say. lots: what decides between classes of equal score, by set. own:
    which of the rows `home` are the party's. Raises Refused (NOT_TRAINED): it has no teachers."""
    trained = node.teachers(federation)
    alone = model_alone(node, trained, questions.teacher)
    classes, inputs, teachers, y = len(questions.schema.classes), questions.inputs, trained.teachers, questions.test_y
    cast = dict[str, np.ndarray]()
    for name, x in inputs.items():
        votes = votes_of_teachers(trained, x, lots[name]) if len(x) else np.zeros((len(teachers), 0))
        cast[name] = votes.astype(choice_dtype(classes))
    by_itself = class_probabilities(alone, inputs["test"], classes)
    right = by_itself.argmax(axis=1) == y
    parts: dict[Metric, np.ndarray] = {"accuracy": right.astype(np.float32)}
    quality, score = Quality(float(right.mean()), None, parts), np.zeros(0, dtype=np.float32)
    if not questions.study:
        failures = Counter(failure(each, class_probabilities(each, inputs["test"], classes)) for each in teachers)
        del failures[""]
        area = judged_area(by_itself, y)
        if area is not None:
            parts["auc"] = area[1].astype(np.float32)
        quality = Quality(quality.accuracy, None if area is None else area[0], parts, failures)
    elif classes == 2:
        score = by_itself[:, 1].astype(np.float32)
    home = class_probabilities(alone, inputs["home"][own], classes) if len(own) else np.zeros((0, classes))
    width = max(x.shape[1] for x in inputs.values())
    kind = node.settings.teacher or questions.teacher
    weights = [linear_scores(kind, teacher, width, classes) for teacher in teachers]
    known = [each for each in weights if each is not None]
    direction = directions(np.stack(known)[:, :-1]).mean(axis=0) if len(known) == len(teachers) else None
    return Said(cast, quality, score, home.astype(np.float32), direction)


PARTS_OF_ONE = 2**30
"""Parts of figures are added up as whole multiples of 1 over this."""


class Heard:
    """What the teachers of a run's parties say, added up as it comes: sums of whole numbers, so that the order in which
    parties answer changes no digit. votes: int64 (test, classes). quality, directions: by party, see `Said`."""

    def __init__(self, questions: Questions) -> None:
        self.votes = np.zeros((len(questions.test_y), len(questions.schema.classes)), dtype=np.int64)
        self.quality: dict[str, Quality] = {}
        self.directions: dict[str, np.ndarray | None] = {}
        self._parts: dict[Metric, np.ndarray] = {}
        self._parties = Counter[Metric]()

    def add(self, party: str, answer: Said) -> None:
        add_choices(self.votes, answer.cast["test"].T)
        self.quality[party], self.directions[party] = answer.quality, answer.direction
        for metric, part in answer.quality.parts.items():
            whole = np.rint(part.astype(np.float64) * PARTS_OF_ONE).astype(np.int64)
            self._parts[metric] = self._parts.get(metric, 0) + whole
            self._parties[metric] += 1

    def parts(self) -> dict[Metric, np.ndarray]:
        """Each test row's part in a figure, in the mean over the parties that have it: float64 (test,) by metric."""
        return {metric: total / (PARTS_OF_ONE * self._parties[metric]) for metric, total in self._parts.items()}


ONE_CLASS = "its rows have one class"
ALIKE = "it says the same of every test row"
"""Reasons of `failure`."""


def failure(teacher: Teacher, probabilities: np.ndarray) -> str:
    """Why a teacher is as good as none; empty where it is one. probabilities: its own, float64 (test, classes)."""
    if isinstance(teacher, ConstantTeacher):
        return teacher.failed or ONE_CLASS
    if isinstance(teacher, OwnClassifier) and teacher.silent:
        return f"asked, it gives {', '.join(sorted(teacher.silent))}"
    if len(probabilities) > 1 and not np.ptp(probabilities, axis=0).any():
        return ONE_CLASS if len(teacher.classes_) < 2 else ALIKE
    return ""


# both ends are processes of one simulated run, so what they tell each other may be pickled; no deployed node reads it
class SaidRequest(WireModel):
    """`Questions`, pickled. federation: whose teachers are asked."""

    kind: ClassVar[str] = "query.said"
    federation: Hash
    questions: np.ndarray = Field(repr=False)


class SaidReply(WireModel):
    """What a party `Said`, pickled."""

    kind: ClassVar[str] = "query.said"
    party: PartyName
    content: np.ndarray = Field(repr=False)

    @property
    def said(self) -> Said:
        return pickle.loads(self.content.tobytes())


def packed(value: Any) -> np.ndarray:
    """Pickled, as bytes of a message."""
    return np.frombuffer(pickle.dumps(value), dtype=np.uint8)


_questions: Latest[int, tuple[np.ndarray, Questions]] = Latest()


def said_reply(node: PartyNode, request: SaidRequest) -> SaidReply:
    """The reply to a request: `said`; a run holds out no rows of a party's own."""
    content, party, federation = request.questions, node.settings.name, request.federation
    _, questions = _questions.get(id(content), lambda: (content, pickle.loads(content.tobytes())))
    lots = {name: Lot(party, federation, ids) for name, ids in questions.ids.items()}
    return SaidReply(party=party, content=packed(said(questions, node, federation, lots)))
