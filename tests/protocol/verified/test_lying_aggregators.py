"""Two aggregators, of which one asks out of turn or does not keep to the protocol."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.protocol.noise import SeededNoise
from consilium.protocol.secagg.errors import StageOrder, ThresholdNotMet
from consilium.protocol.verified.aggregator import ASKED, BATCH, CHECKED, FAULT_CODES, fault_code
from consilium.protocol.verified.errors import AggregatorsDisagree, VerifiedError, VoteFault
from consilium.protocol.verified.field import PRIME
from consilium.protocol.verified.helper import Helper
from consilium.protocol.verified.messages import (
    body_digest,
    read_checked,
    write_asked,
    write_batch,
    write_checked,
)
from consilium.protocol.verified.proof import opening_elements
from consilium.protocol.verified.sums import add_up
from consilium.protocol.verified.uploads import PART_BYTES
from tests.protocol.verified.federation import VerifiedFederation, collect, helper_link, leader_link, settle_all


class TestOrder:
    def test_nothing_is_asked_while_uploads_wait(self) -> None:
        federation = VerifiedFederation(3)
        leader = federation.leader()
        leader.accept("h0", federation.uploads(["h0"])["h0"])
        with pytest.raises(StageOrder, match="1 uploads wait"):
            leader.ask()

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
            leader.accept("h3", uploads["h3"])

    def test_the_helper_checks_nobody_new_once_it_has_given(self) -> None:
        """A leader that asks for a sum, lets one more in and asks again would have that party's votes."""
        federation = VerifiedFederation(4)
        uploads = federation.uploads()
        leader, helper, lying = federation.leader(), federation.helper(), federation.leader()
        collect(leader, helper, {name: uploads[name] for name in federation.names[:3]})
        for name in federation.names:
            lying.accept(name, uploads[name])
        batch = lying.batch()
        assert batch is not None
        with pytest.raises(StageOrder):
            helper.check(batch)
        assert helper.accepted == tuple(federation.names[:3])

    def test_too_few_are_no_sum(self) -> None:
        federation = VerifiedFederation(5, least_accepted=4)
        leader, helper = federation.leader(), federation.helper()
        for name, upload in federation.uploads(federation.names[:3]).items():
            leader.accept(name, upload)
        settle_all(leader, helper)
        with pytest.raises(ThresholdNotMet, match="3 parties are left, 4 are needed"):
            leader.ask()


