"""Kinds of teachers of one's own: torch modules, pickled files, and estimators that know missing values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from consilium.data.private_rows import Rows
from consilium.models.keys import EstimatorSpec, PickledSpec, TorchSpec
from consilium.models.naming import write_estimator
from consilium.models.own_model import OwnCodeTeacher
from consilium.models.table import check_teacher, fit_teachers
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.refusals import Refused
from consilium.protocol.schema import Schema
from tests import strangers
from tests.federation import make_home, node_at, open_home
from tests.party.teachers.own_code import PARTS, SCHEMA, own_teachers, rows_of, with_teacher
from tests.party.teachers.test_own_teacher import home_with
from tests.party.test_node import HASH, join, make_rows, vote


class TestTorch:
    """Modules of one's own."""

    def test_a_module_learns_and_the_same_seed_gives_the_same_votes(self) -> None:
        rows = rows_of()
        spec = TorchSpec(factory="tests.strangers:Net", parameters={"hidden": 8}, epochs=40)
        check_teacher(spec, SCHEMA)
        first, again = (own_teachers(spec, rows)[0] for _ in range(2))
        assert (first.predict(rows.x) == rows.y).mean() > 0.75
        assert (first.predict_proba(rows.x) == again.predict_proba(rows.x)).all()
        other = fit_teachers(spec, rows, PARTS, [8, 9], 2)[0]
        assert (first.predict_proba(rows.x) != other.predict_proba(rows.x)).any()

    def test_it_is_kept_and_asked_again(self, tmp_path: Path) -> None:
        table = {"model": "torch", "factory": "tests.strangers:Net", "steps": 60, "optimiser": "adam"}
        party = node_at(home_with(tmp_path, table))
        join(party)
        (kept,) = party.teachers(HASH).teachers
        x, y = make_rows(300, 6)
        assert (party.vote(vote(x)).choices[:, 0] == y).mean() > 0.75
        assert (kept.predict(SCHEMA.inputs(x)) == party.vote(vote(x)).choices[:, 0]).all()

    @pytest.mark.parametrize(
        "spec",
        [
            TorchSpec(factory="tests.strangers:Net", loss="tests.strangers:margin", learning_rate=0.01),
            TorchSpec(factory="tests.strangers:ten_outputs", learning_rate=0.05, optimiser="sgd", batch=16),
            TorchSpec(factory="tests.strangers:Net", batch=149),  # 150 rows: one would be left for the last step
        ],
        ids=["own loss", "more outputs than classes", "one row left"],
    )
    def test_ways_to_train(self, spec: TorchSpec) -> None:
        rows = rows_of()
        teacher = own_teachers(spec, rows)[0]
        assert isinstance(teacher, OwnCodeTeacher)
        assert (teacher.predict(rows.x) == rows.y).mean() > 0.7

    def test_images_come_in_their_shape(self) -> None:
        generator = np.random.default_rng(0)
        y = generator.integers(2, size=80)
        x = generator.random((80, 8, 8))
        x[y == 1, :4] += 1
        schema = Schema.of_images(tuple(f"p{index}" for index in range(64)), ("a", "b"), "none")
        spec = TorchSpec(factory="tests.strangers:Eyes", images=True, epochs=10)
        check_teacher(spec, schema)
        (teacher,) = fit_teachers(spec, Rows(x.reshape(80, -1), y), [np.arange(80)], [0], 2)
        assert (teacher.predict(x.reshape(80, -1)) == y).mean() > 0.9


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

    def test_another_file_is_another_teacher(self, tmp_path: Path) -> None:
        folder = self.home(tmp_path, LogisticRegression())
        first = node_at(folder)
        join(first)
        trained = first.teachers(HASH).digest
        join(node_at(folder))
        assert first.teachers(HASH).digest == trained
        (folder / "teacher.pkl").unlink()
        write_estimator(folder / "teacher.pkl", LogisticRegression(C=1e-4))
        join(node_at(folder))
        assert first.teachers(HASH).digest != trained

    @pytest.mark.parametrize("case", ["elsewhere", "others may write", "another file", "changed"])
    def test_a_file_that_is_not_read(self, tmp_path: Path, case: str) -> None:
        keys = {
            "elsewhere": {"file": str(tmp_path / "teacher.pkl")},
            "parent": {"file": "../teacher.pkl"},
            "another file": {"sha256": "0" * 64},
        }.get(case, {})
        folder = self.home(tmp_path, LogisticRegression(), **keys)
        write_estimator(tmp_path / "teacher.pkl", LogisticRegression())
        if case == "absent":
            (folder / "teacher.pkl").unlink()
        if case == "others may write":
            (folder / "teacher.pkl").chmod(0o666)
        if case == "changed":  # between opening the home and training
            spec = open_home(folder).teacher
            assert isinstance(spec, PickledSpec)
            (folder / "teacher.pkl").write_bytes(b"other")
            with pytest.raises(Refused, match="is not the file whose SHA-256"):
                own_teachers(spec, rows_of())
            return
        with pytest.raises(ConsiliumError) as caught:
            node_at(folder)
        assert caught.value.exit_code == 2

    @pytest.mark.parametrize("content", [b"\x80\x04garbage"])
    def test_a_file_that_is_no_estimator(self, tmp_path: Path, content: bytes) -> None:
        folder = home_with(tmp_path, {"model": "pickled"})
        (folder / "teacher.pkl").write_bytes(content)
        (folder / "teacher.pkl").chmod(0o600)
        spec = open_home(folder).teacher
        with pytest.raises(Refused, match=r"teacher.pkl cannot be read as an estimator"):
            check_teacher(spec, SCHEMA)  # pyright: ignore[reportArgumentType]


class TestMissing:
    """Values that a party lacks, for an estimator that knows what to do with them."""

    CSV = "age,pressure,drowsy,label\n" + "50,,0,well\n70,150,1,ill\n,140,0,well\n80,160,,ill\n" * 20

    def seen(self, tmp_path: Path, teacher: dict[str, Any]) -> Any:
        folder = make_home(tmp_path / "home", "p")
        (folder / "data.csv").write_text(self.CSV)
        with_teacher(folder, teacher, data="data.csv", missing={"rule": "mean"})
        party = node_at(folder)
        join(party)
        (teacher_,) = party.teachers(HASH).teachers
        assert party.vote(vote(make_rows(300, 6)[0])).choices.shape == (300, 1)
        return teacher_

    @pytest.mark.parametrize(("keep", "missing"), [({"missing": "mean"}, 0), ({"missing": "keep"}, 60)])
    def test_nan_or_the_mean(self, tmp_path: Path, keep: dict[str, str], missing: int) -> None:
        teacher = self.seen(tmp_path, {"model": "estimator", "factory": "tests.strangers:SeesMissing", **keep})
        assert teacher.trained.estimator.missing_ == missing

    def test_an_estimator_that_takes_no_nan_is_refused_before_any_private_row(self) -> None:
        spec = EstimatorSpec(factory="sklearn.linear_model.LogisticRegression", missing="keep")
        with pytest.raises(Refused, match="Input X contains NaN"):
            check_teacher(spec, SCHEMA)

    def test_not_with_a_representation(self) -> None:
        schema = Schema.of_images(tuple(f"p{index}" for index in range(784)), ("a", "b"), "scattering")
        with pytest.raises(Refused, match="exclude each other"):
            check_teacher(EstimatorSpec(factory="lightgbm.LGBMClassifier", missing="keep"), schema)
