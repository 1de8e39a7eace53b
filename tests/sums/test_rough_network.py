"""The sum of two aggregators: messages that are lost, late, repeated or altered, and kills between all steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest

from consilium.sums.errors import BadLink, StageOrder, VoteFault
from consilium.sums.field import FIELD
from consilium.sums.verified.half import Half, VerifiedSum
from consilium.sums.verified.helper import Helper
from consilium.sums.verified.messages import (
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
from consilium.sums.verified.proof import opening_elements
from consilium.sums.verified.uploads import PART_BYTES
from tests.sums.verified import Forger, VerifiedFederation, check_all, collect, one_hot

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
        leader, helper = self.federation.leader(), self.federation.helper()
        items = list(uploads.items())
        for start in range(0, len(items), 2):
            settled = False
            while not settled:
                if self.kill:  # before it has asked, nothing of a leader is kept: it checks all again
                    leader = self.federation.leader()
                    for before in range(0, start, 2):
                        check_all(leader, helper, dict(items[before : before + 2]))
                batch = leader.batch(dict(items[start : start + 2]))
                assert batch is not None
                reply, helper = self.exchange(batch, helper, Helper.check)
                with suppress(BadLink):
                    if reply is not None:
                        leader.settle(reply)
                        settled = True
        for _ in range(20):
            asked = leader.ask()
            if self.kill:
                leader = self.federation.leader(state=leader.state())
            reply, helper = self.exchange(asked, helper, Helper.give)
            if reply is None:
                continue
            try:
                return leader.finish(reply)
            except BadLink:
                continue
        raise AssertionError("no sum")

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


def test_both_name_whom_the_leader_left_out_by_itself() -> None:
    federation = VerifiedFederation(4)
    leader, helper = federation.leader(), federation.helper()
    result = collect(leader, helper, federation.uploads() | {"h1": b"no upload", "h3": b""})
    assert result.accepted == ("h0", "h2")
    assert result.left_out == leader.left_out == helper.left_out
    assert helper.left_out == dict.fromkeys(("h1", "h3"), VoteFault.MALFORMED)
    assert federation.helper(state=helper.state()).left_out == helper.left_out


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
        grid = VerifiedFederation(3).session.grid
        opened = np.zeros((2, opening_elements(grid)), dtype=FIELD.dtype)
        too_large, zeros = opened + FIELD.dtype.type(FIELD.prime), np.zeros((12, 3), dtype=FIELD.dtype)
        batch = write_batch([bytes(PART_BYTES)] * 2, list(opened))
        digest = body_digest(batch)

        def checked(body: bytes) -> object:
            return read_checked(body, grid, digest, 2)

        def given(body: bytes) -> object:
            return read_given(body, grid, digest)

        cases: list[tuple[bytes, Callable]] = [
            (batch, lambda body: read_batch(body, grid)),
            (write_checked(digest, b"\0\1", opened), checked),
            (write_given(digest, Half(bytes(16), zeros)), given),
            (write_asked([1, 2], [(0, 3)], bytes(32)), read_asked),
        ]
        for body, read in cases:
            read(body)
            for wrong in (b"", body[:3], body[:-1], body + b"\0", b"\xff" * len(body), *(other for other, _ in cases)):
                if wrong != body:
                    with pytest.raises(BadLink):
                        read(wrong)
        many = write_batch([bytes(PART_BYTES)] * (MOST_BATCH + 1), [opened[0]] * (MOST_BATCH + 1))
        bad = [
            (write_batch([bytes(PART_BYTES)] * 2, list(too_large)), cases[0][1]),
            (many, cases[0][1]),
            (write_checked(digest, b"\0\1", too_large), checked),
            (write_checked(digest, b"\0\x0b", opened), checked),
            (write_checked(digest, b"\0", opened[:1]), checked),
            (write_checked(digest[::-1], b"\0\1", opened), checked),
            (write_asked([1, 2], [(0, 10)], bytes(32)), read_asked),
            (write_asked([1, 2], [(0, 3)], bytes(31)), read_asked),
            (write_given(digest, Half(bytes(16), np.full((12, 3), FIELD.prime, dtype=FIELD.dtype))), given),
            (write_given(digest, Half(bytes(15), zeros)), given),
            (write_given(digest, Half(bytes(16), zeros[:11])), given),
            (write_given(digest[::-1], Half(bytes(16), zeros)), given),
        ]
        for body, read in bad:
            with pytest.raises(BadLink):
                read(body)

    def test_damaged_messages_change_nothing(self) -> None:
        federation = VerifiedFederation(4)
        leader, helper = federation.leader(), federation.helper()
        batch = leader.batch(federation.uploads())
        assert batch is not None
        before = helper.state()
        for wrong in self.damaged(batch):
            with pytest.raises(BadLink):
                helper.check(wrong)
        assert helper.state() == before
        reply = helper.check(batch)
        for wrong in [*self.damaged(reply), batch]:
            with pytest.raises(BadLink):
                leader.settle(wrong)
        assert leader.accepted == ()
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
        batch = other.batch({"h0": federation.client("h0", session=other.terms).upload(federation.votes["h0"])})
        assert batch is not None
        with pytest.raises(BadLink):
            federation.helper().check(batch)
