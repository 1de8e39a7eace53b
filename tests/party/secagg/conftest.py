"""The federation that is attacked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.secagg.conftest import any_set
from tests.secagg.network import Federation

__all__ = ["any_set"]


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Five parties: t = u_min = 4."""
    return Federation(tmp_path, 5)
