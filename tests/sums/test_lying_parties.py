"""Whatever a party replies, it is left out by name at most; and what the machine of a session takes, and when."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import HelloReply, WireModel
from consilium.sums.agreement import seal
from consilium.sums.errors import BadShare, RosterMismatch, StageOrder, ThresholdNotMet
from consilium.sums.secure.machine import drive
from consilium.sums.secure.messages import ADVERT, MASKED, STAGES, AdvertiseReply, Stage, advert_parts, masked_parts
from consilium.sums.secure.unmasking import clip
from tests.sums.network import Federation, Network, altered, flipped, flipped_cell, make_queries, run_until

BAD = "party-002"


def from_bad(stage: Stage, change: Callable[[WireModel], WireModel | str | None]):
    """`on_reply` that changes what BAD sends in one stage."""
    return lambda at, name, reply: change(reply) if (at, name) == (stage, BAD) else reply


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Six parties: t = least = 5, so one may fail."""
    return Federation(tmp_path, 6)


Change = Callable[[WireModel], WireModel | str | None]


def left_out(federation: Federation, stage: Stage, change: Change) -> str:
    """Run with the change; the sum is exact, and BAD is the only one left out. Gives the reason."""
    result = drive(federation.machine(), Network(federation, on_reply=from_bad(stage, change)).send)
    assert list(result.dropped) == [stage] and list(result.dropped[stage]) == [BAD]
    assert (BAD in result.survivors) == (stage in (Stage.CONSISTENCY, Stage.UNMASK))
    assert np.array_equal(result.sums, federation.total(result.survivors))
    return result.dropped[stage][BAD]


def readvertised(federation: Federation, machine, start: int, content: bytes) -> Callable[[WireModel], WireModel]:
    """BAD's advert with another value from `start` on, signed by BAD."""

    def change(reply: WireModel) -> WireModel:
        assert isinstance(reply, AdvertiseReply)
        keys = reply.keys[:start] + content + reply.keys[start + len(content) :]
        signature = federation.identities[BAD].sign(ADVERT, *advert_parts(machine.terms.ctx, 2, keys))
        return altered(reply, keys=keys, signature=signature)

    return change


ANY_STAGE: list[tuple[Change, str]] = [
    (lambda reply: HelloReply(party="x", teachers=1), "answers with a message of another stage"),
    (lambda reply: altered(reply, sid=bytes(16)), "answers for another session or another party"),
    (lambda reply: altered(reply, party=3), "answers for another session or another party"),
    (lambda reply: "refused: policy", "refused: policy"),  # the transport's own reason is kept
]
NOT_SIGNED = "signature on its masked votes does not verify"
ONE_FIELD: list[tuple[Stage, str, Callable[[Any], Any], str]] = [
    *(
        (Stage.ADVERTISE, field, lambda key: flipped(key, 5), "advert does not verify")
        for field in ("keys", "signature")
    ),
    (Stage.SHARE, "ciphertexts", lambda rows: rows[1:], "sends 4 ciphertexts, 5 are needed"),
    (Stage.MASKED, "y", lambda y: flipped_cell(y, 1, 1), NOT_SIGNED),
    (Stage.MASKED, "y", lambda y: y.astype(np.uint32), "masked votes are uint32, must be uint16"),
    (Stage.MASKED, "y", lambda y: y[:3], "masked votes have shape (3, 3), must be (4, 3)"),
    (Stage.CONSISTENCY, "signature", flipped, "signature on the set of survivors does not verify"),
    (Stage.UNMASK, "shares", lambda shares: shares[1:], "gives 5 shares, 6 are needed"),
    (Stage.UNMASK, "shares", lambda shares: np.full_like(shares, 255), "gives a share that is out of range"),
]


