"""Both promises stand beside each other everywhere, and towards nobody is another's number said.

Of every mechanism with every way to collect votes: each epsilon is computed here from sigma itself, and held against
what the program computes, and against every text that states it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import Distributed, DistributedTwoPhase
from consilium.accounting.target import round_up, worst_case
from consilium.accounting.units import Towards
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.privacy import expected, promised, promises, towards_coordinator, towards_nodes
from consilium.coordinator.served import ServedFederation
from consilium.node.home import towards_whom
from consilium.node.limits import epsilon
from consilium.node.signed import read_signed
from consilium.party.policy import Policy
from consilium.protocol.label_wire import terms_from_wire, terms_to_wire
from consilium.protocol.messages import CollectionMode
from consilium.report.disclosure import Bound, epsilon_text
from consilium.report.words import plural
from consilium.simulations.council.statement import PrivacyStatement
from consilium.simulations.report.build import render
from consilium.simulations.report.guarantees import guarantees_of, shown_guarantees, title_of
from consilium.simulations.report.privacy import audiences
from tests.command_line import consilium
from tests.deploy.site import SECOND, make_site
from tests.simulations.report.cases import Page, run
from tests.test_what_leaves import collected, possible, serve

__all__ = ["serve"]  # a fixture

PRIVATE = [case for case in possible() if case.values[0].private]
"""Of which an epsilon at delta 1e-5 is proved at all."""


def promised_of(mechanism: Mechanism, collection: CollectionMode) -> tuple[FederationConfig, dict[Bound, float]]:
    """A federation, and each epsilon that holds towards somebody, from sigma itself and not from the configuration.

    Whoever sees noisy sums has the events of these, of 2/3 of the mechanism's variance under masks, half of it of two
    aggregators (with one sure giver each, as in `collected`).
    """
    few = QueryBudget(queries=30, answers=30)
    config = collected(mechanism, collection, query_budget=few)
    own = config.mechanism
    event = own.event(
        asked=30,
        answered=30,
        unit=config.privacy.unit,
        neighbouring=config.privacy.neighbouring,
        teachers_per_party=config.teachers_per_party,
    )
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
