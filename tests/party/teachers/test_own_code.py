"""Teachers that others wrote: what works, and that nothing they do wrong reaches votes, log, or who takes part."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.data.private_rows import Rows
from consilium.models.keys import EstimatorSpec, TorchSpec
from consilium.models.own_model import OwnCodeTeacher
from consilium.models.table import check_teacher, fit_teachers
from consilium.party.teach import not_fitted
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.refusals import Refused, Rule
from tests import strangers
from tests.federation import HomeFile as PartyFile
from tests.federation import make_config, make_home, node_at, open_home
from tests.party.teachers.own_code import PARTS, SCHEMA, own_teachers, rows_of, stranger
from tests.party.teachers.test_own_teacher import home_with
from tests.party.test_node import join, make_rows, vote
from tests.party.test_node import train as train_request

GOOD = ("Nearest", "NoProbabilities", "TextLabels", "WithoutClasses", "Threads", "imputing")


@pytest.mark.parametrize("name", GOOD)
def test_what_strangers_write_votes_as_well_as_it_can(name: str) -> None:
    rows = rows_of()
    spec = stranger(name)
    check_teacher(spec, SCHEMA)
    before = rows.x.copy()
    asked = rows.x.copy()
    for teacher in own_teachers(spec, rows):
        assert isinstance(teacher, OwnCodeTeacher)
        assert (teacher.predict(asked) == rows.y).mean() > 0.75
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
        (TorchSpec(factory="tests.strangers:Net", loss="tests.strangers:absent"), "no attribute 'absent'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_work_is_refused_before_any_private_row(spec: Any, told: str) -> None:
    with pytest.raises(Refused) as caught:
        check_teacher(spec, SCHEMA)
    assert caught.value.refusal.rule is Rule.POLICY
    assert told in caught.value.detail


@pytest.mark.parametrize("error", strangers.ERRORS)
def test_what_fails_on_private_rows_only_says_the_most_frequent_class(error: str) -> None:
    rows = rows_of()
    rows.x[3, 0] = 50.0
    spec = stranger("Raises", error=error, marked=True)
    check_teacher(spec, SCHEMA)
    failed, sound = own_teachers(spec, rows)
    usual = np.bincount(rows.y[:150]).argmax()
    assert failed.predict(rows.x).tolist() == [usual] * 300
    assert (sound.predict(rows.x) == rows.y).mean() > 0.75
    assert not_fitted([failed, sound]) == 1


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


@pytest.mark.parametrize("error", ["Odd", "SystemExit"])
def test_what_fails_on_a_question_says_the_most_frequent_class(error: str) -> None:
    rows = rows_of()
    spec = stranger("Raises", error=error, method="predict_proba", marked=True)
    check_teacher(spec, SCHEMA)
    (teacher, _) = own_teachers(spec, rows)
    asked = np.full((3, 3), 100.0)
    assert teacher.predict(asked).tolist() == [np.bincount(rows.y[:150]).argmax()] * 3
    assert teacher.silent == {error: 3}


def test_what_it_prints_is_dropped(capsys, caplog, recwarn) -> None:
    rows, spec = rows_of(), stranger("Prints")
    check_teacher(spec, SCHEMA)
    own_teachers(spec, rows)[0].predict(rows.x)
    printed = capsys.readouterr()
    assert "PRIVATE" not in printed.out + printed.err + caplog.text
    assert not [each for each in recwarn if "PRIVATE" in str(each.message)]


def test_labels_are_what_the_shard_has_and_whole_numbers_from_0() -> None:
    """A shard of the classes 1 and 2 of three: what is trained sees 0 and 1, as xgboost insists on."""
    rows = rows_of()
    shifted = Rows(rows.x, rows.y + 1)
    teacher: Any = fit_teachers(stranger("Nearest"), shifted, PARTS, [1, 2], 3)[0]
    assert teacher.classes_.tolist() == [1, 2]
    assert teacher.trained.estimator.classes_.tolist() == [0, 1]
    assert set(teacher.predict(rows.x)) == {1, 2}


@pytest.mark.parametrize(
    "table",
    [
        {"model": "estimator", "factory": "planted_by_coordinator:Evil"},
        {"model": "torch", "factory": "tests.strangers:Net", "loss": "planted_by_coordinator:Evil"},
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


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"model": "estimator"}, "factory: is required"),
        ({"model": "estimator", "factory": "os; import evil"}, "factory"),
        ({"model": "estimator", "factory": "a.B", "steps": 3}, "unknown key"),
        ({"model": "torch", "factory": "a.B", "epochs": 0}, "epochs"),
        ({"model": "pickled", "sha256": "abc"}, "sha256"),
    ],
)
def test_faults_of_the_table_are_told_when_it_is_read(tmp_path: Path, table: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        open_home(home_with(tmp_path, table))
