"""Whatever a party sends that is no vote, it is left out by name, and the sum is that of the others, to the last vote.

Every lie has its control: the same upload at aggregators that do not check is in the sum.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import numpy as np
import pytest

from consilium.protocol.identity import Identity
from consilium.sums.errors import VoteFault
from consilium.sums.field import FIELD
from consilium.sums.verified import helper as helper_module
from consilium.sums.verified import leader as leader_module
from consilium.sums.verified import uploads as uploads_module
from consilium.sums.verified.uploads import PART_BYTES, HelperPart, Upload
from tests.marks import third
from tests.sums.verified import (
    PROOFS,
    Forger,
    VerifiedFederation,
    check_all,
    collect,
    fitted,
    one_hot,
    true_squares,
    zero_proof,
)

Lie = Callable[[np.ndarray, int], None]
"""Changes the matrix of an honest party; the second argument is the prime."""
LIAR = "h7"
FIRST_QUERY = (0, 0, 0, 0, 1, 1, 1)
"""What the honest seven vote for on the first query: no vote of an eighth makes it the second class."""


def make_federation(teachers: int = 1) -> VerifiedFederation:
    federation = VerifiedFederation(8, queries=13, teachers=teachers)
    for name, choice in zip(federation.names, FIRST_QUERY, strict=False):
        federation.votes[name][0] = 0
        federation.votes[name][0, choice] = teachers
    return federation


def row(*cells: int | Callable[[int], int], at: int = 0) -> Lie:
    """A lie in one row; cells may depend on the prime."""

    def tell(matrix: np.ndarray, prime: int) -> None:
        matrix[at] = [cell if isinstance(cell, int) else cell(prime) for cell in cells]

    return tell


def half(prime: int) -> int:
    return (prime + 1) // 2


def third_of_one(prime: int) -> int:
    return pow(3, -1, prime)


def root(prime: int) -> int:
    """A seventh root of one."""
    return pow(2, (prime - 1) // 7, prime)


def stacked(matrix: np.ndarray, prime: int) -> None:
    """All votes on the first query."""
    matrix[1:] = 0
    matrix[0] = 0, len(matrix), 0


def moved(matrix: np.ndarray, prime: int) -> None:
    """The second query's vote given to the first: the number of votes is right."""
    matrix[:2] = (0, 2, 0), (0, 0, 0)


def shared(matrix: np.ndarray, prime: int) -> None:
    """Two votes on the first query and none on the second: every class has the votes it should have."""
    matrix[0] += matrix[1]
    matrix[1] = 0


def nothing(matrix: np.ndarray, prime: int) -> None:
    """No vote at all."""
    matrix[:] = 0


def random_cells(matrix: np.ndarray, prime: int) -> None:
    matrix[:] = np.random.default_rng(1).integers(0, prime, matrix.shape)


def random_rows_of_one(matrix: np.ndarray, prime: int) -> None:
    """Random numbers, each row of which sums to 1."""
    random_cells(matrix, prime)
    matrix[:, 0] = (1 - matrix[:, 1:].sum(axis=1)) % prime


def everywhere_negative(matrix: np.ndarray, prime: int) -> None:
    """The sums would be those of one party less."""
    matrix[:] = -matrix


