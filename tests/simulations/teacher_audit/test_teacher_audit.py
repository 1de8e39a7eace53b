"""The audit of teachers and mechanism together: it catches the old sharding, and lets the new one pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import tomli_w
from typer.testing import CliRunner

from consilium import cli
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.distinguish import GameSetup, audit_mechanism, pair
from consilium.coordinator.mechanisms import Confident, GNMax
from consilium.data import private_rows
from consilium.party import teach
from consilium.party.home import PartyFile, open_home
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.noise import SeededNoise
from consilium.protocol.teachers import RidgeSpec
from consilium.protocol.voting_rule import RelativeRule
from consilium.simulations.audit_teachers import (
    AuditEffort,
    Change,
    TeacherAudit,
    audit_teachers,
    neighbours,
    observed_pair,
    open_rows,
)
from tests.federation import CLASSES, FEATURES, make_config, make_home, make_relative, make_rows
from tests.party.teachers.positions import divided_by_position
from tests.specs import teacher_of

TEACHERS = 6
BY_CLASS_SHARES = RelativeRule(class_shares=True, reference=40)
QUERIES = make_rows(200, 3)[0]


Make = Callable[..., FederationConfig]


def config(make: Make = make_config, **changes: Any) -> FederationConfig:
    values = {"teacher": RidgeSpec(), "mechanism": GNMax(sigma=2.0), "teachers_per_party": TEACHERS}
    return make(**{**values, **changes})


def rewrite(folder: Path, **tables: Any) -> Path:
    kept = load(folder / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
    (folder / "party.toml").write_text(tomli_w.dumps({**kept, **tables}))
    return folder


def patients_of(count: int) -> list[str]:
    return [f"patient {row // 5}" for row in range(count)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home with 90 rows of 18 patients, in an .npz."""
    home = rewrite(make_home(tmp_path / "home", "p", rows=90), patient={"column": "patient"})
    with np.load(home / "data.npz") as file:
        arrays = dict(file)
    np.savez(home / "data.npz", **arrays, patient=np.array(patients_of(90)))
    return home


def audited(
    folder: Path, relation: Neighbouring, unit: Unit = Unit.RECORD, make: Make = make_config, **changes: Any
) -> TeacherAudit:
    plan = AuditEffort(unit=unit, neighbouring=relation, changes=30, queries=60, runs=2000, seed=4)
    return audit_teachers(open_home(folder), config(make, **changes), QUERIES, plan, SeededNoise(4))


@pytest.mark.parametrize("relation", list(Neighbouring))
@pytest.mark.parametrize("unit", [Unit.RECORD, Unit.PATIENT])
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("make", [make_config, make_relative])
def test_it_catches_shards_by_position_and_passes_keyed_ones(
    folder: Path, relation: Neighbouring, unit: Unit, old: bool, make: Make
) -> None:
    """Whatever the voting rule. False alarms of the game: at most .001 a case; the number of votes that move is
    exact."""
    with divided_by_position() if old else nullcontext():
        found = audited(folder, relation, unit, make)
    assert found.violated == old
    assert found.claimed == (2 if relation is Neighbouring.REPLACE else 1)
    assert found.game is not None
    if old:
        assert found.most_moved > found.claimed
        assert found.most_teachers == TEACHERS
        assert found.beyond > 10
    else:
        assert 0 < found.most_moved <= found.claimed
        assert found.most_teachers <= found.claimed
        assert found.beyond == 0


@pytest.mark.parametrize(
    "model", ["logistic_regression", "random_forest", pytest.param("mlp", marks=pytest.mark.proofs)]
)
@pytest.mark.parametrize("relation", list(Neighbouring))
def test_one_record_moves_no_more_votes_relative_to_a_teachers_own_scores(
    folder: Path, relation: Neighbouring, model: str
) -> None:
    """A record changes all thresholds of its teacher, and may so change its vote on every query: one vote each."""
    found = audited(folder, relation, Unit.RECORD, make_relative, teacher=teacher_of(model, trees=5, epochs=2))
    assert 0 < found.most_moved <= found.claimed
    assert (found.most_teachers <= found.claimed, found.beyond, found.violated) == (True, 0, False)


def test_thresholds_that_teachers_share_are_caught(folder: Path, monkeypatch) -> None:
    """The mistake: one threshold for all teachers of a party, so that a record of one shard reaches every vote."""
    own = teach.thresholds_of

    def shared(*arguments: Any) -> np.ndarray | None:
        found = own(*arguments)
        return found if found is None else np.repeat(found.mean(axis=0, keepdims=True), len(found), axis=0)

    monkeypatch.setattr(teach, "thresholds_of", shared)
    found = audited(folder, Neighbouring.REPLACE, Unit.RECORD, make_relative)
    assert found.violated
    assert found.most_teachers > found.claimed


