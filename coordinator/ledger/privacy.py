"""What a federation has promised and spent: the ledger's events through the accountant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import rdp_to_epsilon
from consilium.accounting.curves.orders import DEFAULT_ORDERS
from consilium.accounting.errors import AccountingError
from consilium.accounting.events import Evidence, event_from_json
from consilium.accounting.guarantee import Guarantee, Kind
from consilium.accounting.planning.target import worst_case
from consilium.coordinator.config import Federation, FederationConfig
from consilium.coordinator.ledger.batch import Batch
from consilium.protocol.errors import ConfigError

EXACT_POINTS = 30


def promised(config: Federation) -> Guarantee:
    """The worst case if all caps are used up: a function of the configuration alone, known before anything is asked.

    Raises
    ------
    ConfigError : the mechanism cannot be charged at this delta.
    """
    try:
        return worst_case(config.promised_events(), config.privacy.delta)
    except AccountingError as error:
        raise ConfigError(f"mechanism {config.mechanism.name}: {error}") from None


def promised_at(config: Federation, weight: int) -> Guarantee:
    """What the promise means for a party whose answers count `weight` times: its own worst case.

    Raises
    ------
    ConfigError : the mechanism cannot be charged at this delta.
    """
    try:
        return worst_case([replace(event, weight=weight) for event in config.promised_events()], config.privacy.delta)
    except AccountingError as error:
        raise ConfigError(f"mechanism {config.mechanism.name}: {error}") from None


def by_party(config: Federation, weights: Mapping[str, int]) -> dict[str, Any]:
    """`by_party`: the weight and the own epsilon of each party, all public facts; empty where every party counts once.

    The federation's own promise is that of the largest weight which it allows.
    """
    if config.most_weight == 1:
        return {}
    own = {weight: promised_at(config, weight).to_json() for weight in set(weights.values())}
    return {
        "by_party": {
            party: {
                "weight": weight,
                **{key: own[weight][key] for key in ("epsilon", "infinite") if key in own[weight]},
            }
            for party, weight in sorted(weights.items())
        }
    }


def spent(config: FederationConfig, batches: list[Batch], closed: bool = False) -> dict[str, Guarantee]:
    """`worst_case` and `data_dependent` guarantee of what was released. Zero if nothing was.

    Neither may be published: the first is that of the counts which came out (`Kind.REALISED`), the second is secret.
    What may is `promised`.

    closed: the sanitised epsilon was released too, and is charged.
    """
    accountant = Accountant(DEFAULT_ORDERS)
    accountant.commit(config.event(0, 0))
    closing = config.closing_event()
    if closed and closing is not None:
        accountant.commit(closing)
    for batch in batches:
        event = event_from_json(batch.event)
        evidence = Evidence(batch.log_q_check, batch.log_q_label)
        known = any(
            part is not None for part in evidence
        )  # where nothing is known of the votes, the worst case is charged
        accountant.commit(event, event.data_dependent_rdp(evidence, batch.answered, DEFAULT_ORDERS) if known else None)
    return {
        name: accountant.guarantee(config.privacy.delta, kind)
        for name, kind in (("worst_case", Kind.REALISED), ("data_dependent", Kind.DATA_DEPENDENT))
    }


def epsilon_by_query(config: FederationConfig, batches: list[Batch]) -> dict[str, np.ndarray]:
    """How epsilon grows: two float64 arrays (asked,), `worst_case` and `data_dependent`, after each query.

    The second is secret. Where the worst case has an exact form it is evaluated at `EXACT_POINTS` queries only, and
    the value of the next one stands for those between.
    """
    if not batches:
        return {"worst_case": np.zeros(0), "data_dependent": np.zeros(0)}
    dependent, worst, answered, added = [], [], [], []
    for batch in batches:
        event = event_from_json(batch.event)
        evidence = Evidence(batch.log_q_check, batch.log_q_label)
        one = {got: event.with_counts(1, int(got)) for got in set(batch.answered.tolist())}
        curves = {got: single.worst_case_rdp(DEFAULT_ORDERS) for got, single in one.items()}
        worst.append(np.array([curves[got] for got in batch.answered.tolist()]))
        known = any(part is not None for part in evidence)
        at_these = event.data_dependent_rdp_per_query(evidence, batch.answered, DEFAULT_ORDERS) if known else worst[-1]
        dependent.append(at_these)
        answered.append(batch.answered)
        added.append(np.full(len(batch.answered), event.added_delta() / max(1, event.asked)))
    left = config.privacy.delta - np.cumsum(np.concatenate(added))
    worst_curve = _epsilons(np.concatenate(worst), left)
    given = np.cumsum(np.concatenate(answered))
    points = np.unique(np.linspace(1, len(given), EXACT_POINTS).astype(int))
    exact = [_exact(config, asked, int(given[asked - 1])) for asked in points]
    if None not in exact:
        steps = np.array(exact, dtype=np.float64)[np.searchsorted(points, np.arange(1, len(given) + 1))]
        worst_curve = np.minimum(worst_curve, steps)
    dependent_curve = _epsilons(np.concatenate(dependent), left)
    return {"worst_case": worst_curve, "data_dependent": np.minimum(dependent_curve, worst_curve)}


def _epsilons(costs: np.ndarray, deltas: np.ndarray) -> np.ndarray:
    total = np.cumsum(costs, axis=0)
    return np.array(
        [rdp_to_epsilon(curve, DEFAULT_ORDERS, delta).epsilon for curve, delta in zip(total, deltas, strict=True)]
    )


def _exact(config: FederationConfig, asked: int, answered: int) -> float | None:
    accountant = Accountant(DEFAULT_ORDERS)
    accountant.commit(config.event(asked, answered))
    return accountant.exact_worst_case_epsilon(config.privacy.delta)
