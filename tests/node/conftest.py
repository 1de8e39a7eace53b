"""A federation of a module's own, for each test that changes it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from consilium.node.folder import NodeFolder, open_folder
from tests.node.folders import Made


@pytest.fixture
def made(once: Made, tmp_path: Path) -> Made:
    """A copy of what the module's `once` has made, to be changed."""
    root = Path(shutil.copytree(once.out.parent, tmp_path / "site"))
    return replace(once, out=root / "federation", nodes={name: open_folder(root / name) for name in once.nodes})


@pytest.fixture
def folder(made: Made) -> NodeFolder:
    """Of its first party."""
    return made.nodes["p00"]
