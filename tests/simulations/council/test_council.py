"""Whole fits: what comes out, what public rows decide, what fits cost together, what is refused, and what stays of one
that failed."""

from __future__ import annotations

import pickle
import re
import shutil
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score, get_scorer, make_scorer, roc_auc_score
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from consilium.accounting.mechanisms import Histogram
from consilium.accounting.target import worst_case
from consilium.protocol.errors import ConsiliumError, FailedAfterRelease, NothingToGain, OutputExists
from consilium.report.disclosure import SEEDED
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import BadInput, BadSetting, TooFewOwners, WrongType
from tests import strangers
from tests.simulations.council.warm import QUICK, hospitals

FRAME = hospitals()


def fitted(frame: pl.DataFrame = FRAME, public: Any = None, **changed: Any) -> Council:
    return Council(**{**QUICK, **changed}).fit(frame, "ill", owners="hospital", public=public)


def model_card(council: Council) -> str:
    """MODEL_CARD.md beside the student."""
    return Path(council.run_.summary["out"], "student", "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def council() -> Council:
    """One fit that tests read."""
    return fitted()


@pytest.fixture(scope="module")
def system() -> Council:
    """The same with real noise."""
    return fitted(noise="system")


class TestFit:
    def test_a_frame_with_gaps_and_texts_gives_a_student(self, council: Council) -> None:
        assert council.classes_.tolist() == ["no", "yes"]
        assert vars(council)["feature_names_in_"].tolist() == ["age", "pressure", "sex"]
        assert council.student_.schema.features[-1] == "sex=m"
        proba = council.predict_proba(FRAME)
        assert proba.shape == (FRAME.height, 2)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        assert council.score(FRAME.drop("ill", "hospital"), FRAME["ill"].to_numpy()) > 0.8
        assert (council.run_.labels.height, council.n_owners_) == (20, 6)

    def test_public_labels_bring_the_student_to_them(self, council: Council) -> None:
        known = fitted(public_labels="all")
        assert known.run_.summary["public_labels"]["rows"] == known.run_.summary["labels_alone"]["rows"] == 20
        assert known.run_.labels.equals(council.run_.labels)

    def test_owners_with_too_few_rows_are_told(self) -> None:
        """In the words of Python, and for programs; where everybody takes part there is no such warning."""
        few = FRAME.filter((pl.col("hospital") != "H03") | (pl.int_range(pl.len()).over("hospital") < 4))
        with pytest.warns(UserWarning, match=r"and 5 of them take part: 1 has fewer than data.least_rows = 10\."):
            council = fitted(few, settings={"data.least_rows": 10}, public=["H06", "H07"])
        assert council.n_owners_ == 5
        assert "parties-left-out" in [each["code"] for each in council.run_.warnings]
        assert council.run_.summary["parties_made"] == 6
        assert council.run_.audit()
        everybody = fitted(few, settings={"data.least_rows": 1}, public=["H06", "H07"])
        assert "parties-left-out" not in [each["code"] for each in everybody.run_.warnings]

    def test_python_hears_all_that_a_run_warns_of_first_that_most_teachers_fail(self) -> None:
        with pytest.warns(UserWarning) as heard:
            council = fitted(teacher=KNeighborsClassifier(21))
        kept = council.run_.warnings
        told = "6 of 6 teachers do not tell rows apart, or had no answer (6: ValueError: Expected n_neighbors <= "
        assert kept[0]["code"] == "teachers-failed"
        assert told in kept[0]["text"]
        assert [str(each.message).split(":")[0] for each in heard if each.category is UserWarning] == [
            each["code"] for each in kept
        ]
        assert council.run_.audit()

    def test_the_run_behind_it_holds_and_its_public_words_are_no_secret(self) -> None:
        council = fitted(mechanism={"name": "gnmax", "sigma": 1.5})
        assert council.run_.audit()
        secret = council.privacy_.secret_epsilon_data_dependent
        assert secret is not None
        assert secret < council.privacy_.epsilon == council.run_.summary["privacy"]["epsilon_guaranteed"]
        for text in (repr(council), repr(council.privacy_), str(council.privacy_)):
            assert f"{secret:.3f}" not in text
            assert "secret" not in text

    def test_seeded_noise_says_everywhere_that_it_protects_nobody(self, council: Council, system: Council) -> None:
        for text in (repr(council), str(council.privacy_), model_card(council)):
            assert SEEDED.split(":")[1].strip(" .") in text
        assert "that votes: protected: no; its noise came from a seed" in model_card(council)
        assert system.privacy_.protects
        everywhere = repr(system) + str(system.privacy_) + model_card(system)
        assert "protects nobody" not in everywhere
        assert "that votes: protected: yes; the promise is about what one party holds" in model_card(system)
        assert system.run_.audit()

    def test_the_same_seed_gives_the_same_student_and_fresh_noise_another(
        self, council: Council, system: Council
    ) -> None:
        first, again, other = council, fitted(), fitted(random_state=1)
        np.testing.assert_array_equal(first.predict_proba(FRAME), again.predict_proba(FRAME))
        assert (first.predict_proba(FRAME) != other.predict_proba(FRAME)).any()
        noise = [each.run_.labels["counts"].to_list() for each in (system, fitted(noise="system"))]
        assert noise[0] != noise[1]

    def test_arrays_and_columns_are_the_same(self, council: Council) -> None:
        features = FRAME.drop("ill", "hospital")
        by_array = Council(**QUICK).fit(features, FRAME["ill"], owners=FRAME["hospital"].to_list())
        np.testing.assert_array_equal(council.predict_proba(features), by_array.predict_proba(features))

    @pytest.mark.parametrize(
        ("labels", "declared"),
        [
            (["9", "10"], None),
            (["well", "ill"], ["well", "ill"]),
            ([True, False], [True, False]),
            ([10, 9], [9, 10, 11]),
        ],
    )
    def test_scorers_agree_whatever_labels_are_called(self, labels: list[Any], declared: list[Any] | None) -> None:
        """The second label is for the ill: `classes_` is in numpy's order, and each column is of its class."""
        frame = FRAME.drop("ill")
        y = np.array(labels)[(FRAME["ill"] == "yes").to_numpy().astype(int)]
        council = Council(**QUICK, classes=declared).fit(frame, y, owners="hospital")
        assert council.classes_.tolist() == np.unique([*labels, *(declared or [])]).tolist()
        assert council.classes_.dtype == np.array(labels).dtype
        assert council.score(frame, y) > 0.8
        assert get_scorer("balanced_accuracy")(council, frame, y) > 0.8
        column = council.predict_proba(frame)[:, council.classes_.tolist().index(labels[1])]
        assert roc_auc_score(y == labels[1], column) > 0.9
        if len(council.classes_) == 2:
            assert get_scorer("roc_auc")(council, frame, y) > 0.9
            assert get_scorer("neg_log_loss")(council, frame, y) > -0.7
            scored = make_scorer(average_precision_score, response_method="predict_proba", pos_label=labels[0])
            assert scored(council, frame, y) > 0.9

    def test_three_classes_through_cross_validation(self) -> None:
        y = np.array(["9", "10", "8"])[FRAME["age"].cut([55, 65]).to_physical().to_numpy()]
        scores = cross_val_score(
            Council(**QUICK),
            FRAME.drop("ill", "hospital").to_pandas(),
            y,
            params={"owners": FRAME["hospital"].to_numpy()},
            scoring="roc_auc_ovr",
            cv=KFold(2, shuffle=True, random_state=0),
        )
        assert scores.min() > 0.7

    def test_owners_or_rows_that_are_public(self) -> None:
        named = fitted(public=["H00", "H03"])
        assert named.n_owners_ == 6
        strangers = hospitals(2, seed=9).drop("hospital")
        council = fitted(public=strangers)
        assert council.n_owners_ == 8  # none of the private owners is held out
        centre = council.student_.schema.center[0]
        assert strangers["age"].to_numpy().min() < centre < strangers["age"].to_numpy().max()

    def test_private_rows_shape_nothing(self) -> None:
        """Another mean, another category, at a private owner: the schema is the same, the owner takes part."""
        public = ["H00", "H01"]
        odd = pl.col("hospital") == "H05"
        changed = FRAME.with_columns(
            pl.when(odd).then(pl.col("age") * 100).otherwise(pl.col("age")).alias("age"),
            pl.when(odd).then(pl.lit("x")).otherwise(pl.col("sex")).alias("sex"),
        )
        plain, odd_one = fitted(public=public), fitted(changed, public=public)
        assert plain.student_.schema == odd_one.student_.schema
        assert odd_one.n_owners_ == plain.n_owners_

    def test_rows_without_owners_are_dealt_by_lot(self) -> None:
        council = Council(**QUICK, parties=4).fit(FRAME.drop("hospital"), "ill")
        assert (council.n_owners_, council.fit(FRAME.drop("hospital"), "ill").privacy_.fits) == (4, 2)

    def test_fits_of_the_same_owners_add_up(self) -> None:
        mechanism, hidden = {"name": "gnmax", "sigma": 3.0}, {"federation.collection": "secure"}  # in fine shares
        council = Council(**{**QUICK, "mechanism": mechanism}, settings=hidden)
        council.fit(FRAME, "ill", owners="hospital")
        once = council.privacy_
        assert (once.fits, once.epsilon_of_all_fits) == (1, once.epsilon)
        council.fit(FRAME, "ill", owners="hospital")
        assert council.privacy_.fits == 2
        assert council.privacy_.epsilon_of_all_fits == 2 * once.epsilon
        assert council.privacy_.delta_of_all_fits == 2 * once.delta
        assert "fitted 2 times" in str(council.privacy_)
        others = FRAME.with_columns(pl.concat_str(pl.lit("other-"), pl.col("hospital")).alias("hospital"))
        council.fit(others, "ill", owners="hospital")
        assert council.privacy_.fits == 1
        again: Any = clone(council)
        assert again.fit(FRAME, "ill", owners="hospital").privacy_.fits == 1

    def test_a_fit_that_promised_for_another_unit_is_charged_for_a_whole_owner(self) -> None:
        """Of an owner with two teachers a record that comes moves one vote, and the owner two."""
        told = {"unit": "record", "neighbouring": "add_or_remove", "teachers_per_party": 2}
        council = Council(**{**QUICK, **told, "mechanism": {"name": "histogram", "sigma": 20.0}})
        record = council.fit(FRAME, "ill", owners="hospital").privacy_
        council.set_params(unit="party", neighbouring="replace", mechanism={"name": "histogram", "sigma": 40.0})
        owner = council.fit(FRAME, "ill", owners="hospital").privacy_
        assert owner.epsilon == pytest.approx(record.epsilon, rel=0.01)
        first = Histogram(sigma=20.0).event(20, teachers_per_party=2)
        assert owner.epsilon_of_all_fits == owner.epsilon + worst_case([first], owner.delta).epsilon

    def test_a_folder_is_written_once_and_a_temporary_one_goes_with_the_object(self, tmp_path: Path) -> None:
        council = fitted(out=tmp_path / "run")
        assert (tmp_path / "run" / "ledger.db").is_file()
        with pytest.raises(OutputExists):
            council.fit(FRAME, "ill", owners="hospital")
        temporary = fitted()
        folder = temporary.run_.path
        assert folder.is_dir()
        del temporary
        assert not folder.exists()

    def test_a_pickled_council_predicts(self, council: Council) -> None:
        again = pickle.loads(pickle.dumps(council))
        np.testing.assert_array_equal(again.predict_proba(FRAME), council.predict_proba(FRAME))

    def test_values_that_no_public_row_has_are_told(self, council: Council) -> None:
        odd = FRAME.drop("ill", "hospital").head(3).with_columns(pl.lit("x").alias("sex"))
        with pytest.warns(UserWarning, match="3 rows hold a value of 'sex'"):
            assert council.predict_proba(odd).shape == (3, 2)

    @pytest.mark.parametrize(
        ("rows", "told"),
        [
            (FRAME.select("age", "sex"), "feature names should match"),
            (FRAME.drop("ill").with_columns(pl.lit(1).alias("more")), "feature names should match"),
            (np.zeros((3, 2)), "X has 2 features, but Council is expecting 3"),
        ],
    )
    def test_rows_of_another_form_are_refused(self, council: Council, rows: Any, told: str) -> None:
        with pytest.raises(ValueError, match=told):
            council.predict_proba(rows)


def test_before_a_fit_there_is_nothing() -> None:
    council = Council(unit="party")
    for ask in (lambda: council.predict(FRAME), lambda: council.predict_proba(FRAME), lambda: council.report_):
        with pytest.raises(NotFittedError):
            ask()


def unpicklable() -> Callable[[], Any]:
    lock = threading.Lock()

    def made() -> Any:
        with lock:
            return LogisticRegression()

    return made


def local() -> Any:
    class Local(LogisticRegression):
        """As a function of one's own makes it: nobody finds it by its name."""

    return Local()


locked = unpicklable()
SITES = pl.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "ill": ["n", "y", "n", "y"], "site": ["a", "a", "b", "c"]})


