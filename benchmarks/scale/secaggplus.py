"""The same votes summed by Flower's SecAgg+, by today's secure mode and as verified votes, in one run on one thread.

Flower's part is its own code as it ships: `SecAggPlusWorkflow` at the server and `secaggplus_mod` at each client, with
Flower's defaults (22 bits for a number, masks of 32 bits) and a plain ClientApp that gives its votes as one array of
floats. Messages are coded and decoded as Flower sends them, outside the time that is measured; the network is not
there. Its neighbour graph is that of `num_shares`: all parties (the secure mode's threat model, threshold two thirds),
and 3 log2 of them (SecAgg+). Of CONSILIUM_SCALE_SECAGG parties (default "25 50 100") a tenth is lost before the masked
votes. A party's milliseconds are a mean over all.

SecAgg+ has no signatures, no check of shares, no proof that queries are public rows and no durable writes; the secure
mode has, and leaves out who deals false shares. Verified votes prove each vote besides, and need a second aggregator.
The coordinator's own noise is left out.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
from flwr.common import Code, FitIns, FitRes, Parameters, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import SecAggPlusWorkflow
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from benchmarks.cells import command_of
from benchmarks.cost.meter import Meter
from benchmarks.cost.model import SENT, CostedMode, Load, NodeKind
from benchmarks.cost.sessions import SIGMA, masked, verified
from benchmarks.scale.measured import answering, in_own_process
from consilium.protocol.noise import SystemNoise
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from docs.figures import figure
from tests.secagg.network import make_votes

QUERIES, CLASSES = 4000, 10
PARTIES = "25 50 100"


@dataclass(frozen=True)
class Proxy:
    """All that the workflow asks of a client."""

    node_id: int


class Everybody(FedAvg):
    """Asks all clients, and keeps their mean."""

    def __init__(self, nodes: Iterable[int]) -> None:
        super().__init__()
        self.nodes, self.mean = list(nodes), np.zeros(0)

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> list[Any]:
        """See flwr's Strategy."""
        return [(Proxy(node), FitIns(parameters, {})) for node in self.nodes]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """See flwr's Strategy."""
        self.mean = parameters_to_ndarrays(results[0][1].parameters)[0]
        return None, {}


@dataclass
class Clients:
    """Stands for the grid and its nodes; `meter` has the time of both sides."""

    votes: dict[int, np.ndarray]
    gone: set[int]
    meter: Meter
    up: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    down: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self._contexts = {node: Context(1, node, {}, RecordDict(), {}) for node in self.votes}

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """See flwr's Grid."""
        with self.meter("apart"):
            return [reply for message in messages if (reply := self._answered(message)) is not None]

    def _answered(self, message: Message) -> Message | None:
        assign_message_id(message)
        node = message.metadata.dst_node_id
        asked, self.down[node] = _sent(message, self.down[node])
        stage = asked.content.config_records["secaggplus_configs"]["stage"]
        if stage == "collect_masked_vectors" and node in self.gone:
            return Message(Error(code=0, reason="lost"), reply_to=asked)
        with self.meter("clients"):
            reply = secaggplus_mod(asked, self._contexts[node], self._fit)
        assign_message_id(reply)
        read, self.up[node] = _sent(reply, self.up[node])
        return read

    def _fit(self, message: Message, context: Context) -> Message:
        """The ClientApp."""
        votes = ndarrays_to_parameters([self.votes[context.node_id]])
        result = FitRes(Status(Code.OK, ""), votes, num_examples=1, metrics={})
        return Message(compat.fitres_to_recorddict(result, keep_input=True), reply_to=message)


def _sent(message: Message, before: int) -> tuple[Message, int]:
    objects = {key: part.deflate() for key, part in get_all_nested_objects(message).items()}
    size = sum(map(len, objects.values()))  # which are gone once they are read
    read = cast(Message, inflate_object_from_contents(message.object_id, objects))
    read.metadata.__dict__.update(message.metadata.__dict__)
    return read, before + size


