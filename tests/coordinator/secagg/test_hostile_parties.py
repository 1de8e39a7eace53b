"""Whatever a party sends, it is left out by name at most; lies about shares are found, and no wrong sum comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.secagg import requests
from consilium.coordinator.secagg.drive import drive
from consilium.coordinator.secagg.intake import advert_keys
from consilium.coordinator.secagg.repair import correct
from consilium.coordinator.secagg.unmasking import clip
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.parties.messages import HelloReply, WireModel
from consilium.protocol.secagg.curve import ORDER
from consilium.protocol.secagg.errors import BadShare, BadSum, RosterMismatch, StageOrder, ThresholdNotMet
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.secagg.messages import AdvertiseReply, MaskedReply
from consilium.protocol.secagg.stages import STAGES, Stage
from consilium.protocol.secagg.statements import ADVERT, MASKED, advert_parts, masked_parts
from tests.secagg.network import Federation, Network, altered, flipped, flipped_cell, make_queries, run_until

pytestmark = pytest.mark.slow

BAD = "party-002"
POINTS = ("mask_point", "self_point", "blind_point")


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Six parties: t = u_min = 5, so one may fail."""
    return Federation(tmp_path, 6)


def from_bad(stage: Stage, change: Callable[[WireModel], WireModel | str | None]):
    """`on_reply` that changes what BAD sends in one stage."""
    return lambda at, name, reply: change(reply) if (at, name) == (stage, BAD) else reply


def ballots(rows: list[list[int]], queries: int = 4):
    """`checked_votes` of software that checks nothing: each party in turn gives one of the rows to every query."""
    given = iter(rows)
    return lambda votes, terms, weight: np.tile(next(given), (queries, 1))


def old_check_sum(sums: np.ndarray, votes: int) -> bool:
    """Whether a sum passed before cells were clipped."""
    return not (sums < 0).any() and not (sums.sum(axis=1) != votes).any()


def left_out(federation: Federation, stage: Stage, change: Callable[[WireModel], WireModel | str | None]) -> str:
    """Run with the change; the sum is exact, and BAD is the only one left out. Gives the reason."""
    result = drive(federation.machine(), Network(federation, on_reply=from_bad(stage, change)).send)
    assert list(result.dropped) == [stage] and list(result.dropped[stage]) == [BAD]
    assert (BAD in result.survivors) == (stage in (Stage.CONSISTENCY, Stage.UNMASK))
    assert np.array_equal(result.sums, federation.total(result.survivors))
    return result.dropped[stage][BAD]


def readvertised(federation: Federation, machine, field: str, content: bytes) -> Callable[[WireModel], WireModel]:
    """BAD's advert with another value in one field, signed by BAD."""

    def change(reply: WireModel) -> WireModel:
        assert isinstance(reply, AdvertiseReply)
        other = altered(reply, **{field: content})
        parts = advert_parts(machine.terms.ctx(), 2, advert_keys(other))  # type: ignore[arg-type]
        return altered(other, signature=federation.identities[BAD].sign(ADVERT, *parts))

    return change


