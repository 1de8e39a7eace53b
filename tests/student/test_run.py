"""One student against a label source that is made up; what labels of public rows say by themselves."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.models.evaluation import area_under_curve
from consilium.models.keys import GraphCnnStudent, GraphStudent, LogisticRegressionStudent, TrainerKind
from consilium.models.published.file import BadModel
from consilium.models.published.model import load_model
from consilium.protocol.errors import BudgetExceeded, DataError, PathError
from consilium.protocol.label_source import NO_LABEL, Answers, LabelTerms, Outcome
from consilium.protocol.schema import Schema
from consilium.student.config import StudentSpec
from consilium.student.pool import Pool, load_pool
from consilium.student.public_labels import beside_labels, cross_validated, labels_alone
from consilium.student.run import run_student, votes_in_sums
from tests.federation import FEATURES, make_config, make_rows
from tests.specs import student_of

SCHEMA = make_config().rows


def truth(queries: np.ndarray) -> np.ndarray:
    z = SCHEMA.standardise(queries)
    return (z[:, 0] + z[:, 1] > 0).astype(np.int64)


def every_second(queries: np.ndarray) -> np.ndarray:
    return np.where(np.arange(len(queries)) % 2, NO_LABEL, truth(queries))


class Source:
    """Answers queries, every second one if nothing else is said, and remembers them."""

    def __init__(self, queries_left: int = 1000, schema: Schema = SCHEMA, labels=every_second, **terms: Any) -> None:
        self.queries_left, self.schema, self.labels, self.terms = queries_left, schema, labels, terms
        self.asked: list[np.ndarray] = []

    def describe(self) -> LabelTerms:
        left = self.queries_left
        terms = LabelTerms("f" * 64, self.schema, "made up", "party", 1e-5, 1.0, left, 5, True)
        return replace(terms, **self.terms)

    def ask(self, queries, probabilities=None) -> Answers:
        self.asked.append(queries)
        labels = self.labels(queries)
        return Answers(np.where(labels == NO_LABEL, Outcome.ABSTAINED, Outcome.ANSWERED).astype(np.int64), labels)


def pool(count: int = 100, test: bool = True) -> Pool:
    x, y = make_rows(count + 300, 5)
    return Pool(FEATURES, x[:count], x[count:] if test else None, y[count:] if test else None)


@pytest.mark.parametrize("settings", [{}, {"selection": "typical", "rounds": 2}])
@pytest.mark.parametrize(("left", "asked"), [(30, 30), (1000, 50)])
def test_equal_rows_are_asked_once(tmp_path: Path, settings: dict, left: int, asked: int) -> None:
    """A second one has its answer already: a query budget that it used up would be noise for nothing."""
    source, once = Source(left), pool(50)
    run_student(source, replace(once, queries=np.repeat(once.queries, 2, axis=0)), student_of(**settings), tmp_path, 0)
    rows = np.concatenate(source.asked)
    assert (len(rows), len(np.unique(rows, axis=0))) == (asked, asked)


def cards(out: Path) -> tuple[dict[str, Any], str]:
    """For programs, and for people."""
    folder = out / "student"
    return json.loads((folder / "student.json").read_text()), (folder / "MODEL_CARD.md").read_text()


def test_asks_trains_evaluates_and_saves_and_its_cards_say_how(tmp_path: Path) -> None:
    result = run_student(Source(), pool(), student_of(trainer="graph", gamma=0.2), tmp_path, seed=0)
    assert (result["asked"], result["answered"]) == (100, 50)
    model = load_model(tmp_path / "student" / "model.safetensors")
    (card, text), metrics, (x, y) = cards(tmp_path), result["metrics"], make_rows(400, 5)
    assert (model.predict_proba(x[100:]).argmax(axis=1) == y[100:]).mean() == metrics["accuracy"]
    assert metrics["auc"] > 0.85 and card["metrics"] == metrics
    towards = card["privacy"].pop("towards")
    assert card["privacy"] == {
        "unit": "party", "neighbouring": "replace", "delta": 1e-5, "epsilon": 1.0, "simulation": True,
    }  # fmt: skip
    low, high = card["test"]["accuracy_95"]
    assert card["test"]["rows"] == sum(card["test"]["rows_per_class"].values()) == 300
    assert low < metrics["accuracy"] < high and card["test"]["rows_that_are_also_in_the_pool"] == 0
    content = (tmp_path / "student" / "model.safetensors").read_bytes()
    assert card["model"]["sha256"] == model.sha256 == hashlib.sha256(content).hexdigest()
    for told in (
        "epsilon at most 1.000", "delta 1e-05", "a party", "replaced", "300 rows", "Not a medical device",
        "Made in a simulation", "holds public rows", card["model"]["sha256"], "| age |",
        f"{metrics['accuracy']:.4f}", "50 got a label", "made up", towards,
    ):  # fmt: skip
        assert told in text, told
    frame = pl.read_parquet(tmp_path / "labels.parquet")
    assert frame.columns == ["row", "query_id", "outcome", "label", "counts", "predictions"]
    assert frame["outcome"].to_list() == ["answered", "abstained"] * 50
    assert [label is None for label in frame["label"].to_list()] == [False, True] * 50
    assert set(frame["label"].drop_nulls().to_list()) <= {"well", "ill"}


def test_the_card_says_how_far_probabilities_are_risks(tmp_path: Path) -> None:
    shares = run_student(Source(), pool(), student_of(C=1.0), tmp_path / "shares", seed=0)["metrics"]
    assert shares["operating_point"]["by"] == "one half"
    assert shares["operating_point"]["recall"] == shares["recall_per_class"]["ill"]
    text = cards(tmp_path / "shares")[1]
    assert "shares of votes, not risks" in text
    assert f"| calibration error (15 bins of equally many rows) | {shares['calibration_error']:.4f} |" in text
    declared = student_of(C=1.0, prevalence=[0.9, 0.1])
    risks = run_student(Source(), pool(), declared, tmp_path / "risks", seed=0)["metrics"]
    (card, text), point = cards(tmp_path / "risks"), risks["operating_point"]
    assert (point["by"], point["threshold"]) == ("prevalence", card["calibration"]["threshold"])
    assert "declared prevalence (0.9, 0.1, in the order of the classes)" in text
    assert "shares of votes, not risks" not in text
    assert risks["auc"] == shares["auc"] and point["flagged"] < shares["operating_point"]["flagged"] / 2
    model = load_model(tmp_path / "risks" / "student" / "model.safetensors")
    np.testing.assert_allclose(model.predict_proba(pool().queries).mean(axis=0), [0.9, 0.1], atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "terms", "expected"),
    [
        ({"C": 1.0}, {}, []),
        ({"C": 1.0}, {"epsilon": 6.0}, ["large-epsilon"]),
        ({"queries": 2}, {}, ["nothing-learnt", "class-not-found"]),
    ],
)
def test_warns_of_itself(tmp_path: Path, settings: dict, terms: dict, expected: list[str]) -> None:
    result = run_student(Source(**terms), pool(), student_of(**settings), tmp_path, seed=0)
    card, text = cards(tmp_path)
    assert card["warnings"] == result["warnings"]
    assert [warning["code"] for warning in result["warnings"]] == expected
    assert ("## Warnings" in text) == bool(expected) and all(f"- {code}: " in text for code in expected)


@pytest.mark.parametrize("sigma", [1e-300, 1e300])
def test_noise_that_no_coordinator_draws_breaks_no_student(tmp_path: Path, sigma: float) -> None:
    """A hostile one may state any: its student is poor, and its probabilities are numbers."""
    source = Source(labels=truth, count_sigma=sigma, most_votes=100)
    honest = source.ask

    def ask(queries, probabilities=None) -> Answers:
        """The histogram of 100 votes, of which about 80 are right."""
        answers = honest(queries)
        exact = np.where(np.eye(2, dtype=bool)[answers.labels], 80, 20)
        counts = exact + np.rint(np.random.default_rng(1).normal(size=exact.shape) * 40).astype(np.int64)
        return Answers(answers.outcomes, counts.argmax(axis=1), counts)

    source.ask = ask
    run_student(source, pool(40), student_of(trainer="graph"), tmp_path, seed=0)
    published = load_model(tmp_path / "student" / "model.safetensors")
    assert np.isfinite(published.predict_proba(pool(40).queries)).all()


def test_a_student_is_brought_to_public_labels(tmp_path: Path) -> None:
    """Written as it is judged, and its cards say which it is; without labels they say nothing of it."""
    rows, labels, told = pool(), np.full(100, NO_LABEL), list[str]()
    labels[:40] = make_rows(400, 5)[1][:40]
    plain = run_student(Source(), rows, StudentSpec(), tmp_path / "plain", 0)
    result = run_student(Source(), replace(rows, labels=labels), StudentSpec(), tmp_path / "known", 0, tell=told.append)
    assert told == [] and "public_labels" not in plain
    assert plain["metrics"] is not None and result["metrics"] is not None
    assert result["metrics"]["brier"] < plain["metrics"]["brier"] + 0.01
    published, (card, text) = (
        load_model(tmp_path / "known" / "student" / "model.safetensors"),
        cards(tmp_path / "known"),
    )
    assert published.adapted is not None and card["model"]["sha256"] == published.sha256
    assert card["public_labels"] == result["public_labels"] and card["public_labels"]["rows"] == 40
    assert "semi-private: it was brought to 40 public rows" in text and "brought to the public rows with labels" in text
    assert "public_labels" not in cards(tmp_path / "plain")[0]
    assert (tmp_path / "plain" / "labels.parquet").read_bytes() == (tmp_path / "known" / "labels.parquet").read_bytes()


def test_labels_show_that_noise_drowned_the_student(tmp_path: Path) -> None:
    drowned = Source(labels=lambda queries: np.random.default_rng(1).integers(2, size=len(queries)))
    labels = make_rows(400, 5)[1][:100]
    result = run_student(drowned, replace(pool(), labels=labels), StudentSpec(), tmp_path, 0)
    assert result["metrics"] is not None and result["metrics"]["auc"] > 0.9
    assert "Labels of the public rows alone reach AUC 0.9" in cards(tmp_path)[1]
    assert [each["code"] for each in result["warnings"]].count("public-labels") == 1


def test_labels_that_do_not_tell_each_other_are_told_before_anything_is_asked(tmp_path: Path) -> None:
    source, told = Source(), list[tuple[str, int]]()
    nothing = replace(pool(), labels=np.random.default_rng(1).integers(2, size=100))
    run_student(source, nothing, StudentSpec(), tmp_path, 0, tell=lambda text: told.append((text, len(source.asked))))
    assert [(text[:57], asked) for text, asked in told] == [
        ("warning: the labels of 100 public rows do not tell each o", 0)
    ]


def test_names_are_no_markup_in_the_card(tmp_path: Path) -> None:
    schema = SCHEMA.model_copy(update={"classes": ("<script>|", "[ill](http://x)")})
    source = Source(schema=schema, mechanism="<b>", epsilon=float("inf"))
    run_student(source, pool(), StudentSpec(), tmp_path, seed=0)
    text = cards(tmp_path)[1]
    assert "without bound" in text
    assert not any(markup in text for markup in ("<script>", "[ill](", "<b>"))


def test_names_that_cannot_be_published_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    source = Source(schema=SCHEMA.model_copy(update={"classes": ("well", "=cmd()")}))
    with pytest.raises(BadModel, match="formula"):
        run_student(source, pool(), StudentSpec(), tmp_path, seed=0)
    assert source.asked == []


@pytest.mark.parametrize(("queries", "left", "asked"), [(30, 1000, 30), (500, 1000, 100), (30, 7, 7), (30, 0, 0)])
def test_asks_no_more_than_pool_cap_and_specification_allow(tmp_path: Path, queries, left, asked) -> None:
    source = Source(left)
    if not asked:
        with pytest.raises(BudgetExceeded, match="no queries are left"):
            run_student(source, pool(), StudentSpec(queries=queries), tmp_path, seed=0)
        assert source.asked == [] and list(tmp_path.iterdir()) == []
        return
    assert run_student(source, pool(), StudentSpec(queries=queries), tmp_path, seed=0)["asked"] == asked
    assert len(source.asked[0]) == asked


@pytest.mark.parametrize(
    ("features", "told"),
    [(("age", "pressure"), "missing"), (FEATURES[::-1], "another order"), ((*FEATURES, "more"), "too many")],
)
def test_a_pool_of_other_columns_is_refused(tmp_path: Path, features, told: str) -> None:
    with pytest.raises(DataError, match=told):
        run_student(Source(), Pool(features, np.zeros((5, len(features)))), StudentSpec(), tmp_path, seed=0)


@pytest.mark.parametrize("content", [None, b"nothing", {"queries": np.zeros((2, 3))}, {"features": np.array(["a"])}])
def test_pool_files_that_are_wrong(tmp_path: Path, content) -> None:
    path = tmp_path / "public.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.savez(path, **content)
    with pytest.raises(PathError if content is None else DataError, match="cannot read"):
        load_pool(path)


@pytest.mark.parametrize(
    ("present", "queries", "sigma", "about"),
    [
        (207, 300, 40.0, 207),
        (150, 300, 40.0, 150),
        (205, 300, 40.0, 207),  # within the noise
        (10, 1, 40.0, 207),  # one row says too little
        (0, 300, 5.0, 1),
        (9, 0, 1.0, 207),  # nothing was asked
    ],
)
def test_votes_in_sums_are_estimated_from_what_was_released(
    present: int, queries: int, sigma: float, about: int
) -> None:
    """The most that there might be, 207, unless noise does not explain that there are fewer."""
    generator = np.random.default_rng(3)
    counts = np.full((queries, 2), present / 2) + generator.normal(0, sigma, (queries, 2))
    votes = votes_in_sums(counts.round().astype(np.int64), 207, sigma)
    assert votes == about or (about == 150 and votes == pytest.approx(about, rel=0.05))


def table(rows: int, classes: int, told: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 6))
    y = (told * x[:, :classes] + generator.gumbel(size=(rows, classes))).argmax(axis=1)
    return x, y


@pytest.mark.parametrize("classes", [2, 4])
def test_cross_validation_is_near_what_new_rows_give_and_leaves_chance(classes: int) -> None:
    x, y = table(400, classes, 1.0)
    found = cross_validated(x, y, classes)
    assert (found.metric, found.rows) == ("auc" if classes == 2 else "accuracy", 400)
    assert found.leaves_chance
    low, high = found.interval
    assert low < found.value < high < found.value + 0.08


def test_labels_that_nothing_tells_seldom_leave_chance() -> None:
    """At 6 % more than 9 of 60 have a probability of .003."""
    assert sum(cross_validated(*table(60, 2, 0.0, seed), 2).leaves_chance for seed in range(60)) <= 9


def test_labels_of_one_class_and_two_rows_leave_no_chance() -> None:
    for y in ([0], [1, 1, 1], [0, 1]):
        found = cross_validated(np.arange(len(y) * 2.0).reshape(-1, 2), np.array(y), 2)
        assert not found.leaves_chance


X, Y = make_rows(300, 5)
KNOWN = np.where(np.arange(100) < 60, Y[:100], -1)
TEST = X[100:], Y[100:]


@pytest.mark.parametrize("kind", [LogisticRegressionStudent(), GraphStudent()])
def test_how_much_a_student_has_above_labels_is_paired(kind: TrainerKind) -> None:
    """The difference is that of two AUCs; of a student who is the labels' own model the interval has no width."""
    spec, noise = StudentSpec(trainer=kind), np.random.default_rng(1).normal(size=200)
    alone = labels_alone(spec, SCHEMA, X[:100], KNOWN, X[100:], 0)
    assert not isinstance(alone, str)
    student = np.stack([-Y[100:] - noise, Y[100:] + noise], axis=1)
    found = beside_labels(spec, SCHEMA, X[:100], KNOWN, TEST, student, 0)
    areas = [area_under_curve(scores[:, 1], Y[100:] == 1) for scores in (student, alone)]
    above, (low, high) = found["student_above"], found["intervals"]["auc"]
    assert (found["rows"], found["cross_validated"]["rows"], above["metric"]) == (60, 60, "auc")
    assert found["auc"] == pytest.approx(areas[1]) and low < areas[1] < high
    assert above["difference"] == pytest.approx(areas[0] - areas[1])
    assert above["interval"][0] < above["difference"] < above["interval"][1]
    same = beside_labels(spec, SCHEMA, X[:100], KNOWN, TEST, alone, 0)["student_above"]
    assert same["interval"] == [0.0, 0.0]


def test_labels_alone_are_of_the_rows_with_a_label() -> None:
    """What stands for the others is looked at by nobody."""
    others = np.where(KNOWN < 0, X[:100, 0] * 9 + 3, X[:100, 0])
    changed = np.column_stack([others, X[:100, 1:]]).astype(np.float32)
    first, second = (labels_alone(StudentSpec(), SCHEMA, rows, KNOWN, X[100:], 0) for rows in (X[:100], changed))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("kind", "labels", "why"),
    [
        (LogisticRegressionStudent(), np.full(100, -1), "no public row has a label"),
        (GraphCnnStudent(), KNOWN, "a student of the kind graph_cnn takes too long to be trained again"),
    ],
)
def test_why_there_are_no_labels_alone(kind: TrainerKind, labels: np.ndarray, why: str) -> None:
    found = beside_labels(StudentSpec(trainer=kind), SCHEMA, X[:100], labels, TEST, np.eye(2)[Y[100:]], 0)
    assert found["absent"] == why and "student_above" not in found
