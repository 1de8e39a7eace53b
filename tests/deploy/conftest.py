"""Kits that a test may spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.deploy.kits import SECOND, make_kits


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """Kits with secure votes in which nothing is wrong; not to be changed."""
    return make_kits(tmp_path_factory.mktemp("sound"), collection="secure")


@pytest.fixture
def out(sound: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(sound, tmp_path / "kits"))


@pytest.fixture(scope="module")
def sound_second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kits of verified votes, with keys that the second aggregator made, in which nothing is wrong; not to be
    changed."""
    folder = tmp_path_factory.mktemp("second")
    return make_kits(folder, own=[SECOND], collection="verified", minimum_parties=3)


@pytest.fixture
def nodes(out: Path, sound_second: Path) -> Path:
    """Kits with secure votes, beside that of a second aggregator and of its coordinator, `of-second`, all of which a
    test may spoil."""
    shutil.copytree(sound_second / f"aggregator-{SECOND}", out / f"aggregator-{SECOND}")
    shutil.copytree(sound_second / "coordinator", out / "of-second")
    shutil.copytree(sound_second / "operator", out / "operator-of-second")
    return out
