"""A party that lacks columns is trained, and votes, without them; whoever has all votes as before, to the last bit."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from consilium.coordinator.config import FederationConfig
from consilium.data.private_rows import load_rows
from consilium.models.teachers import ConstantTeacher, PartialTeacher
from consilium.party.dry_run import FederationFile, check, dry_run, load_federation
from consilium.party.home import PartyFile, open_home
from consilium.party.node import PartyNode
from consilium.party.teach import build, train_all
from consilium.party.voting import class_scores
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.refusals import Refused, Rule
from consilium.simulations.teach import linear_scores
from tests.federation import CLASSES, FEATURES, make_config, make_home, make_relative, make_rows, vote_request
from tests.party.test_node import hello, refused
from tests.specs import teacher_of

KINDS = ("logistic_regression", "ridge", "random_forest", "mlp")
LACKS = {"lacks": ["pressure"]}


def home_of(folder: Path, names: Sequence[str] = FEATURES, **settings: object) -> Path:
    """A home whose file is a CSV with these columns."""
    make_home(folder, "p")
    x, y = make_rows(40, 0)
    with open(folder / "own.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow([*names, "label"])
        places = [FEATURES.index(name) for name in names]
        lines.writerows([*map(repr, map(float, row[places])), CLASSES[label]] for row, label in zip(x, y, strict=True))
    table = load(folder / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
    (folder / "party.toml").write_text(tomli_w.dumps({**table, "data": "own.csv", **settings}))
    return folder


def federation_of(folder: Path, config: FederationConfig) -> FederationFile:
    """The coordinator's file."""
    (folder / "federation.json").write_text(config.model_dump_json())
    return load_federation(folder / "federation.json")


def votes(folder: Path, config: FederationConfig, queries: np.ndarray) -> np.ndarray:
    party = PartyNode(open_home(folder))
    party.hello(hello(config))
    party.train(config.train_request())
    return np.asarray(party.vote(vote_request(config, queries)).choices)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_column_in_the_file(tmp_path: Path, kind: str) -> None:
    """The same votes whether the file lacks it or has it and must not be read; another value of it changes none."""
    config = make_config(teacher=teacher_of(model=kind))
    queries = make_rows(30, 5)[0]
    other = queries.copy()
    other[:, 1] += 500
    lacking = votes(home_of(tmp_path / "lacking", ("drowsy", "age"), **LACKS), config, queries)
    assert (votes(home_of(tmp_path / "unread", **LACKS), config, queries) == lacking).all()
    assert (votes(home_of(tmp_path / "other", ("drowsy", "age"), **LACKS), config, other) == lacking).all()
    assert (votes(home_of(tmp_path / "whole"), config, queries) != lacking).any()


@pytest.mark.parametrize("kind", KINDS)
def test_relative_votes_are_by_the_scores_of_what_it_has(tmp_path: Path, kind: str) -> None:
    config = make_relative(teacher=teacher_of(model=kind))
    queries = make_rows(30, 5)[0]
    choices = votes(home_of(tmp_path / "lacking", ("drowsy", "age"), **LACKS), config, queries)
    assert 5 < np.count_nonzero(choices) < 25  # half of them each, as the reference rows have it


def test_a_party_with_all_columns_votes_as_ever(tmp_path: Path) -> None:
    """Bit for bit what the rows give by themselves, and its teachers are no others than before there was `lacks`."""
    config, queries = make_config(), make_rows(30, 5)[0]
    folder = home_of(tmp_path / "whole")
    home = open_home(folder)
    assert "lacks" not in home.rules.model_dump(mode="json")
    rows = load_rows(home.data_file, config.rows)
    alone = build(config.teacher, 0).fit(config.rows.standardise(make_rows(40, 0)[0]), rows.y)  # pyright: ignore
    (teacher,) = train_all(rows, config.teacher, [np.arange(40)], [0], 2)
    inputs = config.rows.inputs(queries)
    assert type(teacher) is type(alone)
    assert (teacher.predict_proba(inputs) == alone.predict_proba(inputs)).all()  # pyright: ignore
    assert (votes(folder, config, queries)[:, 0] == alone.predict(inputs)).all()