FALSE_VOTES: dict[str, Lie] = {
    "two hot": row(0, 1, 1),
    "all hot": row(1, 1, 1),
    "none": row(0, 0, 0),
    "none at all": nothing,
    "two votes": row(0, 2, 0),
    "ten votes": row(0, 10, 0),
    "taken and given": row(-3, 4, 0),
    "one less": row(-1, 0, 0),
    "one less, two more": row(-1, 2, 0),
    "minus one and two ones": row(-1, 1, 1),
    "wrapped": row(lambda prime: prime - 4, 5, 0),
    "the largest element": row(lambda prime: prime - 1, 0, 0),
    "half and half": row(0, half, half),
    "one half": row(0, half, 0),
    "thirds": row(third_of_one, third_of_one, third_of_one),
    "other elements": row(0, 12_345, 1 - 12_345),
    "an element and its negative": row(1, 777, -777),
    "a root of unity": row(0, root, lambda prime: 1 - root(prime)),
    "votes stacked": stacked,
    "vote moved": moved,
    "votes shared": shared,
    "two votes in the last row": row(0, 2, 0, at=12),
    "none in the last row": row(0, 0, 0, at=12),
    "random": random_cells,
    "random, rows of one": random_rows_of_one,
    "everything negative": everywhere_negative,
}
DECIDE = (
    "two votes",
    "ten votes",
    "taken and given",
    "one less, two more",
    "wrapped",
    "half and half",
    "one half",
    "votes stacked",
    "vote moved",
)
"""Lies after which the second class wins the first query."""


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aggregators that take whatever can be read and opened."""
    for module in (leader_module, helper_module):
        monkeypatch.setattr(module, "holds", lambda grid, one, other: True)
    monkeypatch.setattr(HelperPart, "fault", lambda self, ctx, roster: None)
    monkeypatch.setattr(Upload, "is_bound", lambda self: True)
    monkeypatch.setattr(
        leader_module, "add_up", lambda one, other, votes, tail: (one.astype(int) + other) % FIELD.prime
    )


def run(federation: VerifiedFederation, lie: bytes, name: str = LIAR):
    """A session of the honest parties and one lie; the leader and the helper, and what came out."""
    leader, helper = federation.leader(), federation.helper()
    uploads = federation.uploads([each for each in federation.names if each != name])
    result = collect(leader, helper, {name: lie, **uploads})
    return leader, helper, result


def must_be_out(federation: VerifiedFederation, lie: bytes, fault: VoteFault, name: str = LIAR) -> None:
    """The liar is out by name, for this reason, and the sum is that of the others."""
    honest = tuple(each for each in federation.names if each != name)
    leader, helper, result = run(federation, lie, name)
    assert result.accepted == leader.accepted == helper.accepted == honest
    assert result.left_out == {name: fault}
    assert np.array_equal(result.sums, federation.total(honest))


@pytest.mark.parametrize(("kind", "prove"), third([(kind, prove) for kind in FALSE_VOTES for prove in PROOFS]))
def test_false_votes_are_left_out_whatever_their_proof(kind, prove) -> None:
    federation = make_federation()
    matrix = one_hot(federation, LIAR)
    FALSE_VOTES[kind](matrix, FIELD.prime)
    must_be_out(federation, Forger(federation, LIAR)(matrix, prove), VoteFault.FALSE_VOTES)


@pytest.mark.parametrize("kind", FALSE_VOTES)
def test_control_false_votes_count_where_nobody_checks(kind, unchecked) -> None:
    federation = make_federation()
    matrix = one_hot(federation, LIAR)
    FALSE_VOTES[kind](matrix, FIELD.prime)
    _, _, result = run(federation, Forger(federation, LIAR)(matrix))
    honest = federation.total(federation.names[:-1])
    assert np.array_equal(result.sums, (honest + matrix) % FIELD.prime)
    assert LIAR in result.accepted
    if kind in DECIDE:
        assert np.argmax(result.sums[0]) == 1
        assert all(np.argmax(honest[0] + vote) == 0 for vote in np.eye(3, dtype=int))


@pytest.mark.parametrize("prove", [true_squares, fitted])
def test_control_the_forger_passes_with_true_votes(prove) -> None:
    federation = make_federation()
    _, _, result = run(federation, Forger(federation, LIAR)(one_hot(federation, LIAR), prove))
    assert result.accepted == tuple(federation.names)
    assert np.array_equal(result.sums, federation.total(federation.names))


def test_true_votes_without_a_proof_are_left_out() -> None:
    federation = make_federation()
    lie = Forger(federation, LIAR)(one_hot(federation, LIAR), zero_proof)
    must_be_out(federation, lie, VoteFault.FALSE_VOTES)


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([(0, 2, 0), (0, 0, 0)], VoteFault.FALSE_VOTES),
        ([(0, 2, 0), (0, 1, 0)], VoteFault.FALSE_VOTES),
        ([(0, 3, -1), (0, 0, 0)], VoteFault.FALSE_VOTES),
        ([(half, half, 0), (half, half, 0)], VoteFault.FALSE_VOTES),
    ],
)
def test_every_teacher_of_a_party_has_one_vote(rows, outcome) -> None:
    federation = make_federation(teachers=2)
    matrix = one_hot(federation, LIAR)
    for at, cells in enumerate(rows):
        row(*cells, at=at)(matrix, FIELD.prime)
    must_be_out(federation, Forger(federation, LIAR)(matrix), outcome)


def test_a_proof_of_another_party_proves_nothing() -> None:
    federation = make_federation()
    other = Upload.read(federation.client("h0").upload(federation.votes["h0"]), federation.session.grid)
    assert other is not None
    matrix = one_hot(federation, "h0")
    lie = Forger(federation, LIAR, change_proof=lambda proof: other.proof)(matrix)
    must_be_out(federation, lie, VoteFault.FALSE_VOTES)


def test_a_thousand_challenges_do_not_help() -> None:
    federation = make_federation()
    matrix = one_hot(federation, LIAR)
    matrix[0] = 0, 2, 0
    must_be_out(federation, Forger(federation, LIAR, tries=1000)(matrix), VoteFault.FALSE_VOTES)


def another_seed(seed: bytes) -> bytes:
    return secrets.token_bytes(len(seed))


def swapped(commitments):
    return commitments[1], commitments[0], commitments[2]


def other_proof(commitments):
    return *commitments[:2], bytes(32)


def other_helper(commitments):
    return commitments[0], bytes(32), commitments[2]


def other_leader(commitments):
    return bytes(32), *commitments[1:]


BOUND = {
    "wrong seed": ({"change_seed": another_seed}, VoteFault.COMMITMENT),
    "no seed": ({"change_seed": lambda seed: bytes(16)}, VoteFault.COMMITMENT),
    "commitments swapped": ({"change_commitments": swapped}, VoteFault.COMMITMENT),
    "bound to another proof": ({"change_commitments": other_proof}, VoteFault.COMMITMENT),
    "bound to another seed": ({"change_commitments": other_helper}, VoteFault.COMMITMENT),
    "bound to another share": ({"change_commitments": other_leader}, VoteFault.COMMITMENT),
    "sealed for somebody else": ({"helper_key": Identity.generate().public}, VoteFault.NOT_FOR_US),
    "signed by somebody else": ({"identity": Identity.generate()}, VoteFault.SIGNATURE),
    "another place, own signature": ({"place": 3}, VoteFault.SIGNATURE),
    "no such place": ({"place": 8}, VoteFault.UNKNOWN),
    "a far place": ({"place": 2**32 - 1}, VoteFault.UNKNOWN),
}


@pytest.mark.parametrize("kind", BOUND)
def test_what_is_not_bound_to_the_party_and_its_shares_is_left_out(kind) -> None:
    federation = make_federation()
    changes, fault = BOUND[kind]
    must_be_out(federation, Forger(federation, LIAR, **changes)(one_hot(federation, LIAR)), fault)


def test_control_a_wrong_seed_spoils_the_sum_where_nobody_checks(unchecked, monkeypatch) -> None:
    federation = make_federation()
    leader, helper = federation.leader(), federation.helper()
    uploads = federation.uploads(federation.names[:-1])
    uploads[LIAR] = Forger(federation, LIAR, change_seed=another_seed)(one_hot(federation, LIAR))
    read = [HelperPart.read(content[:PART_BYTES]) for content in uploads.values()]
    commitments = {part.place: part.to_helper for part in read}
    monkeypatch.setattr(uploads_module, "commit_helper", lambda ctx, place, seed: commitments[place])
    result = collect(leader, helper, uploads)
    assert not np.array_equal(result.sums, federation.total(federation.names))


OTHER_SESSIONS = {
    "replay of an earlier session": {"seed": 0},
    "other queries": {"seed": 5},
    "other noise": {"seed": 0, "sigma": 4.0},
}


@pytest.mark.parametrize("kind", OTHER_SESSIONS)
def test_an_upload_is_good_in_one_session_only(kind) -> None:
    federation = make_federation()
    earlier = federation.new_session(**OTHER_SESSIONS[kind])
    lie = federation.client(LIAR, session=earlier).upload(federation.votes[LIAR])
    assert earlier.ctx != federation.session.ctx
    must_be_out(federation, lie, VoteFault.OTHER_SESSION)


def test_control_a_replay_is_in_the_sum_where_nobody_checks(unchecked, monkeypatch) -> None:
    federation = make_federation()
    earlier = federation.new_session()
    monkeypatch.setattr(uploads_module, "check_key", lambda *_: None)  # and a helper whose key is not of one session
    lie = federation.client(LIAR, session=earlier, helper_key=federation.key()).upload(federation.votes[LIAR])
    _, _, result = run(federation, lie)
    assert LIAR in result.accepted


def test_a_forged_session_in_the_head_breaks_the_signature() -> None:
    federation = make_federation()
    lie = federation.client(LIAR, session=federation.new_session()).upload(federation.votes[LIAR])
    forged = federation.session.ctx + lie[32:]
    must_be_out(federation, forged, VoteFault.SIGNATURE)


def test_an_upload_of_an_honest_party_is_not_another_ones() -> None:
    federation = make_federation()
    must_be_out(federation, federation.uploads(["h0"])["h0"], VoteFault.OTHER_PARTY)


def test_the_parts_of_two_parties_cannot_be_swapped() -> None:
    federation = make_federation()
    uploads = federation.uploads(["h0", LIAR])
    must_be_out(federation, uploads["h0"][:PART_BYTES] + uploads[LIAR][PART_BYTES:], VoteFault.OTHER_PARTY)
    must_be_out(federation, uploads[LIAR][:PART_BYTES] + uploads["h0"][PART_BYTES:], VoteFault.COMMITMENT)


def test_a_second_upload_is_not_taken_and_the_first_counts() -> None:
    federation = make_federation()
    leader, helper = federation.leader(), federation.helper()
    matrix = one_hot(federation, LIAR)
    matrix[0] = 0, 2, 0
    check_all(leader, helper, federation.uploads())
    assert leader.batch({LIAR: Forger(federation, LIAR)(matrix)}) is None
    result = leader.finish(helper.give(leader.ask()))
    assert np.array_equal(result.sums, federation.total(federation.names))


def last_number(content: bytes, number: int) -> bytes:
    return content[: -FIELD.wire_bytes] + number.to_bytes(FIELD.wire_bytes, "little")


SHAPES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "one byte": lambda content: content[:1],
    "truncated by a byte": lambda content: content[:-1],
    "truncated by an element": lambda content: content[: -FIELD.wire_bytes],
    "part only": lambda content: content[:PART_BYTES],
    "one byte more": lambda content: content + b"\0",
    "an element more": lambda content: content + bytes(FIELD.wire_bytes),
    "twice": lambda content: content * 2,
    "the prime itself": lambda content: last_number(content, FIELD.prime),
    "one above the prime": lambda content: last_number(content, FIELD.prime + 1),
    "far above the prime": lambda content: last_number(content, 256**FIELD.wire_bytes - 1),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_what_has_not_the_form_of_an_upload_is_left_out(kind) -> None:
    federation = make_federation()
    must_be_out(federation, SHAPES[kind](federation.uploads([LIAR])[LIAR]), VoteFault.MALFORMED)


def test_a_stranger_is_no_party() -> None:
    federation = make_federation()
    leader = federation.leader()
    assert leader.batch({"stranger": federation.uploads(["h0"])["h0"]}) is None
    assert leader.left_out == {"stranger": VoteFault.UNKNOWN}


@pytest.mark.slow
def test_no_byte_can_be_altered() -> None:
    federation = make_federation()
    leader, content = federation.leader(), federation.uploads([LIAR])[LIAR]
    flips = np.random.default_rng(0).integers(1, 256, len(content))
    for at, flip in enumerate(flips):
        assert leader.batch({LIAR: content[:at] + bytes([content[at] ^ int(flip)]) + content[at + 1 :]}) is None
    check_all(leader, federation.helper(), {LIAR: content})
    assert leader.accepted == (LIAR,), "a damaged upload does not stand in the way of the good one"


def test_many_liars_are_all_named() -> None:
    federation = VerifiedFederation(30, queries=9)
    uploads = federation.uploads()
    kinds = list(FALSE_VOTES.values())
    liars = federation.names[::4]
    for at, name in enumerate(liars):
        matrix = one_hot(federation, name)
        kinds[at](matrix[:13] if len(matrix) > 12 else matrix, FIELD.prime)
        uploads[name] = Forger(federation, name)(matrix)
    honest = tuple(name for name in federation.names if name not in liars)
    result = collect(federation.leader(), federation.helper(), uploads)
    assert result.accepted == honest
    assert result.left_out == dict.fromkeys(liars, VoteFault.FALSE_VOTES)
    assert np.array_equal(result.sums, federation.total(honest))
