"""A party under a promise of several releases: each request names one, and none gets more than its own cap."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consilium.accounting.units import Towards, Unit
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.mechanisms import DistributedTwoPhase, GNMax
from consilium.coordinator.privacy import promised
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.party.promise import Promise, parse_promise
from consilium.protocol.messages import MOST_RELEASES
from consilium.protocol.queries import canonical_queries
from consilium.protocol.refusals import Refusal, Refused, Rule
from tests.federation import hello_of, make_home, make_rows, vote_request
from tests.schedule.small import scheduled

CONFIG = scheduled()
ROWS = canonical_queries(make_rows(80, 11)[0], 3)


def member(folder: Path, **policy) -> PartyNode:
    party = PartyNode(open_home(make_home(folder, "p", **policy)))
    party.hello(hello_of(CONFIG))
    party.train(CONFIG.train_request())
    return party


def refused(action, *arguments) -> Refusal:
    with pytest.raises(Refused) as caught:
        action(*arguments)
    return caught.value.refusal


def ask(party: PartyNode, rows: np.ndarray, release: int) -> int:
    return len(party.vote(vote_request(CONFIG, rows, release=release)).choices)


class TestCaps:
    def test_each_release_has_its_own(self, tmp_path: Path) -> None:
        party = member(tmp_path / "p")
        assert ask(party, ROWS[:20], 1) == 20
        assert ask(party, ROWS[:20], 1) == 20  # the same votes, which count once
        over = refused(ask, party, ROWS[20:21], 1)
        assert (over.rule, over.limit, over.requested) == (Rule.PROMISE, 20, 21)
        assert ask(party, ROWS[20:50], 2) == 30
        assert refused(ask, party, ROWS[50:51], 2).limit == 30

    def test_a_request_is_never_held_against_the_sum(self, tmp_path: Path) -> None:
        party = member(tmp_path / "p")
        over = refused(ask, party, ROWS[:21], 1)
        assert (over.rule, over.limit, over.requested) == (Rule.PROMISE, 20, 21)

    def test_a_release_is_over_when_a_later_one_was_asked(self, tmp_path: Path) -> None:
        party = member(tmp_path / "p")
        ask(party, ROWS[:5], 1)
        ask(party, ROWS[5:10], 2)
        over = refused(ask, party, ROWS[10:11], 1)
        assert (over.rule, over.limit, over.requested) == (Rule.PROMISE, 2, 1)
        assert ask(party, ROWS[:5], 1) == 5  # nothing new
        assert refused(ask, party, ROWS[:10], 1).limit == 2  # of these, five were for the later one

    def test_a_query_counts_for_each_release_that_it_is_asked_for(self, tmp_path: Path) -> None:
        """Whoever sums the votes can release them under both mechanisms."""
        party = member(tmp_path / "p", most_queries=40)
        ask(party, ROWS[:20], 1)
        assert ask(party, ROWS[:30], 2) == 30
        over = refused(ask, party, ROWS[30:31], 2)
        assert (over.rule, over.limit, over.requested) == (Rule.PROMISE, 30, 31)

    def test_a_release_that_was_not_promised(self, tmp_path: Path) -> None:
        over = refused(ask, member(tmp_path / "p"), ROWS[:1], 3)
        assert (over.rule, over.limit, over.requested) == (Rule.PROMISE, 2, 3)

    def test_its_own_limit_is_on_all_of_them(self, tmp_path: Path) -> None:
        party = member(tmp_path / "p", most_queries=22)
        ask(party, ROWS[:20], 1)
        assert refused(ask, party, ROWS[20:23], 2).rule is Rule.MOST_QUERIES


class TestEpsilon:
    def test_a_schedule_beyond_the_limit_is_refused_though_each_phase_is_within(self, tmp_path: Path) -> None:
        whole, (first, second) = promised(CONFIG).epsilon, [_alone(event) for event in CONFIG.promised_events()]
        between = (whole + max(first, second)) / 2
        party = PartyNode(open_home(make_home(tmp_path / "p", "p", most_epsilon=between)))
        assert refused(party.hello, hello_of(CONFIG)).rule is Rule.MOST_EPSILON
        allowing = PartyNode(open_home(make_home(tmp_path / "q", "q", most_epsilon=whole * 1.001)))
        assert allowing.hello(hello_of(CONFIG)).party == "q"


def _alone(event) -> float:
    from consilium.accounting.target import worst_case

    return worst_case([event], CONFIG.privacy.delta).epsilon


FIRST, SECOND = CONFIG.promised_events()
OWN = DistributedTwoPhase(threshold=2, sigma1=9.0, sigma2=9.0, noise_shares=3).event(
    asked=9, answered=9, unit=Unit.PARTY, neighbouring=CONFIG.privacy.neighbouring, teachers_per_party=1
)


class TestPromises:
    @pytest.mark.parametrize(
        ("events", "votes", "rule"),
        [
            ([FIRST, SECOND], "plaintext", None),
            ([FIRST, SECOND], "secure", None),
            ([FIRST, SECOND], "distributed", Rule.PROMISE),
            ([OWN, OWN], "distributed", None),
            ([OWN, OWN], "secure", Rule.PROMISE),
            ([OWN, OWN], "plaintext", Rule.PROMISE),
            ([FIRST, OWN], "distributed", Rule.PROMISE),
            ([OWN, FIRST], "distributed", Rule.PROMISE),
            ([OWN, replace(OWN, towards=Towards.STUDENT)], "distributed", Rule.PROMISE),
            ([OWN, replace(OWN, asked=0, answered=0)], "distributed", Rule.PROMISE),
            ([FIRST, replace(SECOND, unit=Unit.RECORD)], "plaintext", Rule.PROMISE),
            ([FIRST, replace(SECOND, towards=Towards.COORDINATOR)], "plaintext", Rule.PROMISE),
            ([FIRST, replace(SECOND, teachers_per_party=2)], "plaintext", Rule.PROMISE),
            ([FIRST, replace(SECOND, asked=0, answered=0)], "plaintext", Rule.PROMISE),
            ([FIRST, replace(SECOND, noise="continuous")], "plaintext", Rule.PROMISE),
            ([FIRST] * MOST_RELEASES, "plaintext", None),
            ([FIRST] * (MOST_RELEASES + 1), "plaintext", Rule.MALFORMED),
            ([], "plaintext", Rule.MALFORMED),
        ],
    )
    def test_which_lists_are_one(self, events, votes, rule) -> None:
        text = json.dumps([event.to_json() for event in events])
        if rule is None:
            assert parse_promise(text, votes, 1, False) == Promise.of(events)
        else:
            assert refused(parse_promise, text, votes, 1, False).rule is rule

    def test_a_sanitised_epsilon_is_beside_one_release_alone(self) -> None:
        from consilium.coordinator.stages import Privacy, Sanitised
        from tests.federation import make_config

        privacy = Privacy(unit=Unit.RECORD, delta=1e-5, sanitised=Sanitised(order=2.5, beta=0.05, sigma_ss=6))
        one = make_config(mechanism=GNMax(sigma=20.0), query_budget=QueryBudget(queries=9, answers=9), privacy=privacy)
        release, closing = one.promised_events()
        assert Promise.of([release, closing]).closing == closing
        for events in ([closing], [release, closing, release], [release, release, closing], [closing, release]):
            text = json.dumps([event.to_json() for event in events])
            assert refused(parse_promise, text, "plaintext", 1, False).rule is Rule.PROMISE

    def test_one_by_itself(self) -> None:
        promise = Promise.of([FIRST, SECOND])
        assert promise.only(2).events == (SECOND,)
        assert promise.answered == 35
