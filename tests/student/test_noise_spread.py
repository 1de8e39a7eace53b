"""How far noise moves a student, from one release alone, against what other noise on the same votes does."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from consilium.models.base import Model, Shares
from consilium.models.evaluation import evaluate, rank_correlation
from consilium.protocol.errors import ConfigError
from consilium.protocol.schema import Schema
from consilium.student import run
from consilium.student.card import spread_sentence
from consilium.student.config import StudentSpec
from consilium.student.learn import AnsweredRows, pairs_of_halves, spread_over_noise
from consilium.student.run import run_student
from tests.specs import student_of
from tests.student.test_run import Source, pool

WIDTH, POOL, ASKED, VOTES = 4, 150, 100, 50
SCHEMA = Schema(
    features=tuple("abcd"), classes=("well", "ill"), center=(0.0,) * WIDTH, scale=(1.0,) * WIDTH
)  # rows are standardised already
SPEC = student_of(C=0.01)


@cache
def world() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Public rows, test rows with their classes, and the shares of the votes of the rows that are asked."""
    generator = np.random.default_rng(3)
    x = generator.standard_normal((POOL + 600, WIDTH))
    risks = 1 / (1 + np.exp(-x @ np.array([1.0, -0.5, 0.5, 0.0])))
    y = (generator.random(len(x)) < risks).astype(np.int64)
    return x[:POOL], x[POOL:], y[POOL:], np.stack([1 - risks, risks], axis=1)[:ASKED]


def released(seed: int, sigma: float, labels: bool) -> AnsweredRows:
    rows, _, _, shares = world()
    noisy = shares + np.random.default_rng([seed, 7]).normal(0, sigma / VOTES, shares.shape)
    told = None if labels else Shares(noisy, np.full(ASKED, sigma / VOTES))
    return AnsweredRows(rows, np.arange(ASKED), noisy.argmax(axis=1), told)


def metrics_of(model: Model) -> dict:
    _, x, y, _ = world()
    return evaluate(model.predict_proba(x), y, SCHEMA.classes)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("sigma", [75.0])
def test_it_is_what_other_noise_does(sigma: float, labels: bool) -> None:
    """Means over six releases, with fixed seeds: within a factor of 1.7 of the truth, and ranks within .25."""
    _, x, y, _ = world()
    answers = [released(seed, sigma, labels) for seed in range(24)]
    models = [answered.train(SPEC, SCHEMA, 0) for answered in answers]
    known = [metrics_of(model) for model in models]
    true = float(np.std([metrics["auc"] for metrics in known], ddof=1))
    alike = np.mean(
        [
            rank_correlation(a.predict_proba(x), b.predict_proba(x))
            for a, b in zip(models[::2], models[1::2], strict=True)
        ]
    )
    spreads = [
        spread_over_noise(answered, SPEC, SCHEMA, 0, metrics, (x, y))
        for answered, metrics in zip(answers[:6], known, strict=False)
    ]
    sds = [spread["metrics"]["auc"]["sd"] for spread in spreads]
    assert 1 / 1.7 < np.sqrt(np.mean(np.square(sds))) / true < 1.7
    assert np.mean([spread["rank_correlation"] for spread in spreads]) == pytest.approx(alike, abs=0.25)
    for spread, metrics in zip(spreads, known, strict=False):
        low, high = spread["metrics"]["auc"]["interval"]
        assert 0 <= low <= metrics["auc"] <= high <= 1


def test_more_noise_moves_it_further() -> None:
    alike, sds = [], []
    for sigma in (5.0, 25.0, 250.0):
        answered = released(0, sigma, labels=False)
        _, x, y, _ = world()
        spread = spread_over_noise(answered, SPEC, SCHEMA, 0, metrics_of(answered.train(SPEC, SCHEMA, 0)), (x, y))
        alike.append(spread["rank_correlation"])
        sds.append(spread["metrics"]["auc"]["sd"])
    assert alike == sorted(alike, reverse=True) and sds == sorted(sds)
    assert alike[0] > 0.9 and alike[-1] < 0.5


