"""Lies of a party, and of the coordinator: who, message, damage, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from consilium.party.store import Store
from consilium.protocol.identity import Identity
from consilium.protocol.messages import HelloReply, WireModel
from consilium.protocol.refusals import Refused, Rule
from consilium.sums import errors, roster
from consilium.sums.errors import BadShare, InconsistentView, StageOrder, ThresholdNotMet
from consilium.sums.secure import masks, messages
from consilium.sums.secure.coordinator import drive
from consilium.sums.secure.masks import KEY_BYTES, Masks, decode, list_key, new_seeds, rebuild, unseal
from consilium.sums.secure.messages import STAGES, Stage
from consilium.sums.secure.party import ENDED, LIFETIME, Session, pack
from tests.sums.secure.network import Federation, Network, altered, at, flipped, flipped_cell, make_queries, run_until

BAD, PLACE, VICTIM, LAST = "party-002", 2, "party-000", "party-006"


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Seven parties: t = least = 5, so two may fail."""
    return Federation(tmp_path, 7)


def field(name: str, damage: Callable[[Any], Any]) -> Callable[[Federation, Any], WireModel]:
    return lambda _, reply: altered(reply, **{name: damage(getattr(reply, name))})


def with_key(key: bytes) -> Callable[[Federation, Any], WireModel]:
    """BAD's advert with this key, and signed by BAD."""

    def again(federation: Federation, reply: Any) -> WireModel:
        advert = key + reply.advert[32:]
        signature = messages.sign(federation.identities[BAD], Stage.ADVERTISE, federation.last.terms.ctx, PLACE, advert)
        return altered(reply, advert=advert, signature=signature)

    return again


def of_another_view(federation: Federation, reply: Any) -> WireModel:
    """y signed on another U1 and U2 than the coordinator's: it would not cancel."""
    statement, ctx = messages.masked_statement(bytes(32), bytes(32), reply.y), federation.last.terms.ctx
    return altered(reply, signature=messages.sign(federation.identities[BAD], Stage.MASKED, ctx, PLACE, statement))


ANOTHER, LISTS = "answers for another session or another party", "its list is not of the seeds of its pairs"
ADVERT, LOW = "advert does not verify under the key in the roster", "session key is of low order"
SIGNATURE = "signature on its masked votes does not verify"
PARTY_LIES: list[tuple[Stage, Callable[[Federation, Any], Any], str]] = [
    *((stage, field("sid", lambda _: bytes(16)), ANOTHER) for stage in STAGES),
    *((stage, field("party", lambda _: 3), ANOTHER) for stage in STAGES),
    (Stage.ADVERTISE, field("advert", lambda a: flipped(a, 40)), ADVERT),
    (Stage.ADVERTISE, field("signature", flipped), ADVERT),
    (Stage.ADVERTISE, with_key(bytes(32)), LOW),
    (Stage.ADVERTISE, with_key((1).to_bytes(32, "little")), LOW),
    (Stage.SHARE, lambda *_: HelloReply(party="x", teachers=1), "answers with a message of another stage"),
    (Stage.SHARE, field("ciphertexts", lambda r: r[1:]), "sends 5 ciphertexts, 6 are needed"),
    (Stage.SHARE, field("seeds", lambda content: content[1:]), LISTS),
    (Stage.MASKED, lambda *_: "refused: policy", "refused: policy"),
    (Stage.MASKED, field("y", lambda y: flipped_cell(y, 1, 1)), SIGNATURE),
    (Stage.MASKED, of_another_view, SIGNATURE),
    (Stage.MASKED, field("y", lambda y: y[:3]), "masked votes are (3, 3), must be (4, 3)"),
    (Stage.CONSISTENCY, field("signature", flipped), "signature on the set of survivors does not verify"),
    (Stage.UNMASK, field("shares", lambda r: r[1:]), "gives 6 shares and 0 seeds, 7 and 0 are needed"),
    (Stage.UNMASK, field("seeds", lambda _: np.zeros((1, 32), np.uint8)), "gives 7 shares and 1 seeds, 7 and 0"),
    (Stage.UNMASK, field("shares", lambda r: np.full_like(r, 255)), "gives a share that is out of range"),
]
ENDINGS: list[tuple[Stage, Any, str | None, tuple[str, ...], str]] = [
    # dealer and holder of a share cannot be told apart: nobody is named as at fault
    (Stage.UNMASK, field("shares", lambda r: flipped_cell(r, 0, 0)), None, (), "share of party-000"),
    (Stage.UNMASK, field("shares", lambda r: flipped_cell(r, 6, 0)), LAST, (), "share of party-006"),
    # a survivor and the list of one that is lost say different seeds: one of the two lies
    (Stage.UNMASK, field("seeds", lambda r: flipped_cell(r, 0, 0)), LAST, (LAST, BAD), "one lies"),
    # its sender is committed to the list's key: nobody else can have lied
    (Stage.SHARE, field("seeds", lambda r: flipped(r, 3)), BAD, (BAD,), "does not open"),
    (Stage.SHARE, field("seeds", lambda r: flipped(r, 20)), BAD, (BAD,), "does not open"),
]


