"""What a lying second aggregator learns by shifting a count: its guesses over many sessions, by all that it sees.

Five parties vote on one row with two classes, in each session on another one, without noise in the sums. So many of
them vote for the first class as the number k, or one fewer: by lot, each in half of the sessions. The second
aggregator, which is the program as it is but for this, takes k from that class in its half and gives them to the other:
the sum is one that votes give exactly if there were k. Then it watches: which messages come next, of which kinds and
sizes, what they hold but for random bytes (session ids, keys, signatures, the blinded head of the ledger), and where
the ledger stands in the next session. Its guess is by the best rule on all of this. Labels go into a real ledger.

The control is the collector of version 0.9, which raised an error for a sum that votes do not give.
Timing is not looked at.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.collection.clear import Standing
from consilium.coordinator.collection.verified import SecondAggregator, VerifiedCollector
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.protocol.noise import SystemNoise
from consilium.protocol.records import to_record
from consilium.sums.aggregators.field import Field
from consilium.sums.aggregators.half import ASKED, Half, add_up
from consilium.sums.aggregators.helper import Helper
from consilium.sums.aggregators.sealing import SignedKey
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.aggregators.uploads import VoteClient
from consilium.sums.aggregators.wire import (
    AggregatorRequest,
    LinkRequest,
    OpenRequest,
    UploadReply,
    UploadRequest,
    as_array,
)
from consilium.sums.errors import VerifiedError
from tests.verified.small import SECOND, TwoKinds, VerifiedSmall, made, queries_of

PARTIES, K = 5, 3
SESSIONS = 1000
RANDOM = ("sid", "leader_key", "head")
"""Of a session's terms: new random bytes each time, or a hash of secret ones."""

ASKS_FOR_HALF = (LinkRequest.kind, ASKED)
Seen = tuple[Any, ...]
"""What the second aggregator sees from one half that it gave until it is asked for the next, without random bytes."""


class WrongSum(VerifiedError):
    """As version 0.9 raised it."""

    def __init__(self) -> None:
        super().__init__("the totals do not add up to votes", "Examine both aggregators")


def as_in_0_9(field: Field, one: np.ndarray, other: np.ndarray, votes: int, tail: int) -> tuple[np.ndarray, np.ndarray]:
    """`add_up` that raises for what votes do not give."""
    sums = (one.astype(np.int64) + other) % field.prime
    if (sums > votes).any() or (sums.sum(axis=1) != votes).any():
        raise WrongSum()
    return add_up(field, one, other, votes, tail)


class Watched(TwoKinds):
    """Parties that vote as they are told, and a second aggregator that writes down what it gets."""

    def __init__(self, small: VerifiedSmall) -> None:
        super().__init__(small.homes, small.root / "second")
        self._roster = small.keys.roster
        self._identities = [Identity.load(home / "identity.pem") for home in small.homes]
        self.first = 0
        """Parties that vote for the first class."""
        self.seen: list[Seen] = []

    def _reply(self, node: int, request: WireModel):
        if node == SECOND and not isinstance(request, AggregatorRequest):  # the greeting comes once, at the beginning
            self.seen.append(shown(request))
        elif isinstance(request, UploadRequest):
            session = VerifiedTerms.open(request.terms, request.signature, self._roster)
            name, key = self._roster.name(node), SignedKey(request.helper_key, request.helper_signature)
            client = VoteClient(session, self._roster, name, self._identities[node], key)
            votes = np.tile([1, 0] if node < self.first else [0, 1], (session.queries, 1))
            upload = as_array(client.upload(votes))
            return to_record(UploadReply(sid=bytes.fromhex(session.sid), party=name, upload=upload))
        return super()._reply(node, request)


