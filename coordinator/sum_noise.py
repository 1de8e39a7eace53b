"""Noise in the sums: who adds how much of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from consilium.accounting.curves.discrete import convolution_slack, pair_slack
from consilium.accounting.errors import NoiseError
from consilium.accounting.events import PartyNoise
from consilium.accounting.target import round_up
from consilium.protocol.messages import CollectionMode

BY_MASKED_PARTIES, BY_TWO_AGGREGATORS = 2 / 3, 1 / 2
"""Share of a mechanism's variance that the sure givers add: of two thirds of the parties, who are sure to be in a sum,
all parties then make up the whole; of two aggregators each adds half."""
PARTS: Mapping[CollectionMode, float] = {"secure": BY_MASKED_PARTIES, "verified": BY_TWO_AGGREGATORS}
LEAST_TOP_UP = 4.0
"""Variance. Less would be so fine that the sum is no discrete Gaussian up to rounding."""

MOST_SHARES = 100_000


@dataclass(frozen=True)
class SumNoise:
    """How the noise of one parameter `sigma`, which a mechanism has on exact sums, comes into the sums themselves.

    Each giver, a party or one of two aggregators, adds a discrete Gaussian of variance v = drawn.sigma^2 / shares, so
    that `shares` of them, who are sure to be honest, add `part` of sigma^2 together: what nodes are held to, who see
    the sums. The coordinator makes up what is missing to sigma^2: so students get the noise of exact sums.

    Of a sum the student knows no share: all honest ones and the top-up make its noise. With h honest givers, that is
    at least sigma^2: where h v < sigma^2 the top-up is the rest, or `LEAST_TOP_UP` if that is more; else the first
    ceil(sigma^2 / v) honest shares are enough, and any further ones add what is independent of the votes. So of no
    more than ceil(1 / part) shares' worth, and one top-up, the law is compared with one discrete Gaussian: `slack`.

    sigma: of the mechanism, on one count. part: see above. shares: givers that are sure to be honest and in a sum.
    colluders: givers whose noise does not count. topped_up: False for a check, which has its own noise on top.

    >>> noise = SumNoise(112.1, BY_MASKED_PARTIES, 139, 0)
    >>> noise.drawn, round(noise.top_up(139), 1), round(noise.top_up(207), 1), noise.slack < 1e-18
    (PartyNoise(sigma=91.53, shares=139), 64.7, 9.5, True)
    >>> SumNoise(112.1, BY_TWO_AGGREGATORS, 1, 0).top_up(2)
    0.0
    """

    sigma: float
    part: float
    shares: int
    colluders: int = 0
    topped_up: bool = True

    @cached_property  # asked for at each sum
    def drawn(self) -> PartyNoise:
        """What the givers are asked to add."""
        return PartyNoise(round_up(math.sqrt(self.part) * self.sigma), self.shares)

    def check(self) -> None:
        """Raise NoiseError where a share is so fine that little is proved of their sum."""
        if self._share < 1:
            raise NoiseError(
                f"noise of sigma {self.sigma:g} in {self.shares} shares is of variance {self._share:.2g} in each, which"
                f" must be at least 1: raise sigma to {math.ceil(math.sqrt(self.shares / self.part))}, or promise a"
                " lower epsilon, or collect votes as verified"
            )

    @property
    def _share(self) -> float:
        """Variance of what one giver adds."""
        return self.drawn.sigma**2 / self.shares

    def top_up(self, givers: int) -> float:
        """Sigma of what the coordinator adds to a sum to which so many have given; 0.0 for nothing."""
        missing = self.sigma**2 - max(0, givers - self.colluders) * self._share if self.topped_up else 0.0
        return math.sqrt(max(missing, LEAST_TOP_UP)) if missing > 0 else 0.0

    def total(self, givers: int) -> float:
        """Standard deviation of all noise on a count, top-up and colluders' shares included."""
        return math.hypot(math.sqrt(givers * self._share), self.top_up(givers))

    @property
    def slack(self) -> float:
        """Largest |log ratio| of the noise towards a student, whoever is in the sum, to one discrete Gaussian. Raises
        NoiseError: a share is so fine that nothing is proved of it."""
        share, most = math.sqrt(self._share), math.ceil(self.sigma**2 / self._share)
        self.check()
        fewest = min(most, self.shares) * self._share
        topped = (
            pair_slack(math.sqrt(variance), math.sqrt(max(self.sigma**2 - variance, LEAST_TOP_UP)))
            for variance in (fewest, max(fewest, self.sigma**2 - LEAST_TOP_UP))
        )
        return convolution_slack(most, share) + max(topped)
