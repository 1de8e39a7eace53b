"""How large the numbers of a promised event may be: whoever is told of a promise checks them before it computes.

What it costs to compute an epsilon grows with the numbers of the events.
"""

from __future__ import annotations

import json
from typing import Any

from consilium.protocol.parties.messages import MOST_CANDIDATES, MOST_RELEASES, MOST_TEACHERS, MOST_WEIGHT
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.secagg.roster import MOST_PARTIES

MOST_QUERIES = 10_000_000
MOST_VOTES = MOST_TEACHERS * MOST_WEIGHT * MOST_PARTIES
MOST: dict[str, float] = {
    "asked": MOST_QUERIES,
    "answered": MOST_QUERIES,
    "teachers_per_party": MOST_TEACHERS,
    "weight": MOST_WEIGHT,
    "candidates": MOST_CANDIDATES,
    "slack": 1,
    "threshold": MOST_VOTES,
    "constant": MOST_VOTES,
    "noise_shares": MOST_PARTIES,
    "unstable_cap": MOST_QUERIES,
    "gamma": 1e3,
    "sigma": 1e5,
    "sigma1": 1e5,
    "sigma2": 1e5,
    "scale": 1e5,
    "beta": 10,
    "sigma_ss": 1e6,
    "log_scale_sigma": 1e6,
    "version": 1000,
}
"""The largest number that each field of an event may hold: what it costs to compute an epsilon grows with them."""
LEAST: dict[str, float] = {"gamma": 1e-12, "sigma": 0.01, "sigma1": 0.01, "sigma2": 0.01, "scale": 1e-3}


def bounded_events(text: str) -> list[dict[str, Any]]:
    """The JSON of a promise -> one table for each event, whose numbers are all within `MOST` and `LEAST`.

    Raises
    ------
    Refused (MALFORMED) : no list of so many tables, or a number out of bounds. ValueError, RecursionError : no JSON.
    """
    listed = json.loads(text)
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_RELEASES:
        raise Refused(Rule.MALFORMED, detail=f"a promise lists 1 to {MOST_RELEASES} events")
    for item in listed:
        _check_bounds(item)
    return listed


def _check_bounds(item: object) -> None:
    """Raise Refused (MALFORMED) unless every number of an event's JSON is within `MOST` and `LEAST`."""
    if not isinstance(item, dict):
        raise Refused(Rule.MALFORMED, detail="promise: an event is a table")
    for key, value in item.items():
        if isinstance(value, str):
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or key not in MOST or not LEAST.get(key, 0) <= value <= MOST[key]:
            raise Refused(Rule.MALFORMED, detail=f"promise: {str(key)[:40]} is out of bounds")
