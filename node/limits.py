"""What a party and the second aggregator are promised, and what each allows by itself, whatever the coordinator asks.

In this room `home` and this module alone use accounting, for the two kinds of nodes that count what they give."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from pydantic import Field

import consilium.accounting
from consilium.accounting.errors import AccountingError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.mechanisms import event_from_json
from consilium.accounting.units import Neighbouring, Unit
from consilium.protocol.digests import canonical_digest
from consilium.protocol.messages import MOST_TEACHERS, Terms
from consilium.protocol.models import Frozen
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.roster import MOST_PARTIES

MOST_EVENTS = 2
"""In a promise: a release, and a sanitised epsilon."""
MOST_QUERIES = 10_000_000
MOST_VOTES = MOST_TEACHERS * MOST_PARTIES
MOST: dict[str, float] = {
    "asked": MOST_QUERIES,
    "answered": MOST_QUERIES,
    "teachers_per_party": MOST_TEACHERS,
    "slack": 1,
    "threshold": MOST_VOTES,
    "constant": MOST_VOTES,
    "confidence": 1,
    "noise_shares": MOST_PARTIES,
    "gamma": 1e3,
    "sigma": 1e5,
    "sigma1": 1e5,
    "sigma2": 1e5,
    "beta": 10,
    "sigma_ss": 1e6,
}
"""The largest number that each field of an event may hold: what it costs to compute an epsilon grows with them."""
LEAST: dict[str, float] = {"gamma": 1e-12, "sigma": 0.01, "sigma1": 0.01, "sigma2": 0.01}


def events_of(promise: str) -> tuple[ReleaseEvent, ...]:
    """JSON of a promise -> its events, whose numbers are all within `MOST` and `LEAST`. Raises Refused (MALFORMED)."""
    try:
        listed = json.loads(promise)
        if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_EVENTS:
            raise Refused(Rule.MALFORMED, detail=f"a promise lists 1 to {MOST_EVENTS} events")
        for key, value in (number for item in listed for number in item.items() if not isinstance(number[1], str)):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or key not in MOST or not LEAST.get(key, 0) <= value <= MOST[key]:
                raise Refused(Rule.MALFORMED, detail=f"promise: {key[:40]} is out of bounds")
        return tuple(event_from_json(item) for item in listed)
    except (AccountingError, AttributeError, ValueError, TypeError, RecursionError, OverflowError):
        raise Refused(Rule.MALFORMED, detail="promise: not a list of release events") from None


class NodePolicy(Frozen):
    """The limits that both kinds of nodes have; each has a safe default.

    unit: what the node protects, and what most_epsilon is counted for, in whatever unit a coordinator states its own
        promise: "party" (everything it has; the strictest), "patient" (all rows of one) or "record".
    neighbouring: what may happen to such a unit, likewise: "replace" (the strictest) or "add_or_remove".
    most_epsilon, delta: the largest worst-case epsilon at that delta, over all federations ever served. Federations
        count with what their query budget allows, whether it was used or not.
    most_queries: the most queries ever answered, over all federations.
    least_parties: parties other than assumed colluders that must be in every sum of hidden votes.
    allow_simulation: serve in a federation whose noise is seeded, that is, one without privacy. Never on real data."""

    most_queries: int = Field(default=10_000, ge=0)
    most_epsilon: float = Field(default=3.0, ge=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    unit: Unit = Unit.PARTY
    neighbouring: Neighbouring = Neighbouring.REPLACE
    least_parties: int = Field(default=2, ge=2)
    allow_simulation: bool = False

    def check_simulation(self, terms: Terms) -> None:
        """Raise Refused (SIMULATION) for a federation without privacy that nobody allowed."""
        if terms.simulation and not self.allow_simulation:
            raise Refused(Rule.SIMULATION)


def epsilon(promises: Iterable[str], policy: NodePolicy, *, rough: bool = False) -> float:
    """Worst-case epsilon of all these promises (as in `Terms`) together at the policy's delta, in the policy's own unit
    and relation; 0 for none, inf where there is none.

    In whatever unit the coordinator states its promise, the node asks what it means for what it has to protect. The
    least of the bounds that the coordinator takes the least of.

    rough: as if histograms left whole, which is more and takes no time."""
    return _epsilon(tuple(promises), policy.unit, policy.neighbouring, policy.delta, rough)


@lru_cache(maxsize=32)  # the same for many simulated parties, and for a node's every message
def _epsilon(promises: tuple[str, ...], unit: Unit, neighbouring: Neighbouring, delta: float, rough: bool) -> float:
    events = [event for text in promises for event in events_of(text)]
    in_own_unit = [replace(event, unit=unit, neighbouring=neighbouring) for event in events]
    if not in_own_unit:
        return 0.0
    from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon  # half a second, with scipy,
    from consilium.accounting.target import as_histograms, worst_case  # which no message waits for: see `kept_epsilon`

    try:
        if rough:
            return as_histograms(in_own_unit, delta)
        try:
            return worst_case(in_own_unit, delta).epsilon
        except AccountingError:  # federations with different audiences have no common composition but that of curves
            total = np.zeros(len(DEFAULT_ORDERS))
            for event in in_own_unit:
                total += event.worst_case_rdp(DEFAULT_ORDERS)
            return rdp_to_epsilon(total, DEFAULT_ORDERS, delta).epsilon
    except AccountingError:
        return math.inf  # noise for which nothing is proved


EPSILONS = "epsilons (key TEXT PRIMARY KEY, epsilon REAL NOT NULL)"
"""Table of what was computed before, in the store of a node. key: see `kept_epsilon`."""
Execute = Callable[..., list[tuple]]
"""Of such a store: a statement and its values, to the rows of its result."""


def _program() -> str:
    """Of the very code that computes an epsilon, as it was loaded."""
    files = (Path(__file__), *sorted(Path(consilium.accounting.__path__[0]).rglob("*.py")))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


PROGRAM = (_program(), version("numpy"), version("scipy"))


def kept_epsilon(execute: Execute, promises: Sequence[str], policy: NodePolicy, *, rough: bool = False) -> float:
    """`epsilon`, computed once: a node does so when it starts, and no message waits for it.

    It is found again for the same promises in the same order, unit, relation, delta and code alone."""
    counted = [policy.unit.value, policy.neighbouring.value, policy.delta]
    key = canonical_digest([PROGRAM, promises, *counted, rough])
    for (known,) in execute("SELECT epsilon FROM epsilons WHERE key = ?", key):
        return known
    computed = epsilon(promises, policy, rough=rough)
    execute("INSERT OR REPLACE INTO epsilons VALUES (?, ?)", key, computed)
    return computed


def check_within(promises: Sequence[str], policy: NodePolicy, execute: Execute) -> None:
    """Raise Refused (MOST_EPSILON) if all these promises together cost more than the policy allows; the bound that
    takes no time is asked first."""
    if kept_epsilon(execute, promises, policy, rough=True) <= policy.most_epsilon:
        return
    total = kept_epsilon(execute, promises, policy)
    if total > policy.most_epsilon:
        raise Refused(Rule.MOST_EPSILON, limit=policy.most_epsilon, requested=round(total, 4))
