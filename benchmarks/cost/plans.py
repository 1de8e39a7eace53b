"""What a file's federation costs its nodes: `python -m benchmarks.cost.plans [FILE [PARTIES]]`.

Without FILE it makes the tables of docs/scale.md: the scenario stroke as its file has it, and far more parties than
anybody has measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.cost.model import (
    COSTED_MODES,
    MACHINE,
    CostCaution,
    CostedMode,
    Costs,
    Load,
    NodeCost,
    NodeKind,
    all_costs,
    cautions_of,
)
from consilium.coordinator.config import Federation
from consilium.coordinator.planning.plan import is_open
from consilium.simulations.plan_subject import PlanSubject, subject_of
from docs.figures import figure

SPLIT = "a function of public settings and of constants that were fitted to measurements"
MANY = ["federation.query_budget.queries=10000", "federation.query_budget.answers=10000"]
EXTRAPOLATED: tuple[tuple[int, list[str], CostedMode], ...] = (
    (10_000, MANY, "plaintext"),
    (10_000, MANY, "verified"),
    (32_760, [], "verified"),
    (100_000, [], "plaintext"),
    (100_000, [], "verified"),
    (1_000_000, [], "verified"),
    (1_000, [], "secure"),
)
"""Parties, what is changed in the scenario, way to collect votes."""
SIZED = (
    "federation", "votes", "a party up, down", "coordinator up, down", "its seconds, memory",
    "second aggregator: seconds, memory",
)  # fmt: skip


@dataclass(frozen=True)
class CostTable:
    """own: the file's way to collect votes. costs, cautions: of the modes that are shown, in order."""

    own: str
    load: Load
    costs: tuple[Costs, ...]
    cautions: tuple[CostCaution, ...]

    def lines(self) -> list[str]:
        """For people."""
        load = self.load
        pool = f", of {load.pool} in the pool" if load.pool else ""
        heads = ("up, MB", "down, MB", "seconds", "memory, MB")
        lines = [
            f"{load.parties} parties, {load.queries} queries{pool}, {load.classes} classes, {load.features} features,"
            f" {load.teachers} vote{'s' if load.teachers > 1 else ''} of each party; {load.lost:.0%} of them lost",
            f"{'':34}" + "".join(f"{head:>12}" for head in heads),
        ]
        for each in self.costs:
            name = f"{each.mode}{'*' if each.mode == self.own else ''}"
            for kind, node in each.nodes.items():
                far = "" if each.measured else "   extrapolated"
                lines.append(
                    f"{name:<15}{kind:<19}{node.up / 1e6:12.5g}{node.down / 1e6:12.5g}{node.seconds:12.3g}"
                    f"{node.memory / 1e6:12.3g}{far}"
                )
                name = ""
        return [
            *lines,
            "*: as the file has it. Memory is beyond the program's own. Training and answers of the teachers, Flower's",
            f"network and database, and the student are not in it. Measured on {MACHINE}",
            *(f"WARNING    {each.mode}: {each.text}" for each in self.cautions),
        ]


def cost_table(subject: PlanSubject, parties: int | None, modes: Sequence[CostedMode]) -> CostTable:
    """Of this file with as many parties as it has, or `parties`; a mechanism that is open is planned first.

    Raises
    ------
    ConfigError, DataError, NotEnoughParties
    """
    facts = subject.facts()
    open_one = is_open(subject.table)
    federation = subject.planned(None, 2).federation if open_one else subject.federation()
    load = Load(
        parties=facts.parties if parties is None else parties,
        queries=federation.whole_budget.queries,
        classes=facts.classes,
        features=len(subject.schema().features),
        teachers=federation.teachers_per_party,
        pool=max(facts.available, federation.whole_budget.queries),
        sigma=_noise(federation),
    )
    costs = all_costs(load)
    return CostTable(
        federation.collection,
        load,
        tuple(costs[mode] for mode in modes),
        tuple(each for mode in modes for each in cautions_of(mode, load, costs)),
    )


def _noise(federation: Federation) -> float:
    """Of parties on one count, where this federation has it."""
    noises = federation.sum_noises(1)  # in how many shares does not matter to their sum
    noise = noises[0].drawn if noises else federation.event(0, 0).party_noise(1)
    return 0.0 if noise is None else noise.sigma


def stroke(changes: list[str], parties: int | None, modes: tuple[CostedMode, ...]) -> CostTable:
    """Of that scenario with these changes."""
    return cost_table(subject_of("stroke", changes, 0, None), parties, modes)


def each_node() -> Iterator[list[str]]:
    """A row for each node in each way to collect votes."""
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


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table of a file, or both tables of the page."""
    if arguments:
        file, *parties = arguments
        table = cost_table(subject_of(file, [], 0, None), int(parties[0]) if parties else None, COSTED_MODES)
        print("\n".join(table.lines()))
        return
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
    main(sys.argv[1:])
