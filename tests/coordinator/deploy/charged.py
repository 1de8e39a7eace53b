"""A federation that a coordinator has served, as its ledger and log have it."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from consilium.coordinator.events import EventLog
from consilium.coordinator.ledger import Batch, Ledger
from consilium.coordinator.run_folders import RunFolder
from consilium.protocol.files import private_folder
from consilium.protocol.queries import canonical_queries, query_ids
from tests.federation import FEATURES, make_rows
from tests.node.folders import PARTIES

ROWS = canonical_queries(make_rows(60, 77)[0], len(FEATURES))
"""Public rows."""


def asked(run: RunFolder, count: int) -> list[str]:
    """Charge the first of `ROWS`, as if students had asked them; returns their ids."""
    ids = query_ids(ROWS)[:count]
    with (
        closing(EventLog(private_folder(run.path) / run.events.name)) as log,
        closing(Ledger.of(run.ledger, run.config)) as ledger,
    ):
        log.write("awaiting", parties=list(PARTIES))
        log.write("takes-part", parties=list(PARTIES))
        log.write("voted", parties=list(PARTIES), queries=count)
        nothing, none = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
        budget = run.config.query_budget
        event = run.config.event(count, count).to_json()
        ledger.commit(Batch(event, 3, tuple(ids), nothing, none), budget.queries, budget.answers)
        log.write("released", asked=count, answered=count, counted=3, release="winner")
    return ids
