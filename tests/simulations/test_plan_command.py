"""`consilium plan`, and runs and kits of files that leave their mechanism open."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from consilium.accounting.units import Unit
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.planning import plan, rehearsal
from consilium.coordinator.provision import kits
from consilium.coordinator.provision import plan as planned
from consilium.protocol.config_files import load
from consilium.protocol.errors import DataError, NotEnoughParties, PathError
from consilium.protocol.schema import Schema
from consilium.simulations import plan_subject as labelled
from consilium.simulations import plan_subject as subject
from consilium.simulations import scenario
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import federation_config, make_case
from consilium.simulations.plan_subject import read_labelled
from consilium.simulations.scenario import load_scenario
from tests.command_line import consilium
from tests.simulations.methods.cases import run_alone
from tests.simulations.test_one_federation import FEW, write_deployment

OPEN = FEW.replace('[federation.mechanism]\nname = "confident"\nthreshold = 4\n', "").replace(
    "[federation.query_budget]\nqueries = 30\nanswers = 20\n", ""
)
"""The small scenario with nothing but an epsilon."""
UNSAID = OPEN.replace('[student.trainer]\nname = "logistic_regression"\nC = 0.002\n', "")
"""The same, without a trainer."""


pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def few_draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer made-up tasks, 6 or as many as a test asks for: what is planned is another test's."""
    few = partial(rehearsal.made_up, draws=getattr(request, "param", 6))
    for module in (scenario, planned, subject):
        monkeypatch.setattr(module, "made_up", few)
    for function in (scenario.planned_scenario, planned.planned_table, planned.read_planned, plan.plan, plan.look_at):
        defaults = tuple(few if each is rehearsal.made_up else each for each in function.__defaults__ or ())
        monkeypatch.setattr(function, "__defaults__", defaults)


def written(folder: Path, text: str = OPEN) -> Path:
    path = folder / "few.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("limit", ["", "[federation.query_budget]\nqueries = 20"])
def test_a_plan_for_rows_that_stand_twice_uses_up_its_promise(tmp_path: Path, limit: str) -> None:
    """Half of the pool's rows are copies of the other half: a query that is never asked would be noise for nothing."""
    x, owner = np.random.default_rng(3).standard_normal((1200, 4)), np.repeat([f"h{at:02}" for at in range(40)], 30)
    x[1::2] = x[::2]
    np.savez(tmp_path / "rows.npz", x=x, y=np.where(x[:, 0] > 0, "ill", "well"), owner=owner)
    (tmp_path / "twice.toml").write_text(f"""
        [data]
        set = "npz"
        path = "rows.npz"
        partition = "owners"
        [federation]
        name = "rows that stand twice"
        collection = "plaintext"
        minimum_parties = 2
        [federation.teacher]
        model = "logistic_regression"
        [federation.privacy]
        unit = "party"
        delta = 1e-5
        epsilon = 4.0
        {limit}
        [simulation]
        hand_labels = "none"
    """)
    known = load_scenario(str(tmp_path / "twice.toml"))
    (tmp_path / "run").mkdir()
    run_alone(make_case(known, 0, 0.0), tmp_path / "run")
    closed = json.loads((tmp_path / "run" / "coordinator.json").read_text())
    assert closed["asked"] == known.federation.query_budget.queries
    promised, spent = (closed["privacy"][name]["epsilon"] for name in ("guarantee", "spent"))
    assert 3.9 < spent <= promised <= 4.0


@pytest.mark.proofs
def test_an_open_scenario_is_planned_and_written_out_as_one_that_is_not(tmp_path: Path) -> None:
    path, out = written(tmp_path, UNSAID), tmp_path / "planned.toml"
    told = consilium("plan", path, "--out", out, "--format", "json").json()
    assert told["epsilon"] <= 8.0
    open_one, fixed = load_scenario(str(path)), load_scenario(str(out))
    assert open_one == fixed
    assert open_one.federation.federation_digest() == told["federation_digest"]
    assert open_one.student.trainer.name == told["trainer"]["name"]
    assert "auto" not in out.read_text()


def test_the_trainer_that_a_scenario_names_stays(tmp_path: Path) -> None:
    assert load_scenario(str(written(tmp_path))).student.trainer.C == 0.002


@pytest.mark.parametrize("votes", ["plaintext", pytest.param("secure", marks=pytest.mark.proofs)])
def test_what_is_planned_once_is_one_federation_simulated_and_deployed(tmp_path: Path, votes: str) -> None:
    path = written(tmp_path, OPEN.replace('"plaintext"', f'"{votes}"'))
    consilium("plan", path, "--out", tmp_path / "fixed.toml")
    fixed = load_scenario(str(tmp_path / "fixed.toml"))
    simulated = federation_config(fixed, *scenario.divided_data(fixed, 0), 0)
    made = kits.make(write_deployment(tmp_path, "fixed.toml"), tmp_path / "kits")
    deployed = load(tmp_path / "kits" / "coordinator" / "federation.json", FederationConfig)
    assert made.planned is None
    assert len({each.federation_digest() for each in (fixed.federation, simulated, deployed)}) == 1


