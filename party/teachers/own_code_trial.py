"""How a teacher that others wrote behaves on the party's own rows: for the party's eyes only, in a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from consilium.data.private_rows import Rows
from consilium.party.teachers.builders import Teacher
from consilium.party.teachers.ensemble import not_fitted, train_all
from consilium.party.teachers.own_teacher import OwnCode
from consilium.protocol.parties.teachers import TeacherKind

_ALONE = 20
"""Questions that are asked one by one."""


class OwnCodeTrial(NamedTuple):
    """not_fitted: teachers that are constant, since the estimator could not be fitted to their shards. changed_votes:
    of one teacher that was trained again with the same seed. changed_alone: votes that differ when a question is asked
    alone."""

    not_fitted: int
    changed_votes: int
    changed_alone: int

    def lines(self, teachers: int) -> list[str]:
        """What to tell; nothing where all is well."""
        told = []
        if self.not_fitted:
            told.append(
                f"your estimator could not be fitted to {self.not_fitted} of {teachers} shards (too few rows of a"
                " class, say): these teachers always say their most frequent class."
            )
        if self.changed_votes:
            told.append(
                f"trained again with the same seed, it gives {self.changed_votes} other votes: give it a random_state,"
                " or a coordinator that comes again after you lost state/ gets other answers, which count once more."
            )
        if self.changed_alone:
            told.append(
                f"{self.changed_alone} votes change when a question is asked alone: it must judge each row by itself."
            )
        return told


def try_again(
    rows: Rows,
    spec: TeacherKind,
    parts: Sequence[np.ndarray],
    seeds: Sequence[int],
    teachers: Sequence[Teacher],
    x: np.ndarray,
) -> OwnCodeTrial | None:
    """Train the teacher of the largest part once more, and ask it rows `x` float64 (n, inputs) one by one; None for a
    kind that a coordinator may ask for. Other arguments as of `ensemble.train_all`."""
    if not isinstance(spec, OwnCode):
        return None
    at = max(range(len(parts)), key=lambda index: len(parts[index]))
    first = teachers[at]
    (again,) = train_all(rows, spec, [parts[at]], [seeds[at]], int(rows.y.max()) + 1)
    votes = first.predict(x)  # pyright: ignore[reportAttributeAccessIssue]
    changed = int((again.predict(x) != votes).sum())  # pyright: ignore[reportAttributeAccessIssue]
    alone = [first.predict(x[row : row + 1])[0] for row in range(min(len(x), _ALONE))]  # pyright: ignore
    return OwnCodeTrial(not_fitted(rows, parts, teachers), changed, int((np.array(alone) != votes[:_ALONE]).sum()))
