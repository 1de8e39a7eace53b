"""What happens from one session to the next, with synthetic votes through the real state machines: the differencing
attack of a lying coordinator, and what the rule against it costs an honest one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from consilium.coordinator.secagg.drive import drive
from consilium.coordinator.secagg.sets import Chooser
from consilium.protocol.secagg.errors import SecAggError, SetTooClose
from consilium.protocol.secagg.roster import Roster
from consilium.protocol.secagg.stages import Stage
from tests.secagg.network import Federation, Network


@contextmanager
def sets_unchecked() -> Iterator[None]:
    """The parties of before: who is in a sum is not held against earlier ones."""
    with patch("consilium.party.secagg.once.check_set", lambda tx, roster, terms, survivors: None):
        yield


def moved(queries: np.ndarray, ulps: int) -> np.ndarray:
    """The same questions with other bytes: one feature moved by so many units in the last place of float32."""
    copy = queries.copy()
    for _ in range(ulps):
        copy[:, 0] = np.nextafter(copy[:, 0], np.float32(np.inf))
    return copy


def differencing(federation: Federation, left_out: Sequence[str]) -> dict[str, float]:
    """The fraction of each party's votes that a coordinator reads that sums over all, and then over all but one.

    Each sum is on the same questions, one unit in the last place further, so that to the parties they are new ones.
    Votes move with no question (`Federation.votes`), as they hardly do with real teachers.
    """
    queries = federation.queries
    read = dict.fromkeys(left_out, 0.0)
    everybody = drive(federation.machine(), Network(federation).send).sums
    for step, name in enumerate(left_out, 1):
        federation.queries = moved(queries, step)
        others = [other for other in federation.names if other != name]
        try:
            without = drive(federation.machine(invited=others), Network(federation).send).sums
        except SecAggError:
            continue
        read[name] = float((everybody - without == federation.votes[name]).all(axis=1).mean())
    return read


@dataclass
class Sequel:
    """Sessions one after the other: sizes of the sums that were given, and how many were refused."""

    given: list[int]
    refused: int
    sets: list[frozenset[int]]


def choices(
    roster: Roster,
    sessions: int,
    share: float,
    spare: int,
    rng: np.random.Generator,
    earlier: Sequence[frozenset[int]] = (),
) -> Sequel:
    """The coordinator's choices alone, with round(share * n) parties lost at random in each session."""

    def session(lost: Sequence[int], choose: Chooser) -> frozenset[int]:
        return frozenset(choose([place for place in range(roster.n) if place not in set(lost)]))

    return _sequel(roster, sessions, share, spare, rng, session, earlier)


def availability(folder: Path, n: int, sessions: int, share: float, spare: int, seed: int, **changes) -> Sequel:
    """The same with real sessions, on new queries each."""
    federation = Federation(folder, n, teachers=1, **changes)
    queries, rng = federation.queries, np.random.default_rng(seed)

    def session(lost: Sequence[int], choose: Chooser) -> frozenset[int]:
        federation.queries = moved(federation.queries, 1) if federation.queries is not queries else queries + 1
        network = Network(federation, lost={Stage.SHARE: [federation.roster.name(place) for place in lost]})
        result = drive(federation.machine(choose=choose), network.send)
        assert np.array_equal(result.sums, federation.total(result.survivors))
        return frozenset(federation.roster.index(name) for name in result.survivors)

    return _sequel(federation.roster, sessions, share, spare, rng, session)


def _sequel(
    roster: Roster,
    sessions: int,
    share: float,
    spare: int,
    rng: np.random.Generator,
    session: Callable[[Sequence[int], Chooser], frozenset[int]],
    earlier: Sequence[frozenset[int]] = (),
) -> Sequel:
    found = Sequel([], 0, list(earlier))
    for _ in range(sessions):
        lost = rng.choice(roster.n, round(share * roster.n), replace=False).tolist()
        choose = Chooser(
            roster.n, roster.u_min, roster.least_difference, tuple(found.sets), spare, int(rng.integers(2**31))
        )
        try:
            summed = session(lost, choose)
        except SetTooClose:
            found.refused += 1
            continue
        found.given.append(len(summed))
        found.sets += [summed] if summed not in found.sets else []
    return found