class TestAPartyLies:
    """It is left out, and the sum is that of the others; or the session ends, and whom it was about is named."""

    @pytest.mark.parametrize(("stage", "damage", "reason"), PARTY_LIES)
    def test_it_alone_is_left_out_and_the_sum_is_exact(self, federation: Federation, stage, damage, reason) -> None:
        session = federation.session()
        result = drive(session, Network(federation, on_reply=at(stage, BAD, partial(damage, federation))).send)
        ((dropped_at, dropped),) = ((at_, reasons) for at_, reasons in session.state.dropped.items() if reasons)
        assert dropped_at == stage and list(dropped) == [BAD] and reason in dropped[BAD]
        assert (BAD in result.survivors) == (stage in (Stage.CONSISTENCY, Stage.UNMASK))
        assert np.array_equal(result.sums, federation.total(result.survivors))

    def test_a_copied_key_leaves_out_both(self, federation: Federation) -> None:
        session = federation.session()
        replies = Network(federation).send(Stage.ADVERTISE, session.requests())
        key = replies["party-001"].advert[:32]
        session.take({**replies, BAD: with_key(key)(federation, replies[BAD])})
        reasons = dict.fromkeys(["party-001", BAD], "session key is used twice")
        assert session.state.dropped[Stage.ADVERTISE] == reasons

    def test_another_identity_than_the_rosters(self, federation: Federation) -> None:
        federation.identities[BAD] = Identity.generate()
        with pytest.raises(errors.RosterMismatch):
            federation.serve(BAD, federation.session().requests()[BAD])

    @pytest.mark.parametrize(("stage", "damage", "lost", "parties", "text"), ENDINGS)
    def test_the_session_ends(self, federation: Federation, stage, damage, lost, parties, text: str) -> None:
        session, change = federation.session(), at(stage, BAD, partial(damage, federation))
        with pytest.raises(BadShare, match=text) as caught:
            drive(session, Network(federation, {Stage.MASKED: [lost] if lost else []}, on_reply=change).send)
        assert caught.value.parties == parties and session.state.result is None

    def test_a_false_list(self, federation: Federation, monkeypatch) -> None:
        """It opens, and holds what is not the pairs': the sum would come out wrong."""
        seal = masks.seal  # a list is of 6 keys, what is sealed for a peer of 104 bytes
        false = lambda key, plain, bound: seal(key, flipped(plain) if len(plain) == 32 * 6 else plain, bound)  # noqa: E731
        monkeypatch.setattr(masks, "seal", false)
        with pytest.raises(BadShare) as caught:
            drive(federation.session(), Network(federation, lost={Stage.MASKED: [BAD]}).send)
        assert caught.value.parties == (BAD, VICTIM)

    @pytest.mark.parametrize("lost", [[], [BAD]], ids=["b", "K"])
    def test_shares_of_other_secrets_than_it_is_committed_to(self, federation: Federation, lost: list[str]) -> None:
        session = run_until(federation, Stage.SHARE)
        content = pack({**federation.memory(BAD, session), "seeds": new_seeds(2)}.items())
        federation.store(BAD).execute("UPDATE secure_sessions SET memory = ?", content)
        with pytest.raises(BadShare, match=f"share of {BAD}: its shares do not give"):
            drive(session, Network(federation, lost={Stage.MASKED: lost}).send)

    @pytest.mark.parametrize("opens", [False, True])
    def test_what_it_sealed_is_no_share(self, federation: Federation, opens: bool, monkeypatch) -> None:
        """It does not open, or what is in it is above the field: its receiver gives nothing, and names the dealer."""
        seal = masks.seal

        def sealed(key: bytes, plain: bytes, bound: bytes) -> bytes:
            if bound != masks.between(PLACE, 0):
                return seal(key, plain, bound)
            return seal(key, b"\xff" * len(plain), bound) if opens else flipped(seal(key, plain, bound), 40)

        monkeypatch.setattr(masks, "seal", sealed)
        network = Network(federation)
        assert VICTIM not in drive(federation.session(), network.send).survivors
        error = network.errors[Stage.MASKED, VICTIM]
        assert isinstance(error, BadShare) and error.party == BAD


