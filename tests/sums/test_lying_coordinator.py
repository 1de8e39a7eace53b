"""A party under a lying coordinator: each attack gets a typed error and no answer, and leaves no trace."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consilium.party.masked_session import PartySession
from consilium.party.sum_store import SessionStatus
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import (
    AlreadyAnswered,
    BadKey,
    BadShare,
    BadSignature,
    InconsistentView,
    OverflowRisk,
    Replay,
    RosterMismatch,
    StageOrder,
    ThresholdNotMet,
    UnsafeSession,
)
from consilium.sums.secure.machine import view_of
from consilium.sums.secure.messages import (
    ADVERT,
    CONSISTENCY,
    STAGES,
    AdvertiseRequest,
    ShareRequest,
    Stage,
    advert_parts,
    consistency_parts,
)
from consilium.sums.secure.terms import MaskedTerms
from tests.sums.network import (
    OTHER_FEDERATION,
    Federation,
    Network,
    altered,
    flipped,
    flipped_cell,
    make_queries,
    no_noise,
    run_until,
)

VICTIM = "party-000"


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Five parties: t = least = 4."""
    return Federation(tmp_path, 5)


def advertise(federation: Federation, terms: MaskedTerms, signer: Identity | None = None) -> AdvertiseRequest:
    return AdvertiseRequest(descriptor=terms.canonical(), signature=terms.sign(signer or federation.coordinator))


def refused(
    federation: Federation, stage: Stage, request: WireModel, error: type[Exception], match: str | None = None
) -> None:
    """The victim gives the error."""
    with pytest.raises(error, match=match):
        federation.serve(VICTIM, stage, request)


