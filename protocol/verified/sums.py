"""The sum of the accepted parties' votes, from the totals of both aggregators."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.verified.errors import VoteFault, WrongSum
from consilium.protocol.verified.field import PRIME
from consilium.protocol.verified.session import VerifiedSession


@dataclass(frozen=True)
class VerifiedSum:
    """sums: int64 (queries, classes), with the aggregators' noise where the session has it. accepted: names of those
    whose votes are in it. left_out: why, by name; who sent nothing is in neither."""

    sums: np.ndarray = field(repr=False)
    accepted: tuple[str, ...]
    left_out: dict[str, VoteFault]


def add_up(session: VerifiedSession, one: np.ndarray, other: np.ndarray, accepted: int) -> np.ndarray:
    """Totals modulo the prime, (queries, classes) each -> int64, the votes of so many parties with the noise.

    Raises
    ------
    WrongSum : a count is out of reach, or without noise a row has another number of votes than the parties gave.
    """
    most, tail = accepted * session.teachers, session.tail
    sums = (one.astype(np.int64) + other) % PRIME
    sums[sums > PRIME - 1 - tail] -= PRIME
    wrong = (sums > most + tail).any()
    if session.sigma == 0:
        wrong = wrong or (sums.sum(axis=1) != most).any()
    if wrong:
        raise WrongSum()
    return sums