def places(*each: int) -> np.ndarray:
    return np.array(each, dtype=np.uint16)


COORDINATOR_LIES: list[tuple[Stage, Callable[[Any], dict], type[Exception], str]] = [
    (Stage.ADVERTISE, lambda r: {"signature": flipped(r.signature)}, errors.BadSignature, "terms of the session"),
    (Stage.ADVERTISE, lambda r: {"terms": flipped(r.terms, 20)}, errors.BadSignature, "terms of the session"),
    (Stage.SHARE, lambda r: {"adverts": flipped_cell(r.adverts, 3, 0)}, errors.BadSignature, "party-003"),
    (Stage.SHARE, lambda r: {"signatures": flipped_cell(r.signatures, 3, 0)}, errors.BadSignature, "party-003"),
    (Stage.SHARE, lambda r: {"adverts": flipped_cell(r.adverts, 0, 0)}, InconsistentView, "own advert"),
    (Stage.SHARE, lambda r: {"advertised": places(*range(6), 8)}, InconsistentView, "does not have"),
    (Stage.SHARE, lambda r: {name: getattr(r, name)[:4] for name in r.ALIKE}, ThresholdNotMet, "4 parties are left"),
    (Stage.MASKED, lambda r: {"queries": make_queries(seed=1)}, InconsistentView, "queries"),
    (Stage.MASKED, lambda r: {"queries": r.queries[::-1].copy()}, InconsistentView, "queries"),
    (Stage.MASKED, lambda r: {"sharers": places(0, 1, 2, 3)}, InconsistentView, "has 4 parties, 5 are needed"),
    (Stage.MASKED, lambda r: {"sharers": places(1, 2, 3, 4, 5, 6)}, InconsistentView, "lacks the party"),
    (Stage.MASKED, lambda r: {"sharers": places(0, 1, 2, 3, 4, 5, 8)}, InconsistentView, "not in U1"),
    (Stage.MASKED, lambda r: {"ciphertexts": r.ciphertexts[1:]}, InconsistentView, "one sealed row for each peer"),
    (Stage.MASKED, lambda r: {"ciphertexts": flipped_cell(r.ciphertexts, 0, 50)}, BadShare, "party-001"),
    (Stage.MASKED, lambda r: {"ciphertexts": r.ciphertexts[::-1].copy()}, BadShare, "does not open"),
    (Stage.CONSISTENCY, lambda r: {"survivors": places(0, 1, 2, 3)}, InconsistentView, "has 4 parties"),
    (Stage.CONSISTENCY, lambda r: {"survivors": places(1, 2, 3, 4, 5)}, InconsistentView, "lacks the party"),
    (Stage.CONSISTENCY, lambda r: {"survivors": places(0, 1, 2, 3, 4, 9)}, InconsistentView, "not in U2"),
    (Stage.UNMASK, lambda r: {"signers": r.signers[:4], "signatures": r.signatures[:4]}, ThresholdNotMet, "4 parties"),
    (Stage.UNMASK, lambda r: {"signatures": flipped_cell(r.signatures, 2, 0)}, errors.BadSignature, "party-002"),
    (Stage.UNMASK, lambda r: {"signers": places(0, 1, 2, 3, 8)}, InconsistentView, "not among the survivors"),
    (Stage.UNMASK, lambda r: {"signers": places(0, 1, 2, 3, 6)}, errors.BadSignature, "party-006"),
    *((stage, lambda r: {"sid": bytes(16)}, StageOrder, "never begun") for stage in STAGES[1:]),
]


