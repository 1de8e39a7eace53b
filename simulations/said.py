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
from consilium.models.own_model import OwnCodeTeacher
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
    votes. alone: whether what one party has by itself is. linear: the kind of all teachers, None where they are of
    several.
    """

    schema: Schema
    rows: Mapping[str, np.ndarray] = field(repr=False)
    test_y: np.ndarray = field(repr=False)
    scores: bool
    alone: bool
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
    """What one party has by itself on the test rows, in the mean over its teachers; auc: None where there is none.
    failures: why teachers tell no rows apart, or had no answer."""

    accuracy: float
    auc: float | None
    failures: Counter[str] = field(repr=False)


@dataclass(frozen=True)
class Said:
    """All of it is secret. cast: of each set uint (teachers, rows), the class that each teacher votes for. lots: what
    decided between those that were equal. score: float32 (test,), of two classes the mean probability of the second;
    (0,) where it is not wanted. home: float32 (own, classes), mean probabilities of the party's own held-out rows.
    right: accuracy on the test rows of the classes that teachers find most probable. direction: float64 (inputs,
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


def said(questions: Questions, trained: TeacherSet, lot: LotOf = TieLog, own: np.ndarray = NOBODY) -> Said:
    """Of one party's teachers. lot: of the ids of a set's rows. own: which of the rows `home` are the party's."""
    classes, inputs, teachers = len(questions.schema.classes), questions.inputs, trained.teachers
    cast, kind = dict[str, np.ndarray](), choice_dtype(classes)
    lots = {name: lot(questions.ids[name]) for name in SETS}
    for name, x in inputs.items():
        votes = votes_of_teachers(trained, x, lots[name]) if len(x) else np.zeros((len(teachers), 0))
        cast[name] = votes.astype(kind)
    asked = questions.alone or classes == 2 or trained.thresholds is not None
    on_test = [class_probabilities(teacher, inputs["test"], classes) for teacher in teachers] if asked else []
    # the class that a teacher finds most probable is its vote where no threshold is
    top = list(cast["test"]) if trained.thresholds is None else [each.argmax(axis=1) for each in on_test]
    score = np.zeros(0, dtype=np.float32)
    if classes == 2 and questions.scores:  # of more, and of thousands of parties, they would take as long as the votes
        score = np.mean(on_test, axis=0)[:, 1].astype(np.float32)
    home = np.zeros((0, classes))
    if len(own):
        home = np.mean([class_probabilities(teacher, inputs["home"][own], classes) for teacher in teachers], axis=0)
    right = float(np.mean([(likeliest == questions.test_y).mean() for likeliest in top]))
    direction = _direction(questions, teachers, max(x.shape[1] for x in inputs.values()))
    quality, parts = _quality(teachers, on_test, questions.test_y) if questions.alone else (None, {})
    return Said(cast, lots, score, home.astype(np.float32), right, direction, quality, parts)


def _direction(questions: Questions, teachers: Sequence[Teacher], width: int) -> np.ndarray | None:
    if questions.linear is None:
        return None
    classes = len(questions.schema.classes)
    weights = [linear_scores(questions.linear, teacher, width, classes) for teacher in teachers]
    known = [each for each in weights if each is not None]
    return directions(np.stack(known)[:, :-1]).mean(axis=0) if len(known) == len(teachers) else None


def _quality(
    teachers: Sequence[Teacher], on_test: Sequence[np.ndarray], y: np.ndarray
) -> tuple[Quality, dict[Metric, np.ndarray]]:
    right = [of_one.argmax(axis=1) == y for of_one in on_test]
    areas = [area for area in (judged_area(of_one, y) for of_one in on_test) if area is not None]
    failures = Counter(map(failure, teachers, on_test))
    del failures[""]
    accuracy = float(np.mean([of_one.mean() for of_one in right]))
    parts: dict[Metric, np.ndarray] = {"accuracy": np.mean(right, axis=0).astype(np.float32)}
    if not areas:
        return Quality(accuracy, None, failures), parts
    parts["auc"] = np.mean([scores for _, scores in areas], axis=0).astype(np.float32)
    return Quality(accuracy, float(np.mean([auc for auc, _ in areas])), failures), parts


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
    if isinstance(teacher, OwnCodeTeacher) and teacher.silent:
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
    answer = said(questions, node.teachers(federation), partial(Lot, party, federation))
    return SaidReply(party=party, content=_bytes(replace(answer, lots={})))


def _bytes(value: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(value), dtype=np.uint8)
