"""What a federation has promised and spent: the ledger's events through the accountant; and the sanitised epsilon."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.drowned import signal, votes_of_units
from consilium.accounting.errors import AccountingError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.label_costs import VoteBatch, exact_rdp, published_rdp
from consilium.accounting.mechanisms import event_from_json
from consilium.accounting.sanitise.release import sanitise
from consilium.accounting.target import worst_case
from consilium.accounting.units import Unit
from consilium.coordinator.config import Federation, FederationConfig
from consilium.coordinator.events import EventLog
from consilium.coordinator.ledger import Batch, Ledger
from consilium.protocol.errors import ConfigError
from consilium.report.disclosure import in_plain_words
from consilium.report.warnings import Expected

NODES = "nodes"
"""The guarantee towards the coordinator, and towards each of two aggregators, where the noise is in the sums."""


def _worst_case(config: Federation, events: list[ReleaseEvent]) -> Guarantee:
    """Raises ConfigError: the mechanism cannot be charged at this delta. So does whoever asks for a promise."""
    try:
        return worst_case(events, config.privacy.delta)
    except AccountingError as error:
        raise ConfigError(f"mechanism {config.mechanism.name}: {error}") from None


def promised(config: Federation) -> Guarantee:
    """The worst case if the whole query budget is used up: known before anything is asked."""
    return _worst_case(config, config.promised_events())


def towards_coordinator(config: FederationConfig) -> Guarantee | None:
    """What holds towards the coordinator for all that it sees, and what nodes are held to and a party charges: what
    sums with noise in them tell. None where it sees votes."""
    return _worst_case(config, config.held_to()) if config.noise_in_sums else None


def promises(config: FederationConfig) -> dict[str, Guarantee]:
    """All that is promised before a run, by name: `guarantee`, `student`; `nodes` where these are held to another list
    of events; and what `guarantee` means in other units."""
    student, nodes = promised(config), towards_coordinator(config)
    seen = {} if nodes is None else {NODES: nodes}
    return {"guarantee": student, "student": student, **seen, **promised_in_other_units(config)}


def promised_in_other_units(config: Federation) -> dict[str, Guarantee]:
    """What the promise means for a record and a party, by `guarantee_` and the unit, but the one that it is made in;
    empty where all are the same. Nothing is promised for a patient in other units: where a party names no patients, the
    rows of one are in several shards."""
    if len({replace(config.event(0, 0), unit=unit).votes_moved for unit in Unit}) == 1:
        return {}
    return {
        f"guarantee_{unit}": _worst_case(config, [replace(event, unit=unit) for event in config.promised_events()])
        for unit in (Unit.RECORD, Unit.PARTY)
        if unit is not config.privacy.unit
    }


def _closing(config: FederationConfig, closed: bool) -> list[ReleaseEvent]:
    event = config.closing_event() if closed else None
    return [] if event is None else [event]


def spent(config: FederationConfig, batches: list[Batch], closed: bool = False) -> dict[str, Guarantee]:
    """`spent` and `data_dependent` guarantee of what was released, both secret: the first is that of the counts which
    came out (`Kind.REALISED`), the second of the votes, exact in both directions. closed: the sanitised epsilon is
    charged too."""
    accountant = Accountant()
    for event in (config.event(0, 0), *_closing(config, closed)):
        accountant.commit(event)
    for batch in batches:
        votes = _votes(batch)
        accountant.commit(event_from_json(batch.event), None if votes is None else exact_rdp(votes))
    return {
        name: accountant.guarantee(config.privacy.delta, kind)
        for name, kind in (("spent", Kind.REALISED), ("data_dependent", Kind.DATA_DEPENDENT))
    }


def published_epsilon(config: FederationConfig, batches: list[Batch], closed: bool = False) -> float | None:
    """What the releases cost at the votes at hand by the bounds of the PATE papers, secret: one direction,
    D(M(D) || M(D')) with D the data at hand. None where there is no such bound. closed: see `spent`."""
    total = np.zeros(len(DEFAULT_ORDERS))
    for event in _closing(config, closed):
        total = total + event.worst_case_rdp(DEFAULT_ORDERS)
    for batch in batches:
        votes = _votes(batch)
        if votes is None or (published := published_rdp(votes)) is None:
            return None
        total = total + published
    return rdp_to_epsilon(total, DEFAULT_ORDERS, config.privacy.delta).epsilon


def _votes(batch: Batch) -> VoteBatch | None:
    """What decides its cost at the votes at hand, secret; None where the ledger keeps no votes."""
    if batch.histogram is None:
        return None
    return VoteBatch(event_from_json(batch.event), batch.histogram, batch.answered, batch.probabilities)


Normal = Callable[[], float]
"""Draws N(0, 1)."""


def close(config: FederationConfig, ledger: Ledger, normal: Normal | None, log: EventLog) -> dict[str, Any] | None:
    """Release the sanitised epsilon that the configuration plans; None if it plans none or nothing was asked.

    The first call draws, charges and records; every other one returns what was recorded. After it the ledger takes no
    charge any more: what came later would not be part of the number. normal : None for the operating system's entropy;
    a seeded one in simulations only.

    Returns `guarantee` (its JSON), `released_rdp`, `release_cost` and `event`, the charge: all of it may be published.
    Raises LedgerError : nothing was released.
    """
    planned, event = config.privacy.sanitised, config.closing_event()
    if planned is None or event is None:
        return None
    with ledger.exclusive():
        recorded = ledger.closing()
        if recorded is not None:
            return json.loads(recorded)
        batches = ledger.batches()
        if not batches:
            return None
        votes, teachers = answered_batches(batches), most_teachers(batches)
        try:
            released = sanitise(votes, planned.plan(), config.privacy.delta, teachers, normal)
        except AccountingError as error:
            # parties may have gone since the plan was checked; a worst case is still there
            log.write("not-sanitised", reason=f"{type(error).__name__}: {error}")
            return None
        result = {
            "guarantee": released.guarantee.to_json(),
            "released_rdp": released.released_rdp,
            "release_cost": released.release_cost,
            "event": event.to_json(),
        }
        text = json.dumps(result, sort_keys=True)
        ledger.close_with(text)
    return json.loads(text)


def answered_batches(batches: list[Batch]) -> list[VoteBatch]:
    """What the ledger keeps of every batch, as the accounting takes it. Secret."""
    return [votes for batch in batches if (votes := _votes(batch)) is not None]


def most_teachers(batches: list[Batch]) -> int:
    """The most votes that a query got; known to all who take part."""
    return max(int(batch.histogram[0].sum()) for batch in batches if batch.histogram is not None)


def expected(config: FederationConfig, parties: int) -> Expected:
    """Of a federation in which so many parties vote."""
    guarantee, nodes = promised(config), towards_coordinator(config)
    units, directions = votes_of_units(parties, config.event(0, 0)), len(config.rows.features)
    return Expected(
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        unit=guarantee.unit.value,
        votes=parties * config.teachers_per_party,
        undeclared=config.voting_rule.undeclared,
        epsilon_nodes=0.0 if nodes is None else nodes.epsilon,
        signal=signal(units, guarantee.epsilon, guarantee.delta, directions),
    )


def promise_in_words(federation: Federation) -> str:
    """What the federation releases, and what it promises about that whatever the votes are, for people."""
    guarantee, sanitised = promised(federation), federation.privacy.sanitised is not None
    unit, neighbouring = guarantee.unit.value, federation.privacy.neighbouring.value
    words = in_plain_words(guarantee.epsilon, guarantee.delta, unit, neighbouring, sanitised)
    return f"{federation.disclosure.release.sentence} {words}"


def towards_nodes(config: FederationConfig) -> str:
    """What is promised towards whoever collects votes, for people."""
    guarantee = towards_coordinator(config)
    return config.disclosure.towards_nodes(0 if guarantee is None else guarantee.epsilon)
