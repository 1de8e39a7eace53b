"""`party rows` tells everything here, sends and spends nothing, and leaves nothing behind. A column that a party maps
to nothing is missing in all of its rows; whoever has all votes as its rows say."""

from __future__ import annotations

import csv
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.data.mapping import DataRules
from consilium.data.private_rows import FileRows
from consilium.node.folder import NodeFolder
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import ColumnEncoding, Schema
from tests.command_line import Done, consilium
from tests.federation import CLASSES, FEATURES, make_config, make_home, make_rows, node_at, open_home, vote_request
from tests.federation import HomeFile as PartyFile
from tests.node.folders import allow, give_rows, make_small
from tests.party.test_node import hello
from tests.specs import teacher_of


def party_at(tmp_path: Path, config: dict[str, Any] | None = None, rows: int = 40, **lines: Any) -> NodeFolder:
    """A party that joined. config: of the federation. lines: of its policy."""
    folder = make_small(tmp_path, **(config or {})).nodes["p00"]
    give_rows(folder, rows=rows)
    allow(folder, least_rows_per_teacher=5, **lines)
    return folder


def files_of(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def checked(folder: NodeFolder, *more: str) -> Done:
    return consilium("party", "rows", folder.path, *more)


@pytest.mark.parametrize(("sigma", "expected"), [(1.0, ["large-epsilon"]), (40.0, [])])
def test_what_the_terms_promise(tmp_path: Path, sigma: float, expected: list[str]) -> None:
    """In the party's own unit, at its own delta."""
    folder = party_at(tmp_path, {"mechanism": GNMax(sigma=sigma), "query_budget": QueryBudget(queries=30, answers=30)})
    done = checked(folder, "--format", "json")
    assert [each["code"] for each in done.json()["warnings"]] == expected


def test_nothing_is_left_behind_or_sent(tmp_path: Path, monkeypatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a socket was opened")

    folder = party_at(tmp_path)
    before = files_of(tmp_path)
    monkeypatch.setattr(socket, "socket", fail)
    done = checked(folder)
    assert done.exit_code == 0 and done.stdout.startswith("LOCAL ONLY")
    assert "40 rows, 40 used, 0 dropped" in done.stdout
    assert files_of(tmp_path) == before


def test_nothing_private_is_told_or_left_if_reading_fails(tmp_path: Path, monkeypatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("patient 4711")

    folder = party_at(tmp_path)
    before = files_of(folder.path)
    monkeypatch.setattr(FileRows, "report", fail)
    done = checked(folder)
    assert "reading failed: ValueError at test_check.py" in done.stderr
    assert "4711" not in done.output.replace(str(tmp_path), "")
    assert files_of(folder.path) == before


def csv_party(tmp_path: Path, content: str, **tables: Any) -> NodeFolder:
    folder = party_at(tmp_path)
    (folder / "rows.csv").write_text(content)
    give_rows(folder, data="rows.csv", **tables)
    return folder


def test_every_problem_is_a_line_and_the_exit_code_is_that_of_data(tmp_path: Path) -> None:
    folder = csv_party(tmp_path, 'age,pressure,label\n"61,5",x4711,well\n')
    before = files_of(folder.path)
    done = checked(folder)
    assert done.exit_code == DataError.exit_code
    assert done.stdout.count("\nPROBLEM") == 3
    assert "4711" not in done.output.replace(str(tmp_path), "")
    assert files_of(folder.path) == before


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"collection": "secure"}, "the policy would refuse this federation: votes"),
        ({"least_rows_per_teacher": 41}, "the smallest of 1 shards has 40 rows"),
    ],
)
def test_what_the_own_policy_refuses_is_told_before_training(tmp_path: Path, lines: dict, message: str) -> None:
    folder = party_at(tmp_path)
    allow(folder, **lines)
    done = checked(folder)
    assert done.exit_code == ConfigError.exit_code
    assert f"PROBLEM    {message}" in done.output


