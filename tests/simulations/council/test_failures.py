"""Fits that once failed after everything was charged, or silently: what is refused before, and what stays after."""

from __future__ import annotations

import shutil
import sys
import types
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from consilium.protocol.errors import FailedAfterRelease
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import BadSetting
from tests.simulations.council.test_council import FRAME, fitted
from tests.simulations.council.warm import QUICK
from tests.strangers import MyLinear

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize(
    ("student", "kind"), [({"name": "torch", "factory": "tests.strangers:Net"}, "torch"), (MyLinear(), "estimator")]
)
def test_a_student_of_ones_own_is_judged_and_holds(student: Any, kind: str) -> None:
    """Also one whose file nobody else may read: whoever trained it trusts it."""
    council = fitted(student=student)
    assert council.student_.kind == kind
    assert council.run_.summary["student"]["accuracy"] > 0
    assert council.run_.audit()
    assert council.predict_proba(FRAME).shape == (FRAME.height, 2)


def test_a_fit_that_fails_after_its_release_says_so_and_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    council = Council(**QUICK)
    with monkeypatch.context() as patch:
        patch.setattr("consilium.simulations.run.run_summary", fails)
        with pytest.raises(FailedAfterRelease, match=r"No space left.* 20 queries .* comes on top") as raised:
            council.fit(FRAME, "ill", owners="hospital")
    labels = Path(str(raised.value).split("the answers are in ")[1].split(", ")[0])
    assert pl.read_parquet(labels)["label"].null_count() == 0
    council.fit(FRAME, "ill", owners="hospital")
    assert council.privacy_.fits == 2
    shutil.rmtree(labels.parents[1])


def test_an_interrupted_fit_keeps_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupts(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    council = Council(**QUICK)
    with monkeypatch.context() as patch:
        patch.setattr("consilium.student.learn.train", interrupts)
        with pytest.raises(KeyboardInterrupt, match="20 queries were released and stay charged") as raised:
            council.fit(FRAME, "ill", owners="hospital")
    folder = Path(str(raised.value).split("charged: ")[1])
    assert (folder / "ledger.db").exists()
    assert council.fit(FRAME, "ill", owners="hospital").privacy_.fits == 2
    shutil.rmtree(folder.parent)


def test_a_budget_above_the_different_public_rows_is_said_at_once() -> None:
    """Equal rows are one query: of 20 public rows that can be asked 10 are different, and noise for 20 was given."""
    rows = FRAME.filter(pl.col("hospital") == "H00").drop("hospital")
    public = pl.concat([rows.head(10)] * 4)
    with pytest.warns(UserWarning, match=r"allows 20 queries, and (\d|10) different public rows can be asked"):
        council = fitted(public=public)
    assert council.run_.labels.height == council.run_.labels["query_id"].n_unique() <= 10


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
