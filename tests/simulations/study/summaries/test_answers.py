"""In short: sentences say what the numbers say; planted truths are found, and what is not there is not claimed."""

from __future__ import annotations

import polars as pl
import pytest

from consilium.simulations.study.summaries.sentences import answers_of
from consilium.simulations.study.summaries.tidy import lead, methods_of, private_methods
from consilium.simulations.study.summaries.view import study_view
from tests.simulations.study.made_up import DIVISIONS, METHODS, MadeUp, figures

ORDER = {"division": ["natural", "iid", "matched", "country"]}


def answers(frame: pl.DataFrame) -> list[str]:
    return answers_of(study_view(frame, ORDER if "division" in frame.columns else {}))


def sentence(told: list[str], start: str) -> str:
    """The only one that begins so."""
    (found,) = [each for each in told if each.startswith(start)]
    return found


def test_a_study_of_divisions_ends_in_five_sentences() -> None:
    told = answers(MadeUp().frame())
    assert len(told) == 5 and not any("nan" in each.lower() or "None" in each for each in told)
    best = sentence(told, "Of the methods with the guarantee of the student, by AUC, the student did best at ")
    assert best.count("significant are ") == 1 and best.endswith(" of 4 comparisons.")
    cost = sentence(told, "In place of one model of all rows, the student costs from ")
    assert cost.endswith("over 4 points (AUC, pooled less student; not tested).") and cost.count(" to ") == 3
    assert sentence(told, "What differs between parties beyond chance, in most seeds: natural: quantity; iid: quantity")
    assert sentence(told, "The student serves 9 of 24 parties worse than they serve themselves")


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_the_largest_change_is_told_with_both_ends(seeds: int) -> None:
    """Whatever a division is called, also of mechanisms; of fewer than three seeds without interval and test."""
    levels = {"hospitals": 0.906, "country": 0.9, "dirichlet": 0.665}
    values = {name: [level + 0.001 * seed for seed in range(seeds)] for name, level in levels.items()}
    values["dirichlet"][-1] += 0.001 if seeds > 1 else 0.0
    parts = [figures({"pate": each}, axes={"division": name}) for name, each in values.items()]
    parts += [figures({"pate": [1.0] * seeds}, metric="epsilon", axes={"division": name}) for name in values]
    told = sentence(answers_of(study_view(pl.concat(parts), {"division": list(levels)})), "The largest change along")
    start = "The largest change along “division”: dirichlet in place of hospitals takes the student from 0.90"
    assert told.startswith(start) and " to 0.66" in told and "AUC: −0.24" in told
    assert ("significant over 3 seeds." in told) == (seeds == 3)
    assert (f"not tested ({seeds} seed" in told) == (seeds < 3) and (" (−" in told) == (seeds == 3)


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
    told = sentence(answers(frame), "Of the methods with the guarantee of the student")
    assert said in told and told.endswith(", significant over 3 seeds.")
    assert ("against the student" in told) == (rival > 0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"noisy_average": [0.7], "pate": [0.8]}, "not tested (1 seed)."),
        ({"noisy_average": [0.7, 0.6], "pate": [0.8, 0.9]}, "not tested (2 seeds)."),
        ({"local": [0.7, 0.8], "pate": [0.8, 0.91]}, "No other method has the guarantee of the student: nothing was"),
        ({"noisy_average": [0.7, 0.8, 0.75], "pate": [0.75, 0.74, 0.76]}, "not significant over 3 seeds."),
    ],
)
def test_what_did_not_show_is_said(values: dict[str, list[float]], said: str) -> None:
    frame = pl.concat([figures(values), figures({"pate": [1.0] * len(values["pate"])}, metric="epsilon")])
    assert said in answers(frame)[0]


@pytest.mark.parametrize(
    "frame",
    [
        figures({"pate": [0.5]}).clear(),
        figures({"division": [0.1, 0.2]}, metric="hellinger_mean"),
        MadeUp(axes={}, seeds=[3], methods={"local": 0.6}).frame(),
    ],
)
def test_little_is_told_of_little(frame: pl.DataFrame) -> None:
    assert all(isinstance(each, str) for each in answers(frame))


def test_data_sets_are_not_compared_with_each_other() -> None:
    told = answers(MadeUp(axes={"set": {"a": 0.0, "b": 0.3}}, sets="set").frame())
    assert not [each for each in told if each.startswith("The largest change")]


def test_the_view_knows_what_is_private_and_what_leads() -> None:
    frame = MadeUp(parties=2, seeds=[0]).frame()
    view = study_view(frame, {"division": ["iid"]})
    assert view.methods == tuple(methods_of(frame)) and set(view.methods) == set(METHODS)
    assert view.private == tuple(private_methods(frame)) == ("pate",)
    assert (view.metric, view.reference) == (lead(frame), "pate") == ("auc", "pate")
    assert view.order["division"][0] == "iid" and set(view.order["division"]) == set(DIVISIONS)


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
    assert view.distinct("division") == ([("iid", "1"), ("natural", "1")], ("kind",))
