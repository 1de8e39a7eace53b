"""What is released is what is said to be released: of every mechanism, and of shipped scenarios.

The value that says it (`report.disclosure`) is held against what a label service hands out; texts that are made are
held against the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from html import unescape
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from consilium.accounting import mechanisms
from consilium.accounting.events import Mechanism
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.protocol.label_wire import terms_from_wire, terms_to_wire
from consilium.protocol.messages import CollectionMode
from consilium.protocol.noise import SeededNoise
from consilium.protocol.releases import AT_MOST, ReleaseKind
from consilium.report.disclosure import people
from consilium.simulations.report.build import render
from consilium.simulations.scenario import load_scenario
from consilium.simulations.shipped import Shipped
from consilium.student.pool import Pool
from consilium.student.run import run_student
from tests.coordinator.mechanisms.drawing import IN_SUMS, MECHANISMS
from tests.federation import FEATURES, make_config, make_rows
from tests.simulations.report.cases import Page, run
from tests.specs import student_of

TEACHERS = 20
MODES: tuple[CollectionMode, ...] = get_args(CollectionMode)
SHOWS = {
    ReleaseKind.WINNER: set(),
    ReleaseKind.EXACT: set(),
    ReleaseKind.WINNER_OR_ABSTENTION: {"abstention"},
    ReleaseKind.WINNER_OR_CONFIRMATION: {"abstention", "confirmation"},
    ReleaseKind.COUNTS: {"counts"},
}
"""What comes out beside labels."""


class Votes:
    """A collector: sums of 20 teachers, from unanimous to even, without the noise that others than the coordinator
    add. held: that they are said to hold."""

    def __init__(self, held: float) -> None:
        self.held = held

    def settle(self) -> None:
        pass

    def collect(self, queries: Queries, sigma: float, progress: Any = None) -> Counts:
        ones = np.arange(len(queries.rows)) % (TEACHERS + 1)
        counts = np.column_stack([TEACHERS - ones, ones])
        return Counts(counts, tuple(f"p{at:02d}" for at in range(TEACHERS)), TEACHERS, sigma=self.held)


def collected(mechanism: Mechanism, collection: CollectionMode, **changes: Any) -> FederationConfig:
    """A federation with this mechanism and way to collect votes; one giver's noise is sure."""
    budget = QueryBudget(queries=400, answers=400)
    hidden = {} if collection == "plaintext" else {"roster": "0" * 64, "noise_shares": 1}
    return make_config(
        **{"mechanism": mechanism, "collection": collection, "query_budget": budget, **hidden, **changes}
    )


def possible() -> Iterator[Any]:
    """Every mechanism with every way to collect its votes."""
    for mechanism in MECHANISMS:
        for votes in MODES if mechanism in IN_SUMS else MODES[:1]:
            yield pytest.param(mechanism, votes, id=f"{mechanism.name}-{votes}")


@pytest.fixture
def serve(tmp_path: Path, log: Any) -> Iterator[Any]:
    ledgers: list[Ledger] = []

    def build(config: FederationConfig) -> LabelService:
        ledgers.append(Ledger.of(tmp_path / f"{len(ledgers)}.db", config))
        return LabelService(config, ledgers[-1], Votes(float(config.noise_in_sums)), SeededNoise, TEACHERS, log)

    yield build
    for ledger in ledgers:
        ledger.close()


