"""Kits that a test may spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.deploy.kits import make_kits


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """Kits with secure votes in which nothing is wrong; not to be changed."""
    return make_kits(tmp_path_factory.mktemp("sound"), collection="secure")


@pytest.fixture
def out(sound: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(sound, tmp_path / "kits"))
