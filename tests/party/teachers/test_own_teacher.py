"""A party's own `[teacher]`: it overrides what the coordinator asks, and only the party may name a class."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from pydantic import ValidationError
from sklearn.ensemble import RandomForestClassifier
from typer.testing import CliRunner

from consilium import cli
from consilium.models.keys import CnnSpec, EstimatorSpec
from consilium.models.own_model import OwnCodeTeacher
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import TrainRequest
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema
from tests.federation import HomeFile as PartyFile
from tests.federation import make_config, make_home, node_at, open_home
from tests.node.folders import give_rows, make_small
from tests.party.test_node import CONFIG, HASH, join, make_rows, vote
from tests.party.test_node import train as train_request

SVC_TABLE = {"model": "estimator", "factory": "sklearn.svm.SVC", "parameters": {"C": 2.0, "kernel": "rbf"}}


def home_with(tmp_path: Path, teacher: dict[str, Any], **policy: Any) -> Path:
    folder = make_home(tmp_path / "home", "p", **policy)
    settings = load(folder / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
    (folder / "party.toml").write_text(tomli_w.dumps({**settings, "teacher": teacher}))
    return folder


def trained(tmp_path: Path, teacher: dict[str, Any], request: TrainRequest | None = None) -> Any:
    party = node_at(home_with(tmp_path, teacher))
    join(party, request)
    return party.teachers(HASH).teachers[0]


def test_the_own_teacher_is_trained_and_votes(tmp_path: Path) -> None:
    forest = trained(tmp_path, {"model": "random_forest", "trees": 7})
    assert isinstance(forest, RandomForestClassifier)
    assert len(forest.estimators_) == 7
    x, y = make_rows(300, 6)
    votes = node_at(tmp_path / "home").vote(vote(x)).choices
    assert (votes[:, 0] == y).mean() > 0.75


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (SVC_TABLE, "SVC"),
        ({"model": "estimator", "factory": "sklearn.linear_model.RidgeClassifier"}, "RidgeClassifier"),
        ({"model": "estimator", "factory": "lightgbm.LGBMClassifier", "parameters": {"verbose": -1}}, "LGBMClassifier"),
    ],
)
def test_any_classifier_of_scikit_learn(tmp_path: Path, table: dict[str, Any], kind: str) -> None:
    teacher = trained(tmp_path, table)
    assert isinstance(teacher, OwnCodeTeacher)
    assert type(teacher.trained.estimator).__name__ == kind
    rows = np.zeros((4, 3))
    assert teacher.classes_.tolist() == [0, 1]
    assert teacher.predict_proba(rows).sum(axis=1) == pytest.approx([1] * 4)
    assert (teacher.classes_[teacher.predict_proba(rows).argmax(axis=1)] == teacher.predict(rows)).all()


def test_the_seed_of_the_run_reaches_the_own_estimator() -> None:
    table = {"model": "estimator", "factory": "sklearn.tree.DecisionTreeClassifier"}
    assert EstimatorSpec.model_validate(table).build(2**40 + 5).get_params()["random_state"] == 5
    fixed = EstimatorSpec.model_validate({**table, "parameters": {"random_state": 9}})
    assert fixed.build(5).get_params()["random_state"] == 9


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"factory": "sklearn.svm.SVC"}, "model"),
        ({"model": "random_forest", "factory": "sklearn.svm.SVC"}, "unknown key"),
    ],
)
def test_faults_of_the_own_table_are_told_when_it_is_read(tmp_path: Path, table: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        open_home(home_with(tmp_path, table))


@pytest.mark.parametrize("table", [SVC_TABLE, {"model": "estimator", "factory": "planted_by_coordinator.Evil"}])
def test_a_coordinator_cannot_name_a_class(tmp_path: Path, monkeypatch, table: dict[str, Any]) -> None:
    (tmp_path / "planted_by_coordinator.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    party = node_at(make_home(tmp_path / "home", "p"))
    with pytest.raises(Refused) as caught:
        join(party, train_request(spec_json=json.dumps(table)))
    assert caught.value.refusal.rule is Rule.MALFORMED
    assert "planted_by_coordinator" not in sys.modules
    with pytest.raises(ValidationError):
        make_config(teacher=table)


IMAGES = Schema.of_images(tuple(f"p{index}" for index in range(256)), ("well", "ill"), "none")


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (CONFIG.rows, "3 features are no square image"),
        (
            Schema.of_images(tuple(map(str, range(784))), IMAGES.classes, "scattering"),
            "representation 'scattering' gives no images",  # though it gives 63^2 numbers
        ),
    ],
)
def test_a_network_for_images_refuses_other_rows(tmp_path: Path, schema: Schema, told: str) -> None:
    party = node_at(make_home(tmp_path / "home", "p"))
    spec = CnnSpec().model_dump_json()
    with pytest.raises(Refused) as caught:
        join(party, train_request(spec_json=spec, rows_json=schema.model_dump_json()))
    assert caught.value.refusal.rule is Rule.SCHEMA
    assert told in caught.value.detail


def dry_run(tmp_path: Path, teacher: dict[str, Any]) -> tuple[str, BaseException | None]:
    folder = make_small(tmp_path).nodes["p00"]
    give_rows(folder, teacher=teacher)
    result = CliRunner().invoke(cli.app, ["party", "dry-run", str(folder.path)])
    return result.output, result.exception


@pytest.mark.parametrize(
    ("teacher", "told"),
    [
        ({"model": "cnn"}, "the teacher would be refused: schema: teacher cnn: 3 features"),
        (
            {**SVC_TABLE, "parameters": {"C": -1.0}},
            "the teacher would be refused: policy: [teacher] sklearn.svm.SVC cannot be trained on made-up rows",
        ),
    ],
)
def test_a_dry_run_tells_what_is_wrong_with_the_own_teacher(tmp_path: Path, teacher: dict[str, Any], told: str) -> None:
    output, error = dry_run(tmp_path, teacher)
    assert isinstance(error, ConfigError)
    assert told in f"{output}{error}"