def test_kits_of_an_open_file_are_planned_on_its_own_rows(tmp_path: Path) -> None:
    written(tmp_path)
    made = kits.make(write_deployment(tmp_path, "few.toml", rows={"public": "public.csv"}), tmp_path / "kits")
    assert made.planned is not None
    assert made.promised is not None
    assert made.promised.epsilon <= 8.0
    deployed = load(tmp_path / "kits" / "coordinator" / "federation.json", FederationConfig)
    assert deployed.federation_digest() == made.planned.federation.federation_digest() == made.federation_digest
    assert made.planned.facts.parties == 3


def test_an_open_file_without_public_rows_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    rows = {"features": ["a", "b"], "center": [0.0, 0.0], "scale": [1.0, 1.0]}
    done = consilium("plan", write_deployment(tmp_path, "few.toml", rows=rows))
    assert done.exit_code == 2
    assert "names none" in done.stderr


def test_a_provisioning_file_is_planned_by_the_command_too(tmp_path: Path) -> None:
    written(tmp_path)
    path = write_deployment(tmp_path, "few.toml", rows={"public": "public.csv"})
    told = consilium("plan", path, "--epsilon", 4, "--format", "json").json()
    assert told["facts"]["parties"] == 3
    assert 3.5 < told["epsilon"] <= 4.0


def test_what_the_plan_prints_is_what_it_adds(tmp_path: Path) -> None:
    """The file names its own trainer, which stays: the plan's is not printed as if it were written."""
    lines = consilium("plan", written(tmp_path)).stdout.partition("what the plan adds")[2]
    assert "[federation.mechanism]" in lines
    assert "trainer" not in lines
    path = tmp_path / "unsaid.toml"
    path.write_text(UNSAID)
    assert "[student.trainer]" in consilium("plan", path).stdout.partition("what the plan adds")[2]


@pytest.mark.proofs
@pytest.mark.parametrize("few_draws", [60], indirect=True)
def test_the_warning_is_exit_code_0_and_with_strict_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    of_file = subject.subject_of(path, [], 0, 0.02)
    made = of_file.planned(None, 50)
    monkeypatch.setattr(type(of_file), "planned", lambda *_: made)  # 60 draws, once for both
    loose, strict = (consilium("plan", path, "--epsilon", 0.02, *more) for more in ((), ("--strict",)))
    assert (loose.exit_code, strict.exit_code) == (0, 1)
    assert loose.stdout == strict.stdout
    assert "the noise is larger than any vote" in loose.stdout


def test_a_federation_with_its_own_mechanism_is_forecast(tmp_path: Path) -> None:
    told = consilium("plan", written(tmp_path, FEW), "--format", "json").json()
    assert (told["mechanism"]["name"], told["query_budget"]["queries"], told["runner_up"]) == ("confident", 30, None)


def test_auto_by_set_drops_the_former_mechanism(tmp_path: Path) -> None:
    path = written(tmp_path, FEW)
    loaded = load_scenario(str(path), ["federation.mechanism.name=auto"])
    assert loaded.federation.query_budget.queries <= 30


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--epsilon", "0"), "--epsilon is 0.0"),
        (("--epsilon", "inf"), "--epsilon is inf"),
        (("--labelled", "absent.npz"), "cannot read absent.npz"),
        (("--set", "federation.minimum_partys=3"), "minimum_partys"),
        (("--set", "federation.privacy.unit=planet"), "planet"),
    ],
)
def test_wrong_input_is_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = consilium("plan", written(tmp_path), *arguments)
    assert done.exit_code not in (0, 1)
    assert said in done.stderr
    assert "Traceback" not in done.output


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path)
    done = consilium("plan", path, "--out", path)
    assert "already there" in done.stderr
    assert path.read_text() == OPEN


def test_too_few_parties_are_an_error_before_any_plan(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughParties):
        load_scenario(str(written(tmp_path)), ["federation.minimum_parties=5000"])