@pytest.mark.parametrize("relation", list(Neighbouring))
def test_one_record_moves_no_more_votes_by_the_class_shares_of_its_own_shard(
    folder: Path, relation: Neighbouring
) -> None:
    found = audited(folder, relation, make=make_relative, voting_rule=BY_CLASS_SHARES)
    assert 0 < found.most_moved <= found.claimed
    assert (found.most_teachers <= found.claimed, found.beyond, found.violated) == (True, 0, False)


def test_class_shares_of_a_whole_party_are_caught(tmp_path: Path, monkeypatch) -> None:
    """The mistake: a label of one shard decides the thresholds of all teachers. Of few rows one label decides much."""
    folder = make_home(tmp_path / "home", "p", rows=24)
    assert not audited(folder, Neighbouring.REPLACE, make=make_relative, voting_rule=BY_CLASS_SHARES).violated
    own = teach.class_shares
    whole = lambda rows, parts, schema: own(rows, [np.concatenate(list(parts))] * len(parts), schema)  # noqa: E731
    monkeypatch.setattr(teach, "class_shares", whole)
    found = audited(folder, Neighbouring.REPLACE, make=make_relative, voting_rule=BY_CLASS_SHARES)
    assert found.violated
    assert found.most_teachers > found.claimed


def test_rows_of_a_patient_that_are_divided_one_by_one_are_caught(folder: Path, monkeypatch) -> None:
    """The mistake: whose a row is decides together with where it stands."""
    assert not audited(folder, Neighbouring.ADD_OR_REMOVE, Unit.PATIENT).violated
    of_patients = private_rows.of_patients
    monkeypatch.setattr(private_rows, "of_patients", lambda ids: of_patients([f"{i} {at}" for at, i in enumerate(ids)]))
    found = audited(folder, Neighbouring.ADD_OR_REMOVE, Unit.PATIENT)
    assert found.violated
    assert found.most_teachers > 2


def test_the_game_sees_more_votes_than_are_claimed() -> None:
    """Three votes that move on every query, of which one is claimed: a lower bound above the claimed epsilon."""
    before = np.tile([3, 0], (80, 1))
    change = Change("replace", 3, np.full(80, 3), before, before[:, ::-1].copy())
    mechanism = GNMax(sigma=8.0)
    seen = observed_pair(change, mechanism, 80)
    setup = GameSetup(queries=80, runs=8000, teachers_per_party=3, neighbouring=Neighbouring.ADD_OR_REMOVE, classes=2)
    found = audit_mechanism(mechanism, SeededNoise(1), setup, pairs=[seen])
    assert found.violated
    one = Change("replace", 1, np.ones(80, dtype=np.int64), before, np.tile([2, 1], (80, 1)))
    assert not audit_mechanism(mechanism, SeededNoise(1), setup, pairs=[observed_pair(one, mechanism, 80)]).violated
    with pytest.raises(ConfigError, match="moves 3 votes, but a unit moves at most 1"):
        audit_mechanism(mechanism, SeededNoise(1), setup, pairs=[pair("made", [[9, 0]], [[6, 3]])])


def test_the_observed_votes_are_tied_halfway_and_have_one_number_of_voters() -> None:
    before = np.array([[4, 1, 1], [0, 6, 0], [2, 2, 2], [1, 2, 3]])
    after = np.array([[1, 4, 1], [1, 5, 0], [2, 2, 2], [3, 2, 1]])
    moved = np.abs(after - before).sum(axis=1) // 2
    found = observed_pair(
        Change("replace", 3, moved, before, after), Confident(threshold=9, sigma1=2.0, sigma2=1.0), 10
    )
    assert len(found.d) == 3  # the most moved first, and not those on which none moved
    assert found.moved() == 3
    assert len(np.unique(found.d.sum(axis=1))) == 1
    difference = found.d_prime - found.d
    at, loses, gains = np.arange(3), difference.argmin(axis=1), difference.argmax(axis=1)
    for votes, sign in ((found.d, 1), (found.d_prime, -1)):
        lead = sign * (votes[at, loses] - votes[at, gains])
        assert ((lead >= 0) & (lead <= 2 * 3)).all()
        assert (np.sort(votes, axis=1)[:, 0] < 10).all()
        assert (votes.max(axis=1) > 9 + 6 * 2).all()