class TestTheCoordinatorLies:
    """The party gives nothing, charges nothing, says why, and still answers the true request."""

    @pytest.mark.parametrize(("stage", "damage", "error", "text"), COORDINATOR_LIES)
    def test_one_request(self, federation: Federation, stage: Stage, damage: Any, error: type, text: str) -> None:
        session = run_until(federation, stage)
        request, charged = session.requests()[VICTIM], len(federation.charged)
        with pytest.raises(error, match=text):
            federation.serve(VICTIM, altered(request, **damage(request)))
        assert len(federation.charged) == charged
        assert VICTIM in drive(session, Network(federation).send).survivors

    @pytest.mark.parametrize("stage", STAGES[1:])
    def test_two_stories_end_the_session(self, federation: Federation, stage: Stage) -> None:
        """Another request for a stage that is done: secrets are erased, the true one gets nothing any more."""
        session = run_until(federation, stage)
        request = session.requests()[VICTIM]
        federation.serve(VICTIM, request)
        name = {Stage.SHARE: "signatures", Stage.MASKED: "ciphertexts", Stage.UNMASK: "signatures"}.get(stage)
        other = {name: flipped_cell(getattr(request, name), 1, 1)} if name else {"survivors": places(0, 1, 2, 3, 4)}
        with pytest.raises(InconsistentView, match="another request"):
            federation.serve(VICTIM, altered(request, **other))
        with pytest.raises(StageOrder, match="over"):
            federation.serve(VICTIM, request)
        found = Session.find(federation.store(VICTIM), session.terms.sid_bytes)
        assert found is not None and found.done == ENDED and found.memory == {}

    def test_a_session_ends_with_its_lifetime(self, federation: Federation, monkeypatch) -> None:
        request = run_until(federation, Stage.MASKED).requests()[VICTIM]
        monkeypatch.setattr("consilium.sums.secure.party.time.time", lambda: 2e9 + LIFETIME)
        with pytest.raises(StageOrder, match="lifetime"):
            federation.serve(VICTIM, request)
        assert not federation.charged

    @pytest.mark.parametrize("key", [bytes(32), (1).to_bytes(32, "little"), None], ids=["zero", "one", "another's"])
    def test_a_key_that_gives_a_known_secret_or_that_two_have(self, federation: Federation, key: bytes | None) -> None:
        """Nothing is dealt to it, though its owner, who works with the coordinator, has signed it."""
        session = run_until(federation, Stage.SHARE)
        request: Any = session.requests()[VICTIM]
        adverts, signatures = request.adverts.copy(), request.signatures.copy()
        adverts[PLACE, :32] = adverts[3, :32] if key is None else list(key)
        signer, ctx = federation.identities[BAD], session.terms.ctx
        signatures[PLACE] = list(messages.sign(signer, Stage.ADVERTISE, ctx, PLACE, adverts[PLACE].tobytes()))
        with pytest.raises(errors.BadKey):
            federation.serve(VICTIM, altered(request, adverts=adverts, signatures=signatures))

    def test_stages_out_of_order(self, federation: Federation) -> None:
        network, fresh = Network(federation), federation.voter(VICTIM, store=Store.in_memory())
        drive(federation.session(), network.send)
        federation.serve(VICTIM, network.requests[Stage.ADVERTISE, VICTIM], fresh)
        for stage in STAGES[2:]:
            with pytest.raises(StageOrder, match="not due"):
                federation.serve(VICTIM, network.requests[stage, VICTIM], fresh)

    def test_a_sid_with_other_terms(self, federation: Federation) -> None:
        sid = run_until(federation, Stage.MASKED).terms.sid
        again = federation.session(federation="e" * 64, sid=sid)
        with pytest.raises(errors.Replay, match="known here with other terms"):
            federation.serve(VICTIM, again.requests()[VICTIM])

    @pytest.mark.parametrize(
        ("changes", "error"),
        [({"noise_shares": 6}, errors.UnsafeSession), ({"sigma": 1.0}, errors.UnsafeSession),
         ({"queries": 10**7, "classes": 1000}, errors.UnsafeSession),
         ({"sigma": 1e9}, errors.OverflowRisk), ({"roster": "0" * 64}, errors.RosterMismatch)],
    )  # fmt: skip
    def test_terms_of_a_sum_that_a_party_does_not_take(self, federation: Federation, changes: dict, error) -> None:
        """Too little noise, too large sums, another roster: signed by the coordinator itself."""
        session = federation.session()
        terms = session.terms.model_copy(update=changes)
        signed = {"terms": terms.canonical(), "signature": terms.sign(federation.coordinator)}
        with pytest.raises(error):
            federation.serve(VICTIM, altered(session.requests()[VICTIM], **signed))

    def test_two_views_of_who_survived_are_unmasked_in_neither(self, federation: Federation) -> None:
        """Each party is told one of two U3: neither gets t = 5 signatures, and those of the other count for nothing."""
        session = run_until(federation, Stage.CONSISTENCY)
        request: Any = session.requests()[VICTIM]
        network, names = Network(federation), federation.names
        views = (places(*range(6)), places(0, 1, 2, 3, 4, 6))
        told = {name: altered(request, survivors=views[at in (3, 4, 6)]) for at, name in enumerate(names)}
        signed = {name: reply.signature for name, reply in network.send(Stage.CONSISTENCY, told).items()}
        for view in views:
            there = [at for at, name in enumerate(names) if told[name].survivors is view and at in view]
            for signers, error in ((there, ThresholdNotMet), (range(5), errors.BadSignature)):
                rows = messages.rows_of(signed[names[at]] for at in signers)
                asked = messages.UnmaskRequest(sid=request.sid, signers=places(*signers), signatures=rows)
                for place in there:
                    with pytest.raises(error):
                        federation.serve(names[place], asked)

    def test_a_key_that_differs_by_its_highest_bit_makes_other_pairs(self, federation: Federation) -> None:
        """X25519 does not look at that bit: a colluder who copies a key so agrees on the victim's own secrets, and when
        it drops all give their seeds with it. Places enter them: else the victim's masks would be bare."""
        session = run_until(federation, Stage.SHARE)
        private, other = (federation.memory(name, session)["private"] for name in (VICTIM, "party-001"))
        public = masks.Agreement(other, bytes(32), 1).public
        copied = public[:31] + bytes([public[31] ^ 0x80])
        agreement, secret = masks.Agreement(private, bytes(32), 0), X25519PrivateKey.from_private_bytes(private)
        assert secret.exchange(masks.public_key(public)) == secret.exchange(masks.public_key(copied))
        assert not {*agreement.keys(1, public)} & {*agreement.keys(2, copied)}

    def test_votes_or_noise_of_another_form_are_not_given(self, federation: Federation, monkeypatch) -> None:
        request = run_until(federation, Stage.MASKED).requests()[VICTIM]
        for votes in (np.zeros((4, 3), np.uint16), np.ones((4, 2), np.uint16), np.ones((4, 3), np.int64)):
            federation.votes[VICTIM] = votes
            with pytest.raises(Refused) as caught:
                federation.serve(VICTIM, request)
            assert caught.value.refusal.rule is Rule.INTERNAL


