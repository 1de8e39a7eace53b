"""The game of the definition: many draws of a mechanism in two worlds that differ by one unit, told apart by their
likelihood ratio; and what an attacker's scores prove.

Who plays knows the votes of both worlds. Of counts with Gaussian noise the ratio is known; of labels it is estimated on
draws of its own, query by query, as if queries were independent: a poor ratio makes an attack weak, and no bound wrong.

A score is high where the attacker believes that the target was there. Which scores accuse is chosen on the first half
of the games and measured on the other, so that choosing costs no confidence. Every probability is bounded by the exact
binomial interval of Clopper and Pearson 1934 (Jagielski, Ullman, Oprea 2020, arXiv 2006.07709).

exact : (epsilon, delta)-privacy means Pr[S | there] <= e^epsilon Pr[S | away] + delta for every set S of scores, and
    the same the other way round. It holds for any mechanism.
gaussian : where Gaussian noise on counts is released, it is mu-GDP (Dong, Roth, Su 2019, arXiv 1905.02383), and the
    same two probabilities bound mu from below (Nasr et al. 2023, arXiv 2302.07956). It needs far fewer games.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from consilium.accounting.curves.gdp import epsilon_of
from consilium.accounting.events import Mechanism
from consilium.accounting.target import worst_case
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.draw import Drawn, draw, exact
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.models import Frozen
from consilium.protocol.noise import NoiseSource
from consilium.report.disclosure import epsilon_text
from consilium.report.words import many

MOST_GAMES = 10**9
"""Nobody plays more."""
_NUMBERS = 1 << 21
"""Counts that are drawn in one go."""


def probability_at_least(hits: np.ndarray, runs: int, alpha: float) -> np.ndarray:
    """Lower bounds, wrong with probability at most alpha each, by counts of hits among `runs` independent games.

    >>> probability_at_least(np.array([0, 500, 1000]), 1000, 0.001).round(4).tolist()
    [0.0, 0.4508, 0.9931]
    """
    k = np.asarray(hits, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), runs - k + 1, alpha), 0.0)


def probability_at_most(hits: np.ndarray, runs: int, alpha: float) -> np.ndarray:
    """Upper bounds, likewise."""
    return 1.0 - probability_at_least(runs - np.asarray(hits), runs, alpha)


def share_of(hits: int, runs: int, error: float = 0.05) -> tuple[float, float, float]:
    """The share, and both ends of its interval, wrong with probability `error` at most."""
    low, high = (end(np.array(hits), runs, error / 2) for end in (probability_at_least, probability_at_most))
    return hits / runs, float(low), float(high)


@dataclass(frozen=True)
class Scores:
    """there, away: float64 (games,), of games with the target in them and without it. At least two of each."""

    there: np.ndarray = field(repr=False)
    away: np.ndarray = field(repr=False)

    def halves(self) -> tuple[Scores, Scores]:
        """The first games and the others, to choose on and to measure on."""
        there, away = len(self.there) // 2, len(self.away) // 2
        return Scores(self.there[:there], self.away[:away]), Scores(self.there[there:], self.away[away:])


@dataclass(frozen=True)
class LowerBound:
    """On epsilon at `delta`, wrong with probability `error` at most. gaussian : whether by way of mu, see above."""

    delta: float
    error: float
    gaussian: bool = False

    def strength(self, likely: np.ndarray, rare: np.ndarray, runs: int, rest: int) -> np.ndarray:
        """Epsilon, or mu, of sets with so many hits where they are likely, in `runs` games, and rare, in `rest`."""
        low, high = probability_at_least(likely, runs, self.error / 2), probability_at_most(rare, rest, self.error / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.gaussian:
                strength = ndtri(low) - ndtri(high)
            else:
                strength = np.log(np.maximum(low - self.delta, 0.0)) - np.log(high)
        return np.where(np.isfinite(strength), np.maximum(strength, 0.0), 0.0)

    def epsilon(self, strength: float) -> float:
        return epsilon_of(strength**2, self.delta) if self.gaussian else strength


def proved(scores: Scores, bound: LowerBound) -> float:
    """Epsilon is at least this.

    >>> sure = Scores(np.ones(2000), np.zeros(2000))
    >>> round(proved(sure, LowerBound(1e-5, 0.05)), 2)
    5.6
    """
    chosen, rest = scores.halves()
    # likely where the target is there: scores at least the limit; where it is not: at most. The same, turned round
    sides = ((chosen, rest), (Scores(-chosen.away, -chosen.there), Scores(-rest.away, -rest.there)))
    options = [(*_best_limit(side, bound), measured) for side, measured in sides]
    _, limit, measured = max(options, key=lambda option: option[0])
    likely, rare = ((part >= limit).sum() for part in (measured.there, measured.away))
    return bound.epsilon(float(bound.strength(likely, rare, len(measured.there), len(measured.away))))


def _best_limit(scores: Scores, bound: LowerBound) -> tuple[float, float]:
    """The strongest bound of "at least the limit", which proves nothing on these games, and the limit."""
    limits = np.unique(np.concatenate([scores.there, scores.away]))
    likely, rare = (
        len(part) - np.searchsorted(np.sort(part), limits, side="left") for part in (scores.there, scores.away)
    )
    # where nothing is proved, the counts still say which is best
    strengths = bound.strength(likely, rare, len(scores.there), len(scores.away)) + 1e-6 * (likely + 1) / (rare + 1)
    best = int(np.argmax(strengths))
    return float(strengths[best]), float(limits[best])


def games_needed(epsilon: float, bound: LowerBound) -> int | None:
    """Games of each world below which even an attack that is always right proves no more than `epsilon`. None where
    nobody plays so many.

    >>> games_needed(5.5, LowerBound(1e-5, 0.05)), games_needed(40.0, LowerBound(1e-5, 0.05))
    (1809, None)
    """

    def most(games: int) -> float:
        half = games - games // 2
        return bound.epsilon(float(bound.strength(np.array(half), np.array(0), half, half)))

    if not most(MOST_GAMES) > epsilon:
        return None
    low, high = 1, MOST_GAMES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if most(middle) > epsilon else (middle, high)
    return high


@dataclass(frozen=True)
class Pair:
    """Histograms int64 (queries, classes) with the target in them and without it. probabilities : float64 (queries,
    classes), the student's where a mechanism needs them. answers : after so many labels nothing is answered."""

    name: str
    there: np.ndarray = field(repr=False)
    away: np.ndarray = field(repr=False)
    probabilities: np.ndarray | None = field(default=None, repr=False)
    answers: int | None = None


