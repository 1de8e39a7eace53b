"""One table of lies: who lies, in which message, by what damage, and what must come out.

A party that lies is left out by name and the sum is that of the others, to the last vote. An aggregator that lies gets
a typed error, or moves counts by no more than it could anyway. Controls: the same lies where nobody checks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from consilium.protocol.identity import Identity
from consilium.sums.errors import AggregatorsDisagree, BadLink, StageOrder, ThresholdNotMet, VoteFault
from consilium.sums.verified import aggregators
from consilium.sums.verified.aggregators import Helper, Leader, VerifiedSum, add_up
from consilium.sums.verified.field import DTYPE, MOST_REACH, PRIME
from consilium.sums.verified.messages import ASKED, BATCH, CHECKED, body_digest, code_of, read_checked
from consilium.sums.verified.proof import DIGEST_BYTES
from consilium.sums.verified.uploads import PART_BYTES, HelperPart, Upload, tail_of
from tests.marks import third
from tests.sums.verified.network import (
    IDS,
    PROOFS,
    Forger,
    NoNoise,
    VerifiedFederation,
    check_all,
    collect,
    ended,
    fitted,
    one_hot,
    true_squares,
    zero_proof,
)

LIAR = 7
FIRST_QUERY = (0, 0, 0, 0, 1, 1, 1)
"""What the honest seven vote for on the first query: no vote of an eighth makes it the second class."""
HALF, ROOT = (PRIME + 1) // 2, pow(2, (PRIME - 1) // 7, PRIME)
Lie = Callable[[np.ndarray], np.ndarray]


def make_federation(teachers: int = 1) -> VerifiedFederation:
    federation = VerifiedFederation(8, queries=13, teachers=teachers)
    for place, choice in enumerate(FIRST_QUERY):
        federation.votes[place][0] = teachers * np.eye(3, dtype=int)[choice]
    return federation


def first(*rows: tuple[int, int, int]) -> Lie:
    return lambda honest: np.concatenate((rows, honest[len(rows) :]))


def last(*row: int) -> Lie:
    return lambda honest: np.concatenate((honest[:-1], [row]))


def drawn(honest: np.ndarray) -> np.ndarray:
    return np.random.default_rng(1).integers(0, PRIME, honest.shape)


def rows_of_one(honest: np.ndarray) -> np.ndarray:
    numbers = drawn(honest)
    return np.column_stack(((1 - numbers[:, 1:].sum(axis=1)) % PRIME, numbers[:, 1:]))


FALSE_VOTES: dict[str, Lie] = {
    "two hot": first((0, 1, 1)),
    "none": first((0, 0, 0)),
    "two votes": first((0, 2, 0)),
    "taken and given": first((-3, 4, 0)),
    "one less, two more": first((-1, 2, 0)),
    "half and half": first((0, HALF, HALF)),
    "other elements": first((0, 12_345, 1 - 12_345)),
    "a root of unity": first((0, ROOT, 1 - ROOT)),
    "votes stacked": lambda honest: first((0, len(honest), 0))(np.zeros_like(honest)),
    "vote moved": first((0, 2, 0), (0, 0, 0)),
    "two votes in the last row": last(0, 2, 0),
    "random": drawn,
    "random, rows of one": rows_of_one,
    "everything negative": np.negative,
}
DECIDE = ("two votes", "taken and given", "one less, two more", "half and half", "votes stacked")
"""Lies after which the second class wins the first query."""


def with_others(federation: VerifiedFederation, lie: bytes) -> tuple[Leader, Helper, VerifiedSum]:
    leader, helper = federation.leader(), federation.helper()
    return leader, helper, collect(leader, helper, {LIAR: lie, **federation.uploads(range(LIAR))})


def must_be_out(federation: VerifiedFederation, lie: bytes, fault: VoteFault) -> None:
    """The liar is out by name, for this reason, and the sum is that of the others."""
    leader, helper, result = with_others(federation, lie)
    assert result.accepted == leader.accepted == helper.accepted == tuple(range(LIAR))
    assert leader.left_out == {f"h{LIAR}": fault}
    assert np.array_equal(result.sums, federation.total(range(LIAR)))


@pytest.mark.parametrize(("n", "classes", "teachers"), [(3, 2, 1), (9, 4, 5)])
@pytest.mark.parametrize("queries", [1, 2, 13])
def test_the_sum_is_that_of_clear_votes(n, classes, teachers, queries) -> None:
    federation = VerifiedFederation(n, queries=queries, classes=classes, teachers=teachers)
    leader = federation.leader()
    result = collect(leader, federation.helper(), federation.uploads())
    assert np.array_equal(result.sums, federation.total(range(n)))
    assert result.accepted == tuple(range(n))
    assert leader.batch({1: federation.upload(1)}) is None, "a second upload"


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aggregators that take whatever can be read and opened."""
    monkeypatch.setattr(aggregators, "hold", lambda grid, one, other: np.ones(len(one), dtype=bool))
    monkeypatch.setattr(HelperPart, "fault", lambda self, ctx, roster: None)
    monkeypatch.setattr(Upload, "is_bound", lambda self: True)
    monkeypatch.setattr(aggregators, "add_up", lambda one, other, votes, tail: (one.astype(int) + other) % PRIME)


