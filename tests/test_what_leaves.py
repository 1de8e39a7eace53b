"""What is released is what is said to be released: of every mechanism, and of shipped scenarios.

The value that says it (`report.disclosure`) is held against what a label service hands out; texts that are made are
held against the value.
"""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from consilium.accounting import mechanisms
from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import Distributed, DistributedTwoPhase
from consilium.accounting.target import round_up, worst_case
from consilium.accounting.units import Towards
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import expected, promised, promises, towards_coordinator, towards_nodes
from consilium.coordinator.served import ServedFederation
from consilium.node.home import towards_whom
from consilium.node.limits import epsilon
from consilium.node.signed import read_signed
from consilium.party.policy import Policy
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.protocol.label_wire import terms_from_wire, terms_to_wire
from consilium.protocol.messages import CollectionMode
from consilium.protocol.noise import SeededNoise
from consilium.protocol.releases import AT_MOST, ReleaseKind
from consilium.report.disclosure import Bound, epsilon_text, people
from consilium.report.words import plural
from consilium.simulations.council.runs import PrivacyStatement
from consilium.simulations.report.build import render
from consilium.simulations.report.privacy import audiences, guarantees_of, shown_guarantees, title_of
from consilium.simulations.scenario import load_scenario
from consilium.student.pool import Pool
from consilium.student.run import run_student
from tests.command_line import consilium
from tests.coordinator.mechanisms.drawing import IN_SUMS, MECHANISMS
from tests.deploy.site import SECOND, make_site
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


PRIVATE = [case for case in possible() if case.values[0].private]
"""Of which an epsilon at delta 1e-5 is proved at all."""


def promised_of(mechanism: Mechanism, collection: CollectionMode) -> tuple[FederationConfig, dict[Bound, float]]:
    """A federation, and each epsilon that holds towards somebody, from sigma itself and not from the configuration.

    Whoever sees noisy sums has the events of these, of 2/3 of the mechanism's variance under masks, half of it of two
    aggregators (with one sure giver each, as in `collected`).
    """
    few = QueryBudget(queries=30, answers=30)
    config = collected(mechanism, collection, query_budget=few)
    own, privacy = config.mechanism, config.privacy
    claim = {"unit": privacy.unit, "neighbouring": privacy.neighbouring}
    event = own.event(30, 30, teachers_per_party=config.teachers_per_party, **claim)
    found = {Bound.STUDENT: worst_case([event], config.privacy.delta).epsilon}
    if collection != "plaintext":
        part = 1 / 2 if collection == "verified" else 2 / 3
        sigmas = [value for name, value in own.parameters().items() if name.startswith("sigma")]
        drawn = [round_up(math.sqrt(part) * sigma) for sigma in sigmas]
        kind = Distributed if len(drawn) == 1 else DistributedTwoPhase
        shown = kind(*drawn, noise_shares=1)
        sums = replace(event, mechanism=shown, asked=30, answered=30, towards=Towards.COORDINATOR)
        found[Bound.NODES] = worst_case([sums], config.privacy.delta).epsilon
    return config, found


S, N, L, NONE = Bound.STUDENT, Bound.NODES, Bound.LARGER, Bound.TRUSTED
BOUNDS = {"plaintext": [S, S, S, NONE], "secure": [S, S, L, N], "verified": [S, S, S, N, N]}
"""Of student, public, other parties, coordinator and second aggregator."""


