"""Before anything runs: the noise that each epsilon takes, and whether the votes stand out of it.

Public rows are looked at. Of private rows the parties that have some are counted, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from consilium.accounting.drowned import epsilon_for, signal, votes_of_units
from consilium.accounting.target import as_histograms, worst_case, worst_case_as_histogram
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.config import Federation
from consilium.coordinator.mechanisms import noise_scales, with_noise
from consilium.protocol.errors import NothingToGain
from consilium.protocol.queries import canonical_queries
from consilium.report.disclosure import epsilon_text
from consilium.report.warnings import LEAST_SIGNAL
from consilium.report.words import many
from consilium.simulations.divide import federation_config
from consilium.simulations.population import public
from consilium.simulations.report.models import METRICS
from consilium.simulations.scenario import Scenario, divided_data, scenario_table, with_any_noise, with_budget
from consilium.student.public_labels import cross_validated

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_MUCH = 1e4  # noise from which the search for less begins, in votes
_LOT, _ROWS = 0x706C616E, 300  # of the public rows, by lot, on whose labels is looked: more take seconds


@dataclass(frozen=True)
class SignalRule:
    """How far all answers stand out of the noise, in standard deviations (`accounting.drowned`); with less than `least`
    expect nothing. epsilon, parties: each of which would be enough by itself."""

    number: float
    epsilon: float
    parties: int
    least: float = LEAST_SIGNAL

    @classmethod
    def of(cls, federation: Federation, epsilon: float, parties: int, features: int) -> SignalRule:
        """Of a federation of so many parties that promises `epsilon`, on rows of so many features."""
        delta, votes = federation.privacy.delta, votes_of_units(parties, federation.event(0, 0))
        number = signal(votes, epsilon, delta, features)
        enough = math.ceil(epsilon_for(LEAST_SIGNAL, votes, delta, features) * 100) / 100
        return cls(number, enough, max(1, math.ceil(parties * LEAST_SIGNAL / number)))


def check_gain(scenario: Scenario, parties: int, features: int, classes: int) -> None:
    """Raise NothingToGain, in words of `Council`, where noise of its epsilon drowns the votes of so many parties."""
    privacy = scenario.federation.privacy
    epsilon = privacy.epsilon or math.inf
    rule = SignalRule.of(scenario.federation, epsilon, parties, features)
    if rule.number >= rule.least:
        return
    whole = privacy.unit is Unit.PARTY
    event, unit = scenario.federation.event(0, 0), Unit.RECORD if whole else privacy.unit
    each = votes_of_units(parties, replace(event, unit=unit, teachers_per_party=2)) / 2
    teachers = max(2, math.ceil(votes_of_units(parties, event) * rule.least / rule.number / each))
    ways = [f"epsilon={rule.epsilon:g}", f"{rule.parties} parties"]
    if whole and classes == 2 and privacy.neighbouring is Neighbouring.REPLACE and 2 * rule.number >= rule.least:
        ways.append("neighbouring='add_or_remove'")
    ways.append(f"{'unit=' + repr('record') + ' with ' if whole else ''}teachers_per_party={teachers}")
    raise NothingToGain(
        f"noise of epsilon {epsilon_text(epsilon)} for each {privacy.unit} drowns the votes of"
        f" {many(parties, 'party')}: K mu / (2 sqrt r) is {rule.number:.2g}, and below {rule.least:g}"
        " expect nothing. Nothing was asked",
        f"Take {', or '.join(ways)}; or learn from labels too with public_labels='all'; or name a mechanism, as"
        " mechanism='gnmax', to run all the same",
    )


def plan_of(name: str, overrides: Sequence[str] = (), seed: int = 0) -> dict[str, Any]:
    """What `consilium plan --format json` prints. noise: at most, by a quick bound, as if noisy counts left whole.
    Raises ConsiliumError, as `load_scenario` and `divided_data`."""
    where = f"scenario {name}"
    table = with_budget(scenario_table(name, overrides), where, seed)
    scenario = with_any_noise(table, where)
    federation, stated = scenario.federation, table["federation"]["privacy"].get("epsilon")
    privacy, budget = federation.privacy, federation.query_budget
    dataset, partition = divided_data(scenario, seed)
    parties, features = len(partition.parties), len(dataset.features)
    written, scales = table["federation"]["mechanism"], noise_scales(federation.mechanism.name)
    kept = {key: value for key, value in written.items() if key not in scales}
    full, delta = federation.event(budget.queries, budget.answers), privacy.delta
    cost, rough = (
        lambda mechanism, bound=bound: bound([replace(full, mechanism=mechanism)], delta)
        for bound in (worst_case_as_histogram, as_histograms)
    )
    costs = []
    for epsilon in EPSILONS if federation.mechanism.private else ():
        found = with_noise(kept, budget.queries, budget.answers, epsilon, cost, rough, _MUCH)
        rule = SignalRule.of(federation, epsilon, parties, features)
        costs.append({"epsilon": epsilon, "noise": {key: found[key] for key in scales}, "rule": rule.number})
    rows, labels = np.random.default_rng([seed, _LOT]).permutation(partition.queries), None
    if len(rows := rows[dataset.y[rows] >= 0][:_ROWS]):
        canonical = canonical_queries(dataset.x[rows], features)
        x = public.schema(scenario.data, dataset, partition).inputs(canonical)
        alone = cross_validated(x, dataset.y[rows], len(dataset.classes))
        labels = {**asdict(alone), "leaves_chance": alone.leaves_chance}
    promised = stated
    if promised is None or set(scales) <= set(written):
        # of the run's own configuration: where parties add the noise, it costs a little more
        promised = worst_case(federation_config(scenario, dataset, partition, seed).promised_events(), delta).epsilon
    return {
        "scenario": name,
        "parties": parties,
        "votes": parties * federation.teachers_per_party,
        "unit": privacy.unit.value,
        "neighbouring": privacy.neighbouring.value,
        "delta": privacy.delta,
        "mechanism": federation.mechanism.name,
        "queries": budget.queries,
        "answers": budget.answers,
        "costs": costs,
        "promised": promised,
        "rule": asdict(SignalRule.of(federation, promised, parties, features)),
        "labels": labels,
    }


def lines_of(plan: Mapping[str, Any]) -> Iterator[str]:
    """For a terminal."""
    rule = SignalRule(**plan["rule"])
    yield f"{many(plan['parties'], 'party')}, {many(plan['votes'], 'vote')} on each of {many(plan['queries'], 'query')}"
    relation = plan["neighbouring"].replace("_", " ")
    yield f"guarantee: for each {plan['unit']}, {relation}, delta {plan['delta']:g}; {plan['mechanism']}"
    yield ""
    yield f"epsilon  rule (least {rule.least:g})  noise, at most"
    for cost in plan["costs"]:
        noise = ", ".join(f"{key} {value:g}" for key, value in cost["noise"].items())
        yield f"{cost['epsilon']:<7g}  {cost['rule']:<14.3g}  {noise}"
    yield f"{epsilon_text(plan['promised']):7}  {rule.number:<14.3g}  the scenario's own"
    yield ""
    enough = f"{rule.least:g} is reached at epsilon {rule.epsilon:g}, or with {many(rule.parties, 'party')}"
    yield enough if rule.number < rule.least else f"The noise leaves something to learn; {enough}."
    if labels := plan["labels"]:
        low, high = labels["interval"]
        yield (
            f"Labels of {labels['rows']} public rows by themselves: {METRICS[labels['metric']]} {labels['value']:.3f}"
            f" [{low:.3f}, {high:.3f}]; chance {labels['chance']:.3f}"
        )
    yield "Of private rows, the parties that have some were counted, and nothing else was looked at."