def still_honest(federation: Federation, machine, network: Network | None = None) -> None:
    """The attack has left no trace: the honest session runs to its end with the victim in it."""
    network = network or Network(federation)
    while machine.stage is not None:
        machine.take(network.send(machine.stage, machine.requests()))
    assert VICTIM in machine.result().survivors
    assert not any(name == VICTIM for _, name in network.errors)
    assert np.array_equal(machine.result().sums, federation.total(machine.result().survivors))


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
        old = federation.roster.model_copy(update={"least": 5})
        terms = MaskedTerms.of_queries(old, "f" * 64, federation.queries, 3, 2, sigma=3.0, noise_shares=2)
        refused(federation, Stage.ADVERTISE, advertise(federation, terms), RosterMismatch)

    def test_a_roster_that_changes_within_a_session(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.SHARE)
        request = machine.requests()[VICTIM]
        federation.roster = federation.roster.model_copy(update={"least": 5})
        refused(federation, Stage.SHARE, request, RosterMismatch)

    @pytest.mark.parametrize(
        ("change", "error", "match"),
        [
            ({"sigma": 10.0, "noise_shares": 5}, UnsafeSession, "5 shares, but only least - c = 4"),
            ({"sigma": 1.0, "noise_shares": 2}, UnsafeSession, "variance 0.5"),
            ({"sigma": 5000.0, "noise_shares": 2}, OverflowRisk, "the most is 32768"),
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
            PartySession(federation.store("x"), Identity.generate(), "party-009", federation.roster)


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

    @pytest.mark.parametrize("start", [0, 32], ids=["cipher key", "mask key"])
    @pytest.mark.parametrize("point", LOW_ORDER)
    def test_a_low_order_key(self, federation: Federation, machine, point: bytes, start: int) -> None:
        """Signed by the party itself: it would make its shares, or its masks, known to everybody."""
        request = machine.requests()[VICTIM]
        old = request.keys[2].tobytes()
        changed = signed_advert(federation, request, 2, old[:start] + point + old[start + 32 :], machine.terms.ctx)
        refused(federation, Stage.SHARE, changed, BadKey, "party-002 is of low order")
        still_honest(federation, machine)

    def test_a_copied_key(self, federation: Federation, machine) -> None:
        """A party advertises another's mask key as its own."""
        request = machine.requests()[VICTIM]
        mine, other = request.keys[2].tobytes(), request.keys[1].tobytes()
        changed = signed_advert(federation, request, 2, mine[:32] + other[32:64] + mine[64:], machine.terms.ctx)
        refused(federation, Stage.SHARE, changed, BadKey, "party-002 is used twice")

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


class TestMasked:
    """Stage 2."""

    @pytest.fixture
    def machine(self, federation: Federation):
        return run_until(federation, Stage.MASKED)

    def test_a_bit_flipped_in_what_a_peer_sealed(self, federation: Federation, machine) -> None:
        """The party names that peer and gives nothing; so it does if what two peers sent to it is exchanged."""
        request = machine.requests()[VICTIM]
        flipped_one = flipped_cell(request.ciphertexts, 1, 30)
        for sealed, accused in ((flipped_one, "party-002"), (request.ciphertexts[[1, 0, 2, 3]], "party-001")):
            changed = altered(request, ciphertexts=sealed)
            refused(federation, Stage.MASKED, changed, BadShare, f"share of {accused}: what it sealed does not open")
        assert federation.balloted == []
        still_honest(federation, machine)

    def test_what_is_sealed_is_no_share(self, federation: Federation, monkeypatch) -> None:
        """As a peer seals it that shares numbers above the prime."""
        monkeypatch.setattr(
            "consilium.sums.secure.party.split", lambda seeds, t, places: np.full((5, 2, 52), 255, "u1")
        )
        machine = run_until(federation, Stage.MASKED)
        refused(federation, Stage.MASKED, machine.requests()[VICTIM], BadShare, "what it sealed are no shares")

    def test_too_few_sharers(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]
        few = altered(request, sharers=request.sharers[:3], ciphertexts=request.ciphertexts[:2])
        refused(federation, Stage.MASKED, few, InconsistentView, "U2 has 3 parties, 4 are needed")
        still_honest(federation, machine)

    def test_sharers_that_did_not_advertise(self, federation: Federation) -> None:
        network = Network(federation, lost={Stage.ADVERTISE: ["party-002"]})
        machine = run_until(federation, Stage.MASKED, network)
        request = machine.requests()[VICTIM]
        more = altered(
            request, sharers=np.arange(5, dtype=np.uint16), ciphertexts=np.resize(request.ciphertexts, (4, 132))
        )
        refused(federation, Stage.MASKED, more, InconsistentView, "not in U1")

    def test_sharers_without_the_party_itself(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]
        without = altered(request, sharers=request.sharers[1:], ciphertexts=request.ciphertexts[1:])
        refused(federation, Stage.MASKED, without, InconsistentView, "U2 lacks the party")

    @pytest.mark.parametrize("queries", [make_queries(seed=3), make_queries()[::-1], make_queries(3), make_queries(5)])
    def test_different_queries_per_party(self, federation: Federation, machine, queries: np.ndarray) -> None:
        """Not those of the terms: other values, another order, fewer, more."""
        changed = altered(machine.requests()[VICTIM], queries=np.ascontiguousarray(queries))
        refused(federation, Stage.MASKED, changed, InconsistentView, "queries are not those")
        assert federation.balloted == []
        still_honest(federation, machine)

    def test_different_terms_per_party(self, federation: Federation) -> None:
        """Two descriptors with one sid: keys, ciphertexts and signatures of one do not serve in the other."""
        terms = federation.terms()
        other = terms.model_copy(update={"query_set": "0" * 64})
        own = federation.serve(VICTIM, Stage.ADVERTISE, advertise(federation, other))
        machine = federation.machine(terms)
        replies = Network(federation, lost={Stage.ADVERTISE: [VICTIM]}).send(Stage.ADVERTISE, machine.requests())
        report = machine.take({**replies, VICTIM: own})
        assert "does not verify" in report.dropped[VICTIM]
        refused(federation, Stage.SHARE, machine.requests()["party-001"], InconsistentView, "own advert")

    def test_a_ballot_that_fails_gives_nothing_and_can_be_tried_again(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]

        def voting_rule(queries: np.ndarray) -> np.ndarray:
            raise Refused(Rule.MOST_QUERIES)

        with pytest.raises(Refused):
            federation.party(VICTIM).masked(request, voting_rule, no_noise)
        assert federation.party(VICTIM).state(machine.terms.sid_bytes) is SessionStatus.SHARED
        still_honest(federation, machine)

    @pytest.mark.parametrize(
        "votes",
        [
            np.ones((4, 3), dtype=np.uint16),
            np.ones((4, 2), dtype=np.uint16),
            np.full((4, 3), 2 / 3),
            np.tile(np.array([2, 0, 0]), (4, 1)),
        ],
    )
    def test_a_ballot_that_is_none(self, federation: Federation, machine, votes: np.ndarray) -> None:
        """Rows that do not sum to the teachers, another shape, another type."""
        with pytest.raises(Refused):
            federation.party(VICTIM).masked(machine.requests()[VICTIM], lambda queries: votes, no_noise)

    @pytest.mark.parametrize("share", [np.zeros((4, 3)), np.zeros((4, 2), dtype=np.int64)])
    def test_noise_that_is_none(self, federation: Federation, share: np.ndarray) -> None:
        machine = run_until(federation, Stage.MASKED, terms=federation.terms(sigma=10.0, noise_shares=2))
        party = federation.party(VICTIM)
        with pytest.raises(Refused, match="noise"):
            party.masked(machine.requests()[VICTIM], federation.voting_rule(VICTIM), lambda sigma, shape: share)


class TestReplayedQueries:
    """A query whose noisy sum was unmasked is never answered again, in whatever set; before that it is not used up."""

    def test_the_same_set_in_a_new_session(self, federation: Federation) -> None:
        run_until(federation, None)
        request = advertise(federation, federation.terms())
        refused(federation, Stage.ADVERTISE, request, AlreadyAnswered, "4 of 4 queries")

    @pytest.mark.parametrize("until", [Stage.MASKED, Stage.CONSISTENCY, Stage.UNMASK])
    def test_a_session_that_ended_before_it_was_unmasked_uses_nothing_up(
        self, federation: Federation, until: Stage
    ) -> None:
        run_until(federation, until)
        still_honest(federation, federation.machine())

    def test_one_share_is_enough_to_use_a_query_up(self, federation: Federation) -> None:
        """The party cannot know how many others gave theirs."""
        machine = run_until(federation, Stage.UNMASK)
        federation.serve(VICTIM, Stage.UNMASK, machine.requests()[VICTIM])
        refused(federation, Stage.ADVERTISE, advertise(federation, federation.terms()), AlreadyAnswered)

    @pytest.mark.parametrize(
        "queries",
        [make_queries()[::-1], make_queries()[:2], np.concatenate([make_queries(seed=8), make_queries()[:1]])],
        ids=["permuted", "part", "padded"],
    )
    def test_another_set_with_a_query_that_was_answered(self, federation: Federation, queries: np.ndarray) -> None:
        run_until(federation, None)
        queries = np.ascontiguousarray(queries)
        terms = federation.terms(queries=queries, federation=OTHER_FEDERATION)
        machine = run_until(federation, Stage.MASKED, terms=terms, queries=queries)
        federation.balloted.clear()
        refused(federation, Stage.MASKED, machine.requests()[VICTIM], AlreadyAnswered)
        assert federation.balloted == []

    @pytest.mark.parametrize("stage", [Stage.CONSISTENCY, Stage.UNMASK])
    def test_two_sessions_side_by_side(self, federation: Federation, stage: Stage) -> None:
        """Of two federations, which do not supersede each other: both are masked before either is unmasked."""
        late = run_until(federation, stage, terms=federation.terms(federation=OTHER_FEDERATION))
        first = run_until(federation, None)
        assert np.array_equal(first.result().sums, federation.total(federation.names))
        for name, request in late.requests().items():
            with pytest.raises(AlreadyAnswered):
                federation.serve(name, stage, request)

    def test_a_query_twice_in_one_set(self, federation: Federation) -> None:
        """With noise, its average would tell more than one answer."""
        queries = make_queries()[[0, 1, 0]]
        with pytest.raises(UnsafeSession, match="twice"):
            federation.terms(queries=queries)
        terms = federation.terms().model_copy(update={"query_set": query_set_hash(queries), "queries": 3})
        machine = run_until(federation, Stage.MASKED, terms=terms, queries=queries)
        refused(federation, Stage.MASKED, machine.requests()[VICTIM], Replay, "stands twice")

    def test_an_aborted_session_leaves_its_queries_answered(self, federation: Federation) -> None:
        machine = run_until(federation, None)
        federation.party(VICTIM).abort(machine.terms.sid_bytes)
        refused(federation, Stage.ADVERTISE, advertise(federation, federation.terms()), AlreadyAnswered)

    @pytest.mark.parametrize(
        ("first", "second", "allowed"),
        [
            ({"round": 1}, {"round": 2}, True),
            ({"round": 2}, {"round": 1}, True),
            ({"round": 1}, {"round": 1}, False),
            ({"round": 2}, {"round": 2}, False),
        ],
    )
    def test_a_second_phase_is_another_answer(
        self, federation: Federation, first: dict, second: dict, allowed: bool
    ) -> None:
        run_until(federation, None, terms=federation.terms(**first))
        request = advertise(federation, federation.terms(**second))
        if allowed:
            federation.serve(VICTIM, Stage.ADVERTISE, request)
        else:
            refused(federation, Stage.ADVERTISE, request, AlreadyAnswered)


class TestViews:
    """Stages 3 and 4: who is in the sum."""

    @pytest.fixture
    def machine(self, federation: Federation):
        return run_until(federation, Stage.CONSISTENCY)

    @pytest.mark.parametrize(
        ("survivors", "match"),
        [
            ([0, 1, 2], "U3 has 3 parties, 4 are needed"),
            ([1, 2, 3, 4], "lacks the party"),
            ([0, 1, 2, 3, 9], "not in U2"),
        ],
    )
    def test_survivors_that_cannot_be(self, federation: Federation, machine, survivors: list[int], match: str) -> None:
        changed = altered(machine.requests()[VICTIM], survivors=np.array(survivors, dtype=np.uint16))
        refused(federation, Stage.CONSISTENCY, changed, InconsistentView, match)
        still_honest(federation, machine)

    def test_survivors_that_sent_no_shares(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.CONSISTENCY, Network(federation, lost={Stage.SHARE: ["party-002"]}))
        changed = altered(machine.requests()[VICTIM], survivors=np.arange(5, dtype=np.uint16))
        refused(federation, Stage.CONSISTENCY, changed, InconsistentView, "not in U2")

    def test_two_honest_survivors_at_least(self, federation: Federation, machine, monkeypatch) -> None:
        """Held even against a roster that never passed its own checks."""
        request = machine.requests()[VICTIM]
        loose = federation.roster.model_copy(update={"c": 4})
        monkeypatch.setattr(MaskedTerms, "check", lambda terms, roster: None)
        with pytest.raises(InconsistentView, match="two more than c = 4"):
            federation.party(VICTIM, roster=loose).consistency(request)

    def test_fewer_than_t_signatures(self, federation: Federation, machine) -> None:
        network = Network(federation)
        machine.take(network.send(Stage.CONSISTENCY, machine.requests()))
        request = machine.requests()[VICTIM]
        few = altered(request, signers=request.signers[:3], signatures=request.signatures[:3])
        refused(federation, Stage.UNMASK, few, ThresholdNotMet, "3 parties are left, 4 are needed")
        still_honest(federation, machine)

    @pytest.mark.parametrize("other", ["u1", "u2", "u3"])
    def test_signatures_on_another_view(self, federation: Federation, machine, other: str) -> None:
        """Colluders sign another set for the coordinator; an honest party sees that it is not its own."""
        network = Network(federation)
        machine.take(network.send(Stage.CONSISTENCY, machine.requests()))
        request = machine.requests()[VICTIM]
        seen = dataclasses.replace(view_of(machine._state), **{other: bytes(32)})
        parts = consistency_parts(machine.terms.ctx, 1, seen.u1, seen.u2, seen.u3)
        signatures = request.signatures.copy()
        signatures[1] = np.frombuffer(federation.identities["party-001"].sign(CONSISTENCY, *parts), np.uint8)
        refused(federation, Stage.UNMASK, altered(request, signatures=signatures), BadSignature, "party-001")
        still_honest(federation, machine)

    def test_one_signature_under_two_names(self, federation: Federation, machine) -> None:
        machine.take(Network(federation).send(Stage.CONSISTENCY, machine.requests()))
        request = machine.requests()[VICTIM]
        signatures = request.signatures.copy()
        signatures[2] = signatures[1]
        refused(federation, Stage.UNMASK, altered(request, signatures=signatures), BadSignature, "party-002")

    def test_signers_that_are_no_survivors(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.UNMASK, Network(federation, lost={Stage.MASKED: ["party-002"]}))
        request = machine.requests()[VICTIM]
        changed = altered(request, signers=np.array([0, 1, 2, 3], dtype=np.uint16))
        refused(federation, Stage.UNMASK, changed, InconsistentView, "not among the survivors")

    @pytest.mark.parametrize(
        ("survivors", "dropped"),
        [
            ([0, 1, 3, 4], [1, 2]),
            ([0, 1, 2, 3, 4], [2]),
            ([0, 1, 3], [2, 4]),
            ([0, 1, 2, 3, 4], []),
            ([0, 1, 3, 4], []),
        ],
        ids=["both kinds, alive", "both kinds, dropped", "alive as dropped", "dropped as alive", "one left out"],
    )
    def test_both_kinds_of_share_of_one_party(
        self, federation: Federation, survivors: list[int], dropped: list[int]
    ) -> None:
        """b and the mask key of one party together would bare its votes."""
        network = Network(federation, lost={Stage.MASKED: ["party-002"]})
        machine = run_until(federation, Stage.UNMASK, network)
        changed = altered(
            machine.requests()[VICTIM],
            survivors=np.array(survivors, dtype=np.uint16),
            dropped=np.array(dropped, dtype=np.uint16),
        )
        refused(federation, Stage.UNMASK, changed, InconsistentView, "other sets")
        still_honest(federation, machine, network)


class TestOrder:
    """Each stage once, in its turn."""

    @pytest.mark.parametrize("stage", STAGES[1:])
    def test_an_unknown_session(self, federation: Federation, stage: Stage) -> None:
        machine = run_until(federation, stage)
        request = altered(machine.requests()[VICTIM], sid=bytes(16))
        refused(federation, stage, request, StageOrder, "never begun")

    def test_stages_skipped(self, federation: Federation) -> None:
        """Later requests, made by the others, reach a party that has not done the earlier stages."""
        machine = federation.machine()
        network = Network(federation, lost={stage: [VICTIM] for stage in STAGES[1:]})
        machine.take(network.send(Stage.ADVERTISE, machine.requests()))
        for stage in STAGES[1:]:
            request = next(iter(machine.requests().values()))
            if stage is not Stage.SHARE:
                refused(federation, stage, request, StageOrder, f"stage {stage} is not due")
            machine.take(network.send(stage, machine.requests()))

    @pytest.mark.parametrize("stage", STAGES[1:])
    def test_a_second_different_request_aborts(self, federation: Federation, stage: Stage) -> None:
        change: dict[Stage, Callable[[WireModel], WireModel]] = {
            Stage.SHARE: lambda r: altered(r, keys=flipped_cell(r.keys, 1, 1)),  # type: ignore[attr-defined]
            Stage.MASKED: lambda r: altered(r, queries=r.queries + np.float32(1)),  # type: ignore[attr-defined]
            Stage.CONSISTENCY: lambda r: altered(r, survivors=r.survivors[:4]),  # type: ignore[attr-defined]
            Stage.UNMASK: lambda r: altered(r, signers=r.signers[:3], signatures=r.signatures[:3]),  # type: ignore[attr-defined]
        }
        machine = run_until(federation, stage)
        request = machine.requests()[VICTIM]
        federation.serve(VICTIM, stage, request)
        federation.balloted.clear()
        refused(federation, stage, change[stage](request), InconsistentView, "done with another request")
        refused(federation, stage, request, StageOrder)
        assert federation.balloted == [], "never a second y"

    def test_a_session_that_took_too_long(self, federation: Federation) -> None:
        machine = run_until(federation, Stage.SHARE, terms=federation.terms(lifetime=60))
        now = [0.0]
        party = federation.party(VICTIM, clock=lambda: now[0])
        late = federation.party(VICTIM, clock=lambda: 4e12)
        with pytest.raises(StageOrder, match="lifetime"):
            late.share(machine.requests()[VICTIM])
        assert party.state(machine.terms.sid_bytes) is SessionStatus.ABORTED
        with pytest.raises(StageOrder):
            party.share(machine.requests()[VICTIM])

    def test_a_new_session_supersedes_the_old_one_of_its_federation_only(self, federation: Federation) -> None:
        old = run_until(federation, Stage.SHARE)
        other = run_until(federation, Stage.SHARE, terms=federation.terms(federation=OTHER_FEDERATION))
        new = run_until(federation, Stage.SHARE)
        states = [federation.party(VICTIM).state(machine.terms.sid_bytes) for machine in (old, other, new)]
        assert states == [SessionStatus.ABORTED, SessionStatus.ADVERTISED, SessionStatus.ADVERTISED]
        refused(federation, Stage.SHARE, old.requests()[VICTIM], StageOrder)
