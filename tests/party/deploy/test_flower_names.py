"""Names inside Flower that promises rest on: without one of them nothing starts.

The control is what was done before: it set names whether Flower looked there or not and raised nothing; Flower unpacked
the bundle.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from flwr.supernode.runtime import run_clientapp as flower

import consilium.node.flower
from consilium.node import installed_app
from consilium.node.flower import BEFORE, FIRST, FLEET_NAMES, fleet_scheme, require_flower
from consilium.party.client_app import app
from consilium.protocol.errors import EngineError
from consilium.simulations.engines import flower as flower_internals

cli = import_module(installed_app.CLI)
SAYS = r"flwr \d+\.\d+.* is installed, .* needs flwr >= 1\.42, < 1\.44"
ALL = [
    pytest.param(check, module, name, id=f"{module}.{name}")
    for check, names in (
        (installed_app.check_flower, installed_app.NAMES),
        (fleet_scheme, FLEET_NAMES),
        (lambda: flower_internals._task_identity.__wrapped__(), flower_internals.NAMES),
    )
    for module, wanted in names.items()
    for name in wanted
]


@pytest.mark.parametrize(("check", "module", "name"), ALL)
def test_without_a_name_nothing_starts(monkeypatch: pytest.MonkeyPatch, check, module: str, name: str) -> None:
    owner, _, attribute = name.rpartition(".")
    holder = getattr(import_module(module), owner) if owner else import_module(module)
    monkeypatch.delattr(holder, attribute)
    with pytest.raises(EngineError, match=SAYS) as error:
        check()
    assert f"{module}.{name}" in str(error.value)


@pytest.mark.parametrize("module", sorted({param.values[1] for param in ALL}))
def test_without_a_module_nothing_starts(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it could not be found
    with pytest.raises(EngineError, match=f"no module {module}"):
        require_flower({module: ()})


@pytest.mark.parametrize(
    ("version", "known"), [("1.41.9", False), ("1.42.0", True), ("1.44.0", False), ("nightly", False)]
)
def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, version: str, known: bool) -> None:
    monkeypatch.setattr(consilium.node.flower, "version", lambda _: version)
    if known:
        return require_flower({})
    with pytest.raises(EngineError, match="it is another version"):
        require_flower({})


def test_the_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    first, before = (".".join(map(str, end)) for end in (FIRST, BEFORE))
    named = [text for extra in project["optional-dependencies"].values() for text in extra if re.match(r"flwr\W", text)]
    ranges = {re.sub(r"\[.*?\]", "", text) for text in named if "flwr-datasets" not in text}
    assert ranges == {f"flwr>={first},<{before}"}


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A Flower whose client process unpacks bundles by a function of another name; returns what it has unpacked."""
    unpacked: list[str] = []
    for name in installed_app.REPLACED:
        monkeypatch.setattr(flower, name, getattr(flower, name))
    made = SimpleNamespace()
    exec(
        "def run_clientapp():\n    unpack_bundle('bundle')\n    get_project_dir()\n    get_load_client_app_fn()\n"
        "    install_app_dependencies()\n",
        vars(flower),
        vars(made),
    )
    monkeypatch.setattr(flower, "unpack_bundle", unpacked.append, raising=False)
    monkeypatch.setattr(flower, "run_clientapp", made.run_clientapp)
    monkeypatch.setattr(cli, "run_clientapp", made.run_clientapp)
    return unpacked


def test_a_client_process_that_calls_something_else_is_refused(renamed: list[str]) -> None:
    with pytest.raises(EngineError, match="does not call install_from_fab"):
        installed_app.ignore_bundles(app)
    assert renamed == []


def test_a_client_process_from_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "run_clientapp", lambda **_: None)
    with pytest.raises(EngineError, match="runs something else"):
        installed_app.check_flower()


def test_another_set_of_programs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    constant = import_module("flwr.supercore.constant")
    monkeypatch.setattr(constant, "TASK_TYPE_TO_COMMAND", {**constant.TASK_TYPE_TO_COMMAND, "new": "flwr-newapp"})
    with pytest.raises(EngineError, match="starts other programs: flwr-newapp"):
        installed_app.check_flower()


def test_another_way_to_start_programs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module(installed_app.LAUNCHER), "subprocess", SimpleNamespace(Popen=subprocess.Popen))
    with pytest.raises(EngineError, match="in another way"):
        installed_app.check_flower()


def test_a_client_process_that_cannot_ignore_bundles_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(cli, "flwr_clientapp", lambda: called.append("started"))
    monkeypatch.delattr(flower, "get_load_client_app_fn")
    monkeypatch.setattr(sys, "argv", ["flwr-clientapp", "consilium.party.client_app"])
    with pytest.raises(SystemExit, match=r"refused: .*get_load_client_app_fn"):
        installed_app.main()
    assert called == []
