"""A coordinator that promises and asks at random, against one party: what leaves must cost no more than is charged.

The party is the real code on its own disk; only its teachers are constant, so that no training is needed. Of a secure
session what would leave under masks is taken from `PartyNode.votes`, as stage 2 takes it: others can unmask it without
the party."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from consilium.accounting.mechanisms import Confident, GNMax, LNMax, event_from_json
from consilium.accounting.units import votes_moved
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.parts import Privacy
from consilium.node.limits import epsilon
from consilium.party.voting import TeacherSet
from consilium.protocol.errors import ConfigError, DataError, MalformedMessage
from consilium.protocol.identity import Identity
from consilium.protocol.messages import HelloRequest, LedgerPosition
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.refusals import Refused
from consilium.sums.errors import SecAggError
from consilium.sums.roster import Roster
from consilium.sums.secure.messages import AdvertiseRequest, MaskedTerms
from consilium.sums.terms import QuerySet
from tests.federation import FEATURES, hello_of, make_config, make_home, make_rows, node_at, vote_request

N = 6
POOL = canonical_queries(make_rows(40, 77)[0], len(FEATURES))
TREE = PoolTree.of_rows(POOL)
CONFIG = make_config(public=TREE.terms(0.0), simulation=False, noise_seed=None)
SANITISED = {
    **make_config().promised_events()[0].to_json(),
    **{"type": "sanitised", "asked": 0, "answered": 0, "noise": "continuous", "beta": 0.1, "sigma_ss": 6.0},
}
EDGES = (0, 1, -1, 0.5, 1e-9, 1e5, 1e6, 1e9, 1e300, math.inf, "7", None, True, [1])
REFUSED = (Refused, SecAggError, ConfigError, DataError, MalformedMessage, ValueError)


class Constant:
    """A teacher that always votes for class 0."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.zeros(len(x), dtype=np.int64)


def gaussian_epsilon(squared: float, delta: float) -> float:
    """Least epsilon of a Gaussian release with this mu^2 (Dong, Roth, Su 2019), written down here once more."""
    mu = math.sqrt(squared)

    def excess(value: float) -> float:
        low, high = log_ndtr(-value / mu + mu / 2), value + log_ndtr(-value / mu - mu / 2)
        return math.exp(low) * -math.expm1(min(high - low, 0.0)) - delta

    return 0.0 if mu == 0 or excess(0.0) <= 0 else float(brentq(excess, 0.0, mu * mu + 40 * mu + 10))


