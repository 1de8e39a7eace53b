"""What tools are told of the rooms is what the links in consilium/ say, and code names them by the package; public
names are documented; what an import brings with it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from typing import Any

import pytest

import consilium
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


HEAVY = ("torch", "flwr", "sklearn", "polars", "matplotlib", "numpy", "pydantic", "typer")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_name_is_there_and_documented() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in consilium.__all__:
        value = getattr(consilium, name)
        assert name in dir(consilium)
        assert value if name == "__version__" else value.__doc__, name
        assert f"`{name}" in page, name


def test_type_checkers_see_the_names_that_python_imports() -> None:
    tree = ast.parse((ROOT / "consilium" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    seen = {(node.module, each.name) for node in imports if node.module.startswith("consilium.") for each in node.names}
    imported = {(f"consilium.{module}", name) for module, names in consilium._MODULES.items() for name in names}
    assert seen == imported
    assert sorted(consilium.__all__) == sorted([*(name for _, name in seen), "__version__"])
    assert all(getattr(import_module(module), name) is getattr(consilium, name) for module, name in seen)


def test_an_import_brings_no_library_with_it() -> None:
    told = python(f"import sys, consilium; dir(consilium); print([name for name in {HEAVY} if name in sys.modules])")
    assert told == "[]"
    # the control: a name that is used does
    told = python(f"import sys, consilium; consilium.GNMax; print([name for name in {HEAVY} if name in sys.modules])")
    assert told == "['numpy']"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'consilium' has no attribute 'load_scenarios'$"):
        consilium.load_scenarios  # noqa: B018 # pyright: ignore[reportAttributeAccessIssue]