@pytest.mark.parametrize(
    ("kind", "prove"),
    [
        *((kind, true_squares) for kind in FALSE_VOTES),
        *third([(kind, prove) for kind in FALSE_VOTES for prove in PROOFS[1:]]),
    ],
)
def test_false_votes_are_left_out_whatever_their_proof(kind, prove) -> None:
    federation = make_federation()
    lie = Forger(federation, LIAR)(FALSE_VOTES[kind](one_hot(federation, LIAR)), prove)
    must_be_out(federation, lie, VoteFault.FALSE_VOTES)


@pytest.mark.parametrize("kind", FALSE_VOTES)
def test_control_false_votes_count_where_nobody_checks(kind, unchecked) -> None:
    federation = make_federation()
    matrix, honest = FALSE_VOTES[kind](one_hot(federation, LIAR)), federation.total(range(LIAR))
    _, _, result = with_others(federation, Forger(federation, LIAR)(matrix))
    assert np.array_equal(result.sums, (honest + matrix) % PRIME)
    if kind in DECIDE:
        assert np.argmax(result.sums[0]) == 1
        assert all(np.argmax(honest[0] + vote) == 0 for vote in np.eye(3, dtype=int))


@pytest.mark.parametrize("prove", [true_squares, fitted])
def test_control_the_forger_passes_with_true_votes(prove) -> None:
    federation = make_federation()
    lie = Forger(federation, LIAR)(one_hot(federation, LIAR), prove)
    assert with_others(federation, lie)[2].accepted == tuple(range(8))


@pytest.mark.parametrize(
    "rows", [((0, 2, 0), (0, 0, 0)), ((0, 2, 0), (0, 1, 0)), ((0, 3, -1), (0, 0, 0)), ((HALF, HALF, 0),) * 2]
)
def test_every_teacher_of_a_party_has_one_vote(rows) -> None:
    federation = make_federation(teachers=2)
    lie = Forger(federation, LIAR)(first(*rows)(one_hot(federation, LIAR)))
    must_be_out(federation, lie, VoteFault.FALSE_VOTES)


def forged(prove=true_squares, **changes) -> Callable[[VerifiedFederation], bytes]:
    return lambda federation: Forger(federation, LIAR, **changes)(one_hot(federation, LIAR), prove)


def damaged(change: Callable[[bytes], bytes]) -> Callable[[VerifiedFederation], bytes]:
    return lambda federation: change(federation.upload(LIAR))


def tried(federation: VerifiedFederation) -> bytes:
    return Forger(federation, LIAR, tries=1000)(first((0, 2, 0))(one_hot(federation, LIAR)))


