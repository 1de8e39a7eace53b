"""What one aggregator sees does not depend on votes, also where it lies: uniform numbers, refusals without a hint."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from consilium.sums.field import FIELD, from_wire
from consilium.sums.verified.proof import (
    Opener,
    VoteGrid,
    challenge_of,
    expand_seed,
    holds,
    proof_elements,
    reading_point,
)
from consilium.sums.verified.sealing import session_key
from consilium.sums.verified.uploads import Upload
from tests.sums.verified import VerifiedFederation, collect, leader_link

BINS = 64


def seeded(seed: int) -> Callable[[int], bytes]:
    """Random bytes that are the same in every run of a test."""
    return np.random.default_rng(seed).bytes


def p_uniform(values: np.ndarray) -> float:
    """Chi-square of elements against the uniform law, in bins of the field."""
    edges = np.linspace(0, FIELD.prime, BINS + 1)
    widths = np.diff(np.ceil(edges))
    counts = np.histogram(values, bins=np.ceil(edges))[0]
    return float(stats.chisquare(counts, widths / FIELD.prime * len(values)).pvalue)


def seen(federation: VerifiedFederation, votes: np.ndarray, entropy) -> tuple[Upload, np.ndarray, np.ndarray]:
    """The leader's part, and what both aggregators open, of one upload."""
    grid = federation.session.grid
    content = federation.client("h0", entropy=entropy).upload(votes)
    upload = Upload.read(content, grid)
    assert upload is not None
    leader, helper = federation.leader(), federation.helper()
    part = upload.part
    mine = leader._opened(part, upload.share, upload.proof)
    opened = np.zeros_like(mine)
    assert helper._open_part(part, opened)[0] is None
    return upload, mine, opened


class TestUniform:
    """Fixed seeds; of each of the chi-squares one in a million would fail by chance under another."""

    @pytest.mark.parametrize("choice", [0, 1])
    def test_the_share_of_the_leader_is_uniform_whatever_the_votes(self, choice) -> None:
        federation = VerifiedFederation(2, queries=20_000, classes=2)
        votes = np.zeros((20_000, 2), dtype=np.int64)
        votes[:, choice] = 1
        upload, _, _ = seen(federation, votes, seeded(choice))
        assert p_uniform(upload.share) > 1e-6
        assert p_uniform(upload.share[choice::2]) > 1e-6

    @pytest.mark.slow
    @pytest.mark.parametrize("choice", [0, 1])
    def test_what_is_opened_together_is_uniform_but_for_what_follows_from_it(self, choice) -> None:
        """f_l(t) of sixty uploads; the rest is F(t), which is their squares, and two zeros."""
        federation = VerifiedFederation(2, queries=64, classes=2)
        votes = np.zeros((64, 2), dtype=np.int64)
        votes[:, choice] = 1
        drawn, lines = seeded(10 + choice), federation.session.grid.lines
        found = []
        for _ in range(60):
            _, mine, other = seen(federation, votes, drawn)
            together = FIELD.to_wire(from_wire(mine) + other).reshape(-1, FIELD.degree)
            assert not together[-2:].any()
            found.append(together[:lines])
        assert p_uniform(np.concatenate(found).ravel()) > 1e-6

    def test_the_share_of_the_proof_is_uniform(self) -> None:
        federation = VerifiedFederation(2, queries=20_000, classes=2)
        upload, _, _ = seen(federation, federation.votes["h0"], seeded(20))
        assert p_uniform(upload.proof) > 1e-6

    def test_the_starts_of_the_lines_are_uniform_and_new_each_time(self) -> None:
        """Without them what is opened would be an equation for the votes, though it looks as random."""
        federation = VerifiedFederation(2, queries=20_000, classes=2)
        session, grid = federation.session, federation.session.grid
        key = session_key(federation.helper_seed, session.ctx)
        found = []
        for seed in (30, 31):
            upload, _, _ = seen(federation, federation.votes["h0"], seeded(seed))
            opened = upload.part.opened(key)
            assert isinstance(opened, bytes)
            other = expand_seed(session.ctx, 0, opened, "proof", proof_elements(grid))
            found.append(FIELD.to_wire(from_wire(upload.proof) + other)[: grid.lines * FIELD.degree])
        assert all(p_uniform(starts) > 1e-6 for starts in found)
        assert (found[0] == found[1]).mean() < 0.01

    def test_control_votes_without_a_mask_are_not_uniform(self) -> None:
        assert p_uniform(np.repeat([0, 1], 20_000)) < 1e-6


