"""The teachers of one case, trained as parties train them, and all that they said: computed once for all mechanisms.

What depends on the mechanism, on caps, on privacy or on the student is not in it, and these do not decide what it is.
Under the relative ballot equal scores are decided by a lot of the federation's digest, so the teachers' word alone does
not fix the vote: which classes were equal is kept too (`party.teachers.ballot`)."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from consilium.data.private_rows import load_rows, remarks
from consilium.node.progress import TRAIN_TEACHERS
from consilium.party.home import open_home
from consilium.party.teachers import shards
from consilium.party.teachers.ballot import Lot, ballots, query_inputs
from consilium.party.teachers.store import TeacherSet
from consilium.party.teachers.teach import Teacher, check_rows, make, simulated_seeds
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.rows.queries import query_set_hash
from consilium.protocol.teachers import LogisticRegressionSpec, RidgeSpec, TeacherKind
from consilium.simulations.divide import Case
from consilium.simulations.population.parties import check_own_teachers, teachers_named
from consilium.simulations.workspace import Workspace, lay_out

_NONE = np.zeros(0, dtype=np.int32)
_AT_ONCE = 4_000_000
"""Votes that are counted in one go."""


class HeardLot:
    """In place of the lot: writes down which classes were equal, and gives the first.

    In flat arrays: a party of a single class has equal scores on every row, and there may be hundreds of them.
    """

    def __init__(self) -> None:
        self.teacher, self.row = array("i"), array("i")
        self.equal, self.counts = array("i"), array("i")
        """The classes that were equal, one tie behind the other, and how many they were in each."""

    def draw(self, teacher: int, query: int, equal: np.ndarray) -> int:
        """See `Lot.draw`."""
        self.teacher.append(teacher)
        self.row.append(query)
        self.equal.extend(equal.tolist())
        self.counts.append(len(equal))
        return int(equal[0])


@dataclass(frozen=True)
class Said:
    """said: uint8 (parties, teachers, rows), the class that each teacher is for. Secret.

    Of those that were equal: tied_party, tied_teacher, tied_row int32 (ties,), tied bool (ties, classes).
    """

    said: np.ndarray = field(repr=False)
    tied_party: np.ndarray = field(repr=False, default_factory=_NONE.copy)
    tied_teacher: np.ndarray = field(repr=False, default_factory=_NONE.copy)
    tied_row: np.ndarray = field(repr=False, default_factory=_NONE.copy)
    tied: np.ndarray = field(repr=False, default_factory=lambda: np.zeros((0, 0), dtype=bool))

    def votes(
        self, rows: np.ndarray, parties: Sequence[str], federation: str, query_ids: Sequence[str], classes: int
    ) -> np.ndarray:
        """Votes int64 (parties, rows, classes) on the rows at these positions, as a run of this federation collects.

        `query_ids`: of these rows, in this order. `federation`: its digest.
        """
        said = self._decided(rows, parties, federation, query_ids)
        votes = np.zeros((*said.shape[::2], classes), dtype=np.int64)
        for label in range(classes):
            votes[:, :, label] = (said == label).sum(axis=1)
        return votes

    def totals(
        self,
        rows: np.ndarray,
        parties: Sequence[str],
        federation: str,
        query_ids: Sequence[str],
        classes: int,
        weights: Sequence[int] | None = None,
    ) -> np.ndarray:
        """The sum of `votes` over the parties, int64 (rows, classes), each party's counted `weights` times (once, if
        None). A few rows of all parties at a time: 5,000 parties' votes on 10,000 rows and 150 classes are 60 GB."""
        said = self._decided(rows, parties, federation, query_ids)
        found = np.zeros((len(rows), classes), dtype=np.int64)
        step = max(_AT_ONCE // max(said.shape[0] * said.shape[1], 1), 1)
        for start in range(0, len(rows), step):
            part = said[:, :, start : start + step]
            width = part.shape[2]
            cells = (part + classes * np.arange(width)).reshape(len(part), -1)
            times = None if weights is None else np.repeat(np.asarray(weights, dtype=np.float64), cells.shape[1])
            counts = np.bincount(cells.ravel(), times, minlength=width * classes)
            found[start : start + width] = counts.reshape(width, classes)  # whole numbers, far below 2^53
        return found

    def _decided(
        self, rows: np.ndarray, parties: Sequence[str], federation: str, query_ids: Sequence[str]
    ) -> np.ndarray:
        """`said` on these rows, in its own type, with lots drawn where classes were equal."""
        said = self.said[:, :, rows]
        place = {int(row): at for at, row in enumerate(rows)}
        if len(place) < len(rows):
            raise ValueError("a row is asked once")
        lots = [Lot(party, federation, query_ids) for party in parties]
        for index in np.flatnonzero(np.isin(self.tied_row, rows)):
            party, teacher = int(self.tied_party[index]), int(self.tied_teacher[index])
            at = place[int(self.tied_row[index])]
            said[party, teacher, at] = lots[party].draw(teacher, at, np.flatnonzero(self.tied[index]))
        return said

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """For an artifact, see `artifact`."""
        return {f"{name}.{key}": value for key, value in vars(self).items()}

    @classmethod
    def of_arrays(cls, name: str, arrays: dict[str, np.ndarray]) -> Said:
        """The inverse of `arrays`."""
        return cls(**{key: arrays[f"{name}.{key}"] for key in cls.__dataclass_fields__})

    @classmethod
    def of_parties(cls, said: Sequence[np.ndarray], lots: Sequence[HeardLot], classes: int) -> Said:
        """said: of each party int64 (teachers, rows)."""
        counts = _joined([lot.counts for lot in lots])
        tied = np.zeros((len(counts), classes), dtype=bool)
        tied[np.repeat(np.arange(len(counts)), counts), _joined([lot.equal for lot in lots])] = True
        return cls(
            np.stack(said).astype(np.uint8 if classes <= 256 else np.uint16),
            np.repeat(np.arange(len(lots)), [len(lot.row) for lot in lots]).astype(np.int32),
            _joined([lot.teacher for lot in lots]),
            _joined([lot.row for lot in lots]),
            tied,
        )


def _joined(parts: Sequence[array[int]]) -> np.ndarray:
    return np.concatenate([_NONE, *(np.asarray(part, dtype=np.int32) for part in parts)])


def class_probabilities(model: Any, x: np.ndarray, classes: int) -> np.ndarray:
    """Of a trained classifier with scikit-learn's methods, on `x` float (rows, inputs) -> float64 (rows, classes).

    0 for a class that it has not seen.
    """
    probabilities = np.zeros((len(x), classes))
    if len(x):
        probabilities[:, model.classes_] = model.predict_proba(x)
    return probabilities


def vote_shares(votes: np.ndarray) -> np.ndarray:
    """Of votes (rows, classes) the share that each class got: float64 (rows, classes).

    >>> vote_shares(np.array([[3, 1], [0, 0]])).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    return votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)


@dataclass(frozen=True)
class Ensemble:
    """All of it is secret. k: teachers of a party; P: parties; rows as in `Case`.

    pool, test, home: what the teachers said to these rows (home: of every party, so of its own and all others').
    test_scores, home_scores: float32 (P, rows), of two classes the party's mean probability of the second; of more
    classes (P, 0). own_home: float32 (home, classes), the party's mean probabilities of its own held-out rows.
    test_right: float64 (P,), accuracy of a party's teachers on the test rows, in the mean. averages: what
    `methods.noisy_average` needs, by norm, float64 (norms, inputs + 1, classes); (0, 0, 0) where a party's teachers are
    not linear.
    """

    pool: Said
    test: Said
    home: Said
    test_scores: np.ndarray = field(repr=False)
    home_scores: np.ndarray = field(repr=False)
    own_home: np.ndarray = field(repr=False)
    test_right: np.ndarray = field(repr=False)
    averages: np.ndarray = field(repr=False)

    def arrays(self) -> dict[str, np.ndarray]:
        """For an artifact, see `artifact`."""
        said = {name: getattr(self, name).arrays(name) for name in _SAID}
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {key: value for each in (*said.values(), plain) for key, value in each.items()}

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray]) -> Ensemble:
        """The inverse of `arrays`."""
        said: dict[str, Any] = {name: Said.of_arrays(name, arrays) for name in _SAID}
        plain: dict[str, Any] = {name: arrays[name] for name in _PLAIN}
        return cls(**said, **plain)

    def clipped_sums(self, parties: int, teachers_per_party: int) -> ClippedSums | None:
        """What the parties give to a noisy average; None where their teachers are not linear."""
        if not len(self.averages):
            return None
        given = ClippedSums()
        given.sums, given.parties, given.teachers_per_party = list(self.averages), parties, teachers_per_party
        return given


_SAID = ("pool", "test", "home")
_PLAIN = ("test_scores", "home_scores", "own_home", "test_right", "averages")


def train_ensemble(case: Case, progress: Progress = no_progress) -> Ensemble:
    """Train every party's teachers from its own home folder, as `consilium run` does, and ask them everything.

    Raises
    ------
    ConfigError : a kind of teacher does not fit the rows.
    """
    check_own_teachers(case.scenario.simulation, case.config.rows)
    with _unremarked(), tempfile.TemporaryDirectory(prefix="consilium-study-") as folder:
        space = Workspace(Path(folder))
        lay_out(space, case)
        heard = _Heard(case)
        for index, party in enumerate(case.parties):
            progress(TRAIN_TEACHERS, index, len(case.parties))
            heard.add(index, _teachers(case, space, index, party))
    progress(TRAIN_TEACHERS, len(case.parties), len(case.parties))
    return heard.ensemble()


@contextmanager
def _unremarked() -> Iterator[None]:
    """What is odd about a party's rows is for whoever looks after them: here nobody does."""
    before, remarks.disabled = remarks.disabled, True
    try:
        yield
    finally:
        remarks.disabled = before


def _teachers(case: Case, space: Workspace, index: int, party: str) -> TeacherSet:
    home, schema = open_home(space.home(index)), case.config.rows
    rows = load_rows(home.data_file, schema, home.rules)
    parts = shards.split(rows.identities, case.config.teachers_per_party, shards.simulated_secret(case.seed, party))
    spec = home.teacher or case.config.teacher
    check_rows(spec, schema)
    seeds = simulated_seeds(case.seed, party)
    made, limits = make(rows, schema, spec, case.config.ballot, case.config.reference_rows(), parts, seeds)
    return TeacherSet(schema, "", "", made, limits)


class _Heard:
    """Collects what each party's teachers say."""

    def __init__(self, case: Case) -> None:
        self._case = case
        schema, classes = case.config.rows, len(case.classes)
        sets = {"pool": case.pool_x, "test": case.test_x, "home": case.home_x}
        self._inputs = {
            name: query_inputs(schema, rows, query_set_hash(rows)) if len(rows) else np.zeros((0, 0))
            for name, rows in sets.items()
        }
        self._said: dict[str, list[np.ndarray]] = {name: [] for name in sets}
        self._lots: dict[str, list[HeardLot]] = {name: [] for name in sets}
        self._scores: dict[str, list[np.ndarray]] = {"test": [], "home": []}
        self._right: list[float] = []
        self._own_home = np.zeros((len(case.home_rows), classes), dtype=np.float32)
        self._home_party = case.home_party
        # parties with teachers of their own kinds have no common weights, whatever kind the coordinator asks for
        self._sums = None if teachers_named(case.scenario.simulation) else ClippedSums()

    def add(self, index: int, trained: TeacherSet) -> None:
        """The teachers of the party at this index."""
        classes = len(self._case.classes)
        for name, x in self._inputs.items():
            lot = HeardLot()
            empty = np.zeros((len(trained.teachers), 0), dtype=np.int64)
            self._said[name].append(ballots(trained, x, lot) if len(x) else empty)
            self._lots[name].append(lot)
        own = self._home_party == index
        if classes == 2:
            found = {name: _mean_probabilities(trained.teachers, self._inputs[name], 2) for name in self._scores}
            for name, probabilities in found.items():
                self._scores[name].append(probabilities[:, 1])
            self._own_home[own] = found["home"][own]
        else:  # no score of all rows is kept, and with thousands of parties they would take as long as the votes
            for scores in self._scores.values():
                scores.append(np.zeros(0))
            if own.any():
                self._own_home[own] = _mean_probabilities(trained.teachers, self._inputs["home"][own], classes)
        self._right.append(float(np.mean([(top == self._case.test_y).mean() for top in self._tops(trained)])))
        self._average(index, trained.teachers)

    def _tops(self, trained: TeacherSet) -> list[np.ndarray]:
        """The class that each teacher finds most probable on each test row, which is its vote where no threshold is."""
        if trained.thresholds is None:
            return list(self._said["test"][-1])
        classes = len(self._case.classes)
        return [class_probabilities(each, self._inputs["test"], classes).argmax(axis=1) for each in trained.teachers]

    def _average(self, index: int, teachers: list[Teacher]) -> None:
        if self._sums is None:
            return
        width, classes = self._inputs["pool"].shape[1], len(self._case.classes)
        linear = [linear_scores(self._case.config.teacher, each, width, classes) for each in teachers]
        if any(each is None for each in linear):
            self._sums = None
        else:
            self._sums.add(np.stack([each for each in linear if each is not None]))

    def ensemble(self) -> Ensemble:
        """Of all parties that were added."""
        classes = len(self._case.classes)
        said: dict[str, Any] = {
            name: Said.of_parties(self._said[name], self._lots[name], classes) for name in self._said
        }
        averages = np.stack(self._sums.sums) if self._sums is not None else np.zeros((0, 0, 0))
        return Ensemble(
            **said,
            test_scores=np.stack(self._scores["test"]).astype(np.float32),
            home_scores=np.stack(self._scores["home"]).astype(np.float32),
            own_home=self._own_home,
            test_right=np.array(self._right),
            averages=averages,
        )


def _mean_probabilities(teachers: list[Teacher], x: np.ndarray, classes: int) -> np.ndarray:
    return np.mean([class_probabilities(teacher, x, classes) for teacher in teachers], axis=0)


NORMS = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
"""What C may be. Where it is below every teacher's norm only directions count, and a smaller one changes nothing."""


class ClippedSums:
    """Sums over the parties of what each gives, one for each norm of `NORMS`: never all weights at once."""

    def __init__(self) -> None:
        self.parties = self.teachers_per_party = 0
        self.sums: list[np.ndarray] = []

    def add(self, weights: np.ndarray) -> None:
        """One party's teachers, float64 (teachers, inputs + 1, classes) as `linear_scores` gives them."""
        given = [clipped(weights, norm).mean(axis=0) for norm in NORMS]
        self.sums = given if not self.sums else [before + more for before, more in zip(self.sums, given, strict=True)]
        self.parties, self.teachers_per_party = self.parties + 1, len(weights)


def clipped(weights: np.ndarray, norm: float) -> np.ndarray:
    """`weights` (teachers, inputs + 1, classes), each teacher's scaled to Euclidean norm `norm` at most.

    >>> clipped(np.array([[[3.0], [4.0]], [[0.3], [0.4]]]), 1.0).ravel().round(6).tolist()
    [0.6, 0.8, 0.3, 0.4]
    """
    lengths = np.sqrt((weights**2).sum(axis=(1, 2), keepdims=True))
    return weights * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))


