"""Simulated parties with models of their own: what others wrote, and pooled ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightgbm import LGBMClassifier

from consilium.models.keys import CnnSpec, EstimatorSpec, PickledSpec, RandomForestSpec, TeacherKind
from consilium.models.naming import write_estimator
from consilium.protocol.errors import ConfigError
from consilium.protocol.schema import Schema
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import federation_config
from consilium.simulations.methods.pooled import pooled_probabilities
from consilium.simulations.population.parties import check_own_teachers, own_teachers
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.specs import SimulationSpec
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.federation import make_config
from tests.party.teachers.test_teachers import images
from tests.simulations.engines.test_engines_agree import quiet
from tests.simulations.methods.cases import few


def own(shares: list[tuple[float, int]], parties: int, seed: int, others: int = 0) -> list[int]:
    """Trees of each party's own forest; 0 where it has none."""

    def forest(trees: int) -> dict[str, Any] | None:
        return {"model": "random_forest", "trees": trees} if trees else None

    teachers = [{"share": part, "teacher": forest(trees)} for part, trees in shares]
    simulation = SimulationSpec.model_validate({"own_teacher": forest(others), "teachers": teachers})
    found = own_teachers(simulation, parties, seed)
    return [getattr(found.get(index), "trees", 0) for index in range(parties)]


def test_shares_are_drawn_by_lot() -> None:
    shares = [(0.25, 1), (0.25, 2), (1 / 6, 3)]
    assert sorted(own(shares, 12, 1)) == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
    assert own(shares, 12, 1) == own(shares, 12, 1) != own(shares, 12, 2)
    assert own([], 12, 1) == [0] * 12
    assert own([(1 / 3, 1)] * 3, 10, 0) == [1] * 10
    assert sorted(own([(0.25, 1)], 8, 0, others=5)) == [1, 1, *[5] * 6]


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (['simulation.teachers=[{share=0.7, teacher={model="mlp"}},{share=0.7, teacher={model="mlp"}}]'], "sum to 1.4"),
        (['simulation.teachers=[{share=0.1, teacher={model="estimator", factory="os system"}}]'], "module:callable"),
        (["federation.teacher.model=mlp", "federation.teacher.epochs=0"], "epochs"),
    ],
)
def test_what_a_scenario_may_not_say_of_teachers(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_scenario("stroke", overrides)


@pytest.mark.parametrize(
    "change",
    ["federation.teacher.model=cnn", 'simulation.teachers=[{share=0.5, teacher={model="cnn"}}]'],
    ids=["asked", "own"],
)
def test_a_network_for_images_is_held_against_the_data_before_the_run(change: str) -> None:
    x, y = images(60)
    names = tuple(f"p{index}" for index in range(x.shape[1]))
    data = Dataset(
        name="pictures", title="Pictures", attribution="", features=names, classes=("a", "b", "c"), y=y,
        owner_label="party", x=x.astype(np.float32), owner=np.zeros(60, dtype=np.int64),
    )  # fmt: skip
    parts = Partition({"p0": np.arange(20), "p1": np.arange(20, 40)}, np.arange(40, 50), np.arange(50, 60))
    three = ["data.classes=['a','b','c']", "federation.voting_rule={rule='top'}", "student.prevalence=[0.3,0.3,0.4]"]
    with pytest.raises(ConfigError, match=r"standardised one by one.*data.standardise=false"):
        federation_config(load_scenario("stroke", [*three, change]), data, parts, 0)
    scenario = load_scenario("stroke", [*three, change, "data.standardise=false"])
    config = federation_config(scenario, data, parts, 0)
    assert (set(config.rows.center), set(config.rows.scale)) == ({0.0}, {1.0})
    narrow = Dataset(**{**vars(data), "x": data.x[:, :100], "features": data.features[:100]})
    with pytest.raises(ConfigError, match="100 features are no square image"):
        federation_config(scenario, narrow, parts, 0)


@pytest.mark.parametrize(
    "spec", [RandomForestSpec(trees=10), CnnSpec(channels=4, hidden=16)], ids=lambda spec: spec.model
)
def test_the_pooled_baseline_is_of_the_teachers_kind(spec: TeacherKind) -> None:
    x, y = images(150)
    test, truth = images(150, seed=1)
    schema = Schema.of_images(tuple(map(str, range(256))), ("a", "b", "c", "absent"), "none")
    found = pooled_probabilities(schema, spec, x, y, test)
    assert found.shape == (150, 4) and (found[:, 3] < 1e-6).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    assert (found.argmax(axis=1) == truth).mean() > 0.9


@pytest.mark.parametrize(("engine", "told"), [("local", "finds no GPU"), ("ray", "gives its parties no GPU")])
def test_a_gpu_that_is_not_there_stops_a_run_before_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Any, told: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=told):
        run_scenario("stroke", few(), engine, 0, tmp_path / "run", quiet, device="cuda")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"model": "estimator", "factory": "absent_package.Thing"}, "own teacher:.*there is no module absent_package"),
        ({"model": "estimator", "factory": "tests.strangers:Raises"}, "made-up rows: RuntimeError"),
        ({"model": "pickled", "file": "/absent/teacher.pkl"}, "cannot read /absent/teacher.pkl"),
        ({"model": "cnn"}, "3 features are no square image"),
    ],
)
def test_what_cannot_be_trained_is_found_before_the_run(table: dict[str, str], told: str) -> None:
    for keys in ({"own_teacher": table}, {"teachers": [{"share": 0.5, "teacher": table}]}):
        with pytest.raises(ConfigError, match=told):
            check_own_teachers(SimulationSpec.model_validate(keys), make_config().rows)


def test_reading_a_scenario_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted_by_scenario.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    trainer = "student.trainer={name='torch', factory='planted_by_scenario:Evil', loss='planted_by_scenario:evil'}"
    own = "simulation.own_teacher={model='estimator', factory='planted_by_scenario:Evil'}"
    assert isinstance(load_scenario("stroke", [own, trainer]).simulation.own_teacher, EstimatorSpec)
    assert "planted_by_scenario" not in sys.modules


def test_a_file_of_a_simulated_party_is_found_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_estimator(tmp_path / "theirs.pkl", LGBMClassifier())
    monkeypatch.chdir(tmp_path)
    found = PickledSpec(file="theirs.pkl").anywhere()
    assert isinstance(found, PickledSpec)
    assert (found.file, len(found.sha256)) == (str(tmp_path / "theirs.pkl"), 64)
    assert found.build(0).random_state == 0
