"""A few hospitals, and their federation as `consilium run` carries it out, without processes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.simulations.divide import Case, make_case
from consilium.simulations.engines.local import LocalGrid
from consilium.simulations.scenario import Scenario, load_scenario
from consilium.simulations.simulated import Population, SimulatedFederation
from consilium.simulations.vote import Ensemble, train_ensemble
from tests.workers import Here

FEW = (
    "data.least_rows=150",
    "federation.minimum_parties=5",
    "federation.query_budget.queries=60",
    "federation.query_budget.answers=60",
    "simulation.manual_labels=none",
)
SEED = 3


def few(*changes: str) -> Scenario:
    """Hospitals with 150 patients or more; `changes` as after --set."""
    return load_scenario("stroke", [*FEW, *changes])


@cache
def taught(home_share: float, *changes: str) -> tuple[Case, Ensemble]:
    """A case and all that its teachers said."""
    case = make_case(few(*changes), SEED, home_share)
    return case, train_ensemble(case)


def run_alone(case: Case, folder: Path) -> None:
    """The federation of a case with real parties, which train for themselves, in this process."""
    with LocalGrid(Population.of(case), [Here()]) as grid:
        SimulatedFederation.of(case).run(FlowerTransport(grid), folder)
