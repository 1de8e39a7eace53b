"""`party check`: it tells everything here, sends and spends nothing, and leaves nothing behind."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.config import QueryBudget
from consilium.data.private_rows import FileRows
from consilium.node.folder import NodeFolder
from consilium.protocol.errors import ConfigError, DataError
from tests.command_line import Done, consilium
from tests.federation import CLASSES
from tests.node.folders import allow, give_rows, make_small


def party_at(tmp_path: Path, config: dict[str, Any] | None = None, rows: int = 40, **lines: Any) -> NodeFolder:
    """A party that joined. config: of the federation. lines: of its policy."""
    folder = make_small(tmp_path, **(config or {})).nodes["p00"]
    give_rows(folder, rows=rows)
    allow(folder, least_rows_per_teacher=5, **lines)
    return folder


def files_of(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def checked(folder: NodeFolder, *more: str) -> Done:
    return consilium("party", "check", folder.path, *more)


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