def proof_of_another(federation: VerifiedFederation) -> bytes:
    other = Upload.read(federation.upload(0), federation.terms.grid)
    assert other is not None
    return Forger(federation, LIAR, proof=lambda proof: other.proof)(one_hot(federation, 0))


def in_session(**changes) -> Callable[[VerifiedFederation], bytes]:
    return lambda federation: federation.upload(LIAR, federation.new_terms(**changes))


def joined(part: int, shares: int) -> Callable[[VerifiedFederation], bytes]:
    return lambda federation: federation.upload(part)[:PART_BYTES] + federation.upload(shares)[PART_BYTES:]


Fault = VoteFault
LIES: dict[str, tuple[Callable[[VerifiedFederation], bytes], VoteFault]] = {
    "no proof": (forged(zero_proof), Fault.FALSE_VOTES),
    "proof of another party": (proof_of_another, Fault.FALSE_VOTES),
    "a thousand challenges tried": (tried, Fault.FALSE_VOTES),
    "another seed": (forged(seed=lambda seed: secrets.token_bytes(len(seed))), Fault.COMMITMENT),
    "commitments swapped": (forged(commitments=lambda them: (them[1], them[0], them[2])), Fault.COMMITMENT),
    "bound to another proof": (forged(commitments=lambda them: (*them[:2], bytes(32))), Fault.COMMITMENT),
    "bound to another seed": (forged(commitments=lambda them: (them[0], bytes(32), them[2])), Fault.COMMITMENT),
    "bound to another share": (forged(commitments=lambda them: (bytes(32), *them[1:])), Fault.COMMITMENT),
    "sealed for somebody else": (forged(helper=Identity.generate().public), Fault.NOT_FOR_US),
    "signed by somebody else": (forged(identity=Identity.generate()), Fault.SIGNATURE),
    "no such place": (forged(claimed=8), Fault.UNKNOWN),
    "replay of an earlier session": (in_session(), Fault.OTHER_SESSION),
    "other queries": (in_session(seed=5), Fault.OTHER_SESSION),
    "an honest party's upload": (lambda federation: federation.upload(0), Fault.OTHER_PARTY),
    "an honest party's part": (joined(0, LIAR), Fault.OTHER_PARTY),
    "an honest party's shares": (joined(LIAR, 0), Fault.COMMITMENT),
    "empty": (damaged(lambda content: b""), Fault.MALFORMED),
    "truncated by a byte": (damaged(lambda content: content[:-1]), Fault.MALFORMED),
    "twice": (damaged(lambda content: content * 2), Fault.MALFORMED),
    "the prime itself": (damaged(lambda content: content[:-4] + PRIME.to_bytes(4, "little")), Fault.MALFORMED),
}


@pytest.mark.parametrize("kind", LIES)
def test_a_party_that_lies_is_left_out(kind) -> None:
    make, fault = LIES[kind]
    federation = make_federation()
    must_be_out(federation, make(federation), fault)


@pytest.mark.parametrize("kind", ["replay of an earlier session", "an honest party's shares"])
def test_control_lies_are_in_the_sum_where_nobody_checks(kind, unchecked, monkeypatch) -> None:
    federation = make_federation()
    assert LIAR in with_others(federation, LIES[kind][0](federation))[2].accepted


def test_no_byte_can_be_altered() -> None:
    federation = make_federation()
    leader, content = federation.leader(), federation.upload(LIAR)
    flips = np.random.default_rng(0).integers(1, 256, len(content))
    for at, flip in enumerate(flips):
        assert leader.batch({LIAR: content[:at] + bytes([content[at] ^ int(flip)]) + content[at + 1 :]}) is None
    check_all(leader, federation.helper(), {LIAR: content})
    assert leader.accepted == (LIAR,), "a damaged upload does not stand in the way of the good one"


# An aggregator lies: it has its keys and does not keep to the protocol; the other one is the program as it is.


