"""What a composition is made of: equal releases by their number, for ``worst.adaptive``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from consilium.accounting.checks import check_count, check_noise, check_scale, check_votes_moved
from consilium.accounting.errors import EventError
from consilium.accounting.units import Noise

What = Literal["argmax", "check", "histogram", "laplace"]
_SHARES = {"argmax": 0.66, "check": 0.66, "histogram": 1.0, "laplace": 0.51}
_MOST_NOISE = 1e5


class Composed(NamedTuple):
    """Equal releases in a composition.

    releases : how many. what : which leaves: a winner under Gaussian noise ("argmax") or Laplace noise ("laplace"), the
        bit of a threshold check, a noisy histogram.
    sigma : noise on a count (or on the number that is checked), in votes; of Laplace noise its scale 1 / gamma.
    noise : discrete or continuous. votes_moved : moves of one unit in one query, of one vote each.
    """

    releases: int
    what: What
    sigma: float
    noise: Noise
    votes_moved: int = 1


class OneRelease(NamedTuple):
    """One release of which one vote moves."""

    what: What
    sigma: float
    noise: Noise

    @property
    def mu(self) -> float:
        """Distance of the two inputs, in standard deviations, if the number or the histogram itself left."""
        return (1.0 if self.what == "check" else math.sqrt(2)) / self.sigma

    @property
    def squared(self) -> float:
        """About the squared distance of what leaves of many: only to choose by."""
        return _SHARES[self.what] * self.mu**2


def counted(parts: Sequence[Composed]) -> tuple[dict[OneRelease, int], int]:
    """How many there are of each release, and the largest number of moves.

    Raises
    ------
    EventError, NoiseError, UnitError.
    """
    counts: dict[OneRelease, int] = {}
    moves = 1
    for part in parts:
        releases, sigma = check_count(part.releases, "releases"), check_scale(part.sigma, "sigma")
        noise, votes = check_noise(part.noise), check_votes_moved(part.votes_moved)
        if part.what not in get_args(What):
            raise EventError(f"what leaves must be one of {', '.join(_SHARES)}, got {part.what!r}. Name one of them.")
        # more noise is a mixture of less, and costs no more
        release = OneRelease(part.what, min(sigma, _MOST_NOISE), noise)
        if releases:
            counts[release] = counts.get(release, 0) + releases
            moves = max(moves, votes)
    return counts, moves
