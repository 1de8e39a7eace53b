"""What travels with `flwr run .`: code, and never keys, runs, data or a party's home."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate

ROOT = Path(__file__).resolve().parents[1]
SECRETS = (
    "runs/stroke-1/private/votes.json",
    "runs/stroke-1/manifest.json",
    "party/home/party.toml",
    "party/home/data.json",
    "party/node.key",
    "coordinator/ledger.json",
    "coordinator/server.pem",
    "protocol/roster.yaml",
    "kits/party-a/identity.json",
    "accounting/votes.jsonl",
    "keys.toml",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what git tracks, with secrets planted where a careless person leaves them."""
    target = tmp_path / "consilium"
    target.mkdir()
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    for name in SECRETS:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text("planted-secret")
    return target


def test_the_bundle_holds_code_only(checkout: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(build_fab_from_disk(checkout))) as bundle:
        names = bundle.namelist()
        for name in names:
            assert b"planted-secret" not in bundle.read(name), name
    code = [name for name in names if name not in ("pyproject.toml", ".info/CONTENT")]
    assert {name.split("/")[0] for name in code} == {"consilium", "accounting", "protocol", "party", "coordinator"}
    assert all(name.endswith(".py") for name in code)
    assert "coordinator/server_app.py" in names
    assert "party/client_app.py" in names


def test_flower_accepts_the_project() -> None:
    config, warnings = load_and_validate(ROOT / "pyproject.toml")
    assert config["tool"]["flwr"]["app"]["components"]["serverapp"] == "consilium.coordinator.server_app:app"
    assert warnings == []