def test_dropped_and_filled_rows_are_counted(tmp_path: Path) -> None:
    lines = [f"{40 + index},{100 + index},{index},{CLASSES[index % 2]}" for index in range(20)]
    lines[3:5] = [",100,1,well", "50,,1,ill"]
    columns = {"age": {"missing": "drop-row"}, "pressure": {"missing": "mean"}, "drowsy": {}, "shoe size": {}}
    folder = csv_party(tmp_path, "\n".join(["age,pressure,drowsy,label", *lines]), columns=columns)
    output = checked(folder).stdout
    assert "20 rows, 19 used, 1 dropped" in output
    assert "mean for   pressure 1" in output
    assert "not asked  shoe size" in output


KINDS = ("logistic_regression", "random_forest")
LACKS = {"lacks": ["pressure"]}


def home_of(folder: Path, names: Sequence[str] = FEATURES, **settings: object) -> Path:
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


def votes(folder: Path, config: FederationConfig, queries: np.ndarray) -> np.ndarray:
    party = node_at(folder)
    party.hello(hello(config))
    party.train(config.train_request())
    return np.asarray(party.vote(vote_request(config, queries)).choices)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_column_in_the_file(tmp_path: Path, kind: str) -> None:
    """The same votes whether the file lacks it or has it and must not be read. Nothing was learnt of it: another value
    in a query changes no vote."""
    config = make_config(teacher=teacher_of(model=kind))
    queries = make_rows(30, 5)[0]
    other = queries.copy()
    other[:, 1] += 500
    lacking = votes(home_of(tmp_path / "lacking", ("drowsy", "age"), **LACKS), config, queries)
    assert (votes(home_of(tmp_path / "unread", **LACKS), config, queries) == lacking).all()
    assert (votes(home_of(tmp_path / "other", ("drowsy", "age"), **LACKS), config, other) == lacking).all()
    assert (votes(home_of(tmp_path / "whole"), config, queries) != lacking).any()


@pytest.mark.parametrize(
    ("settings", "sentence", "count"),
    [
        ({"lacks": ["presure"]}, "lacks: 'presure' is no column of the federation", 2),
        ({"lacks": list(FEATURES)}, "lacks: names every column", 1),
        ({"columns": {"age": "age", "drowsy": "drowsy"}}, "pressure: the federation asks for it", 1),
        ({}, 'pressure: the file has no such column.*lacks = ."pressure".', 1),
    ],
)
def test_a_bad_mapping_is_an_error_that_names_the_column(
    tmp_path: Path, settings: dict[str, object], sentence: str, count: int
) -> None:
    """The coordinator learns `schema` and no more."""
    config, folder = make_config(), home_of(tmp_path / "home", ("drowsy", "age"), **settings)
    party = node_at(folder)
    party.hello(hello(config))
    with pytest.raises(Refused, match=sentence) as caught:
        party.train(config.train_request())
    assert caught.value.refusal.rule is Rule.SCHEMA
    assert "pres" not in json.dumps(caught.value.refusal.model_dump(mode="json"))
    rows, report = open_home(folder).rows().report(config.rows)
    assert rows is None
    assert len(report.problems) == count


def test_of_a_table_it_is_missing_as_others_are(tmp_path: Path) -> None:
    """The mean where there is no feature for it, else that feature."""
    columns = (
        ColumnEncoding(column="age", kind="number"),
        ColumnEncoding(column="chol", kind="number"),
        ColumnEncoding(column="sex", kind="category", values=("f", "m"), missing=True),
    )
    public = np.array([[30, 180, 0, 0], [50, 220, 1, 0], [40, 190, 0, 1]], dtype=np.float32)
    schema = Schema.of_table(columns, CLASSES, public)
    (tmp_path / "own.csv").write_text(f"age,label\n31,{CLASSES[0]}\n52,{CLASSES[1]}\n")
    rules = DataRules(lacks=("chol", "sex"))
    rows, report = FileRows(tmp_path / "own.csv", rules).report(schema)
    assert rows is not None, report.problems
    raw = rows.x * np.array(schema.scale) + np.array(schema.center)
    np.testing.assert_allclose(raw[:, 0], [31, 52])
    assert (rows.x[:, 1] == 0).all()
    np.testing.assert_allclose(raw[:, 2:], [[0, 1], [0, 1]], atol=1e-6)
    assert report.filled == {"chol": 2, "sex": 2}
