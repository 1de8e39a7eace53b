"""The exact histogram from noisy answers to one question, asked again and again (Wang et al. 2022, arXiv 2209.10732).

Noise that is drawn anew is averaged away. Three cases: the coordinator answers a row once and repeats what it said, as
this program does; it answers anew each time, uncharged, which is the control; and the attacker asks near-duplicates of
one row, where the public rows are not fixed, until the query budget is used up. The last is charged, and so is covered
by the guarantee: it tells what all parties together say of one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from consilium.accounting.target import worst_case
from consilium.coordinator.events import NoLog
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.mechanisms.base import Mechanism
from consilium.coordinator.memory_ledger import MemoryLedger
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import SeededNoise
from consilium.simulations.attack.membership import OnRows, drawn_on, outcome_law
from consilium.simulations.attack.shadows import Shadows
from consilium.simulations.release import RecordedVotes

TIMES = (1, 100, 10_000, 1_000_000)
"""How often one question is answered anew, in the control."""
_ROWS = 6
_STEPS = 60


@dataclass(frozen=True)
class Recovered:
    """way: how it was asked. times: answers to one question. error: votes by which a count is missed in the mean.
    exact: share of histograms that come out to the last vote. epsilon: of so many answers, as they would be charged;
    None where that is unbounded."""

    way: str
    times: int
    error: float
    exact: float
    epsilon: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "way": self.way,
            "times": self.times,
            "votes_missed": self.error,
            "exact": self.exact,
            "epsilon": self.epsilon,
        }


def recovered_votes(everything: Shadows) -> list[Recovered]:
    """Of a few public rows by lot, the ways above; nothing where the noise is in the sums, or none protects."""
    case, mechanism = everything.case, everything.case.config.mechanism
    if case.config.noise_in_sums or not mechanism.private:
        return []
    rows = np.sort(everything.generator(41).permutation(len(everything.rows))[:_ROWS])
    votes = everything.whole[:, rows].sum(axis=0, dtype=np.int64)
    once = _through_the_service(everything, rows, votes)
    near = case.config.query_budget.queries
    results = [_result(everything, "answered once, asked 100 times", 1, once, votes)]
    for way, counts in (("answered anew each time", TIMES), ("near-duplicates, within the budget", (near,))):
        for times in counts:
            seeds = np.random.SeedSequence([everything.seed, times, len(way)]).generate_state(len(votes)).tolist()
            guess = np.stack([_estimate(mechanism, *pair, times) for pair in zip(votes, seeds, strict=True)])
            results.append(_result(everything, way, times, guess, votes))
    return results


def _through_the_service(everything: Shadows, rows: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """Ask the real label service 100 times and take the mean of all it says: of counts, or of labels."""
    case, ledger = everything.case, MemoryLedger()
    collector = RecordedVotes(case, OnRows(rows, votes))
    service = LabelService(
        case.config,
        ledger,
        lambda batch: SeededNoise(100 * everything.seed + batch),
        collector,
        len(case.parties),
        NoLog(),
    )
    asked = case.pool_x[rows]
    seen = [service.ask(asked) for _ in range(100)]
    if seen[0].histograms is not None:
        return np.mean([answers.histograms.counts for answers in seen if answers.histograms is not None], axis=0)
    shares = np.mean([np.eye(votes.shape[1] + 1)[answers.labels] for answers in seen], axis=0)[:, :-1]
    return np.stack(
        [
            _inverted(case.config.mechanism, share, histogram.sum())
            for share, histogram in zip(shares, votes, strict=True)
        ]
    )


def _estimate(mechanism: Mechanism, histogram: np.ndarray, seed: int, times: int) -> np.ndarray:
    """Votes float64 (classes,) by fresh answers."""
    drawn = drawn_on(mechanism, np.tile(histogram, (times, 1)), SeededNoise(seed))
    if drawn.counts is not None:
        return drawn.counts.mean(axis=0)
    labels = drawn.labels[drawn.labels != NO_LABEL]
    shares = np.bincount(labels, minlength=len(histogram)) / max(len(labels), 1)
    return _inverted(mechanism, shares, histogram.sum())


def _inverted(mechanism: Mechanism, shares: np.ndarray, total: int) -> np.ndarray:
    """Votes float64 (classes,) that add up to the public total, at which labels come in these shares."""
    sigma, votes = mechanism.label_noise(1) or 1.0, np.full(len(shares), total / len(shares))
    if not shares.sum():
        return votes
    wanted = np.clip(shares / shares.sum(), 1e-5, 1 - 1e-5)
    for _ in range(_STEPS):
        law = outcome_law(mechanism, votes[None])[0][:-1]
        law = np.clip(law / law.sum(), 1e-9, 1 - 1e-9)
        votes = np.clip(votes + 0.7 * sigma * (ndtri(wanted) - ndtri(law)), 0, total)
        votes *= total / max(votes.sum(), 1e-9)
    return votes


def _result(everything: Shadows, way: str, times: int, guess: np.ndarray, votes: np.ndarray) -> Recovered:
    config = everything.case.config
    epsilon = worst_case([config.event(times, times)], config.privacy.delta).epsilon
    return Recovered(
        way,
        times,
        float(np.abs(guess - votes).mean()),
        float((np.rint(guess) == votes).all(axis=1).mean()),
        epsilon if np.isfinite(epsilon) else None,
    )