def of_sites(**changed: Any) -> dict[str, Any]:
    return {"X": SITES, "owners": "site", **changed}


def without(expression: pl.Expr) -> dict[str, Any]:
    return {"X": FRAME.with_columns(expression)}


UNLIKE = "Unknown label type.* continuous values\\. Give labels of classes$"
REFUSED: list[tuple[dict[str, Any], dict[str, Any], type[ConsiliumError], str]] = [
    ({"settings": {"federation.minimum_parties": 50}}, {}, TooFewOwners, "public_share, or data.least_rows"),
    ({"settings": {"federation.colour": 1}}, {}, BadSetting, "federation.colour"),
    ({"settings": ["student.rounds=2"]}, {}, BadSetting, "settings is a list"),
    ({"settings": {"student.rouns": 2}}, {}, BadSetting, "student.rouns"),
    ({"random_state": -1}, {}, BadSetting, "random_state is -1"),
    ({"random_state": 2**63}, {}, BadSetting, "one from 0 to 9223372036854775807"),
    ({"classes": ["no", "perhaps"]}, {}, BadInput, "'yes', which classes does not have.* label there$"),
    ({}, {"public": ["nowhere"]}, BadSetting, "no hospital 'nowhere'"),
    ({"device": "tpu"}, {}, BadSetting, "device"),
    ({"epsilon": 0, "mechanism": None}, {}, BadSetting, "^Council: epsilon: must be greater than 0, got 0$"),
    ({"epsilon": "0.1", "mechanism": None}, {}, NothingToGain, "noise of epsilon 0.100"),
    ({"epsilon": None, "mechanism": None}, {}, BadSetting, "neither epsilon nor mechanism is given"),
    ({"delta": "small"}, {}, BadSetting, "delta"),
    ({"unit": "hospital"}, {}, BadSetting, "unit"),
    ({"unit": None}, {}, BadSetting, "unit is not said, and it has no default: whose data is the promise about"),
    ({"unit": "patient"}, {}, BadSetting, "unit is 'patient', and nobody says whose rows are whose"),
    ({}, {"owners": None}, BadSetting, "nobody says whose rows are whose"),
    ({"mechanism": object()}, {}, BadSetting, "mechanism"),
    ({"teacher": {"alpha": 1.0}}, {}, BadSetting, "model"),
    ({"teacher": nn.Linear(2, 2)}, {}, BadSetting, "teacher is a torch module"),
    ({"teacher": Ridge()}, {}, BadSetting, "teacher gives Ridge, a regressor, and no classifier"),
    ({"student": make_pipeline(KMeans(2))}, {}, BadSetting, "student gives Pipeline, a clusterer, and no classifier"),
    ({"teacher": LogisticRegression}, {}, BadSetting, "teacher is the class LogisticRegression.* Give an instance"),
    ({"student": StandardScaler()}, {}, BadSetting, "StandardScaler, which has no predict"),
    ({"teacher": hospitals}, {}, BadSetting, "teacher gives DataFrame, which has no fit and no predict"),
    ({"teacher": strangers.Answers("nan")}, {}, BadSetting, "^teacher: its answers are no probabilities: not numbers"),
    ({"student": strangers.Answers("too few")}, {}, BadSetting, r"^student: predict_proba gives \(7, 2\) for 8 rows"),
    (
        {"student": local},
        {},
        BadSetting,
        "AttributeError.* has no attribute 'Local'.* a class at the top of its module",
    ),
    ({"student": locked}, {}, BadSetting, "cannot be pickled: TypeError: cannot pickle '_thread.lock'"),
    ({}, without(pl.lit(None).alias("empty")), BadInput, "column 'empty': no public row has a value. Leave it out, or"),
    ({}, without(pl.lit("=1+1").alias("ill")), BadInput, "in all 160 rows: there is nothing to vote on"),
    ({}, without(pl.col("age").alias("ill")), BadInput, "Unknown label type"),
    ({}, without(pl.lit("a").alias("hospital")), BadInput, "owners: 1 different ones"),
    ({}, {"X": sparse.csr_matrix(np.eye(3))}, WrongType, "sparse"),
    ({}, {"X": np.zeros((2, 2, 2))}, BadInput, "3 dimensions"),
    ({}, {"X": np.zeros((0, 2))}, BadInput, r"0 sample\(s\)"),
    ({}, {"X": np.array([[1j], [2]])}, BadInput, "Complex data not supported"),
    ({}, {"X": np.array([(1, 2.0)], dtype=[("a", "i8"), ("b", "f8")])}, WrongType, "structured array"),
    ({}, {"X": np.array([[np.inf], [1.0]])}, BadInput, "column 'x0' contains infinity in 1 rows"),
    ({}, {"X": [[1, 2], [3]]}, BadInput, "no table"),
    ({}, of_sites(owners=["a"]), BadInput, "owners has 1 values for 4 rows"),
    ({}, of_sites(owners=np.zeros((4, 2))), BadInput, r"owners has shape \(4, 2\)"),
    ({}, of_sites(owners=5), WrongType, "owners is no column but a int"),
    ({}, of_sites(owners=SITES[["age", "ill"]]), BadInput, "owners is a frame of 2 columns"),
    ({}, of_sites(owners=["a", "a", "b", "b"]), BadInput, "owners: 2 different ones, at least 3 are needed: two that"),
    ({}, of_sites(owners="ill"), BadInput, "the same column twice"),
    ({}, of_sites(y=None), BadInput, "requires y to be passed, but the target y is None"),
    ({}, of_sites(y="nothing"), BadInput, "y: the rows have no column 'nothing'. They have age, ill, site"),
    ({}, of_sites(y=[0.5, 1.5, 0.25, 1.0]), BadInput, UNLIKE),
    ({}, of_sites(y=[0, None, 0, 1]), BadInput, "y contains NaN: 1 rows have no label"),
    ({}, of_sites(y=["a", "a ", "b", "b"]), BadInput, "two labels are written alike"),
    ({"classes": ["1", "0"]}, of_sites(y=[0, 1, 0, 1]), BadInput, "type str, and y has none. Write them as y has them"),
    ({}, of_sites(public=0.3), WrongType, "public is 0.3. Give a list of owners, or a frame of public rows"),
    ({}, of_sites(public=["a", "a"]), BadInput, "public has the same name twice"),
    ({}, of_sites(public=SITES, y=[0, 1, 0, 1]), BadInput, "y is an array, and the public rows are a frame"),
]


