"""A Pipeline that looks columns up by name, as teacher and as student of a fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from consilium.models.published.model import load_model
from consilium.simulations.council.estimator import Council
from tests.simulations.council.warm import QUICK, hospitals, quick_fits


@pytest.mark.slow
def test_it_sees_years_and_words_as_the_frame_has_them(tmp_path: Path) -> None:
    columns = ColumnTransformer([("number", StandardScaler(), ["age"]), ("word", OneHotEncoder(), ["sex"])])
    pipeline = Pipeline([("columns", columns), ("model", LogisticRegression())])
    frame = hospitals()
    with quick_fits():
        council = Council(**{**QUICK, "teacher": pipeline, "student": pipeline, "out": tmp_path / "run"})
        council.fit(frame, "ill", owners="hospital")
        rows = frame.drop("ill", "hospital")
        assert council.score(rows, frame["ill"].to_numpy()) > 0.8
        assert council.run_.audit()
    loaded = load_model(tmp_path / "run" / "student" / "model.safetensors")
    seen = loaded.model.classifier.estimator.named_steps["columns"].named_transformers_  # pyright: ignore
    assert 50 < seen["number"].mean_[0] < 70
    assert seen["word"].categories_[0].tolist() == ["f", "m"]