class Game:
    """One party, one coordinator. `generator` decides everything but keys.

    ratio: true cost over what was charged, or over what the policy allows if that is less. let_out: how often each
    query and round left. drawn: scale of the noise and round of each. rules: how often each refused."""

    def __init__(self, folder: Path, generator: np.random.Generator) -> None:
        self.generator, self.signer = generator, Identity.generate()
        identities = {f"p{index}": Identity.generate() for index in range(N)}
        public = {name: identity.public.hex() for name, identity in identities.items()}
        self.roster = Roster.build(public, self.signer.public.hex(), colluders=int(generator.integers(0, 2)))
        self.shares = self.roster.least - self.roster.c
        self.teachers = int(generator.integers(1, 4))
        self.limits = self.policy()
        make_home(folder, "p0", **{"most_teachers": 3, "allow_simulation": False, **self.limits})
        self.roster.save(folder / "roster.json")
        identities["p0"].save(folder / "identity.pem")
        self.node = node_at(folder)
        self.ratio, self.accepted = 0.0, False
        self.drawn: list[tuple[float, int]] = []
        self.let_out, self.rules = Counter[tuple[str, int]](), Counter[Any]()

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

    def events(self, collection: str, **changes: Any) -> list[dict[str, Any]]:
        """JSON of an honest promise."""
        sigma, queries = float(self.pick([3.0, 3.75, 20.0, 150.0])), int(self.pick([1, 5, 20, 40, 2000]))
        answers = int(self.pick([queries, max(1, queries // 2)]))
        noisy = [GNMax(sigma=sigma), Confident(threshold=3.0, sigma1=sigma, sigma2=2 * sigma)]
        mechanism = self.pick([*noisy, *([LNMax(gamma=0.05)] if collection == "plaintext" else [])])
        values = {
            "mechanism": mechanism,
            "collection": collection,
            "query_budget": QueryBudget(queries=queries, answers=answers if mechanism is noisy[1] else queries),
            "noise_shares": self.shares if collection == "secure" else 0,
            "teachers_per_party": self.teachers,
            "privacy": Privacy(
                unit=self.pick(["record", "party"]), neighbouring=self.pick(["replace", "add_or_remove"]), delta=1e-5
            ),
            **changes,
        }
        fields = {name: getattr(CONFIG, name) for name in FederationConfig.model_fields}
        roster = self.roster.digest if collection == "secure" else ""
        return json.loads(FederationConfig(**{**fields, "roster": roster, **values}).promise())

    def promise(self, collection: str) -> str:
        """Mostly such that promise and mode go together; now and then with more events, or other numbers."""
        listed = self.events(collection if self.generator.random() < 0.95 else self.pick(["plaintext", "secure"]))
        while self.generator.random() < 0.1:
            more = self.pick([SANITISED, *self.events(self.pick(["plaintext", "secure"]))])
            listed.insert(int(self.generator.integers(2)), dict(more))
        for event in listed:
            for key in event:
                if self.generator.random() < 0.015:
                    event[key] = self.pick(EDGES)
        return json.dumps(listed)

    def hello(self) -> HelloRequest:
        """Terms, mostly honest ones."""
        collection = self.pick([self.limits["collection"]] * 9 + ["plaintext"])
        return hello_of(
            CONFIG,
            teachers=self.pick([self.teachers] * 39 + [1, 2, 3, 1000]),
            simulation=bool(self.pick([False] * 19 + [True])),
            promise=self.promise(collection),
            collection=collection,
            roster=self.pick([self.roster.digest] * 19 + ["b" * 64]) if collection != "plaintext" else "",
            public=self.pick([TREE.terms(0.0).model_dump_json()] * 20 + ["", "", "{}", "[1]"]),
            ledger="c" * 64,
        )

    def play(self, messages: int = 6) -> Game:
        """Enrol, ask, and compare what left with what was charged."""
        try:
            self.terms = self.hello()
            self.node.hello(self.terms)
        except REFUSED as error:
            self.count(error)
            return self
        self.accepted = True
        teachers = [Constant()] * self.teachers
        made = TeacherSet(CONFIG.rows, "made", "", teachers)  # pyright: ignore[reportArgumentType]
        self.node.store.keep_teachers(self.terms.federation, made)
        for _ in range(messages):
            try:
                clear = self.generator.random() < (0.9 if self.terms.collection == "plaintext" else 0.1)
                self.clear_votes() if clear else self.session()
            except REFUSED as error:
                self.count(error)
        self.compare()
        return self

    def count(self, error: Exception) -> None:
        """Note the rule of a refusal."""
        self.rules[error.refusal.rule if isinstance(error, Refused) else type(error).__name__] += 1

    def queries(self) -> np.ndarray:
        """Rows of the pool; now and then one that is not in it, or stands twice, or is not finite."""
        chosen = POOL[self.generator.permutation(len(POOL))[: int(self.pick([1, 3, 10, 40]))]].copy()
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
        asked = vote_request(CONFIG, queries, places=places, proof=proof, **self.position().model_dump())
        assert self.node.vote(asked).choices.shape == (len(queries), self.teachers)
        self.note(queries, 1, 0.0)

    def session(self) -> None:
        queries, listed = self.queries(), [item.items() for item in json.loads(self.terms.promise)]
        sigmas = [value for item in listed for key, value in item if key in ("sigma", "sigma1", "sigma2")]
        sigma = self.pick([self.pick([each for each in sigmas if isinstance(each, float)] or [3.0])] * 9 + [2.3, 1e9])
        terms = MaskedTerms.of_queries(
            self.roster,
            self.terms.federation,
            queries,
            self.pick([2] * 19 + [3]),
            self.pick([self.teachers] * 9 + [1, 2, 3]),
            position=self.position(),
            sigma=sigma,
            noise_shares=self.pick([self.shares] * 9 + [1, 2, 3]),
            round=int(self.pick([1, 1, 2])),  # pyright: ignore[reportArgumentType]
        )
        self.node.hidden(AdvertiseRequest(terms=terms.canonical(), signature=terms.sign(self.signer)))
        votes = self.node.votes(terms, QuerySet(queries, terms.query_set, *self.proof(queries)), again=True)
        assert votes.shape == terms.shape
        self.note(queries, terms.round, terms.deviation(1))

    def note(self, queries: np.ndarray, round: int, scale: float) -> None:
        """Votes on these queries have left, with this party's share of the noise of so large a scale."""
        for query_id in query_ids(queries):
            if scale > 0 or (query_id, round) not in self.let_out:  # without own noise the votes are the same
                self.drawn.append((scale, round))
            self.let_out[query_id, round] += 1

    def compare(self) -> None:
        """True cost over charged cost, both for what the party protects, and the limits of its policy."""
        policy, hidden = self.node.settings.policy, self.terms.collection == "secure"
        if not self.drawn:
            return
        given = sum(times if hidden else 1 for (_, round), times in self.let_out.items() if round == 1)
        allowed = min(epsilon((self.terms.promise,), policy), policy.most_epsilon)
        if hidden:
            moved = votes_moved(policy.unit, self.teachers, policy.neighbouring)
            squared = sum(2 * moved**2 / (self.shares * scale**2) if scale else math.inf for scale, _ in self.drawn)
            true = gaussian_epsilon(squared, policy.delta) if math.isfinite(squared) else math.inf
        else:  # the coordinator's mechanism, on the queries that it got votes for
            release = event_from_json(json.loads(self.terms.promise)[0])
            answered = given if release.answered == release.asked else min(given, release.answered)
            true = epsilon([json.dumps([release.with_counts(given, answered).to_json()])], policy)
        if true > 0:
            within = given <= policy.most_queries and allowed > 0
            self.ratio = true / allowed if within else math.inf
