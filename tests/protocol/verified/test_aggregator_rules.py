"""What each aggregator keeps by itself: its rules, its noise, its state."""

from __future__ import annotations

import math

import numpy as np
import pytest

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.noise import SeededNoise
from consilium.sums.aggregators.half import WholeBlocks
from consilium.sums.aggregators.helper import Helper
from consilium.sums.aggregators.leader import Leader
from consilium.sums.errors import BrokenBlock, RosterMismatch, UnsafeSession
from tests.protocol.verified.federation import VerifiedFederation, collect, settle_all

pytestmark = pytest.mark.usefixtures("numbers")


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
    def test_each_refuses_a_part_of_a_block(self, who) -> None:
        federation = VerifiedFederation(6)
        rules = {f"{who}_rules": (WholeBlocks(federation.roster),)}
        leader, helper = self.ready(federation, federation.names[:5], federation.new_session(1), **rules)
        with pytest.raises(BrokenBlock):
            helper.give(leader.ask())
        leader, helper = self.ready(federation, federation.names[:4], federation.new_session(2), **rules)
        leader.finish(helper.give(leader.ask()))

    def test_control_without_the_rule_the_difference_is_a_partys_vote(self) -> None:
        federation = VerifiedFederation(6)
        sums = []
        for seed, names in enumerate((federation.names, federation.names[:5])):
            leader, helper = self.ready(federation, names, federation.new_session(seed))
            sums.append(leader.finish(helper.give(leader.ask())).sums)
        assert np.array_equal(sums[0] - sums[1], federation.votes["h5"])

    def test_sums_with_noise_of_both_are_free_of_it(self) -> None:
        """Noise of one is none for that one."""
        federation = VerifiedFederation(6)
        rule, five = WholeBlocks(federation.roster), frozenset(range(5))
        rule.allow(federation.new_session(leader_sigma=5.0, helper_sigma=5.0), five)
        for terms in ({}, {"leader_sigma": 5.0}, {"helper_sigma": 5.0}):
            with pytest.raises(BrokenBlock):
                rule.allow(federation.new_session(**terms), five)


class TestNoise:
    @pytest.mark.parametrize(
        "terms", [{"leader_sigma": 8.0}, {"helper_sigma": 8.0}, {"leader_sigma": 6.0, "helper_sigma": 6.0}]
    )
    def test_each_adds_its_own(self, terms) -> None:
        federation = VerifiedFederation(6, queries=500, terms=terms)
        leader, helper = federation.leader(noise=SeededNoise(1)), federation.helper(noise=SeededNoise(2))
        result = collect(leader, helper, federation.uploads())
        noise = result.sums - federation.total(federation.names)
        sigma = math.hypot(federation.session.leader_sigma, federation.session.helper_sigma)
        assert 0.8 * sigma < noise.std() < 1.2 * sigma  # fixed seeds; six standard deviations of an estimate from 1,500

    def test_neither_holds_an_exact_sum(self) -> None:
        """What the leader gets, less its own noise, still has the helper's; the helper gets no total at all."""
        federation = VerifiedFederation(6, queries=200, terms={"leader_sigma": 30.0, "helper_sigma": 30.0})
        leader, helper = federation.leader(noise=SeededNoise(1)), federation.helper(noise=SeededNoise(2))
        result = collect(leader, helper, federation.uploads())
        own = leader._close().total.astype(np.int64) - leader._total
        prime, half = federation.session.field.prime, federation.session.field.most_reach
        known = (result.sums - own) % prime
        left = (known - federation.total(federation.names) + half) % prime - half
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
