"""One small run a session, for tests that only read a run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.simulations.small import SMALL

SANITISED = [f"federation.privacy.sanitised.{key}" for key in ("order=2.5", "beta=0.05", "sigma_ss=6")]


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that released a sanitised epsilon. Whoever changes it copies it first."""
    out = tmp_path_factory.mktemp("small") / "run"
    run_scenario("stroke", load_scenario("stroke", [*SMALL, *SANITISED, "student.batch=50"]), "local", 4, out)
    return out