class TestReplies:
    """One bad reply."""

    @pytest.mark.parametrize("stage", STAGES)
    def test_a_reply_of_another_kind(self, federation: Federation, stage: Stage) -> None:
        hello = HelloReply(party="x", teachers=1)
        assert left_out(federation, stage, lambda reply: hello) == "answers with a message of another stage"

    @pytest.mark.parametrize("stage", STAGES)
    def test_a_reply_for_another_session(self, federation: Federation, stage: Stage) -> None:
        reason = left_out(federation, stage, lambda reply: altered(reply, sid=bytes(16)))
        assert reason == "answers for another session or another party"

    @pytest.mark.parametrize("stage", STAGES)
    def test_a_reply_in_another_s_name(self, federation: Federation, stage: Stage) -> None:
        reason = left_out(federation, stage, lambda reply: altered(reply, party=3))
        assert reason == "answers for another session or another party"

    @pytest.mark.parametrize("stage", STAGES)
    def test_the_transport_s_own_reason_is_kept(self, federation: Federation, stage: Stage) -> None:
        assert left_out(federation, stage, lambda reply: "refused: policy") == "refused: policy"

    @pytest.mark.parametrize("field", ["cipher_key", "mask_point", "self_point", "blind_point", "signature"])
    def test_a_bit_flipped_in_an_advert(self, federation: Federation, field: str) -> None:
        reason = left_out(
            federation, Stage.ADVERTISE, lambda reply: altered(reply, **{field: flipped(getattr(reply, field), 5)})
        )
        assert "advert does not verify" in reason

    def test_an_advert_signed_with_a_key_that_is_not_in_the_roster(self, federation: Federation) -> None:
        federation.identities[BAD] = Identity.generate()
        machine = federation.machine()
        network = Network(federation)
        report = machine.take(network.send(Stage.ADVERTISE, machine.requests()))
        assert BAD in report.dropped and isinstance(network.errors[Stage.ADVERTISE, BAD], RosterMismatch)

    @pytest.mark.parametrize(
        ("field", "point", "reason"),
        [
            ("cipher_key", bytes(32), "session key is of low order"),
            ("cipher_key", (1).to_bytes(32, "little"), "session key is of low order"),
            *((field, bytes(32), "a point of its advert is none, or of low order") for field in POINTS),
            *(
                (field, (2).to_bytes(32, "little"), "a point of its advert is none, or of low order")
                for field in POINTS
            ),
        ],
    )
    def test_a_key_that_is_none(self, federation: Federation, field: str, point: bytes, reason: str) -> None:
        """Of low order, or not on the curve; signed by the party itself."""
        machine = federation.machine()
        network = Network(
            federation, on_reply=from_bad(Stage.ADVERTISE, readvertised(federation, machine, field, point))
        )
        assert drive(machine, network.send).dropped == {Stage.ADVERTISE: {BAD: reason}}

    @pytest.mark.parametrize("field", ["cipher_key", "mask_point"])
    def test_a_copied_key_leaves_out_both(self, tmp_path: Path, field: str) -> None:
        federation = Federation(tmp_path, 7)
        machine = federation.machine()
        replies = Network(federation).send(Stage.ADVERTISE, machine.requests())
        copied = getattr(replies["party-001"], field)
        changed = readvertised(federation, machine, field, copied)(replies[BAD])  # type: ignore[arg-type]
        report = machine.take({**replies, BAD: changed})
        assert report.dropped == dict.fromkeys(["party-001", BAD], "session key is used twice")

    def test_too_few_ciphertexts(self, federation: Federation) -> None:
        reason = left_out(federation, Stage.SHARE, lambda r: altered(r, ciphertexts=r.ciphertexts[1:]))  # type: ignore[attr-defined]
        assert reason == "sends 4 ciphertexts, 5 are needed"

    @pytest.mark.parametrize("field", ["ciphertexts", "values"])
    def test_a_bit_flipped_in_sealed_shares_or_their_values(self, federation: Federation, field: str) -> None:
        reason = left_out(
            federation, Stage.SHARE, lambda r: altered(r, **{field: flipped_cell(getattr(r, field), 3, 0)})
        )
        assert reason == "its shares are not shares of what its advert is committed to"

    def test_another_nonce(self, federation: Federation) -> None:
        reason = left_out(federation, Stage.SHARE, lambda r: altered(r, nonce=flipped(r.nonce)))  # type: ignore[attr-defined]
        assert reason == "its shares are not shares of what its advert is committed to"

    def test_values_that_are_no_numbers(self, federation: Federation) -> None:
        reason = left_out(federation, Stage.SHARE, lambda r: altered(r, values=np.full_like(r.values, 255)))  # type: ignore[attr-defined]
        assert reason == "its shares are not shares of what its advert is committed to"

    @pytest.mark.parametrize("about", [[2], [9], [0, 2]], ids=["itself", "nobody", "others and itself"])
    def test_complaints_that_cannot_be(self, federation: Federation, about: list[int]) -> None:
        machine = run_until(federation, Stage.MASKED)
        replies = Network(federation).send(Stage.MASKED, machine.requests())
        view, reply = requests.view(machine._state), replies[BAD]
        assert isinstance(reply, MaskedReply)
        complaints = np.array(about, dtype=np.uint16)
        parts = masked_parts(machine.terms.ctx(), 2, view.u1, view.u2, reply.y, complaints)
        other = altered(reply, complaints=complaints, signature=federation.identities[BAD].sign(MASKED, *parts))
        assert machine.take({**replies, BAD: other}).dropped == {BAD: "complains about parties that sent it no shares"}

    def test_complaints_that_the_party_did_not_sign(self, federation: Federation) -> None:
        some = np.array([0], dtype=np.uint16)
        reason = left_out(federation, Stage.MASKED, lambda r: altered(r, complaints=some))
        assert reason == "signature on its masked votes does not verify"

    def test_a_bit_flipped_in_y(self, federation: Federation) -> None:
        reason = left_out(federation, Stage.MASKED, lambda r: altered(r, y=flipped_cell(r.y, 1, 1)))  # type: ignore[attr-defined]
        assert reason == "signature on its masked votes does not verify"

    def test_y_of_another_type(self, federation: Federation) -> None:
        reason = left_out(federation, Stage.MASKED, lambda r: altered(r, y=r.y.astype(np.uint32)))  # type: ignore[attr-defined]
        assert reason == "masked votes are uint32, must be uint16"

    def test_y_of_another_shape(self, federation: Federation) -> None:
        reason = left_out(federation, Stage.MASKED, lambda r: altered(r, y=r.y[:3]))  # type: ignore[attr-defined]
        assert reason == "masked votes have shape (3, 3), must be (4, 3)"

    def test_a_party_that_was_told_another_set(self, federation: Federation) -> None:
        """Its signature is on another U2 than the coordinator's: it would not cancel in the sum."""
        machine = run_until(federation, Stage.MASKED)
        ctx = machine.terms.ctx()
        replies = Network(federation).send(Stage.MASKED, machine.requests())
        reply = replies[BAD]
        parts = masked_parts(ctx, 2, bytes(32), bytes(32), reply.y, reply.complaints)  # type: ignore[union-attr]
        signature = federation.identities[BAD].sign(MASKED, *parts)
        report = machine.take({**replies, BAD: altered(reply, signature=signature)})  # type: ignore[arg-type]
        assert report.dropped == {BAD: "signature on its masked votes does not verify"}

    def test_a_bit_flipped_in_a_signature_on_the_survivors(self, federation: Federation) -> None:
        reason = left_out(
            federation,
            Stage.CONSISTENCY,
            lambda r: altered(r, signature=flipped(r.signature)),  # type: ignore[attr-defined]
        )
        assert reason == "signature on the set of survivors does not verify"

    def test_too_few_shares(self, federation: Federation) -> None:
        reason = left_out(federation, Stage.UNMASK, lambda r: altered(r, shares=r.shares[1:]))  # type: ignore[attr-defined]
        assert reason == "gives 5 shares, 6 are needed"

    def test_a_share_that_is_out_of_range(self, federation: Federation) -> None:
        def change(reply):
            shares = reply.shares.copy()
            shares[0] = np.frombuffer(ORDER.to_bytes(32, "little"), np.uint8)
            return altered(reply, shares=shares)

        assert left_out(federation, Stage.UNMASK, change) == "gives a share that is out of range"

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


