"""What `consilium plan` looks at: a scenario or a provisioning file; and tasks from labelled public rows."""

from __future__ import annotations

import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from consilium.accounting.units import Unit
from consilium.coordinator.config import Federation
from consilium.coordinator.planning.facts import PublicFacts
from consilium.coordinator.planning.plan import AUTO, PlannedFederation, Tasks, is_open, look_at, plan, stand_in
from consilium.coordinator.planning.rehearsal import TaskSet, made_up
from consilium.coordinator.planning.tasks import FeatureMap, PublicTask
from consilium.coordinator.provision import plan as provisioning
from consilium.coordinator.provision.plan import Plan, plan_table, validated
from consilium.data.private_rows import Rows
from consilium.models.provenance import without
from consilium.node.progress import CANDIDATES, FORECAST, stage
from consilium.party.teach import train_all, vote
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError
from consilium.protocol.files import unreadable
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.schema import Schema
from consilium.protocol.teachers import TeacherKind
from consilium.simulations.population.public import schema
from consilium.simulations.scenario import (
    Scenario,
    apply_override,
    divided_data,
    facts_of,
    scenario_table,
    with_teachers,
)
from consilium.simulations.shipped import Shipped

POPULATIONS = 10
"""Sets of made-up parties: training them is what takes time."""
REPEATS = 6
"""Tasks for each set: other noise, and other judged rows drawn from the same half."""
LEAST_ROWS = 20

_SEED = 0x6C61626C


@dataclass(frozen=True)
class LabelledRows:
    """Public rows float (n, features) in the schema's order, and int64 (n,) indices into its classes."""

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


def read_labelled(path: Path, schema: Schema) -> LabelledRows:
    """An .npz with `features`, `x` and `y`, where y is indices into the classes or their names.

    Raises
    ------
    PathError : no such file. DataError : it holds no such rows.
    """
    action = "Give an .npz with `features`, `x` and `y` of public rows"
    try:
        with np.load(path, allow_pickle=False) as file:
            names = [str(name) for name in file["features"]]
            x, y = file["x"].astype(np.float64), file["y"]
    except OSError as error:
        raise unreadable(path, error, action) from None
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile):
        raise DataError(f"{path} holds no public rows with labels", action) from None
    if missing := [feature for feature in schema.features if feature not in names]:
        raise DataError(f"{path} has no column {missing[0]!r}", action)
    if x.ndim != 2 or x.shape[1] != len(names) or y.shape != (len(x),) or not np.isfinite(x).all():
        raise DataError(f"{path}: x has shape {x.shape} and y {y.shape} for {len(names)} columns", action)
    if y.dtype.kind in "US":
        known = np.array(schema.classes)
        if unknown := sorted(set(y.tolist()) - set(schema.classes)):
            raise DataError(f"{path}: y has {unknown[0]!r}, which is none of {list(schema.classes)}", action)
        y = (y[:, None] == known).argmax(axis=1)
    y = y.astype(np.int64)
    if len(y) < LEAST_ROWS or y.min() < 0 or y.max() >= len(schema.classes) or len(np.unique(y)) < 2:
        raise DataError(
            f"{path} has {len(y)} rows, or labels that are not of at least two of {len(schema.classes)} classes",
            f"Give at least {LEAST_ROWS} labelled rows",
        )
    return LabelledRows(x[:, [names.index(feature) for feature in schema.features]], y)


