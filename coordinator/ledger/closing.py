"""Close: the sanitised epsilon, released once; it is charged and recorded before anybody sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from consilium.accounting.errors import AccountingError
from consilium.accounting.events import event_from_json
from consilium.accounting.sanitise.release import Answered, sanitise
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger.batch import Batch
from consilium.coordinator.ledger.store import Ledger
from consilium.coordinator.run_log import EventLog

Normal = Callable[[], float]
"""Draws N(0, 1)."""


def close(config: FederationConfig, ledger: Ledger, normal: Normal | None, log: EventLog) -> dict[str, Any] | None:
    """Release the sanitised epsilon that the configuration plans; None if it plans none or nothing was asked.

    The first call draws, charges and records; every other one returns what was recorded. After it the ledger takes no
    charge any more: what came later would not be part of the number.

    Parameters
    ----------
    normal : None for the operating system's entropy; a seeded one in simulations only.

    Returns
    -------
    `guarantee` (its JSON), `released_rdp`, `release_cost`, `epsilon_limit` (or None) and `event`, the charge. All of
    it may be published.

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
        guarantee = released.guarantee.to_json()
        if released.epsilon_limit is not None:
            limit = f"at most {released.epsilon_limit:.4f} with probability {planned.confidence:g}"
            guarantee["method"] = f"{guarantee['method']}; {limit}"
        result = {
            "guarantee": guarantee,
            "released_rdp": released.released_rdp,
            "release_cost": released.release_cost,
            "epsilon_limit": released.epsilon_limit,
            "confidence": planned.confidence,
            "event": event.to_json(),
        }
        text = json.dumps(result, sort_keys=True)
        ledger.close_with(text)
    return json.loads(text)


def answered_batches(batches: list[Batch]) -> list[Answered]:
    """What the ledger keeps of every batch, as the accounting takes it. Secret."""
    return [
        Answered(event_from_json(batch.event), batch.histogram, batch.answered, batch.probabilities)
        for batch in batches
        if batch.histogram is not None
    ]


def most_teachers(batches: list[Batch]) -> int:
    """The most votes that a query got; known to all who take part."""
    return max(int(batch.histogram[0].sum()) for batch in batches if batch.histogram is not None)