def play(mechanism: Mechanism, pair: Pair, runs: int, learn: int, noise: NoiseSource) -> Scores:
    """Scores of `runs` releases in each world; `learn` more of each, of which labels' ratios are learnt. Many are drawn
    in one call of the mechanism: noise that is used again within a call is seen by tests of the laws, not here."""
    worlds = (pair.there, pair.away)
    if mechanism.count_sigma > 0:
        shift = (pair.there - pair.away).astype(np.float64)
        middle = (shift * (pair.there + pair.away)).sum() / 2

        def along(votes: np.ndarray) -> np.ndarray:
            counts = (drawn.counts for drawn in _blocks(mechanism, pair, votes, runs, noise))
            blocks = [np.tensordot(noisy, shift, axes=2) - middle for noisy in counts if noisy is not None]
            return np.concatenate(blocks).round(9)

        return Scores(*map(along, worlds))
    parts = [part for part in (pair.there, pair.away, pair.probabilities) if part is not None]
    kinds = np.unique(np.concatenate(parts, axis=1), axis=0, return_inverse=True)[1].ravel()
    table = np.subtract(*(_logs(_outcomes(mechanism, pair, votes, learn, noise), kinds, pair) for votes in worlds))

    def score(votes: np.ndarray) -> np.ndarray:
        # rounded, so that equal runs tie in spite of summation
        return table[kinds, _outcomes(mechanism, pair, votes, runs, noise)].sum(axis=1).round(9)

    return Scores(*map(score, worlds))


def _blocks(mechanism: Mechanism, pair: Pair, votes: np.ndarray, runs: int, noise: NoiseSource) -> Iterator[Drawn]:
    """What is released on these votes, with runs in front."""
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
            before = np.cumsum(drawn.answered, axis=1) - drawn.answered
            outcomes[before >= pair.answers] = 2 * classes + 1
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


@dataclass(frozen=True)
class GameSetup:
    """queries : in one run. runs : in each of the two worlds, for each pair of votes. confidence : of all bounds of the
    audit together. teachers_per_party : votes that a party, which votes otherwise in the second world, moves in each
    query."""

    queries: int = 100
    runs: int = 20_000
    delta: float = 1e-5
    confidence: float = 0.999
    teachers_per_party: int = 1
    classes: int = 3


@dataclass(frozen=True)
class MechanismAudit:
    """The outcome. claim : whose it is. epsilon_claimed : at the setup's delta; inf where nothing is. proved : epsilon
    is at least this, by each pair of votes. runs_needed : fewer cannot refute the claim; None where no number can."""

    mechanism: str
    claim: str
    epsilon_claimed: float
    proved: dict[str, float]
    runs_needed: int | None
    setup: GameSetup

    @property
    def epsilon_at_least(self) -> float:
        return max(self.proved.values())

    @property
    def violated(self) -> bool:
        return self.epsilon_at_least > self.epsilon_claimed

    def lines(self) -> list[str]:
        """For people."""
        setup, rate = self.setup, 1 - self.setup.confidence
        verdict = "VIOLATED" if self.violated else "Holds up, which is no proof that the claim is true"
        if self.runs_needed is None or setup.runs < self.runs_needed:
            verdict = f"Too few runs to refute so large a claim ({self.runs_needed or 'no number'} would do)"
        return [
            f"{self.mechanism}; {many(setup.queries, 'query')}. Claim: {self.claim}.",
            *(f"  {votes}: epsilon is at least {lower_text(lower)}" for votes, lower in self.proved.items()),
            f"{setup.runs:,} runs of each world. A true claim is refuted with probability {rate:.2g} at most.",
            f"{verdict}: epsilon is at least {lower_text(self.epsilon_at_least)} at delta {setup.delta:g},"
            f" {epsilon_text(self.epsilon_claimed)} is claimed.",
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "epsilon_at_least": self.epsilon_at_least,
            "violated": self.violated,
            "false_alarm_rate_at_most": round(1 - self.setup.confidence, 12),
        }