def test_other_units_and_words_give_the_votes_of_the_federations_own(tmp_path: Path) -> None:
    config, queries = make_config(), make_rows(30, 5)[0]
    plain = votes(home_of(tmp_path / "plain"), config, queries)
    folder = home_of(tmp_path / "coded")
    x, y = make_rows(40, 0)
    with open(folder / "own.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["Monate", "kPa", "drowsy", "Ergebnis"])
        for row, label in zip(x.astype(float).tolist(), y, strict=True):
            lines.writerow([repr(row[0] * 12), repr((row[1] - 5) / 7.5), repr(row[2]), "krank" if label else "gesund"])
    table = load(folder / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
    table["columns"] = {
        "age": {"column": "Monate", "factor": 1 / 12},
        "pressure": {"column": "kPa", "factor": 7.5, "offset": 5.0},
        "drowsy": {"column": "drowsy"},
    }
    table["label"] = {"column": "Ergebnis", "classes": {"gesund": "well", "krank": "ill"}}
    (folder / "party.toml").write_text(tomli_w.dumps(table))
    assert (votes(folder, config, queries) == plain).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"lacks": ["presure"]}, "lacks in party.toml: 'presure' is no column of the federation"),
        ({"lacks": list(FEATURES)}, "lacks in party.toml: every column of the federation is lacking"),
        ({"columns": {"age": "age", "drowsy": "drowsy"}}, "pressure: the federation asks for it"),
        ({}, 'pressure: the file has no such column.*lacks = ."pressure".'),
    ],
)
def test_a_bad_mapping_is_one_error_that_names_the_column(
    tmp_path: Path, settings: dict[str, object], sentence: str
) -> None:
    """The coordinator learns `schema` and no more."""
    config, folder = make_config(), home_of(tmp_path / "home", ("drowsy", "age"), **settings)
    party = PartyNode(open_home(folder))
    party.hello(hello(config))
    with pytest.raises(Refused, match=sentence) as caught:
        party.train(config.train_request())
    assert caught.value.refusal.rule is Rule.SCHEMA
    assert "pres" not in json.dumps(caught.value.refusal.model_dump(mode="json"))
    rows, report = check(load(folder / "party.toml", PartyFile), folder, federation_of(tmp_path, config))
    assert rows is None
    assert len(report.faults) == 1


def test_a_factor_of_0_is_told_with_file_and_column(tmp_path: Path) -> None:
    folder = home_of(tmp_path / "home", columns={"age": {"column": "age", "factor": 0}})
    with pytest.raises(ConfigError, match=r"(?s)party\.toml.*columns\.age.*factor 0 makes all values one"):
        open_home(folder)


def test_a_dry_run_trains_and_votes_without_it(tmp_path: Path) -> None:
    config, folder = make_config(), home_of(tmp_path / "home", ("drowsy", "age"), **LACKS)
    rows, report = check(load(folder / "party.toml", PartyFile), folder, federation_of(tmp_path, config))
    assert rows is not None and report.faults == ()
    queries = make_rows(30, 5)[0]
    tried = dry_run(rows, "p", folder, federation_of(tmp_path, config), queries)
    assert (np.asarray(tried.reply.choices) == votes(folder, config, queries)).all()


def test_an_estimator_that_asks_for_what_is_lacking_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    teacher = {"model": "estimator", "factory": "tests.strangers:by_name", "parameters": {"column": "pressure"}}
    folder = home_of(tmp_path / "home", ("drowsy", "age"), teacher=teacher, **LACKS)
    (folder / "own.csv").unlink()
    party = PartyNode(open_home(folder))
    party.hello(hello(make_config()))
    assert refused(party.train, make_config().train_request()) is Rule.POLICY


def test_weights_of_what_is_lacking_are_zero_in_an_average_of_weights() -> None:
    config = make_config()
    x, y = make_rows(60, 0)
    spec, inputs = config.teacher, config.rows.inputs(x)
    inner = build(spec, 0).fit(inputs[:, [0, 2]], y)  # pyright: ignore
    weights = linear_scores(spec, PartialTeacher(inner, (0, 2)), 3, 2)
    expected = linear_scores(spec, inner, 2, 2)
    assert weights is not None and expected is not None
    assert (weights[1] == 0).all() and (weights[[0, 2, 3]] == expected).all()
    scores = class_scores(PartialTeacher(inner, (0, 2)), inputs)
    assert (scores == class_scores(inner, inputs[:, [0, 2]])).all()


def test_a_constant_teacher_looks_at_no_column(tmp_path: Path) -> None:
    config = make_config()
    folder = home_of(tmp_path / "home", ("drowsy", "age"), **LACKS)
    lines = (folder / "own.csv").read_text().replace("ill", "well")
    (folder / "own.csv").write_text(lines)
    rows = load_rows(folder / "own.csv", config.rows, open_home(folder).rules)
    assert rows.x.shape == (40, 2) and rows.places == (0, 2)
    (teacher,) = train_all(rows, config.teacher, [np.arange(40)], [0], 2)
    assert isinstance(teacher, ConstantTeacher)
