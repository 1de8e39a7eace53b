"""Federations of several kinds of teachers, the device of a run, and the pooled baseline of each kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from consilium.models.keys import CnnSpec, MlpSpec, RandomForestSpec, TeacherKind
from consilium.protocol.errors import ConfigError
from consilium.protocol.schema import Schema
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import federation_config
from consilium.simulations.methods.pooled import pooled_probabilities
from consilium.simulations.population.parties import own_teachers
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.specs import SimulationSpec
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import Scenario, load_scenario
from tests.party.teachers.test_teachers import images
from tests.simulations.engines.test_engines_agree import quiet

SMALL = [
    "data.least_rows=150",
    "federation.minimum_parties=5",
    "federation.teachers_per_party=2",
    "federation.mechanism.threshold=10",
    "federation.mechanism.sigma1=20",
    "federation.mechanism.sigma2=8",
    "federation.query_budget.queries=60",
    "federation.query_budget.answers=40",
]


def own(shares: list[tuple[float, int]], parties: int, seed: int, others: int = 0) -> list[int]:
    """Trees of each party's own forest; 0 where it has none."""
    simulation = SimulationSpec.model_validate(
        {
            "own_teacher": {"model": "random_forest", "trees": others} if others else None,
            "teachers": [
                {"share": part, "teacher": {"model": "random_forest", "trees": trees}} for part, trees in shares
            ],
        }
    )
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


def pictures() -> tuple[Dataset, Partition]:
    x, y = images(60)
    names = tuple(f"p{index}" for index in range(x.shape[1]))
    owner = np.zeros(60, dtype=np.int64)
    data = Dataset(
        name="pictures",
        title="Pictures",
        attribution="",
        features=names,
        classes=("a", "b", "c"),
        owner_label="party",
        x=x.astype(np.float32),
        y=y,
        owner=owner,
    )
    parties = {"p0": np.arange(20), "p1": np.arange(20, 40)}
    return data, Partition(parties, np.arange(40, 50), np.arange(50, 60))


def picture_scenario(*changes: str) -> Scenario:
    three = ["data.classes=['a','b','c']", "federation.voting_rule={rule='top'}", "student.prevalence=[0.3,0.3,0.4]"]
    return load_scenario("stroke", [*three, *changes])


@pytest.mark.parametrize(
    "changes",
    [["federation.teacher.model=cnn"], ['simulation.teachers=[{share=0.5, teacher={model="cnn"}}]']],
    ids=["asked", "own"],
)
def test_a_network_for_images_is_held_against_the_data_before_the_run(changes: list[str]) -> None:
    data, parts = pictures()
    with pytest.raises(ConfigError, match=r"standardised one by one.*data.standardise=false"):
        federation_config(picture_scenario(*changes), data, parts, 0)
    config = federation_config(picture_scenario(*changes, "data.standardise=false"), data, parts, 0)
    assert (set(config.rows.center), set(config.rows.scale)) == ({0.0}, {1.0})
    narrow = Dataset(**{**vars(data), "x": data.x[:, :100], "features": data.features[:100]})
    with pytest.raises(ConfigError, match="100 features are no square image"):
        federation_config(picture_scenario(*changes, "data.standardise=false"), narrow, parts, 0)


@pytest.mark.parametrize(
    "spec", [RandomForestSpec(trees=10), CnnSpec(channels=4, hidden=16)], ids=lambda spec: spec.model
)
def test_the_pooled_baseline_is_of_the_teachers_kind(spec: TeacherKind) -> None:
    x, y = images(150)
    test, truth = images(150, seed=1)
    schema = Schema.of_images(tuple(map(str, range(256))), ("a", "b", "c", "absent"), "none")
    found = pooled_probabilities(schema, spec, x, y, test)
    assert found.shape == (150, 4)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    assert (found[:, 3] < 1e-6).all()
    assert (found.argmax(axis=1) == truth).mean() > 0.9


def test_the_pooled_network_is_bounded(monkeypatch) -> None:
    from consilium.simulations.methods import pooled

    epochs = [pooled._model(MlpSpec(), rows).keys.epochs for rows in (100, 50_000, 1_000_000)]
    assert epochs == [20, 4, 1]


@pytest.mark.parametrize(("engine", "told"), [("local", "finds no GPU"), ("ray", "gives its parties no GPU")])
def test_a_gpu_that_is_not_there_stops_a_run_before_its_folder(
    tmp_path: Path, monkeypatch, engine: str, told: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=told):
        run_scenario("stroke", load_scenario("stroke", SMALL), engine, 0, tmp_path / "run", quiet, device="cuda")  # pyright: ignore
    assert not (tmp_path / "run").exists()