def lower_text(epsilon: float) -> str:
    """Rounded down: a shorter lower bound must not prove more than the long one."""
    return f"{math.floor(epsilon * 1000) / 1000:.3f}"


def audit_mechanism(
    mechanism: Mechanism,
    noise: NoiseSource,
    setup: GameSetup | None = None,
    claim: float | None = None,
    pairs: Sequence[Pair] | None = None,
) -> MechanismAudit:
    """Play the game against `mechanism` and bound its epsilon from below. claim : epsilon at the setup's delta; else
    the worst case of the mechanism's event, or of one that is not private what its paper claims. pairs : votes to play
    on, instead of `worst_pairs`."""
    setup = setup or GameSetup()
    setup = replace(setup, classes=mechanism.classes or setup.classes)
    pairs = worst_pairs(mechanism, setup) if pairs is None else pairs
    whose, epsilon = _claim_of(mechanism, setup) if claim is None else ("as given", claim)
    bound = LowerBound(setup.delta, (1 - setup.confidence) / len(pairs), gaussian=mechanism.count_sigma > 0)
    learn = max(setup.runs // 4, 100)
    lower = {pair.name: proved(play(mechanism, pair, setup.runs, learn, noise), bound) for pair in pairs}
    return MechanismAudit(mechanism.describe(), whose, epsilon, lower, games_needed(epsilon, bound), setup)


def _claim_of(mechanism: Mechanism, setup: GameSetup) -> tuple[str, float]:
    if not mechanism.private:
        epsilon = mechanism.claimed_epsilon(setup.queries, setup.delta)
        return "its paper's", math.inf if epsilon is None else epsilon
    event = mechanism.event(
        asked=setup.queries,
        answered=setup.queries,
        unit=Unit.PARTY,
        neighbouring=Neighbouring.REPLACE,
        teachers_per_party=setup.teachers_per_party,
    )
    return "worst case of its event", worst_case([event], setup.delta).epsilon


def worst_pairs(mechanism: Mechanism, setup: GameSetup) -> list[Pair]:
    """Labels tell most at a tie, where the noise decides; a check where its number is at the threshold. Which of them
    is worst depends on the parameters, so all are played."""
    k, classes = setup.teachers_per_party, setup.classes
    sigmas = [float(getattr(mechanism, name)) for name in ("sigma2", "sigma") if hasattr(mechanism, name)]
    # votes are int64, and nobody has more than 2^40 teachers
    spread = math.sqrt(2) * sigmas[0] if sigmas else min(2 / float(getattr(mechanism, "gamma", 1)), 2.0**40)
    threshold = getattr(mechanism, "threshold", None)
    sure = np.eye(classes)[-1] if mechanism.needs_probabilities else None

    def pair(name: str, there: Sequence[int], away: Sequence[int], student: np.ndarray | None = sure) -> Pair:
        rows = (np.array([*counts, *[0] * (classes - len(counts))], dtype=np.int64) for counts in (there, away))
        d, d_prime = (np.tile(row, (setup.queries, 1)) for row in rows)
        return Pair(name, d, d_prime, None if student is None else np.tile(student, (setup.queries, 1)))

    base = math.ceil(6 * spread) + k
    if threshold is None:
        return [pair("tie", (base + k, base), (base, base + k))]
    base = max(base, math.ceil(threshold + 6 * float(getattr(mechanism, "sigma1", spread))) + k)
    top = round(threshold + k / 2)
    pairs = [pair("tie, all answered", (base + k, base), (base, base + k))]
    if threshold >= 2 * k:
        pairs.append(pair("tie at the threshold", (threshold, threshold), (threshold - k, threshold + k)))
        pairs.append(pair("at the threshold", (top,), (top - k, k)))
    if sure is not None:  # all votes for one class: the check sees top - top / classes
        top = max(round(top * classes / (classes - 1)), 2 * k)
        pairs.append(pair("at the threshold, unsure student", (top,), (top - k, k), np.full(classes, 1 / classes)))
    return pairs


class _Chosen(Frozen):
    mechanism: AnyMechanism


def build_mechanism(name: str, settings: Sequence[str]) -> Mechanism:
    """The mechanism `name` with its parameters, key=value. Raises ConfigError."""
    try:
        values = tomllib.loads("\n".join(settings))
    except tomllib.TOMLDecodeError:
        fault = f"--set {' '.join(settings)!r} is not key=value, each once"
        raise ConfigError(fault, "Write for example --set sigma=40") from None
    try:
        return validate({"mechanism": {**values, "name": name}}, _Chosen, "audit mechanism").mechanism
    except ConfigError as error:  # in the words of the command line
        what = error.what.replace("mechanism.name", "NAME").replace("mechanism.", "--set ")
        raise ConfigError(what, error.action) from None
