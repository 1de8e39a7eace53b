"""Stage 2 under a lying coordinator, and queries that it asks again: each attack gets a typed error and no votes."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.party.sum_store import SessionStatus, SessionStore
from consilium.protocol.queries import query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import AlreadyAnswered, InconsistentView, Replay, UnsafeSession
from consilium.sums.masks.messages import Stage
from consilium.sums.masks.party import matrix
from tests.party.secagg.victim import VICTIM, advertise, refused, still_honest
from tests.secagg.network import OTHER_FEDERATION, Federation, Network, altered, flipped_cell, make_queries, run_until


class TestMasked:
    """Stage 2."""

    @pytest.fixture
    def machine(self, federation: Federation):
        return run_until(federation, Stage.MASKED)

    @pytest.mark.parametrize(
        ("field", "row", "accused"), [("ciphertexts", 1, 2), ("nonces", 0, 1), ("challenges", 3, 4), ("values", 2, 3)]
    )
    def test_a_bit_flipped_in_what_a_peer_sealed(
        self, federation: Federation, machine, field: str, row: int, accused: int
    ) -> None:
        """The party names that peer, has no share of its secrets, and gives its masked votes as ever."""
        request = machine.requests()[VICTIM]
        reply = federation.serve(
            VICTIM, Stage.MASKED, altered(request, **{field: flipped_cell(getattr(request, field), row, 3)})
        )
        assert reply.complaints.tolist() == [accused]  # type: ignore[attr-defined]
        with SessionStore(federation.folder / f"{VICTIM}.db").transaction() as tx:
            session = tx.session(machine.terms.sid_bytes)
        assert session is not None
        held = [matrix(session.memory, name)[1:].any(axis=1).tolist() for name in ("b_shares", "mask_shares")]
        assert held == [[at != accused for at in range(1, 5)]] * 2

    def test_shares_swapped(self, federation: Federation, machine) -> None:
        """What two peers sent to this party, exchanged."""
        request = machine.requests()[VICTIM]
        order = [1, 0, 2, 3]
        changed = altered(request, ciphertexts=request.ciphertexts[order], nonces=request.nonces[order])
        assert federation.serve(VICTIM, Stage.MASKED, changed).complaints.tolist() == [1, 2]  # type: ignore[attr-defined]

    def test_too_few_sharers(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]
        few = altered(
            request,
            sharers=request.sharers[:3],
            **{name: getattr(request, name)[:2] for name in ("nonces", "ciphertexts", "challenges", "values")},
        )
        refused(federation, Stage.MASKED, few, InconsistentView, "U2 has 3 parties, u_min is 4")
        still_honest(federation, machine)

    def test_sharers_that_did_not_advertise(self, federation: Federation) -> None:
        network = Network(federation, lost={Stage.ADVERTISE: ["party-002"]})
        machine = run_until(federation, Stage.MASKED, network)
        request = machine.requests()[VICTIM]
        more = altered(
            request,
            sharers=np.arange(5, dtype=np.uint16),
            nonces=np.resize(request.nonces, (4, 12)),
            ciphertexts=np.resize(request.ciphertexts, (4, 112)),
            challenges=np.resize(request.challenges, (4, 32)),
            values=np.resize(request.values, (4, 32)),
        )
        refused(federation, Stage.MASKED, more, InconsistentView, "not in U1")

    def test_sharers_without_the_party_itself(self, federation: Federation, machine) -> None:
        request = machine.requests()[VICTIM]
        without = altered(
            request,
            **{
                name: getattr(request, name)[1:]
                for name in ("sharers", "nonces", "ciphertexts", "challenges", "values")
            },
        )
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
            federation.party(VICTIM).masked(request, voting_rule)
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
            federation.party(VICTIM).masked(machine.requests()[VICTIM], lambda queries: votes)

    @pytest.mark.parametrize("share", [np.zeros((4, 3)), np.zeros((4, 2), dtype=np.int64)])
    def test_noise_that_is_none(self, federation: Federation, share: np.ndarray) -> None:
        machine = run_until(federation, Stage.MASKED, terms=federation.terms(sigma=10.0, noise_shares=2))
        party = federation.party(VICTIM)
        with pytest.raises(Refused, match="noise"):
            party.masked(machine.requests()[VICTIM], federation.voting_rule(VICTIM), lambda sigma, shape: share)


class TestReplayedQueries:
    """A query whose noisy sum was unmasked is never answered again, in whatever set; before that it is not used up."""

    @pytest.fixture
    def federation(self, federation: Federation) -> Federation:
        federation.noise = lambda sigma, shape: np.zeros(shape, dtype=np.int64)
        federation.noisy = {"sigma": 10.0, "noise_shares": 2}
        return federation

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
            ({"phase": 1}, {"phase": 2}, True),
            ({"phase": 2}, {"phase": 1}, True),
            ({"phase": 1}, {"phase": 1}, False),
            ({"phase": 2}, {"phase": 2}, False),
            ({"sigma": 0.0, "noise_shares": 0}, {"phase": 2}, True),
            ({"phase": 2}, {"sigma": 0.0, "noise_shares": 0}, True),
            ({"sigma": 0.0, "noise_shares": 0}, {"sigma": 0.0, "noise_shares": 0}, True),
        ],
    )
    def test_a_second_phase_is_another_answer_and_an_exact_sum_is_none(
        self, federation: Federation, first: dict, second: dict, allowed: bool
    ) -> None:
        run_until(federation, None, terms=federation.terms(**first))
        request = advertise(federation, federation.terms(**second))
        if allowed:
            federation.serve(VICTIM, Stage.ADVERTISE, request)
        else:
            refused(federation, Stage.ADVERTISE, request, AlreadyAnswered)
