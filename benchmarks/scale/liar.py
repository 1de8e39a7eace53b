"""What one liar among thirty parties changes, in every mode (rows 3 and 4 of what was broken): labels, and a bit.

29 parties give one honest vote to each of 100 queries with three classes. The thirtieth, whose own program checks
nothing, gives two votes, or thirty, or takes twenty from one class and gives them to another, so that the row has one
vote all the same. Labels are those of the highest count; *changed* are those that differ from what the same votes and
the same noise give with an honest thirtieth party. The bit: the liar takes 20 from a class on which 19 or 20 honest
parties agree; does whether the sum comes to an end tell which? Noise: sigma 5, of the parties in shares.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from consilium.party import masked_session
from consilium.protocol.choices import counted, fault
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.noise import SeededNoise
from consilium.sums.masks.machine import drive
from tests.protocol.verified.federation import VerifiedFederation
from tests.protocol.verified.liars import Forger
from tests.secagg.network import Federation, Network, make_queries

PARTIES, CLASSES, QUERIES, SIGMA = 30, 3, 100, 5.0
LIES = {"honest (control)": [0, 0, 1], "two votes": [0, 1, 1], "thirty votes": [0, 0, 30], "-20, +21": [-20, 0, 21]}


@dataclass(frozen=True)
class Told:
    """outcome: in words, the same whatever honest votes are. sums: with the liar's votes, if there are any; noise and
    clipping in them. honest: what they are with the thirtieth party's honest votes, or without it where it is out."""

    outcome: str
    sums: np.ndarray | None = None
    honest: np.ndarray | None = None

    @property
    def changed(self) -> str:
        """Labels that differ."""
        if self.sums is None or self.honest is None:
            return "-"
        return str(int((self.sums.argmax(axis=1) != self.honest.argmax(axis=1)).sum()))


def honest_votes(for_first: np.ndarray) -> np.ndarray:
    """int64 (29, queries, 3): so many parties for the first class, the others for the second."""
    votes = np.zeros((PARTIES - 1, len(for_first), CLASSES), dtype=np.int64)
    first = np.arange(PARTIES - 1)[:, None] < for_first
    votes[..., 0], votes[..., 1] = first, ~first
    return votes


def in_clear(votes: np.ndarray, lie: np.ndarray) -> Told:
    """A reply names one class for each teacher: two votes are another shape, and taking away has no form at all."""
    total = votes.sum(axis=0)
    said = np.repeat(np.tile(np.arange(CLASSES), len(lie)), np.maximum(lie, 0).ravel()).reshape(len(lie), -1)
    choices = said.astype(np.uint8)
    wrong = fault(choices, len(lie), CLASSES, 1)
    if wrong is None:
        return Told("taken", total + counted(choices, CLASSES), total + lie)
    return Told("left out by name", total, total)


@contextmanager
def unchecked():
    """A party whose program does not look at its own votes."""
    true = masked_session.checked_votes
    masked_session.checked_votes = lambda votes, terms, weight=1: votes.astype(np.int64)
    try:
        yield
    finally:
        masked_session.checked_votes = true


def masked(votes: np.ndarray, lie: np.ndarray, sigma: float = 0.0) -> Told:
    """Under masks; with noise nothing is held against the number of votes."""
    noise = SeededNoise(0)
    with tempfile.TemporaryDirectory() as folder, unchecked():
        rows = make_queries(len(lie))
        federation = Federation(Path(folder), PARTIES, CLASSES, 1, queries=rows, noise=noise.gaussian)
        federation.votes = dict(zip(federation.names, [*votes, lie], strict=True))
        terms = federation.terms(sigma=sigma, noise_shares=federation.roster.u_min if sigma else 0)
        try:
            sums = drive(federation.machine(terms), Network(federation).send).sums
        except ConsiliumError as error:
            return Told(f"no sum ({type(error).__name__})")
    truth = np.tile([0, 0, 1], (len(lie), 1))
    return Told("taken", sums, sums - lie + truth if sigma else votes.sum(axis=0) + truth)


def noisy(votes: np.ndarray, lie: np.ndarray) -> Told:
    """Masked, with noise of the parties."""
    return masked(votes, lie, SIGMA)


def proved(votes: np.ndarray, lie: np.ndarray) -> Told:
    """The liar forges the proof as well as it can."""
    federation = VerifiedFederation(PARTIES, len(lie), CLASSES, 1, no_votes=True)
    federation.votes = dict(zip(federation.names[:-1], votes, strict=True))
    uploads = federation.uploads(federation.names[:-1])
    liar = federation.names[-1]
    uploads[liar] = Forger(federation, liar)(lie)
    leader, helper = federation.leader(), federation.helper()
    for name, upload in uploads.items():
        leader.accept(name, upload)
    while (batch := leader.batch()) is not None:
        leader.settle(helper.check(batch))
    result = leader.finish(helper.give(leader.ask()))
    total = votes.sum(axis=0)
    if liar in result.left_out and liar in helper.left_out:
        return Told("left out by name", result.sums, total)
    return Told("taken", result.sums, total + lie)


MODES: dict[str, Callable[[np.ndarray, np.ndarray], Told]] = {
    "plaintext": in_clear,
    "secure": masked,
    "distributed": noisy,
    "verified": proved,
}


def main() -> None:
    """Print the table."""
    votes = honest_votes(np.random.default_rng(0).integers(11, 25, QUERIES))
    print(f"{PARTIES - 1} honest parties and a liar, {QUERIES} queries")
    print(f"{'mode':<14}{'the liar gives':<20}{'its votes':<24}{'labels changed':>16}{'tells a bit':>14}")
    for mode, tell in MODES.items():
        for name, row in LIES.items():
            told = tell(votes, np.tile(row, (QUERIES, 1)))
            bits = {tell(honest_votes(np.array([count])), np.array([row])).outcome for count in (19, 20)}
            print(f"{mode:<14}{name:<20}{told.outcome:<24}{told.changed:>16}{'no' if len(bits) == 1 else 'YES':>14}")


if __name__ == "__main__":
    main()
