"""How parties differ, how their teachers vote and who gains at home: by hand, by libraries, and beside chance."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap, spearmanr
from sklearn.metrics import cohen_kappa_score

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import Case, make_case
from consilium.simulations.judge import Row
from consilium.simulations.methods.base import Predicted
from consilium.simulations.metrics import shares, wilson
from consilium.simulations.population.partition import deal_by_class
from consilium.simulations.scenario import Scenario
from consilium.simulations.study.measures import between
from consilium.simulations.study.measures.between import OwnerRows
from consilium.simulations.study.measures.figures import (
    DISTANCES,
    gain_rows,
    gini,
    hellinger,
    kappa,
    ratio,
    shares_of,
    teacher_rows,
    winners_flipped,
)
from consilium.simulations.study.measures.shift import WhichShift, division_rows, shift_of, told_apart, which_shift
from consilium.simulations.vote import Ensemble, TeacherVotes, train_ensemble

FEATURES = ("a", "b", "c")


def made_rows(sizes: list[int], classes: int = 2, skew: float = 0.0, far: float = 0.0, seed: int = 0) -> Dataset:
    """Owners with so many rows. skew: from 0 to 1, share of an owner's rows that are of one class, its own. far: by how
    much the features of each owner lie elsewhere."""
    generator = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    own = generator.integers(classes, size=len(sizes))[owner]
    y = np.where(generator.random(len(owner)) < skew, own, generator.integers(classes, size=len(owner)))
    x = generator.normal(size=(len(owner), 3)) + np.eye(3)[y]
    x[:, 2] += far * generator.normal(size=len(sizes))[owner]
    names = tuple(f"class {label}" for label in range(classes))
    return Dataset(
        name="made",
        title="Made up",
        attribution="nobody",
        features=FEATURES,
        classes=names,
        owner_label="site",
        x=x.astype(np.float32),
        y=y,
        owner=owner,
    )


def made_case(rows: Dataset, home_share: float = 0.25, seed: int = 0, **tables: dict[str, Any]) -> Case:
    """Owners with two rows are parties, a fifth is public. tables: keys of [data], [federation], [student]."""
    federation = {
        "name": "made",
        "minimum_parties": 2,
        "collection": "plaintext",
        "mechanism": {"name": "gnmax", "sigma": 2.0},
        "privacy": {"unit": "party", "delta": 1e-5},
        "query_budget": {"queries": 40, "answers": 40},
        **tables.get("federation", {}),
    }
    scenario = Scenario.model_validate(
        {
            "data": {"set": "memory", "public_share": 0.25, "least_rows": 2, **tables.get("data", {})},
            "federation": federation,
            "student": tables.get("student", {}),
        }
    )
    return make_case(scenario, seed, home_share, rows)


def taught(rows: Dataset, **named: Any) -> tuple[Case, Ensemble]:
    """A case and its teachers."""
    case = made_case(rows, **named)
    return case, train_ensemble(case)


SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6]
LABELS = ("hellinger", "js")


def figures(rows: list[Row], scope: str = "run") -> dict[tuple[str, str], Row]:
    return {(row.name, row.metric): row for row in rows if row.scope == scope}


def run(rows: list[Row]) -> dict[str, float]:
    return {metric: row.value for (_, metric), row in figures(rows).items()}


def test_sizes_classes_and_distances_by_hand() -> None:
    case = made_case(made_rows(SIZES, 3, skew=0.5))
    rows = division_rows(case)
    mine = [case.dataset.y[case.dataset.owner == int(name.removeprefix("site-"))] for name in case.parties]
    sizes, all_y = sorted(map(len, mine)), np.concatenate(mine)
    found, by_party = run(rows), figures(rows, "party")
    assert (found["parties"], found["rows_median"]) == (len(mine), np.median(sizes))
    assert (found["rows"], found["rows_least"], found["rows_most"]) == (sum(sizes), sizes[0], sizes[-1])
    pooled = shares(np.bincount(all_y, minlength=3))
    each = [float(hellinger(shares(np.bincount(y, minlength=3)), pooled)) for y in mine]
    assert [by_party[name, "hellinger"].value for name in case.parties] == pytest.approx(each)
    assert found["hellinger_mean"] == pytest.approx(np.mean(each))
    assert found["hellinger_p90"] == pytest.approx(np.percentile(each, 90))


def test_labels_by_lot_are_within_the_floor_and_skewed_ones_above() -> None:
    """95 % each, of 20 divisions: fewer than 14 within has probability below 1e-4."""
    within = dict.fromkeys(LABELS, 0)
    for seed in range(20):
        found = figures(division_rows(made_case(made_rows(SIZES, 3, seed=seed), seed=seed)))
        for name in LABELS:
            floor = found["", f"{name}_mean_floor"]
            assert floor.low is not None and floor.high is not None
            within[name] += floor.low <= found["", f"{name}_mean"].value <= floor.high
    assert min(within.values()) >= 14
    found = figures(division_rows(made_case(made_rows([3 * size for size in SIZES], 3, skew=0.6))))
    for name in LABELS:
        high = found["", f"{name}_mean_floor"].high
        assert high is not None and found["", f"{name}_mean"].value > high


def test_shifted_parties_are_told_apart() -> None:
    found = figures(division_rows(made_case(made_rows(SIZES, far=1.0))))
    low = found["", "c2st_auc_mean"].low
    assert low is not None and low > 0.5


@pytest.mark.parametrize(("apart", "low", "high"), [(0.0, 0.42, 0.58), (1.0, 0.7, 0.82), (9.0, 0.999, 1.0)])
def test_a_classifier_tells_shifted_rows(apart: float, low: float, high: float) -> None:
    """A shift by d along one axis has area Phi(d / sqrt 2): .5, .760, 1."""
    generator = np.random.default_rng(0)
    x, own = generator.normal(size=(900, 3)), np.arange(900) < 300
    x[own, 0] += apart
    assert low <= told_apart(x, own, np.arange(900), generator) <= high


def test_rows_of_one_patient_do_not_give_it_away() -> None:
    """30 patients with 30 equal rows each: with each patient in one fold there is nothing to tell."""
    generator = np.random.default_rng(0)
    x = np.repeat(generator.normal(size=(30, 40)), 30, axis=0)
    own, patient = np.arange(900) < 300, np.repeat(np.arange(30), 30)
    assert told_apart(x, own, np.arange(900), generator) > 0.9
    assert told_apart(x, own, patient, generator) < 0.75


@pytest.mark.parametrize("values", [[0, 0], [2, 2, 2], [0, 0, 7], [3, 1, 4, 1, 5]])
def test_gini_is_the_sum_over_all_pairs(values: list[int]) -> None:
    sizes = np.array(values)
    differences = np.abs(sizes[:, None] - sizes[None, :]).sum()
    assert gini(sizes) == pytest.approx(differences / max(2 * (len(sizes) - 1) * sizes.sum(), 1))


COUNTS = st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any)


@pytest.mark.parametrize("name", DISTANCES)
@given(first=COUNTS, second=COUNTS)
def test_a_distance(name: str, first: list[int], second: list[int]) -> None:
    distance, p, q = DISTANCES[name], shares(np.array(first)), shares(np.array(second))
    assert float(distance(p, p)) == 0.0
    assert float(distance(p, q)) == pytest.approx(float(distance(q, p)), abs=1e-12)
    assert 0 <= float(distance(p, q)) <= 1 + 1e-12


def test_a_ratio_is_scipys_bootstrap_of_it() -> None:
    generator = np.random.default_rng(0)
    points, of = generator.normal(1, 1, 40), generator.integers(1, 50, 40).astype(float)

    def statistic(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
        return a.sum(axis=axis) / b.sum(axis=axis)

    scipys = bootstrap((points, of), statistic, paired=True, method="percentile", n_resamples=20_000, rng=1)
    value, low, high = ratio(points, of, generator)
    assert value == pytest.approx(points.sum() / of.sum())
    width = scipys.confidence_interval.high - scipys.confidence_interval.low
    assert (low, high) == pytest.approx(tuple(scipys.confidence_interval), abs=0.1 * width)


OWNERS, EACH = 20, 80
Parts = dict[str, Any]


def by_lot(seed: int = 0, owners: int = OWNERS, each: int = EACH) -> Parts:
    """Six columns, two of which tell the label; owners differ in nothing."""
    generator, rows = np.random.default_rng(seed), owners * each
    x = generator.normal(size=(rows, 6))
    x[:, 4] = generator.random(rows) < 0.4
    x[:, 5] = np.exp(x[:, 5])
    y = (generator.random(rows) < 1 / (1 + np.exp(-2 * x[:, 0] - 1.5 * x[:, 1]))).astype(int)
    return {"x": x, "y": y, "owners": np.repeat(np.arange(owners), each)}


def label(parts: Parts, generator: np.random.Generator) -> Parts:
    stays = generator.random(len(parts["y"])) < np.where(parts["y"] == parts["owners"] % 2, 0.9, 0.4)
    return {name: values[stays] for name, values in parts.items()}


def covariate(parts: Parts, generator: np.random.Generator) -> Parts:
    stays = generator.random(len(parts["y"])) < np.where((parts["x"][:, 2] > 0) == parts["owners"] % 2, 0.9, 0.4)
    return {name: values[stays] for name, values in parts.items()}


def concept(parts: Parts, generator: np.random.Generator) -> Parts:
    return parts | {"y": np.where(parts["owners"] < 6, 1 - parts["y"], parts["y"])}


def coefficient(parts: Parts, generator: np.random.Generator) -> Parts:
    """One feature means the opposite at some owners."""
    x = parts["x"]
    along = 2 * x[:, 0] + np.where(parts["owners"] < 8, -1.5, 1.5) * x[:, 1]
    return parts | {"y": (generator.random(len(x)) < 1 / (1 + np.exp(-along))).astype(int)}


def quantity(parts: Parts, generator: np.random.Generator) -> Parts:
    stays = generator.random(len(parts["y"])) < (1 + parts["owners"]) / OWNERS
    return {name: values[stays] for name, values in parts.items()}


PLANTED = {
    label: "label", covariate: "covariate", concept: "concept", coefficient: "concept", quantity: "quantity",
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_one_kind_is_named_and_no_other(plant: Any) -> None:
    """With other seeds another kind is named besides in one case of forty, as `ERROR` says."""
    found = which_shift(**plant(by_lot(), np.random.default_rng(1)))
    assert found.named == (PLANTED[plant],)
    part = next(part for part in found.parts if part.named)
    assert part.strength > part.floor and part.low <= part.strength <= part.high
    parts = by_lot()
    parts["x"][parts["owners"] < 5, 3] = np.nan  # a column that some owners have no value of is none that is judged
    assert "concept" not in which_shift(**parts).named


def test_nothing_is_named_where_rows_are_dealt_by_lot() -> None:
    """4 or more of 24 with probability .003 where `ERROR` holds."""
    alarms = [which_shift(**by_lot(seed, 10, 40), seed=seed).named for seed in range(24)]
    assert sum(named != () for named in alarms) <= 3


@pytest.mark.parametrize("pathological", [False, True])
def test_label_skew_is_no_shift_of_features_or_of_what_they_mean(pathological: bool) -> None:
    """Dirichlet .1, and owners of a single class."""
    parts = by_lot(3)
    y, owners = parts["y"], np.empty(OWNERS * EACH, dtype=np.int64)
    if pathological:
        owners[np.argsort(y, kind="stable")] = parts["owners"]
    else:
        for owner, rows in enumerate(deal_by_class(y, OWNERS, 0.1, 0.0, 0)):
            owners[rows] = owner
    found = which_shift(parts["x"], y, owners)
    assert "label" in found.named and not {"covariate", "concept"} & {*found.named}


def test_kinds_that_come_together_are_both_named() -> None:
    generator = np.random.default_rng(1)
    assert {"covariate", "concept"} <= {*which_shift(**concept(covariate(by_lot(), generator), generator)).named}


def test_classes_may_be_many_and_names_anything() -> None:
    parts = by_lot(1)
    names = np.array(["low", "middle", "high"])
    y = names[np.digitize(parts["x"][:, 0] + parts["x"][:, 1] + np.random.default_rng(0).normal(size=1600), [-1, 1])]
    owners = np.array([f"site {owner}" for owner in parts["owners"]])
    assert which_shift(parts["x"], y, owners).named == ()
    swapped = np.where(parts["owners"] < 6, np.where(y == "low", "high", np.where(y == "high", "low", y)), y)
    assert which_shift(parts["x"], swapped, owners).named == ("concept",)
    assert which_shift(parts["x"], np.full(1600, "all"), owners).named == ()


def test_rows_of_one_patient_count_once() -> None:
    parts = by_lot(0, 10, 20)
    again = np.repeat(np.arange(200), 10)
    many = {name: values[again] for name, values in parts.items()}
    assert which_shift(**many).named != ()
    assert which_shift(**many, unit=again).named == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(3)}, "with 3 labels"),
        ({"owners": np.zeros(800)}, "rows of 1 owner"),
        ({"x": np.full((800, 2), np.inf)}, "infinite"),
    ],
)
def test_what_does_not_fit(change: Parts, message: str) -> None:
    with pytest.raises(DataError, match=message):
        which_shift(**(by_lot(0, 10, 80) | change))


def test_a_study_measures_it_of_all_rows_of_the_parties() -> None:
    case = made_case(made_rows([60] * 12, skew=0.6, seed=1))
    found: WhichShift = shift_of(case)
    assert "label" in found.named and found.rows == 60 * found.owners
    rows = {row.metric: row.value for row in division_rows(case) if row.scope == "run"}
    part = next(part for part in found.parts if part.kind == "label")
    told = [rows[f"shift_label{end}"] for end in ("", "_floor", "_p", "_named")]
    assert told == [part.strength, part.floor, part.p, 1]


def test_of_many_rows_each_owner_gives_as_many_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between, "MOST_ROWS", 100)
    owners = np.repeat(np.arange(4), [90, 10, 3, 60])
    rows = OwnerRows.of(np.arange(163.0)[:, None], np.zeros(163), owners, None, 0)
    assert rows.every.tolist() == [90, 10, 3, 60]
    assert rows.sizes.tolist() == np.bincount(rows.owner).tolist() == [43, 10, 3, 43]
    assert (np.diff(rows.x[:, 0]) > 0).all()


MORE = [*SIZES, 20, 35, 60, 22, 18, 44]


@pytest.mark.parametrize("classes", [2, 3])
def test_votes_row_by_row(classes: int) -> None:
    data = made_rows(MORE[:12], classes, skew=0.4, far=1.0)
    case, ensemble = taught(data, federation={"teachers_per_party": classes - 1})
    rows, y = teacher_rows(case, ensemble), case.pool_y
    found = figures(rows)
    teachers = ensemble.pool.cast.reshape(-1, len(y))
    counts = np.array([[(row == label).sum() for label in range(classes)] for row in teachers.T])
    ordered = np.sort(counts, axis=1)
    gap = ordered[:, -1] - ordered[:, -2]
    assert found["", "consensus"].value == pytest.approx(ordered[:, -1].mean() / len(teachers))
    assert found["", "gap_mean"].value == pytest.approx(gap.mean())
    assert found["", "gap_p10"].value == pytest.approx(np.percentile(gap, 10))
    assert found["", "ambiguity_10"].value == pytest.approx((gap < 0.1 * len(teachers)).mean())
    right = counts.argmax(axis=1) == y
    row = found["", "plurality_right"]
    assert [row.value, row.low, row.high] == pytest.approx([right.mean(), *wilson(right.sum(), len(y))])


def test_neither_mechanism_nor_promise_changes_a_figure() -> None:
    """Under a relative voting rule equal scores are decided by a lot of the federation's digest; teachers of one class
    have nothing but equal scores."""
    rows = made_rows([4] * 8 + [30] * 4, skew=0.9)
    federation = {"voting_rule": {"rule": "relative", "shares": [0.5, 0.5]}}
    case, ensemble = taught(rows, federation=federation)
    mechanism = {"mechanism": {"name": "histogram", "sigma": 9.0}, "query_budget": {"queries": 7, "answers": 7}}
    changed, again = taught(rows, federation=federation | mechanism)
    assert case.config.digest() != changed.config.digest()
    assert teacher_rows(case, ensemble) == teacher_rows(changed, again)
    assert len(ensemble.pool.tied_row) > 0.1 * ensemble.pool.cast.size
    votes, pool = np.zeros((len(case.pool_y), 2)), ensemble.pool
    tied = {(int(party), int(row)) for party, row in zip(pool.tied_party, pool.tied_row, strict=True)}
    for party, row in np.ndindex(*pool.cast.shape[::2]):
        votes[row] += 0.5 if (party, row) in tied else np.eye(2)[pool.cast[party, 0, row]]
    consensus = figures(teacher_rows(case, ensemble))["", "consensus"].value
    assert consensus == pytest.approx(votes.max(axis=1).mean() / len(case.parties))


def drawn(parties: int, teachers: int, rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Votes of teachers that say the truth half of the time, (parties, teachers, rows); and their shares."""
    generator = np.random.default_rng(0)
    shape = (parties, teachers, rows)
    truth = generator.integers(classes, size=rows)
    votes = np.where(generator.random(shape) < 0.5, truth, generator.integers(classes, size=shape))
    return votes, shares_of(TeacherVotes(votes.astype(np.uint8)), classes)


