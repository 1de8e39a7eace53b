"""Simulated parties with models of their own: what others wrote, and pooled ones. And divisions of flwr-datasets: the
library's own index sets, whoever asks for them, and what a user may get wrong."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightgbm import LGBMClassifier

from consilium.models.keys import CnnSpec, EstimatorSpec, PickledSpec, RandomForestSpec, TeacherKind
from consilium.models.naming import write_estimator
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.schema import Schema
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.divide import federation_config
from consilium.simulations.methods.teachers import pooled_probabilities
from consilium.simulations.population import flower
from consilium.simulations.population.flower import index_sets
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.partitions import divided
from consilium.simulations.population.specs import DataSpec, SimulationSpec, check_own_teacher
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.federation import make_config
from tests.party.teachers.test_teachers import images
from tests.simulations.engines.test_engines_agree import quiet
from tests.simulations.methods.cases import few


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (['simulation.own_teacher={model="estimator", factory="os system"}'], "module:callable"),
        (["federation.teacher.model=mlp", "federation.teacher.epochs=0"], "epochs"),
    ],
)
def test_what_a_scenario_may_not_say_of_teachers(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_scenario("stroke", overrides)


@pytest.mark.parametrize(
    "change", ["federation.teacher.model=cnn", 'simulation.own_teacher={model="cnn"}'], ids=["asked", "own"]
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
    with pytest.raises(ConfigError, match=told):
        check_own_teacher(SimulationSpec.model_validate({"own_teacher": table}), make_config().rows)


def test_reading_a_scenario_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted_by_scenario.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    trainer = "student.trainer={name='torch', factory='planted_by_scenario:Evil'}"
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


ROWS = 300
OPTIONS: dict[str, dict[str, Any]] = {
    "ContinuousPartitioner": {"num_partitions": 7, "partition_by": "age", "strictness": 0.7},
    "DirichletPartitioner": {"num_partitions": 6, "partition_by": "label", "alpha": 0.5, "min_partition_size": 2},
    "DistributionPartitioner": {"distribution_array": [[1.0, 2.0], [3.0, 1.0], [1.0, 1.0]], "num_partitions": 6,
     "num_unique_labels_per_partition": 1, "partition_by": "label", "preassigned_num_samples_per_label": 3},
    "ExponentialPartitioner": {"num_partitions": 4},
    "GroupedNaturalIdPartitioner": {"partition_by": "owner", "group_size": 3, "mode": "allow-smaller"},
    "IidPartitioner": {"num_partitions": 7},
    "InnerDirichletPartitioner": {"partition_sizes": [20, 30, 50, 200], "partition_by": "label", "alpha": 0.8},
    "LinearPartitioner": {"num_partitions": 6},
    "NaturalIdPartitioner": {"partition_by": "patient"},
    "PathologicalPartitioner": {"num_partitions": 6, "partition_by": "label", "num_classes_per_partition": 2},
    "ShardPartitioner": {"num_partitions": 5, "partition_by": "label", "num_shards_per_partition": 2},
    "SizePartitioner": {"partition_sizes": [10, 90, 200]},
    "SquarePartitioner": {"num_partitions": 5},
}  # fmt: skip
"""One of every partitioner that divides rows."""


def people(**changes: Any) -> Dataset:
    """40 of the rows are public."""
    generator = np.random.default_rng(0)
    columns = {"y": generator.permutation(np.arange(ROWS) % 3), "owner": generator.integers(0, 11, ROWS), **changes}
    return Dataset(
        name="people", title="", attribution="", features=("age", "sex"), classes=("a", "b", "c"), owner_label="site",
        x=np.column_stack([generator.normal(50, 9, ROWS), generator.integers(0, 2, ROWS)]).astype(np.float32),
        patient=generator.integers(0, 120, ROWS), time=generator.normal(size=ROWS),
        public=Public(np.arange(0, 30), np.arange(30, 40)), **columns,
    )  # fmt: skip


def parts_of(data: Dataset, minimum_parties: int = 2, least_rows: int = 1, **table: Any) -> Partition:
    keys = {"set": "stroke", "partition": "flwr", "partitioner": table, "least_rows": least_rows}
    return divided(data, DataSpec.model_validate(keys), minimum_parties, 0)


def test_every_partitioner_of_the_library_is_known() -> None:
    listed = set(importlib.import_module("flwr_datasets.partitioner").__all__)
    assert set(OPTIONS) | set(flower._UNUSABLE) == listed


@pytest.mark.parametrize("name", OPTIONS)
def test_the_very_same_index_sets(name: str) -> None:
    """As a user of flwr-datasets gets them from the public interface alone, with the seed where it has a lot."""
    data, seed, options = people(), 1, dict(OPTIONS[name])
    columns = {"label": data.y, "owner": data.owner, "patient": data.patient, "age": data.x[:, 0]}
    found = index_sets(columns, {"name": name, **options}, seed)  # pyright: ignore[reportArgumentType]
    datasets, partitioners = (importlib.import_module(each) for each in ("datasets", "flwr_datasets.partitioner"))
    if name.startswith(("Continuous", "Dirichlet", "Distribution", "Inner", "Pathological", "Shard")):
        options["seed"] = seed
    if "distribution_array" in options:
        options["distribution_array"] = np.array(options["distribution_array"])
    partitioner = getattr(partitioners, name)(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        partitioner.dataset = datasets.Dataset.from_dict({**columns, "id": np.arange(ROWS)}).shuffle(seed=seed)
        expected = [list(partitioner.load_partition(at)["id"]) for at in range(partitioner.num_partitions)]
    assert [part.tolist() for part in found] == expected
    assert sum(map(len, found)) > 0


def test_pieces_of_the_library_are_no_blocks_of_the_file() -> None:
    """Its iid partitioner cuts contiguous pieces: of rows in the order of hospitals it would make hospitals."""
    data = people(owner=np.arange(ROWS) // 30)
    parts = parts_of(data, name="IidPartitioner", num_partitions=5)
    assert np.mean([len(set(data.owner[part])) for part in parts.parties.values()]) > 8
    private = np.sort(np.concatenate(list(parts.parties.values())))
    assert (private == np.arange(40, ROWS)).all()  # the others are public


def test_small_partitions_are_left_out_and_named() -> None:
    table = {"name": "SizePartitioner", "partition_sizes": [3, 50, 1, 60]}
    assert len(parts_of(people(), **table).parties) == 4
    parts = parts_of(people(), least_rows=10, **table)
    assert {name: len(rows) for name, rows in parts.parties.items()} == {"party-1": 50, "party-3": 60}
    assert parts.left_out == 2
    with pytest.raises(NotEnoughParties, match="2 parties with 50 rows or more, 2 have fewer, at least 3 with 10"):
        parts_of(people(), 3, least_rows=10, **table)


def test_a_class_that_no_private_row_has_leaves_no_gap() -> None:
    """Inner Dirichlet counts classes from 0: with a gap it would never deal the last one."""
    data = people()
    data = replace(data, y=np.where(data.y == 1, 2, data.y))
    table = {"name": "InnerDirichletPartitioner", "partition_sizes": [130, 130], "partition_by": "label", "alpha": 5.0}
    assert sum(map(len, parts_of(data, **table).parties.values())) == 260


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"num_partitions": 3}, "partitioner.name is '', no partitioner of flwr-datasets for rows. Choose from .*Iid"),
    ({"name": "VerticalEvenPartitioner"}, "no partitioner of flwr-datasets for rows. Choose from"),
    ({"name": "IidPartitioner", "num_partitions": 3, "alpha": 1.0}, r"refuses: TypeError.*takes \(num_partitions"),
    ({"name": "IidPartitioner", "num_partitions": 0}, "IidPartitioner refuses: ValueError: The number of partitions"),
    ({"name": "IidPartitioner", "num_partitions": 301}, "num_partitions 301 is more than the 260 rows"),
    ({**OPTIONS["ContinuousPartitioner"], "name": "ContinuousPartitioner", "partition_by": "weight"},
     "'weight' is no column of people. It has label, owner, patient, time, and the features age, sex"),
    ]  # fmt: skip


@pytest.mark.parametrize(("table", "told"), WRONG)
def test_what_a_table_may_not_say(table: dict[str, Any], told: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        parts_of(people(), **table)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_without_the_extra_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = importlib.import_module

    def without(name: str, *more: Any) -> Any:
        if name.startswith("flwr_datasets"):
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ConfigError, match=r"which is not installed. pip install 'consilium-pate\[partitions\]'"):
        index_sets({"label": np.arange(4)}, {"name": "IidPartitioner", "num_partitions": 2}, 0)
