"""Teachers that others wrote: what works, who may name them, and that nothing they do wrong reaches votes, log, or who
takes part."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from sklearn.linear_model import LogisticRegression

from consilium.data.private_rows import Rows
from consilium.models.keys import CnnSpec, EstimatorSpec, TorchSpec
from consilium.models.naming import write_estimator
from consilium.models.own_model import OwnClassifier
from consilium.models.table import check_teacher, fit_teachers
from consilium.party.voting import not_fitted
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema
from tests import strangers
from tests.federation import HomeFile as PartyFile
from tests.federation import make_config, make_home, node_at, open_home
from tests.party.test_node import CONFIG, HASH, join, make_rows, vote
from tests.party.test_node import train as train_request

SCHEMA = CONFIG.rows
PARTS = [np.arange(0, 150), np.arange(150, 300)]


def stranger(name: str, **parameters: Any) -> EstimatorSpec:
    return EstimatorSpec(factory=f"tests.strangers:{name}", parameters=parameters)


def rows_of(count: int = 300, seed: int = 6) -> Rows:
    x, y = make_rows(count, seed)
    return Rows(SCHEMA.inputs(x), y)


def own_teachers(spec: Any, rows: Rows) -> list[Any]:
    return fit_teachers(spec, rows, PARTS, [1, 2], 2)


def home_with(tmp_path: Path, teacher: dict[str, Any], **more: Any) -> Path:
    folder = make_home(tmp_path / "home", "p")
    settings = load(folder / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
    (folder / "party.toml").write_text(tomli_w.dumps({**settings, **more, "teacher": teacher}))
    return folder


GOOD = [
    *map(stranger, ("Nearest", "NoProbabilities", "WithoutClasses", "imputing")),
    EstimatorSpec(factory="sklearn.svm.SVC", parameters={"C": 2.0, "kernel": "rbf"}),
    EstimatorSpec(factory="lightgbm.LGBMClassifier", parameters={"verbose": -1}),
    TorchSpec(factory="tests.strangers:Net", learning_rate=0.01),
    TorchSpec(factory="tests.strangers:ten_outputs", learning_rate=0.05, batch=16),
    TorchSpec(factory="tests.strangers:Net", batch=149),  # 150 rows: one would be left for the last step
]


@pytest.mark.parametrize("spec", GOOD, ids=lambda spec: spec.factory)
def test_what_strangers_write_votes_as_well_as_it_can(spec: Any) -> None:
    rows = rows_of()
    check_teacher(spec, SCHEMA)
    before = rows.x.copy()
    asked = rows.x.copy()
    for teacher in own_teachers(spec, rows):
        assert isinstance(teacher, OwnClassifier)
        assert (teacher.predict(asked) == rows.y).mean() > 0.7
        probabilities = teacher.predict_proba(asked)
        assert (teacher.classes_[probabilities.argmax(axis=1)] == teacher.predict(asked)).all()
    assert (rows.x == before).all()
    assert (asked == before).all()


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (EstimatorSpec(factory="absent_package.Thing"), "there is no module absent_package"),
        (EstimatorSpec(factory="tests.strangers:Absent"), "no attribute 'Absent'"),
        (stranger("Nearest", strength=1), "cannot be built: TypeError"),
        (stranger("no_module", inputs=1, classes=2), "has no fit and no predict"),
        (stranger("Raises"), "made-up rows: RuntimeError: PRIVATE"),  # made-up rows are nobody's
        (stranger("Raises", error="SystemExit"), "made-up rows: SystemExit"),
        (stranger("Answers", shape="nan"), "its answers are no probabilities"),
        (stranger("Answers", shape="one column"), "predict_proba gives (8,) for 8 rows and 2 classes"),
        (stranger("NotKept"), "cannot pickle"),
        (stranger("Moody"), "its answer for a row changes"),
        (EstimatorSpec(factory="sklearn.linear_model:LogisticRegression", parameters={"C": -1}), "InvalidParameter"),
        (EstimatorSpec(factory="sklearn.svm.SVR"), "sklearn.svm.SVR gives SVR, a regressor, and no classifier"),
        (TorchSpec(factory="tests.strangers:one_output"), "It must give a logit for each class"),
        (TorchSpec(factory="tests.strangers:Eyes", images=True), "3 inputs are no square image"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_work_is_refused_before_any_private_row(spec: Any, told: str) -> None:
    with pytest.raises(Refused) as caught:
        check_teacher(spec, SCHEMA)
    assert caught.value.refusal.rule is Rule.POLICY
    assert told in caught.value.detail


@pytest.mark.parametrize("error", strangers.ERRORS)
def test_what_fails_on_private_rows_or_on_a_question_says_the_most_frequent_class(error: str) -> None:
    rows = rows_of()
    rows.x[3, 0] = 50.0
    spec = stranger("Raises", error=error, marked=True)
    check_teacher(spec, SCHEMA)
    failed, sound = own_teachers(spec, rows)
    usual = np.bincount(rows.y[:150]).argmax()
    assert failed.predict(rows.x).tolist() == [usual] * 300
    assert (sound.predict(rows.x) == rows.y).mean() > 0.75
    assert not_fitted([failed, sound]) == 1
    spec = stranger("Raises", error=error, method="predict_proba", marked=True)
    (teacher, _) = own_teachers(spec, rows_of())
    assert teacher.predict(np.full((3, 3), 100.0)).tolist() == [np.bincount(rows.y[:150]).argmax()] * 3
    assert teacher.silent == {error: 3}


@pytest.mark.parametrize(
    ("method", "said"),
    [("fit", "cannot be fitted to 1 of 1 shards"), ("predict_proba", "of their own to 1 questions: Odd")],
)
def test_a_party_reads_in_its_log_how_often_and_nothing_of_what_is_raised(
    tmp_path: Path, method: str, said: str, caplog
) -> None:
    table = {"model": "estimator", "factory": "tests.strangers:Raises"}
    home = home_with(tmp_path, {**table, "parameters": {"error": "Odd", "method": method, "marked": True}})
    with np.load(home / "data.npz") as file:
        arrays = dict(file)
    arrays["x"][3, 0] = 1e6 if method == "fit" else arrays["x"][3, 0]
    np.savez(home / "data.npz", **arrays)
    x = make_rows(5, 6)[0]
    x[0] = 1e6
    party = node_at(home)
    join(party)
    party.vote(vote(x))
    assert said in caplog.text
    assert "PRIVATE" not in caplog.text


def test_who_stops_the_process_stops_it() -> None:
    """Else a party that is stopped while it trains would keep a constant teacher for ever."""

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(number)

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(SystemExit):
            own_teachers(stranger("Signalled"), rows_of())
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_it_prints_is_dropped(capsys, caplog, recwarn) -> None:
    rows, spec = rows_of(), stranger("Prints")
    check_teacher(spec, SCHEMA)
    own_teachers(spec, rows)[0].predict(rows.x)
    printed = capsys.readouterr()
    assert "PRIVATE" not in printed.out + printed.err + caplog.text
    assert not [each for each in recwarn if "PRIVATE" in str(each.message)]


@pytest.mark.parametrize(
    "table",
    [
        {"model": "estimator", "factory": "planted_by_coordinator:Evil"},
        {"model": "torch", "factory": "planted_by_coordinator:Evil"},
        {"model": "pickled", "file": "../teacher.pkl"},
    ],
)
def test_a_coordinator_cannot_name_code_and_reading_a_table_imports_nothing(
    tmp_path: Path, monkeypatch, table: dict[str, Any]
) -> None:
    (tmp_path / "planted_by_coordinator.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    party = node_at(make_home(tmp_path / "home", "p"))
    with pytest.raises(Refused) as caught:
        join(party, train_request(spec_json=json.dumps(table)))
    assert caught.value.refusal.rule is Rule.MALFORMED
    with pytest.raises(ValueError, match="teacher"):
        make_config(teacher=table)
    load(home_with(tmp_path / "own", table) / "party.toml", PartyFile)  # the party's own, read and not yet used
    assert "planted_by_coordinator" not in sys.modules


def test_the_own_teacher_takes_the_place_of_the_one_that_is_asked_for(tmp_path: Path) -> None:
    table = {"model": "torch", "factory": "tests.strangers:Net", "steps": 60}
    party = node_at(home_with(tmp_path, table))
    join(party)
    (kept,) = party.teachers(HASH).teachers
    x, y = make_rows(300, 6)
    assert (party.vote(vote(x)).choices[:, 0] == y).mean() > 0.75
    assert (kept.predict(SCHEMA.inputs(x)) == party.vote(vote(x)).choices[:, 0]).all()


def test_the_seed_of_the_run_reaches_own_code() -> None:
    table = {"model": "estimator", "factory": "sklearn.tree.DecisionTreeClassifier"}
    assert EstimatorSpec.model_validate(table).build(2**40 + 5).get_params()["random_state"] == 5
    fixed = EstimatorSpec.model_validate({**table, "parameters": {"random_state": 9}})
    assert fixed.build(5).get_params()["random_state"] == 9
    rows, spec = rows_of(), TorchSpec(factory="tests.strangers:Net", parameters={"hidden": 8}, epochs=20)
    first, again = (own_teachers(spec, rows)[0].predict_proba(rows.x) for _ in range(2))
    other = fit_teachers(spec, rows, PARTS, [8, 9], 2)[0].predict_proba(rows.x)
    assert (first == again).all() and (first != other).any()


def test_an_image_network_refuses_rows_that_are_none_though_they_are_a_square() -> None:
    schema = Schema.of_images(tuple(map(str, range(784))), SCHEMA.classes, "scattering")
    with pytest.raises(Refused, match="representation 'scattering' gives no images"):
        check_teacher(CnnSpec(), schema)


class TestPickled:
    """A file in the party's own home, which runs when it is read."""

    def home(self, tmp_path: Path, model: Any, **keys: Any) -> Path:
        folder = home_with(tmp_path, {"model": "pickled", **keys})
        write_estimator(folder / "teacher.pkl", model)
        return folder

    def test_it_is_trained_and_votes(self, tmp_path: Path) -> None:
        class OfANotebook(strangers.Nearest):
            """Can be imported from nowhere."""

        for index, model in enumerate((LogisticRegression(), OfANotebook(), lambda: OfANotebook(2.0))):
            party = node_at(self.home(tmp_path / str(index), model))
            join(party)
            x, y = make_rows(300, 6)
            assert (party.vote(vote(x)).choices[:, 0] == y).mean() > 0.75

    @pytest.mark.parametrize("case", ["elsewhere", "others may write", "another file", "changed", "garbage"])
    def test_a_file_that_is_not_read(self, tmp_path: Path, case: str) -> None:
        keys = {"elsewhere": {"file": str(tmp_path / "teacher.pkl")}, "another file": {"sha256": "0" * 64}}
        folder = self.home(tmp_path, LogisticRegression(), **keys.get(case, {}))
        file = folder / "teacher.pkl"
        write_estimator(tmp_path / "teacher.pkl", LogisticRegression())
        if case == "changed":  # between opening the home and training
            spec = open_home(folder).teacher
            file.write_bytes(b"other")
            with pytest.raises(Refused, match="is not the file whose SHA-256"):
                own_teachers(spec, rows_of())
        elif case == "garbage":
            file.write_bytes(b"\x80\x04garbage")
            spec: Any = open_home(folder).teacher
            with pytest.raises(Refused, match=r"teacher.pkl cannot be read as an estimator"):
                check_teacher(spec, SCHEMA)
        else:
            if case == "others may write":
                file.chmod(0o666)
            with pytest.raises(ConsiliumError) as caught:
                node_at(folder)
            assert caught.value.exit_code == 2


