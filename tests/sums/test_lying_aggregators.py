"""Two aggregators, of which one asks out of turn or does not keep to the protocol."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.noise import SeededNoise
from consilium.sums.errors import AggregatorsDisagree, BadLink, RosterMismatch, SecAggError, StageOrder, VoteFault
from consilium.sums.field import FIELD
from consilium.sums.verified.half import ASKED, BATCH, CHECKED, add_up, fault_code
from consilium.sums.verified.helper import Helper
from consilium.sums.verified.messages import body_digest, read_checked, write_asked, write_batch, write_checked
from consilium.sums.verified.proof import expand_seed, opening_elements
from consilium.sums.verified.sealing import Link, session_key
from consilium.sums.verified.uploads import PART_BYTES, Upload
from tests.sums.verified import VerifiedFederation, check_all, collect, helper_link, leader_link


class TestOrder:
    def test_nothing_is_settled_that_is_not_out(self) -> None:
        federation = VerifiedFederation(3)
        with pytest.raises(StageOrder):
            federation.leader().settle(b"")
        with pytest.raises(StageOrder):
            federation.leader().finish(b"")

    def test_no_upload_is_taken_after_the_sum_was_asked_for(self) -> None:
        federation = VerifiedFederation(4)
        uploads = federation.uploads()
        leader, helper = federation.leader(), federation.helper()
        collect(leader, helper, {name: uploads[name] for name in federation.names[:3]})
        with pytest.raises(StageOrder):
            leader.batch({"h3": uploads["h3"]})

    def test_the_helper_checks_nobody_new_once_it_has_given(self) -> None:
        """A leader that asks for a sum, lets one more in and asks again would have that party's votes."""
        federation = VerifiedFederation(4)
        uploads = federation.uploads()
        leader, helper, lying = federation.leader(), federation.helper(), federation.leader()
        collect(leader, helper, {name: uploads[name] for name in federation.names[:3]})
        batch = lying.batch(uploads)
        assert batch is not None
        with pytest.raises(StageOrder):
            helper.check(batch)
        assert helper.accepted == tuple(federation.names[:3])


class TestLyingLeader:
    """It has its keys and does not keep to the protocol; the helper is the program as it is."""

    def given(self, federation: VerifiedFederation, helper: Helper, places: list[int]) -> bytes:
        return helper.give(leader_link(federation).seal(ASKED, write_asked(places, [], bytes(32))))

    def ready(self) -> tuple[VerifiedFederation, Helper]:
        federation = VerifiedFederation(5)
        leader, helper = federation.leader(), federation.helper()
        check_all(leader, helper, federation.uploads())
        return federation, helper

    @pytest.mark.parametrize(
        ("places", "named"),
        [([0], {"h1", "h2", "h3", "h4"}), ([0, 1, 2, 3], {"h4"}), ([], {f"h{at}" for at in range(5)})],
    )
    def test_the_total_is_over_those_whom_the_helper_has_accepted_or_it_is_not_given(self, places, named) -> None:
        federation, helper = self.ready()
        with pytest.raises(AggregatorsDisagree) as error:
            self.given(federation, helper, places)
        assert set(error.value.parties) == named
        assert not helper.closed

    def test_odd_places_are_no_traceback(self) -> None:
        federation, helper = self.ready()
        for places in ([0, 0, 1], [9], [2**32 - 1], [4, 3, 2, 1, 0]):
            with pytest.raises(SecAggError):
                self.given(federation, helper, places)

    def test_the_total_is_the_same_each_time_noise_included(self) -> None:
        federation = VerifiedFederation(5, terms={"sigma": 20.0})
        leader, helper = federation.leader(), federation.helper(noise=SeededNoise(0))
        check_all(leader, helper, federation.uploads())
        asked, answers = leader.ask(), []
        for _ in range(3):
            answers.append(helper.give(asked))
            helper = federation.helper(noise=SeededNoise(7), state=helper.state())
        assert answers[0] == answers[1] == answers[2]
        for again in (list(range(5)), [0]):  # in other bytes it is another question, and there is no key to read it by
            with pytest.raises(StageOrder, match="keys are deleted"):
                self.given(federation, helper, again)

    def test_of_a_second_upload_of_one_party_nothing_is_opened(self) -> None:
        """Two readings of the same votes with one random start would be an equation for the votes."""
        federation = VerifiedFederation(4)
        helper, link, grid = federation.helper(), leader_link(federation), federation.session.grid
        nothing = np.zeros(opening_elements(grid), dtype=FIELD.dtype)
        client = federation.client("h0")
        parts = [client.upload(federation.votes["h0"])[:PART_BYTES] for _ in range(2)]

        def ask(part: bytes) -> tuple[int, np.ndarray]:
            body = write_batch([part], [nothing])
            reply = link.open(CHECKED, helper.check(link.seal(BATCH, body)))
            codes, opened = read_checked(reply, grid, body_digest(body), 1)
            return codes[0], opened[0]

        code, first = ask(parts[0])
        assert first.any()
        again, second = ask(parts[0])
        assert (again, second.tolist()) == (code, first.tolist())
        other, third = ask(parts[1])
        assert other != code
        assert not third.any()

    def test_it_can_have_an_honest_party_left_out_but_not_unseen(self, monkeypatch) -> None:
        federation = VerifiedFederation(4)
        leader, helper = federation.leader(), federation.helper()
        honest = leader._opened
        monkeypatch.setattr(leader, "_opened", lambda part, *more: honest(part, *more) ^ (part.place == 2))
        check_all(leader, helper, federation.uploads())
        assert leader.left_out == helper.left_out == {"h2": VoteFault.FALSE_VOTES}

    def test_nobody_is_accepted_and_left_out(self) -> None:
        federation, helper = self.ready()
        body = write_asked(list(range(5)), [(2, 1), (99, 1)], bytes(32))
        with pytest.raises(AggregatorsDisagree, match="h2"):
            helper.give(leader_link(federation).seal(ASKED, body))


