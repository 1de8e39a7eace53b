"""What travels with `flwr run .`: code, and never keys, runs, data or a party's home; and the code runs on its own."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate

from tests.packaging.conftest import PLANTED, ROOT

IMPORTS = """
import sys
import consilium.coordinator.server_app, consilium.node_app, consilium
found = {module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "consilium"}
outside = sorted(file for file in found if not file.startswith(sys.argv[1]))
assert not outside, outside
assert not {"consilium.simulations", "consilium.student"} & sys.modules.keys()
print(consilium.coordinator.server_app.app, consilium.node_app.app)
"""


@pytest.fixture(scope="module")
def bundle(checkout: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(build_fab_from_disk(checkout)))


def test_the_bundle_holds_code_only(bundle: zipfile.ZipFile) -> None:
    names = bundle.namelist()
    for name in names:
        assert PLANTED.encode() not in bundle.read(name), name
    code = [name for name in names if name not in ("pyproject.toml", ".info/CONTENT")]
    assert {name.split("/")[0] for name in code} == {
        "consilium",
        "accounting",
        "protocol",
        "report",
        "data",
        "models",
        "sums",
        "node",
        "party",
        "aggregator",
        "coordinator",
    }
    assert all(name.endswith(".py") for name in code)
    assert "coordinator/server_app.py" in names
    assert "party/client_app.py" in names


def test_the_bundle_runs_where_nothing_else_is_called_consilium(bundle: zipfile.ZipFile, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    bundle.extractall(folder)
    # Flower puts the unpacked bundle first on the path; -I: no PYTHONPATH, no working folder
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{IMPORTS}"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(folder)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ServerApp" in done.stdout
    assert "NodeApp" in done.stdout


def test_flower_accepts_the_project() -> None:
    config, warnings = load_and_validate(ROOT / "pyproject.toml")
    assert config["tool"]["flwr"]["app"]["components"]["serverapp"] == "consilium.coordinator.server_app:app"
    assert warnings == []
