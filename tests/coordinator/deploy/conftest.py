"""A small federation that a coordinator has joined, for each test anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.node.folder import NodeFolder
from tests.node.folders import Made, make_small


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return make_small(tmp_path)


@pytest.fixture
def folder(made: Made) -> NodeFolder:
    return made.nodes["coordinator"]