@pytest.mark.parametrize(("parties", "teachers", "classes"), [(7, 1, 2), (4, 3, 5)])
def test_cohens_kappa_is_scikit_learns_in_the_mean_over_pairs(parties: int, teachers: int, classes: int) -> None:
    votes, shares = drawn(parties, teachers, 60, classes)
    pairs = itertools.combinations(votes.reshape(parties * teachers, -1), 2)
    assert kappa(shares) == pytest.approx(np.mean([cohen_kappa_score(*pair) for pair in pairs]))


@pytest.mark.parametrize("classes", [2, 3])
def test_clear_winners_without_each_party_by_hand(classes: int) -> None:
    votes, shares = drawn(6, 1, 80, classes)
    counts = np.array([np.bincount(row, minlength=classes) for row in votes[:, 0].T])
    ones = np.eye(classes, dtype=int)
    without = [(counts - ones[own]).argmax(axis=1) != counts.argmax(axis=1) for own in votes[:, 0]]
    expected = [flipped.sum() for flipped in without]
    assert winners_flipped(shares).tolist() == expected and max(expected) > 0


# -- gains at home ----------------------------------------------------------------------------------------------------


def probabilities(case: Case, right: float, seed: int) -> np.ndarray:
    """Of the rows at home, float64 (home, classes): more of the true class the larger `right`."""
    generator, classes = np.random.default_rng(seed), len(case.classes)
    found = generator.dirichlet(np.ones(classes), size=len(case.home_y)) + right * np.eye(classes)[case.home_y]
    return found / found.sum(axis=1, keepdims=True)


