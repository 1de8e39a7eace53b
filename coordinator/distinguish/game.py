"""The game of the definition: many draws of a mechanism in two worlds that differ by one unit, told apart by their
likelihood ratio.

Who plays knows the votes of both worlds. Of counts with Gaussian noise the ratio is known; of labels it is estimated on
draws of its own, query by query, as if queries were independent: a poor ratio makes an attack weak, and no bound wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from consilium.accounting.events import Mechanism
from consilium.coordinator.distinguish.bounds import Scores
from consilium.coordinator.draw import Drawn, draw, exact
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import NoiseSource

_NUMBERS = 1 << 21
"""Counts that are drawn in one go."""


@dataclass(frozen=True)
class Pair:
    """Histograms int64 (queries, classes) with the target in them and without it.

    probabilities : float64 (queries, classes), what the student says where a mechanism needs it; public, so equal in
        both. answers : after so many labels nothing is answered any more; None for no such limit.
    """

    name: str
    there: np.ndarray = field(repr=False)
    away: np.ndarray = field(repr=False)
    probabilities: np.ndarray | None = field(default=None, repr=False)
    answers: int | None = None


def play(mechanism: Mechanism, pair: Pair, runs: int, learn: int, noise: NoiseSource) -> Scores:
    """Scores of `runs` releases in each world; `learn` more of each, of which labels' ratios are learnt.

    All are drawn in one call of the mechanism, so noise that is used again within a call is shared by runs and not
    seen: tests of the mechanisms' laws see it.
    """
    worlds = (pair.there, pair.away)
    if mechanism.count_sigma > 0:
        shift = (pair.there - pair.away).astype(np.float64)
        middle = (shift * (pair.there + pair.away)).sum() / 2
        there, away = (
            np.concatenate(
                [
                    (np.tensordot(drawn.counts, shift, axes=2) - middle).round(9)
                    for drawn in _blocks(mechanism, pair, votes, runs, noise)
                    if drawn.counts is not None
                ]
            )
            for votes in worlds
        )
        return Scores(there, away)
    parts = [part for part in (pair.there, pair.away, pair.probabilities) if part is not None]
    kinds = np.unique(np.concatenate(parts, axis=1), axis=0, return_inverse=True)[1].ravel()
    table = np.subtract(*(_logs(_outcomes(mechanism, pair, votes, learn, noise), kinds, pair) for votes in worlds))
    there, away = (
        # rounded, so that equal runs tie in spite of summation
        table[kinds, _outcomes(mechanism, pair, votes, runs, noise)].sum(axis=1).round(9)
        for votes in worlds
    )
    return Scores(there, away)


def _blocks(mechanism: Mechanism, pair: Pair, votes: np.ndarray, runs: int, noise: NoiseSource) -> Iterator[Drawn]:
    """What is released on these votes, with runs in front: labels, reinforced (runs, queries), counts (runs, queries,
    classes) or None."""
    most = max(1, _NUMBERS // votes.size)
    for start in range(0, runs, most):
        size = min(most, runs - start)
        probabilities = None if pair.probabilities is None else np.tile(pair.probabilities, (size, 1))
        tiled = np.tile(votes, (size, 1))
        drawn = draw(mechanism, exact(tiled), noise, room=len(tiled), probabilities=probabilities)
        noisy = None if drawn.counts is None else drawn.counts.reshape(size, *votes.shape)
        yield Drawn(drawn.labels.reshape(size, -1), drawn.reinforced.reshape(size, -1), noisy)


def _outcomes(mechanism: Mechanism, pair: Pair, votes: np.ndarray, runs: int, noise: NoiseSource) -> np.ndarray:
    """int16 (runs, queries): none, a label of the teachers, one of the student, or "not answered any more"."""
    classes, blocks = votes.shape[1], list[np.ndarray]()
    for drawn in _blocks(mechanism, pair, votes, runs, noise):
        outcomes = np.where(drawn.labels == NO_LABEL, 0, 1 + drawn.labels + classes * drawn.reinforced)
        if pair.answers is not None:
            answered = (drawn.labels != NO_LABEL) & ~drawn.reinforced
            outcomes[np.cumsum(answered, axis=1) - answered >= pair.answers] = 2 * classes + 1
        blocks.append(outcomes.astype(np.int16))
    return np.concatenate(blocks)


def _logs(outcomes: np.ndarray, kinds: np.ndarray, pair: Pair) -> np.ndarray:
    """Log probability float64 (kinds, outcomes) of each outcome; half a count is added everywhere."""
    width = 2 * pair.there.shape[1] + 2
    counts = np.zeros((int(kinds.max()) + 1, width))
    for query, kind in enumerate(kinds):
        counts[kind] += np.bincount(outcomes[:, query], minlength=width)
    counts += 0.5
    return np.log(counts / counts.sum(axis=1, keepdims=True))
