"""Votes in plaintext: each answer is checked, added and dropped as it comes; a bad one leaves its party out by name.
What is held is the sum, however many parties there are."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.exchange import Failure, Member, Steps, require, stream, tell_left_out
from consilium.coordinator.collection.means import Collecting, Standing, VoteKeys
from consilium.coordinator.config import FederationConfig
from consilium.protocol.choices import add_choices, fault
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.files import private_folder, replacing
from consilium.protocol.messages import VoteReply, VoteRequest
from consilium.sums.modes import MODES

WIDEST = 8
"""Bytes of a number of any type: of a mistaken type a reply is still named; what has more bytes is not looked into."""


class PlaintextVotes(VoteKeys):
    """See `VoteKeys`."""

    roster = None

    @classmethod
    def of(cls, roster: None, own: Mapping[str, Any]) -> PlaintextVotes:
        return PLAINTEXT

    def check(self, config: FederationConfig) -> None:
        if config.collection in MODES:
            raise ConfigError(f"{config.collection} votes need a roster and the coordinator's key", "Name their files")

    def collector(self, means: Collecting) -> OverFlower:
        return OverFlower(means)


PLAINTEXT = PlaintextVotes()


class OverFlower:
    """The `Collector` of plaintext votes. Those of simulations may be kept, in `private/`."""

    def __init__(self, means: Collecting) -> None:
        self._means = means

    def collect(self, queries: Queries, sigma: float) -> Counts:
        """Ask `query.vote` of every member and add up the valid answers; whoever sends others, or none, is left out by
        name. Raises NotEnoughParties."""
        means, config, log = self._means, self._means.config, self._means.log
        by_node = {member.node: member for member in means.members}
        request, classes = vote_request(config, queries, means.standing), len(config.rows.classes)
        means.standing.voting(queries.rows, [member.party for member in by_node.values()])
        steps, most = Steps(log, "vote", len(by_node)), len(queries.rows) * config.teachers_per_party * WIDEST
        requests, total = dict.fromkeys(by_node, request), np.zeros((len(queries.rows), classes), dtype=np.int64)
        counted, failures, kept = list[Member](), dict[str, Failure](), dict[str, np.ndarray]()
        for node, reply in stream(means.transport, requests, VoteReply, config.timeouts.vote, steps, most):
            member = by_node[node]
            wrong = reply if isinstance(reply, Failure) else _fault(reply, request, member, classes)
            if wrong is not None:
                failures[member.party] = wrong
            elif isinstance(reply, VoteReply):
                add_choices(total, reply.choices)
                counted.append(member)
                if config.record_votes:
                    kept[member.party] = reply.choices
        tell_left_out(log, "vote", failures)
        require(len(counted), config.minimum_parties, "vote", failures)
        if config.record_votes:
            keep_votes(means.run_dir / "private", queries, kept)
        parties = tuple(sorted(member.party for member in counted))
        return Counts(total, parties, sum(member.teachers for member in counted))

    def settle(self) -> None:
        """Nothing is kept between collection and ledger."""


def vote_request(config: FederationConfig, queries: Queries, standing: Standing) -> VoteRequest:
    """What every party is asked."""
    places, proof = standing.proof(queries.rows)
    return VoteRequest(
        federation=config.digest(),
        query_set=queries.hash,
        **standing.position().model_dump(),
        queries=queries.rows,
        places=places,
        proof=proof,
        start=standing.start,
    )


def _fault(reply: VoteReply, request: VoteRequest, member: Member, classes: int) -> Failure | None:
    if reply.party != member.party or reply.query_set != request.query_set:
        return Failure("answers for another party or another query set")
    wrong = fault(reply.choices, len(request.queries), classes, member.teachers)
    return None if wrong is None else Failure(wrong)


PATTERN = "votes-*.npz"
UNUSABLE = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, MemoryError, NotImplementedError, TypeError)
"""What is raised for a file that is damaged."""


def keep_votes(folder: Path, queries: Queries, choices: Mapping[str, np.ndarray]) -> None:
    """Write what the counted parties of a simulation chose, by name: an .npz for each query set, with `query_ids`,
    `parties` in the order in which they answered, and `choices`, uint (parties, queries, teachers)."""
    path = private_folder(folder) / f"votes-{queries.hash[:12]}.npz"
    with replacing(path, 0o600) as file:
        parties, chosen = np.array(list(choices)), np.stack(list(choices.values()))
        np.savez_compressed(file, query_ids=np.array(queries.ids), parties=parties, choices=chosen)


def kept_votes(path: Path, classes: int) -> tuple[list[str], dict[str, np.ndarray]]:
    """What `keep_votes` wrote: ids of the queries, and each party's choices. Raises DataError: it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as content:
            ids, choices = content["query_ids"].tolist(), content["choices"]
            found = dict(zip(content["parties"].tolist(), choices, strict=True))
        wrong = next(filter(None, (fault(each, len(ids), classes, choices.shape[-1]) for each in choices)), None)
    except UNUSABLE as error:
        wrong = type(error).__name__
    if wrong is not None:
        raise DataError(f"{path.name} cannot be read: {wrong}")
    return ids, found