@dataclass(frozen=True)
class LabelledTasks:
    """Makes tasks (`coordinator.planning.plan.Tasks`). rows_per_party: what is known of the parties' sizes."""

    labelled: LabelledRows
    schema: Schema
    teacher: TeacherKind
    rows_per_party: int

    def __call__(self, facts: PublicFacts, features: FeatureMap) -> TaskSet:
        """The tasks; the same rows give the same ones."""
        lot = np.random.default_rng(_SEED).permutation(len(self.labelled.y))
        learning, judging = np.array_split(lot, 2)
        inputs = self.schema.inputs(self.labelled.x)
        rows, judged = Rows(x=inputs[learning], y=self.labelled.y[learning]), inputs[judging]
        tasks = []
        for number in range(POPULATIONS):
            generator = np.random.default_rng([_SEED, number])
            parts = [generator.integers(0, len(learning), self.rows_per_party) for _ in range(facts.votes)]
            seeds = [int(seed) for seed in generator.integers(0, 2**31, facts.votes)]
            teachers = train_all(rows, self.teacher, parts, seeds, facts.classes)
            votes, judged_votes = (vote(teachers, each, facts.classes) for each in (facts.rows, judged))
            for _ in range(REPEATS):
                picked = generator.integers(0, len(judging), len(judging))
                tasks.append(PublicTask(votes, judged_votes, self.labelled.y[judging], picked))
        return TaskSet(f"rehearsals on {len(lot)} labelled public rows", judged, _by_turns(tasks))


def _by_turns(tasks: list[PublicTask]) -> list[PublicTask]:
    """First one task of every population, then the next of each: a first look then sees them all."""
    return [tasks[first] for start in range(REPEATS) for first in range(start, len(tasks), REPEATS)]


@dataclass(frozen=True)
class PlanSubject(ABC):
    """A file that says what is to be planned. content: what it says, not validated."""

    content: dict[str, Any]

    @property
    def table(self) -> dict[str, Any]:
        """The table `[federation]`, not validated."""
        return self.content["federation"]

    @abstractmethod
    def schema(self) -> Schema:
        """What public rows mean."""

    @abstractmethod
    def federation(self) -> Federation:
        """The federation, with a stand-in for a mechanism that is open."""

    @abstractmethod
    def facts(self) -> PublicFacts:
        """What may be known."""

    @property
    @abstractmethod
    def most_queries(self) -> int:
        """Limit of the parties' policies."""

    @property
    def trainer(self) -> str:
        """Name of the student's trainer that the file has; empty where it names none."""
        student = self.content.get("student")
        trainer = student.get("trainer") if isinstance(student, dict) else None
        return str(trainer.get("name", "")) if isinstance(trainer, dict) else ""

    def planned(
        self, labelled: Path | None, rows_per_party: int, progress: Progress = no_progress
    ) -> PlannedFederation:
        """The plan, on made-up tasks or on labelled public rows. Raises ConfigError, DataError, NotEnoughParties."""
        tasks: Tasks = made_up
        if labelled is not None:
            rows = read_labelled(labelled, self.schema())
            tasks = LabelledTasks(rows, self.schema(), self.federation().teacher, rows_per_party)
        if is_open(self.table):
            tried = partial(progress, CANDIDATES)
            return plan(self.table, self.facts(), self.most_queries, tasks, tried)
        with stage(progress, FORECAST):
            return look_at(self.federation(), self.facts(), tasks, self.trainer)

    def to_write(self, planned: PlannedFederation) -> list[str]:
        """What a file says to have this plan, line by line; nothing where it says so already."""
        if not is_open(self.table):
            return []
        added = {}
        for name, table in self.resolved(planned).items():
            before = self.content.get(name, {})
            if table != before:
                added[name] = {key: value for key, value in table.items() if before.get(key) != value}
        text = tomli_w.dumps(added)
        return ["", "what the plan adds; --out writes the whole file:", "", *text.rstrip().splitlines()]

    def resolved(self, planned: PlannedFederation) -> dict[str, Any]:
        """The file with the plan in it: whoever runs or deploys it has the same federation."""
        return {**self.content, "federation": {**self.table, **planned.table}}


