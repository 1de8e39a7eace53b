"""One exchange of votes of each mode with its nodes in one process, each node's share of it measured.

Of a party everything but its teachers' votes and the training before: reading the questions and proving them, counting,
masking or proving its votes, its durable writes. Of the coordinator (and second aggregator) everything but Flower's
network and database; noise is drawn as deployments draw it. Messages are coded and decoded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from benchmarks.cost.meter import Meter
from benchmarks.cost.model import CostedMode, Load, NodeKind
from benchmarks.scale.clear import said_by
from consilium.protocol.choices import packed
from consilium.protocol.messages import VoteReply, WireModel
from consilium.protocol.noise import SystemNoise
from consilium.protocol.pool import PoolTree, proves
from consilium.protocol.queries import query_ids, query_set_hash
from consilium.protocol.records import from_record, to_record
from consilium.sums.aggregators.proof import Prover
from consilium.sums.masks.machine import drive
from consilium.sums.masks.messages import REPLIES, REQUESTS, SecAggMessage, Stage
from tests.protocol.verified.federation import VerifiedFederation, make_votes
from tests.secagg.network import Federation, make_queries

SIGMA = 200.0


class Questions:
    """The queries of an exchange, their pool and the proof."""

    def __init__(self, load: Load) -> None:
        self.rows = make_queries(load.queries, load.features)
        self.ids = query_ids(self.rows)
        tree = PoolTree(self.ids)
        self.pool = tree.terms(0.0)
        self.places, self.proof = tree.prove(self.ids)

    def read(self) -> None:
        """What a party does with them before it votes, in any mode."""
        query_set_hash(self.rows)
        if not proves(self.pool, query_ids(self.rows), self.places, self.proof):
            raise SystemExit("the queries are not in the pool")


def clear(load: Load, meter: Meter) -> None:
    """Parties alone: the coordinator is measured in a whole federation (`benchmarks.scale.clear`)."""
    asked = Questions(load)
    for node in range(load.parties):
        said = said_by(node, load.queries, load.classes)
        with meter(NodeKind.PARTY):
            asked.read()
            choices = packed(said, load.classes)
            to_record(VoteReply(party=f"party-{node:04d}", query_set="0" * 64, choices=choices))


def masked(load: Load, meter: Meter) -> None:
    """Secure votes, or distributed ones where the load has noise."""
    asked = Questions(load)
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(
            Path(folder),
            load.parties,
            load.classes,
            teachers=load.teachers,
            queries=asked.rows,
            noise=SystemNoise().gaussian if load.sigma else None,
        )
        noise = {"sigma": load.sigma, "noise_shares": federation.roster.u_min} if load.sigma else {}
        gone, base = set(federation.names[: load.gone]), meter.base()

        def send(stage: Stage, requests: Mapping[str, SecAggMessage]) -> dict[str, WireModel]:
            replies = {}
            for name, request in requests.items():
                if stage is Stage.MASKED and name in gone:
                    continue
                with meter(NodeKind.PARTY):
                    if stage is Stage.MASKED:
                        asked.read()
                    received = from_record(to_record(request), REQUESTS[stage])
                    replies[name] = from_record(to_record(federation.serve(name, stage, received)), REPLIES[stage])
            return replies

        class Turns:
            """The coordinator's own turns: all of the time that no party has."""

            def __call__(self, stage: Stage, requests: Mapping[str, SecAggMessage]) -> dict[str, WireModel]:
                turn.__exit__(None, None, None)
                replies = send(stage, requests)
                begin()
                return replies

        def begin() -> None:
            nonlocal turn
            turn = meter(NodeKind.COORDINATOR, base)
            turn.__enter__()

        turn = meter(NodeKind.COORDINATOR, base)
        turn.__enter__()
        result = drive(federation.machine(federation.terms(**noise)), Turns())
        if not load.sigma:
            SystemNoise().gaussian(SIGMA, result.sums.shape)
        turn.__exit__(None, None, None)
        if not load.sigma and not np.array_equal(result.sums, federation.total(result.survivors)):
            raise SystemExit("the sum is wrong")


def verified(load: Load, meter: Meter) -> None:
    """Leader and helper check every upload; a batch is settled when it is full."""
    asked = Questions(load)
    federation = VerifiedFederation(load.parties, load.queries, load.classes, load.teachers, no_votes=True)
    base = meter.base()
    before = meter.base()
    with meter(NodeKind.SECOND):
        helper = federation.helper()
        federation.keys()
        asked.read()
    own = meter.base() - before
    with meter(NodeKind.COORDINATOR, base):
        federation.keys().check(federation.session.ctx, load.parties, federation.helper_identity.public)
        leader = federation.leader()
        query_ids(asked.rows)
    base += own  # what the helper holds between its turns is not the leader's, and the other way round

    def settle() -> None:
        while True:
            with meter(NodeKind.COORDINATOR, base):
                batch = leader.batch()
            if batch is None:
                return
            with meter(NodeKind.SECOND, meter.base() - own):
                checked = helper.check(batch)
            with meter(NodeKind.COORDINATOR, base):
                leader.settle(checked)

    for place, name in enumerate(federation.names):
        votes = make_votes(place, load.queries, load.classes, load.teachers)
        with meter(NodeKind.PARTY):
            asked.read()
            prover = Prover(federation.session.grid)
            client = federation.client(name, prover=prover)
            upload = client.upload(votes)
        del prover, client
        with meter(NodeKind.COORDINATOR, base):
            leader.accept(name, upload)
        if leader.waiting == 32:
            settle()
    settle()
    with meter(NodeKind.COORDINATOR, base):
        ask = leader.ask()
    with meter(NodeKind.SECOND, meter.base() - own):
        given = helper.give(ask)
    with meter(NodeKind.COORDINATOR, base):
        sums = leader.finish(given).sums
        SystemNoise().gaussian(SIGMA, sums.shape)


SESSIONS: dict[CostedMode, Callable[[Load, Meter], None]] = {
    "plaintext": clear,
    "secure": masked,
    "distributed": masked,
    "verified": verified,
}
