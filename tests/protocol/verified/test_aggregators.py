"""The two aggregators: messages that are lost, late, repeated or altered, kills between all steps, each one's own
rules, and one of them that lies."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.noise import SeededNoise
from consilium.protocol.secagg.errors import (
    AlreadyAnswered,
    Replay,
    RosterMismatch,
    SetTooClose,
    StageOrder,
    ThresholdNotMet,
    UnsafeSession,
)
from consilium.protocol.verified import helper as helper_module
from consilium.protocol.verified.aggregator import ASKED, BATCH, CHECKED, GIVEN
from consilium.protocol.verified.errors import (
    AggregatorsDisagree,
    BadLink,
    TooManyWaiting,
    VerifiedError,
    VoteFault,
    WrongSum,
)
from consilium.protocol.verified.field import PRIME
from consilium.protocol.verified.helper import Helper
from consilium.protocol.verified.leader import Leader
from consilium.protocol.verified.messages import (
    MOST_BATCH,
    body_digest,
    read_asked,
    read_batch,
    read_checked,
    read_given,
    write_asked,
    write_batch,
    write_checked,
    write_given,
)
from consilium.protocol.verified.proof import opening_elements
from consilium.protocol.verified.rules import QueriesOnce, SetsKeepDistance
from consilium.protocol.verified.sealing import Link
from consilium.protocol.verified.sums import VerifiedSum
from consilium.protocol.verified.uploads import PART_BYTES
from tests.protocol.verified.federation import VerifiedFederation, collect, settle_all
from tests.protocol.verified.liars import Forger, one_hot

SEVERAL = [(3, 2, 1), (5, 3, 1), (4, 4, 3), (9, 2, 5)]


@pytest.mark.parametrize(("n", "classes", "teachers"), SEVERAL)
@pytest.mark.parametrize("queries", [1, 2, 13])
def test_the_sum_is_that_of_clear_votes(n, classes, teachers, queries) -> None:
    federation = VerifiedFederation(n, queries=queries, classes=classes, teachers=teachers)
    result = collect(federation.leader(), federation.helper(), federation.uploads())
    assert np.array_equal(result.sums, federation.total(federation.names))
    assert result.accepted == tuple(federation.names)
    assert result.left_out == {}


def test_who_sends_nothing_is_missing_and_the_rest_goes_on() -> None:
    federation = VerifiedFederation(6)
    there = federation.names[1:5]
    result = collect(federation.leader(), federation.helper(), federation.uploads(there))
    assert np.array_equal(result.sums, federation.total(there))
    assert result.accepted == tuple(there)


@dataclass
class RoughNetwork:
    """Carries messages between the aggregators, each by a fault of its turn, and both aggregators' kills between.

    faults : names of methods, taken in turn. kill : both are restarted from their saved state before every message.
    """

    federation: VerifiedFederation
    faults: tuple[str, ...] = ()
    kill: bool = False
    old: list[bytes] = field(default_factory=list)
    turn: int = 0

    def run(self, uploads: dict[str, bytes]) -> VerifiedSum:
        leader, helper = self.federation.leader(batch_size=2), self.federation.helper()
        for name, upload in uploads.items():
            leader = self.restarted_leader(leader)
            leader.accept(name, upload)
            while leader.waiting == 4:
                leader, helper = self.settle(leader, helper)
        while leader.waiting:
            leader, helper = self.settle(leader, helper)
        for _ in range(20):
            asked = leader.ask()
            leader = self.restarted_leader(leader)
            reply, helper = self.exchange(asked, helper, Helper.give)
            if reply is None:
                continue
            try:
                return leader.finish(reply)
            except BadLink:
                continue
        raise AssertionError("no sum")

    def settle(self, leader: Leader, helper: Helper) -> tuple[Leader, Helper]:
        batch = leader.batch()
        assert batch is not None
        leader = self.restarted_leader(leader)
        reply, helper = self.exchange(batch, helper, Helper.check)
        if reply is not None:
            with suppress(BadLink):
                leader.settle(reply)
        return self.restarted_leader(leader), helper

    def exchange(self, content: bytes, helper: Helper, answer: Callable) -> tuple[bytes | None, Helper]:
        fault = self.faults[self.turn % len(self.faults)] if self.faults else "deliver"
        self.turn += 1
        return getattr(self, fault)(content, self.restarted_helper(helper), answer)

    def deliver(self, content, helper, answer):
        reply = answer(helper, content)
        self.old.append(reply)
        return reply, self.restarted_helper(helper)

    def lose_request(self, content, helper, answer):
        return None, helper

    def lose_reply(self, content, helper, answer):
        answer(helper, content)
        return None, self.restarted_helper(helper)

    def kill_before_saving(self, content, helper, answer):
        """The helper dies with what it has computed; nothing was sent."""
        saved = helper.state()
        answer(helper, content)
        return None, self.federation.helper(state=saved)

    def repeat(self, content, helper, answer):
        answer(helper, content)
        return self.deliver(content, helper, answer)

    def corrupt_request(self, content, helper, answer):
        with pytest.raises(BadLink):
            answer(helper, content[:40] + bytes([content[40] ^ 1]) + content[41:])
        return None, helper

    def corrupt_reply(self, content, helper, answer):
        reply = answer(helper, content)
        return reply[:-1] + bytes([reply[-1] ^ 1]), helper

    def truncate_reply(self, content, helper, answer):
        return answer(helper, content)[:-3], helper

    def stale_reply(self, content, helper, answer):
        """An answer that came before, to another message."""
        return (self.old[0] if self.old else None), helper

    def mirror(self, content, helper, answer):
        """The leader's own message comes back."""
        return content, helper

    def restarted_leader(self, leader: Leader) -> Leader:
        return self.federation.leader(state=leader.state(), batch_size=2) if self.kill else leader

    def restarted_helper(self, helper: Helper) -> Helper:
        return self.federation.helper(state=helper.state()) if self.kill else helper


