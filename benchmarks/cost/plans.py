"""`consilium plan stroke --cost` as tables: as the file has it, and of far more parties than anybody has measured."""

from __future__ import annotations

from collections.abc import Iterator

from consilium.coordinator.planning.cost.load import COSTED_MODES, CostedMode
from consilium.coordinator.planning.cost.model import NodeCost
from consilium.coordinator.planning.cost.terms import NodeKind
from consilium.simulations.planning.costing import CostTable, cost_table
from consilium.simulations.planning.subject import subject_of
from docs.figures import figure

SPLIT = "a function of public settings and of constants that were fitted to measurements"
MANY = ["federation.caps.queries=10000", "federation.caps.answers=10000"]
EXTRAPOLATED: tuple[tuple[int, list[str], CostedMode], ...] = (
    (10_000, MANY, "clear"),
    (10_000, MANY, "verified"),
    (32_760, [], "verified"),
    (100_000, [], "clear"),
    (1_000, [], "secure"),
)
"""Parties, what is changed in the scenario, way to collect votes."""
SIZED = (
    "federation", "votes", "a party up, down", "coordinator up, down", "its seconds, memory",
    "second aggregator: seconds, memory",
)  # fmt: skip


def stroke(changes: list[str], parties: int | None, modes: tuple[CostedMode, ...]) -> CostTable:
    """What the command computes."""
    return cost_table(subject_of("stroke", changes, 0, None), parties, modes)


def each_node() -> Iterator[list[str]]:
    """As the command prints it."""
    table = stroke([], None, COSTED_MODES)
    for way in table.costs:
        for kind, node in way.nodes.items():
            sent = [f"{size / 1e6:.5g}" for size in (node.up, node.down)]
            name = f"`{way.mode}`" + (" (as the file has it)" if way.mode == table.own else "")
            far = "" if way.measured else "yes"
            yield [name, kind.value, *sent, f"{node.seconds:.3g}", f"{node.memory / 1e6:.3g}", far]


def bytes_of(size: float) -> str:
    """
    >>> bytes_of(3133), bytes_of(245.93e6), bytes_of(19616e6)
    ('3.13 kB', '246 MB', '19.6 GB')
    """
    unit, times = next((each for each in (("GB", 1e9), ("MB", 1e6)) if size >= each[1]), ("kB", 1e3))
    return f"{size / times:.3g} {unit}"


def extrapolated() -> Iterator[list[str]]:
    """A row for each of EXTRAPOLATED, under SIZED."""
    for parties, changes, mode in EXTRAPOLATED:
        table = stroke(changes, parties, (mode,))
        nodes, load = table.costs[0].nodes, table.load
        size = f"{parties:,} parties, {load.queries:,} queries x {load.classes}"
        party, coordinator, second = (nodes.get(kind) for kind in NodeKind)
        assert party and coordinator
        sent = [f"{bytes_of(node.up)}, {bytes_of(node.down)}" for node in (party, coordinator)]
        yield [size, f"`{mode}`", *sent, _work(coordinator), _work(second) if second else ""]


def _work(node: NodeCost) -> str:
    return f"{node.seconds:.3g} s, {bytes_of(node.memory)}"


def main() -> None:
    """Print both tables."""
    command, columns = (
        "python -m benchmarks.cost.plans",
        ("votes", "node", "up, MB", "down, MB", "seconds", "memory, MB"),
    )
    with figure("scale/stroke", command, (*columns, "extrapolated"), split=SPLIT) as table:
        for row in each_node():
            table.add(*row)
    with figure("scale/extrapolated", command, SIZED, split=SPLIT) as table:
        for row in extrapolated():
            table.add(*row)


if __name__ == "__main__":
    main()
