"""What a plan expects, and where it expects nothing: how much more it would take, in figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from consilium.coordinator.planning.facts import PublicFacts
from consilium.coordinator.planning.plan import PlannedFederation, plan
from consilium.coordinator.planning.rehearsal import made_up
from consilium.protocol.errors import ConsiliumError
from consilium.report.words import plural
from consilium.simulations.council.frames import NothingToGain

DRAWS = 40
"""Tasks on which another setting is tried: fewer than for a plan, since it is only whether to expect anything."""
LARGER_EPSILONS = (4.0, 16.0)
"""What is tried for the unit that was asked for."""
SHARDS = 25
"""Teachers of each party in what is tried for records."""
FACTORS = (1.0, 2.0, 4.0)
"""Of the epsilon that was asked for, in what is tried for records."""


@dataclass(frozen=True)
class OtherSetting:
    """Parameters that differ from those that were asked for, and what a plan expects of a student with them."""

    parameters: dict[str, Any]
    planned: PlannedFederation

    @property
    def hopeful(self) -> bool:
        """Whether the plan expects anything."""
        return not self.planned.expects_nothing

    def line(self) -> str:
        """For people."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{given}: {self.planned.forecast.lines()[0]}"


def hopeless(planned: PlannedFederation) -> str:
    """Why nothing is to be expected, with figures; empty where something is."""
    if not planned.expects_nothing:
        return ""
    noise = planned.noise
    votes = "" if noise is None else f"the noise is ±{noise.on_count:.3g} on a count of at most {noise.votes} votes; "
    forecast = planned.forecast
    return (
        f"{planned.facts.parties} parties cannot have a useful student at epsilon {planned.epsilon:.3g} for a"
        f" {planned.federation.privacy.unit.value}: {votes}{forecast.lines()[0]}, no better than guessing on"
        f" {1 - forecast.better_than_guessing:.0%} of {forecast.tasks} trials on the public rows"
    )


def refuse_hopeless(
    planned: PlannedFederation, federation: Mapping[str, Any], most_queries: int, owner_label: str
) -> None:
    """Raise NothingToGain where a plan expects nothing: with figures, and with what would do.

    federation: the table that left its mechanism open. Nothing was asked of anybody yet, and nothing is charged.
    """
    if not (why := hopeless(planned)):
        return
    found = list(dict.fromkeys(setting.line() for setting in enough(planned.facts, federation, most_queries)))
    would = f"This would do: {'; or '.join(found)}" if found else f"Nor does epsilon {LARGER_EPSILONS[-1]:g} do"
    raise NothingToGain(
        why,
        f"{would}. More {plural(owner_label)} help most; if_hopeless='warn' runs it all the same",
    )


def enough(facts: PublicFacts, federation: Mapping[str, Any], most_queries: int) -> Iterator[OtherSetting]:
    """The first of the larger epsilons at which something is to be expected; and records instead of parties."""
    asked = float(federation["privacy"]["epsilon"])
    tries: list[list[dict[str, Any]]] = [[{"epsilon": epsilon} for epsilon in LARGER_EPSILONS if epsilon > asked]]
    if federation["privacy"]["unit"] == "party":
        records = {"unit": "record", "neighbouring": "add_or_remove", "teachers_per_party": SHARDS}
        tries.append([{"epsilon": factor * asked, **records} for factor in FACTORS])
    for parameters in tries:
        settings = (_tried(each, facts, federation, most_queries) for each in parameters)
        yield from islice((each for each in settings if each is not None and each.hopeful), 1)


def _tried(
    parameters: dict[str, Any], facts: PublicFacts, federation: Mapping[str, Any], most_queries: int
) -> OtherSetting | None:
    privacy = {key: parameters.get(key, value) for key, value in federation["privacy"].items()}
    teachers = parameters.get("teachers_per_party", facts.teachers_per_party)
    table = {**federation, "privacy": privacy, "teachers_per_party": teachers}
    shaped = replace(facts, teachers_per_party=teachers)
    try:
        planned = plan(table, shaped, most_queries, partial(made_up, draws=DRAWS))
    except ConsiliumError:
        return None  # no noise keeps that promise
    return OtherSetting(parameters, planned)
