"""A party says that a dealer's share for it is not good. One of the two lies; the coordinator cannot see which.

The sum does without the share. If fewer than t of those in the sum vouch for a dealer, its secret could not be rebuilt,
so the session ends, before anything is unmasked. Who is then named to be left out (after player elimination: Hirt,
Maurer and Przydatek, Asiacrypt 2000): whoever has disputes with more than n - t others, a lie to all of them or by all
of them; else both sides of one dispute, so that every honest party that is left out takes a liar with it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from consilium.protocol.secagg.errors import BadShare, named
from consilium.protocol.secagg.roster import Roster

Disputes = dict[int, set[int]]
"""Places of those who complained, by place of the dealer."""


def gather(sharers: list[int], complaints: Mapping[int, np.ndarray]) -> Disputes:
    """Complainers by dealer. complaints: uint8 (|U2|,) by party of U3, 1 at each dealer that it complains about."""
    disputes: Disputes = {}
    for index, row in complaints.items():
        for at in np.flatnonzero(row).tolist():
            disputes.setdefault(sharers[at], set()).add(index)
    return disputes


def check_vouched(roster: Roster, survivors: list[int], disputes: Disputes) -> None:
    """Raise BadShare if fewer than t of the survivors vouch for some dealer, with the names of those to leave out."""
    lost = [dealer for dealer, against in sorted(disputes.items()) if len(survivors) - len(against) < roster.t]
    if not lost:
        return
    out = {index for index, opponents in _opponents(disputes).items() if len(opponents) > max(roster.n - roster.t, 1)}
    for dealer in lost:
        against = disputes[dealer] - out
        if dealer not in out and len(survivors) - len(against) < roster.t:
            out |= {dealer, min(against)}
    against = sorted(disputes[lost[0]])
    raise BadShare(
        roster.name(lost[0]),
        f"{len(survivors) - len(against)} of those in the sum vouch for it, {roster.t} are needed; not good says"
        f" {named(map(roster.name, against))}",
        [roster.name(index) for index in sorted(out)],
    )


def _opponents(disputes: Disputes) -> Disputes:
    """All with whom one is in dispute, as dealer or as receiver."""
    opponents: Disputes = {}
    for dealer, against in disputes.items():
        for index in against:
            opponents.setdefault(dealer, set()).add(index)
            opponents.setdefault(index, set()).add(dealer)
    return opponents