class TestTheValue:
    """Of every mechanism, in every way to collect votes, as a student gets it."""

    @pytest.mark.parametrize(("mechanism", "collection"), list(possible()))
    def test_it_is_what_a_label_service_hands_out(
        self, serve: Any, mechanism: Mechanism, collection: CollectionMode
    ) -> None:
        """A student that is sure of every second query; votes from 20 : 0 to 0 : 20. A party reads the same off its
        promise, which elsewhere than in plaintext is of noisy sums; and they are what the coordinator sees then."""
        config = collected(mechanism, collection)
        seen, plaintext = config.disclosure.towards_coordinator, collection == "plaintext"
        assert ("noisy sums" in seen) == config.noise_in_sums == (not plaintext)
        assert ("each party's votes" in seen) == plaintext and config.disclosure.audiences()[3].sees == seen
        assert len(config.disclosure.audiences()) == (5 if collection == "verified" else 4)
        promised = AT_MOST[config.node_event(9, 9).mechanism.name]
        assert promised is (config.disclosure.release if plaintext else ReleaseKind.COUNTS)
        service = serve(config)
        x, _ = make_rows(210, 3)
        p = np.where(np.arange(210)[:, None] % 2, [[0.95, 0.05]], [[0.5, 0.5]])
        answers, terms = service.ask(x, probabilities=p), service.describe()
        shown = {
            "counts": answers.counts is not None,
            "abstention": bool((answers.outcomes == Outcome.ABSTAINED).any()),
            "confirmation": bool((answers.outcomes == Outcome.REINFORCED).any()),
        }
        assert {name for name, there in shown.items() if there} == SHOWS[terms.release]
        assert (terms.release is ReleaseKind.EXACT) == (not mechanism.private)
        if answers.counts is not None:
            answered = answers.labels != NO_LABEL
            assert (answers.counts.argmax(axis=1) == answers.labels)[answered].all()
        if terms.release is ReleaseKind.WINNER_OR_CONFIRMATION:
            confirmed = answers.outcomes == Outcome.REINFORCED
            assert (answers.labels == p.argmax(axis=1))[confirmed].all()

    def test_every_event_that_a_promise_may_hold_has_a_kind(self) -> None:
        assert AT_MOST.keys() == {name for name, kind in mechanisms.MECHANISMS.items() if not kind.closing}

    def test_it_travels_and_cannot_contradict_the_noise(self, serve: Any) -> None:
        terms = serve(make_config()).describe()
        assert terms_from_wire(terms_to_wire(terms)).release is ReleaseKind.WINNER_OR_ABSTENTION
        for release, sigma in ((ReleaseKind.COUNTS, 0.0), (ReleaseKind.WINNER, 3.0)):
            with pytest.raises(Exception, match="with noise"):
                terms_from_wire(terms_to_wire(replace(terms, release=release, count_sigma=sigma)))


LABELS_LEAVE = re.compile(
    r"\b(released (?:labels?|winners?)|(?:labels?|winners?) (?:was|were|are|is) released|got a label)\b"
)
"""Said of a federation that releases counts, this is not true."""


def contradictions(text: str, kind: ReleaseKind) -> list[str]:
    """What a text about a federation that releases this says against it."""
    wrong = [match[0] for match in LABELS_LEAVE.finditer(text)] if kind is ReleaseKind.COUNTS else []
    other = (
        ["No count is released"] if kind is ReleaseKind.COUNTS else ["noisy histogram", "No exact count is released"]
    )
    return wrong + [words for words in other if words in text]


class TestEveryScenario:
    """What is said of a scenario does not contradict what it releases."""

    @pytest.mark.parametrize("scenario", ["stroke", "digits", "adult-250"])
    def test_card_report_and_terms(self, scenario: str, serve: Any, tmp_path: Path) -> None:
        federation = load_scenario(scenario).federation
        kind = federation.disclosure.release
        answers = 80 if federation.query_budget.answers == federation.query_budget.queries else 40
        changes = {"query_budget": QueryBudget(queries=80, answers=answers), "privacy": federation.privacy}
        config = collected(federation.mechanism, federation.collection, **changes)
        service = serve(config)
        x, y = make_rows(90, 5)
        run_student(service, Pool(FEATURES, x[:60], x[60:], y[60:]), student_of(C=1.0), tmp_path, seed=0)
        card = json.loads((tmp_path / "student" / "student.json").read_text())
        text = " ".join((tmp_path / "student" / "MODEL_CARD.md").read_text().split())
        assert card["release"] == kind
        assert card["count_sigma"] == config.released_sigma(TEACHERS)
        law = service.describe().law
        assert card["label_law"] == (None if law is None else asdict(law))
        assert kind.sentence in text and contradictions(text, kind) == []
        assert all(each.who in text for each in people())
        data = replace(run(), release=kind, collection=federation.collection, mechanism=federation.describe())
        for public in (False, True):
            page = " ".join(unescape(Page(render(data, public)).text).split())
            assert kind.sentence in page and contradictions(page, kind) == []

    def test_the_default_and_digits_release_labels(self) -> None:
        kinds = {name: load_scenario(name).federation.disclosure.release for name in Shipped.SCENARIO.files()}
        assert kinds.pop("stroke") is ReleaseKind.WINNER_OR_ABSTENTION
        assert kinds.pop("digits") is ReleaseKind.WINNER
        assert set(kinds.values()) == {ReleaseKind.COUNTS}

    def test_the_check_finds_what_contradicts(self) -> None:
        assert contradictions("It was trained on released labels; 9 labels were released.", ReleaseKind.COUNTS)
        assert contradictions(ReleaseKind.WINNER.sentence, ReleaseKind.COUNTS)
        assert contradictions(ReleaseKind.COUNTS.sentence, ReleaseKind.WINNER)
        assert not any(contradictions(kind.sentence, kind) for kind in ReleaseKind)
