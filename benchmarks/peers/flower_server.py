"""The ServerApp of the round in Flower: asks every node once, and adds up what they say."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from .processes import processor_seconds
from .task import Rows, measured

SECONDS, FIRST = 7200.0, 20
"""How long a node may take, and how many are asked before the round, so that Ray's actors have loaded the app."""
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One round; see `task.measured`."""
    rows, out = Rows.load(Path(str(context.run_config["rows"]))), Path(str(context.run_config["out"]))
    while len(nodes := list(grid.get_node_ids())) < len(rows.ends):
        time.sleep(0.1)

    def total_of(chosen: list[int]) -> np.ndarray:
        total = np.zeros(len(rows.queries), dtype=np.int64)
        question = RecordDict({"question": ConfigRecord({"rows": str(context.run_config["rows"])})})
        requests = [Message(question, dst_node_id=node, message_type="query") for node in chosen]
        for reply in grid.send_and_receive(requests, timeout=SECONDS):
            total += reply.content.array_records["votes"]["votes"].numpy()
        return total

    total_of(nodes[:FIRST])
    measured(lambda: total_of(nodes), out, processor_seconds)
