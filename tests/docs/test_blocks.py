"""Blocks of the pages that are no commands: TOML is valid where it is meant to be used, Python compiles, what models.md
shows can be trained. The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import pkgutil
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from pydantic import TypeAdapter

import consilium
from consilium.coordinator.provision.plan import Plan
from consilium.models.keys import OwnTeacher
from consilium.models.table import check_teacher
from consilium.party.home import PartyFile
from consilium.party.policy import Policy
from consilium.protocol.schema import Schema
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import load_scenario
from consilium.simulations.study.spec import load_study, plots
from consilium.student.config import StudentSpec
from consilium.student.learn import check_trainer
from tests.docs.pages import ROOT, Block, blocks
from tests.federation import make_config


def of(language: str) -> list[Any]:
    """All blocks of a language, by their place; what several pages show alike counts once."""
    once = {block.text: block for block in blocks() if block.language == language}
    return [pytest.param(block, id=block.place) for block in once.values()]


def merged(table: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """`change` over `table`, tables within tables; a named choice (`mechanism`) replaces another one whole."""
    result = deepcopy(table)
    for key, value in change.items():
        whole = not isinstance(value, dict) or not isinstance(result.get(key), dict) or "name" in value
        result[key] = value if whole else merged(result[key], value)
    return result


def as_scenario(shown: dict[str, Any], folder: Path, base: str) -> None:
    """A fragment of a scenario, over a shipped one."""
    shipped = resources.files("consilium.simulations.scenarios").joinpath(f"{base}.toml").read_text(encoding="utf-8")
    path, table = folder / "shown.toml", tomllib.loads(shipped)
    path.write_text(tomli_w.dumps(merged(table, shown)), encoding="utf-8")
    load_scenario(str(path), [])


def as_party(shown: dict[str, Any], folder: Path) -> None:
    """A fragment of party.toml, over the least that one must say."""
    PartyFile.model_validate_json(json.dumps(merged({"data": "data.npz"}, shown)))


def as_model(shown: dict[str, Any], folder: Path) -> None:
    """A teacher in a party.toml, or a part of a scenario; what is named is trained below."""
    if "teacher" in shown:
        as_party(shown, folder)
    else:
        as_scenario(shown, folder, "stroke")


def as_own_data(shown: dict[str, Any], folder: Path) -> None:
    """A party's file, a scenario of the user's own table, or a fragment about R's."""
    if "federation" not in shown:
        if "columns" in shown:
            as_party(shown, folder)
        assert "columns" in shown or shown["data"].keys() <= DataSpec.model_fields.keys()
        return
    generator = np.random.default_rng(5)
    rows = ["age,cp,thal,hospital,disease"]
    for hospital in ("cleveland", "budapest", "zurich", "long-beach"):
        for age in generator.integers(30, 80, 100):
            rows.append(f"{age},{generator.integers(1, 5)},{generator.choice([3, 6, 7])},{hospital},{int(age > 55)}")
    (folder / "heart.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    path = folder / "heart.toml"
    path.write_text(tomli_w.dumps(shown), encoding="utf-8")
    load_scenario(str(path), [])


def as_plan(shown: dict[str, Any], folder: Path) -> None:
    """A whole policy.toml, or a federation.toml; tests/deploy provisions whole ones."""
    if "federation" not in shown:
        assert Policy.model_validate_json(json.dumps(shown))
        return
    assert shown.keys() == Plan.model_fields.keys()
    as_scenario({"data": {"least_rows": 100}, "federation": shown["federation"]}, folder, "stroke")


def as_study(shown: dict[str, Any], folder: Path) -> None:
    """A whole study."""
    path = folder / "shown.toml"
    path.write_text(tomli_w.dumps(shown), encoding="utf-8")
    assert plots(load_study(str(path)))


MEANING: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "docs/data.md": as_own_data,
    "docs/deploy.md": as_plan,
    "docs/models.md": as_model,
    "docs/published-student.md": lambda shown, folder: as_scenario(shown, folder, "stroke"),
    "docs/study.md": as_study,
    "docs/scenarios.md": lambda shown, folder: as_scenario(shown, folder, "stroke"),
    "docs/secure-aggregation.md": lambda shown, folder: as_scenario(shown, folder, "stroke-secure"),
}
"""Page -> what its TOML is."""


@pytest.mark.parametrize("block", of("toml"))
def test_toml_is_valid(block: Block, tmp_path: Path) -> None:
    """Read as what its page is about; noise that is left out is calibrated."""
    MEANING[block.page.relative_to(ROOT).as_posix()](tomllib.loads(block.text), tmp_path)


@pytest.mark.parametrize("block", of("python"))
def test_python_compiles(block: Block) -> None:
    """tools/blocks.py runs those of README and of the tutorial."""
    compile(block.text, block.place, "exec")


# docs/models.md: every teacher and student that it shows is built from the code that it shows, and trained.

OF_MODELS = [block for block in blocks() if block.page.name == "models.md"]
TABLES = [block for block in OF_MODELS if block.language == "toml"]
IMAGES = Schema.of_images(tuple(f"p{index}" for index in range(144)), ("well", "ill"), "none")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch) -> Path:
    """A folder with the page's modules."""
    for block in OF_MODELS:
        first = block.text.splitlines()[0]
        if block.language == "python" and first.startswith("# "):
            (tmp_path / first.removeprefix("# ")).write_text(block.text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def quick(table: dict[str, Any]) -> dict[str, Any]:
    """The same, with fewer epochs."""
    return {**table, "epochs": 2} if "epochs" in table else table


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in TABLES])
def test_what_the_page_shows_can_be_trained(block: Block, desk: Path) -> None:
    shown = tomllib.loads(block.text)
    if "student" in shown:
        check_trainer(
            StudentSpec.model_validate({"trainer": quick(shown["student"]["trainer"])}).trainer, make_config().rows
        )
        return
    teacher = shown.get("teacher") or shown["simulation"]["own_teacher"]
    spec = TypeAdapter(OwnTeacher).validate_python(quick(teacher))
    check_teacher(spec, IMAGES if teacher.get("images") else make_config().rows)


def modules_with_examples() -> Iterator[str]:
    """Dotted names, found in the text: importing all of them only to collect would cost seconds."""
    for found in pkgutil.walk_packages(consilium.__path__, "consilium."):
        place = ROOT.joinpath(*found.name.split(".")[1:])
        file = place / "__init__.py" if found.ispkg else place.with_suffix(".py")
        if not file.is_file():
            file = (Path(consilium.__file__).parent / found.name.split(".")[1]).with_suffix(".py")
        if ">>> " in file.read_text(encoding="utf-8"):
            yield found.name


MODULES = list(modules_with_examples())


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0
