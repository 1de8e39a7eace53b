"""What the teachers of one party say of rows that only a simulation knows: computed where the teachers are, in a study
and, over Flower, in the analysis of a run."""

from __future__ import annotations

import pickle
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from consilium.models.evaluation import Metric
from consilium.models.keys import TeacherKind
from consilium.models.own_model import OwnClassifier
from consilium.models.table import fit_teachers
from consilium.models.teachers import ConstantTeacher, Teacher
from consilium.party.node import PartyNode
from consilium.party.voting import Decides, Latest, Lot, TeacherSet, query_inputs, votes_of_teachers
from consilium.protocol.choices import add_choices, choice_dtype
from consilium.protocol.digests import Hash
from consilium.protocol.messages import PartyName, WireModel
from consilium.protocol.queries import query_ids, query_set_hash
from consilium.protocol.schema import Schema
from consilium.simulations.linear_teachers import class_probabilities, directions, linear_scores
from consilium.simulations.metrics import judged_area

SETS = ("pool", "test", "home")


class TieLog:
    """In place of the lot: writes down which classes were equal, and gives the first.

    In flat arrays: a party of a single class has equal scores on every row, and there may be hundreds of them.
    """

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self.query_ids = ids
        self.teacher, self.row = array("i"), array("i")
        self.equal, self.counts = array("i"), array("i")
        """The classes that were equal, one tie behind the other, and how many they were in each."""

    def draw_all(self, teacher: int, queries: np.ndarray, equal: np.ndarray) -> np.ndarray:
        """See `Lot.draw_all`."""
        self.teacher.extend([teacher] * len(queries))
        self.row.extend(queries.tolist())
        self.equal.extend(np.nonzero(equal)[1].tolist())
        self.counts.extend(equal.sum(axis=1).tolist())
        return equal.argmax(axis=1)


@dataclass(frozen=True)
class Questions:
    """rows: canonical float32 (rows, features) of each of `SETS`, none of a set that is left out. test_y: true classes
    int64 (test,). scores: whether each party's score of each test row is wanted, which is four times as much as its
    votes. alone: whether what one party has by itself is. teacher: what the coordinator asks for. linear: the kind of
    all teachers, None where they are of several.
    """

    schema: Schema
    rows: Mapping[str, np.ndarray] = field(repr=False)
    test_y: np.ndarray = field(repr=False)
    scores: bool
    alone: bool
    teacher: TeacherKind
    linear: TeacherKind | None

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
    """What one party has by itself (`model_alone`) on the test rows; auc: None where there is none. failures: why
    teachers tell no rows apart, or had no answer."""

    accuracy: float
    auc: float | None
    failures: Counter[str] = field(repr=False)


@dataclass(frozen=True)
class Said:
    """All of it is secret. cast: of each set uint (teachers, rows), the class that each teacher votes for. lots: what
    decided between those that were equal. Of what the party has by itself: score: float32 (test,), of two classes the
    probability of the second, (0,) where it is not wanted; home: float32 (own, classes), probabilities of its own
    held-out rows; right: accuracy on the test rows. direction: float64 (inputs,
    classes), see `directions`; None where teachers have none. quality, parts: where they are wanted; each test row's
    part in its figures, float32 (test,) by metric."""

    cast: dict[str, np.ndarray] = field(repr=False)
    lots: dict[str, Decides] = field(repr=False)
    score: np.ndarray = field(repr=False)
    home: np.ndarray = field(repr=False)
    right: float = field(repr=False)
    direction: np.ndarray | None = field(repr=False)
    quality: Quality | None = field(repr=False)
    parts: dict[Metric, np.ndarray] = field(repr=False)


LotOf = Callable[[Sequence[str]], Decides]
NOBODY = np.zeros(0, dtype=np.int64)


def model_alone(node: PartyNode, trained: TeacherSet, stated: TeacherKind) -> Teacher:
    """What a party has by itself, without any federation: its only teacher or, where it has several on shards, one of
    their kind on all its rows."""
    if len(trained.teachers) == 1:
        return trained.teachers[0]
    rows, classes = node.rows.read(trained.schema), len(trained.schema.classes)
    whole = [np.arange(len(rows.y))]
    shown = rows.represented(trained.schema, whole)
    return fit_teachers(node.settings.teacher or stated, shown, whole, [_SEED_ALONE], classes)[0]


_SEED_ALONE = 0


