"""What hangs on one party: every label and student computed again by hand, without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from consilium.coordinator.label_service import noise_for
from consilium.models.base import Shares
from consilium.protocol.errors import DataError
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.protocol.queries import query_ids
from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.methods.base import Predicted
from consilium.simulations.methods.manual_labels import Effort
from consilium.simulations.study.measures import influence
from consilium.simulations.study.measures import influence as without_party
from consilium.simulations.study.measures.influence import Rerun, influence_rows, winners_flipped
from consilium.simulations.vote import Ensemble, TeacherVotes
from consilium.student.learn import train
from tests.simulations.study.measures.made import made_rows, taught

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6, 20, 35]
GNMAX = {"mechanism": {"name": "gnmax", "sigma": 1.0}}
NOISY = {"mechanism": {"name": "gnmax", "sigma": 6.0}}
CONFIDENT = {
    "mechanism": {"name": "confident", "threshold": 7, "sigma1": 1.0, "sigma2": 1.0},
    "query_budget": {"queries": 40, "answers": 12},
}
HISTOGRAM = {"mechanism": {"name": "histogram", "sigma": 3.0}}
INTERACTIVE = {"mechanism": {"name": "interactive", "threshold": 7, "sigma1": 1.0, "sigma2": 1.0, "confidence": 0.9}}
RELATIVE = {**GNMAX, "voting_rule": {"rule": "relative", "shares": [0.5, 0.5]}}


def votes_of(case: Case, ensemble: Ensemble, rows: np.ndarray) -> np.ndarray:
    """int64 (parties, rows, classes)."""
    ids = query_ids(case.pool_x[rows])
    return ensemble.pool.votes(rows, case.parties, case.config.digest(), ids, len(case.classes))


def released(case: Case, ensemble: Ensemble, requests: list[np.ndarray]) -> Predicted:
    """What a student was told that asked these rows of the pool, request by request, as `methods.pate` gives it."""
    config, room = case.config.model_copy(update={"noise_seed": case.seed}), case.config.query_budget.answers
    outcomes, labels = [], []
    for number, rows in enumerate(requests, 1):
        votes = votes_of(case, ensemble, rows).sum(axis=0)
        noise, nothing = noise_for(config)(number), np.zeros(votes.shape)
        drawn = config.mechanism.release(
            lambda at, _, votes=votes: (votes[at], int(votes[0].sum())), len(rows), room, noise, nothing
        )
        rest = len(rows) - len(drawn.labels)
        labels += [*drawn.labels, *[NO_LABEL] * rest]
        outcomes += [Outcome.ANSWERED if label >= 0 else Outcome.ABSTAINED for label in drawn.labels]
        outcomes += [Outcome.NOT_ASKED] * rest
    arrays = {
        "asked_rows": np.concatenate(requests),
        "outcome": np.array(outcomes),
        "labels": np.array(labels),
        "voted_rows": np.concatenate(requests),
        "voted_batch": np.repeat(np.arange(len(requests)) + 1, [len(rows) for rows in requests]),
    }
    return Predicted(arrays=arrays)


def told(rows: list[Row], metric: str) -> dict[str, float]:
    return {row.name: row.value for row in rows if row.scope == "party" and row.metric == metric}


def run(rows: list[Row]) -> dict[str, float]:
    return {row.metric: row.value for row in rows if row.scope == "run"}


def asked(case: Case, parts: int = 1, count: int = 40) -> list[np.ndarray]:
    rows = np.random.default_rng(5).permutation(len(case.pool_x))[:count]
    return list(np.array_split(rows, parts))


def student_auc(case: Case, rows: np.ndarray, labels: np.ndarray, shares: Shares | None = None) -> float:
    inputs, rest = case.config.rows.inputs, np.setdiff1d(np.arange(len(case.pool_x)), rows)
    spec, x = case.scenario.student, inputs(case.pool_x)
    model = train(x[rows], labels, x[rest], 2, spec, case.seed, schema=case.config.rows, shares=shares)
    return float(roc_auc_score(case.test_y, model.predict_proba(inputs(case.test_x))[:, 1]))


@pytest.mark.parametrize("parts", [1, 3])
def test_labels_and_students_of_an_argmax_by_hand(parts: int) -> None:
    case, ensemble = taught(made_rows(SIZES, skew=0.3), federation=GNMAX)
    requests = asked(case, parts)
    found = influence_rows(case, ensemble, released(case, ensemble, requests))
    config = case.config.model_copy(update={"noise_seed": case.seed})
    own = [votes_of(case, ensemble, rows) for rows in requests]
    noise = [noise_for(config)(number).gaussian(1.0, votes.shape[1:]) for number, votes in enumerate(own, 1)]

    def labels(without: int | None) -> np.ndarray:
        less = [0 if without is None else votes[without] for votes in own]
        sums = [votes.sum(axis=0) - gone + z for votes, gone, z in zip(own, less, noise, strict=True)]
        return np.concatenate([each.argmax(axis=1) for each in sums])

    rows = np.concatenate(requests)
    before = student_auc(case, rows, labels(None))
    flips, changes = told(found, "labels_flipped"), told(found, "auc_change")
    for index, name in enumerate(case.parties):
        assert flips[name] == (labels(index) != labels(None)).sum()
        assert changes[name] == pytest.approx(student_auc(case, rows, labels(index)) - before, abs=1e-12)
    assert 0 < max(flips.values()) == run(found)["labels_flipped_most"]
    assert run(found)["labels_flipped_mean"] == pytest.approx(np.mean(list(flips.values())))
    assert run(found)["students_trained"] == sum(value > 0 for value in flips.values())


def test_of_histograms_the_counts_move_and_the_student_is_trained_on_them() -> None:
    case, ensemble = taught(made_rows(SIZES, skew=0.3), federation=HISTOGRAM)
    (rows,) = requests = asked(case, count=12)
    found = influence_rows(case, ensemble, released(case, ensemble, requests))
    assert min(told(found, "labels_flipped").values()) == 0
    own = votes_of(case, ensemble, rows)
    noise = noise_for(case.config.model_copy(update={"noise_seed": case.seed}))(1).gaussian(3.0, own.shape[1:])

    def learnt(present: np.ndarray) -> float:
        counts, votes = own[present].sum(axis=0) + noise, present.sum()
        shares = Shares(counts / votes, np.full(len(rows), 3.0 / votes))
        return student_auc(case, rows, counts.argmax(axis=1), shares)

    every = np.arange(len(case.parties))
    before, changes = learnt(every >= 0), told(found, "auc_change")
    assert [changes[name] for name in case.parties] == pytest.approx([learnt(every != p) - before for p in every])
    assert run(found)["students_trained"] == len(case.parties)
    assert max(map(abs, changes.values())) == pytest.approx(abs(run(found)["auc_change_most"]))


@pytest.mark.parametrize(
    "federation",
    [GNMAX, CONFIDENT, HISTOGRAM, INTERACTIVE, RELATIVE],
    ids=["gnmax", "confident", "histogram", "interactive", "relative"],
)
def test_a_party_that_always_abstains_changes_nothing(federation: dict[str, Any]) -> None:
    """Its votes are on all classes alike, as by several teachers: what is without it is the same where counts are all
    one less."""
    case, ensemble = taught(made_rows(SIZES), federation={**federation, "teachers_per_party": 2})
    said = ensemble.pool.cast.copy()
    said[3] = np.array([[0], [1]])
    pool = replace(ensemble.pool, cast=said)
    if len(pool.tied_row):
        keep = pool.tied_party != 3
        pool = TeacherVotes(
            said, *(each[keep] for each in (pool.tied_party, pool.tied_teacher, pool.tied_row, pool.tied))
        )
    spoken = replace(ensemble, pool=pool)
    found = influence_rows(case, spoken, released(case, spoken, asked(case, 2)))
    name = case.parties[3]
    assert told(found, "winners_flipped")[name] == 0
    if federation in (GNMAX, HISTOGRAM, RELATIVE):  # checks of confident and interactive count votes
        assert told(found, "labels_flipped")[name] == told(found, "labels_flipped_expected")[name] == 0


def test_what_came_after_the_last_answer_is_not_counted() -> None:
    case, ensemble = taught(made_rows(SIZES), federation=CONFIDENT)
    predicted = released(case, ensemble, asked(case))
    outcome = predicted.arrays["outcome"]
    assert (outcome == Outcome.NOT_ASKED).any() and (outcome == Outcome.ANSWERED).sum() == 12
    rerun = Rerun(case, ensemble.pool, predicted.arrays)
    assert len(rerun.rows) == (outcome != Outcome.NOT_ASKED).sum()
    flips = [rerun.flipped(party)[0] for party in range(len(case.parties))]
    labels = [rerun.without(party).labels for party in range(len(case.parties))]
    assert flips == [(each != rerun.with_all.labels).sum() for each in labels]


def test_rows_that_are_alike_are_one_query() -> None:
    case, ensemble = taught(made_rows(SIZES), federation=GNMAX)
    rows = case.partition.queries
    case.dataset.x[rows[1]] = case.dataset.x[rows[0]]
    case = replace(case)  # a case knows its rows from when they were first asked for
    voted, every = np.arange(0, 20) + (np.arange(20) > 0), np.arange(21)
    predicted = released(case, ensemble, [voted])
    labels = predicted.arrays["labels"][np.r_[0, 0, np.arange(1, 20)]]
    arrays = {**predicted.arrays, "asked_rows": every, "labels": labels, "outcome": np.full(21, int(Outcome.ANSWERED))}
    alike, once = Rerun(case, ensemble.pool, arrays), Rerun(case, ensemble.pool, predicted.arrays)
    assert alike.with_all.labels[1] == alike.with_all.labels[0]
    for party in range(len(case.parties)):
        assert alike.flipped(party) == once.flipped(party)


@pytest.mark.parametrize("classes", [2, 3])
def test_clear_winners_without_each_party_by_hand(classes: int) -> None:
    case, ensemble = taught(made_rows(SIZES, classes, skew=0.4))
    teachers = ensemble.pool.cast[:, 0]
    counts = np.array([[(row == label).sum() for label in range(classes)] for row in teachers.T])
    expected = []
    for party in range(len(case.parties)):
        less = counts - np.eye(classes, dtype=np.int64)[teachers[party]]
        expected.append((less.argmax(axis=1) != counts.argmax(axis=1)).sum())
    assert winners_flipped(ensemble.pool, classes).tolist() == expected
    assert max(expected) > 0


def test_expected_flips_follow_the_law_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two classes the second wins where its lead with noise is above 0. In the mean over 600 draws a party's flips
    deviate by about .07; 5 times that has probability below 1e-5 for all of them."""
    monkeypatch.setattr(without_party, "LOTS", 600)
    case, ensemble = taught(made_rows(SIZES), federation=GNMAX)
    rerun = Rerun(case, ensemble.pool, released(case, ensemble, asked(case, count=30)).arrays)
    law = np.exp(-(np.arange(-15.0, 16.0) ** 2) / 2)
    tail = np.cumsum(np.convolve(law, law)[::-1])[::-1] / law.sum() ** 2  # of the difference: at least -30, -29, ...

    def above(lead: int) -> float:
        """Probability that lead + difference > 0."""
        return float(tail[min(max(1 - lead + 30, 0), 60)])

    own = votes_of(case, ensemble, rerun.rows)
    total = own.sum(axis=0)
    for party in range(len(case.parties)):
        less = total - own[party]
        leads = [(int(a[1] - a[0]), int(b[1] - b[0])) for a, b in zip(total, less, strict=True)]
        expected = sum(abs(above(before) - above(after)) for before, after in leads)
        assert rerun.flipped(party)[1] == pytest.approx(expected, abs=0.35)


