"""A run as an object: tables of the folder's files, mistakes with a type, its lines for the terminal. `simulate`:
scenarios by name or object, with keys changed; a script as people write them. And scikit-learn's own checks of an
estimator: all that apply pass; docs/python.md lists those that cannot, and why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from consilium.protocol.errors import ConsiliumError, DataError, PathError
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import BadSetting
from consilium.simulations.council.runs import (
    PrivacyStatement,
    afterwards,
    in_short,
    load_run,
    simulate,
    terminal,
    verdict,
)
from consilium.simulations.scenario import load_scenario
from tests.coordinator.verify.runs import edit
from tests.simulations.council.warm import QUICK


def test_tables_are_those_of_the_folder_and_an_audit_finds_what_was_changed(small_run: Path, tmp_path: Path) -> None:
    run = load_run(shutil.copytree(small_run, tmp_path / "copy"))
    assert run.summary["queries"]["asked"] == run.labels.height
    assert run.student.schema.classes == ("independent", "dead or dependent")
    public = run.report.public  # drawn when it is wanted
    assert public.path.name == "report-public.html" and "</html>" in public.path.read_text(encoding="utf-8")
    assert run.audit()
    edit("summary.json", lambda c: c["privacy"].update(epsilon_guaranteed=0.01))(run.path)
    found = run.audit()
    assert not found
    assert "summary.json: epsilon" in [each.check for each in found.findings if not each.holds]


@pytest.mark.parametrize(
    ("files", "kind", "told"),
    [
        (None, PathError, "is no folder"),
        ({}, DataError, "holds no finished run: summary.json is not there. Give the folder"),
        ({"summary.json": "{"}, DataError, "summary.json is damaged"),
        ({"summary.json": '{"privacy": {}}'}, DataError, "summary.json is damaged"),
        ({"summary.json": "{}", "labels.parquet": "no table"}, DataError, "labels.parquet is damaged"),
        ({"summary.json": "{}"}, PathError, "cannot read .*labels.parquet"),
    ],
)
def test_what_is_no_run_or_is_damaged_says_so(
    tmp_path: Path, files: dict[str, str] | None, kind: type[ConsiliumError], told: str
) -> None:
    for name, content in (files or {}).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(kind, match=told):
        run = load_run(tmp_path if files is not None else tmp_path / "nowhere")
        (run.labels if "labels" in told else run.summary)  # noqa: B018


BLOCK = {
    "epsilon_guaranteed": 0.8,
    "epsilon_student": 0.8,
    "epsilon_data_dependent": 0.123456,
    "delta": 1e-5,
    "unit": "party",
    "relation": "a whole party, replaced",
    "towards": "student",
    "collection": "plaintext",
    "noise": "system",
}


def statement(**changed: object) -> PrivacyStatement:
    return PrivacyStatement.of({**BLOCK, **changed})


def test_the_verdict_follows_from_the_promise_of_all_fits_together_and_shows_nothing_secret() -> None:
    unbounded = statement(epsilon_guaranteed=None, infinite=["epsilon_guaranteed"])
    again = PrivacyStatement.of(BLOCK, before=[(0.15, 1e-6)] * 2)  # all of them count
    told = [verdict(each, parties=100) for each in (statement(), statement(noise="seeded"), unbounded, again)]
    real = "strong protection with real noise; here it came from a seed"
    assert told == ["strong protection", real, "no protection", "moderate protection"]
    assert statement().secret_epsilon_data_dependent == 0.123456
    assert "0.123" not in f"{statement()!r} {statement()}"


ALONE, POOLED = {"accuracy": 0.6, "auc": 0.65}, {"accuracy": 0.8, "auc": 0.85}


def ended(student: float = 0.75, **blocks: Any) -> dict[str, Any]:
    """The summary of a run whose student has this AUC."""
    metrics = {"accuracy": student - 0.05, "auc": student, "rate": {"ill": 0.4, "well": 0.6}}
    summary = {"parties": 100, "teachers": 100, "release": "winner or abstention", "privacy": BLOCK, "worth": None}
    summary |= {"labels_alone": {}, "queries": {"asked": 9, "answered": 4}, "student": metrics, "warnings": []}
    return summary | {"baselines": {"mean_teacher": ALONE, "pooled": POOLED}} | blocks


def rival(low: float, high: float, auc: float = 0.76) -> dict[str, Any]:
    return {"auc": auc, "above_student": {"metric": "auc", "difference": (low + high) / 2, "interval": [low, high]}}


def worth(count: int = 30) -> dict[str, Any]:
    told = {"manual_labels": 20, "low": 5, "high": 60, "fewest": 5, "most": 900, "public_rows": 900}
    points = {key: {"labels": count, "accuracy": 0.7, "auc": 0.78} for key in ("released", "asked")}
    return {**told, **points, "metric": "auc", "label_cost": "a day"}


OF_LABELS = {"rows": 50, "auc": 0.79, "accuracy": 0.7, "student_above": {}}
RIVALS = {"noisy_average": rival(-0.02, 0.01), "private_gradient": rival(0.01, 0.03, 0.77)}


def test_the_verdict_is_one_honest_sentence() -> None:
    baselines = {"mean_teacher": ALONE, "pooled": POOLED, **RIVALS}
    sentence, labels = in_short(ended(baselines=baselines, worth=worth(), labels_alone=OF_LABELS))
    assert sentence == (
        "The student reaches AUC 0.750, 50% of the way from one party alone (0.650) to pooled (0.850); private gradient"
        " descent does better at the same guarantee (0.770), and 30 manual labels reach 0.780."
    )
    reach = "Labels of the public rows alone reach 0.790"
    assert labels == f"{reach}; the student is worth about 20 manual labels (5 to 60); one takes a day."
    assert max(len(each.split()) for each in (sentence, labels)) <= 35
    unknown = "How good the student is, is not known: no public test row can tell."
    assert in_short(ended() | {"student": None}) == (unknown,)


def test_a_run_ends_with_the_verdict_then_one_table_from_alone_to_pooled() -> None:
    baselines = {"mean_teacher": ALONE, "pooled": POOLED, "plurality": POOLED, **RIVALS}
    text = terminal(ended(baselines=baselines, worth=worth(), labels_alone=OF_LABELS), 80)
    lines = text.splitlines()
    assert lines[0].startswith("The student reaches AUC") and max(map(len, lines)) <= 80
    names = (
        "one party alone", "30 manual labels", "labels of the public rows alone", "student", "noisy average",
        "private gradient descent", "plurality (not private)", "pooled (not private)",
    )  # fmt: skip
    first = next(place for place, line in enumerate(lines) if "always “" in line)
    assert [line.strip().split("  ")[0] for line in lines[first + 1 : first + 1 + len(names)]] == list(names)
    assert "not covered by the guarantee" in lines[first - 2]


@pytest.mark.parametrize(
    ("release", "queries", "right", "said"),
    [
        ("winner or abstention", (9, 4, 0), 0.75, "4 labels were released, 75% of them right; 5 rows got none."),
        ("winner, abstention or confirmation", (9, 1, 8), 1.0,
         "1 label was released, 100% of them right; 8 labels of the student were confirmed."),
        ("noisy counts", (9, 9, 0), 0.675,
         "9 noisy histograms were released; the largest count was that of the true class in 68% of them."),
    ],
)  # fmt: skip
def test_what_was_released_is_said_in_words_of_its_kind(
    release: str, queries: tuple[int, int, int], right: float | None, said: str
) -> None:
    counts = dict(zip(("asked", "answered", "reinforced"), queries, strict=True))
    privacy = {**BLOCK, "released_label_accuracy": right}
    assert said in terminal(ended(release=release, queries=counts, privacy=privacy))


def test_a_run_of_your_own_rows_ends_with_who_was_made_public_and_what_to_do() -> None:
    """Nothing of it where data are public and the noise is real."""
    assert afterwards({"privacy": BLOCK}) == []
    owners = {"count": 12, "of": 60, "word": "hospital"}
    seeded = {"privacy": {**BLOCK, "noise": "seeded"}, "public_owners": owners, "holds_public_rows": True}
    public, holds, model, noise = afterwards(seeded | {"baselines": {"private_gradient": rival(0.01, 0.03)}})
    assert model.startswith("`consilium study model SCENARIO --out FOLDER` saves")
    removed = {**BLOCK, "relation": "a record, added or removed"}
    (other,) = afterwards({"privacy": removed, "baselines": {"private_gradient": rival(0.01, 0.03)}})
    assert " --set federation.privacy.neighbouring=replace` saves" in other
    assert public.startswith("12 of your 60 hospitals were made public: ")
    assert holds.endswith("--set student.trainer.name=logistic_regression")
    assert noise == "For noise that protects, run it with --set simulation.noise=system"
    bare = {**BLOCK, "noise": "seeded", "epsilon_guaranteed": None, "infinite": ["epsilon_guaranteed"]}
    assert afterwards({"privacy": bare}) == []  # no noise makes it private


ROOT = Path(__file__).resolve().parents[3]
SMALL: dict[str, Any] = {
    "data.least_rows": 200,
    "federation.minimum_parties": 5,
    "federation.mechanism": {"name": "histogram", "sigma": 20.0},
    "federation.query_budget": {"queries": 30, "answers": 30},
    "simulation.manual_labels": "none",
}


@pytest.mark.parametrize(
    ("scenario", "settings", "told"),
    [
        ("nowhere", {}, "no scenario 'nowhere'"),
        ("stroke", {"federation.mechanism.sigma2": "much"}, "sigma2"),
        ("stroke", {"federation.mechanism": object()}, "federation.mechanism"),
        ("stroke", ["student.rounds=2"], "settings is a list"),
    ],
)
def test_mistakes_are_typed(scenario: str, settings: Any, told: str) -> None:
    with pytest.raises(BadSetting, match=told):
        simulate(scenario, settings=settings)


def test_a_name_and_what_it_stands_for_are_the_same_run(tmp_path: Path) -> None:
    by_name = simulate("stroke", seed=3, out=tmp_path / "run", settings=SMALL)
    by_object = simulate(load_scenario("stroke"), seed=3, settings=SMALL)
    assert by_name.summary["federation_digest"] == by_object.summary["federation_digest"]
    assert by_name.labels.equals(by_object.labels)
    assert by_name.audit()
    assert (tmp_path / "run" / "summary.json").is_file()
    folder = by_object.path
    del by_object
    assert not folder.exists()


SCRIPT = """
import asyncio
import numpy as np
from threadpoolctl import threadpool_info
from consilium import Council