class TestLyingLeader:
    """It has its keys and does not keep to the protocol; the helper is the program as it is."""

    def given(self, federation: VerifiedFederation, helper: Helper, places: list[int]) -> bytes:
        return helper.give(leader_link(federation).seal(ASKED, write_asked(places, [], bytes(32))))

    def ready(self) -> tuple[VerifiedFederation, Helper]:
        federation = VerifiedFederation(5)
        leader, helper = federation.leader(), federation.helper()
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        settle_all(leader, helper)
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
            with pytest.raises(VerifiedError):
                self.given(federation, helper, places)

    def test_the_total_is_the_same_each_time_noise_included(self) -> None:
        federation = VerifiedFederation(5, terms={"helper_sigma": 20.0})
        leader, helper = federation.leader(), federation.helper(noise=SeededNoise(0))
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        settle_all(leader, helper)
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
        nothing = np.zeros(opening_elements(grid), dtype=np.uint16)
        client = federation.client("h0")
        parts = [client.upload(federation.votes["h0"])[:PART_BYTES] for _ in range(2)]

        def ask(part: bytes) -> tuple[VoteFault | None, np.ndarray]:
            body = write_batch([part], [nothing])
            reply = link.open(CHECKED, helper.check(link.seal(BATCH, body)))
            faults, opened, _ = read_checked(reply, grid, body_digest(body), 1, FAULT_CODES)
            return faults[0], opened[0]

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
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        leader._waiting[2].opened[0] ^= 1
        settle_all(leader, helper)
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
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        grid = federation.session.grid
        link = helper_link(federation)
        batch = leader.batch()
        assert batch is not None
        body = link.open(BATCH, batch)
        reply = link.open(CHECKED, helper.check(batch))
        faults, opened, _ = read_checked(reply, grid, body_digest(body), 3, FAULT_CODES)
        assert faults == [None] * 3
        codes, false = bytes(3), fault_code(VoteFault.FALSE_VOTES)
        with pytest.raises(AggregatorsDisagree, match="h1"):
            leader.settle(link.seal(CHECKED, write_checked(body_digest(body), bytes([0, false, 0]), opened, [])))
        spoiled = opened.copy()
        spoiled[2, 0] ^= 1
        with pytest.raises(AggregatorsDisagree, match="h2"):
            leader.settle(link.seal(CHECKED, write_checked(body_digest(body), codes, spoiled, [])))
        assert leader.accepted == ()
        leader.settle(link.seal(CHECKED, write_checked(body_digest(body), codes, opened, [])))
        assert leader.accepted == tuple(federation.names)

    @pytest.mark.parametrize("shift", [1, PRIME - 1, 3000, PRIME // 2, PRIME // 2 + 5])
    def test_a_wrong_total_is_made_to_fit_and_nothing_is_said(self, shift) -> None:
        federation = VerifiedFederation(3)
        leader, helper = federation.leader(), federation.helper()
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        settle_all(leader, helper)
        helper._total[0, 0] += shift
        result = leader.finish(helper.give(leader.ask()))
        total = federation.total(federation.names)
        assert np.array_equal(result.sums[1:], total[1:])
        assert 0 <= result.sums[0].min() <= result.sums[0].max() <= 3
        assert result.clipped.tolist() == [True] + [False] * 11
        assert "clipped" not in repr(result)

    def test_a_vote_moved_in_its_total_is_not_found(self) -> None:
        """Robust sums need both aggregators: documented, not prevented."""
        federation = VerifiedFederation(3)
        leader, helper = federation.leader(), federation.helper()
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        settle_all(leader, helper)
        total, cell = federation.total(federation.names), int(np.argmax(federation.total(federation.names)[0]))
        helper._total[0, cell] += PRIME - 1
        helper._total[0, (cell + 1) % 3] += 1
        result = leader.finish(helper.give(leader.ask()))
        assert not np.array_equal(result.sums, total)


class TestClipping:
    """`add_up` over the whole field: what an aggregator can do to a count by a shift of its choice."""

    EVERYWHERE = np.arange(PRIME, dtype=np.int64)[:, None]

    @pytest.mark.parametrize("terms", [{}, {"leader_sigma": 40.0, "helper_sigma": 30.0}])
    @pytest.mark.parametrize("teachers", [1, 1_000])
    def test_one_vote_moves_a_count_by_one_at_most_wherever_it_was_shifted_to(self, terms, teachers) -> None:
        session = VerifiedFederation(12, teachers=teachers, no_votes=True).new_session(**terms)
        votes, tail = 12 * teachers, session.tail
        sums, _ = add_up(self.EVERYWHERE, np.zeros_like(self.EVERYWHERE), votes, tail)
        assert (sums.min(), sums.max()) == (-tail, votes + tail)
        assert np.abs(np.diff(np.append(sums, sums[0]))).max() == 1
        possible = np.r_[0 : votes + tail + 1]
        assert np.array_equal(sums[possible, 0], possible), "what votes and noise can give is left as it is"
        assert np.array_equal(sums[PRIME - tail :, 0], np.arange(-tail, 0))

    def test_control_cut_off_at_both_ends_one_vote_moves_a_count_from_none_to_all(self) -> None:
        centred = (self.EVERYWHERE + PRIME // 2) % PRIME - PRIME // 2
        assert np.abs(np.diff(np.clip(centred, 0, 12), axis=0)).max() == 12

    def test_rows_of_noisy_sums_may_have_any_total(self) -> None:
        _, clipped = add_up(self.EVERYWHERE, np.zeros_like(self.EVERYWHERE), 12, 450)
        assert not clipped.any()
