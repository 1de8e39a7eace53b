"""Sentences say what the numbers say: planted truths are found, and what is not there is not claimed."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from consilium.simulations.study.summaries.inference import LEAST, rank_correlation
from consilium.simulations.study.summaries.sentences import findings, goes_with, party_gains, set_axis
from consilium.simulations.study.summaries.tidy import lead, methods_of, ordered, private_methods
from consilium.simulations.study.summaries.view import study_view
from tests.simulations.study.made_up import METHODS, MadeUp, figures

SETS = {name: index * 0.01 for index, name in enumerate("abcdefgh")}


def sentence(told: list[str], start: str) -> str:
    """The only one that begins so."""
    (found,) = [each for each in told if each.startswith(start)]
    return found


def test_of_one_seed_nothing_is_said_to_be_tested() -> None:
    told = findings(MadeUp(seeds=(0,)).frame(), {"division": ["natural", "iid", "matched", "country"]})
    assert sentence(told, "The student against noisy average (AUC): not tested; ")
    assert not any("not significant" in each for each in told)


def test_a_study_of_divisions_ends_in_at_least_five_sentences_with_negative_ones() -> None:
    told = findings(MadeUp().frame(), {"division": ["natural", "iid", "matched", "country"]})
    assert len(told) >= 5
    for rival in ("one party alone", "pooled", "plurality", "FedAvg rounds=20"):
        gap = sentence(
            told, f"The student less {rival} (AUC; not like with like, not tested: the guarantees differ): from "
        )
        assert "significant" not in gap and "in the mean" not in gap
    assert "not significant at" in sentence(told, "The student against noisy average (AUC): better at")
    assert "nothing is claimed of them: noisy average" in sentence(told, "Not significant are")
    cost = sentence(told, "Teachers of single parties and their vote, in place of one model of all rows, cost from ")
    assert cost.endswith("over 4 points (AUC, pooled less plurality).") and cost.count(" to ") == 3
    assert "not at iid (0.130, 0.140)" in sentence(told, "Labels differ between parties by more than chance at 3 of 4")
    assert [each.split(" ")[0] for each in told if "in place of natural" in each] == ["iid", "matched", "country"]
    assert sentence(told, "On their own held-out rows (accuracy)")
    assert not any("nan" in each.lower() or "None" in each for each in told)


def test_it_says_which_kind_of_difference_each_division_has() -> None:
    made = MadeUp(axes={"division": {"natural": -0.02, "iid": 0.03}})
    told = sentence(findings(made.frame(), {"division": ["natural", "iid"]}), "What differs between parties")
    assert told == "What differs between parties beyond chance, in most seeds: natural: quantity, label; iid: quantity."


@pytest.mark.parametrize(
    ("rival", "said"),
    [(0.05, "by AUC, noisy average did best: +0.050 (0.04"), (-0.05, "by AUC, the student did best: +0.050 (0.04")],
)
def test_at_one_point_it_says_who_won_whoever_it_was(rival: float, said: str) -> None:
    values = {
        "pate": [0.7, 0.71, 0.72],
        "noisy_average": [0.7 + rival, 0.711 + rival, 0.719 + rival],
        "local": [0.9] * 3,
    }
    frame = pl.concat([figures(values), figures({"pate": [1.0] * 3}, metric="epsilon")])
    told = sentence(findings(frame), "Of the methods with the guarantee of the student")
    assert said in told and told.endswith(", significant over 3 seeds.")
    assert ("against the student" in told) == (rival > 0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"noisy_average": [0.7], "pate": [0.8]}, "No comparison could be tested: every point has one seed."),
        ({"local": [0.7, 0.8], "pate": [0.8, 0.91]}, "Nothing was tested between methods: none has the guarantee of"),
        (
            {"noisy_average": [0.7, 0.8, 0.75], "pate": [0.75, 0.74, 0.76]},
            "Not significant are 1 of 1 comparison of the student with",
        ),
    ],
)
def test_what_did_not_show_is_said(values: dict[str, list[float]], said: str) -> None:
    frame = pl.concat([figures(values), figures({"pate": [1.0] * len(values["pate"])}, metric="epsilon")])
    assert sentence(findings(frame), said)


@pytest.mark.parametrize(
    "frame",
    [
        figures({"pate": [0.5]}).clear(),
        figures({"division": [0.1, 0.2]}, metric="hellinger_mean"),
        MadeUp(axes={}, seeds=[3], methods={"local": 0.6}).frame(),
    ],
)
def test_little_is_told_of_little(frame: pl.DataFrame) -> None:
    assert all(isinstance(each, str) for each in findings(frame))


def test_losers_are_told_as_measured_with_what_chance_alone_gives() -> None:
    measured = {"worse": 34.0, "parties": 207.0, "worst_decile": -0.2, "worst_decile_floor": -0.15}
    parts = [figures({"pate": [value, value]}, metric=f"gain_accuracy_{name}") for name, value in measured.items()]
    frame = pl.concat(
        [figures({"local": [0.7, 0.71], "pate": [0.75, 0.76]}), figures({"pate": [1.0, 1.0]}, metric="epsilon"), *parts]
    )
    told = sentence(
        findings(frame), "On their own held-out rows (accuracy) 34 of 207 parties do worse by the student than alone"
    )
    assert "changes by −0.200 in the mean (by chance alone −0.150)" in told


@pytest.mark.parametrize(
    ("spent", "said"), [(0.4, "at the votes at hand it is 0.400 (40% of the promise)"), (1.0, "The votes save nothing")]
)
def test_what_the_votes_save_is_told(spent: float, said: str) -> None:
    costs = {"epsilon": 1.0, "epsilon_data_dependent": spent}
    parts = [figures({"pate": [value, value]}, metric=metric) for metric, value in costs.items()]
    assert sum(said in each for each in findings(pl.concat([figures({"pate": [0.7, 0.71]}), *parts]))) == 1


@pytest.mark.parametrize("pairs", [LEAST, 40])
def test_rank_correlations_are_scipys(pairs: int) -> None:
    generator = np.random.default_rng(pairs)
    x = generator.integers(0, 8, pairs).astype(float)
    y = x + generator.normal(0, 4, pairs)
    found = rank_correlation(x, y)
    assert found is not None and found.pairs == pairs
    assert found.value == pytest.approx(np.asarray(stats.spearmanr(x, y))[0])
    assert -1 <= found.low < found.value < found.high <= 1


def test_rank_intervals_cover_the_truth() -> None:
    """Of 600 samples of 30 normal pairs with Pearson's .5: 95% within 3.6 points (four standard errors)."""
    generator, truth = np.random.default_rng(5), 6 / np.pi * np.arcsin(0.25)
    covered = []
    for _ in range(600):
        x, noise = generator.normal(0, 1, (2, 30))
        found = rank_correlation(x, 0.5 * x + np.sqrt(0.75) * noise)
        covered.append(found is not None and found.low <= truth <= found.high)
    assert 0.914 < np.mean(covered) < 0.986


