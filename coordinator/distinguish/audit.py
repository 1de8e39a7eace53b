"""Does a mechanism keep what is claimed for it? The game on the votes at which such a mechanism tells most.

Labels tell most at a tie, where the noise decides; a check tells most where its number is at the threshold. Which of
them is worst depends on the parameters, so all are played.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from consilium.accounting.events import Mechanism
from consilium.accounting.target import worst_case
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.distinguish.game import LowerBound, Pair, games_needed, play, proved
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.models import Frozen
from consilium.protocol.noise import NoiseSource
from consilium.report.disclosure import epsilon_text
from consilium.report.words import many


@dataclass(frozen=True)
class GameSetup:
    """queries : in one run. runs : in each of the two worlds, for each pair of votes. confidence : of all bounds of the
    audit together. teachers_per_party : votes that a party moves in each query. neighbouring : whether in the second
    world the party votes otherwise, or is not counted."""

    queries: int = 100
    runs: int = 20_000
    delta: float = 1e-5
    confidence: float = 0.999
    teachers_per_party: int = 1
    classes: int = 3
    neighbouring: Neighbouring = Neighbouring.REPLACE


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
        neighbouring=setup.neighbouring,
        teachers_per_party=setup.teachers_per_party,
    )
    return "worst case of its event", worst_case([event], setup.delta).epsilon


def worst_pairs(mechanism: Mechanism, setup: GameSetup) -> list[Pair]:
    """Votes at which noisy winners, checks of a threshold and noisy counts tell most."""
    k, classes = setup.teachers_per_party, setup.classes
    again = k if setup.neighbouring is Neighbouring.REPLACE else 0  # of its votes, those that are counted in both
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
        return [pair("tie", (base + k, base), (base, base + again))]
    base = max(base, math.ceil(threshold + 6 * float(getattr(mechanism, "sigma1", spread))) + k)
    top = round(threshold + k / 2)
    pairs = [pair("tie, all answered", (base + k, base), (base, base + again))]
    if threshold >= 2 * k:
        pairs.append(pair("tie at the threshold", (threshold, threshold), (threshold - k, threshold + again)))
        pairs.append(pair("at the threshold", (top,), (top - k, again)))
    if sure is not None:  # all votes for one class: the check sees top - top / classes
        top = max(round(top * classes / (classes - 1)), 2 * k)
        pairs.append(pair("at the threshold, unsure student", (top,), (top - k, again), np.full(classes, 1 / classes)))
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
    return validate({"mechanism": {**values, "name": name}}, _Chosen, "audit mechanism").mechanism