def compared(case: Case, alone: np.ndarray, method: np.ndarray) -> list[Row]:
    return gain_rows(case, {"local": Predicted(home=alone), "mine": Predicted(home=method)})


@pytest.mark.parametrize("classes", [2, 3])
def test_gains_by_hand(classes: int) -> None:
    case = made_case(made_rows(MORE, classes, skew=0.4))
    alone, method = probabilities(case, 0.1, 0), probabilities(case, 0.3, 1)
    rows = compared(case, alone, method)
    found, by_party = figures(rows), figures(rows, "party")
    points = (method.argmax(axis=1) == case.home_y) * 1.0 - (alone.argmax(axis=1) == case.home_y)
    each = {case.parties[at]: points[case.home_party == at].mean() for at in np.unique(case.home_party)}
    assert {name: row.value for (name, _), row in by_party.items()} == pytest.approx(each)
    values = np.array(list(each.values()))
    expected = {
        "": points.mean(), "_parties": len(values), "_better": (values > 0).sum(), "_worse": (values < 0).sum(),
        "_worst_decile": np.sort(values)[:2].mean(),
        "_by_size": spearmanr([len(case.partition.parties[name]) for name in each], values)[0],  # pyright: ignore
    }  # fmt: skip
    assert {end: found["", f"gain_accuracy{end}"].value for end in expected} == pytest.approx(expected, abs=0.02)


