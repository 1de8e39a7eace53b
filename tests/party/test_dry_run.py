"""`party dry-run`: it tells everything here, sends and spends nothing, and leaves nothing behind."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from typer.testing import CliRunner

from consilium import cli
from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.config import QueryBudget
from consilium.party import dry_run as dry_run_module
from consilium.party.dry_run import made_up_queries
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError
from consilium.protocol.queries import canonical_queries, query_set_hash
from consilium.protocol.schema import Range, Schema
from tests.federation import CLASSES, make_config, make_home, open_home
from tests.federation import HomeFile as PartyFile


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    """The coordinator's file."""
    return write_federation(tmp_path)


def write_federation(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "federation.json"
    path.write_text(make_config(**changes).model_dump_json())
    return path


def files_of(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


DATA_ONLY = ["dry-run", "--data-only"]


def of_party(*arguments: Any) -> tuple[str, BaseException | None]:
    result = CliRunner().invoke(cli.app, ["party", *map(str, arguments)])
    return result.output, result.exception


def change(home: Path, **tables: Any) -> None:
    settings = load(home / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
    (home / "party.toml").write_text(tomli_w.dumps({**settings, **tables}))


@pytest.mark.parametrize(
    ("sigma", "pinned", "expected"), [(1.0, True, ["large-epsilon"]), (40.0, True, []), (1.0, False, [])]
)
def test_what_the_pinned_terms_promise(tmp_path: Path, sigma: float, pinned: bool, expected: list[str]) -> None:
    """In the party's own unit, at its own delta."""
    config = make_config(mechanism=GNMax(sigma=sigma), query_budget=QueryBudget(queries=30, answers=30))
    federation = tmp_path / "federation.json"
    federation.write_text(config.model_dump_json())
    home = make_home(tmp_path / "home", "p")
    (home / "terms.json").write_text(config.terms().model_dump_json())
    change(home, **({"terms": "terms.json"} if pinned else {}))
    done = CliRunner().invoke(
        cli.app, ["party", "dry-run", "--data-only", str(home), str(federation), "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    assert [each["code"] for each in json.loads(done.stdout)["warnings"]] == expected


@pytest.mark.parametrize("command", [DATA_ONLY, ["dry-run"]])
def test_nothing_is_left_behind_or_sent(tmp_path: Path, federation: Path, monkeypatch, command: list[str]) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a socket was opened")

    home = make_home(tmp_path / "home", "p")
    before = files_of(tmp_path)
    monkeypatch.setattr(socket, "socket", fail)
    output, error = of_party(*command, home, federation)
    assert error is None
    assert output.startswith("LOCAL ONLY")
    assert "40 rows, 40 used, 0 dropped" in output
    assert files_of(tmp_path) == before


def test_nothing_private_is_told_or_left_if_voting_fails(tmp_path: Path, federation: Path, monkeypatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("patient 4711")

    home = make_home(tmp_path / "home", "p")
    before = files_of(home)
    monkeypatch.setattr(dry_run_module, "votes_of_teachers", fail)
    output, error = of_party("dry-run", home, federation)
    assert isinstance(error, ConsiliumError)
    assert "training failed: ValueError at test_dry_run.py" in str(error)
    assert "4711" not in f"{output}{error}".replace(str(tmp_path), "")
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert files_of(home) == before


def test_it_shows_what_would_be_sent(tmp_path: Path) -> None:
    federation = write_federation(tmp_path, teachers_per_party=3)
    home = make_home(tmp_path / "home", "p", most_teachers=3)
    output, error = of_party("dry-run", home, federation)
    assert error is None
    assert "teachers   3 x logistic_regression" in output
    assert "queries    100 made up from the schema" in output
    assert "as votes each teacher's class for each query" in output
    assert "Nothing was sent, spent or kept" in output
    assert "same votes" not in output


def test_votes_are_those_of_teachers_that_learnt(tmp_path: Path, federation: Path) -> None:
    from consilium.party.dry_run import load_federation

    home = make_home(tmp_path / "home", "p", rows=200)
    opened, terms = open_home(home), load_federation(federation)
    rows, found = dry_run_module.check(opened, terms)
    assert rows is not None
    assert (found.faults, found.refusals) == ((), ())
    result = dry_run_module.dry_run(rows, opened, terms)
    x = made_up_queries(terms.rows, 100)
    truth = (x[:, 0] - 60) / 10 + (x[:, 1] - 140) / 20 > 0
    assert (result.reply.choices[:, 0] == truth).mean() > 0.8
    assert result.reply.query_set == query_set_hash(canonical_queries(x, 3))
    assert "array" not in repr(result)


def csv_home(tmp_path: Path, content: str, **tables: Any) -> Path:
    home = make_home(tmp_path / "home", "p", allow_simulation=True)
    (home / "rows.csv").write_text(content)
    change(home, data="rows.csv", **tables)
    return home


@pytest.mark.parametrize("command", [DATA_ONLY, ["dry-run"]])
def test_every_problem_is_a_line_and_the_exit_code_is_that_of_data(
    tmp_path: Path, federation: Path, command: list[str]
) -> None:
    home = csv_home(tmp_path, 'age,pressure,label\n"61,5",x4711,well\n')
    before = files_of(home)
    output, error = of_party(*command, home, federation)
    assert isinstance(error, DataError)
    assert error.exit_code == 3
    lines = [line for line in output.splitlines() if line.startswith("PROBLEM")]
    assert len(lines) == 3
    assert "4711" not in f"{output}{error}".replace(str(tmp_path), "")
    assert files_of(home) == before


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"allow_simulation": False}, "the policy would refuse this federation: simulation"),
        ({"least_rows_per_teacher": 41}, "the smallest of 1 shards has 40 rows"),
    ],
)
def test_what_the_own_policy_refuses_is_told_before_training(
    tmp_path: Path, federation: Path, policy: dict, message: str
) -> None:
    home = make_home(tmp_path / "home", "p", **policy)
    for command in (DATA_ONLY, ["dry-run"]):
        output, error = of_party(*command, home, federation)
        assert isinstance(error, ConfigError)
        assert f"PROBLEM    {message}" in output
        assert "Nothing was sent" not in output


def test_dropped_and_filled_rows_are_counted(tmp_path: Path, federation: Path) -> None:
    lines = [f"{40 + index},{100 + index},{index},{CLASSES[index % 2]}" for index in range(20)]
    lines[3:5] = [",100,1,well", "50,,1,ill"]
    columns = {"age": {"missing": "drop-row"}, "pressure": {"missing": "mean"}, "drowsy": {}, "shoe size": {}}
    home = csv_home(tmp_path, "\n".join(["age,pressure,drowsy,label", *lines]), columns=columns)
    output, error = of_party("dry-run", home, federation)
    assert error is None
    assert "20 rows, 19 used, 1 dropped" in output
    assert "mean for   pressure 1" in output
    assert "not asked  shoe size" in output


def test_made_up_queries_come_from_public_statistics_and_stay_in_range() -> None:
    schema = Schema(
        features=("a", "b"),
        classes=("x", "y"),
        center=(5.0, -3.0),
        scale=(2.0, 1.0),
        ranges=(Range(feature="a", low=3, high=6, whole=True),),
    )
    rows = made_up_queries(schema, 2000)
    assert (rows == made_up_queries(schema, 2000)).all()
    assert set(np.unique(rows[:, 0])) == {3.0, 4.0, 5.0, 6.0}
    assert abs(rows[:, 1].mean() + 3) < 0.15  # six standard errors
    assert abs(rows[:, 1].std() - 1) < 0.15