def test_the_noise_of_halves_is_independent_and_twice_as_large() -> None:
    answered = released(0, 25.0, labels=False)
    assert isinstance(answered.told, Shares)
    generator = np.random.default_rng(0)
    noise = []
    for seed in range(200):
        whole = released(seed, 25.0, labels=False)
        noise.append(
            [half.told.shares - world()[3] for half in whole.halves(generator) if isinstance(half.told, Shares)]
        )
    first, second = np.array(noise)[:, 0].ravel(), np.array(noise)[:, 1].ravel()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02  # 40,000 numbers: four deviations
    for half in (first, second):
        assert half.std() == pytest.approx(np.sqrt(2) * 25.0 / VOTES, rel=0.02)
    half, _ = answered.halves(generator)
    assert isinstance(half.told, Shares)
    assert half.told.deviation.tolist() == pytest.approx((np.sqrt(2) * answered.told.deviation).tolist())


@pytest.mark.parametrize(
    ("settings", "rows", "asked", "pairs"),
    [
        ({}, 1000, 300, 10),
        ({"trainer": "graph"}, 1500, 300, 4),
        ({"trainer": "graph"}, 9000, 300, "takes too long"),
        ({"trainer": "estimator", "factory": "a:b"}, 2001, 300, "takes too long"),
        ({"trainer": "graph_cnn"}, 100, 50, "the kind graph_cnn takes too long"),
        ({}, 100, 3, "3 answers are too few"),
    ],
)
def test_how_often_it_is_trained_again_follows_from_kind_and_size(
    settings: dict, rows: int, asked: int, pairs: int | str
) -> None:
    answered = AnsweredRows(np.broadcast_to(0.0, (rows, 30)), np.arange(asked), np.zeros(asked, dtype=np.int64))
    found = pairs_of_halves(student_of(**settings), answered, 2)
    if isinstance(pairs, str):
        assert isinstance(found, str) and pairs in found
        assert pairs in spread_sentence(spread_over_noise(answered, student_of(**settings), SCHEMA, 0))
    else:
        assert found == pairs


def test_the_published_student_is_the_same_and_nothing_is_asked_for_it(tmp_path: Path, monkeypatch) -> None:
    with_it, without = Source(), Source()
    first = run_student(with_it, pool(), student_of(C=1.0), tmp_path / "a", seed=0)
    again = run_student(Source(), pool(), student_of(C=1.0), tmp_path / "b", seed=0)
    monkeypatch.setattr(run, "spread_over_noise", lambda *_: {"absent": "not wanted"})
    run_student(without, pool(), student_of(C=1.0), tmp_path / "c", seed=0)
    files = ["student/model.safetensors", "labels.parquet"]
    for file in files:
        contents = {(tmp_path / folder / file).read_bytes() for folder in "abc"}
        assert len(contents) == 1
    assert [len(rows) for rows in with_it.asked] == [len(rows) for rows in without.asked]
    assert first.noise_spread == again.noise_spread
    assert first.noise_spread["metrics"].keys() == {"accuracy", "auc"}


def test_the_cards_say_it(tmp_path: Path) -> None:
    result = run_student(Source(), pool(), student_of(C=1.0), tmp_path, seed=0)
    card = json.loads((tmp_path / "student" / "student.json").read_text())
    assert card["noise_spread"] == result.noise_spread
    assert spread_sentence(result.noise_spread) in (tmp_path / "student" / "MODEL_CARD.md").read_text()


def test_a_student_that_cannot_learn_from_half_is_published_all_the_same(tmp_path: Path, monkeypatch) -> None:
    """It is paid for by then."""
    train, calls = AnsweredRows.train, []

    def only_once(self: AnsweredRows, spec: StudentSpec, *others: object) -> Model:
        calls.append(len(self.places))
        if len(calls) > 1:
            raise ConfigError("half is too little", "Ask more")
        return train(self, spec, *others)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(AnsweredRows, "train", only_once)
    result = run_student(Source(), pool(), student_of(C=1.0), tmp_path, seed=0)
    assert calls == [50, 25]
    assert "half is too little" in result.noise_spread["absent"]
    assert (tmp_path / "student" / "MODEL_CARD.md").exists()