def test_small_parties_spread_by_chance_and_a_party_that_loses_stands_out() -> None:
    """Rows that gain alike wherever they are: the worst decile is within its floor in most of 20 draws (nominal .95;
    fewer than 14 has probability below 1e-4). Where one of 18 parties loses it is below."""
    case, within = made_case(made_rows(MORE), home_share=0.5), 0
    for seed in range(20):
        found = figures(compared(case, probabilities(case, 0.1, seed), probabilities(case, 0.3, 100 + seed)))
        floor = found["", "gain_accuracy_worst_decile_floor"]
        assert floor.low is not None and floor.high is not None
        within += floor.low <= found["", "gain_accuracy_worst_decile"].value <= floor.high
    assert within >= 14
    case = made_case(made_rows([60] * 24), home_share=0.5)
    alone, method = probabilities(case, 0.3, 0), probabilities(case, 0.3, 1)
    loses = case.home_party == 5
    alone[loses] = np.eye(2)[case.home_y[loses]]
    method[loses] = 1 - alone[loses]
    found = figures(compared(case, alone, method))
    low = found["", "gain_accuracy_worst_decile_floor"].low
    assert low is not None and found["", "gain_accuracy_worst_decile"].value < low


def test_what_has_nothing_at_home_is_left_out() -> None:
    case = made_case(made_rows(MORE))
    home = probabilities(case, 0.2, 0)
    mine = {"local": Predicted(home=home), "public": Predicted(test=home), "none": Predicted(absent="too few")}
    assert gain_rows(case, mine) == gain_rows(case, {"mine": Predicted(home=home)}) == []
    bare, empty = made_case(made_rows(MORE), home_share=0.0), Predicted(home=np.zeros((0, 2)))
    assert gain_rows(bare, {"local": empty, "mine": empty}) == []
