"""The manifest's floats: of networks for images alone."""

from __future__ import annotations

import pytest

from consilium.models.devices import FLOATS_VARIABLE
from consilium.simulations.run import _floats
from consilium.simulations.scenario import load_scenario


@pytest.mark.parametrize(
    ("name", "changes", "stated"),
    [
        ("stroke", [], False),
        ("mnist-250", [], True),
        ("mnist-250", ["student.trainer={name='graph'}", "federation.teacher={model='cnn'}",
                       "data.representation=none", "data.standardise=false"], True),
    ],
)  # fmt: skip
def test_floats_stand_where_there_are_networks_for_images(
    monkeypatch: pytest.MonkeyPatch, name: str, changes: list[str], stated: bool
) -> None:
    monkeypatch.setenv(FLOATS_VARIABLE, "bfloat16")
    assert _floats(load_scenario(name, changes), "cpu") == ({"floats": "bfloat16"} if stated else {})
