"""The ClientApp of the round in Flower: the node's number says whose rows are its own."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from .task import Rows, votes_of

app = ClientApp()
load = lru_cache(maxsize=1)(Rows.load)


@app.query()
def query(message: Message, context: Context) -> Message:
    """The node's votes."""
    rows = load(Path(str(message.content.config_records["question"]["rows"])))
    votes = votes_of(*rows.of(int(context.node_config["partition-id"])), np.asarray(rows.queries))
    return Message(RecordDict({"votes": ArrayRecord({"votes": Array(votes)})}), reply_to=message)