def test_a_plan_knows_nothing_of_private_rows_and_of_no_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every private value is scrambled, and the labels of public rows too: the plan is the same to the last digit."""
    path = str(written(tmp_path))
    before = load_scenario(path)

    def scrambled() -> Dataset:
        dataset, partition = scenario.divided_data(before, 0)
        public = np.concatenate([partition.queries, partition.test, partition.too_near])
        private = np.setdiff1d(np.arange(len(dataset.y)), public)
        x, y = dataset.x.copy(), dataset.y.copy()
        x[private] = np.random.default_rng(0).permutation(x[private].ravel()).reshape(x[private].shape)
        y[public] = np.random.default_rng(1).permutation(y[public])
        return replace(dataset, x=x, y=y)

    data = scrambled()
    monkeypatch.setattr(scenario, "open_source", lambda spec: data)
    assert load_scenario(path) == before


SCHEMA = Schema(features=("a", "b"), classes=("no", "yes"), center=(0.0, 0.0), scale=(1.0, 1.0))


def labelled_file(folder: Path, **changes: object) -> Path:
    generator = np.random.default_rng(3)
    x = generator.standard_normal((60, 2))
    arrays = {"features": np.array(["b", "a"]), "x": x, "y": (x[:, 1] > 0).astype(int), **changes}
    path = folder / "labelled.npz"
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})  # type: ignore[arg-type]
    return path


def test_labelled_rows_come_in_the_schemas_order(tmp_path: Path) -> None:
    found = read_labelled(labelled_file(tmp_path), SCHEMA)
    assert (found.x[:, 0] > 0).astype(int).tolist() == found.y.tolist()
    words = np.array(["no", "yes"])[found.y]
    assert read_labelled(labelled_file(tmp_path, y=words), SCHEMA).y.tolist() == found.y.tolist()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"features": np.array(["b", "c"])}, "has no column 'a'"),
        ({"y": np.array(["maybe"] * 60)}, "'maybe', which is none of"),
        ({"y": np.zeros(60)}, "not of at least two"),
        ({"y": np.full(60, 7)}, "not of at least two"),
        ({"y": np.zeros(59)}, "has shape"),
        ({"x": np.full((60, 2), np.nan)}, "has shape"),
        ({"y": None}, "holds no public rows with labels"),
    ],
)
def test_files_of_labelled_rows_that_are_wrong(tmp_path: Path, changes: dict, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_labelled(labelled_file(tmp_path, **changes), SCHEMA)


def test_a_file_of_labelled_rows_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="cannot read"):
        read_labelled(tmp_path / "absent.npz", SCHEMA)


@pytest.mark.proofs
def test_labelled_rows_make_a_narrower_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled, "POPULATIONS", 3)
    path = written(tmp_path, OPEN.replace("epsilon = 8.0", "epsilon = 60.0"))
    loaded = load_scenario(str(path))
    data, partition = scenario.divided_data(loaded, 0)
    rows = partition.test[:400]
    np.savez(tmp_path / "public.npz", features=np.array(data.features), x=data.x[rows], y=data.y[rows])
    made_up = consilium("plan", path, "--format", "json").json()["forecast"]["student"]
    told = consilium("plan", path, "--labelled", tmp_path / "public.npz", "--rows-per-party", 150, "--format", "json")
    forecast = json.loads(told.stdout)["forecast"]
    assert "400 labelled public rows" in forecast["source"]
    assert forecast["tasks"] == 3 * labelled.REPEATS
    assert forecast["student"]["high"] - forecast["student"]["low"] < made_up["high"] - made_up["low"]


def test_what_votes_cost_stands_in_a_table_and_the_former_flag_says_where(tmp_path: Path) -> None:
    done = consilium("plan", written(tmp_path), "--cost")
    assert done.exit_code == 2
    assert "docs/scale.md" in done.stderr


@pytest.mark.proofs
def test_every_unit_is_planned_and_said_what_it_protects(tmp_path: Path) -> None:
    text = consilium("plan", written(tmp_path), "--units").stdout
    assert text.count("student's AUC") == 3
    places = [
        text.index(f"{unit.value:10} protects {unit.protects}") for unit in (Unit.PARTY, Unit.PATIENT, Unit.RECORD)
    ]
    assert places == sorted(places)


def test_a_unit_without_a_plan_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = subject.subject_of(str(written(tmp_path)), [], 0, None).planned(None, 0)

    def planned_or_refused(of: subject.PlanSubject, *_: object) -> plan.PlannedFederation:
        if of.table["privacy"]["unit"] == "record":
            raise NotEnoughParties("no party is there", "Find some")
        return once

    monkeypatch.setattr(subject.PlanSubject, "planned", planned_or_refused)
    found = consilium("plan", written(tmp_path), "--units", "--format", "json").json()["units"]
    assert [each["unit"] for each in found] == ["party", "patient", "record"]
    assert all(each["protects"] == Unit(each["unit"]).protects for each in found)
    assert found[0]["forecast"] == once.forecast.to_json() and found[2]["no_plan"] == "no party is there"


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [(FEW, [], 2), (OPEN, ["--labelled", "rows.npz"], 2), (OPEN, ["--out", "new.toml"], 2)],
    ids=["noise for one unit", "labelled", "out"],
)
def test_what_cannot_be_compared_over_units(tmp_path: Path, text: str, options: list[str], code: int) -> None:
    done = consilium("plan", written(tmp_path, text), "--units", *options)
    assert done.exit_code == code and "Traceback" not in done.stderr
    assert ("--epsilon" if text == FEW else "--units") in done.stderr
