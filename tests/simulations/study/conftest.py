"""One small study a session, for all tests that only read its folder, its tables or its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.simulations.study.run import run_study
from consilium.simulations.study.spec import load_study
from tests.simulations.study.tiny import write_tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study of `tiny.py`, done; its results are in `out`. Not to be written to."""
    folder = tmp_path_factory.mktemp("tiny")
    assert run_study(load_study(str(write_tiny(folder))), folder / "out")["found"] == 0
    return folder