class TestLyingHelper:
    def test_verdicts_that_its_openings_do_not_bear_out(self) -> None:
        federation = VerifiedFederation(3)
        leader, helper = federation.leader(), federation.helper()
        grid, link = federation.session.grid, helper_link(federation)
        batch = leader.batch(federation.uploads())
        assert batch is not None
        body = link.open(BATCH, batch)
        reply = link.open(CHECKED, helper.check(batch))
        given, opened = read_checked(reply, grid, body_digest(body), 3)
        assert given == [0, 0, 0]
        codes, false = bytes(3), fault_code(VoteFault.FALSE_VOTES)
        signature = fault_code(VoteFault.SIGNATURE)  # which the leader has seen to be good
        with pytest.raises(AggregatorsDisagree, match="h1: the second aggregator is at fault"):
            leader.settle(link.seal(CHECKED, write_checked(body_digest(body), bytes([0, signature, 0]), opened)))
        with pytest.raises(AggregatorsDisagree, match="h1"):
            leader.settle(link.seal(CHECKED, write_checked(body_digest(body), bytes([0, false, 0]), opened)))
        spoiled = opened.copy()
        spoiled[2, 0] ^= 1
        with pytest.raises(AggregatorsDisagree, match="h2"):
            leader.settle(link.seal(CHECKED, write_checked(body_digest(body), codes, spoiled)))
        assert leader.accepted == ()
        leader.settle(link.seal(CHECKED, write_checked(body_digest(body), codes, opened)))
        assert leader.accepted == tuple(federation.names)

    @pytest.mark.parametrize(("halves", "more"), [(0, 1), (2, 0), (0, 3000), (1, 0), (1, 5)])
    def test_a_wrong_total_is_made_to_fit_and_nothing_is_said(self, halves, more) -> None:
        shift = halves * FIELD.most_reach + more  # twice half of the prime is one less than the prime
        federation = VerifiedFederation(3)
        leader, helper = federation.leader(), federation.helper()
        check_all(leader, helper, federation.uploads())
        helper._total[0, 0] += shift
        result = leader.finish(helper.give(leader.ask()))
        total = federation.total(federation.names)
        assert np.array_equal(result.sums[1:], total[1:])
        tail = federation.session.tail
        assert -tail <= result.sums[0].min() <= result.sums[0].max() <= 3 + tail


class TestForwardSecrecy:
    """All that went over the wire in one session of five parties, every long-term key of every node, and what is on the
    helper's disk after the sum: how many uploads does it open?"""

    @staticmethod
    def opened(federation: VerifiedFederation, uploads: dict[str, bytes], keys: list[bytes]) -> int:
        """Uploads of which one of these keys gives both shares, that is, the votes."""
        found = 0
        for name, content in uploads.items():
            upload, grid = Upload.read(content, federation.session.grid), federation.session.grid
            assert upload is not None
            seeds = [seed for key in keys if isinstance(seed := upload.part.opened(key), bytes)]
            for seed in seeds[:1]:
                other = expand_seed(federation.session.ctx, upload.part.place, seed, "votes", grid.cells)
                votes = (grid.summed(upload.share).astype(np.int64) + grid.summed(other)) % FIELD.prime
                found += np.array_equal(votes, federation.votes[name])
        return found

    def session(self, federation: VerifiedFederation) -> tuple[dict[str, bytes], bytes, bytes]:
        """Uploads; the helper's state before and after it gives its half."""
        leader, helper, uploads = federation.leader(), federation.helper(), federation.uploads()
        check_all(leader, helper, uploads)
        before = helper.state()
        leader.finish(helper.give(leader.ask()))
        return uploads, before, helper.state()

    @staticmethod
    def long_term(federation: VerifiedFederation) -> list[bytes]:
        """Of all nodes; signing keys as if they were of the other kind, too."""
        signing = [*federation.identities.values(), federation.leader_identity, federation.helper_identity]
        private = [each._key.private_bytes_raw() for each in signing]
        return [federation.leader_key, federation.helper_key, *private]

    def test_nothing_is_opened_after_the_sum(self) -> None:
        federation = VerifiedFederation(5, queries=3)
        uploads, before, after = self.session(federation)
        assert self.opened(federation, uploads, self.long_term(federation)) == 0
        seed, ctx = federation.helper_seed, federation.session.ctx
        assert seed not in after and seed.hex().encode() not in after
        assert seed.hex().encode() in before, "the control: while the session is open it is there"
        key = session_key(seed, ctx)
        assert self.opened(federation, uploads, [key]) == 5
        assert key not in after and key.hex().encode() not in after

    def test_the_link_is_not_opened_by_both_long_term_keys(self) -> None:
        federation = VerifiedFederation(3)
        batch = federation.leader().batch(federation.uploads(["h0"]))
        assert batch is not None
        other, session = bytes.fromhex(federation.roster.leader.x25519_pk), federation.session
        leader_fresh = bytes.fromhex(session.leader_key)
        for own_fresh in self.long_term(federation):
            with pytest.raises(BadLink):
                Link(federation.helper_key, other, own_fresh, leader_fresh, session.ctx).open(BATCH, batch)
        helper_link(federation).open(BATCH, batch)