@pytest.mark.parametrize(("x", "y"), [([1.0] * 6, range(6)), (range(4), range(4))])
def test_what_does_not_vary_or_is_too_few_has_no_correlation(x: list[float], y: list[float]) -> None:
    assert rank_correlation(np.array(x, dtype=float), np.array(y, dtype=float)) is None


def test_properties_are_found_that_go_with_success() -> None:
    frame = MadeUp(axes={"set": SETS}, seeds=[0, 1], parties=3, sets="set").frame()
    frame = frame.with_columns(pl.col("method").replace({"pate": "pate, non-iid"}))  # as somebody may call it
    found = {(each.property, each.against): each for each in goes_with(frame, "set", "auc", list(SETS))}
    assert {each.method for each in found.values()} == {"pate, non-iid"}
    assert found["effective_parties", None].value > 0.9 and found["hellinger_mean", None].value < -0.9
    assert ("parties", None) not in found  # the same everywhere
    assert ("hellinger_mean", "pooled") in found
    assert any(
        "less student, non-iid" in sentence or "AUC of student, non-iid" in sentence for sentence in findings(frame)
    )


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (list("abcdefgh"), ("point", list("abcdefgh"))),
        (list("aabcdeff"), ("point", list("acdefg"))),  # two divisions of a, two of f: the first of each
        (["stroke"] * 8, None),  # eight divisions of one table
        (list("aabbccdd"), None),  # four data sets
    ],
    ids=str,
)
def test_data_sets_are_told_apart_by_what_they_are(
    sets: list[str | None], expected: tuple[str, list[str]] | None
) -> None:
    """Whatever points are called, and however many there are."""
    points = list("abcdefgh")
    named = dict(zip(points, sets, strict=True))
    parts = [figures({"pate": [0.7]}, axes={"point": point, "epsilon": "1"}) for point in points]
    frame = pl.concat(parts).with_columns(data_set=pl.col("point").replace_strict(named, return_dtype=pl.String))
    assert set_axis(frame, {"epsilon": ["1"], "point": points}) == expected


@pytest.mark.parametrize(("metric", "sign"), [("accuracy", 1), ("brier", -1)])
def test_gains_are_positive_where_the_method_is_better(metric: str, sign: int) -> None:
    parts = []
    for party, (alone, method) in {"a": (0.5, 0.7), "b": (0.6, 0.5)}.items():
        rows = figures({"local": [alone, alone], "pate": [method, method + 0.1], "fedavg": [1.0]}, metric=metric)
        parts.append(rows.with_columns(scope=pl.lit("party"), name=pl.lit(party)))
    sizes = figures({"division": [40.0, 60.0]}, metric="rows").with_columns(scope=pl.lit("party"), name=pl.lit("a"))
    found = party_gains(pl.concat([*parts, sizes]), "pate", metric)
    assert found["party"].to_list() == ["a", "b"]
    assert found["gain"].to_list() == pytest.approx([sign * 0.25, sign * -0.05])
    assert found["rows"].to_list() == [50.0, None] and found["seeds"].to_list() == [2, 2]


def test_the_view_knows_what_is_private_and_what_leads() -> None:
    frame = MadeUp(parties=2, seeds=[0]).frame()
    view = study_view(frame, {"division": ["iid"]})
    assert view.methods == tuple(methods_of(frame)) and set(view.methods) == set(METHODS)
    assert view.private == tuple(private_methods(frame)) == ("pate",)
    assert (view.metric, view.reference) == (lead(frame), "pate") == ("auc", "pate")
    assert view.order["division"] == ["iid", "natural", "country", "matched"]
    assert ordered(["0.5", "1e-3", "10"]) == ["1e-3", "0.5", "10"]


def test_axes_along_which_nothing_changes_are_known() -> None:
    frame = pl.concat(
        [
            figures(
                {"division": [0.1 if kind == "iid" else 0.2]}, metric="gini", axes={"kind": kind, "epsilon": epsilon}
            )
            for kind in ("iid", "natural")
            for epsilon in ("1", "3")
        ]
    )
    view = study_view(frame, {})
    assert view.distinct("division") == ([("natural", "1"), ("iid", "1")], ("kind",))
