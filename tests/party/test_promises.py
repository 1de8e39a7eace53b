"""A coordinator that promises and asks at random, valid, hostile and at the edges, against one party: what leaves never
costs more than is charged.

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
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr

from consilium.accounting.mechanisms import Confident, GNMax, LNMax, event_from_json
from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.parts import Privacy
from consilium.node import limits as weight
from consilium.node.limits import epsilon
from consilium.party import policy as promise
from consilium.party.voting import TeacherSet
from consilium.protocol.errors import ConfigError, DataError, MalformedMessage
from consilium.protocol.identity import Identity
from consilium.protocol.messages import HelloRequest, LedgerPosition
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import SecAggError
from consilium.sums.roster import Roster
from consilium.sums.secure.messages import AdvertiseRequest, MaskedTerms
from consilium.sums.terms import QuerySet
from tests.federation import FEATURES, hello_of, make_config, make_home, make_rows, node_at, vote_request
from tests.marks import some

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
        (folder / "roster.json").write_text(self.roster.model_dump_json())
        identities["p0"].save(folder / "identity.pem")
        self.node = node_at(folder)
        self.ratio, self.accepted = 0.0, False
        self.drawn: list[tuple[float, int]] = []
        self.let_out, self.rules = Counter[tuple[str, int]](), Counter[Any]()

    def policy(self) -> dict[str, Any]:
        return {
            "most_queries": int(self.pick([5, 30, 1000])),
            "most_epsilon": float(self.pick([0.5, 20.0, 1e3, 1e9])),
            "delta": float(self.pick([1e-4, 1e-6])),
            "unit": self.pick(["party", "record"]) if self.teachers == 1 else "party",
            "collection": self.pick(["plaintext", "secure"]),
        }

    def pick(self, items):
        return items[int(self.generator.integers(len(items)))]

    def events(self, collection: str, **changes: Any) -> list[dict[str, Any]]:
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


GAMES = some(150)


def test_what_leaves_never_costs_more_than_was_charged(tmp_path: Path) -> None:
    games = [Game(tmp_path / str(at), np.random.default_rng([0, at])).play() for at in range(GAMES)]
    ratios = [game.ratio for game in games if game.let_out]
    assert len(ratios) > GAMES / 20  # the games are not all refused at the door
    assert max(ratios) <= 1 + 1e-9
    rules = {rule for game in games for rule in game.rules}
    assert {Rule.PROMISE, Rule.MALFORMED, Rule.MOST_EPSILON, Rule.POOL, Rule.LEDGER} <= rules


class Liar(Game):
    """A coordinator that is honest but for its promise: an attack that worked."""

    votes, most_epsilon = "secure", 3.0

    def policy(self):
        return {"most_queries": 1000, "most_epsilon": self.most_epsilon, "collection": self.votes}

    def hello(self):
        promise = json.dumps(self.lies())
        roster = self.roster.digest if self.votes == "secure" else ""
        changes = {"collection": self.votes, "teachers": self.teachers, "promise": promise, "roster": roster}
        return hello_of(CONFIG, ledger="c" * 64, **changes)

    def released(self, sigma: float, queries: int, collection: str = "secure", **changes) -> dict:
        budget = QueryBudget(queries=queries, answers=queries)
        return self.events(collection, mechanism=GNMax(sigma=sigma), query_budget=budget, **changes)[0]


class TwoReleases(Liar):
    """The first event gives the noise, the second the number of queries."""

    def lies(self):
        first = {**self.released(3.75, 1), "asked": int(self.generator.integers(2)), "answered": 0}
        return [first, self.released(1e5, 2000, "plaintext")]


class OtherUnit(Liar):
    """A small epsilon for a record, of three teachers at a party that protects all it has."""

    votes, most_epsilon = "plaintext", 0.8

    def lies(self):
        self.teachers = 3
        privacy = Privacy(unit=Unit.RECORD, neighbouring=Neighbouring.ADD_OR_REMOVE, delta=1e-5)
        return [self.released(60.0, 40, "plaintext", privacy=privacy, teachers_per_party=3)]


class Quiet(Liar):
    """Sessions with less noise than was promised."""

    most_epsilon = 1e9

    def lies(self):
        return [self.released(150.0, 40)]

    def pick(self, items):
        return 2.5 if 2.3 in items else super().pick(items)


def attack(kind: type[Liar], folder: Path) -> list[Game]:
    return [kind(folder / str(at), np.random.default_rng(at)).play(10) for at in range(some(20))]


def worst(games: list[Game]) -> float:
    return max(game.ratio for game in games)


@pytest.mark.parametrize("kind", [TwoReleases, OtherUnit])
def test_what_worked_before_is_refused_at_the_door(tmp_path: Path, kind: type[Liar]) -> None:
    games = attack(kind, tmp_path)
    assert not any(game.accepted for game in games)
    rule = Rule.PROMISE if kind is TwoReleases else Rule.MOST_EPSILON
    assert all(game.rules == {rule: 1} for game in games)


def test_control_a_promise_that_is_summed_over_all_its_events_is_broken(tmp_path: Path, monkeypatch) -> None:
    """The rule before: `asked` summed over all promised events, the noise taken from the first."""

    class Summed(promise.Promise):
        def most(self, round):
            return sum(event.asked if round == 1 else event.answered for event in self.all_events)

    def lenient(text, votes, teachers):
        events = promise.events_of(text)
        made = Summed(events[0])
        object.__setattr__(made, "all_events", events)
        return made

    monkeypatch.setattr(promise, "parse_promise", lenient)
    assert worst(attack(TwoReleases, tmp_path)) > 10


def test_control_noise_that_is_not_held_against_the_promise_is_broken(tmp_path: Path, monkeypatch) -> None:
    assert worst(attack(Quiet, tmp_path / "now")) <= 1 + 1e-9
    monkeypatch.setattr(promise.Promise, "noise", lambda *_: Anything())
    assert worst(attack(Quiet, tmp_path / "before")) > 10


class Anything(tuple):
    """Equal to all: what is compared with it always fits."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]
    shares = 0

    def __eq__(self, _):
        return True

    def __ne__(self, _):
        return False


def test_control_an_epsilon_in_the_coordinators_unit_is_broken(tmp_path: Path, monkeypatch) -> None:
    own_unit = weight.epsilon

    def stated(promises, policy, **kind):
        (release,) = promise.events_of(promises[0])
        own = {"unit": release.unit, "neighbouring": release.neighbouring}
        return own_unit(promises, policy.model_copy(update=own), **kind)

    monkeypatch.setattr(weight, "epsilon", stated)
    assert worst(attack(OtherUnit, tmp_path)) > 1.5