class TestShares:
    """Parties that lie about shares."""

    @pytest.mark.parametrize("rows", [slice(0, 1), slice(None)], ids=["one share", "all shares"])
    @pytest.mark.parametrize("mute", [[], ["party-005"]], ids=["all there", "one dropped"])
    def test_a_lying_shareholder_is_found_and_named(self, tmp_path: Path, rows: slice, mute: list[str]) -> None:
        """n = 7, t = 5: with seven or six shares, one wrong one is found."""
        federation = Federation(tmp_path, 7)

        def change(reply):
            shares = reply.shares.copy()
            shares[rows, 0] ^= 1
            return altered(reply, shares=shares)

        network = Network(federation, lost={Stage.MASKED: mute}, on_reply=from_bad(Stage.UNMASK, change))
        result = drive(federation.machine(), network.send)
        assert result.dropped[Stage.UNMASK] == {BAD: "gave a share that does not fit the others"}
        assert np.array_equal(result.sums, federation.total(result.survivors))
        assert BAD in result.survivors

    def test_a_liar_is_looked_for_once(self, tmp_path: Path, monkeypatch) -> None:
        """Repair is dear; who lied about one secret is not asked about the others."""
        federation = Federation(tmp_path, 7)
        calls = []

        def counted(*arguments):
            calls.append(1)
            return correct(*arguments)

        monkeypatch.setattr("consilium.coordinator.secagg.unmasking.correct", counted)
        change = from_bad(Stage.UNMASK, lambda r: altered(r, shares=np.zeros_like(r.shares)))  # type: ignore[attr-defined]
        result = drive(federation.machine(), Network(federation, on_reply=change).send)
        assert len(calls) == 1
        assert np.array_equal(result.sums, federation.total(federation.names))

    def test_several_liars_among_many(self, tmp_path: Path) -> None:
        """n = 20, t = 14: up to three wrong shares are found without trying all sets."""
        federation = Federation(tmp_path, 20)
        liars = federation.names[3:6]

        def change(stage, name, reply):
            if stage is not Stage.UNMASK or name not in liars:
                return reply
            shares = np.random.default_rng(1).permutation(reply.shares)
            shares[:, 31] = 0
            return altered(reply, shares=shares)

        result = drive(federation.machine(), Network(federation, on_reply=change).send)
        assert list(result.dropped[Stage.UNMASK]) == liars
        assert np.array_equal(result.sums, federation.total(federation.names))

    def test_shares_of_two_owners_swapped(self, federation: Federation) -> None:
        """With t + 1 shareholders the liar is found by the commitments alone."""

        def change(reply):
            return altered(reply, shares=reply.shares[[1, 0, 2, 3, 4, 5]])

        result = drive(federation.machine(), Network(federation, on_reply=from_bad(Stage.UNMASK, change)).send)
        assert list(result.dropped[Stage.UNMASK]) == [BAD]
        assert np.array_equal(result.sums, federation.total(federation.names))

    def test_no_slack_no_sum(self, tmp_path: Path) -> None:
        """n = t = 3: a wrong share cannot be told from others; an error that names the candidates, and no output."""
        federation = Federation(tmp_path, 3)
        change = from_bad(Stage.UNMASK, lambda r: altered(r, shares=flipped_cell(r.shares, 0, 0)))  # type: ignore[attr-defined]
        machine = federation.machine()
        with pytest.raises(BadShare, match=r"share of party-000: .*party-000, party-001, party-002") as caught:
            drive(machine, Network(federation, on_reply=change).send)
        assert caught.value.party == "party-000" and caught.value.parties == ()
        with pytest.raises(StageOrder):
            machine.result()


