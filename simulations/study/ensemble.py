"""The teachers of one case, trained as parties train them, and all that they said: computed once for all mechanisms.

What depends on the mechanism, on caps, on privacy or on the student is not in it, and these do not decide what it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consilium.data.private_rows import load_rows, remarks
from consilium.node.progress import TRAIN_TEACHERS
from consilium.party.home import open_home
from consilium.party.teachers import shards
from consilium.party.teachers.ballot import ballots
from consilium.party.teachers.builders import Teacher
from consilium.party.teachers.ensemble import check_rows
from consilium.party.teachers.inputs import query_inputs
from consilium.party.teachers.making import make, simulated_seeds
from consilium.party.teachers.store import TeacherSet
from consilium.protocol.labels.service import Progress, no_progress
from consilium.protocol.rows.queries import query_set_hash
from consilium.simulations.compare.noisy_average import ClippedSums, linear_scores
from consilium.simulations.compare.probabilities import class_probabilities
from consilium.simulations.population.parties import check_own_teachers, teachers_named
from consilium.simulations.study.case import Case
from consilium.simulations.study.said import HeardLot, Said
from consilium.simulations.workspace import Workspace, lay_out


@dataclass(frozen=True)
class Ensemble:
    """All of it is secret. k: teachers of a party; P: parties; rows as in `Case`.

    pool, test, home: what the teachers said to these rows (home: of every party, so of its own and all others').
    test_scores, home_scores: float32 (P, rows), of two classes the party's mean probability of the second; of more
    classes (P, 0). own_home: float32 (home, classes), the party's mean probabilities of its own held-out rows.
    test_right: float64 (P,), accuracy of a party's teachers on the test rows, in the mean. averages: what
    `compare.noisy_average` needs, by norm, float64 (norms, inputs + 1, classes); (0, 0, 0) where a party's teachers are
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
        """For an artifact, see `study.artifact`."""
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
        lay_out(space, case.scenario, case.dataset, case.partition, case.config, case.seed)
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
