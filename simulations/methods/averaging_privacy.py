"""What private averaging costs: the whole of a party is the unit, and each round is one Gaussian release.

Flower's wrappers clip each party's update to Euclidean norm C, average n of them, and add noise of deviation z C / n
to each number, z the noise multiplier (McMahan et al. 2018, arXiv 1710.06963, algorithm 1). With equal weights and n
public, a party that is replaced moves the average by 2 C / n, and one that gives nothing, 0 in place of its update, by
C / n: a round is mu-Gaussian-DP with mu = 2 / z or 1 / z, and rounds compose exactly (`accounting.curves.gdp`). All
parties take part in every round, so nothing is gained by sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.serverapp import GaussianPrivacyEvent, PrivacySpent, SamplingMethod
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg, Strategy

from consilium.accounting.curves.gdp import delta_of, epsilon_of, mu_squared, sigma_needed
from consilium.accounting.units import Neighbouring

_MOVED = {Neighbouring.REPLACE: 2, Neighbouring.ADD_OR_REMOVE: 1}
"""By how many C / n one party moves the average."""
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class PartyPrivacy:
    """epsilon at delta for all rounds together, a whole party as the unit. clip: C, to which the server clips."""

    epsilon: float
    delta: float
    neighbouring: Neighbouring
    clip: float

    def noise_multiplier(self, rounds: int) -> float:
        """z: the least noise at which so many rounds cost `epsilon` at most.

        >>> round(PartyPrivacy(1.0, 1e-5, Neighbouring.REPLACE, 1.0).noise_multiplier(20), 2)
        33.37
        """
        moved = _MOVED[self.neighbouring]
        return sigma_needed(rounds, self.epsilon, self.delta, moved, scalar=True) * _ROUNDING

    def clipped(self, update: np.ndarray) -> np.ndarray:
        """An update float64 (size,), not 0, shortened to `clip` where it is longer, as Flower does."""
        return update * min(1.0, self.clip / float(np.linalg.norm(update)))

    def accountant(self, parties: int) -> RoundsAccountant:
        """That stops before a round that would cost more than `epsilon` in all."""
        return RoundsAccountant(AccountedParties(self.delta, parties, self.epsilon), self.neighbouring)

    def around(self, strategy: FedAvg, parties: int, rounds: int, accountant: RoundsAccountant) -> Strategy:
        """Flower's wrapper for fixed clipping around a strategy whose parties all count the same.

        With an accountant, which it asks before each round, Flower refuses unequal weights and a round in which a party
        is missing.
        """
        checked: Any = accountant  # of Flower's protocol, but for the state for restarts, which nothing here asks for
        noise = self.noise_multiplier(rounds)
        return DifferentialPrivacyServerSideFixedClipping(strategy, noise, self.clip, parties, accountant=checked)


@dataclass(frozen=True)
class AccountedParties:
    """What Flower asks of an accountant's configuration. Its own `PrivacyConfig` does not know that a party may be
    replaced, where nobody is drawn by lot."""

    target_delta: float
    population_size: int
    max_epsilon: float
    sampling_method: SamplingMethod = SamplingMethod.NO_AMPLIFICATION


class RoundsAccountant:
    """The exact cost of Gaussian rounds, for Flower's wrappers (`flwr.serverapp.PrivacyAccountant`).

    Flower's own accountant goes through Rényi curves and knows the change by C / n alone.
    """

    def __init__(self, config: AccountedParties, neighbouring: Neighbouring) -> None:
        self.config = config
        self.num_releases = 0
        self._moved = _MOVED[neighbouring]
        self._mu_squared = 0.0

    def _cost(self, event: GaussianPrivacyEvent, count: int) -> float:
        return mu_squared(count, event.noise_multiplier, self._moved, scalar=True)

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Charge so many rounds."""
        self._mu_squared += self._cost(event, count)
        self.num_releases += count

    def get_epsilon(self, delta: float) -> float:
        """What all rounds so far cost at `delta`."""
        return epsilon_of(self._mu_squared, delta)

    def get_delta(self, epsilon: float) -> float:
        """The least delta at which all rounds so far cost `epsilon`."""
        return delta_of(self._mu_squared**0.5, epsilon) if self._mu_squared else 0.0

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """The same in Flower's words."""
        delta = self.config.target_delta if delta is None else delta
        return PrivacySpent(self.get_epsilon(delta), delta, self.num_releases, "gdp")

    def would_exceed(self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Whether so many more rounds would cost more than `max_epsilon` in all."""
        limit = self.config.max_epsilon if max_epsilon is None else max_epsilon
        return epsilon_of(self._mu_squared + self._cost(event, count), self.config.target_delta) > limit