class TestSums:
    """Votes that cannot be."""

    @pytest.mark.parametrize("row", [[1, 1, 1], [20, 0, 0], [-2, 0, 0], [2**15, 0, 0]])
    def test_another_number_of_votes_is_seen_without_noise(
        self, federation: Federation, monkeypatch, row: list[int]
    ) -> None:
        """One party's software does not check its ballot; the others vote [1, 1, 0]."""
        monkeypatch.setattr("consilium.party.secagg.session.checked_votes", ballots([[1, 1, 0]] * 5 + [row]))
        machine = federation.machine()
        with pytest.raises(BadSum, match="number of votes"):
            drive(machine, Network(federation).send)
        with pytest.raises(StageOrder):
            machine.result()

    @pytest.mark.parametrize("honest", [18, 19, 20, 21])
    def test_a_liar_sets_no_threshold_on_honest_votes(self, tmp_path: Path, monkeypatch, honest: int) -> None:
        """29 parties of one vote each, `honest` of them for class 0, and a liar that takes 20 away from it and is
        itself one of thirty: whether the sum came to an end told whether honest >= 20."""
        federation = Federation(tmp_path, 30, teachers=1, queries=make_queries(1))
        rows = [[1, 0, 0]] * honest + [[0, 1, 0]] * (29 - honest) + [[-20, 0, 21]]
        monkeypatch.setattr("consilium.party.secagg.session.checked_votes", ballots(rows, 1))
        machine = federation.machine()
        result = drive(machine, Network(federation).send)
        assert result.sums.tolist() == [[max(honest - 20, 0), 29 - honest, 21]]
        assert result.clipped.tolist() == [honest < 20]
        # the control: what the sum was held against before
        raw = machine._state.sums
        assert raw is not None
        assert old_check_sum(raw, 30) == (honest >= 20)

    @pytest.mark.parametrize("honest", [5, 6])
    def test_the_edge_of_the_ring_is_no_threshold_either(self, tmp_path: Path, monkeypatch, honest: int) -> None:
        """At 2^15 a cell that is read as signed turns from the largest number to the smallest: cut to [0, 30], one
        honest vote moves it by 30 instead of by one, which no noise is sized for."""
        federation = Federation(tmp_path, 30, teachers=1, queries=make_queries(1))
        lie = [2**15 - 6, 0, 7 - 2**15]
        rows = [[1, 0, 0]] * honest + [[0, 1, 0]] * (29 - honest) + [lie]
        monkeypatch.setattr("consilium.party.secagg.session.checked_votes", ballots(rows, 1))
        machine = federation.machine()
        result = drive(machine, Network(federation).send)
        assert result.sums.tolist() == [[30, 29 - honest, 23]]
        raw = machine._state.sums
        assert raw is not None
        assert np.clip(raw, 0, 30)[0, 0] == (30 if honest == 5 else 0), "the control: what plain clipping gives"

    def test_a_liar_within_range_decides_a_label(self, tmp_path: Path, monkeypatch) -> None:
        """Masks hide it: 29 honest votes [20, 9, 0], and one party that may give one vote. Documented, not prevented
        (docs/secure-aggregation.md, false votes)."""
        federation = Federation(tmp_path, 30, teachers=1, queries=make_queries(1))
        rows = [[1, 0, 0]] * 20 + [[0, 1, 0]] * 9 + [[-20, 0, 21]]
        monkeypatch.setattr("consilium.party.secagg.session.checked_votes", ballots(rows, 1))
        result = drive(federation.machine(), Network(federation).send)
        assert result.sums.tolist() == [[0, 9, 21]] and not result.clipped.any()

    def test_noisy_sums_pass(self, federation: Federation) -> None:
        federation.noise = lambda sigma, shape: np.full(shape, -7, dtype=np.int64)
        terms = federation.terms(sigma=10.0, noise_shares=4)
        result = drive(federation.machine(terms), Network(federation).send)
        assert np.array_equal(result.sums, federation.total(federation.names) - 42)


