"""Parties that share falsely, in every way they can: each is found before anything is unmasked.

The controls tell the same lie to the protocol as it was before shares were verified (`unverified`): the session then
goes on to its last stage, and is lost there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consilium.protocol.messages import WireModel
from consilium.sums.curve import ORDER
from consilium.sums.errors import BadShare, ThresholdNotMet
from consilium.sums.masks import party
from consilium.sums.masks.machine import Aggregation, SecureSum, drive, view_of
from consilium.sums.masks.messages import MASKED, MaskedReply, Stage, masked_parts
from consilium.sums.masks.shares import SHARE_BYTES, random_scalar, split
from tests.secagg.network import Federation, Network, altered, run_until

pytestmark = pytest.mark.usefixtures("any_set")

BAD = "party-002"
FALSE_DEALER = "its shares are not shares of what its advert is committed to"

Lie = Callable[[pytest.MonkeyPatch], None]
"""Changes the code of a dealer, as long as its patch lasts."""


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Seven parties: t = u_min = 5, so two may fail."""
    return Federation(tmp_path, 7)


def unverified(patch: pytest.MonkeyPatch) -> None:
    """The protocol as it was: nobody looks at shares until the masks come off."""
    patch.setattr("consilium.sums.masks.machine.false_dealers", lambda *_: set())
    patch.setattr("consilium.sums.masks.machine.check_vouched", lambda *_: None)
    patch.setattr("consilium.sums.masks.party._is_good", lambda *_: True)


def dealt(federation: Federation, network: Network, lie: Lie, liars: tuple[str, ...] = (BAD,)) -> Aggregation:
    """A coordinator that has all shares, the liars' made with the lie."""
    machine = run_until(federation, Stage.SHARE, network)
    requests = machine.requests()
    replies = network.send(Stage.SHARE, {name: requests[name] for name in requests if name not in liars})
    with pytest.MonkeyPatch.context() as patch:
        lie(patch)
        replies |= network.send(Stage.SHARE, {name: requests[name] for name in liars})
    machine.take(replies)
    return machine


def shared_instead(which: int, other: Callable[[int, int, list[int]], list[int]]) -> Lie:
    """A dealer whose shares of one secret (0: b, 1: mask key, 2: blinder) come from another function."""

    def lie(patch: pytest.MonkeyPatch) -> None:
        calls = iter(range(3))
        patch.setattr(party, "split", lambda *given: (other if next(calls) == which else split)(*given))

    return lie


def sealed_instead(places: list[int], plain: Callable[[bytes], bytes]) -> Lie:
    """A dealer that publishes true values, and seals something else for some of its peers."""
    true = party.seal

    def lie(patch: pytest.MonkeyPatch) -> None:
        def seal(key: bytes, nonce: bytes, content: bytes, ctx: bytes, sender: int, receiver: int) -> bytes:
            return true(key, nonce, plain(content) if receiver in places else content, ctx, sender, receiver)

        patch.setattr(party, "seal", seal)

    return lie


def another_secret(secret: int, t: int, points: list[int]) -> list[int]:
    return split((secret + 1) % ORDER, t, points)


def higher_degree(secret: int, t: int, points: list[int]) -> list[int]:
    return split(secret, t + 1, points)


def one_share_off(secret: int, t: int, points: list[int]) -> list[int]:
    shares = split(secret, t, points)
    return [(shares[0] + 1) % ORDER, *shares[1:]]


def random_shares(secret: int, t: int, points: list[int]) -> list[int]:
    return [random_scalar() for _ in points]


def other_b(plain: bytes) -> bytes:
    return bytes(SHARE_BYTES) + plain[SHARE_BYTES:]


def other_mask(plain: bytes) -> bytes:
    return plain[:SHARE_BYTES] + bytes(SHARE_BYTES) + plain[2 * SHARE_BYTES :]


def no_numbers(plain: bytes) -> bytes:
    return b"\xff" * len(plain)


WAYS = [another_secret, higher_degree, one_share_off, random_shares]


