"""From a party's rows to shards, of which each trains a teacher; and from a teacher's scores to its one vote, by the
federation's voting rule (`protocol.voting_rule`).

Under "top" a vote is the teacher's prediction. Under "relative" each class's score is held against a threshold, a
quantile of the teacher's own scores for that class on the reference rows. Thresholds are computed when the teachers are
trained and kept with them: whoever votes needs no reference row.

Equal scores are decided by a hash of what is public. It favours no class, and no randomness of the party's own is left
that could tell anything. A teacher that knows one class only, since its shard has no other, has nothing to compare:
all its votes are by this lot, which is as good as an abstention, and the number of votes stays public."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import numpy as np

from consilium.models.linear import ConstantTeacher, RidgeTeacher, Teacher
from consilium.models.own_model import OwnClassifier
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import DataError
from consilium.protocol.queries import canonical_queries, query_ids, query_set_hash, why_no_reference
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema
from consilium.protocol.voting_rule import VotingRule

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Latest(Generic[K, V]):
    """One value and the key that it was made for; no more than one, however large.

    >>> squares: Latest[int, int] = Latest()
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 0), squares.get(2, lambda: 4)
    (9, 9, 4)
    """

    def __init__(self) -> None:
        self._held: tuple[K, V] | None = None

    def get(self, key: K, make: Callable[[], V]) -> V:
        held = self._held  # another thread may put another here
        if held is None or held[0] != key:
            self._held = held = None  # let go of the old one first
            self._held = held = (key, make())
        return held[1]


_inputs: Latest[tuple[str, str], np.ndarray] = Latest()
_checked: Latest[tuple[int, str, int], tuple[np.ndarray, np.ndarray, tuple[str, ...]]] = Latest()
_references: Latest[tuple[int, str, int], tuple[np.ndarray, str]] = Latest()


def _fixed(array: np.ndarray) -> bool:
    """Whether nobody can write to it, so that what was computed of it stays true: many simulated parties get the same
    array. Whoever keeps that must keep the array, whose place in memory is its name."""
    return not array.flags.writeable and array.base is None


def query_inputs(schema: Schema, queries: np.ndarray, query_set: str) -> np.ndarray:
    """`schema.inputs` of canonical queries (n, features) whose hash is `query_set`; not to be written to.

    Those of the last set are kept, and no more: queries are public, and it is a function of them and the schema alone.
    """

    def inputs_of_all() -> np.ndarray:
        inputs = schema.inputs(queries)
        inputs.setflags(write=False)
        return inputs

    return _inputs.get((schema.digest(), query_set), inputs_of_all)


def checked_queries(queries: np.ndarray, query_set: str, features: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """The canonical form of queries (n, features), and their ids. Of an array that nobody can write to, the last
    is kept: many simulated parties get the same. Raises Refused (MALFORMED): they are no queries of so many features,
    or not those of this hash."""

    def check() -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
        try:
            canonical = canonical_queries(queries, features)
        except DataError:
            raise Refused(Rule.MALFORMED) from None
        if query_set_hash(canonical) != query_set:
            raise Refused(Rule.MALFORMED)
        return queries, canonical, tuple(query_ids(canonical))

    key = id(queries), query_set, features
    _, canonical, ids = _checked.get(key, check) if _fixed(queries) else check()
    return canonical, ids


LEAST_PROBABILITY = 1e-12
"""Smaller ones count as this: their logarithm is a number."""
LARGEST_SCORE = 1e9
"""Rows that are far from all others give larger ones: their differences must stay numbers."""
EQUAL = 1e-9
"""Scores that are this close are equal: what a library gives for a row may differ in its last digits from batch to
batch."""


@dataclass(frozen=True)
class Lot:
    """What decides between equal scores: the party's name, the federation's digest, ids of the queries: all public."""

    party: str
    federation: str
    query_ids: Sequence[str]

    def draw_all(self, teacher: int, queries: np.ndarray, equal: np.ndarray) -> np.ndarray:
        """The same for each of `queries` int64 (ties,), of the classes where `equal` bool (ties, classes) is."""
        return draw_lots([self], np.zeros(len(queries), dtype=np.int64), np.full(len(queries), teacher), queries, equal)

    def head(self, teacher: int) -> bytes:
        """Of what is hashed, JSON of party, teacher, federation and query: what is the same for all queries."""
        return json.dumps([self.party, teacher, self.federation]).removesuffix("]").encode() + b", "

    def tail(self, query: int) -> bytes:
        """The rest, the same for all parties and teachers."""
        return _tail(self.query_ids[query])


@lru_cache(maxsize=4096)  # many simulated parties are asked the same
def _tail(query_id: str) -> bytes:
    return json.dumps(query_id).encode() + b"]"


def draw_lots(
    lots: Sequence[Lot], which: np.ndarray, teachers: np.ndarray, queries: np.ndarray, equal: np.ndarray
) -> np.ndarray:
    """One of the equal classes for each of many ties, int64 (ties,).

    lots: of parties that were asked the same queries. which, teachers, queries: of each tie, int (ties,), the lot by
    its position. equal: bool (ties, classes), at least one of each."""
    if not len(equal):
        return np.zeros(0, dtype=np.int64)
    most = int(teachers.max()) + 1
    pairs, places = (which.astype(np.int64) * most + teachers).tolist(), queries.tolist()
    heads = {pair: lots[pair // most].head(pair % most) for pair in set(pairs)}
    tails = {query: lots[0].tail(query) for query in set(places)}
    digests = [hashlib.sha256(heads[pair] + tails[query]).digest() for pair, query in zip(pairs, places, strict=True)]
    drawn = np.frombuffer(b"".join(digests), dtype=">u8")[::4]  # of 64 bits: no class is favoured by more than 2^-54
    chosen = equal.cumsum(axis=1) > (drawn % equal.sum(axis=1).astype(np.uint64)).astype(np.int64)[:, None]
    return chosen.argmax(axis=1)


class Decides(Protocol):
    """What decides between equal scores: a `Lot`, or whoever wants to know which were equal."""

    def draw_all(self, teacher: int, queries: np.ndarray, equal: np.ndarray) -> np.ndarray: ...


def check_reference(voting_rule: VotingRule, schema: Schema, reference: np.ndarray) -> None:
    """Raise Refused (MALFORMED) for a voting rule that is none for these classes, or reference rows that are none
    for it."""
    try:
        voting_rule.check_classes(len(schema.classes))
    except ValueError as error:
        raise Refused(Rule.MALFORMED, detail=f"train request: {error}") from None
    check = lambda: (reference, why_no_reference(reference, schema, voting_rule.reference_rows))  # noqa: E731
    key = id(reference), schema.digest(), voting_rule.reference_rows
    _, reason = _references.get(key, check) if _fixed(reference) else check()
    if reason:
        raise Refused(Rule.MALFORMED, detail=f"train request: {reason}")


def thresholds_of(
    teachers: Sequence[Teacher], schema: Schema, voting_rule: VotingRule, reference: np.ndarray
) -> np.ndarray | None:
    """What each teacher's scores are held against, float64 (teachers, classes); None for a voting rule without
    thresholds. `reference` float32 (rows, features), as `check_reference` takes them.

    Of two classes only the second has one: the quantile of the log-odds, so that the teacher votes for it exactly where
    its log-odds are above."""
    if not voting_rule.relative:
        return None
    classes = len(schema.classes)
    inputs = query_inputs(schema, reference, query_set_hash(reference))
    orders, thresholds = voting_rule.orders(classes), np.zeros((len(teachers), classes))
    for limits, teacher in zip(thresholds, teachers, strict=True):
        seen = np.asarray(teacher.classes_, dtype=np.int64)
        if len(seen) < 2:
            continue
        scores = class_scores(teacher, inputs)
        if classes == 2:
            limits[1] = np.quantile(scores[:, 1] - scores[:, 0], orders[1])
        else:
            limits[seen] = np.quantile(scores, orders[seen], axis=0).diagonal()
    return thresholds


def votes_of_teachers(trained: TeacherSet, x: np.ndarray, lot: Decides) -> np.ndarray:
    """The class that each teacher votes for, int64 (teachers, queries). `x` float (queries, inputs). Secret."""
    if trained.thresholds is None:
        return np.array([teacher.predict(x) for teacher in trained.teachers], dtype=np.int64)
    winners = np.zeros((len(trained.teachers), len(x)), dtype=np.int64)
    for index, (teacher, limits) in enumerate(zip(trained.teachers, trained.thresholds, strict=True)):
        seen = np.asarray(teacher.classes_, dtype=np.int64)
        above = np.zeros((len(x), len(limits)))
        if len(seen) > 1:
            above = np.full(above.shape, -np.inf)
            above[:, seen] = class_scores(teacher, x) - limits[seen]
        equal = above >= above.max(axis=1, keepdims=True) - EQUAL
        winners[index] = equal.argmax(axis=1)
        ties = np.flatnonzero(equal.sum(axis=1) > 1)
        winners[index, ties] = lot.draw_all(index, ties, equal[ties])
    return winners


def class_scores(teacher: Teacher, x: np.ndarray) -> np.ndarray:
    """How much each class that the teacher has seen is supported by each row, finite float64 (rows, seen)."""
    if isinstance(teacher, RidgeTeacher):
        scores = teacher.scores(x)  # its probabilities are cut off at 0, where a rare class mostly is
    elif exact := getattr(teacher, "log_probabilities", None):  # of a network, however sure it is
        scores = exact(x)
    else:
        scores = np.log(np.maximum(teacher.predict_proba(x), LEAST_PROBABILITY))
    return np.clip(np.nan_to_num(scores.astype(np.float64)), -LARGEST_SCORE, LARGEST_SCORE)


@dataclass(frozen=True)
class TeacherSet:
    """Teachers and what they were made from.

    digest: of this very set, so of the votes that it gives. thresholds: float64 (teachers, classes), see
    `thresholds_of`; None where each teacher votes for its own prediction."""

    schema: Schema
    made_from: str
    digest: str
    teachers: list[Teacher] = field(repr=False)
    thresholds: np.ndarray | None = field(default=None, repr=False)


def not_fitted(teachers: Sequence[Teacher | None]) -> int:
    """How many are constant since their estimator could not be fitted."""
    return sum(isinstance(teacher, ConstantTeacher) and bool(teacher.failed) for teacher in teachers)


def unanswered(teachers: Sequence[Teacher]) -> Counter[str]:
    """Why estimators of the party's own gave no answer -> to how many questions; from here on they count anew."""
    silent: Counter[str] = Counter()
    for teacher in teachers:
        if isinstance(teacher, OwnClassifier):
            silent.update(teacher.silent)
            teacher.silent.clear()
    return silent


