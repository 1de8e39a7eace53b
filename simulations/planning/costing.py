"""`consilium plan --cost`: what a file's federation costs its nodes, in every way to collect votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from consilium.coordinator.config import Federation
from consilium.coordinator.planning.cost.cautions import CostCaution, cautions_of
from consilium.coordinator.planning.cost.constants import MACHINE
from consilium.coordinator.planning.cost.load import CostedMode, Load
from consilium.coordinator.planning.cost.model import Costs, all_costs
from consilium.coordinator.planning.plan import is_open
from consilium.protocol.labels.service import Progress, no_progress
from consilium.simulations.planning.subject import PlanSubject


@dataclass(frozen=True)
class CostTable:
    """own: the file's way to collect votes. costs, cautions: of the modes that are shown, in order."""

    own: str
    load: Load
    costs: tuple[Costs, ...]
    cautions: tuple[CostCaution, ...]

    @property
    def unfit(self) -> bool:
        """Whether there is anything to say against the way that the file has, or the only one that is shown."""
        shown = [each.mode for each in self.costs]
        asked = shown if len(shown) == 1 else [self.own]
        return any(caution.mode in asked for caution in self.cautions)

    def to_json(self) -> dict[str, object]:
        """As it is printed."""
        return {
            "votes": self.own,
            "load": asdict(self.load),
            "modes": [each.to_json() for each in self.costs],
            "cautions": [each.to_json() for each in self.cautions],
            "machine": MACHINE,
        }

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


def cost_table(
    subject: PlanSubject, parties: int | None, modes: Sequence[CostedMode], progress: Progress = no_progress
) -> CostTable:
    """Of this file with as many parties as it has, or `parties`; a mechanism that is open is planned first.

    Raises
    ------
    ConfigError, DataError, NotEnoughParties
    """
    facts = subject.facts()
    open_one = is_open(subject.table)
    federation = subject.planned(None, 2, progress).federation if open_one else subject.federation()
    load = Load(
        parties=facts.parties if parties is None else parties,
        queries=federation.all_caps.queries,
        classes=facts.classes,
        features=len(subject.schema().features),
        teachers=federation.teachers_per_party,
        pool=max(facts.available, federation.all_caps.queries),
        sigma=_noise(federation),
    )
    costs = all_costs(load)
    return CostTable(
        federation.votes,
        load,
        tuple(costs[mode] for mode in modes),
        tuple(each for mode in modes for each in cautions_of(mode, load, costs)),
    )


def _noise(federation: Federation) -> float:
    """Of parties on one count, where this federation has it."""
    noises = federation.sum_noises(1)  # in how many shares does not matter to their sum
    noise = noises[0].drawn if noises else federation.event(0, 0).party_noise(1)
    return 0.0 if noise is None else noise.sigma
