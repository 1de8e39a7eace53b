"""Federations whose teachers and student others wrote: a run from start to audit, and what is found before it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lightgbm import LGBMClassifier

from consilium.models.keys import EstimatorSpec, PickledSpec
from consilium.models.naming import write_estimator
from consilium.protocol.errors import ConfigError
from consilium.simulations.population.parties import check_own_teachers
from consilium.simulations.population.specs import SimulationSpec
from consilium.simulations.scenario import load_scenario
from tests.federation import make_config


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"model": "estimator", "factory": "absent_package.Thing"}, "own teacher:.*there is no module absent_package"),
        ({"model": "estimator", "factory": "tests.strangers:Raises"}, "made-up rows: RuntimeError"),
        ({"model": "pickled", "file": "/absent/teacher.pkl"}, "cannot read /absent/teacher.pkl"),
        ({"model": "cnn"}, "3 features are no square image"),
    ],
)
def test_what_cannot_be_trained_is_found_before_the_run(table: dict, told: str) -> None:
    schema = make_config().rows
    for simulation in (
        SimulationSpec.model_validate({"own_teacher": table}),
        SimulationSpec.model_validate({"teachers": [{"share": 0.5, "teacher": table}]}),
    ):
        with pytest.raises(ConfigError, match=told):
            check_own_teachers(simulation, schema)


def test_reading_a_scenario_imports_nothing(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "planted_by_scenario.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    scenario = load_scenario(
        "stroke",
        [
            "simulation.own_teacher={model='estimator', factory='planted_by_scenario:Evil'}",
            "student.trainer.name=torch",
            "student.trainer.factory=planted_by_scenario:Evil",
        ],
    )
    assert isinstance(scenario.simulation.own_teacher, EstimatorSpec)
    assert "planted_by_scenario" not in sys.modules


def test_a_file_of_a_simulated_party_is_found_wherever_it_is(tmp_path: Path, monkeypatch) -> None:
    write_estimator(tmp_path / "theirs.pkl", LGBMClassifier())
    monkeypatch.chdir(tmp_path)
    found = PickledSpec(file="theirs.pkl").anywhere()
    assert isinstance(found, PickledSpec)
    assert (found.file, len(found.sha256)) == (str(tmp_path / "theirs.pkl"), 64)
    assert found.build(0).random_state == 0