class TestReplies:
    """One bad reply."""

    @pytest.mark.parametrize("stage", STAGES)
    @pytest.mark.parametrize(("change", "reason"), ANY_STAGE)
    def test_at_any_stage(self, federation: Federation, stage: Stage, change: Change, reason: str) -> None:
        assert left_out(federation, stage, change) == reason

    @pytest.mark.parametrize(("stage", "field", "change", "reason"), ONE_FIELD)
    def test_one_field(self, federation: Federation, stage: Stage, field: str, change: Any, reason: str) -> None:
        assert reason in left_out(federation, stage, lambda r: altered(r, **{field: change(getattr(r, field))}))

    def test_an_advert_signed_with_a_key_that_is_not_in_the_roster(self, federation: Federation) -> None:
        federation.identities[BAD] = Identity.generate()
        machine = federation.machine()
        network = Network(federation)
        report = machine.take(network.send(Stage.ADVERTISE, machine.requests()))
        assert BAD in report.dropped and isinstance(network.errors[Stage.ADVERTISE, BAD], RosterMismatch)

    @pytest.mark.parametrize("start", [0, 32], ids=["cipher key", "mask key"])
    @pytest.mark.parametrize("point", [bytes(32), (1).to_bytes(32, "little")])
    def test_a_key_of_low_order(self, federation: Federation, start: int, point: bytes) -> None:
        """Signed by the party itself."""
        machine = federation.machine()
        change = from_bad(Stage.ADVERTISE, readvertised(federation, machine, start, point))
        result = drive(machine, Network(federation, on_reply=change).send)
        assert result.dropped == {Stage.ADVERTISE: {BAD: "session key is of low order"}}

    @pytest.mark.parametrize("start", [0, 32], ids=["cipher key", "mask key"])
    def test_a_copied_key_leaves_out_both(self, tmp_path: Path, start: int) -> None:
        federation = Federation(tmp_path, 7)
        machine = federation.machine()
        replies = Network(federation).send(Stage.ADVERTISE, machine.requests())
        copied = replies["party-001"].keys[start : start + 32]  # type: ignore[union-attr]
        changed = readvertised(federation, machine, start, copied)(replies[BAD])  # type: ignore[arg-type]
        report = machine.take({**replies, BAD: changed})
        assert report.dropped == dict.fromkeys(["party-001", BAD], "session key is used twice")

    def test_a_party_that_was_told_another_set(self, federation: Federation) -> None:
        """Its signature is on another U2 than the coordinator's: it would not cancel in the sum."""
        machine = run_until(federation, Stage.MASKED)
        ctx = machine.terms.ctx
        replies = Network(federation).send(Stage.MASKED, machine.requests())
        reply = replies[BAD]
        parts = masked_parts(ctx, 2, bytes(32), bytes(32), reply.y)  # type: ignore[union-attr]
        signature = federation.identities[BAD].sign(MASKED, *parts)
        report = machine.take({**replies, BAD: altered(reply, signature=signature)})  # type: ignore[arg-type]
        assert report.dropped == {BAD: "signature on its masked votes does not verify"}

    def test_replies_nobody_asked_for_are_ignored(self, federation: Federation) -> None:
        machine = federation.machine(invited=federation.names[:5])
        replies = Network(federation).send(Stage.ADVERTISE, federation.machine(machine.terms).requests())
        report = machine.take({**replies, "nobody": "x"})
        assert report.present == tuple(federation.names[:5])

    def test_a_second_reply_does_not_replace_the_first(self, tmp_path: Path) -> None:
        """Of a stage that is sent again."""
        federation = Federation(tmp_path, 3)
        machine = run_until(federation, Stage.MASKED)
        replies = Network(federation).send(Stage.MASKED, machine.requests())
        with pytest.raises(ThresholdNotMet):
            machine.take({BAD: replies[BAD]})
        machine.take(replies)
        result = drive(machine, Network(federation).send)
        assert np.array_equal(result.sums, federation.total(federation.names)), "no y is counted twice"