FAULTS = (
    "lose_request",
    "lose_reply",
    "kill_before_saving",
    "repeat",
    "corrupt_request",
    "corrupt_reply",
    "truncate_reply",
    "stale_reply",
    "mirror",
)


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("fault", [*FAULTS, "all"])
def test_a_rough_network_and_kills_change_nothing(fault, kill) -> None:
    federation = VerifiedFederation(7)
    uploads = federation.uploads()
    matrix = one_hot(federation, "h3")
    matrix[0] = 0, 2, 0
    uploads["h3"] = Forger(federation, "h3")(matrix)
    faults = (*FAULTS, "deliver") if fault == "all" else (fault, "deliver")
    result = RoughNetwork(federation, faults, kill).run(uploads)
    honest = [name for name in federation.names if name != "h3"]
    assert np.array_equal(result.sums, federation.total(honest))
    assert result.left_out == {"h3": VoteFault.FALSE_VOTES}


def test_a_corrupted_upload_can_be_sent_again() -> None:
    federation = VerifiedFederation(3)
    leader, helper = federation.leader(), federation.helper()
    for name, upload in federation.uploads().items():
        assert leader.accept(name, upload[:-1] + bytes([upload[-1] ^ 1])) is not None
        assert name in leader.left_out
        assert leader.accept(name, upload) is None
        assert leader.accept(name, upload) is None
    settle_all(leader, helper)
    assert leader.left_out == {}
    assert np.array_equal(leader.finish(helper.give(leader.ask())).sums, federation.total(federation.names))


def test_a_bounded_number_waits() -> None:
    federation = VerifiedFederation(6)
    leader, uploads = federation.leader(batch_size=2), federation.uploads()
    for name in federation.names[:4]:
        assert leader.accept(name, uploads[name]) is None
    with pytest.raises(TooManyWaiting, match="4 uploads wait"):
        leader.accept("h4", uploads["h4"])
    assert "h4" not in leader.left_out
    settle_all(leader, federation.helper())
    assert leader.accept("h4", uploads["h4"]) is None