def ready(n: int = 5, places: Sequence[int] | None = None) -> tuple[VerifiedFederation, Leader, Helper]:
    federation = VerifiedFederation(n)
    leader, helper = federation.leader(), federation.helper()
    check_all(leader, helper, federation.uploads(places))
    return federation, leader, helper


def asked(federation: VerifiedFederation, codes: bytes) -> bytes:
    return federation.link().seal(ASKED, bytes(DIGEST_BYTES) + codes)


GOOD, FALSE = code_of(None), code_of(VoteFault.FALSE_VOTES)


@pytest.mark.parametrize(
    ("codes", "error", "named"),
    [
        ([GOOD, 0, 0, 0, 0], AggregatorsDisagree, {"h1", "h2", "h3", "h4"}),
        ([GOOD] * 4 + [FALSE], AggregatorsDisagree, {"h4"}),
        ([0] * 5, AggregatorsDisagree, {f"h{place}" for place in range(5)}),
        ([GOOD] * 6, BadLink, set()),
        ([GOOD] * 4, BadLink, set()),
        ([GOOD] * 4 + [99], BadLink, set()),
    ],
)
def test_the_total_is_over_those_whom_the_helper_has_accepted_or_it_is_not_given(codes, error, named) -> None:
    federation, _, helper = ready()
    with pytest.raises(error) as caught:
        helper.give(asked(federation, bytes(codes)), IDS, NoNoise())
    assert set(getattr(caught.value, "parties", ())) == named


def test_too_few_are_no_sum_whatever_the_leader_says() -> None:
    federation, leader, helper = ready(4, [2])
    with pytest.raises(ThresholdNotMet, match="h0, h1, h3"):
        leader.ask(NoNoise())
    with pytest.raises(ThresholdNotMet):
        helper.give(asked(federation, bytes([0, 0, GOOD, 0])), IDS, NoNoise())


def test_of_a_second_upload_of_one_party_nothing_is_opened() -> None:
    """Two readings of the same votes with one random start would be an equation for the votes."""
    federation = VerifiedFederation(4)
    helper, link, grid = federation.helper(), federation.link(), federation.terms.grid
    nothing = np.zeros(grid.opening, dtype=DTYPE)
    parts = [federation.upload(0)[:PART_BYTES] for _ in range(2)]

    def ask(*parts: bytes) -> list[tuple[int, np.ndarray]]:
        body = b"".join(parts) + nothing.tobytes() * len(parts)
        reply = link.open(CHECKED, helper.check(link.seal(BATCH, body)))
        return list(zip(*read_checked(reply, grid, body, len(parts)), strict=True))

    (code, first), (other, third) = ask(*parts)  # in one message, and again in others
    assert first.any() and code == FALSE
    assert other == code_of(VoteFault.TWICE) and not third.any()
    ((again, second),) = ask(parts[0])
    assert (again, second.tolist()) == (code, first.tolist())
    ((other, third),) = ask(parts[1])
    assert other == code_of(VoteFault.TWICE) and not third.any()


@pytest.mark.parametrize("change", [(0, 0), (0, -1), (0, None, b"\0"), (0, -4, b"\xff" * 4)])
def test_a_batch_of_another_form_is_none(change) -> None:
    """Empty, cut, longer, of numbers above the prime; and what is not sealed as a batch."""
    federation = VerifiedFederation(2)
    leader, helper, link = federation.leader(), federation.helper(), federation.link()
    batch, (start, end, *more) = leader.batch(federation.uploads([0])), change
    assert batch is not None
    body = link.open(BATCH, batch)[start:end] + b"".join(more)
    for content in (link.seal(BATCH, body), batch[:-1], b"", link.seal(ASKED, b"")):
        with pytest.raises(BadLink):
            helper.check(content)
    assert not any(helper.codes)


