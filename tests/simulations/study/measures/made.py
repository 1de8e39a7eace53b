"""Small cases with made-up rows, whose teachers are trained in a moment."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import Case, make_case
from consilium.simulations.scenario import Scenario
from consilium.simulations.vote import Ensemble, train_ensemble

FEATURES = ("a", "b", "c")


def made_rows(sizes: list[int], classes: int = 2, skew: float = 0.0, far: float = 0.0, seed: int = 0) -> Dataset:
    """Owners with so many rows. skew: from 0 to 1, share of an owner's rows that are of one class, its own. far: by how
    much the features of each owner lie elsewhere."""
    generator = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    own = generator.integers(classes, size=len(sizes))[owner]
    y = np.where(generator.random(len(owner)) < skew, own, generator.integers(classes, size=len(owner)))
    x = generator.normal(size=(len(owner), 3)) + np.eye(3)[y]
    x[:, 2] += far * generator.normal(size=len(sizes))[owner]
    names = tuple(f"class {label}" for label in range(classes))
    return Dataset(
        name="made",
        title="Made up",
        attribution="nobody",
        features=FEATURES,
        classes=names,
        owner_label="site",
        x=x.astype(np.float32),
        y=y,
        owner=owner,
    )


def made_case(rows: Dataset, home_share: float = 0.25, seed: int = 0, **tables: dict[str, Any]) -> Case:
    """Owners with two rows are parties, a fifth is public. tables: keys of [data], [federation], [student]."""
    federation = {
        "name": "made",
        "minimum_parties": 2,
        "collection": "plaintext",
        "mechanism": {"name": "gnmax", "sigma": 2.0},
        "privacy": {"unit": "party", "delta": 1e-5},
        "query_budget": {"queries": 40, "answers": 40},
        **tables.get("federation", {}),
    }
    scenario = Scenario.model_validate(
        {
            "data": {"set": "memory", "public_share": 0.25, "least_rows": 2, **tables.get("data", {})},
            "federation": federation,
            "student": tables.get("student", {}),
        }
    )
    return make_case(scenario, seed, home_share, rows)


def taught(rows: Dataset, **named: Any) -> tuple[Case, Ensemble]:
    """A case and its teachers."""
    case = made_case(rows, **named)
    return case, train_ensemble(case)