class TestClip:
    """The map of `clip`, over the whole ring."""

    @pytest.mark.parametrize(("teachers", "survivors", "ring"), [(1, 3, 16), (2, 5, 16), (7, 6, 16), (1000, 6, 32)])
    def test_one_vote_moves_a_cell_by_one_at_most(
        self, federation: Federation, teachers: int, survivors: int, ring: int
    ) -> None:
        terms = federation.terms(teachers=teachers).model_copy(update={"ring": ring})
        half, votes = 2 ** (ring - 1), teachers * survivors
        edges = [-half, -votes, -1, 0, 1, votes, 2 * votes, half - votes, half - 1]
        cells = np.arange(-half, half) if ring == 16 else np.unique([e + s for e in edges for s in range(-3, 4)])
        cells = cells[(cells >= -half) & (cells < half)]
        next_cells = (cells + 1 + half) % (2 * half) - half  # one vote more, in the ring
        kept, clipped = clip(cells[:, None], terms, votes)
        more, _ = clip(next_cells[:, None], terms, votes)
        assert np.abs(more - kept).max() == 1
        assert kept.min() == 0 and kept.max() == votes
        possible = (cells >= 0) & (cells <= votes)
        assert (kept[possible, 0] == cells[possible]).all() and (clipped == ~possible).all()
        plain, wrapped = np.clip(cells, 0, votes), np.clip(next_cells, 0, votes)
        assert np.abs(wrapped - plain).max() == votes, "the control: plain clipping jumps at the edge of the ring"

    def test_noisy_sums_are_left_alone(self, federation: Federation) -> None:
        terms = federation.terms(sigma=10.0, noise_shares=4)
        sums = np.array([[-5, 99, 0]])
        kept, clipped = clip(sums, terms, 6)
        assert np.array_equal(kept, sums) and not clipped.any()


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

    def test_progress_is_told_by_stage(self, federation: Federation) -> None:
        told = []
        drive(
            federation.machine(),
            Network(federation, lost={Stage.SHARE: [BAD]}).send,
            progress=lambda report: told.append((report.stage, len(report.present), report.dropped)),
        )
        assert told == [
            (Stage.ADVERTISE, 6, {}),
            (Stage.SHARE, 5, {BAD: "no answer"}),
            (Stage.MASKED, 5, {}),
            (Stage.CONSISTENCY, 5, {}),
            (Stage.UNMASK, 5, {}),
        ]

    def test_a_party_gets_only_its_own_column(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.MASKED)
        rows = [row.tobytes() for request in machine.requests().values() for row in request.ciphertexts]  # type: ignore[attr-defined]
        assert len(rows) == len(set(rows)) == 30

    def test_all_errors_are_typed_with_one_exit_code(self) -> None:
        assert issubclass(ThresholdNotMet, ConsiliumError) and ThresholdNotMet.exit_code == 11
