"""The sum of two aggregators: messages that are lost, late, repeated or altered, and kills between all steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest

from consilium.sums.aggregators.half import FAULT_CODES, Half, VerifiedSum
from consilium.sums.aggregators.helper import Helper
from consilium.sums.aggregators.leader import Leader
from consilium.sums.aggregators.messages import (
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
from consilium.sums.aggregators.proof import opening_elements
from consilium.sums.aggregators.uploads import PART_BYTES
from consilium.sums.errors import BadLink, StageOrder, TooManyWaiting, VoteFault
from tests.protocol.verified.federation import VerifiedFederation, collect, settle_all
from tests.protocol.verified.liars import Forger, one_hot

pytestmark = pytest.mark.usefixtures("numbers")
SEVERAL = [(3, 2, 1), (9, 4, 5)]


@pytest.mark.parametrize(("n", "classes", "teachers"), SEVERAL)
@pytest.mark.parametrize("queries", [1, 2, 13])
def test_the_sum_is_that_of_clear_votes(n, classes, teachers, queries) -> None:
    federation = VerifiedFederation(n, queries=queries, classes=classes, teachers=teachers)
    result = collect(federation.leader(), federation.helper(), federation.uploads())
    assert np.array_equal(result.sums, federation.total(federation.names))
    assert result.accepted == tuple(federation.names)
    assert result.left_out == {}


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
        with pytest.raises((BadLink, StageOrder)):  # once the half is given there is no key to read anything by
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


def test_both_name_whom_the_leader_left_out_by_itself() -> None:
    federation = VerifiedFederation(4)
    leader, helper = federation.leader(), federation.helper()
    result = collect(leader, helper, federation.uploads() | {"h1": b"no upload", "h3": b""})
    assert result.accepted == ("h0", "h2")
    assert result.left_out == leader.left_out == helper.left_out
    assert helper.left_out == dict.fromkeys(("h1", "h3"), VoteFault.MALFORMED)
    assert federation.helper(state=helper.state()).left_out == helper.left_out


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
        opened = np.zeros((2, opening_elements(grid)), dtype=grid.field.dtype)
        batch, too_large = (
            write_batch(grid.field, [bytes(PART_BYTES)] * 2, list(opened)),
            opened + grid.field.dtype.type(grid.field.prime),
        )
        digest = body_digest(batch)
        zeros = np.zeros((12, 3), dtype=grid.field.dtype)

        def checked(body: bytes) -> object:
            return read_checked(body, grid, digest, 2, FAULT_CODES)

        cases: list[tuple[bytes, Callable]] = [
            (batch, lambda body: read_batch(body, grid)),
            (write_checked(grid.field, digest, b"\0\1", opened, []), checked),
            (write_checked(grid.field, digest, b"\0\x08", opened, [bytes(32)]), checked),
            (write_given(grid.field, digest, Half(bytes(16), zeros)), lambda body: read_given(body, grid, digest)),
            (write_asked([1, 2], [(0, 3)], bytes(32)), lambda body: read_asked(body, 9)),
        ]
        for body, read in cases:
            read(body)
            for wrong in (b"", body[:3], body[:-1], body + b"\0", b"\xff" * len(body)):
                with pytest.raises(BadLink):
                    read(wrong)
        bad = [
            (write_batch(grid.field, [bytes(PART_BYTES)] * 2, list(too_large)), cases[0][1]),
            (write_checked(grid.field, digest, b"\0\1", too_large, []), cases[1][1]),
            (write_checked(grid.field, digest, b"\0\x0b", opened, []), cases[1][1]),
            (write_checked(grid.field, digest, b"\0\x08", opened, []), cases[1][1]),
            (write_checked(grid.field, digest, b"\0\1", opened, [bytes(32)]), cases[1][1]),
            (write_checked(grid.field, digest[::-1], b"\0\1", opened, []), cases[1][1]),
            (write_asked([1, 2], [(0, 10)], bytes(32)), cases[4][1]),
            (write_asked([1, 2], [(0, 0)], bytes(32)), cases[4][1]),
            (
                write_given(
                    grid.field, digest, Half(bytes(16), np.full((12, 3), grid.field.prime, dtype=grid.field.dtype))
                ),
                cases[3][1],
            ),
            (write_given(grid.field, digest[::-1], Half(bytes(16), zeros)), cases[3][1]),
        ]
        for body, read in bad:
            with pytest.raises(BadLink):
                read(body)
        many = write_batch(grid.field, [bytes(PART_BYTES)] * (MOST_BATCH + 1), [opened[0]] * (MOST_BATCH + 1))
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
        other.accept("h0", federation.client("h0", session=other.terms).upload(federation.votes["h0"]))
        batch = other.batch()
        assert batch is not None
        with pytest.raises(BadLink):
            federation.helper().check(batch)