print("begun")
generator = np.random.default_rng(0)
X = generator.normal(size=(200, 3))
before = [each["num_threads"] for each in threadpool_info()]

async def cell():  # as a notebook runs a cell: within a loop, in the main thread
    return Council(unit="party", parties=5, epsilon=None, mechanism={"name": "histogram", "sigma": 1.0}, queries=20,
                   manual_labels="none", noise="seeded", random_state=0).fit(X, X[:, 0] > 0)

council = asyncio.run(cell())
print(council.score(X, X[:, 0] > 0) > 0.8, bool(council.run_.audit()), "</html>" in council.report_.path.read_text())
known = {each["filepath"]: each["num_threads"] for each in threadpool_info()}
print(before == list(known.values())[: len(before)], council.run_.path.exists())
print(council.run_.path)
"""


def test_a_script_without_a_guard_in_which_a_loop_runs(tmp_path: Path) -> None:
    """Nothing is imported twice, the caller's threads come back, and the temporary folder goes with the program."""
    script = tmp_path / "own_script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=tmp_path,
        env={**free, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *lines, folder = done.stdout.splitlines()
    assert lines == ["begun", "True True True", "True True"]
    assert not Path(folder).exists()
    assert done.stderr == ""


FOR_CHECKS = {**QUICK, "parties": 2, "public_share": 0.6}
"""The checks have 10 to 150 rows, some of noise, no owners: two parties by lot, enough public ones for the classes."""
NEEDS_CLASSES = {
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in_after_fitting",
}
"""Of 20 rows with three or four classes no public row may have one of them: so the classes are declared."""
CANNOT = {"check_array_api_input": "needs the variable SCIPY_ARRAY_API and other array libraries"}


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_every_check_that_applies_passes() -> None:
    failed, passed, skipped = {}, 0, set()
    for council, check in estimator_checks_generator(Council(**FOR_CHECKS), legacy=True):
        name = check.func.__name__
        own = clone(council).set_params(classes=[0, 1, 2, 3] if name in NEEDS_CLASSES else None)
        try:
            check(own)
            passed += 1
        except SkipTest:
            skipped.add(name)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    assert failed == {}
    assert passed >= 50
    assert skipped - {"check_classifier_data_not_an_array"} <= CANNOT.keys()
