"""From a party's rows to its teachers: one on each shard, and what their scores are held against."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Sequence

import numpy as np

from consilium.data.private_rows import Rows
from consilium.models.keys import TeacherKind
from consilium.models.own_model import OwnCodeTeacher
from consilium.models.table import fit_teachers
from consilium.models.teachers import ConstantTeacher, Teacher
from consilium.party.voting import thresholds_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.schema import Schema
from consilium.protocol.voting_rule import VotingRule


def not_fitted(teachers: Sequence[Teacher | None]) -> int:
    """How many are constant since their estimator could not be fitted."""
    return sum(isinstance(teacher, ConstantTeacher) and bool(teacher.failed) for teacher in teachers)


def unanswered(teachers: Sequence[Teacher]) -> Counter[str]:
    """Why estimators of the party's own gave no answer -> to how many questions; from here on they count anew."""
    silent: Counter[str] = Counter()
    for teacher in teachers:
        if isinstance(teacher, OwnCodeTeacher):
            silent.update(teacher.silent)
            teacher.silent.clear()
    return silent


def make(
    rows: Rows,
    schema: Schema,
    spec: TeacherKind,
    voting_rule: VotingRule,
    reference: np.ndarray,
    parts: Sequence[np.ndarray],
    seeds: Sequence[int],
) -> tuple[list[Teacher], np.ndarray | None]:
    """One teacher for each of `parts` (row indices int64), and their thresholds (`party.voting`).

    `rows`: as they were loaded. `reference`: public rows float32 (rows, features), none where the voting rule needs
    none."""
    teachers = fit_teachers(spec, rows.represented(schema, parts), parts, seeds, len(schema.classes))
    return teachers, thresholds_of(teachers, schema, voting_rule, reference)


def states_of(seeds: np.random.SeedSequence, count: int) -> list[int]:
    """A seed for each of so many estimators."""
    return [int(seed.generate_state(1)[0]) for seed in seeds.spawn(count)]


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
