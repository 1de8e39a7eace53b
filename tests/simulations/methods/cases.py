"""A few hospitals, and their federation as `consilium run` carries it out, without processes; made-up public rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.protocol.schema import Schema
from consilium.simulations.divide import Case, make_case
from consilium.simulations.engines.local import LocalGrid
from consilium.simulations.methods.manual_labels import PublicTruth
from consilium.simulations.scenario import Scenario, load_scenario
from consilium.simulations.simulated import Population, SimulatedFederation
from consilium.simulations.vote import Ensemble, train_ensemble
from consilium.student.config import StudentSpec
from consilium.student.learn import train
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


INPUTS = 6


def made_up(pool: int = 600, test: int = 800, classes: int = 2, seed: int = 0) -> PublicTruth:
    """Classes whose means differ, so that a hundred labels teach most of what there is to learn."""
    generator = np.random.default_rng([seed, 5])
    y = generator.integers(classes, size=pool + test)
    means = generator.normal(size=(classes, INPUTS)) * 0.5
    x = (means[y] + generator.normal(size=(pool + test, INPUTS))).astype(np.float32)
    features = tuple(f"f{index}" for index in range(INPUTS))
    names = tuple(f"class {index}" for index in range(classes))
    schema = Schema.from_public_rows(features, names, x.astype(np.float64))
    return PublicTruth(schema, x[:pool], y[:pool], x[pool:], y[pool:])


def student_on(public: PublicTruth, count: int, spec: StudentSpec, seed: int) -> np.ndarray:
    """Probabilities of the test rows by a student of `count` true labels, drawn by lot of its own."""
    rows = np.random.default_rng([seed, 77]).permutation(len(public.labels))[:count]
    x = public.schema.inputs(public.queries)
    model = train(x[rows], public.labels[rows], x[:0], len(public.schema.classes), spec, seed)
    return model.predict_proba(public.schema.inputs(public.test_x))