class TestFalsePolynomials:
    """The values that a dealer publishes are not those of what it is committed to: it is left out, the sum is exact."""

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("which", [0, 1, 2], ids=["b", "mask key", "blinder"])
    def test_the_dealer_is_left_out_at_once(self, federation: Federation, which: int, way) -> None:
        network = Network(federation)
        machine = dealt(federation, network, shared_instead(which, way))
        assert machine.dropped == {Stage.SHARE: {BAD: FALSE_DEALER}}
        result = drive(machine, network.send)
        assert set(result.survivors) == set(federation.names) - {BAD}
        assert np.array_equal(result.sums, federation.total(result.survivors))

    @pytest.mark.parametrize(("which", "gone"), [(0, False), (1, True)], ids=["b", "mask key, then dropping out"])
    @pytest.mark.parametrize("way", [another_secret, random_shares])
    def test_control_unverified_it_takes_the_sum_with_it(
        self, federation: Federation, monkeypatch: pytest.MonkeyPatch, which: int, gone: bool, way
    ) -> None:
        unverified(monkeypatch)
        network = Network(federation, lost={Stage.MASKED: [BAD] if gone else []})
        machine = dealt(federation, network, shared_instead(which, way))
        with pytest.raises(BadShare) as caught:
            drive(machine, network.send)
        assert machine.stage is Stage.UNMASK and caught.value.party == BAD

    def test_more_than_may_fail_end_the_session_before_any_vote(self, federation: Federation) -> None:
        def lie(patch: pytest.MonkeyPatch) -> None:
            patch.setattr(party, "split", lambda secret, t, points: split(0, t, points))

        with pytest.raises(ThresholdNotMet) as caught:
            dealt(federation, Network(federation), lie, tuple(federation.names[:3]))
        assert caught.value.stage is Stage.SHARE and list(caught.value.missing) == federation.names[:3]
        assert federation.balloted == []

    @pytest.mark.parametrize("off", [1, 5])
    def test_errors_of_two_dealers_do_not_cancel(self, federation: Federation, off: int) -> None:
        """One is off by as much as the other is, with the other sign: random weights see both."""
        network, signs = Network(federation), iter([off, -off])

        def lie(patch: pytest.MonkeyPatch) -> None:
            def both(secret: int, t: int, points: list[int]) -> list[int]:
                calls.append(1)
                return split((secret + (next(signs) if len(calls) % 3 == 0 else 0)) % ORDER, t, points)

            calls: list[int] = []
            patch.setattr(party, "split", both)

        machine = dealt(federation, network, lie, ("party-001", "party-004"))
        assert set(machine.dropped[Stage.SHARE]) == {"party-001", "party-004"}


class TestTheChallenge:
    """r is a hash of all that the dealer has fixed; a dealer that knew it before would pass."""

    R = 3

    def cheat(self, patch: pytest.MonkeyPatch) -> None:
        """b is shared falsely, and the blinder so that the error is gone at r = 3."""
        given: list[int] = []

        def shares(secret: int, t: int, points: list[int]) -> list[int]:
            given.append(secret)
            shift = {1: 1, 3: -self.R}.get(len(given), 0)
            return split((secret + shift) % ORDER, t, points)

        patch.setattr(party, "split", shares)

    def test_nobody_knows_r_before_the_shares_are_sealed(self, federation: Federation) -> None:
        machine = dealt(federation, Network(federation), self.cheat)
        assert machine.dropped == {Stage.SHARE: {BAD: FALSE_DEALER}}

    @pytest.mark.parametrize("r", [3, 0])
    def test_control_a_known_r_is_cheated(
        self, federation: Federation, monkeypatch: pytest.MonkeyPatch, r: int
    ) -> None:
        """r = 0 looks at the blinder only, so that any b passes."""
        monkeypatch.setattr(party, "challenge", lambda *_: r)
        monkeypatch.setattr("consilium.sums.masks.machine.challenge", lambda *_: r)
        network = Network(federation)
        lie = self.cheat if r else shared_instead(0, another_secret)
        machine = dealt(federation, network, lie)
        assert machine.dropped == {}
        with pytest.raises(BadShare) as caught:
            drive(machine, network.send)
        assert machine.stage is Stage.UNMASK and caught.value.party == BAD

    @pytest.mark.parametrize("how", ["another r", "another value", "both, of another dealer"])
    def test_a_coordinator_that_tells_parties_another_challenge(self, federation: Federation, how: str) -> None:
        """It may only make a party complain; what the dealer published is all that is ever said about its shares."""
        machine = run_until(federation, Stage.MASKED)
        request = machine.requests()["party-000"]
        challenges, values = request.challenges.copy(), request.values.copy()  # type: ignore[attr-defined]
        if how != "another value":
            challenges[1] = challenges[0]
        if how != "another r":
            values[1] = values[0]
        reply = federation.serve("party-000", Stage.MASKED, altered(request, challenges=challenges, values=values))
        assert reply.complaints.tolist() == [2]  # type: ignore[attr-defined]