def test_a_restarted_leader_of_a_killed_one_that_lost_uploads_asks_for_them_again() -> None:
    federation = VerifiedFederation(4)
    uploads = federation.uploads()
    leader, helper = federation.leader(), federation.helper()
    saved = leader.state()
    leader.accept("h0", uploads["h0"])
    leader = federation.leader(state=saved)
    result = collect(leader, helper, uploads)
    assert result.accepted == tuple(federation.names)


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

    @staticmethod
    def link(federation: VerifiedFederation) -> Link:
        roster = federation.roster
        return Link(federation.leader_key, bytes.fromhex(roster.helper.x25519_pk), federation.session.ctx)

    def given(self, federation: VerifiedFederation, helper: Helper, places: list[int]) -> bytes:
        return helper.give(self.link(federation).seal(ASKED, write_asked(places)))

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
        ctx, grid = federation.session.ctx, federation.session.grid
        link, places = self.link(federation), list(range(5))
        totals = []
        for _ in range(3):
            body = link.open(GIVEN, self.given(federation, helper, places))
            totals.append(read_given(body, grid, body_digest(write_asked(places))).tolist())
            helper = federation.helper(noise=SeededNoise(7), state=helper.state())
        assert totals[0] == totals[1] == totals[2]
        assert ctx == federation.session.ctx

    def test_of_a_second_upload_of_one_party_nothing_is_opened(self) -> None:
        """Two readings of the same votes with one random start would be an equation for the votes."""
        federation = VerifiedFederation(4)
        helper, link, grid = federation.helper(), self.link(federation), federation.session.grid
        nothing = np.zeros(opening_elements(grid), dtype=np.uint16)
        client = federation.client("h0")
        parts = [client.upload(federation.votes["h0"])[:PART_BYTES] for _ in range(2)]

        def ask(part: bytes) -> tuple[int, np.ndarray]:
            body = write_batch([part], [nothing])
            reply = link.open(CHECKED, helper.check(link.seal(BATCH, body)))
            codes, opened = read_checked(reply, grid, body_digest(body), 1, 99)
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
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        leader._waiting[2].opened[0] ^= 1
        settle_all(leader, helper)
        assert leader.left_out == helper.left_out == {"h2": VoteFault.FALSE_VOTES}


class TestLyingHelper:
    def test_verdicts_that_its_openings_do_not_bear_out(self) -> None:
        federation = VerifiedFederation(3)
        leader, helper = federation.leader(), federation.helper()
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        grid = federation.session.grid
        link = Link(federation.helper_key, bytes.fromhex(federation.roster.leader.x25519_pk), federation.session.ctx)
        batch = leader.batch()
        assert batch is not None
        body = link.open(BATCH, batch)
        codes, opened = read_checked(link.open(CHECKED, helper.check(batch)), grid, body_digest(body), 3, 99)
        false = list(VoteFault).index(VoteFault.FALSE_VOTES) + 1
        with pytest.raises(AggregatorsDisagree, match="h1"):
            leader.settle(link.seal(CHECKED, write_checked(body_digest(body), bytes([0, false, 0]), opened)))
        spoiled = opened.copy()
        spoiled[2, 0] ^= 1
        with pytest.raises(AggregatorsDisagree, match="h2"):
            leader.settle(link.seal(CHECKED, write_checked(body_digest(body), codes, spoiled)))
        assert leader.accepted == ()
        leader.settle(link.seal(CHECKED, write_checked(body_digest(body), codes, opened)))
        assert leader.accepted == tuple(federation.names)

    @pytest.mark.parametrize("shift", [1, PRIME - 1, 3000])
    def test_a_wrong_total_is_found_where_there_is_no_noise(self, shift) -> None:
        federation = VerifiedFederation(3)
        leader, helper = federation.leader(), federation.helper()
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        settle_all(leader, helper)
        helper._total[0, 0] += shift
        with pytest.raises(WrongSum):
            leader.finish(helper.give(leader.ask()))

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
        own = leader._close().astype(np.int64) - leader._total
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
        for cls, key in ((Leader, federation.helper_key), (Helper, federation.leader_key)):
            with pytest.raises(RosterMismatch):
                cls(federation.session, federation.roster, key)

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