@dataclass(frozen=True)
class PlannedScenario(PlanSubject):
    """A scenario and its seed."""

    where: str
    seed: int

    @property
    def most_queries(self) -> int:
        """See `PlanSubject.most_queries`."""
        return self._known().simulation.most_queries

    def schema(self) -> Schema:
        """See `PlanSubject.schema`."""
        known = self._known()
        return schema(known.data, *divided_data(known, self.seed))

    def federation(self) -> Federation:
        """See `PlanSubject.federation`."""
        return self._known().federation

    def facts(self) -> PublicFacts:
        """See `PlanSubject.facts`."""
        return facts_of(self._known(), self.seed)

    def resolved(self, planned: PlannedFederation) -> dict[str, Any]:
        """See `PlanSubject.resolved`. The student's trainer is the plan's too, where the file leaves it out."""
        student = {**planned.student, **self.content.get("student", {})}
        return {**super().resolved(planned), "student": student}

    def _known(self) -> Scenario:
        federation = stand_in(self.table) if is_open(self.table) else self.table
        return validate({**self.content, "federation": federation}, Scenario, self.where)


@dataclass(frozen=True)
class PlannedKits(PlanSubject):
    """A provisioning file."""

    path: Path

    @property
    def most_queries(self) -> int:
        """See `PlanSubject.most_queries`."""
        return provisioning.MOST_QUERIES

    def schema(self) -> Schema:
        """See `PlanSubject.schema`."""
        return self._known()[1]

    def federation(self) -> Federation:
        """See `PlanSubject.federation`."""
        return self._known()[0].federation

    def facts(self) -> PublicFacts:
        """See `PlanSubject.facts`."""
        return provisioning.facts_of(*self._known(), self.path)

    def _known(self) -> tuple[Plan, Schema]:
        federation = stand_in(self.table) if is_open(self.table) else self.table
        return validated({**self.content, "federation": federation}, self.path)


def subject_of(file: str, overrides: Sequence[str], seed: int, epsilon: float | None) -> PlanSubject:
    """What the file at `file`, or the shipped scenario of that name, is; opened where an epsilon is given.

    Raises
    ------
    ConfigError, DataError
    """
    path = Path(file)
    kits = file not in Shipped.SCENARIO.files() and path.is_file() and "coordinator" in read_table(path)
    if kits:
        content = plan_table(path)
        for override in overrides:
            apply_override(content, override)
    else:
        content = scenario_table(file, overrides)
    federation = content.get("federation")
    if not isinstance(federation, dict):
        raise ConfigError(f"{file} has no table [federation]", "Give a scenario or a provisioning file")
    if epsilon is not None:
        federation = {key: value for key, value in federation.items() if key not in ("mechanism", "query_budget")}
        privacy = {**federation.get("privacy", {}), "epsilon": epsilon}
        if "provenance" in content:
            for planned in ("federation.mechanism", "federation.query_budget"):
                content["provenance"] = without(content["provenance"], planned)
        content = {**content, "federation": {**federation, "mechanism": {"name": AUTO}, "privacy": privacy}}
    if kits:
        return PlannedKits(content, path)
    where = f"scenario {file}"
    return PlannedScenario(
        with_teachers(content, where, seed) if is_open(content["federation"]) else content, where, seed
    )


def for_every_unit(
    file: str, overrides: Sequence[str], seed: int, epsilon: float | None, progress: Progress = no_progress
) -> Iterator[tuple[Unit, PlannedFederation | str]]:
    """The plan with each unit in turn, or why there is none with it. What else the file leaves out is planned anew.

    Raises
    ------
    ConfigError : the file has a mechanism, and no epsilon is given.
    """
    for unit in reversed(Unit):
        try:
            subject = subject_of(file, [*overrides, f"federation.privacy.unit={unit.value}"], seed, epsilon)
        except ConsiliumError as error:
            yield unit, error.what
            continue
        if not is_open(subject.table):
            raise ConfigError(
                f"{file} has its mechanism, whose noise is for one unit", "Give --epsilon to plan for each of them"
            )
        try:
            yield unit, subject.planned(None, 0, progress)
        except ConsiliumError as error:
            yield unit, error.what