@pytest.mark.parametrize(
    ("kind", "trained"), [(Effort(60, True), 9), (Effort(3, True), 6), (Effort(3, False), 2), (Effort(1, False), 2)]
)
def test_where_training_takes_long_some_parties_are_trained(
    kind: Effort, trained: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, ensemble = taught(made_rows(SIZES, skew=0.3), federation=HISTOGRAM)
    predicted = released(case, ensemble, asked(case))
    every = told(influence_rows(case, ensemble, predicted), "auc_change")
    monkeypatch.setattr(influence, "effort", lambda *_: kind)
    found = influence_rows(case, ensemble, predicted)
    some = told(found, "auc_change")
    assert len(every) == 9
    assert trained / 2 <= len(some) == run(found)["students_trained"] <= trained
    assert all(some[name] == every[name] for name in some)
    flips = {name: told(found, "labels_flipped")[name] + told(found, "labels_flipped_expected")[name] for name in every}
    assert max(flips, key=lambda name: flips[name]) in some


def test_a_student_that_had_an_opinion_is_not_followed() -> None:
    case, ensemble = taught(made_rows(SIZES), federation=INTERACTIVE, student={"rounds": 2})
    found = influence_rows(case, ensemble, released(case, ensemble, asked(case, 2)))
    assert {row.metric for row in found if row.scope == "party"} == {"winners_flipped"}


def test_a_method_that_is_absent_has_no_influence() -> None:
    case, ensemble = taught(made_rows(SIZES))
    assert influence_rows(case, ensemble, Predicted(absent="too few parties")) == []


def test_labels_of_another_run_are_refused() -> None:
    case, ensemble = taught(made_rows(SIZES), federation=GNMAX)
    predicted = released(case, ensemble, asked(case))
    turned = {**predicted.arrays, "labels": 1 - predicted.arrays["labels"]}
    with pytest.raises(DataError, match="labels are not those"):
        influence_rows(case, ensemble, Predicted(arrays=turned))


def test_rows_are_finite_and_stand_once() -> None:
    case, ensemble = taught(made_rows(SIZES, 3), federation=GNMAX)
    rows = influence_rows(case, ensemble, released(case, ensemble, asked(case)))
    assert all(np.isfinite(row.value) for row in rows)
    assert len({row[:4] for row in rows}) == len(rows)
    assert "accuracy_change" in {row.metric for row in rows}
    assert sum(row.scope == "group" and row.metric == "labels_flipped" for row in rows) == 4
