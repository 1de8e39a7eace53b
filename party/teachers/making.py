"""From a party's rows to its teachers and what their scores are held against: the same steps wherever it is done."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from consilium.data.private_rows import Rows
from consilium.party.teachers.ballot import thresholds_of
from consilium.party.teachers.builders import Teacher
from consilium.party.teachers.ensemble import train_all
from consilium.protocol.digests import canonical_digest
from consilium.protocol.parties.ballot import BallotKind
from consilium.protocol.parties.teachers import TeacherKind
from consilium.protocol.rows.schema import Schema


def make(
    rows: Rows,
    schema: Schema,
    spec: TeacherKind,
    ballot: BallotKind,
    reference: np.ndarray,
    parts: Sequence[np.ndarray],
    seeds: np.random.SeedSequence,
) -> tuple[list[Teacher], np.ndarray | None]:
    """One teacher for each of `parts` (row indices int64), and their thresholds (`party.teachers.ballot`).

    `rows`: as they were loaded. `reference`: public rows float32 (rows, features), none where the ballot needs none.
    """
    own = [int(seed.generate_state(1)[0]) for seed in seeds.spawn(len(parts))]
    teachers = train_all(rows.represented(schema, parts), spec, parts, own, len(schema.classes))
    return teachers, thresholds_of(teachers, schema, ballot, reference)


def simulated_seeds(seed: int, party: str) -> np.random.SeedSequence:
    """Of the estimators of a simulated party: by the run's seed and its name, never by its data. Known to everybody."""
    name = int(canonical_digest(json.dumps([party, "teacher"])), 16)
    return np.random.SeedSequence([seed, name]).spawn(2)[1]
