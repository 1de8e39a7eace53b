"""Promises and messages at random, valid, hostile and at the edges: what leaves never costs more than is charged."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from consilium.node import limits as weight
from consilium.party import promise
from consilium.protocol.refusals import Rule
from tests.marks import some
from tests.party.lying import TREE, Game

GAMES = some(150)


def play(folder: Path, games: int, seed: int = 0) -> tuple[list[float], Counter]:
    """Ratios of the games in which something left, and how often each rule refused."""
    ratios, rules = [], Counter()
    for index in range(games):
        game = Game(folder / str(index), np.random.default_rng([seed, index]))
        outcome = game.play()
        rules += outcome.rules
        if outcome.let_out:
            ratios.append(outcome.ratio)
    return ratios, rules


def test_what_leaves_never_costs_more_than_was_charged(tmp_path: Path) -> None:
    ratios, rules = play(tmp_path, GAMES)
    assert len(ratios) > GAMES / 20  # the games are not all refused at the door
    assert max(ratios) <= 1 + 1e-9
    assert {Rule.PROMISE, Rule.MALFORMED, Rule.MOST_EPSILON, Rule.POOL, Rule.LEDGER} <= set(rules)


class Liar(Game):
    """A coordinator that is honest but for its promise: an attack that worked."""

    votes, most_epsilon = "secure", 3.0

    def policy(self):
        return {"most_queries": 1000, "most_epsilon": self.most_epsilon, "collection": self.votes}

    def number(self, honest, edges=()):
        return honest

    def hello(self):
        request = super().hello()
        changes = {"collection": self.votes, "teachers": self.teachers, "simulation": False, "promise": self.promise()}
        roster = self.roster.digest if self.votes != "plaintext" else ""
        return request.model_copy(update={**changes, "roster": roster, "public": TREE.terms(0.0).model_dump_json()})


class TwoReleases(Liar):
    """The first event gives the noise, the second the number of queries."""

    def promise(self):
        asked = int(self.generator.integers(2))
        first = {**self.event("distributed"), "asked": asked, "answered": 0, "sigma": 3.75, "noise": "discrete"}
        second = {**self.event("gnmax"), "asked": 2000, "answered": 2000, "sigma": 1e5, "noise": "discrete"}
        return json.dumps([first, second])


class OtherUnit(Liar):
    """A small epsilon for a record, of three teachers at a party that protects all it has."""

    votes, most_epsilon = "plaintext", 0.8

    def promise(self):
        self.teachers = 3
        event = {**self.event("gnmax"), "asked": 40, "answered": 40, "sigma": 60.0, "noise": "discrete"}
        return json.dumps([{**event, "unit": "record", "neighbouring": "add_or_remove", "teachers_per_party": 3}])

    def hello(self):
        self.promise()
        return super().hello()


def attack(kind: type[Liar], folder: Path, games: int = some(20)) -> list[float]:
    return [kind(folder / str(index), np.random.default_rng(index)).play(10).ratio for index in range(games)]


@pytest.mark.parametrize("kind", [TwoReleases, OtherUnit])
def test_what_worked_before_is_refused_at_the_door(tmp_path: Path, kind: type[Liar]) -> None:
    games = [kind(tmp_path / str(index), np.random.default_rng(index)) for index in range(some(20))]
    outcomes = [game.play(10) for game in games]
    assert not any(outcome.accepted for outcome in outcomes)
    rule = Rule.PROMISE if kind is TwoReleases else Rule.MOST_EPSILON
    assert all(outcome.rules == {rule: 1} for outcome in outcomes)


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
    ratios = attack(TwoReleases, tmp_path)
    assert max(ratios) > 10


def test_control_noise_that_is_not_held_against_the_promise_is_broken(tmp_path: Path, monkeypatch) -> None:
    """Sessions with less noise than was promised, at a party that looks at the number of queries only."""

    class Quiet(Liar):
        votes, most_epsilon = "secure", 1e9

        def promise(self):
            event = {**self.event("distributed"), "asked": 40, "answered": 0, "sigma": 150.0, "noise": "discrete"}
            return json.dumps([event])

        def pick(self, items):
            return 2.5 if 1e9 in items and 150.0 in items and 2.5 in items else super().pick(items)

    assert max(attack(Quiet, tmp_path / "now")) <= 1 + 1e-9
    monkeypatch.setattr(promise.Promise, "noise", lambda *_: Anything())
    assert max(attack(Quiet, tmp_path / "before")) > 10


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
    ratios = attack(OtherUnit, tmp_path)
    assert max(ratios) > 1.5
