"""What a tool has to be told of the rooms is what the links in consilium/ say, and code names them by the package."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

from tests.rooms import ROOMS, ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]


def rooms_in(names: list[str]) -> set[str]:
    return {name.split("/")[0] for name in names} - {"consilium"}


def test_what_is_built_has_every_room() -> None:
    build = PROJECT["hatch"]["build"]
    assert rooms_in(build["only-include"]) == set(ROOMS)
    assert build["targets"]["wheel"]["sources"] == {room: f"consilium/{room}" for room in ROOMS}


def test_every_room_has_its_layer() -> None:
    (layers,) = (each["layers"] for each in PROJECT["importlinter"]["contracts"] if each["type"] == "layers")
    assert {name for layer in layers for name in layer.split(" | ")} >= set(ROOMS)


def test_no_room_is_imported_by_its_bare_name() -> None:
    """In a checkout it would be the same module twice, under two names."""
    folders = (*ROOMS, "benchmarks", "tests", "tools")
    wrong = []
    for path in [path for folder in folders for path in (ROOT / folder).rglob("*.py")] + list(
        ROOT.glob("consilium/*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            wrong += [f"{Path(path).relative_to(ROOT)}: {name}" for name in names if name.split(".")[0] in ROOMS]
    assert wrong == []
