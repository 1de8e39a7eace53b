"""Promises and messages at random, valid, hostile and at the edges: what leaves never costs more than is charged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.parts import Privacy
from consilium.node import limits as weight
from consilium.party import policy as promise
from consilium.protocol.refusals import Rule
from tests.federation import hello_of
from tests.marks import some
from tests.party.lying import CONFIG, Game

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
        """JSON of a release by GNMax."""
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
