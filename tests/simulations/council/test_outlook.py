"""Where a plan expects nothing, nothing is asked: figures are told, and what would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.coordinator.planning import outlook
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import NothingToGain
from tests.simulations.council.warm import hospitals

pytestmark = pytest.mark.slow

FEW = hospitals(5, rows=40)


def test_too_few_hospitals_are_told_with_figures_and_nothing_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "LARGER_EPSILONS", (200.0,))
    monkeypatch.setattr(outlook, "SHARDS", 40)
    council = Council(unit="party", epsilon=0.5, random_state=0, out=tmp_path / "run")
    with pytest.raises(NothingToGain) as error:
        council.fit(FEW, "ill", owners="hospital")
    assert "4 parties cannot have a useful student at epsilon 0.5 for a party: the noise is ±" in error.value.what
    assert "on a count of at most 4 votes" in error.value.what
    assert "epsilon=200.0: student's AUC" in error.value.action
    assert "epsilon=0.5, unit='record', neighbouring='add_or_remove', teachers_per_party=40" in error.value.action
    assert "More hospitals help most" in error.value.action
    assert "what private gradient descent and noisy averages give" in error.value.action
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("quick")
def test_it_is_run_all_the_same_where_somebody_wants_it() -> None:
    council = Council(unit="party", epsilon=0.5, random_state=0, if_hopeless="warn", hand_labels="none")
    with pytest.warns(UserWarning, match="4 parties cannot have a useful student"):
        council.fit(FEW, "ill", owners="hospital")
    assert council.privacy_.epsilon <= 0.5
    assert council.plan_ is not None
    assert council.plan_["warnings"][0]["code"] == "expect-nothing"
