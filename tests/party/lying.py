"""A coordinator that promises and asks at random, against one party: what leaves must cost no more than is charged.

The party is the real code on its own disk; only its teachers are constant, so that no training is needed. Of a secure
session what would leave under masks is taken from `PartyNode.votes`, as stage 2 takes it: others can unmask it without
the party.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from scipy.optimize import brentq
from scipy.special import log_ndtr

from consilium.accounting.mechanisms import event_from_json
from consilium.accounting.units import votes_moved
from consilium.node.limits import epsilon
from consilium.party.voting import TeacherSet
from consilium.protocol.errors import ConfigError, DataError, MalformedMessage
from consilium.protocol.identity import Identity
from consilium.protocol.messages import PROTOCOL_VERSION, HelloRequest, LedgerPosition, TrainRequest, VoteRequest
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_ids, query_set_hash
from consilium.protocol.refusals import Refused
from consilium.protocol.schema import Schema
from consilium.sums.errors import SecAggError
from consilium.sums.roster import Roster
from consilium.sums.secure.messages import AdvertiseRequest
from consilium.sums.secure.terms import KeyTerms, MaskedTerms
from consilium.sums.voter import QuerySet
from tests.federation import CLASSES, FEATURES, make_rows, node_at

N = 6
POOL = canonical_queries(make_rows(40, 77)[0], len(FEATURES))
TREE = PoolTree.of_rows(POOL)
SCHEMA = Schema.from_public_rows(FEATURES, CLASSES, POOL.astype(np.float64))
KINDS = (
    "gnmax",
    "difference",
    "confident",
    "lnmax",
    "distributed",
    "distributed_two_phase",
    "immutable",
    "immutable_gaussian",
    "sanitised",
)
REFUSED = (Refused, SecAggError, ConfigError, DataError, MalformedMessage, ValueError)


class Constant:
    """A teacher that always votes for class 0."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.zeros(len(x), dtype=np.int64)


def gaussian_epsilon(squared: float, delta: float) -> float:
    """Least epsilon of a Gaussian release with this mu^2 (Dong, Roth, Su 2019), written down here once more."""
    mu = math.sqrt(squared)
    if mu == 0:
        return 0.0

    def excess(value: float) -> float:
        low, high = log_ndtr(-value / mu + mu / 2), value + log_ndtr(-value / mu - mu / 2)
        return math.exp(low) * -math.expm1(min(high - low, 0.0)) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, mu * mu + 40 * mu + 10))


@dataclass
class Outcome:
    """What one game showed.

    ratio: true cost over what was charged, or over what the policy allows if that is less.
    let_out: how often each query and round left.
    """

    ratio: float = 0.0
    let_out: Counter = field(default_factory=Counter)
    accepted: bool = False
    rules: Counter = field(default_factory=Counter)