def files(folder: Path, kind: str) -> Path:
    x, y = make_rows(30, 1)
    table = {name: x[:, index].astype(float) for index, name in enumerate(FEATURES)}
    frame = pl.DataFrame({**table, "label": [CLASSES[label] for label in y], "patient": patients_of(30)})
    path = folder / f"data.{kind}"
    if kind == "csv":
        frame.write_csv(path)
    elif kind == "parquet":
        frame.write_parquet(path)
    else:
        np.savez(
            path, x=x, y=y, features=np.array(FEATURES), classes=np.array(CLASSES), patient=np.array(patients_of(30))
        )
    return path


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_every_format_is_rewritten_row_by_row(tmp_path: Path, kind: str) -> None:
    home = rewrite(make_home(tmp_path / "home", "p", rows=30), data=f"data.{kind}", patient={"column": "patient"})
    path, rules = files(home, kind), open_home(home).rules
    rows = open_rows(path, rules)
    assert rows.count == 30
    assert rows.patients == patients_of(30)
    rows.write(tmp_path / f"some.{kind}", [7, 3, 3])
    some = open_rows(tmp_path / f"some.{kind}", rules)
    assert some.patients == ["patient 1", "patient 0", "patient 0"]
    found = audited(home, Neighbouring.REPLACE, Unit.PATIENT)
    assert not found.violated
    assert found.units == 6
    assert sorted(item.name for item in home.iterdir()) == sorted({"party.toml", "data.npz", f"data.{kind}"})


def test_neighbours_differ_in_one_unit() -> None:
    units = [[0, 1], [2], [3, 4, 5], [6], [7], [8, 9]] * 3
    units = [[20 * copy + row for row in unit] for copy in range(3) for unit in units[:6]]
    generator = np.random.default_rng(0)
    for relation in Neighbouring:
        base, changed = neighbours(units, relation, 40, generator)
        kinds = []
        for each in changed:
            lost, gained = set(base) - set(each.order), set(each.order) - set(base)
            assert (sorted(lost) in units) == (each.kind != "add") or not lost
            assert (sorted(gained) in units) == (each.kind != "remove") or not gained
            assert bool(lost) == (each.kind != "add")
            assert bool(gained) == (each.kind != "remove")
            kinds.append(each.kind)
        assert set(kinds) == ({"replace"} if relation is Neighbouring.REPLACE else {"add", "remove"})


def test_what_an_audit_refuses(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not depend on how its rows are divided"):
        AuditEffort(unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE)
    with pytest.raises(ConfigError, match="changes is 0"):
        AuditEffort(unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, changes=0)
    plain = make_home(tmp_path / "plain", "p")
    with pytest.raises(ConfigError, match="does not say which rows are of one patient"):
        audited(plain, Neighbouring.REPLACE, Unit.PATIENT)
    (plain / "data.npz").write_bytes(b"none")
    with pytest.raises(DataError, match="cannot be read"):
        audited(plain, Neighbouring.REPLACE)


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "federation.json"
    path.write_text(config().model_dump_json())
    yield path


@pytest.mark.parametrize("old", [False, True])
def test_the_command_exits_1_for_a_violation(folder: Path, federation: Path, old: bool) -> None:
    arguments = ["audit", "teachers", str(folder), str(federation), "--unit", "record", "--changes", "30"]
    arguments += ["--neighbouring", "add_or_remove", "--runs", "400", "--seed", "2"]
    with divided_by_position() if old else nullcontext():
        result = CliRunner().invoke(cli.app, [*arguments, "--format", "json"])
        text = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == text.exit_code == int(old)
    table = json.loads(result.stdout)
    assert table["violated"] == old
    assert table["votes_moved_claimed"] == 1
    assert ("VIOLATED: one changed record moved" in text.output) == old
    assert ("Holds up: no changed record of 30 moved more than" in text.output) != old


def test_the_command_says_what_it_needs(folder: Path, federation: Path) -> None:
    for arguments, told in (
        ([str(folder)], "needs the federation's file"),
        ([str(folder), str(federation), "--set", "a=1"], "belong to a scenario"),
        (["stroke", str(federation)], "so it is no party's home"),
        ([str(folder), str(federation)], "a party's promise does not depend"),
    ):
        error = CliRunner().invoke(cli.app, ["audit", "teachers", *arguments]).exception
        assert isinstance(error, ConfigError)
        assert told in str(error)


def test_a_party_of_a_scenario(tmp_path: Path) -> None:
    arguments = [
        "audit",
        "teachers",
        "stroke",
        "--set",
        "federation.teacher.model=ridge",
        "--unit",
        "record",
        "--changes",
        "4",
    ]
    result = CliRunner().invoke(
        cli.app, [*arguments, "--teachers", "3", "--runs", "400", "--seed", "1", "--format", "json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["teachers_per_party"] == 3
