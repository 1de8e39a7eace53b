"""What a tool has to be told of the rooms is what the links in consilium/ say, and code names them by the package."""

from __future__ import annotations

import re
import tomllib
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
    bare = re.compile(rf"(?m)^\s*(?:from|import) (?:{'|'.join(ROOMS)})\b")
    folders = [ROOT / folder for folder in (*ROOMS, "benchmarks", "tests", "tools")]
    paths = [path for folder in folders for path in folder.rglob("*.py")] + [*ROOT.glob("consilium/*.py")]
    found = {str(path.relative_to(ROOT)): bare.findall(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: imports for name, imports in found.items() if imports} == {}
