"""A coordinator's kit in the middle of a run, as the console reads it."""

from __future__ import annotations

import numpy as np

from consilium.accounting.events import event_from_json
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy.runs import KitRun, begin
from consilium.coordinator.events import EventLog
from consilium.coordinator.ledger import Batch, Ledger
from consilium.node.kit import Kit
from consilium.protocol.label_source import NO_LABEL

SECRET = 741_852_963
"""Stands where votes stand: it must be nowhere on a page."""


def batch_of(
    config: FederationConfig, query_ids: list[str], labels: list[int], histogram: list[list[int]] | None = None
) -> Batch:
    """One batch with these labels, NO_LABEL where there was no answer."""
    given = np.array(labels, dtype=np.int64)
    event = config.event(len(labels), int((given != NO_LABEL).sum())).to_json()
    event_from_json(event)
    votes = None if histogram is None else np.array(histogram, dtype=np.int64)
    return Batch(
        event=event,
        parties=3,
        query_ids=tuple(query_ids),
        labels=given,
        reinforced=np.zeros(len(labels), dtype=bool),
        log_q_check=None if votes is None else np.full(len(labels), -1.0),
        log_q_label=None if votes is None else np.full(len(labels), -1.0),
        histogram=votes,
        probabilities=None if votes is None else np.zeros(votes.shape),
    )


def charge(kit: Kit, labels: list[int], histogram: list[list[int]] | None = None) -> None:
    """One such batch in the ledger."""
    run = begin(kit)
    config = run.config
    ledger = Ledger(run / "ledger.db", config.digest(), config.model_dump_json(exclude={"noise_seed"}))
    batch = batch_of(config, [f"{number:064x}" for number in range(len(labels))], labels, histogram)
    ledger.commit(batch, config.query_budget.queries, config.query_budget.answers)
    ledger.close()


def events(kit: Kit) -> EventLog:
    """The run's log, to be written."""
    return EventLog(begin(kit).events)


def half_way(kit: Kit, reason: str = "refused: most-epsilon, requested 33.6, limit 20") -> KitRun:
    """A run that serves, in which one party was left out."""
    log = events(kit)
    log.write("waiting", connected=1, required=2)
    log.write("connected", parties=["ward-a", "ward-b", "ward-c"])
    log.write("stage", stage="enrol", total=3)
    log.write("enrolled", parties=["ward-a", "ward-c"])
    log.write("left-out", stage="train", party="ward-b", reason=reason, for_data=False)
    log.write("warned", code="few-answers", text="30 answers are few for a student")
    log.write("takes-part", parties=["ward-a", "ward-c"])
    log.write("serving", address="127.0.0.1:8444")
    log.write("stage", stage="secure sum: share", total=3)
    log.write("progress", stage="secure sum: share", done=2, total=3)
    log.close()
    return begin(kit)