class TestMessagesBetween:
    """Every message has one form; whatever else comes is a typed error, and changes nothing."""

    @staticmethod
    def damaged(content: bytes) -> list[bytes]:
        rng = np.random.default_rng(0)
        found = [b"", content[:1], content[:-1], content + b"\0", content * 2, b"\xff" * len(content)]
        for _ in range(40):
            at = int(rng.integers(len(content)))
            found.append(content[:at] + bytes([content[at] ^ int(rng.integers(1, 256))]) + content[at + 1 :])
        return found

    def test_damaged_bodies_are_refused(self) -> None:
        """Bodies as the other aggregator could have sealed them: forms and numbers, beyond what the seal protects."""
        federation = VerifiedFederation(3)
        grid = federation.session.grid
        opened = np.zeros((2, opening_elements(grid)), dtype=np.uint16)
        batch, too_large = write_batch([bytes(PART_BYTES)] * 2, list(opened)), opened + np.uint16(PRIME)
        digest = body_digest(batch)
        cases: list[tuple[bytes, Callable]] = [
            (batch, lambda body: read_batch(body, grid)),
            (write_checked(digest, b"\0\1", opened), lambda body: read_checked(body, grid, digest, 2, 9)),
            (write_given(digest, np.zeros((12, 3), dtype=np.uint16)), lambda body: read_given(body, grid, digest)),
            (write_asked([1, 2]), read_asked),
        ]
        for body, read in cases:
            read(body)
            for wrong in (b"", body[:3], body[:-1], body + b"\0", b"\xff" * len(body)):
                with pytest.raises(BadLink):
                    read(wrong)
        bad = [
            (write_batch([bytes(PART_BYTES)] * 2, list(too_large)), cases[0][1]),
            (write_checked(digest, b"\0\1", too_large), cases[1][1]),
            (write_checked(digest, b"\0\12", opened), cases[1][1]),
            (write_checked(digest[::-1], b"\0\1", opened), cases[1][1]),
            (write_given(digest, np.full((12, 3), PRIME, dtype=np.uint16)), cases[2][1]),
            (write_given(digest[::-1], np.zeros((12, 3), dtype=np.uint16)), cases[2][1]),
        ]
        for body, read in bad:
            with pytest.raises(BadLink):
                read(body)
        many = write_batch([bytes(PART_BYTES)] * (MOST_BATCH + 1), [opened[0]] * (MOST_BATCH + 1))
        with pytest.raises(BadLink):
            read_batch(many, grid)

    def test_damaged_messages_change_nothing(self) -> None:
        federation = VerifiedFederation(4)
        leader, helper = federation.leader(), federation.helper()
        for name, upload in federation.uploads().items():
            leader.accept(name, upload)
        batch = leader.batch()
        assert batch is not None
        before = helper.state()
        for wrong in self.damaged(batch):
            with pytest.raises(BadLink):
                helper.check(wrong)
        assert helper.state() == before
        reply, before = helper.check(batch), leader.state()
        for wrong in [*self.damaged(reply), batch]:
            with pytest.raises(BadLink):
                leader.settle(wrong)
        assert leader.state() == before
        leader.settle(reply)
        asked, before = leader.ask(), helper.state()
        for wrong in [*self.damaged(asked), batch, reply]:
            with pytest.raises(BadLink):
                helper.give(wrong)
        assert helper.state() == before
        given = helper.give(asked)
        for wrong in [*self.damaged(given), asked, reply]:
            with pytest.raises(BadLink):
                leader.finish(wrong)
        assert np.array_equal(leader.finish(given).sums, federation.total(federation.names))

    def test_messages_of_another_session_do_not_open(self) -> None:
        federation = VerifiedFederation(3)
        other = federation.leader(session=federation.new_session())
        other.accept("h0", federation.client("h0", session=other.session).upload(federation.votes["h0"]))
        batch = other.batch()
        assert batch is not None
        with pytest.raises(BadLink):
            federation.helper().check(batch)

    def test_parts_that_are_no_uploads_are_faults_not_tracebacks(self) -> None:
        federation = VerifiedFederation(3)
        helper, grid = federation.helper(), federation.session.grid
        link = TestLyingLeader.link(federation)
        rng = np.random.default_rng(0)
        good = federation.uploads(["h0"])["h0"][:PART_BYTES]
        parts = [rng.bytes(PART_BYTES) for _ in range(20)]
        parts += [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(PART_BYTES)]
        opened = np.zeros((len(parts), opening_elements(grid)), dtype=np.uint16)
        body = write_batch(parts, list(opened))
        reply = link.open(CHECKED, helper.check(link.seal(BATCH, body)))
        codes, told = read_checked(reply, grid, body_digest(body), len(parts), 99)
        assert 0 not in codes
        assert not told.any()
        assert helper.left_out == {}, "nobody has signed these"

    def test_the_helper_opens_nothing_it_cannot_check(self, monkeypatch) -> None:
        monkeypatch.setattr(helper_module, "commit_helper", lambda ctx, place, seed: b"")
        federation = VerifiedFederation(3)
        leader, helper = federation.leader(), federation.helper()
        leader.accept("h0", federation.uploads(["h0"])["h0"])
        settle_all(leader, helper)
        assert leader.left_out == helper.left_out == {"h0": VoteFault.COMMITMENT}
