"""Where a plan expects nothing: why, and how much more it would take, in figures."""

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

DRAWS = 40
"""Tasks on which another setting is tried: fewer than for a plan, since it is only whether to expect anything."""
LARGER_EPSILONS = (4.0, 16.0)
"""What is tried for the unit that was asked for."""
SHARDS = 10
"""Teachers of each party in what is tried for records."""
FACTORS = (1.0, 2.0, 4.0)
"""Of the epsilon that was asked for, in what is tried for records."""


@dataclass(frozen=True)
class OtherSetting:
    """Settings that differ from those that were asked for, and what a plan expects of a student with them."""

    settings: dict[str, Any]
    planned: PlannedFederation

    def line(self) -> str:
        """For people."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{settings}: {self.planned.forecast.lines()[0]}"


def why_hopeless(planned: PlannedFederation) -> str:
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


def what_would_do(facts: PublicFacts, federation: Mapping[str, Any], most_queries: int) -> str:
    """Settings at which something is to be expected, or that none was found. federation: its mechanism is open."""
    lines = list(dict.fromkeys(setting.line() for setting in _enough(facts, federation, most_queries)))
    if lines:
        return f"This would do: {'; or '.join(lines)}"
    larger = float(federation["privacy"]["epsilon"]) < LARGER_EPSILONS[-1]
    return f"Nor does epsilon {LARGER_EPSILONS[-1]:g} do" if larger else "Nothing else that was tried would do"


def _enough(facts: PublicFacts, federation: Mapping[str, Any], most_queries: int) -> Iterator[OtherSetting]:
    """The first of the larger epsilons at which something is to be expected; and records instead of parties."""
    epsilon = float(federation["privacy"]["epsilon"])
    tries: list[list[dict[str, Any]]] = [[{"epsilon": larger} for larger in LARGER_EPSILONS if larger > epsilon]]
    if federation["privacy"]["unit"] == "party":
        records = {"unit": "record", "neighbouring": "add_or_remove", "teachers_per_party": SHARDS}
        tries.append([{"epsilon": factor * epsilon, **records} for factor in FACTORS])
    for settings in tries:
        planned = (_tried(setting, facts, federation, most_queries) for setting in settings)
        yield from islice((other for other in planned if other is not None and not other.planned.expects_nothing), 1)


def _tried(
    settings: dict[str, Any], facts: PublicFacts, federation: Mapping[str, Any], most_queries: int
) -> OtherSetting | None:
    privacy = {key: settings.get(key, value) for key, value in federation["privacy"].items()}
    teachers = settings.get("teachers_per_party", facts.teachers_per_party)
    table = {**federation, "privacy": privacy, "teachers_per_party": teachers}
    shaped = replace(facts, teachers_per_party=teachers)
    try:
        return OtherSetting(settings, plan(table, shaped, most_queries, partial(made_up, draws=DRAWS)))
    except ConsiliumError:
        return None  # no noise keeps that promise