def said(
    questions: Questions, trained: TeacherSet, alone: Teacher, lot: LotOf = TieLog, own: np.ndarray = NOBODY
) -> Said:
    """Of one party's teachers. alone: see `model_alone`. lot: of the ids of a set's rows. own: which of
    the rows `home` are the party's."""
    classes, inputs, teachers = len(questions.schema.classes), questions.inputs, trained.teachers
    cast, kind = dict[str, np.ndarray](), choice_dtype(classes)
    lots = {name: lot(questions.ids[name]) for name in SETS}
    for name, x in inputs.items():
        votes = votes_of_teachers(trained, x, lots[name]) if len(x) else np.zeros((len(teachers), 0))
        cast[name] = votes.astype(kind)
    by_itself = class_probabilities(alone, inputs["test"], classes)
    score = np.zeros(0, dtype=np.float32)
    if classes == 2 and questions.scores:
        score = by_itself[:, 1].astype(np.float32)
    home = class_probabilities(alone, inputs["home"][own], classes) if len(own) else np.zeros((0, classes))
    right = float((by_itself.argmax(axis=1) == questions.test_y).mean())
    direction = _direction(questions, teachers, max(x.shape[1] for x in inputs.values()))
    quality, parts = None, dict[Metric, np.ndarray]()
    if questions.alone:
        failures = Counter(failure(each, class_probabilities(each, inputs["test"], classes)) for each in teachers)
        del failures[""]
        quality, parts = _quality(by_itself, failures, questions.test_y)
    return Said(cast, lots, score, home.astype(np.float32), right, direction, quality, parts)


def _direction(questions: Questions, teachers: Sequence[Teacher], width: int) -> np.ndarray | None:
    if questions.linear is None:
        return None
    classes = len(questions.schema.classes)
    weights = [linear_scores(questions.linear, teacher, width, classes) for teacher in teachers]
    known = [each for each in weights if each is not None]
    return directions(np.stack(known)[:, :-1]).mean(axis=0) if len(known) == len(teachers) else None


def _quality(
    probabilities: np.ndarray, failures: Counter[str], y: np.ndarray
) -> tuple[Quality, dict[Metric, np.ndarray]]:
    right, area = probabilities.argmax(axis=1) == y, judged_area(probabilities, y)
    parts: dict[Metric, np.ndarray] = {"accuracy": right.astype(np.float32)}
    if area is not None:
        parts["auc"] = area[1].astype(np.float32)
    return Quality(float(right.mean()), None if area is None else area[0], failures), parts


class Heard:
    """What the teachers of a run's parties say, added up as it comes. Sums are of whole numbers: the same to the digit
    in whatever order parties answer.

    votes: of each set, int64 (rows, classes). quality, directions: by party, see `Said`.
    """

    def __init__(self, questions: Questions) -> None:
        classes = len(questions.schema.classes)
        self.votes = {name: np.zeros((len(x), classes), dtype=np.int64) for name, x in questions.rows.items()}
        self.quality: dict[str, Quality] = {}
        self.directions: dict[str, np.ndarray | None] = {}
        self._parts: dict[Metric, np.ndarray] = {}
        self._parties = Counter[Metric]()

    def add(self, party: str, answer: Said) -> None:
        """Of one party."""
        for name, cast in answer.cast.items():
            add_choices(self.votes[name], cast.T)
        if answer.quality is not None:
            self.quality[party] = answer.quality
        self.directions[party] = answer.direction
        for metric, part in answer.parts.items():
            whole = np.rint(part.astype(np.float64) * PARTS_OF_ONE).astype(np.int64)
            self._parts[metric] = self._parts.get(metric, 0) + whole
            self._parties[metric] += 1

    def parts(self) -> dict[Metric, np.ndarray]:
        """Each test row's part in a figure, in the mean over the parties that have it: float64 (test,) by metric."""
        return {metric: total / (PARTS_OF_ONE * self._parties[metric]) for metric, total in self._parts.items()}


PARTS_OF_ONE = 2**30


ONE_CLASS = "its rows have one class"
ALIKE = "it says the same of every test row"


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
    """The questions, pickled. federation: whose teachers are asked."""

    kind: ClassVar[str] = "query.said"
    federation: Hash
    questions: np.ndarray = Field(repr=False)

    @classmethod
    def of(cls, federation: str, questions: Questions) -> SaidRequest:
        """These questions."""
        return cls(federation=federation, questions=_bytes(questions))


class SaidReply(WireModel):
    """What a party said, pickled."""

    kind: ClassVar[str] = "query.said"
    party: PartyName
    content: np.ndarray = Field(repr=False)

    @property
    def said(self) -> Said:
        """What it said."""
        return pickle.loads(self.content.tobytes())


_questions: Latest[int, tuple[np.ndarray, Questions]] = Latest()


def said_reply(node: PartyNode, request: SaidRequest) -> SaidReply:
    """Of the party's teachers in that federation; a run holds out no rows at home. Refused (NOT_TRAINED) if there are
    none."""
    content = request.questions
    _, questions = _questions.get(id(content), lambda: (content, pickle.loads(content.tobytes())))
    party, federation = node.settings.name, request.federation
    trained = node.teachers(federation)
    alone = model_alone(node, trained, questions.teacher)
    answer = said(questions, trained, alone, partial(Lot, party, federation))
    return SaidReply(party=party, content=_bytes(replace(answer, lots={})))


def _bytes(value: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(value), dtype=np.uint8)