class TestLyingAggregator:
    """An aggregator that shifts its share to try a guess of a vote fails alike whether the guess is right or wrong."""

    @staticmethod
    def verdict(federation: VerifiedFederation, guess: int, vote: int, with_proof: bool) -> bool:
        """A lying leader moves the first vote from its guess to another class. with_proof: it fits what it opens of F
        to the moved vote as well as its guess allows, as if f_l had no random start."""
        grid = federation.session.grid
        votes = federation.votes["h0"].copy()
        votes[0] = np.eye(3, dtype=int)[vote]
        upload, _, other = seen(federation, votes, seeded(vote))
        part, target = upload.part, (guess + 1) % 3
        challenge = challenge_of(grid, part.ctx, part.place, part.to_leader, part.to_helper)
        share = upload.share.astype(np.int64)
        share[guess] -= 1
        share[target] += 1
        leader = federation.leader()
        opened = leader._opened(part, FIELD.to_wire(share), upload.proof)
        if with_proof:
            t = reading_point(leader_link(federation).secret(), part.ctx)
            whole = FIELD.lagrange_at(t, grid.values)
            table = FIELD.multiply_all(challenge.y[:1], challenge.r)[0]
            shift = FIELD.reduce(
                FIELD.multiply(table[target], table[target]) - FIELD.multiply(table[guess], table[guess])
            )
            rows = opened.reshape(-1, FIELD.degree).astype(np.float64)
            rows[-3] += FIELD.multiply(whole[1], shift)
            rows[-2] += FIELD.multiply(challenge.u[0], shift)
            opened = FIELD.to_wire(rows).ravel()
        return holds(grid, opened, other)

    @pytest.mark.parametrize("with_proof", [False, True])
    @pytest.mark.parametrize("vote", [0, 1, 2])
    @pytest.mark.parametrize("guess", [0, 1, 2])
    def test_a_shifted_share_is_refused_whether_the_guess_is_right_or_wrong(self, guess, vote, with_proof) -> None:
        federation = VerifiedFederation(2, queries=9, classes=3)
        assert not self.verdict(federation, guess, vote, with_proof)

    @pytest.mark.parametrize("vote", [0, 1, 2])
    def test_one_that_answers_last_passes_always_and_learns_as_little(self, vote) -> None:
        """It sees f_l(t) first, so that it can fit anything, whatever the vote; what it saw is uniform."""
        federation = VerifiedFederation(2, queries=9, classes=3)
        votes = federation.votes["h0"].copy()
        votes[0] = np.eye(3, dtype=int)[vote]
        _, _, other = seen(federation, votes, seeded(vote))
        fitted = np.zeros((federation.session.grid.lines + 3, FIELD.degree))
        rows = from_wire(other).reshape(-1, FIELD.degree)
        fitted[-3] = FIELD.reduce(FIELD.square_sums(FIELD.reduce(rows[None, :-3]))[0] - rows[-3])
        fitted[-2:] = -rows[-2:]
        assert holds(federation.session.grid, FIELD.to_wire(fitted).ravel(), other)

    def test_control_without_random_starts_the_refusal_tells_the_vote(self) -> None:
        """One row on one line, f(0) = 0: the fitted shift passes if the guess is right, and only then."""
        grid, where = VoteGrid(1, 3, 1), reading_point(bytes(32), bytes(32))
        challenge = challenge_of(grid, bytes(32), 0, b"a", b"b")
        table = FIELD.multiply_all(challenge.y[:1], challenge.r)[0]
        none = np.zeros(3, dtype=FIELD.dtype)
        empty = np.zeros(4 * FIELD.degree, dtype=FIELD.dtype)
        along = FIELD.lagrange_at(where, 2)[1]
        told = {}
        for vote in range(3):
            share = np.eye(3, dtype=FIELD.dtype)[vote]
            square = FIELD.multiply(table[vote], table[vote])
            values = np.stack(
                [np.zeros(FIELD.degree), square, FIELD.reduce(4 * square)]
            )  # f(X) = X y r, without a random start
            proof = np.concatenate([np.zeros(FIELD.degree), FIELD.to_wire(values).ravel()]).astype(FIELD.dtype)
            honest = Opener(grid, where, leads=False)(share, proof, challenge)
            for guess in range(3):
                target = (guess + 1) % 3
                moved = FIELD.to_wire(none - np.eye(3)[guess] + np.eye(3)[target])
                rows = (
                    Opener(grid, where, leads=True)(moved, empty, challenge)
                    .reshape(-1, FIELD.degree)
                    .astype(np.float64)
                )
                shift = FIELD.reduce(
                    FIELD.multiply(table[target], table[target]) - FIELD.multiply(table[guess], table[guess])
                )
                rows[-3] += FIELD.multiply(FIELD.multiply(along, along), shift)
                rows[-2] += FIELD.multiply(challenge.u[0], shift)
                told[vote, guess] = holds(grid, FIELD.to_wire(rows).ravel(), honest)
        assert told == {(vote, guess): vote == guess for vote in range(3) for guess in range(3)}


class TestNothingIsPrinted:
    def test_no_object_shows_a_share_or_a_key(self) -> None:
        federation = VerifiedFederation(3)
        leader, helper = federation.leader(), federation.helper()
        result = collect(leader, helper, federation.uploads())
        upload = Upload.read(federation.uploads(["h0"])["h0"], federation.session.grid)
        assert upload is not None
        seen_texts = [repr(each) for each in (leader, helper, result, upload, upload.part, leader._link())]
        assert all("array" not in text and "\\x" not in text for text in seen_texts)
        keys = (federation.leader_key.hex(), federation.helper_key.hex())
        assert not any(key in text for key in keys for text in seen_texts)

    def test_keys_between_aggregators_are_not_pickled(self) -> None:
        federation = VerifiedFederation(3)
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(federation.leader())

    def test_commitments_hide_a_share_that_could_be_guessed(self) -> None:
        """The helper knows its share, so that a guess of all votes gives the leader's: without the blind the commitment
        would confirm it."""
        federation = VerifiedFederation(2, queries=1, classes=2)
        votes = np.array([[1, 0]])
        commitments = set()
        for blind in (b"\0", b"\1"):
            drawn = iter([bytes(16), blind * 16, bytes(32), bytes(31) + b"\1"])
            upload = Upload.read(
                federation.client("h0", entropy=lambda count, drawn=drawn: next(drawn)).upload(votes),
                federation.session.grid,
            )
            assert upload is not None
            commitments.add(upload.part.to_leader)
        assert len(commitments) == 2
        assert all(len(each) == len(hashlib.sha256().digest()) for each in commitments)
