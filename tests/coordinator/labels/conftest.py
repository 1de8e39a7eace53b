from __future__ import annotations

import pytest

from tests.coordinator.labels.site import Site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """With two students; nobody is revoked there."""
    return Site(tmp_path_factory.mktemp("site"), ("anna", "institute"))