class Game:
    """One party, one coordinator. `generator` decides everything but keys."""

    def __init__(self, folder: Path, generator: np.random.Generator) -> None:
        self.generator, self.folder = generator, folder
        folder.mkdir(parents=True)
        identities = {f"p{index}": Identity.generate() for index in range(N)}
        self.signer = Identity.generate()
        public = {name: identity.public.hex() for name, identity in identities.items()}
        self.roster = Roster.build(public, self.signer.public.hex(), colluders=int(generator.integers(0, 2)))
        self.roster.save(folder / "roster.json")
        identities["p0"].save(folder / "identity.pem")
        self.teachers = int(generator.integers(1, 4))
        self.limits = self.policy()
        policy = {"allowed_classes": list(CLASSES), "most_teachers": 3, **self.limits}
        (folder / "party.toml").write_text(tomli_w.dumps({"name": "p0", "policy": policy}))
        self.node = node_at(folder)
        self.drawn: list[tuple[float, int]] = []
        self.outcome = Outcome()

    def policy(self) -> dict[str, Any]:
        """The party's own limits."""
        return {
            "most_queries": int(self.pick([5, 30, 1000])),
            "most_epsilon": float(self.pick([0.5, 20.0, 1e3, 1e9])),
            "delta": float(self.pick([1e-4, 1e-6])),
            "unit": self.pick(["party", "record"]) if self.teachers == 1 else "party",
            "collection": self.pick(["plaintext", "secure"]),
        }

    def pick(self, items):
        """One of the items."""
        return items[int(self.generator.integers(len(items)))]

    def number(self, honest: float, edges: tuple = (0, 1, -1, 0.5, 1e-9, 1e5, 1e6, 1e9, 1e300, math.inf)) -> Any:
        """The honest number, mostly; else one at the edge of what can be, or no number."""
        roll = self.generator.random()
        if roll < 0.97:
            return honest
        return self.pick(edges) if roll < 0.995 else self.pick(["7", None, True, [1]])

    def event(self, kind: str) -> dict[str, Any]:
        """JSON of a release event, mostly one that could be."""
        asked = int(self.pick([1, 5, 20, 40, 2000]))
        answered = int(self.pick([asked, max(1, asked // 2)]))
        sigma, shares = float(self.pick([3.0, 3.75, 20.0, 150.0])), self.roster.least - self.roster.c
        table: dict[str, Any] = {
            "type": self.number(kind, ("free", "gnmax", "")),
            "asked": self.number(asked),
            "answered": self.number(answered),
            "unit": self.pick(["record", "party"]),
            "neighbouring": self.pick(["replace", "add_or_remove"]),
            "teachers_per_party": self.number(self.teachers),
            "towards": "coordinator" if kind.startswith("distributed") else "student",
            "noise": self.pick(["discrete"] * 19 + ["continuous"]),
            "slack": 0.0,
        }
        match kind:
            case "gnmax" | "difference":
                table |= {"sigma": self.number(sigma), "answered": table["asked"]}
            case "confident":
                table |= {"threshold": 3.0, "sigma1": self.number(sigma), "sigma2": self.number(sigma)}
            case "lnmax":
                table |= {"gamma": self.number(0.05), "answered": table["asked"]}
            case "distributed":
                table |= {"sigma": self.number(sigma), "noise_shares": self.number(shares, (0, 1, 2, 5, 6, 1000))}
            case "distributed_two_phase":
                table |= {"sigma1": self.number(sigma), "sigma2": self.number(2 * sigma), "noise_shares": shares}
            case "immutable":
                table |= {"gamma": 0.05, "constant": 5}
            case "immutable_gaussian":
                table |= {"sigma": 40.0, "constant": 5}
            case "sanitised":
                table |= {"asked": 0, "answered": 0, "noise": "continuous"}
                table |= {"beta": self.number(0.1), "sigma_ss": self.number(6.0)}
        return table

    def hello(self) -> HelloRequest:
        """Terms, mostly such that a promise and a mode go together."""
        votes = self.pick([self.limits["collection"]] * 9 + ["plaintext"])
        fitting = KINDS[4:6] if votes == "secure" else KINDS[:4]
        events = [self.event(self.pick(fitting) if self.generator.random() < 0.9 else self.pick(KINDS))]
        while self.generator.random() < 0.1:
            kinds = fitting if self.generator.random() < 0.7 else KINDS
            events.insert(int(self.generator.integers(2)), self.event(self.pick(kinds)))
        self.train = TrainRequest(
            federation="a" * 64,
            rows_json=SCHEMA.model_dump_json(),
            spec_json="{}",
            voting_rule_json="{}",
            reference=np.zeros((0, len(SCHEMA.features)), dtype=np.float32),
            teachers=self.teachers,
            seed=-1,
        )
        return HelloRequest(
            protocol_version=PROTOCOL_VERSION,
            federation="a" * 64,
            classes=list(CLASSES),
            teachers=self.pick([self.teachers] * 39 + [1, 2, 3, 1000]),
            simulation=bool(self.pick([False] * 19 + [True])),
            promise=json.dumps(events),
            collection=votes,
            roster=self.pick([self.roster.digest] * 19 + ["b" * 64]) if votes != "plaintext" else "",
            public=self.pick([TREE.terms(0.0).model_dump_json()] * 20 + ["", "", "{}", "[1]"]),
            request=self.train.digest(),
            ledger="c" * 64,
            batch=0,
            head="0" * 64,
            student="",
            late=False,
            starts=[],
            program="",
        )

    def play(self, messages: int = 6) -> Outcome:
        """Enrol, ask, and compare what left with what was charged."""
        try:
            self.terms = self.hello()
            self.node.hello(self.terms)
        except REFUSED as error:
            self.count(error)
            return self.outcome
        self.outcome.accepted = True
        digest = self.terms.federation
        teachers = TeacherSet(SCHEMA, "made", "", [Constant()] * self.teachers)  # pyright: ignore[reportArgumentType]
        self.node.store.keep_teachers(digest, teachers)
        for _ in range(messages):
            try:
                if self.generator.random() < (0.9 if self.terms.collection == "plaintext" else 0.1):
                    self.clear_votes()
                else:
                    self.session()
            except REFUSED as error:
                self.count(error)
        self.compare()
        return self.outcome

    def count(self, error: Exception) -> None:
        """Note the rule of a refusal."""
        self.outcome.rules[error.refusal.rule if isinstance(error, Refused) else type(error).__name__] += 1

    def queries(self) -> np.ndarray:
        """Rows of the pool; now and then one that is not in it, or stands twice, or is not finite."""
        count = int(self.pick([1, 3, 10, 40]))
        chosen = POOL[self.generator.permutation(len(POOL))[:count]].copy()
        match self.generator.integers(12):
            case 0:
                chosen[0, 0] = np.nextafter(chosen[0, 0], np.float32(np.inf))
            case 1:
                chosen = np.concatenate([chosen, chosen[:1]])
            case 2:
                chosen[0, 0] = np.nan
        return chosen

    def position(self) -> LedgerPosition:
        """Mostly the ledger that the federation came with."""
        return LedgerPosition(ledger=self.pick(["c" * 64] * 19 + ["d" * 64]), batch=0, head="0" * 64)

    def proof(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places and proof, of these queries where they are rows of the pool, else of others."""
        ids = query_ids(queries)
        return TREE.prove(query_ids(POOL[: len(ids)]) if TREE.missing(ids) else ids)

    def clear_votes(self) -> None:
        queries = self.queries()
        places, proof = self.proof(queries)
        request = VoteRequest(
            federation=self.terms.federation,
            query_set=query_set_hash(queries),
            **self.position().model_dump(),
            queries=queries,
            places=places,
            proof=proof,
            start="",
        )
        votes = self.node.vote(request).choices
        assert votes.shape == (len(queries), self.teachers)
        self.note(queries, 1, 0.0)

    def session(self) -> None:
        queries = self.queries()
        sigmas = [
            value
            for item in json.loads(self.terms.promise)
            for key, value in item.items()
            if key.startswith("sigma") and key != "sigma_ss" and isinstance(value, float | int)
        ]
        sigma = self.pick([self.pick(sigmas or [3.0])] * 9 + [0.5, 2.3, 2.5, 1e5, 1e9])
        keys = KeyTerms.create(self.roster, self.terms.federation, position=self.position(), rounds=(1, 2))
        self.node.hidden(AdvertiseRequest(terms=keys.canonical(), signature=keys.sign(self.signer)))
        terms = MaskedTerms.of_queries(
            self.roster,
            self.terms.federation,
            queries,
            self.pick([2] * 19 + [3]),
            self.pick([self.teachers] * 9 + [1, 2, 3]),
            sid=keys.sid,
            position=self.position(),
            sigma=sigma,
            noise_shares=self.pick([self.roster.least - self.roster.c] * 9 + [1, 2, 3]),
            round=int(self.pick([1, 1, 2])),  # pyright: ignore[reportArgumentType]
        )
        votes = self.node.votes(terms, QuerySet(queries, terms.query_set, *self.proof(queries)), again=True)
        assert votes.shape == terms.shape
        self.note(queries, terms.round, terms.deviation(1))

    def note(self, queries: np.ndarray, round: int, scale: float) -> None:
        """Votes on these queries have left, with this party's share of the noise of so large a scale."""
        for query_id in query_ids(queries):
            if scale > 0 or (query_id, round) not in self.outcome.let_out:  # without own noise the votes are the same
                self.drawn.append((scale, round))
            self.outcome.let_out[query_id, round] += 1

    def compare(self) -> None:
        """True cost over charged cost, both for what the party protects, and the limits of its policy."""
        policy = self.node.settings.policy
        if not self.drawn:
            return
        again = self.terms.collection == "secure"
        given = sum(times if again else 1 for (_, round), times in self.outcome.let_out.items() if round == 1)
        release = event_from_json(json.loads(self.terms.promise)[0])
        charged = epsilon((self.terms.promise,), policy)
        moved = votes_moved(policy.unit, self.teachers, policy.neighbouring)
        if self.terms.collection == "secure":
            sure = self.roster.least - self.roster.c
            squared = sum(2 * moved**2 / (sure * scale**2) if scale else math.inf for scale, _ in self.drawn)
            true = gaussian_epsilon(squared, policy.delta) if math.isfinite(squared) else math.inf
        else:
            true = self.cost_elsewhere(release, given)
        allowed = min(charged, policy.most_epsilon)
        within = given <= policy.most_queries
        if true > 0:
            self.outcome.ratio = true / allowed if within and allowed > 0 else math.inf

    def cost_elsewhere(self, release, given: int) -> float:
        """What the coordinator's mechanism costs on the queries that it got votes for."""
        answered = given if release.answered == release.asked else min(given, release.answered)
        promise = json.dumps([release.with_counts(given, answered).to_json()])
        return epsilon([promise], self.node.settings.policy)
