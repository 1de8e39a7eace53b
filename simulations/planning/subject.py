"""What `consilium plan` looks at: a scenario, or a provisioning file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w

from consilium.coordinator.config import Federation
from consilium.coordinator.planning.facts import PublicFacts
from consilium.coordinator.planning.plan import AUTO, PlannedFederation, Tasks, is_open, look_at, plan, stand_in
from consilium.coordinator.planning.rehearsal import made_up
from consilium.coordinator.provision import plan as provisioning
from consilium.coordinator.provision.plan import Plan, plan_table, validated
from consilium.node.progress import CANDIDATES, FORECAST, stage
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.labels.service import Progress, no_progress
from consilium.protocol.provenance import without
from consilium.protocol.rows.schema import Schema
from consilium.simulations.planning.labelled import LabelledTasks, read_labelled
from consilium.simulations.population.public import schema
from consilium.simulations.scenario import (
    Scenario,
    apply_override,
    divided_data,
    facts_of,
    scenario_table,
    shipped,
)


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

    def to_write(self, made: PlannedFederation) -> list[str]:
        """What a file says to have this plan, line by line; nothing where it says so already."""
        if not is_open(self.table):
            return []
        text = tomli_w.dumps({"federation": made.table, "student": {"trainer": made.trainer}})
        return ["", "what the plan adds; --out writes the whole file:", "", *text.rstrip().splitlines()]

    def resolved(self, made: PlannedFederation) -> dict[str, Any]:
        """The file with the plan in it: whoever runs or deploys it has the same federation."""
        return {**self.content, "federation": {**self.table, **made.table}}


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

    def resolved(self, made: PlannedFederation) -> dict[str, Any]:
        """See `PlanSubject.resolved`. The student's trainer is the plan's too, where the file leaves it out."""
        student = {"trainer": made.trainer, **self.content.get("student", {})}
        return {**super().resolved(made), "student": student}

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
    kits = file not in shipped() and path.is_file() and "coordinator" in read_table(path)
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
        federation = {key: value for key, value in federation.items() if key not in ("mechanism", "caps")}
        privacy = {**federation.get("privacy", {}), "epsilon": epsilon}
        if "provenance" in content:
            for planned in ("federation.mechanism", "federation.caps"):
                content["provenance"] = without(content["provenance"], planned)
        content = {**content, "federation": {**federation, "mechanism": {"name": AUTO}, "privacy": privacy}}
    return PlannedKits(content, path) if kits else PlannedScenario(content, f"scenario {file}", seed)