@singledispatch
def linear_scores(spec: TeacherKind, teacher: Any, inputs: int, classes: int) -> np.ndarray | None:
    """Weights float64 (inputs + 1, classes) of a trained teacher, the intercept last; None for a kind that has none.

    A class that the teacher never saw has zeros, and so has every one of a teacher that saw one class only.
    """
    return None


@linear_scores.register
def _(spec: LogisticRegressionSpec, teacher: Any, inputs: int, classes: int) -> np.ndarray:
    if len(teacher.classes_) < 2:
        return np.zeros((inputs + 1, classes))
    weights = np.concatenate([teacher.coef_, teacher.intercept_[:, None]], axis=1).T
    if weights.shape[1] == 1:  # of two classes scikit-learn keeps the second's
        weights = np.concatenate([np.zeros_like(weights), weights], axis=1)
    return _among(weights, teacher.classes_, classes)


@linear_scores.register
def _(spec: RidgeSpec, teacher: Any, inputs: int, classes: int) -> np.ndarray:
    if len(teacher.classes_) < 2:
        return np.zeros((inputs + 1, classes))
    return _among(np.concatenate([teacher.weights, teacher.intercept[None, :]]), teacher.classes_, classes)


def _among(weights: np.ndarray, seen: np.ndarray, classes: int) -> np.ndarray:
    every = np.zeros((len(weights), classes))
    every[:, seen] = weights
    return every - every.mean(axis=1, keepdims=True)  # the same decisions with the least norm
