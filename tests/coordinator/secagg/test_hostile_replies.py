"""Whatever a party replies, it is left out by name at most; and what the machine of a session takes, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import HelloReply, WireModel
from consilium.sums.curve import ORDER
from consilium.sums.errors import RosterMismatch, StageOrder, ThresholdNotMet
from consilium.sums.masks.checks import advert_keys
from consilium.sums.masks.machine import drive, view_of
from consilium.sums.masks.messages import (
    ADVERT,
    MASKED,
    STAGES,
    AdvertiseReply,
    MaskedReply,
    Stage,
    advert_parts,
    masked_parts,
)
from tests.coordinator.secagg.bad_party import BAD, from_bad
from tests.secagg.network import Federation, Network, altered, flipped, flipped_cell, make_queries, run_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("any_set")]

POINTS = ("mask_point", "self_point", "blind_point")
ADVERTISED = ("cipher_key", *POINTS, "signature")
Change = Callable[[WireModel], WireModel | str | None]


def left_out(federation: Federation, stage: Stage, change: Change) -> str:
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
        parts = advert_parts(machine.terms.ctx, 2, advert_keys(other))  # type: ignore[arg-type]
        return altered(other, signature=federation.identities[BAD].sign(ADVERT, *parts))

    return change


def out_of_range(shares: np.ndarray) -> np.ndarray:
    """The first share is the order itself."""
    return np.concatenate([np.frombuffer(ORDER.to_bytes(32, "little"), np.uint8)[None], shares[1:]])


ANY_STAGE: list[tuple[Change, str]] = [
    (lambda reply: HelloReply(party="x", teachers=1), "answers with a message of another stage"),
    (lambda reply: altered(reply, sid=bytes(16)), "answers for another session or another party"),
    (lambda reply: altered(reply, party=3), "answers for another session or another party"),
    (lambda reply: "refused: policy", "refused: policy"),  # the transport's own reason is kept
]
NOT_SHARED = "its shares are not shares of what its advert is committed to"
NOT_SIGNED = "signature on its masked votes does not verify"
ONE_FIELD: list[tuple[Stage, str, Callable[[Any], Any], str]] = [
    *((Stage.ADVERTISE, field, lambda key: flipped(key, 5), "advert does not verify") for field in ADVERTISED),
    (Stage.SHARE, "ciphertexts", lambda rows: rows[1:], "sends 4 ciphertexts, 5 are needed"),
    (Stage.SHARE, "ciphertexts", lambda rows: flipped_cell(rows, 3, 0), NOT_SHARED),
    (Stage.SHARE, "values", lambda rows: flipped_cell(rows, 3, 0), NOT_SHARED),
    (Stage.SHARE, "values", lambda rows: np.full_like(rows, 255), NOT_SHARED),
    (Stage.SHARE, "nonce", flipped, NOT_SHARED),
    (Stage.MASKED, "complaints", lambda _: np.array([0], dtype=np.uint16), NOT_SIGNED),
    (Stage.MASKED, "y", lambda y: flipped_cell(y, 1, 1), NOT_SIGNED),
    (Stage.MASKED, "y", lambda y: y.astype(np.uint32), "masked votes are uint32, must be uint16"),
    (Stage.MASKED, "y", lambda y: y[:3], "masked votes have shape (3, 3), must be (4, 3)"),
    (Stage.CONSISTENCY, "signature", flipped, "signature on the set of survivors does not verify"),
    (Stage.UNMASK, "shares", lambda shares: shares[1:], "gives 5 shares, 6 are needed"),
    (Stage.UNMASK, "shares", out_of_range, "gives a share that is out of range"),
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

    @pytest.mark.parametrize("about", [[2], [9], [0, 2]], ids=["itself", "nobody", "others and itself"])
    def test_complaints_that_cannot_be(self, federation: Federation, about: list[int]) -> None:
        machine = run_until(federation, Stage.MASKED)
        replies = Network(federation).send(Stage.MASKED, machine.requests())
        view, reply = view_of(machine._state), replies[BAD]
        assert isinstance(reply, MaskedReply)
        complaints = np.array(about, dtype=np.uint16)
        parts = masked_parts(machine.terms.ctx, 2, view.u1, view.u2, reply.y, complaints)
        other = altered(reply, complaints=complaints, signature=federation.identities[BAD].sign(MASKED, *parts))
        assert machine.take({**replies, BAD: other}).dropped == {BAD: "complains about parties that sent it no shares"}

    def test_a_party_that_was_told_another_set(self, federation: Federation) -> None:
        """Its signature is on another U2 than the coordinator's: it would not cancel in the sum."""
        machine = run_until(federation, Stage.MASKED)
        ctx = machine.terms.ctx
        replies = Network(federation).send(Stage.MASKED, machine.requests())
        reply = replies[BAD]
        parts = masked_parts(ctx, 2, bytes(32), bytes(32), reply.y, reply.complaints)  # type: ignore[union-attr]
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
