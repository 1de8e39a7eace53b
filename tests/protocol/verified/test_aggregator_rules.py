"""What each aggregator keeps by itself: its rules, its noise, its state."""

from __future__ import annotations

import json

import numpy as np
import pytest

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.noise import SeededNoise
from consilium.protocol.secagg.errors import AlreadyAnswered, Replay, RosterMismatch, SetTooClose, UnsafeSession
from consilium.protocol.verified.field import PRIME
from consilium.protocol.verified.helper import Helper
from consilium.protocol.verified.leader import Leader
from consilium.protocol.verified.rules import QueriesOnce, SetsKeepDistance
from tests.protocol.verified.federation import VerifiedFederation, collect, settle_all


class TestRules:
    @staticmethod
    def ready(federation: VerifiedFederation, names: list[str], session, leader_rules=(), helper_rules=()):
        leader = federation.leader(leader_rules, session=session)
        helper = federation.helper(helper_rules, session=session)
        for name in names:
            leader.accept(name, federation.client(name, session=session).upload(federation.votes[name]))
        settle_all(leader, helper)
        return leader, helper

    @pytest.mark.parametrize("who", ["leader", "helper"])
    def test_each_refuses_sets_that_are_too_close(self, who) -> None:
        federation = VerifiedFederation(6)
        rule = SetsKeepDistance(2)
        rules = {f"{who}_rules": (rule,)}
        first = federation.session
        leader, helper = self.ready(federation, federation.names, first, **rules)
        leader.finish(helper.give(leader.ask()))
        leader, helper = self.ready(federation, federation.names[:5], federation.new_session(1), **rules)
        with pytest.raises(SetTooClose):
            helper.give(leader.ask())
        assert rule.state == [list(range(6))], "what is refused uses nothing up"
        leader, helper = self.ready(federation, federation.names, federation.new_session(2), **rules)
        leader.finish(helper.give(leader.ask()))

    def test_control_without_the_rule_the_difference_is_a_partys_vote(self) -> None:
        federation = VerifiedFederation(6)
        sums = []
        for seed, names in enumerate((federation.names, federation.names[:5])):
            leader, helper = self.ready(federation, names, federation.new_session(seed))
            sums.append(leader.finish(helper.give(leader.ask())).sums)
        assert np.array_equal(sums[0] - sums[1], federation.votes["h5"])

    def test_sums_with_the_helpers_noise_are_free_of_it_the_leaders_are_not(self) -> None:
        federation = VerifiedFederation(6)
        rule = SetsKeepDistance(2, [range(6)])
        five = frozenset(range(5))
        rule.allow(federation.new_session(helper_sigma=5.0), five)
        for session in (federation.new_session(), federation.new_session(leader_sigma=5.0)):
            with pytest.raises(SetTooClose):
                rule.allow(session, five)

    def test_queries_are_answered_once_and_a_session_too(self) -> None:
        federation = VerifiedFederation(4)
        first, second = federation.new_session(1), federation.new_session(2)
        ids = {first.query_set: frozenset({"a", "b"}), second.query_set: frozenset({"b", "c"})}
        rule = QueriesOnce(ids)
        leader, helper = self.ready(federation, federation.names, first, helper_rules=(rule,))
        leader.finish(helper.give(leader.ask()))
        with pytest.raises(Replay):
            federation.helper((rule,), session=first)
        with pytest.raises(AlreadyAnswered):
            federation.helper((rule,), session=second)
        with pytest.raises(Replay, match="does not know the query set"):
            federation.helper((rule,), session=federation.new_session(3))
        kept = json.loads(json.dumps(rule.state))
        with pytest.raises(AlreadyAnswered):
            federation.helper((QueriesOnce(ids, **kept),), session=second)

    def test_two_sessions_side_by_side_give_one_sum(self) -> None:
        federation = VerifiedFederation(4)
        sessions = [federation.new_session(1) for _ in range(2)]
        rule = QueriesOnce({sessions[0].query_set: frozenset({"a"})})
        pairs = [self.ready(federation, federation.names, each, helper_rules=(rule,)) for each in sessions]
        pairs[0][0].finish(pairs[0][1].give(pairs[0][0].ask()))
        with pytest.raises(AlreadyAnswered):
            pairs[1][1].give(pairs[1][0].ask())

    def test_a_refusal_of_one_rule_is_remembered_by_none(self) -> None:
        federation = VerifiedFederation(4)
        once = QueriesOnce({federation.session.query_set: frozenset({"a"})})
        far = SetsKeepDistance(2, [range(3)])
        leader, helper = self.ready(federation, federation.names, federation.session, helper_rules=(once, far))
        with pytest.raises(SetTooClose):
            helper.give(leader.ask())
        assert once.state == {"answered": [], "sids": []}


