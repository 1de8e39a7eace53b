"""What is out of reach at a federation's size, or dear beside another way to collect votes, with what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from consilium.coordinator.planning.cost.load import CostedMode, Load
from consilium.coordinator.planning.cost.model import Costs
from consilium.coordinator.planning.cost.terms import NodeKind
from consilium.protocol.parties.records import MOST_CELLS
from consilium.protocol.warnings.before import MANY_PAIRED
from consilium.sums.aggregators.proof import MOST_ROWS
from consilium.sums.aggregators.terms import MOST_CELLS as MOST_SHARE
from consilium.sums.aggregators.terms import MOST_REACH
from consilium.sums.roster import MOST_PARTIES, MOST_VOTERS

MOST_MESSAGE = 2**31 - 1
"""Bytes of one message of gRPC, as Flower sets it; Flower cuts arrays into pieces of 5 MiB, the tables of a message
not."""


@dataclass(frozen=True)
class CostCaution:
    """mode: which way to collect votes. reached: whether it can be done at all. text: what, value, limit, next."""

    mode: CostedMode
    reached: bool
    text: str

    def to_json(self) -> dict[str, object]:
        """As it is printed."""
        return {"mode": self.mode, "possible": self.reached, "text": self.text}


Found = Iterator[tuple[bool, str]]


def _masked(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> Found:
    if load.parties > MOST_PARTIES:
        yield (
            False,
            f'{load.parties} parties are above {MOST_PARTIES}, the most of a roster: use votes = "verified", or ask'
            " fewer parties",
        )
    if load.parties > MANY_PAIRED:
        mine, other = costs[mode].nodes, costs["verified"].nodes
        party, coordinator = mine[NodeKind.PARTY].seconds, mine[NodeKind.COORDINATOR].seconds
        yield (
            True,
            f"{load.parties} parties are above {MANY_PAIRED}: work grows with their square, to {party:.3g} s for each"
            f" party and {coordinator:.3g} s for the coordinator (verified: {other[NodeKind.PARTY].seconds:.2g} s and"
            f' {other[NodeKind.COORDINATOR].seconds:.3g} s). Use votes = "verified"',
        )
    if load.cells > MOST_CELLS:
        yield False, f"{load.cells} counts are above {MOST_CELLS}, the most of a message: ask fewer queries"


def _clear(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> Found:
    if load.votes > MOST_CELLS:
        yield False, f"{load.votes} votes of a party are above {MOST_CELLS}, the most of a message: ask fewer queries"


def _verified(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> Found:
    if load.parties > MOST_VOTERS:
        yield (
            False,
            f"{load.parties} parties are above {MOST_VOTERS}, the most of a roster of verified votes: divide them into"
            " federations, or draw as many by lot",
        )
    if load.teachers * load.parties > MOST_REACH:
        yield (
            False,
            f"{load.teachers * load.parties} votes on a query are above {MOST_REACH}, half of the field: ask fewer"
            " parties, or fewer teachers of each",
        )
    if load.votes > MOST_ROWS or load.votes * load.classes > MOST_SHARE:
        yield (
            False,
            f"{load.votes} votes of a party for {load.classes} classes are above {MOST_ROWS} rows or {MOST_SHARE}"
            " elements: ask fewer queries",
        )


def _messages(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> Found:
    numbers = load.queries * load.features
    if numbers > MOST_CELLS:
        yield (
            False,
            f"{numbers} numbers of the queries are above {MOST_CELLS}, the most of a message: ask fewer queries",
        )
    largest = max(costs[mode].nodes[NodeKind.PARTY].up, costs[mode].nodes[NodeKind.PARTY].down)
    if largest > MOST_MESSAGE:
        yield (
            True,
            f"a party's messages have {largest / 1e9:.3g} GB, above {MOST_MESSAGE / 1e9:.3g} GB, the most of one of"
            " gRPC: Flower cuts them, which nobody has measured at this size. Ask fewer queries",
        )


_KINDS: dict[CostedMode, tuple[Callable[[CostedMode, Load, Mapping[CostedMode, Costs]], Found], ...]] = {
    "clear": (_clear, _messages),
    "secure": (_masked, _messages),
    "distributed": (_masked, _messages),
    "verified": (_verified, _messages),
}


def cautions_of(mode: CostedMode, load: Load, costs: Mapping[CostedMode, Costs]) -> list[CostCaution]:
    """All that there is to say of one mode. costs: of all modes at this size."""
    return [CostCaution(mode, reached, text) for kind in _KINDS[mode] for reached, text in kind(mode, load, costs)]
