"""A checkout with secrets in it, and what is built from that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rooms import ROOT

SECRETS = (
    "runs/stroke-1/private/votes.json",
    "runs/stroke-1/manifest.json",
    "party/home/party.toml",
    "party/home/data.json",
    "party/node.key",
    "party/secret",
    "coordinator/ledger.json",
    "coordinator/server.pem",
    "protocol/roster.yaml",
    "party-a/keys/identity.json",
    "accounting/votes.jsonl",
    "student/public.npz",
    "consilium/secret.toml",
    "keys.toml",
)
PLANTED = "planted-secret"


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git tracks, links as links, with secrets planted where a careless person leaves them."""
    target = tmp_path_factory.mktemp("checkout") / "consilium"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            (target / name).symlink_to(os.readlink(ROOT / name))
        elif (ROOT / name).is_file():
            shutil.copy(ROOT / name, target / name)
    for name in SECRETS:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(PLANTED)
    return target


def build(source: Path, kind: str, out: Path) -> Path:
    """The one file that hatchling makes of a source folder; kind: "wheel" or "sdist"."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="session")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    return build(checkout, "wheel", tmp_path_factory.mktemp("wheel"))
