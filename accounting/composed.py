"""What a composition is made of: equal releases by their number."""

from __future__ import annotations

from typing import Literal, NamedTuple

from consilium.accounting.units import Noise

What = Literal["argmax", "check", "histogram", "laplace"]


class Composed(NamedTuple):
    """Equal releases in a composition.

    releases : how many. what : which leaves: a winner under Gaussian noise ("argmax") or Laplace noise ("laplace"), the
        bit of a threshold check, a noisy histogram.
    sigma : noise on a count (or on the number that is checked), in votes; of Laplace noise its scale 1 / gamma.
    noise : discrete or continuous. votes_moved : moves of one unit in one query, of one vote each.
    slack : largest |log ratio| between the noise of a count and exact (discrete) Gaussian noise; above 0 where it is a
        sum of shares.
    """

    releases: int
    what: What
    sigma: float
    noise: Noise
    votes_moved: int = 1
    slack: float = 0.0
