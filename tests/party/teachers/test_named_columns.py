"""Estimators that look columns up by name: what they see, and that a row's vote hangs on no other row."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from consilium.data.encoding import encode, infer, named
from consilium.data.private_rows import Rows
from consilium.models.guard import GuardedClassifier, rehearse
from consilium.models.keys import EstimatorSpec
from consilium.models.naming import UnusableModel
from consilium.models.own_model import OwnCodeTeacher
from consilium.models.table import check_teacher, fit_teachers
from consilium.protocol.schema import Schema
from tests import strangers

FRAME = pl.DataFrame(
    {
        "age": [61.0, 72.5, 55.1, 40.0, 33.3, 80.0],
        "sex": ["female", "male", "female", "male", "male", "female"],
        "stage": ["I", "II", "III", "I", "II", "III"],
        "weight": [80.1, None, 61.0, 59.9, 90.0, 77.7],
    }
)
COLUMNS = infer(FRAME)
SCHEMA = Schema.of_table(COLUMNS, ("well", "ill"), encode(FRAME, COLUMNS)[0])


def inputs(frame: pl.DataFrame) -> np.ndarray:
    return SCHEMA.inputs(SCHEMA.filled(encode(frame, COLUMNS)[0]))


def test_a_frame_has_the_columns_as_they_were_before_they_were_numbers() -> None:
    frame = named(inputs(FRAME), SCHEMA)
    assert frame.columns == ["age", "sex", "stage", "weight", "weight missing"]
    assert (frame["age"].to_numpy() == FRAME["age"].to_numpy().astype(np.float32)).all()
    assert frame["sex"].to_list() == FRAME["sex"].to_list()
    assert frame["stage"].to_list() == FRAME["stage"].to_list()
    assert frame["weight missing"].to_list() == [0, 1, 0, 0, 0, 0]
    assert frame["weight"][1] == np.float32(SCHEMA.center[SCHEMA.features.index("weight")])
    unknown = FRAME.with_columns(sex=pl.lit("divers"), stage=pl.lit("IV"))
    assert named(inputs(unknown), SCHEMA)["stage"].null_count() == 6
    assert set(named(inputs(unknown), SCHEMA)["sex"]) == {"female"}  # of two values it is the first, as in the features
    bare = Schema(features=("a", "b"), classes=("well", "ill"), center=(1e3, 0), scale=(7, 1))
    assert named(bare.inputs(np.array([[3.0, np.nan]])), bare).rows()[0][0] == 3.0


def test_a_pipeline_of_a_party_sees_units_and_words() -> None:
    spec = EstimatorSpec(factory="tests.strangers:by_name", parameters={"column": "age", "category": "sex"})
    check_teacher(spec, SCHEMA)
    frame = pl.concat([FRAME] * 10)
    y = (frame["sex"] == "male").to_numpy().astype(np.int64)
    (teacher,) = fit_teachers(spec, Rows(inputs(frame), y, schema=SCHEMA), [np.arange(60)], [0], 2)
    assert isinstance(teacher, OwnCodeTeacher)
    prepared = teacher.trained.estimator.named_steps["columntransformer"].named_transformers_
    assert prepared["number"].mean_[0] == pytest.approx(FRAME["age"].mean(), rel=1e-7)
    assert prepared["category"].categories_[0].tolist() == ["female", "male"]
    assert (teacher.predict(inputs(FRAME)) == y[:6]).all()


def test_a_shard_without_a_rare_value_answers_for_it() -> None:
    """Not the most frequent class: a OneHotEncoder that was left at its default would fail on every row beside it."""
    spec = EstimatorSpec(factory="tests.strangers:by_name", parameters={"column": "age", "category": "stage"})
    frame = pl.concat([FRAME.filter(pl.col("stage") != "III")] * 10)
    y = (frame["age"] > 60).to_numpy().astype(np.int64)
    (teacher,) = fit_teachers(spec, Rows(inputs(frame), y, schema=SCHEMA), [np.arange(len(y))], [0], 2)
    rare = FRAME.filter(pl.col("stage") == "III").with_columns(age=pl.Series([20.0, 90.0]))
    assert teacher.predict(inputs(rare)).tolist() == [0, 1]


def test_a_row_that_fails_takes_no_other_row_with_it() -> None:
    """Asked with it or alone, another row has the same vote."""
    encoder = ColumnTransformer([("stage", OrdinalEncoder(), ["stage"]), ("age", "passthrough", ["age"])])
    frame = pl.concat([FRAME.filter(pl.col("stage") != "III")] * 10)
    y = (frame["age"] > 60).to_numpy().astype(np.int64)
    trained = GuardedClassifier.trained(
        make_pipeline(encoder, StandardScaler(), LogisticRegression()), inputs(frame), y, schema=SCHEMA
    )
    teacher = OwnCodeTeacher(trained, "ordinal")
    together = teacher.predict_proba(inputs(FRAME))
    alone = np.concatenate([teacher.predict_proba(inputs(FRAME)[row : row + 1]) for row in range(6)])
    np.testing.assert_allclose(together, alone)
    unseen = (FRAME["stage"] == "III").to_numpy()
    assert (together[unseen] == (teacher.classes_ == trained.usual)).all()
    assert (together[~unseen].argmax(axis=1) == (FRAME["age"] > 60).to_numpy()[~unseen]).all()


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (lambda: strangers.by_name("colour"), "made-up rows: ValueError: .*olumn.* of the dataframe"),
        (
            lambda: make_pipeline(
                ColumnTransformer([("n", "passthrough", make_column_selector())]), LogisticRegression()
            ),
            "can only be applied to pandas dataframes",
        ),
    ],
)
def test_what_cannot_be_is_told_on_made_up_rows(estimator: object, sentence: str) -> None:
    with pytest.raises(UnusableModel, match=sentence):
        rehearse("theirs", estimator, SCHEMA)  # pyright: ignore