def simulated_seeds(seed: int, party: str) -> np.random.SeedSequence:
    """Of the estimators of a simulated party: by the run's seed and its name, never by its data. Known to everybody."""
    name = int(canonical_digest(json.dumps([party, "teacher"])), 16)
    return np.random.SeedSequence([seed, name]).spawn(2)[1]


def split(identities: np.ndarray, count: int, secret: bytes) -> list[np.ndarray]:
    """Row indices int64 of each of `count` shards: disjoint, and every row is in one.

    Their order follows from the identities, and not from the file: where one of several equal rows is taken away, the
    others have the identities that are left (`of_rows`), and a shard must be the same whichever of them it was.

    identities : uint8 (n, 32), one row's each. secret : 32 bytes, independent of the data.

    >>> same = np.zeros((3, 32), dtype=np.uint8)
    >>> sorted(len(part) for part in split(same, 2, bytes(32)))
    [0, 3]
    """
    if count == 1:
        return [np.arange(len(identities))]
    drawn = [hmac.digest(secret, identity.tobytes(), "sha256") for identity in identities]
    parts: list[list[int]] = [[] for _ in range(count)]
    for row in sorted(range(len(drawn)), key=drawn.__getitem__):
        parts[int.from_bytes(drawn[row]) % count].append(row)
    return [np.array(part, dtype=np.int64) for part in parts]


def simulated_secret(seed: int, party: str) -> bytes:
    """The secret of a simulated party, the same in every run with this seed, and known to everybody."""
    return hashlib.sha256(json.dumps([seed, party, "shards"]).encode()).digest()