class TestUse:
    """The machine itself."""

    def test_what_does_not_belong_together(self, tmp_path: Path) -> None:
        one, other = Federation(tmp_path, 3), Federation(tmp_path, 3)
        with pytest.raises(RosterMismatch):
            one.machine(other.terms())
        with pytest.raises(ConfigError):
            one.machine(queries=make_queries(seed=5))
        one.coordinator = Identity.generate()
        with pytest.raises(RosterMismatch, match="coordinator"):
            one.machine()

    def test_a_session_that_is_done(self, federation: Federation) -> None:
        machine = run_until(federation, None)
        with pytest.raises(StageOrder):
            machine.requests()
        with pytest.raises(StageOrder):
            machine.take({})

    def test_a_party_gets_only_its_own_column(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.MASKED)
        rows = [row.tobytes() for request in machine.requests().values() for row in request.ciphertexts]  # type: ignore[attr-defined]
        assert len(rows) == len(set(rows)) == 30


class TestShares:
    """A false share ends the session with an error that names whose secret it was. Nobody can tell who lied."""

    def ended(self, federation: Federation, network: Network, owner: str) -> None:
        machine = federation.machine()
        with pytest.raises(BadShare, match=f"share of {owner}: ") as caught:
            drive(machine, network.send)
        assert caught.value.parties == ()
        with pytest.raises(StageOrder):
            machine.result()

    @pytest.mark.parametrize(("row", "mute"), [(0, []), (5, ["party-005"])], ids=["of b", "of a mask key"])
    def test_a_holder_gives_another_share(self, tmp_path: Path, row: int, mute: list[str]) -> None:
        federation = Federation(tmp_path, 7)
        change = from_bad(Stage.UNMASK, lambda r: altered(r, shares=flipped_cell(r.shares, row, 0)))  # type: ignore[attr-defined]
        network = Network(federation, lost={Stage.MASKED: mute}, on_reply=change)
        self.ended(federation, network, f"party-00{row}")

    @pytest.mark.parametrize("start", [32, 64], ids=["mask key", "commitment"])
    def test_a_dealer_is_committed_to_something_else(self, tmp_path: Path, start: int, monkeypatch) -> None:
        """It advertises what its shares do not give, and leaves after it has shared, or stays."""
        federation = Federation(tmp_path, 7)
        monkeypatch.setattr("consilium.party.masked_session.mask_private", lambda seed: bytes(31) + b"\1")
        monkeypatch.setattr("consilium.party.masked_session.self_commitment", lambda ctx, place, b: bytes(32))
        lost = {Stage.MASKED: ["party-000"]} if start == 32 else {}
        monkeypatch.setattr("consilium.sums.secure.machine._twice", lambda adverts: set())
        monkeypatch.setattr("consilium.party.masked_session.check_adverts", lambda *_: None)
        self.ended(federation, Network(federation, lost=lost), "party-000")

    @pytest.mark.parametrize("opens", [False, True])
    def test_a_ciphertext_of_no_shares_loses_its_receiver_and_names_the_dealer(
        self, federation: Federation, opens: bool, monkeypatch
    ) -> None:
        """It does not open, or what is in it is above the field: given on, that would be the receiver's fault."""
        change = from_bad(Stage.SHARE, lambda r: altered(r, ciphertexts=flipped_cell(r.ciphertexts, 0, 40)))  # type: ignore[attr-defined]
        bad = federation.roster.place(BAD)

        def sealed(agreed: bytes, plain: bytes, ctx: bytes, me: int, peer: int) -> bytes:
            return seal(agreed, b"\xff" * len(plain) if (me, peer) == (bad, 0) else plain, ctx, me, peer)

        monkeypatch.setattr("consilium.sums.secure.party.seal", sealed if opens else seal)
        network = Network(federation) if opens else Network(federation, on_reply=change)
        result = drive(federation.machine(), network.send)
        assert list(result.dropped[Stage.MASKED]) == ["party-000"]
        error = network.errors[Stage.MASKED, "party-000"]
        assert isinstance(error, BadShare) and error.party == BAD
        assert np.array_equal(result.sums, federation.total(result.survivors))