class TestSealedShares:
    """The dealer publishes true values, and seals other shares."""

    @pytest.mark.parametrize("plain", [other_b, other_mask, no_numbers])
    @pytest.mark.parametrize("places", [[0], [4, 6]])
    @pytest.mark.parametrize("gone", [False, True], ids=["there", "dropping out"])
    def test_a_few_false_shares_cost_nothing(self, tmp_path: Path, plain, places: list[int], gone: bool) -> None:
        """t of those in the sum still vouch for it: n = 9, t = 7, with two deceived, or one deceived and one gone."""
        federation = Federation(tmp_path, 9)
        network = Network(federation, lost={Stage.MASKED: [BAD] if gone else []})
        machine = dealt(federation, network, sealed_instead(places[: 1 if gone else 2], plain))
        result = drive(machine, network.send)
        assert np.array_equal(result.sums, federation.total(result.survivors))
        assert (BAD in result.survivors) != gone
        assert "gave no good share, say party-00" in result.dropped[Stage.UNMASK][BAD]

    @pytest.mark.parametrize("plain", [other_b, other_mask, no_numbers])
    @pytest.mark.parametrize("places", [list(range(7)), [0, 3, 6]], ids=["all", "as many as it takes"])
    def test_false_shares_to_many_end_the_session_before_it_unmasks(
        self, federation: Federation, plain, places: list[int]
    ) -> None:
        """The dealer alone is named: more than n - t parties dispute with it."""
        network = Network(federation)
        machine = dealt(federation, network, sealed_instead(places, plain))
        with pytest.raises(BadShare, match=f"Start a new session without {BAD}") as caught:
            drive(machine, network.send)
        assert caught.value.parties == (BAD,) and machine.stage is Stage.MASKED
        assert {stage for stage, *_ in network.seen} == {Stage.ADVERTISE, Stage.SHARE, Stage.MASKED}

    def test_a_voucher_that_is_missing_in_the_last_stage_can_come_later(self, federation: Federation) -> None:
        """The deceived have answered; t of those who vouched are needed."""
        network = Network(federation, late={Stage.UNMASK: ["party-006"]})
        machine = dealt(federation, network, sealed_instead([0, 1], other_b))
        with pytest.raises(ThresholdNotMet) as caught:
            drive(machine, network.send)
        assert (caught.value.have, caught.value.need, caught.value.missing) == (4, 5, ("party-006",))
        assert np.array_equal(drive(machine, network.send).sums, federation.total(federation.names))


class TestFalseComplaints:
    """A receiver that lies in the check."""

    def run(self, federation: Federation, about: dict[str, list[int]]) -> SecureSum:
        """A session in which some complain, with their signatures, about shares that are good."""
        machine = federation.machine()

        def change(stage: Stage, name: str, reply: WireModel) -> WireModel:
            if name not in about or not isinstance(reply, MaskedReply):
                return reply
            complaints, seen = np.array(about[name], dtype=np.uint16), view_of(machine._state)
            parts = masked_parts(machine.terms.ctx, reply.party, seen.u1, seen.u2, reply.y, complaints)
            return altered(reply, complaints=complaints, signature=federation.identities[name].sign(MASKED, *parts))

        return drive(machine, Network(federation, on_reply=change).send)

    def test_as_many_as_may_fail_complain_about_all(self, federation: Federation) -> None:
        result = self.run(federation, {"party-000": [1, 2, 3, 4, 5, 6], "party-001": [0, 2, 3, 4, 5, 6]})
        assert np.array_equal(result.sums, federation.total(federation.names))

    def test_liars_without_slack_are_named_by_their_number_of_disputes(self, tmp_path: Path) -> None:
        """n = t = 3: two that are called liars by one, or one by two."""
        with pytest.raises(BadShare) as caught:
            self.run(Federation(tmp_path, 3), {"party-000": [1, 2]})
        assert caught.value.parties == ("party-000",)

    def test_one_dispute_without_slack_names_both(self, tmp_path: Path) -> None:
        with pytest.raises(BadShare, match="party-000, party-002") as caught:
            self.run(Federation(tmp_path, 3), {"party-000": [2]})
        assert caught.value.parties == ("party-000", "party-002")
