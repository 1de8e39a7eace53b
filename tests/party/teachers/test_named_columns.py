"""Estimators that look columns up by name: what they see, and that a row's vote hangs on no other row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from consilium.data.encoding import encode, infer, named
from consilium.data.private_rows import Rows
from consilium.models.guard import GuardedClassifier, by_name, made_up, rehearse
from consilium.models.naming import UnusableModel, write_estimator
from consilium.models.own_model import OwnCodeTeacher
from consilium.models.specs import EstimatorSpec, OwnCode, PickledSpec
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.party.teach import check, train_all
from consilium.protocol.schema import Schema
from tests import strangers
from tests.federation import make_home, make_rows
from tests.party.teachers.own_code import with_teacher
from tests.party.test_node import CONFIG, hello, train, vote

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


@pytest.mark.parametrize(
    ("columns", "expected"),
    [("age", True), (["age", "sex"], True), (lambda frame: ["age"], True), ([0, 1], False), (slice(2), False)],
)
def test_only_what_looks_up_names_gets_a_frame(columns: object, expected: bool) -> None:
    estimator = make_pipeline(ColumnTransformer([("some", StandardScaler(), columns)]), LogisticRegression())
    assert by_name(estimator) is expected
    assert not by_name(LogisticRegression())
    assert not by_name(strangers.Nearest)


def test_a_pipeline_of_a_party_sees_units_and_words() -> None:
    spec = EstimatorSpec(factory="tests.strangers:by_name", parameters={"column": "age", "category": "sex"})
    check(spec, SCHEMA)
    frame = pl.concat([FRAME] * 10)
    y = (frame["sex"] == "male").to_numpy().astype(np.int64)
    (teacher,) = train_all(Rows(inputs(frame), y, schema=SCHEMA), spec, [np.arange(60)], [0], 2)
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
    (teacher,) = train_all(Rows(inputs(frame), y, schema=SCHEMA), spec, [np.arange(len(y))], [0], 2)
    rare = FRAME.filter(pl.col("stage") == "III").with_columns(age=pl.Series([20.0, 90.0]))
    assert teacher.predict(inputs(rare)).tolist() == [0, 1]  # pyright: ignore


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


def test_made_up_rows_have_every_value_of_a_category() -> None:
    frame = named(made_up(SCHEMA, 100)[0], SCHEMA)
    assert set(frame["stage"]) == {"I", "II", "III"} and set(frame["sex"]) == {"female", "male"}
    assert set(frame["weight missing"]) == {0, 1}


def test_a_party_votes_with_a_pipeline_in_a_file_of_its_own(tmp_path: Path) -> None:
    """As a message, from training to votes, as `GaussianNB` and all others do."""
    folder = make_home(tmp_path / "home", "p")
    pipeline: Pipeline = strangers.by_name("age", passing="passthrough")
    write_estimator(folder / "teacher.pkl", pipeline)
    with_teacher(folder, {"model": "pickled"})
    party = PartyNode(open_home(folder))
    party.hello(hello())
    party.train(train())
    x, y = make_rows(60, 7)
    votes = np.asarray(party.vote(vote(x)).choices)[:, 0]
    assert (votes == y).mean() > 0.8
    again: OwnCode = PickledSpec(model="pickled", file=str(folder / "teacher.pkl"))
    assert by_name(again.build(0))
    assert CONFIG.rows.columns == ()