class TestNoise:
    @pytest.mark.parametrize(
        "terms", [{"leader_sigma": 8.0}, {"helper_sigma": 8.0}, {"leader_sigma": 6.0, "helper_sigma": 6.0}]
    )
    def test_each_adds_its_own(self, terms) -> None:
        federation = VerifiedFederation(6, queries=500, terms=terms)
        leader, helper = federation.leader(noise=SeededNoise(1)), federation.helper(noise=SeededNoise(2))
        result = collect(leader, helper, federation.uploads())
        noise = result.sums - federation.total(federation.names)
        sigma = federation.session.sigma
        assert 0.8 * sigma < noise.std() < 1.2 * sigma  # fixed seeds; six standard deviations of an estimate from 1,500

    def test_neither_holds_an_exact_sum(self) -> None:
        """What the leader gets, less its own noise, still has the helper's; the helper gets no total at all."""
        federation = VerifiedFederation(6, queries=200, terms={"leader_sigma": 30.0, "helper_sigma": 30.0})
        leader, helper = federation.leader(noise=SeededNoise(1)), federation.helper(noise=SeededNoise(2))
        result = collect(leader, helper, federation.uploads())
        own = leader._close().total.astype(np.int64) - leader._total
        known = (result.sums - own) % PRIME
        left = (known - federation.total(federation.names) + PRIME // 2) % PRIME - PRIME // 2
        assert 20 < left.std() < 40

    def test_noise_that_is_promised_needs_a_source(self) -> None:
        federation = VerifiedFederation(3, terms={"helper_sigma": 3.0})
        federation.leader()
        with pytest.raises(UnsafeSession, match="no source of noise"):
            federation.helper()


class TestStates:
    @pytest.mark.parametrize("who", ["leader", "helper"])
    def test_a_state_is_of_one_session_and_one_form(self, who) -> None:
        federation = VerifiedFederation(3)
        make = getattr(federation, who)
        saved = make().state()
        for content in (b"", saved[:-1], saved + b"\0", saved[:20], b"\0" * len(saved)):
            with pytest.raises(MalformedMessage):
                make(state=content)
        with pytest.raises(MalformedMessage):
            make(state=saved, session=federation.new_session())
        assert make(state=saved).accepted == ()

    def test_aggregators_have_their_own_keys(self) -> None:
        federation = VerifiedFederation(3)
        session, roster, keys = federation.session, federation.roster, federation.keys()
        with pytest.raises(RosterMismatch):
            Helper(session, roster, federation.leader_key)
        for private, fresh in (
            (federation.helper_key, federation.leader_fresh),
            (federation.leader_key, federation.helper_key),
        ):
            with pytest.raises(RosterMismatch):
                Leader(session, roster, private, fresh, keys)

    def test_memory_of_a_session_is_not_in_its_parties(self) -> None:
        """Both states after 4 and after 40 parties: a part for each at the leader, a digest at the helper, no share."""
        sizes = []
        for n in (4, 40):
            federation = VerifiedFederation(n, queries=400)
            leader, helper = federation.leader(batch_size=2), federation.helper()
            uploads = federation.uploads()
            for name, upload in uploads.items():
                leader.accept(name, upload)
                settle_all(leader, helper)
            sizes.append((len(leader.state()), len(helper.state()), len(uploads["h0"])))
        (few_leader, few_helper, upload), (many_leader, many_helper, _) = sizes
        assert many_leader - few_leader < 36 * 300 < 36 * upload / 8
        assert many_helper - few_helper < 36 * 50