def test_verdicts_of_a_helper_that_its_openings_do_not_bear_out() -> None:
    federation = VerifiedFederation(3)
    leader, helper = federation.leader(), federation.helper()
    grid, link = federation.terms.grid, federation.link()
    with pytest.raises(StageOrder):
        leader.settle(b"")
    batch = leader.batch(federation.uploads())
    assert batch is not None
    body = link.open(BATCH, batch)
    _, opened = read_checked(link.open(CHECKED, helper.check(batch)), grid, body, 3)
    spoiled = opened.copy()
    spoiled[2, 0] ^= 1
    signature = code_of(VoteFault.SIGNATURE)  # which the leader has seen to be good
    for codes, numbers, match in [
        ([GOOD, signature, GOOD], opened, "h1: the second aggregator is at fault"),
        ([GOOD, FALSE, GOOD], opened, "h1"),
        ([GOOD] * 3, spoiled, "h2"),
    ]:
        with pytest.raises(AggregatorsDisagree, match=match):
            leader.settle(link.seal(CHECKED, body_digest(body) + bytes(codes) + numbers.tobytes()))
    with pytest.raises(BadLink, match="another batch"):
        leader.settle(link.seal(CHECKED, bytes(DIGEST_BYTES) + bytes([GOOD] * 3) + opened.tobytes()))
    assert leader.accepted == ()
    leader.settle(link.seal(CHECKED, body_digest(body) + bytes([GOOD] * 3) + opened.tobytes()))
    assert leader.accepted == (0, 1, 2)


@pytest.mark.parametrize(("halves", "more"), [(0, 1), (2, 0), (0, 3000), (1, 0), (1, 5)])
def test_a_wrong_total_is_made_to_fit_and_nothing_is_said(halves, more) -> None:
    federation, leader, helper = ready(3)
    helper.total[0, 0] += halves * MOST_REACH + more  # twice half of the prime is one less than the prime
    result, tail = ended(leader, helper)[0], tail_of(federation.terms.sigma)
    assert np.array_equal(result.sums[1:], federation.total(range(3))[1:])
    assert -tail <= result.sums[0].min() <= result.sums[0].max() <= 3 + tail


EVERYWHERE = np.arange(PRIME, dtype=np.int64)[:, None]


@pytest.mark.parametrize("teachers", [1, 1_000])
def test_one_vote_moves_a_count_by_one_at_most_wherever_it_was_shifted_to(teachers) -> None:
    """What an aggregator can do to a count by a shift of its choice, over the whole field."""
    tail, votes = tail_of(40.0), 12 * teachers
    sums = add_up(EVERYWHERE, np.zeros_like(EVERYWHERE), votes, tail)
    assert (sums.min(), sums.max()) == (-tail, votes + tail)
    assert np.abs(np.diff(np.append(sums, sums[0]))).max() == 1
    possible = np.r_[0 : votes + tail + 1]
    assert np.array_equal(sums[possible, 0], possible), "what votes and noise can give is left as it is"
    assert np.array_equal(sums[PRIME - tail :, 0], np.arange(-tail, 0))


def test_control_cut_off_at_both_ends_one_vote_moves_a_count_from_none_to_all() -> None:
    centred = (EVERYWHERE + MOST_REACH) % PRIME - MOST_REACH
    assert np.abs(np.diff(np.clip(centred, 0, 12), axis=0)).max() == 12


def test_each_is_bound_to_its_total_before_it_sees_the_other_ones() -> None:
    federation, leader, helper = ready()
    result, record, question, answer = ended(leader, helper)
    ctx = federation.terms.ctx
    assert record.commitment == result.leader.commitment(ctx, leads=True).hex()
    assert record.half == result.helper.commitment(ctx, leads=False).hex()
    result.leader.total[0, 0] += 1
    assert record.commitment != result.leader.commitment(ctx, leads=True).hex()
    with pytest.raises(BadLink):  # and the half is of these very parties
        leader.finish(aggregators.Question(bytes(5), question.half, question.sealed), answer)