@pytest.mark.parametrize(("keep", "missing"), [("mean", 0), ("keep", 60)])
def test_an_estimator_is_given_what_is_missing_or_the_mean(tmp_path: Path, keep: str, missing: int) -> None:
    table = {"model": "estimator", "factory": "tests.strangers:SeesMissing", "missing": keep}
    folder = home_with(tmp_path, table, data="data.csv", missing={"rule": "mean"})
    text = "age,pressure,drowsy,label\n" + "50,,0,well\n70,150,1,ill\n,140,0,well\n80,160,,ill\n" * 20
    (folder / "data.csv").write_text(text)
    join(party := node_at(folder))
    teacher: Any = party.teachers(HASH).teachers[0]
    assert teacher.estimator.missing_ == missing


def test_an_estimator_that_takes_no_nan_is_refused_before_any_private_row() -> None:
    with pytest.raises(Refused, match="Input X contains NaN"):
        check_teacher(EstimatorSpec(factory="sklearn.linear_model.LogisticRegression", missing="keep"), SCHEMA)
    schema = Schema.of_images(tuple(f"p{index}" for index in range(784)), ("a", "b"), "scattering")
    with pytest.raises(Refused, match="exclude each other"):
        check_teacher(EstimatorSpec(factory="lightgbm.LGBMClassifier", missing="keep"), schema)
