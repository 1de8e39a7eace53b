"""The terms that seconds and memory are sums of: what the theory of each way to collect votes says that they grow with.

A constant belongs to each term (`constants`); `python -m benchmarks cost` fits them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from consilium.coordinator.planning.cost.load import CostedMode, Load
from consilium.sums.aggregators.leader import BATCH_SIZE


class NodeKind(StrEnum):
    """Who works: each party, the coordinator, the second aggregator."""

    PARTY = "party"
    COORDINATOR = "coordinator"
    SECOND = "second aggregator"


@dataclass(frozen=True)
class Term:
    """One summand without its constant. unit: what the constant is for one of."""

    unit: str
    of: Callable[[Load], float]


ONCE = Term("", lambda load: 1.0)
QUERY = Term("query", lambda load: float(load.queries))
NUMBER = Term("number of the queries", lambda load: float(load.queries * load.features))
VOTE = Term("vote of a party", lambda load: float(load.votes))
CELL = Term("count", lambda load: float(load.cells))
PARTY = Term("party", lambda load: float(load.parties))
PAIR = Term("pair of parties", lambda load: float(load.parties) ** 2)
MASK_BYTE = Term(
    "byte of a mask for each party", lambda load: float(load.parties) * load.cells * load.ring_bytes(load.sigma)
)
LOST_BYTE = Term(
    "byte of a mask for each party and each that is lost",
    lambda load: float(load.gone * load.parties) * load.cells * load.ring_bytes(load.sigma),
)
OWN_NOISE = Term("count to which the coordinator adds noise", lambda load: 0.0 if load.sigma else float(load.cells))
SHARED_NOISE = Term("count to which parties add noise", lambda load: float(load.cells) if load.sigma else 0.0)
PARTY_VOTE = Term("vote of any party", lambda load: float(load.parties) * load.votes)
PROVED = Term("element of a party's share", lambda load: float(load.votes) * load.classes)
PARTY_PROVED = Term("element of any party's share", lambda load: float(load.parties) * load.votes * load.classes)
WAITING = Term(
    "element of a share that waits", lambda load: float(min(load.parties, BATCH_SIZE) * load.votes) * load.classes
)
WAITING_LINE = Term("line of a proof that waits", lambda load: float(min(load.parties, BATCH_SIZE) * load.grid.lines))
KEPT_PART = Term("signed part that the coordinator keeps of each upload", lambda load: float(load.parties))

Costed = tuple[CostedMode, NodeKind]

_MASKED_PARTY = (ONCE, QUERY, PARTY, PAIR, MASK_BYTE, SHARED_NOISE)
_MASKED_COORDINATOR = (ONCE, PARTY, PAIR, MASK_BYTE, LOST_BYTE, OWN_NOISE)

SECONDS_TERMS: dict[Costed, tuple[Term, ...]] = {
    ("clear", NodeKind.PARTY): (ONCE, QUERY, VOTE),
    ("clear", NodeKind.COORDINATOR): (ONCE, QUERY, CELL, PARTY, PARTY_VOTE),
    ("secure", NodeKind.PARTY): _MASKED_PARTY,
    ("secure", NodeKind.COORDINATOR): _MASKED_COORDINATOR,
    ("distributed", NodeKind.PARTY): _MASKED_PARTY,
    ("distributed", NodeKind.COORDINATOR): _MASKED_COORDINATOR,
    ("verified", NodeKind.PARTY): (ONCE, QUERY, VOTE, PROVED),
    ("verified", NodeKind.COORDINATOR): (ONCE, QUERY, CELL, PARTY, PARTY_VOTE, PARTY_PROVED),
    ("verified", NodeKind.SECOND): (ONCE, QUERY, CELL, PARTY, PARTY_VOTE, PARTY_PROVED),
}
"""Of one core, for one exchange."""

MEMORY_TERMS: dict[Costed, tuple[Term, ...]] = {
    ("clear", NodeKind.PARTY): (ONCE, QUERY, NUMBER, VOTE),
    ("clear", NodeKind.COORDINATOR): (ONCE, NUMBER, CELL, PARTY),
    ("secure", NodeKind.PARTY): (ONCE, NUMBER, CELL, PARTY, SHARED_NOISE),
    ("secure", NodeKind.COORDINATOR): (ONCE, NUMBER, CELL, PAIR, MASK_BYTE),
    ("distributed", NodeKind.PARTY): (ONCE, NUMBER, CELL, PARTY, SHARED_NOISE),
    ("distributed", NodeKind.COORDINATOR): (ONCE, NUMBER, CELL, PAIR, MASK_BYTE),
    ("verified", NodeKind.PARTY): (ONCE, NUMBER, PROVED),
    ("verified", NodeKind.COORDINATOR): (ONCE, NUMBER, CELL, PROVED, WAITING, WAITING_LINE, KEPT_PART),
    ("verified", NodeKind.SECOND): (ONCE, NUMBER, CELL, PROVED, WAITING_LINE, PARTY),
}
"""Bytes at the peak, beyond what the program takes before it starts."""
