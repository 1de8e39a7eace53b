"""Cost of each node by the size of a federation and the way votes are collected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from consilium.coordinator.planning.cost.constants import MEASURED, MEMORY, SECONDS
from consilium.coordinator.planning.cost.load import COSTED_MODES, NOISY, CostedMode, Load
from consilium.coordinator.planning.cost.terms import MEMORY_TERMS, SECONDS_TERMS, NodeKind, Term
from consilium.coordinator.planning.cost.wire import SENT


@dataclass(frozen=True)
class NodeCost:
    """Of one node, for one exchange of votes: bytes that it sends and gets, seconds of one core, bytes of memory at the
    peak beyond what the program takes before it starts."""

    up: int
    down: int
    seconds: float
    memory: float


@dataclass(frozen=True)
class Costs:
    """Of one mode: each kind of node that it has, one party for all. measured: within the sizes that were measured."""

    mode: CostedMode
    nodes: Mapping[NodeKind, NodeCost]
    measured: bool

    def to_json(self) -> dict[str, object]:
        """As it is printed."""
        nodes = {str(kind): asdict(node) for kind, node in self.nodes.items()}
        return {"mode": self.mode, "nodes": nodes, "extrapolated": not self.measured}


def costs(mode: CostedMode, load: Load) -> Costs:
    """What one exchange of votes costs.

    >>> found = costs("verified", Load(5000, 10_000, 10))
    >>> found.nodes[NodeKind.PARTY].up, NodeKind.SECOND in found.nodes
    (205933, True)
    """
    if mode not in NOISY:
        load = replace(load, sigma=0.0)
    sent, n = SENT[mode](load), load.parties
    # a party that is lost takes its questions and sends less: as those that stay, so a bound
    bytes_of = {
        NodeKind.PARTY: (sent.up, sent.down),
        NodeKind.COORDINATOR: (n * sent.down + sent.to_second, n * sent.up + sent.from_second),
        NodeKind.SECOND: (sent.from_second, sent.to_second),
    }
    nodes = {
        kind: NodeCost(
            *bytes_of[kind],
            seconds=_sum(SECONDS_TERMS[mode, kind], SECONDS[mode, kind], load),
            memory=_sum(MEMORY_TERMS[mode, kind], MEMORY[mode, kind], load),
        )
        for kind in NodeKind
        if (mode, kind) in SECONDS_TERMS
    }
    return Costs(mode, nodes, _within(mode, load))


def all_costs(load: Load) -> dict[CostedMode, Costs]:
    """Of every mode, side by side."""
    return {mode: costs(mode, load) for mode in COSTED_MODES}


def _sum(terms: tuple[Term, ...], constants: tuple[float, ...], load: Load) -> float:
    return sum(constant * term.of(load) for term, constant in zip(terms, constants, strict=True))


def _within(mode: CostedMode, load: Load) -> bool:
    parties, votes, cells = MEASURED[mode]
    return load.parties <= parties and load.votes <= votes and load.votes * load.classes <= cells
