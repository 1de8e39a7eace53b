"""Stages 0 and 1 under a lying coordinator: each attack gets a typed error and no answer, and what the party answers
afterwards to honest requests is what it would have answered anyway."""

from __future__ import annotations

import json

import numpy as np
import pytest

from consilium.party.masked_session import PartySession
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import Identity
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.curve import SMALL_ORDER
from consilium.sums.errors import (
    BadKey,
    BadSignature,
    InconsistentView,
    OverflowRisk,
    Replay,
    RosterMismatch,
    ThresholdNotMet,
    UnsafeSession,
)
from consilium.sums.masks.messages import ADVERT, AdvertiseRequest, ShareRequest, Stage, advert_parts
from consilium.sums.masks.terms import MaskedTerms
from tests.party.secagg.victim import VICTIM, advertise, refused, still_honest
from tests.secagg.network import OTHER_FEDERATION, Federation, altered, flipped, flipped_cell, make_queries, run_until

LOW_ORDER = (
    bytes(32),
    (1).to_bytes(32, "little"),
    (2**255 - 20).to_bytes(32, "little"),
    (2**255 - 19).to_bytes(32, "little"),
    (2**255 - 18).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
)


def signed_advert(federation: Federation, request: ShareRequest, at: int, keys: bytes, ctx: bytes) -> ShareRequest:
    """The request with other keys for the party at `at`, signed by that very party."""
    name = federation.roster.name(int(request.advertised[at]))
    signature = federation.identities[name].sign(ADVERT, *advert_parts(ctx, int(request.advertised[at]), keys))
    matrix, signatures = request.keys.copy(), request.signatures.copy()
    matrix[at], signatures[at] = np.frombuffer(keys, np.uint8), np.frombuffer(signature, np.uint8)
    return request.model_copy(update={"keys": matrix, "signatures": signatures})


class TestTerms:
    """Stage 0."""

    def test_terms_signed_by_another(self, federation: Federation) -> None:
        request = advertise(federation, federation.terms(), Identity.generate())
        refused(federation, Stage.ADVERTISE, request, BadSignature, "coordinator")

    def test_a_bit_flipped_in_the_terms(self, federation: Federation) -> None:
        request = advertise(federation, federation.terms())
        refused(federation, Stage.ADVERTISE, altered(request, descriptor=flipped(request.descriptor, 30)), BadSignature)

    def test_terms_that_are_not_canonical(self, federation: Federation) -> None:
        content = json.dumps(json.loads(federation.terms().canonical()), indent=1).encode()
        request = AdvertiseRequest(descriptor=content, signature=federation.coordinator.sign("session", content))
        refused(federation, Stage.ADVERTISE, request, MalformedMessage, "canonical")

    def test_an_old_roster(self, federation: Federation) -> None:
        """The coordinator still goes by a roster with another threshold."""
        old = federation.roster.model_copy(update={"u_min": 5})
        terms = MaskedTerms.create(old, "f" * 64, federation.queries, 3, 2)
        refused(federation, Stage.ADVERTISE, advertise(federation, terms), RosterMismatch)

    def test_a_roster_that_changes_within_a_session(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.SHARE)
        request = machine.requests()[VICTIM]
        federation.roster = federation.roster.model_copy(update={"u_min": 5})
        refused(federation, Stage.SHARE, request, RosterMismatch)

    @pytest.mark.parametrize(
        ("change", "error", "match"),
        [
            ({"sigma": 10.0, "noise_shares": 5}, UnsafeSession, "5 shares, but only u_min - c = 4"),
            ({"sigma": 10.0, "noise_shares": 0}, UnsafeSession, "both or neither"),
            ({"sigma": 0.0, "noise_shares": 2}, UnsafeSession, "both or neither"),
            ({"sigma": 1.0, "noise_shares": 2}, UnsafeSession, "variance 0.5"),
            ({"phase": 2}, UnsafeSession, "second phase without noise"),
            ({"sigma": 5000.0, "noise_shares": 2}, OverflowRisk, "ring holds less than 32768"),
            ({"teachers": 1000, "sigma": 2500.0, "noise_shares": 2}, OverflowRisk, None),
        ],
    )
    def test_unsafe_terms(
        self, federation: Federation, change: dict, error: type[Exception], match: str | None
    ) -> None:
        """The coordinator signs what `MaskedTerms.create` would never make."""
        terms = federation.terms().model_copy(update=change)
        refused(federation, Stage.ADVERTISE, advertise(federation, terms), error, match)

    def test_terms_against_the_party_s_policy(self, federation: Federation) -> None:
        terms = federation.terms()

        def accept(asked: MaskedTerms) -> None:
            assert asked == terms
            raise Refused(Rule.POLICY)

        with pytest.raises(Refused):
            federation.party(VICTIM).advertise(advertise(federation, terms), accept)
        assert federation.party(VICTIM).state(terms.sid_bytes) is None

    def test_a_replayed_sid_with_other_terms(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.SHARE)
        terms = federation.terms(queries=make_queries(seed=9)).model_copy(update={"sid": machine.terms.sid})
        refused(federation, Stage.ADVERTISE, advertise(federation, terms), Replay)
        still_honest(federation, machine)

    def test_a_party_that_is_not_itself(self, federation: Federation) -> None:
        with pytest.raises(RosterMismatch, match="another key"):
            federation.party(VICTIM, identity=Identity.generate())
        with pytest.raises(RosterMismatch, match="not in the roster"):
            PartySession(federation.folder / "x.db", Identity.generate(), "party-009", federation.roster)