def shown(request: WireModel) -> Seen:
    """A request without what is random in it, and without which row is asked."""
    if isinstance(request, OpenRequest):
        terms = json.loads(request.terms)
        same = {name: value for name, value in terms.items() if name not in (*RANDOM, "query_set")}
        return request.kind, json.dumps(same, sort_keys=True), request.queries.shape
    if isinstance(request, LinkRequest):  # sealed: its kind is in plaintext, and how long it is
        return request.kind, int(request.content[1]), request.content.size
    raise ValueError(f"{request.kind} is not told the second aggregator in the middle of a federation")


def shifted(self: Helper) -> Half:
    """`Helper._close` of a liar."""
    half = HONEST(self)
    total = half.total.astype(np.int64)
    total[0] += [-K, K]
    return Half(half.nonce, (total % self.terms.field.prime).astype(half.total.dtype))


HONEST = Helper._close


@contextmanager
def federation(folder: Path) -> Iterator[tuple[Watched, Callable[[int], None]]]:
    """The second aggregator's eyes, and a session on the row with this number."""
    query_budget = QueryBudget(queries=SESSIONS + 2, answers=SESSIONS + 2)
    small = made(folder, PARTIES, query_budget=query_budget)
    watched, members, config = Watched(small), small.members, small.config
    with ExitStack() as stack:
        ledger = stack.enter_context(closing(Ledger(folder / "ledger.db", config.digest(), config.model_dump_json())))
        standing = Standing(ledger.position)
        nodes = [member.node for member in members]
        greeting = Greeting(ledger.position)
        second = SecondAggregator(watched, config, small.keys.roster, greeting, lambda: nodes, small.log)
        sessions = folder / "run" / "sessions"
        collector = VerifiedCollector(watched, config, members, small.keys, second, sessions, standing, small.log)
        service = LabelService(config, ledger, lambda _: SystemNoise(), collector, PARTIES, small.log)
        rows = queries_of(SESSIONS + 2)

        def ask(number: int) -> None:
            with suppress(ConsiliumError):  # the second aggregator is not told
                service.ask(rows[number : number + 1])

        yield watched, ask


def views(sessions: int, folder: Path, seed: int = 0) -> list[tuple[bool, Seen]]:
    """Of each session whether k parties voted for the first class, and what the liar saw from its half to the next."""
    truth = np.random.default_rng(seed).permutation(np.arange(sessions) % 2 == 0)
    ends: list[tuple[bool, int]] = []
    with federation(folder) as (watched, ask), patch.object(Helper, "_close", shifted):
        for number, enough in enumerate(truth.tolist()):
            watched.first, begun = (K if enough else K - 1), len(watched.seen)
            ask(number)
            half = next(at for at in range(begun, len(watched.seen)) if watched.seen[at][:2] == ASKS_FOR_HALF)
            ends.append((enough, half + 1))
        ask(sessions)
        return [(enough, after(watched.seen, start)) for enough, start in ends]


def after(seen: list[Seen], start: int) -> Seen:
    """What came from here until the next session is open; where its ledger stands is counted from this one's."""
    opens = [at for at, message in enumerate(seen) if message[0] == OpenRequest.kind]
    own, following = max(at for at in opens if at < start), min(at for at in opens if at >= start)
    *between, (kind, text, shape) = seen[start : following + 1]
    terms, before = json.loads(text), json.loads(seen[own][1])
    return *between, kind, json.dumps({**terms, "batch": terms["batch"] - before["batch"]}, sort_keys=True), shape


def best_guess(found: list[tuple[bool, Seen]]) -> float:
    """The share of sessions that a rule on what was seen guesses right: the best of all rules, chosen in hindsight."""
    counts = Counter(found)
    every = {view for _, view in found}
    return sum(max(counts[True, view], counts[False, view]) for view in every) / len(found)


def played(sessions: int, control: bool) -> float:
    """`best_guess` of so many sessions. control: as in version 0.9."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if control:
            stack.enter_context(patch("consilium.sums.aggregators.leader.add_up", as_in_0_9))
        return best_guess(views(sessions, Path(folder)))
