"""Twenty sums, a tenth of the parties away at random in each (from some stage on), and one party that lies in all of
them: how many sums come out, through the coordinator's collectors and real parties, and what the liar leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.events import EventLog
from consilium.coordinator.mechanisms import Distributed
from consilium.protocol.records import refusal_to_record
from consilium.protocol.refusals import Refusal, Rule
from consilium.sums.aggregators.uploads import VoteClient
from consilium.sums.errors import SecAggError
from consilium.sums.masks.party import checked_votes
from consilium.sums.roster import least_sum
from tests.coordinator.collection import cluster
from tests.coordinator.collection.cluster import Cluster, queries
from tests.federation import FakeTransport, Fault, drop, with_array
from tests.verified.small import lying, made

SUMS, QUERIES, AWAY = 20, 5, 0.1
STAGES = tuple(f"query.{stage}" for stage in cluster.STAGES)
NOBODY = "nobody lies"


@dataclass(frozen=True)
class Lie:
    """What one party does in every session. faults: of its replies, by kind. votes: in place of its own, int64
    (queries, classes), with the best proof there is for them; None: its own."""

    faults: Mapping[str, Fault]
    votes: Callable[[np.ndarray], np.ndarray] | None = None


def accuse_first(_: Any) -> Any:
    """Refuse, by the fault of the party whose name comes first."""
    return refusal_to_record(Refusal(rule=Rule.BAD_KEY, party="p00"))


def flipped(cells: np.ndarray) -> np.ndarray:
    """Every lowest bit is another one."""
    return cells ^ 1


def one_more(votes: np.ndarray) -> np.ndarray:
    """A vote too many in every row."""
    return votes + np.eye(votes.shape[1], dtype=np.int64)[0]


UNDER_MASKS = {
    NOBODY: Lie({}),
    "false shares": Lie({"query.sa_share": with_array("ciphertexts", flipped)}),
    "false shares at the end": Lie({"query.sa_unmask": with_array("shares", flipped)}),
    "rubbish for votes": Lie({"query.sa_masked": with_array("y", flipped)}),
    "accuses another": Lie({"query.sa_masked": accuse_first}),
    "false votes": Lie({}, one_more),
}
VERIFIED = {
    NOBODY: Lie({}),
    "rubbish for votes": Lie({"query.va_upload": with_array("upload", flipped)}),
    "false votes": Lie({}, one_more),
}
LIES = {"distributed": UNDER_MASKS, "secure": UNDER_MASKS, "verified": VERIFIED}


@dataclass(frozen=True)
class Sequel:
    """summed: parties in each sum that came out, in order. failed: names of the errors of the others. excluded: who was
    left out for good. warned: sums of which the operator was told that somebody votes falsely."""

    summed: tuple[tuple[str, ...], ...]
    failed: tuple[str, ...]
    excluded: frozenset[str]
    warned: int


def play(folder: Path, votes: str, n: int, lies: Sequence[str], sums: int = SUMS, seed: int = 0) -> Sequel:
    """One history. folder: empty; everybody's files go there. votes: how they are collected. lies: names of what the
    one liar does, one in each session, in turn."""
    rng, in_turn = np.random.default_rng([seed, n]), [LIES[votes][name] for name in lies]
    transport, collect, log = (_verified if votes == "verified" else _masked)(folder, votes, n)
    liar, absent = int(rng.integers(1, n)), round(AWAY * n)
    summed, failed = [], []
    for number in range(sums):
        lie = in_turn[number % len(in_turn)]
        gone = rng.choice([at for at in range(n) if at != liar], absent, replace=False)
        transport.faults = {(liar, kind): fault for kind, fault in lie.faults.items()}
        for at in gone:
            since = int(rng.integers(len(STAGES)))
            transport.faults |= {(int(at), kind): drop for kind in ("query.va_upload", *STAGES[since:])}
        with _voting(transport, votes, liar, lie.votes):
            try:
                summed.append(collect(*queries(QUERIES, 1000 * seed + number)).parties)
            except SecAggError as error:
                failed.append(type(error).__name__)
    events = list(map(_event, log.read_text(encoding="utf-8").splitlines()))
    excluded = frozenset(str(event["party"]) for event in events if event["event"] == "excluded")
    warned = sum(event["event"] == "false-votes" for event in events)
    return Sequel(tuple(summed), tuple(failed), excluded, warned)


def _event(line: str) -> dict[str, Any]:
    import json

    return json.loads(line)


def _masked(folder: Path, votes: str, n: int):
    log = EventLog(folder / "events.jsonl")
    noise = Distributed(threshold=0, sigma=2.0 * np.sqrt(least_sum(n, 0)), noise_shares=least_sum(n, 0))
    noisy = {"mechanism": noise, "query_budget": QueryBudget(queries=SUMS * QUERIES, answers=SUMS * QUERIES)}
    made_of = Cluster(folder, log, collection=votes, parties=n, **(noisy if votes == "distributed" else {}))
    collector = made_of.collector(made_of.ready())

    def collect(x: np.ndarray, name: str):
        found = collector(x, name)
        collector.settle()
        return found

    return made_of.transport, collect, folder / "events.jsonl"


def _verified(folder: Path, votes: str, n: int):
    mechanism, query_budget = (
        Distributed(threshold=0, sigma=4.0, noise_shares=1),
        QueryBudget(queries=SUMS * QUERIES, answers=SUMS * QUERIES),
    )
    small = made(folder, n, mechanism=mechanism, query_budget=query_budget)
    return small.transport, lambda x, name: small.ask(x), folder / "run" / "events.jsonl"


def _voting(
    transport: FakeTransport, votes: str, liar: int, change: Callable[[np.ndarray], np.ndarray] | None
) -> AbstractContextManager[None]:
    """One party's program votes so; the others' is as it is."""
    if change is None:
        return nullcontext()
    return (_forging if votes == "verified" else _unchecked)(transport, liar, change)


@contextmanager
def _unchecked(transport: FakeTransport, liar: int, change: Callable[[np.ndarray], np.ndarray]) -> Iterator[None]:
    def votes_of(votes: np.ndarray, terms: Any) -> np.ndarray:
        own = checked_votes(votes, terms)
        return change(own) if transport.requests[-1][0] == liar else own

    with patch("consilium.party.masked_session.checked_votes", votes_of):
        yield


@contextmanager
def _forging(transport: FakeTransport, liar: int, change: Callable[[np.ndarray], np.ndarray]) -> Iterator[None]:
    honest, forged = VoteClient.upload, lying(change)

    def upload(client: VoteClient, votes: np.ndarray) -> bytes:
        return (forged if transport.requests[-1][0] == liar else honest)(client, votes)

    with patch.object(VoteClient, "upload", upload):
        yield