def votes_of_teachers(rows: list[list[int]], queries: int = 4):
    """`checked_votes` of software that checks nothing: each party in turn gives one of the rows to every query."""
    given = iter(rows)
    return lambda votes, terms: np.tile(next(given), (queries, 1))


class TestNoisySums:
    """Nobody checks a vote. What the coordinator makes of it is a function of the noisy sum."""

    def summed(self, folder: Path, monkeypatch, lie: list[int], noise: int = 0):
        """29 honest parties, 15 for class 0, each with noise of that size (a share has deviation 3), and a liar."""
        federation = Federation(folder, 30, teachers=1, queries=make_queries(1))
        federation.noise = lambda sigma, shape: np.full(shape, noise, dtype=np.int64)
        rows = [[1, 0, 0]] * 15 + [[0, 1, 0]] * 14 + [lie]
        monkeypatch.setattr("consilium.party.masked_session.checked_votes", votes_of_teachers(rows, 1))
        machine = federation.machine(federation.terms(sigma=12.0, noise_shares=16))
        return machine, drive(machine, Network(federation).send)

    @pytest.mark.parametrize(
        ("lie", "out"),
        [
            ([1, 0, 0], False),
            ([-20, 20, 1], False),  # decides the label, and is within what noise explains: documented
            ([-200, 200, 1], True),  # a cell beyond nine deviations, 9 * 3 * sqrt(30) = 148
            ([140, 140, 0], True),  # the total beyond nine of its own, 256
            ([120, 120, 0], False),
        ],
    )
    def test_what_noise_cannot_explain_is_seen(self, tmp_path: Path, monkeypatch, lie: list[int], out: bool) -> None:
        _, result = self.summed(tmp_path, monkeypatch, lie)
        assert result.clipped.tolist() == [out]
        assert result.sums.min() >= -148 and result.sums.max() <= 30 + 148

    def test_it_follows_from_the_noisy_sum_alone(self, tmp_path: Path, monkeypatch) -> None:
        """Other honest votes, and noise that makes up for them: the same warning, and the same cells."""
        (tmp_path / "other").mkdir()
        machine, result = self.summed(tmp_path, monkeypatch, [-20, 164, 1])
        _, other = self.summed(tmp_path / "other", monkeypatch, [-20 - 30, 164 - 30, 1 - 30], noise=1)
        assert other.sums.tolist() == result.sums.tolist() and other.clipped.tolist() == result.clipped.tolist()
        raw = machine._state.sums
        assert raw is not None
        assert clip(raw, machine.terms.ring, 30, 3 * math.sqrt(30))[1].tolist() == result.clipped.tolist()

    def test_a_wrong_sum_of_noise_is_a_sum(self, tmp_path: Path, monkeypatch) -> None:
        """It neither ends the session nor uses up more than it: whatever was sent, labels come of it."""
        for number, lie in enumerate(([2**15 - 1, 0, 0], [-(2**15), 5, 5], [999, 999, 999])):
            (tmp_path / str(number)).mkdir()
            machine, result = self.summed(tmp_path / str(number), monkeypatch, lie)
            assert machine.stage is None and result.clipped.all() and np.abs(result.sums).max() <= 178


class TestClip:
    """The map of `clip`, over the whole ring."""

    @pytest.mark.parametrize("deviation", [12.0, 3000.0], ids=["room", "a tight ring"])
    def test_one_vote_moves_a_cell_by_one_at_most(self, deviation: float) -> None:
        """Identity within what noise gives, and no step at the edge of the ring: what is added after it covers one."""
        votes, half = 12, 2**15
        cells = np.arange(-half, half)
        kept, _ = clip(cells[:, None], 16, votes, deviation)
        more, _ = clip((cells[:, None] + 1 + half) % (2 * half) - half, 16, votes, deviation)
        assert np.abs(more - kept).max() == 1
        room = min(math.ceil(9 * deviation), (half - votes) // 2)
        assert (kept.min(), kept.max()) == (-room, votes + room)
        inside = (cells >= -room) & (cells <= votes + room)
        assert (kept[inside, 0] == cells[inside]).all()