class TestAdverts:
    """Stage 1."""

    @pytest.fixture
    def machine(self, federation: Federation):
        return run_until(federation, Stage.SHARE)

    def test_a_substituted_key(self, federation: Federation, machine) -> None:
        """The coordinator puts its own mask key in a party's place, signed with a key that it has."""
        request = machine.requests()[VICTIM]
        keys = Identity.generate().public + request.keys[2].tobytes()[32:]
        signature = Identity.generate().sign(ADVERT, *advert_parts(machine.terms.ctx, 2, keys))
        matrix, signatures = request.keys.copy(), request.signatures.copy()
        matrix[2], signatures[2] = np.frombuffer(keys, np.uint8), np.frombuffer(signature, np.uint8)
        refused(
            federation, Stage.SHARE, altered(request, keys=matrix, signatures=signatures), BadSignature, "party-002"
        )
        still_honest(federation, machine)

    @pytest.mark.parametrize("byte", [0, 33, 70])
    def test_a_bit_flipped_in_an_advert(self, federation: Federation, machine, byte: int) -> None:
        request = machine.requests()[VICTIM]
        refused(
            federation,
            Stage.SHARE,
            altered(request, keys=flipped_cell(request.keys, 3, byte)),
            BadSignature,
            "party-003",
        )
        still_honest(federation, machine)

    def test_adverts_of_two_parties_swapped(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]
        order = [0, 2, 1, 3, 4]
        changed = altered(request, keys=request.keys[order], signatures=request.signatures[order])
        refused(federation, Stage.SHARE, changed, BadSignature, "party-001")

    def test_an_advert_of_another_session(self, federation: Federation, machine) -> None:
        other = run_until(federation, Stage.SHARE, terms=federation.terms(federation=OTHER_FEDERATION))
        request, old = machine.requests()[VICTIM], other.requests()[VICTIM]
        keys, signatures = request.keys.copy(), request.signatures.copy()
        keys[4], signatures[4] = old.keys[4], old.signatures[4]
        refused(federation, Stage.SHARE, altered(request, keys=keys, signatures=signatures), BadSignature, "party-004")

    @pytest.mark.parametrize(
        ("row", "point"), [*((1, u) for u in LOW_ORDER), *((2, y.to_bytes(32, "little")) for y in sorted(SMALL_ORDER))]
    )
    def test_a_low_order_point(self, federation: Federation, machine, point: bytes, row: int) -> None:
        """Signed by the party itself: it would make its shares, or its masks, known to everybody."""
        request = machine.requests()[VICTIM]
        old = request.keys[2].tobytes()
        keys = point + old[32:] if row == 1 else old[:32] + point + old[64:]
        changed = signed_advert(federation, request, 2, keys, machine.terms.ctx)
        refused(federation, Stage.SHARE, changed, BadKey, "party-002 is of low order")
        still_honest(federation, machine)

    def test_a_copied_key(self, federation: Federation, machine) -> None:
        """A party advertises another's key as its own."""
        request = machine.requests()[VICTIM]
        keys = request.keys[1].tobytes()[:64] + request.keys[2].tobytes()[64:]
        changed = signed_advert(federation, request, 2, keys, machine.terms.ctx)
        refused(federation, Stage.SHARE, changed, BadKey, "party-002 is used twice")

    @pytest.mark.parametrize("sign", [0, 0x80])
    def test_a_copied_mask_point(self, federation: Federation, machine, sign: int) -> None:
        """As it is, or its negative, which is the same X25519 key."""
        request = machine.requests()[VICTIM]
        copied, old = bytearray(request.keys[1].tobytes()[32:64]), request.keys[2].tobytes()
        copied[31] ^= sign
        changed = signed_advert(federation, request, 2, old[:32] + bytes(copied) + old[64:], machine.terms.ctx)
        refused(federation, Stage.SHARE, changed, BadKey, "party-002 is used twice")

    def test_a_mask_point_that_is_not_canonical(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]
        old = request.keys[2].tobytes()
        keys = old[:32] + (2**255 - 19 + 3).to_bytes(32, "little") + old[64:]
        changed = signed_advert(federation, request, 2, keys, machine.terms.ctx)
        refused(federation, Stage.SHARE, changed, BadKey, "not in canonical form")

    def test_fewer_than_t_adverts(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]
        few = altered(
            request, advertised=request.advertised[:3], keys=request.keys[:3], signatures=request.signatures[:3]
        )
        refused(federation, Stage.SHARE, few, ThresholdNotMet, "party-003, party-004")
        still_honest(federation, machine)

    def test_own_advert_left_out(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]
        without = altered(
            request, advertised=request.advertised[1:], keys=request.keys[1:], signatures=request.signatures[1:]
        )
        refused(federation, Stage.SHARE, without, InconsistentView, "own advert")

    def test_own_advert_altered(self, federation: Federation, machine) -> None:
        """Signed with the party's own key, as a thief of that key could."""
        request = machine.requests()[VICTIM]
        keys = Identity.generate().public + request.keys[0].tobytes()[32:]
        changed = signed_advert(federation, request, 0, keys, machine.terms.ctx)
        refused(federation, Stage.SHARE, changed, InconsistentView, "own advert")

    def test_a_party_that_the_roster_does_not_have(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]
        indices = request.advertised.copy()
        indices[4] = 5
        refused(
            federation, Stage.SHARE, altered(request, advertised=indices), InconsistentView, "place that the roster"
        )

    def test_duplicate_ids(self, federation: Federation, machine) -> None:
        """The same party twice: no such message can be made or read."""
        request = machine.requests()[VICTIM]
        for indices in ([0, 1, 2, 2, 4], [0, 1, 2, 4, 3]):
            fields = {name: getattr(request, name) for name in type(request).model_fields}
            with pytest.raises(ValueError, match="must rise"):
                ShareRequest(**{**fields, "advertised": np.array(indices, dtype=np.uint16)})
