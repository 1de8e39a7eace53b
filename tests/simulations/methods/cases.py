"""A few hospitals, and their federation as `consilium run` carries it out, without processes."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from pathlib import Path

from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun
from consilium.simulations.divide import Case, make_case
from consilium.simulations.in_process import student
from consilium.simulations.progress import EVENTS
from consilium.simulations.scenario import Scenario, load_scenario
from consilium.simulations.vote import Ensemble, train_ensemble
from consilium.simulations.workspace import Workspace, lay_out
from tests.federation import FakeTransport

FEW = (
    "data.least_rows=150",
    "federation.minimum_parties=5",
    "federation.query_budget.queries=60",
    "federation.query_budget.answers=60",
    "simulation.hand_labels=none",
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


def run_alone(case: Case, folder: Path) -> Workspace:
    """The federation of a case with real parties, which train for themselves, in this process."""
    space = Workspace(folder)
    lay_out(space, case)
    homes = [space.home(index) for index in range(len(case.parties))]
    with closing(EventLog(folder / EVENTS)) as log:
        FederationRun(FakeTransport(homes), case.config, folder, log, student(folder)).run()
    return space
