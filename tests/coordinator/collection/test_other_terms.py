"""A lying coordinator enrols the others of a block with terms of its own choice, and subtracts what they vote then.

It says the same hash of the federation to everybody, which no node can compute. The others' teachers are made to know
nothing: their scores tie, and their votes are the public lot. What is left of an exact sum is then one party's vote.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.collection.exchange import Member
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.models.keys import LogisticRegressionSpec
from consilium.party.voting import Lot, votes_of_teachers
from consilium.protocol.choices import counted
from consilium.protocol.messages import TrainRequest
from consilium.protocol.queries import query_ids
from consilium.sums.errors import ThresholdNotMet
from consilium.sums.terms import SessionTerms
from tests.coordinator.collection.cluster import Cluster, queries
from tests.federation import FakeTransport, hello_of, make_homes, make_relative
from tests.verified.small import TwoKinds, VerifiedSmall, make_aggregators

QUERIES = 12
REAL: dict[str, Any] = {"simulation": False, "seed": -1, "noise_seed": None}
USELESS = {"teacher": LogisticRegressionSpec(C=1e-300)}


def enrol(transport: FakeTransport, true: FederationConfig, others: FederationConfig) -> list[Member]:
    """The first party with the true terms, the rest with others, all under the true hash."""
    members = []
    for node, party in transport.parties.items():
        config = others if node else true
        request = TrainRequest(**{**dict(config.train_request()), "federation": true.digest()})
        reply = party.hello(hello_of(config, federation=true.digest(), request=request.digest()))
        party.train(request)
        members.append(Member(node, reply.party, reply.teachers))
    return members


def left_over(sums: np.ndarray, members: list[Member], federation: str, x: np.ndarray) -> np.ndarray:
    """The sum less what all but the first party vote, by public values alone: int64 (queries, classes)."""
    votes = np.zeros_like(sums)
    for member in members[1:]:
        lot = Lot(member.party, federation, query_ids(x))
        drawn = lot.draw_all(0, np.arange(len(x)), np.ones((len(x), 2), dtype=bool))
        votes += np.eye(2, dtype=np.int64)[drawn]
    return sums - votes


def votes_of_first(transport: FakeTransport, federation: str, x: np.ndarray) -> np.ndarray:
    teachers = transport.parties[0].store.teachers(federation)
    lot = Lot("p00", federation, query_ids(x))
    return counted(np.array(votes_of_teachers(teachers, teachers.schema.inputs(x), lot)).T, 2)


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "control"])
@pytest.mark.parametrize("collection", ["secure", "verified"])
def test_an_exact_sum_is_of_parties_with_the_same_terms(
    tmp_path: Path, log: Any, monkeypatch: pytest.MonkeyPatch, collection: str, bound: bool
) -> None:
    """Control: where nodes do not look at it, all votes of the first party are read off."""
    if not bound:
        monkeypatch.setattr(SessionTerms, "are_of", lambda *_: True)
    x, name = queries(QUERIES)
    if collection == "secure":
        policy = {"collection": "secure", "allow_simulation": False}
        made = Cluster(tmp_path, log, make=make_relative, policy=policy, **REAL)
        true, transport = made.config, made.transport
        others = make_relative(collection="secure", roster=true.roster, **USELESS, **REAL)
        members = enrol(transport, true, others)
        ask = lambda: made.collector(members)(x, name)  # noqa: E731
    else:
        homes = make_homes(tmp_path / "parties", 7, collection="verified", allow_simulation=False)
        keys = make_aggregators(homes, tmp_path, allow_simulation=False)
        budget = QueryBudget(queries=100, answers=100)
        exact = {"exact_sums": True, "mechanism": GNMax(sigma=4.0), "query_budget": budget, **REAL}
        exact |= {"collection": "verified", "roster": keys.roster.digest}
        true, others = make_relative(**exact), make_relative(**exact, **USELESS)
        transport = TwoKinds(homes, tmp_path / "second")
        (tmp_path / "run").mkdir()
        members = enrol(transport, true, others)
        small = VerifiedSmall(tmp_path, homes, keys, true, transport, log)
        ask = lambda: small.ask(x)  # noqa: E731
    if bound:
        with pytest.raises(ThresholdNotMet, match="1 parties are left"):
            ask()
        return
    found = left_over(ask().votes, members, true.digest(), x)
    assert (found == votes_of_first(transport, true.digest(), x)).all()
