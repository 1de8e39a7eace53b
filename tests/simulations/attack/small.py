"""A small federation of the stroke trial: the hospitals with most patients, so that everything is cheap."""

from __future__ import annotations

from functools import cache

import numpy as np

from consilium.simulations.attack.membership import asked_rows
from consilium.simulations.attack.shadows import Shadows
from consilium.simulations.divide import Case, divide
from consilium.simulations.scenario import load_scenario

SMALL = (
    "data.least_rows=180",
    "federation.minimum_parties=5",
    "federation.query_budget.queries=60",
    "federation.query_budget.answers=60",
    "federation.mechanism.sigma=20",
)


@cache
def small(*overrides: str) -> Case:
    return divide(load_scenario("stroke", [*SMALL, *overrides]), 0)


@cache
def everything(*overrides: str) -> Shadows:
    case = small(*overrides)
    return Shadows(case, np.arange(len(case.pool_x)), 0, halves=0)


@cache
def shadows(*overrides: str) -> Shadows:
    return Shadows(small(*overrides), asked_rows(everything(*overrides)), 0, halves=3)