class TestCommitments:
    def test_a_leader_that_changes_its_total_afterwards_is_not_the_one_that_was_bound(self) -> None:
        federation = VerifiedFederation(4)
        leader, helper = federation.leader(), federation.helper()
        result = collect(leader, helper, federation.uploads())
        ctx = federation.session.ctx
        assert helper.commitments == (
            result.leader.commitment(ctx, leads=True).hex(),
            result.helper.commitment(ctx, leads=False).hex(),
        )
        moved = result.leader.total.copy()
        moved[0, 0] += 1
        assert replace(result.leader, total=moved).commitment(ctx, leads=True).hex() != helper.commitments[0]


class TestClipping:
    """`add_up` over the whole field: what an aggregator can do to a count by a shift of its choice."""

    everywhere = np.arange(FIELD.prime, dtype=np.int64)[:, None]

    @pytest.mark.parametrize("teachers", [1, 1_000])
    def test_one_vote_moves_a_count_by_one_at_most_wherever_it_was_shifted_to(self, teachers) -> None:
        session = VerifiedFederation(12, teachers=teachers, no_votes=True).new_session(sigma=40.0)
        votes, tail = 12 * teachers, session.tail
        sums = add_up(self.everywhere, np.zeros_like(self.everywhere), votes, tail)
        assert (sums.min(), sums.max()) == (-tail, votes + tail)
        assert np.abs(np.diff(np.append(sums, sums[0]))).max() == 1
        possible = np.r_[0 : votes + tail + 1]
        assert np.array_equal(sums[possible, 0], possible), "what votes and noise can give is left as it is"
        assert np.array_equal(sums[FIELD.prime - tail :, 0], np.arange(-tail, 0))

    def test_control_cut_off_at_both_ends_one_vote_moves_a_count_from_none_to_all(self) -> None:
        centred = (self.everywhere + FIELD.most_reach) % FIELD.prime - FIELD.most_reach
        assert np.abs(np.diff(np.clip(centred, 0, 12), axis=0)).max() == 12


class TestNoise:
    def test_each_adds_its_own(self) -> None:
        federation = VerifiedFederation(6, queries=500, terms={"sigma": 6.0})
        leader, helper = federation.leader(SeededNoise(1)), federation.helper(SeededNoise(2))
        result = collect(leader, helper, federation.uploads())
        noise, sigma = result.sums - federation.total(federation.names), 6.0 * math.sqrt(2)
        assert 0.8 * sigma < noise.std() < 1.2 * sigma  # fixed seeds; six standard deviations of an estimate from 1,500

    def test_neither_holds_an_exact_sum(self) -> None:
        """What the leader gets, less its own noise, still has the helper's; the helper gets no total at all."""
        federation = VerifiedFederation(6, queries=200, terms={"sigma": 30.0})
        leader, helper = federation.leader(SeededNoise(1)), federation.helper(SeededNoise(2))
        result = collect(leader, helper, federation.uploads())
        own = leader._close().total.astype(np.int64) - leader._total
        known = (result.sums - own) % FIELD.prime
        left = (known - federation.total(federation.names) + FIELD.most_reach) % FIELD.prime - FIELD.most_reach
        assert 20 < left.std() < 40


class TestStates:
    def test_a_state_is_of_one_session_and_one_form(self) -> None:
        federation = VerifiedFederation(3)
        saved = federation.helper().state()
        for content in (b"", saved[:-1], saved + b"\0", saved[:20], b"\0" * len(saved)):
            with pytest.raises(MalformedMessage):
                federation.helper(state=content)
        with pytest.raises(MalformedMessage):
            federation.helper(state=saved, session=federation.new_session())
        assert federation.helper(state=saved).accepted == ()

    def test_aggregators_have_their_own_keys(self) -> None:
        one, other = VerifiedFederation(3), VerifiedFederation(3)
        one.helper_key, one.leader_key = other.helper_key, other.leader_key
        for make in (one.helper, one.leader):
            with pytest.raises(RosterMismatch):
                make()
        other.leader_fresh = one.leader_fresh
        with pytest.raises(RosterMismatch):
            other.leader()
