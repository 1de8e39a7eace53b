"""Words of a guarantee: whose data, which change, towards whom, with which noise, by which mechanism."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

MechanismName = Literal["gnmax", "difference", "lnmax", "confident", "interactive", "histogram"]


class Unit(StrEnum):
    """Whose influence the guarantee bounds."""

    RECORD = "record"
    """One row of one data holder. It is in one shard, which its own identity decides."""
    PATIENT = "patient"
    """All rows of one patient at one data holder. They are in one shard, which the patient's id decides."""
    PARTY = "party"
    """Everything that one data holder has. All k of its teachers change, so at most k votes move per query."""


class Neighbouring(StrEnum):
    """Which two inputs the guarantee compares. Who is in the roster is public and the same in both.

    Of a record or a patient the votes are as many in both: a teacher whose shard lost its last row still votes. Whether
    a party's votes are counted at all is what adding or removing it means; so nothing that is released may tell how
    many votes were counted, but by the noisy answers themselves.
    """

    REPLACE = "replace"
    """The unit's data is replaced by other data: a record or a patient leaves one shard, another enters one."""
    ADD_OR_REMOVE = "add_or_remove"
    """The unit's data is there in one input and not in the other. Of a party: its votes are counted, or they are not.
    Between two versions of its votes lie two such steps, and up to twice the epsilon."""


class Towards(StrEnum):
    """Who sees the release that is charged for."""

    STUDENT = "student"
    COORDINATOR = "coordinator"
    PUBLIC = "public"


class Noise(StrEnum):
    """Where the noise lives. Deployed noise is an integer; the papers analyse real noise."""

    DISCRETE = "discrete"
    CONTINUOUS = "continuous"


def votes_moved(unit: Unit, teachers_per_party: int, neighbouring: Neighbouring) -> int:
    """Most votes that one unit can move in one query.

    A party moves the votes of its k teachers. A record or a patient is in one shard, so that adding or removing it
    changes one teacher; who replaces it may belong to another shard, and then two change. This needs shards that are a
    function of each row's or patient's own identity alone (`teachers.shards`).

    A vote that is not counted is charged as one that moves. For it could have moved to one more class, which has so few
    votes that it never wins: a winner's curve holds for any number of classes and any counts, and the loss at that
    class tends to 0 as its count falls. Of a histogram one count changes and not two; the largest count changes by at
    most one; and the largest excess over M p_j too, since with M the rounded M p_j falls by 0 or 1. A difference of two
    counts alone is charged less for it (`mechanisms.Difference`).
    """
    if unit is Unit.PARTY:
        return teachers_per_party
    return min(2, teachers_per_party) if neighbouring is Neighbouring.REPLACE else 1