def flower(count: int, shares: int) -> dict[str, Any]:
    """SecAgg+ with so many shares of each secret."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    assume_identity(1, 1)
    load = Load(count, QUERIES, CLASSES)
    votes = {node: make_votes(QUERIES, CLASSES, 1, node).astype(np.float64) for node in range(2, count + 2)}
    gone, meter, strategy = set(list(votes)[: load.gone]), Meter(traced=False), Everybody(votes)
    clients = Clients(votes, gone, meter)
    state = RecordDict(
        {
            MAIN_CONFIGS_RECORD: ConfigRecord({Key.CURRENT_ROUND: 1}),
            MAIN_PARAMS_RECORD: compat.parameters_to_arrayrecord(ndarrays_to_parameters([]), keep_input=True),
        }
    )
    context = LegacyContext(Context(1, 1, {}, state, {}), strategy=strategy)
    workflow = SecAggPlusWorkflow(shares, 2 * shares // 3 + 1, max_weight=1.0)
    with meter("all"):
        workflow(cast(Any, clients), context)
    here = [node for node in votes if node not in gone]
    right = np.array_equal(np.rint(strategy.mean * len(here)), sum(votes[node] for node in here))
    seconds = meter.seconds
    return {
        "party": 1000 * seconds["clients"] / count,
        "coordinator": seconds["all"] - seconds["apart"],
        "up": clients.up[here[0]],
        "down": clients.down[here[0]],
        "right": bool(right),
    }


def _ours(mode: CostedMode, count: int) -> dict[str, Any]:
    load, meter = Load(count, QUERIES, CLASSES), Meter(traced=False)
    SystemNoise().gaussian(SIGMA, (1,))  # what is imported on first use
    {"secure": masked, "verified": verified}[mode](load, meter)  # each ends the run where its sum is wrong
    start = time.process_time()
    SystemNoise().gaussian(SIGMA, (QUERIES, CLASSES))
    noise = time.process_time() - start
    sent = SENT[mode](load)
    return {
        "party": 1000 * meter.seconds[NodeKind.PARTY] / count,
        "coordinator": meter.seconds[NodeKind.COORDINATOR] - noise,
        "second": meter.seconds.get(NodeKind.SECOND, 0.0),
        "up": sent.up,
        "down": sent.down,
        "right": True,
    }


def secure(count: int) -> dict[str, Any]:
    """Today's secure mode."""
    return _ours("secure", count)


def proved(count: int) -> dict[str, Any]:
    """Verified votes."""
    return _ours("verified", count)


COLUMNS = ("parties", "", "party, ms", "coordinator, s", "second aggregator, s", "up, kB", "down, kB")


def rows() -> Iterator[list[str]]:
    """Four ways for each number of parties, each in a process of its own. Raises SystemExit where a sum is wrong."""
    for count in map(int, os.environ.get("CONSILIUM_SCALE_SECAGG", PARTIES).split()):
        few = max(3, min(count, 2 * round(1.5 * math.log2(count)) + 1))
        for name, measure, *more in (
            ("Flower's, all pairs", "flower", count, count),
            (f"Flower's, {few} shares", "flower", count, few),
            ("secure", "secure", count),
            ("verified", "proved", count),
        ):
            found = in_own_process(__spec__.name, measure, *more)
            if not found["right"]:
                raise SystemExit(f"{name}, {count} parties: the sum is wrong")
            coordinator = f"{found['coordinator']:.2f}" if found["coordinator"] < 10 else f"{found['coordinator']:.1f}"
            second = f"{found['second']:.2f}" if found.get("second") else ""
            kilobytes = [f"{found[way] / 1000:,.0f}" for way in ("up", "down")]
            yield [str(count), name, f"{found['party']:,.0f}", coordinator, second, *kilobytes]


def main() -> None:
    """Print the table."""
    command = command_of("benchmarks.scale.secaggplus", variables=["CONSILIUM_SCALE_SECAGG"])
    split = "made-up votes, all sums right"
    with figure("results/secaggplus", command, COLUMNS, split=split, timings=COLUMNS[2:5]) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    answering({"flower": flower, "secure": secure, "proved": proved}) if len(sys.argv) > 1 else main()
