"""Words of a guarantee: whose data, which change, towards whom, and with which noise."""

from __future__ import annotations

from enum import StrEnum


class Unit(StrEnum):
    """Whose influence the guarantee bounds."""

    RECORD = "record"
    """One row in one shard. It changes one teacher, so at most one vote moves per query."""
    PARTY = "party"
    """Everything that one data holder has. All k of its teachers change, so at most k votes move per query."""


class Neighbouring(StrEnum):
    """Which two inputs the guarantee compares. The number of teachers is public and the same in both."""

    REPLACE = "replace"
    """The unit's data is replaced by other data: votes move from class to class, none appears or disappears."""


class Towards(StrEnum):
    """Who sees the release that is charged for."""

    STUDENT = "student"
    COORDINATOR = "coordinator"
    PUBLIC = "public"


class Noise(StrEnum):
    """Where the noise lives. Deployed noise is an integer; the papers analyse real noise."""

    DISCRETE = "discrete"
    CONTINUOUS = "continuous"


def votes_moved(unit: Unit, teachers_per_party: int) -> int:
    """Most votes that one unit can move in one query.

    >>> votes_moved(Unit.RECORD, 4), votes_moved(Unit.PARTY, 4)
    (1, 4)
    """
    return teachers_per_party if unit is Unit.PARTY else 1