OPENED = 5
VIEWS = {(0, 1, 2): (0, 1, 2, 3, 4), (3, 4, 5): (0, 1, 2, 3, 4, 5)}
"""Whom the coordinator asks -> whom it says to be in the sum: to one half of the parties, the victim is lost."""


def test_control_where_half_of_the_parties_are_enough_two_views_open_a_vote(tmp_path: Path, monkeypatch) -> None:
    """2t > n + c is against it (`test_two_views_of_who_survived_are_unmasked_in_neither`). Here t is n / 2."""
    monkeypatch.setattr(roster, "least_rebuilders", lambda parties, colluders: parties // 2)
    federation = Federation(tmp_path, 6, least=3)
    network = Network(federation)
    session = run_until(federation, Stage.CONSISTENCY, network)
    sid, ctx, secrets = session.terms.sid_bytes, session.terms.ctx, []
    for group, view in VIEWS.items():
        names = [federation.names[place] for place in group]
        asked = messages.ConsistencyRequest(sid=sid, survivors=places(*view))
        signed = messages.rows_of(federation.serve(name, asked).signature for name in names)
        unmask = messages.UnmaskRequest(sid=sid, signers=places(*group), signatures=signed)
        shares = [federation.serve(name, unmask).shares[OPENED] for name in names]
        secrets.append(rebuild(group, np.stack(shares)[:, None])[0].tobytes())
    k, b = secrets
    seeds = unseal(list_key(k, ctx, OPENED), session.state.lists[OPENED], session._view()[0])
    assert seeds is not None
    y = next(reply.y.copy() for stage, name, reply in network.seen if (stage, name) == (Stage.MASKED, "party-005"))
    mask = Masks(y, ctx)
    mask.subtract(b)
    for peer in range(OPENED):
        mask.add_pair(seeds[peer * KEY_BYTES :][:KEY_BYTES], peer, OPENED)
    assert np.array_equal(decode(y), federation.votes["party-005"])