@pytest.mark.parametrize(("changed", "arguments", "kind", "told"), REFUSED)
def test_mistakes_have_a_type_and_leave_nothing_behind(
    tmp_path: Path, changed: dict[str, Any], arguments: dict[str, Any], kind: type[ConsiliumError], told: str
) -> None:
    council, given = Council(**{**QUICK, "out": tmp_path / "run", **changed}), {"X": FRAME, "y": "ill", **arguments}
    with pytest.raises(kind, match=told) as error:
        council.fit(**{"owners": "hospital", **given})
    assert isinstance(error.value, ValueError | TypeError) and (error.value.action or kind is BadSetting)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("student", "kind"),
    [
        ({"name": "torch", "factory": "tests.strangers:Net"}, "torch"),
        (strangers.MyLinear(), "estimator"),
        (LogisticRegression(), "estimator"),
    ],
)
def test_a_student_and_a_teacher_of_ones_own_learn_and_hold(student: Any, kind: str) -> None:
    """Also one whose file nobody else may read: whoever trained it trusts it."""
    council = fitted(student=student, teacher=LogisticRegression(C=0.5))
    assert council.student_.kind == kind
    assert council.run_.summary["student"]["accuracy"] > 0 and council.run_.audit()
    assert kind == "torch" or council.score(FRAME.drop("ill", "hospital"), FRAME["ill"].to_numpy()) > 0.8


@pytest.mark.parametrize(
    ("broken", "error", "kind", "told"),
    [
        ("simulations.run.run_summary", OSError(28, "Full"), FailedAfterRelease, r"Full.* 20 queries .* comes on top"),
        ("student.run.train", KeyboardInterrupt(), KeyboardInterrupt, "20 queries were released and stay charged"),
    ],
)
def test_a_fit_that_fails_or_is_interrupted_after_its_release_says_so_and_stays_charged(
    monkeypatch: pytest.MonkeyPatch, broken: str, error: BaseException, kind: type[BaseException], told: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    council = Council(**QUICK)
    with monkeypatch.context() as patch:
        patch.setattr(f"consilium.{broken}", fails)
        with pytest.raises(kind, match=told) as raised:
            council.fit(FRAME, "ill", owners="hospital")
    (folder, *_) = re.findall(r"/\S+?/run\b", str(raised.value))
    assert pl.read_parquet(f"{folder}/labels.parquet")["label"].null_count() == 0
    assert council.fit(FRAME, "ill", owners="hospital").privacy_.fits == 2
    shutil.rmtree(Path(folder).parent)


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
