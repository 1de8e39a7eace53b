"""What a federation has promised and spent: the ledger's events through the accountant.

On closing, the sanitised epsilon is released once; it is charged and recorded before anybody sees it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.drowned import MOST_DIRECTIONS, signal, votes_of_units
from consilium.accounting.errors import AccountingError
from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.label_costs import VoteBatch, exact_rdp, published_rdp
from consilium.accounting.mechanisms import event_from_json
from consilium.accounting.sanitise.release import sanitise
from consilium.accounting.target import worst_case
from consilium.accounting.units import Unit
from consilium.coordinator.config import Federation, FederationConfig
from consilium.coordinator.events import EventWriter
from consilium.coordinator.ledger import Batch, Ledger
from consilium.protocol.errors import ConfigError, LedgerError
from consilium.report.disclosure import in_plain_words
from consilium.report.warnings import Expected

NODES = "nodes"
"""The guarantee towards the coordinator, and towards each of two aggregators, where the noise is in the sums."""


def promised(config: Federation) -> Guarantee:
    """The worst case if the whole query budget is used up: a function of the configuration alone, known before anything
    is asked.

    Raises
    ------
    ConfigError : the mechanism cannot be charged at this delta.
    """
    try:
        return worst_case(config.promised_events(), config.privacy.delta)
    except AccountingError as error:
        raise ConfigError(f"mechanism {config.mechanism.name}: {error}") from None


def promised_to_nodes(config: FederationConfig) -> Guarantee:
    """What the nodes of the federation are held to, and a party charges: where the noise is in the sums, what these
    tell whoever sees them; elsewhere `promised`.

    Raises
    ------
    ConfigError : the mechanism cannot be charged at this delta.
    """
    try:
        return worst_case(config.held_to(), config.privacy.delta)
    except AccountingError as error:
        raise ConfigError(f"mechanism {config.mechanism.name}: {error}") from None


def towards_coordinator(config: FederationConfig) -> Guarantee | None:
    """What holds towards the coordinator for all that it sees; None where it sees exact sums, or votes.

    Raises
    ------
    ConfigError : the mechanism cannot be charged at this delta.
    """
    return promised_to_nodes(config) if config.noise_in_sums else None


def promises(config: FederationConfig) -> dict[str, Guarantee]:
    """All that is promised before a run, by name: `promised`, `student`; `nodes` where these are held to another list
    of events; and what `promised` means in other units.

    Raises
    ------
    ConfigError : the mechanism cannot be charged at this delta.
    """
    nodes = {NODES: promised_to_nodes(config)} if config.noise_shares else {}
    return {"guarantee": promised(config), "student": promised(config), **nodes, **promised_in_other_units(config)}


def promised_in_other_units(config: Federation) -> dict[str, Guarantee]:
    """What the promise means for a record, a patient and a party, by `promised_` and the unit; the one that it is made
    in is left out. Empty where all are the same, as where a party has one teacher and counts get noise.

    Raises
    ------
    ConfigError : the mechanism cannot be charged at this delta.
    """
    if len({replace(config.event(0, 0), unit=unit).votes_moved for unit in Unit}) == 1:
        return {}
    others = [unit for unit in Unit if unit is not config.privacy.unit]
    try:
        return {
            f"guarantee_{unit}": worst_case(
                [replace(event, unit=unit) for event in config.promised_events()], config.privacy.delta
            )
            for unit in others
        }
    except AccountingError as error:
        raise ConfigError(f"mechanism {config.mechanism.name}: {error}") from None


def spent(config: FederationConfig, batches: list[Batch], closed: bool = False) -> dict[str, Guarantee]:
    """`spent` and `data_dependent` guarantee of what was released. Zero if nothing was.

    Both are secret: the first is that of the counts which came out (`Kind.REALISED`), the second of the votes. What may
    be published is `promised`.

    closed: the sanitised epsilon was released too, and is charged.
    """
    accountant = Accountant(DEFAULT_ORDERS)
    accountant.commit(config.event(0, 0))
    closing = config.closing_event()
    if closed and closing is not None:
        accountant.commit(closing)
    for batch in batches:
        accountant.commit(event_from_json(batch.event), at_hand(batch))
    return {
        name: accountant.guarantee(config.privacy.delta, kind)
        for name, kind in (("spent", Kind.REALISED), ("data_dependent", Kind.DATA_DEPENDENT))
    }


def published_epsilon(config: FederationConfig, batches: list[Batch], closed: bool = False) -> float | None:
    """What the releases cost at the votes at hand by the bounds of the PATE papers, to stand beside `spent`. Secret.

    One direction, D(M(D) || M(D')) with D the data at hand. None where there is no such bound. closed: see `spent`.
    """
    closing = config.closing_event()
    charged = [closing] if closed and closing is not None else []
    total = np.zeros(len(DEFAULT_ORDERS))
    for event in charged:
        total = total + event.worst_case_rdp(DEFAULT_ORDERS)
    for batch in batches:
        published = None if batch.histogram is None else published_rdp(_of(batch))
        if published is None:
            return None
        total = total + published
    return rdp_to_epsilon(total, DEFAULT_ORDERS, config.privacy.delta).epsilon


def at_hand(batch: Batch) -> np.ndarray | None:
    """What a batch cost at the votes at hand: float64 (orders,), secret; None where that is its worst case.

    Computed from the votes, in both directions, where the ledger has them.
    """
    return None if batch.histogram is None else exact_rdp(_of(batch))


def _of(batch: Batch) -> VoteBatch:
    if batch.histogram is None:
        raise LedgerError("the ledger has no votes of this batch", "Read it with the program that wrote it")
    return VoteBatch(event_from_json(batch.event), batch.histogram, batch.answered, batch.probabilities)


Normal = Callable[[], float]
"""Draws N(0, 1)."""


def close(config: FederationConfig, ledger: Ledger, normal: Normal | None, log: EventWriter) -> dict[str, Any] | None:
    """Release the sanitised epsilon that the configuration plans; None if it plans none or nothing was asked.

    The first call draws, charges and records; every other one returns what was recorded. After it the ledger takes no
    charge any more: what came later would not be part of the number.

    Parameters
    ----------
    normal : None for the operating system's entropy; a seeded one in simulations only.

    Returns
    -------
    `guarantee` (its JSON), `released_rdp`, `release_cost` and `event`, the charge. All of it may be published.

    Raises
    ------
    LedgerError : nothing was released.
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
        try:
            released = sanitise(
                answered_batches(batches), planned.plan(), config.privacy.delta, most_teachers(batches), normal
            )
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
    return [_of(batch) for batch in batches if batch.histogram is not None]


def most_teachers(batches: list[Batch]) -> int:
    """The most votes that a query got; known to all who take part."""
    return max(int(batch.histogram[0].sum()) for batch in batches if batch.histogram is not None)


def expected(federation: Federation, parties: int) -> Expected:
    """Of a federation in which so many parties vote.

    Raises
    ------
    ConfigError : it cannot be charged.
    """
    guarantee = promised(federation)
    nodes = towards_coordinator(federation) if isinstance(federation, FederationConfig) else None
    directions = MOST_DIRECTIONS
    if isinstance(federation, FederationConfig):
        directions = len(federation.rows.features)
    units = votes_of_units(parties, federation.event(0, 0))
    return Expected(
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        unit=guarantee.unit.value,
        votes=parties * federation.teachers_per_party,
        undeclared=federation.voting_rule.undeclared,
        epsilon_nodes=0.0 if nodes is None else nodes.epsilon,
        signal=signal(units, guarantee.epsilon, guarantee.delta, directions),
    )


def promise_in_words(federation: Federation) -> str:
    """What the federation releases, and what it promises about that whatever the votes are, for people.

    Raises ConfigError where it cannot be charged.
    """
    guarantee, privacy = promised(federation), federation.privacy
    words = in_plain_words(
        guarantee.epsilon,
        guarantee.delta,
        guarantee.unit.value,
        privacy.neighbouring.value,
        privacy.sanitised is not None,
    )
    return f"{federation.disclosure.release.sentence} {words}"


def towards_nodes(config: FederationConfig) -> str:
    """What is promised towards whoever collects votes, for people. Raises ConfigError where it cannot be charged."""
    guarantee = towards_coordinator(config)
    return config.disclosure.towards_nodes(0 if guarantee is None else guarantee.epsilon)
