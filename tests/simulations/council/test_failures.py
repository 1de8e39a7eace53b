"""Fits that once failed after everything was charged, or silently: what is refused before, and what stays after."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression

from consilium.simulations.council.frames import BadSetting
from tests.simulations.council.test_council import FRAME, fitted
from tests.strangers import MyLinear

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]


@pytest.mark.parametrize(
    ("student", "kind"),
    [
        ({"name": "torch", "factory": "tests.strangers:Net"}, "torch"),
        ({"name": "estimator", "factory": "tests.strangers:MyLinear"}, "estimator"),
        (MyLinear(), "estimator"),
    ],
)
def test_a_student_of_ones_own_is_judged_and_holds(student: Any, kind: str) -> None:
    """Also one whose file nobody else may read: whoever trained it trusts it."""
    council = fitted(student=student)
    assert council.student_.kind == kind
    assert council.run_.summary["student"]["accuracy"] > 0
    assert council.run_.audit()
    assert council.predict_proba(FRAME).shape == (FRAME.height, 2)


def test_a_teacher_that_only_this_process_knows_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    module = types.ModuleType("made_in_memory")
    module.__dict__["Mine"] = type("Mine", (LogisticRegression,), {"__module__": module.__name__})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(BadSetting, match=r"No module named 'made_in_memory'.* not in those of the parties"):
        fitted(teacher=module.__dict__["Mine"](), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert "refused" not in capfd.readouterr().err
