"""What a ledger was charged for, against its configuration; and what is claimed, against what the ledger gives."""

from __future__ import annotations

import math
from typing import Any

from consilium.accounting.sanitise.release import sanitise, secret_smoothness
from consilium.coordinator.privacy import answered_batches, most_teachers, promises, spent
from consilium.coordinator.verify.findings import Absent, Contradiction, Damaged, agree, entry
from consilium.coordinator.verify.ledger import Recorded
from consilium.protocol import strict_json

TOLERANCE = 1e-9
"""Relative difference between a claimed and a recomputed number that rounding may explain."""


def check_query_budget(recorded: Recorded) -> str:
    """No more was asked or answered than the query budget allows."""
    batches, budget = recorded.batches, recorded.config.query_budget
    queries, answered = sum(len(batch.query_ids) for batch in batches), recorded.answered
    if queries > budget.queries:
        raise Contradiction(f"{queries} queries were asked, the cap is {budget.queries}")
    if answered > budget.answers:
        raise Contradiction(f"{answered} labels were given, the cap is {budget.answers}")
    return f"{queries} of {budget.queries} queries, {answered} of {budget.answers} labels"


def check_charges(recorded: Recorded) -> str:
    """Every batch was charged the event that the configuration gives for its counts."""
    config = recorded.config
    for place, batch in enumerate(recorded.batches, 1):
        expected = config.event(len(batch.query_ids), int(batch.answered.sum())).to_json()
        if batch.event != expected:
            differing = sorted(key for key in expected if batch.event.get(key) != expected[key])
            raise Contradiction(f"batch {place}: the event differs in {', '.join(differing) or 'its keys'}")
    return config.mechanism.describe()


MOST_DEVIATIONS, ROUNDING = 7.0, 2e-4
"""A sanitised curve is within so many standard deviations of what the ledger's votes give, but once in 4e11 runs."""


def check_closing(recorded: Recorded) -> str:
    """The released number, up to its noise, from the histograms in the ledger; the charge from the plan."""
    planned, event, closing = recorded.config.privacy.sanitised, recorded.config.closing_event(), recorded.closing
    if planned is None or event is None:
        if closing is not None:
            raise Contradiction("the ledger is closed with a sanitised epsilon that nobody planned")
        raise Absent("none is planned")
    if closing is None:
        raise Absent("planned, not released")
    agree("the charge", entry(closing, "the closing", "event"), event.to_json())
    if any(batch.histogram is None for batch in recorded.batches) or not recorded.batches:
        raise Contradiction("the ledger lacks the histograms of which it is")
    votes, teachers, plan = answered_batches(recorded.batches), most_teachers(recorded.batches), planned.plan()
    again = sanitise(votes, plan, recorded.config.privacy.delta, teachers, lambda: 0.0)
    cost, rdp = _number(closing, "the closing", "release_cost"), _number(closing, "the closing", "released_rdp")
    _close_to("the release's cost", cost, plan.cost())
    guarantee = entry(closing, "the closing", "guarantee")
    epsilon = _number(guarantee, "the closing", "epsilon")
    if not abs((rdp - again.released_rdp) - (epsilon - again.guarantee.epsilon)) < TOLERANCE:
        raise Contradiction("the released curve and the epsilon do not belong together")
    for key, truth in again.guarantee.to_json().items():
        if key not in ("epsilon", "method"):
            agree(f"its {key}", entry(guarantee, "the closing", key), truth)
    secret = secret_smoothness(votes, plan, teachers)
    scale = secret.smooth * plan.sigma_ss
    if not abs(rdp - again.released_rdp) <= MOST_DEVIATIONS * scale + ROUNDING:
        raise Contradiction("it is further from the ledger's votes than its noise explains")
    return f"{epsilon:.4f}, of which the release itself costs {cost:.4f}"


def guarantees_of(recorded: Recorded) -> dict[str, dict[str, Any]]:
    """What was promised and spent, by name, as JSON. What a closing released was drawn once, and is as recorded."""
    config, closing = recorded.config, recorded.closing
    every = promises(config) | spent(config, recorded.batches, closing is not None)
    guarantees: dict[str, dict[str, Any]] = {name: one.to_json() for name, one in every.items()}
    return guarantees if closing is None else guarantees | {"sanitised": entry(closing, "the closing", "guarantee")}


def check_claims(name: str, claims: object, truth: dict[str, dict[str, Any]]) -> str:
    """Every guarantee that should be claimed is, and says what the ledger gives, word by word; there is no other."""
    if not isinstance(claims, dict):
        raise Damaged(f"{name} has no guarantees")
    agree(f"{name}: its guarantees", sorted(claims), sorted(truth))
    for key, claim in claims.items():
        check_epsilon(f"{name}: {key}", claim, "epsilon", truth[key])
        if {**claim, "epsilon": None} != {**truth[key], "epsilon": None}:
            raise Contradiction(f"{name}: {key} has other words than the ledger's guarantee")
    return ", ".join(claims)


def check_epsilon(name: str, claims: object, key: str, truth: dict[str, Any]) -> None:
    """Raise Contradiction unless the number at `key` is the guarantee's epsilon. A secret one is not told."""
    numbers = _number(claims, name, key), _number(truth, "the ledger", "epsilon")
    _close_to(f"{name}: {key}", *numbers, secret=not truth.get("publishable", False))


def _number(table: Any, name: str, key: str) -> float:
    try:
        return strict_json.number(table, key)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged(f"{name}: {key} is no number") from None


def _close_to(name: str, claimed: float, truth: float, *, secret: bool = False) -> None:
    if claimed != truth and not math.isclose(claimed, truth, rel_tol=TOLERANCE):
        numbers = "" if secret else f": claimed {claimed:.6g}, the ledger gives {truth:.6g}"
        raise Contradiction(f"{name} is not the ledger's{numbers}")
