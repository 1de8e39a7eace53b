"""Blocks of the pages that are no commands: TOML is valid where it is meant to be used, JSON is JSON, Python runs.

The examples in docstrings give what they say.
"""

from __future__ import annotations

import doctest
import importlib
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

import consilium
from consilium.models.published.model import load_model
from consilium.node.acceptance import read_policy
from consilium.node.kit import POLICY_FILE
from consilium.node.log import MonitorSettings
from consilium.party.home import LIMITS, Policy, open_home
from consilium.protocol.config_files import validate
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import load_scenario
from consilium.simulations.study.cells import expand
from consilium.simulations.study.spec import load_study
from tests.docs.conftest import Desk, write_heart
from tests.docs.pages import ROOT, Block, blocks
from tests.simulations.council.warm import hospitals

LONG = ("run_scenario(", "Council(teacher=", "calibrate(")
"""A block with one of these runs a whole scenario, as tests/simulations/test_cli.py does, or calibrates: `make proofs`.
"""


def of(language: str) -> list[Any]:
    """All blocks of a language, by their place; what several pages show alike counts once."""
    shown = [block for block in blocks() if not block.page.name.startswith("tutorial-")]  # test_tutorials runs those
    once = {block.text: block for block in shown if block.language == language}
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
    """A fragment of party.toml, over the least that one must say; or of policy.toml."""
    if set(shown) == {"limits"}:
        (folder / POLICY_FILE).write_text(tomli_w.dumps(shown), encoding="utf-8")
        assert read_policy(folder, Policy, LIMITS).limits == shown["limits"]
        return
    least = {"name": "hospital-a", "data": "data.npz", "policy": {"allowed_classes": ["a", "b"]}}
    (folder / "party.toml").write_text(tomli_w.dumps(merged(least, shown)), encoding="utf-8")
    open_home(folder)


def as_model(shown: dict[str, Any], folder: Path) -> None:
    """A teacher in a party.toml, or a part of a scenario; what is named is trained in `test_models_page`."""
    if "teacher" in shown:
        as_party(shown, folder)
    else:
        as_scenario(shown, folder, "stroke")


def as_own_data(shown: dict[str, Any], folder: Path) -> None:
    """A scenario of the user's own table, or a fragment about an installed package's, which is not installed."""
    if "federation" not in shown:
        assert set(shown) == {"data"} and shown["data"].keys() <= DataSpec.model_fields.keys()
        return
    write_heart(folder)
    path = folder / "heart.toml"
    path.write_text(tomli_w.dumps(shown), encoding="utf-8")
    load_scenario(
        str(path), ['federation.mechanism={name="gnmax", sigma=9}', "federation.query_budget={queries=2, answers=2}"]
    )


def as_study(shown: dict[str, Any], folder: Path) -> None:
    """A whole study."""
    path = folder / "shown.toml"
    path.write_text(tomli_w.dumps(shown), encoding="utf-8")
    assert expand(load_study(str(path)))


MEANING: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "docs/console.md": lambda shown, _: validate(shown, MonitorSettings, "monitor.toml"),
    "docs/data.md": as_own_data,
    "docs/models.md": as_model,
    "docs/parties.md": as_party,
    "docs/published-student.md": lambda shown, folder: as_scenario(shown, folder, "stroke"),
    "docs/study.md": as_study,
    "docs/scenarios.md": lambda shown, folder: as_scenario(shown, folder, "stroke"),
    "docs/secure-aggregation.md": lambda shown, folder: as_scenario(shown, folder, "stroke-distributed"),
}
"""Page -> what its TOML is."""


def toml_blocks() -> list[Any]:
    """A mechanism without its scales is calibrated where it is read."""
    found = [param.values[0] for param in of("toml")]
    long = [any(each in block.text for each in LONG) or "threshold = 150\n" in block.text for block in found]
    marks = [pytest.mark.proofs if each else [] for each in long]
    return [pytest.param(block, id=block.place, marks=mark) for block, mark in zip(found, marks, strict=True)]


@pytest.mark.parametrize("block", toml_blocks())
def test_toml_is_valid(block: Block, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The operator's file, first on its page, is provisioned; others are read as what their pages are about."""
    shown, page = tomllib.loads(block.text), block.page.relative_to(ROOT).as_posix()
    if page in MEANING:
        MEANING[page](shown, tmp_path)
    else:
        assert page == "docs/deploy.md"
        assert request.getfixturevalue("kits").is_dir()


@pytest.mark.parametrize("block", of("json"))
def test_json_is_valid(block: Block) -> None:
    json.loads(block.text)


def python_blocks() -> list[Any]:
    """What works on the short run of the desk is slow."""
    found = [param.values[0] for param in of("python")]
    marks = [pytest.mark.proofs if any(each in block.text for each in LONG) else pytest.mark.slow for block in found]
    return [pytest.param(block, id=block.place, marks=mark) for block, mark in zip(found, marks, strict=True)]


@pytest.mark.parametrize("block", python_blocks())
def test_python_runs(block: Block, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with a student, and with patients of many hospitals; `rows` are rows for the student."""
    desk.lay_out(["student"])
    monkeypatch.chdir(desk.folder)
    hospitals(240, rows=6).write_csv("patients.csv")
    (desk.folder / "teacher.pkl").unlink(missing_ok=True)
    rows = np.array([load_model(Path("student/model.safetensors")).schema.center])
    exec(compile(block.text, block.place, "exec"), {"rows": rows})


LEAST = 60
"""Modules without examples are no fault; nearly all of them losing theirs would be one of this test."""


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


def test_the_walk_finds_the_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = sum(len(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name)))
    assert examples >= LEAST