@pytest.mark.parametrize(("mechanism", "collection"), PRIVATE)
class TestEachNumber:
    """Every way to say what is promised to a node says that node's number, and never another's."""

    def test_what_the_program_computes(self, mechanism: Mechanism, collection: CollectionMode) -> None:
        config, right = promised_of(mechanism, collection)
        assert promised(config).epsilon == pytest.approx(right[Bound.STUDENT], rel=1e-9)
        warned = expected(config, 4)
        assert warned.epsilon_nodes == pytest.approx(right.get(Bound.NODES, 0.0), rel=1e-9)
        nodes = towards_coordinator(config)
        assert (nodes is None) == (not config.noise_in_sums) == (collection == "plaintext")
        if nodes is not None:
            assert nodes.epsilon == pytest.approx(right[Bound.NODES], rel=1e-9)
        bounds = [view.bound for view in config.disclosure.audiences()]
        assert bounds == BOUNDS[collection]

    def test_report_public_report_and_their_tables(self, mechanism: Mechanism, collection: CollectionMode) -> None:
        config, right = promised_of(mechanism, collection)
        stated = {name: guarantee.to_json() for name, guarantee in promises(config).items()}
        shown = shown_guarantees(
            {**stated, "spent": stated["guarantee"], "data_dependent": stated["guarantee"]}, collection
        )
        data = replace(run(), collection=collection, release=config.disclosure.release, guarantees=shown)
        found = guarantees_of(shown)
        stated = {title_of(name): epsilon_text(item.epsilon) for name, item in found.items() if item.publishable}
        rows = {line.name: line.cells[1].text for line in audiences(data, found).lines}
        right[Bound.LARGER] = max(right.values())
        for view in config.disclosure.audiences(data.party_label, plural(data.party_label)):
            expected = epsilon_text(right[view.bound]) if view.bound in right else view.bound.value
            assert stated.get(str(rows[view.who]), rows[view.who]) == expected, view.who
        for public in (False, True):
            page = " ".join(unescape(Page(render(data, public)).text).split())
            assert all(view.sees in page for view in config.disclosure.audiences("hospital", "hospitals"))
            if config.disclosure.noise_in_sums:
                assert "The nodes’ guarantee" in page
            else:
                assert "no limit: it must be trusted with this" in page

    def test_card_terms_and_lines(self, serve: Any, mechanism: Mechanism, collection: CollectionMode) -> None:
        config, right = promised_of(mechanism, collection)
        terms = serve(config).describe()
        assert terms_from_wire(terms_to_wire(terms)) == terms
        assert terms.epsilon == pytest.approx(right[Bound.STUDENT], rel=1e-9)
        assert terms.epsilon_nodes == pytest.approx(right.get(Bound.NODES, 0.0), rel=1e-9)
        line, stated = towards_nodes(config), right.get(Bound.NODES)
        if stated is None:
            assert line.startswith("no epsilon towards the coordinator: it is trusted with ")
            assert line.endswith(config.disclosure.towards_coordinator)
        else:
            assert line.startswith(f"epsilon at most {epsilon_text(stated)} towards the coordinator")
            whom = [view.who for view in config.disclosure.audiences() if view.bound is Bound.NODES]
            assert all(who in line for who in whom)
        privacy = {
            **{key: getattr(promised(config), key) for key in ("delta", "unit", "relation", "towards")},
            "collection": collection,
            "noise": "system",
            "epsilon_guaranteed": promised(config).epsilon,
            "epsilon_student": right[Bound.STUDENT],
            **({"epsilon_nodes": stated} if config.noise_shares else {}),
        }
        told = " ".join(PrivacyStatement.of(privacy).lines())
        assert f"{epsilon_text(right[Bound.STUDENT])}" in told
        assert ("no epsilon towards the coordinator" in told) == (not config.noise_in_sums)
        if stated is not None:
            assert epsilon_text(stated) in told

    def test_a_party_and_its_account(self, mechanism: Mechanism, collection: CollectionMode) -> None:
        """By its own unit and delta, which are here those of the federation."""
        config, right = promised_of(mechanism, collection)
        privacy = config.privacy
        policy = Policy(
            allowed_classes=("a", "b"), unit=privacy.unit, neighbouring=privacy.neighbouring, delta=privacy.delta
        )
        terms = config.terms()
        charged = epsilon((terms.promise,), policy)
        assert charged == pytest.approx(right.get(Bound.NODES, right[Bound.STUDENT]), rel=1e-9)
        assert bool(terms.student) == config.disclosure.noise_in_sums
        line = towards_whom(terms, policy, charged)
        own = right[Bound.STUDENT] if terms.student else charged
        assert line.startswith(f"epsilon at most {epsilon_text(own)} towards the student and the public; ")
        nodes = config.disclosure.towards_nodes(right.get(Bound.NODES, 0))
        assert line.endswith(nodes)


@pytest.fixture(scope="module", params=["plaintext", "verified", "secure"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FederationConfig]:
    """Folders of three wards that never ran, and the coordinator's configuration."""
    made = make_site(
        tmp_path_factory.mktemp("whose"),
        collection=request.param,
        mechanism={"name": "gnmax", "sigma": 60.0},
        query_budget={"queries": 40, "answers": 40},
        privacy={"unit": "party", "delta": 1e-5},
        minimum_parties=3,
        teachers_per_party=1,
    )
    return made, read_signed(made / "out" / "federation", ServedFederation).file.config


class TestNodes:
    """As the commands of nodes say it."""

    def numbers(self, config: FederationConfig) -> tuple[str, str]:
        """Of student and nodes; "none" where no noise is in the sums."""
        nodes = towards_coordinator(config)
        return epsilon_text(promised(config).epsilon), "none" if nodes is None else epsilon_text(nodes.epsilon)

    def check(self, text: str, config: FederationConfig) -> None:
        student, nodes = self.numbers(config)
        assert student != nodes
        assert f"epsilon at most {student} towards the student and the public" in text
        if nodes == "none":
            assert "no epsilon towards the coordinator: it is trusted with each party's votes" in text
        else:
            assert f"epsilon at most {nodes} towards the coordinator" in text

    def test_coordinator(self, site: tuple[Path, FederationConfig]) -> None:
        folder, config = site
        self.check(" ".join(consilium("status", folder / "coordinator").stdout.split()), config)
        page = consilium("status", folder / "coordinator", "--format", "json").json()
        nodes = towards_coordinator(config)
        assert page["epsilon_student"] == promised(config).epsilon
        assert page["epsilon_nodes"] == (None if nodes is None else nodes.epsilon)

    def test_party_and_second_aggregator(self, site: tuple[Path, FederationConfig]) -> None:
        folder, config = site
        for node in ["ward-a", *([SECOND] if config.collection == "verified" else [])]:
            self.check(" ".join(consilium("status", folder / node).stdout.split()), config)
            findings = consilium("doctor", folder / node, "--format", "json").json()["findings"]
            (promise,) = [found["what"] for found in findings if found["name"] == "policy"]
            self.check(promise, config)


def test_no_array_is_in_a_repr() -> None:
    """Votes, labels and rows lie in arrays: no dataclass of those who hold them shows one, so none reaches a log."""
    seen = 0
    for room in ("aggregator", "coordinator", "node", "party", "protocol", "student", "sums"):
        for found in pkgutil.walk_packages(importlib.import_module(f"consilium.{room}").__path__, f"consilium.{room}."):
            for kind in vars(importlib.import_module(found.name)).values():
                if isinstance(kind, type) and kind.__module__ == found.name and is_dataclass(kind):
                    arrays = [field for field in fields(kind) if "ndarray" in str(field.type)]
                    seen += len(arrays)
                    assert not [field.name for field in arrays if field.repr], kind
    assert seen > 30
