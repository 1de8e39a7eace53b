"""Secure votes of whole parties in memory: what is charged, and when, and what a party does not help with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.data.mapping import DataRules
from consilium.data.private_rows import MemoryRows
from consilium.party.home import PartySettings, Policy
from consilium.party.node import PartyNode
from consilium.party.promise import promise_of
from consilium.party.store import Store
from consilium.party.voting import Lot
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import ThresholdNotMet
from consilium.sums.roster import Roster
from consilium.sums.secure.machine import Aggregation, drive
from consilium.sums.secure.messages import SecAggMessage, Stage
from consilium.sums.secure.terms import MaskedTerms
from consilium.sums.terms import NO_LEDGER
from consilium.sums.voter import QuerySet
from tests.federation import CLASSES, FEATURES, cast, hello_of, make_config, make_rows

QUERIES = canonical_queries(make_rows(12, 5)[0], len(FEATURES))


def party_in_memory(name: str, seed: int = 0, **settings: Any) -> PartyNode:
    """A party of 40 rows, whose policy allows hidden votes."""
    x, y = make_rows(40, seed)
    policy = Policy(allowed_classes=CLASSES, least_rows_per_teacher=5, most_epsilon=float("inf"), allow_simulation=True)
    rules = DataRules(allow_one_class=True)
    rows = MemoryRows({"x": x, "y": y, "features": np.array(FEATURES), "classes": np.array(CLASSES)}, rules)
    return PartyNode(replace(PartySettings(name, policy, rules), **settings), rows, Store.in_memory())


class Federation:
    """Five parties that have trained, and the coordinator of their sums."""

    def __init__(self, **changes: Any) -> None:
        identities = {f"p{index}": Identity.generate() for index in range(5)}
        self.signer = Identity.generate()
        public = {name: identity.public.hex() for name, identity in identities.items()}
        self.roster = Roster.build(public, self.signer.public.hex())
        budget = QueryBudget(queries=20, answers=20)
        self.config: FederationConfig = make_config(
            collection="secure", roster=self.roster.digest, noise_shares=self.roster.sure,
            mechanism=GNMax(sigma=8.0), query_budget=budget, **changes,
        )  # fmt: skip
        noise = promise_of(self.config.terms()).noise(1)
        assert noise is not None
        self.noise = {"sigma": noise.sigma, "noise_shares": noise.shares}
        self.parties: dict[str, PartyNode] = {}
        for seed, (name, identity) in enumerate(identities.items()):
            party = party_in_memory(name, seed, identity=identity, roster=self.roster)
            party.hello(hello_of(self.config))
            party.train(self.config.train_request())
            self.parties[name] = party
        self.errors: dict[Stage, Exception] = {}

    def machine(self, queries: np.ndarray = QUERIES, **changes: object) -> Aggregation:
        values: dict[str, Any] = {**self.noise, "position": NO_LEDGER, **changes}
        terms = MaskedTerms.of_queries(self.roster, self.config.digest(), queries, 2, 1, **values)
        return Aggregation.begin(self.roster, self.signer, terms, queries=queries, invited=list(self.parties))

    def send(self, stage: Stage, requests: Mapping[str, SecAggMessage]) -> dict[str, WireModel | str]:
        replies: dict[str, WireModel | str] = {}
        for name, request in requests.items():
            try:
                replies[name] = getattr(self.parties[name].secure, stage.value.removeprefix("sa_"))(request)
            except (Refused, ConsiliumError) as error:
                self.errors[stage] = error
                replies[name] = str(error)
        return replies

    def answered(self) -> set[int]:
        return {party.store.answered() for party in self.parties.values()}


@pytest.fixture
def federation() -> Federation:
    return Federation()


def test_the_sum_is_that_of_the_votes_and_of_noise(federation: Federation) -> None:
    made = drive(federation.machine(), federation.send)
    digest, total = federation.config.digest(), np.zeros((len(QUERIES), 2), dtype=np.int64)
    for name, party in federation.parties.items():
        trained = party.teachers(digest)
        total += cast(trained, trained.schema.inputs(QUERIES), Lot(name, digest, query_ids(QUERIES)))
    noise = np.asarray(made.sums) - total
    assert 0 < np.abs(noise).max() < 6 * 8.0 * np.sqrt(5 / federation.roster.sure)
    assert federation.answered() == {12}


def test_votes_are_charged_before_they_leave_under_masks_and_once(federation: Federation) -> None:
    """Of a session that comes to no end too: t others can unmask it."""
    machine = federation.machine()
    for stage in (Stage.ADVERTISE, Stage.SHARE):
        machine.take(federation.send(stage, machine.requests()))
    assert federation.answered() == {0}
    federation.send(Stage.MASKED, machine.requests())
    assert federation.answered() == {12}
    drive(federation.machine(), federation.send)
    assert federation.answered() == {12}
    with pytest.raises(ThresholdNotMet):  # fresh noise on the same queries, of which all have helped with a sum
        drive(federation.machine(), federation.send)
    assert federation.answered() == {12}


@pytest.mark.parametrize("changes", [{"sigma": 4.0}, {"noise_shares": 2}])
def test_a_session_with_other_noise_than_was_promised_is_refused(federation: Federation, changes: dict) -> None:
    with pytest.raises(ThresholdNotMet):
        drive(federation.machine(**changes), federation.send)
    refused = federation.errors[Stage.ADVERTISE]
    assert isinstance(refused, Refused) and refused.refusal.rule is Rule.PROMISE
    assert federation.answered() == {0}


def test_a_sum_for_a_ledger_that_went_back_is_refused(federation: Federation) -> None:
    later = NO_LEDGER.model_copy(update={"batch": 1})
    drive(federation.machine(position=later), federation.send)
    assert {party.store.federation(federation.config.digest()).asked for party in federation.parties.values()} == {2}
    with pytest.raises(ThresholdNotMet):
        drive(federation.machine(canonical_queries(make_rows(5, 6)[0], len(FEATURES))), federation.send)
    refused = federation.errors[Stage.ADVERTISE]
    assert isinstance(refused, Refused) and refused.refusal.rule is Rule.LEDGER


def test_noisy_sums_are_priced_for_whoever_sees_them(federation: Federation) -> None:
    """Towards a student, who sees a label, the same noise costs less."""
    party, promise = party_in_memory("p0", roster=federation.roster), federation.config.promise()
    with pytest.raises(Refused) as caught:
        party.hello(hello_of(federation.config, promise=promise.replace('"coordinator"', '"student"')))
    assert caught.value.refusal.rule is Rule.PROMISE
    party.hello(hello_of(federation.config, promise=promise))


def test_noise_in_more_shares_than_are_sure_to_be_in_a_sum_is_refused(federation: Federation) -> None:
    roster = federation.roster
    config = make_config(collection="secure", roster=roster.digest, noise_shares=roster.sure + 1)
    with pytest.raises(Refused) as caught:
        party_in_memory("p0", roster=roster).hello(hello_of(config))
    assert caught.value.refusal.rule is Rule.PROMISE


@pytest.mark.parametrize("simulation", [False, True])
def test_noise_of_a_seed_is_drawn_in_a_simulation_only(simulation: bool) -> None:
    federation, drawn = Federation(simulation=simulation, noise_seed=None), []
    for _ in range(2):
        machine, party = federation.machine(), federation.parties["p0"]
        terms = MaskedTerms.parse(machine.requests()["p0"].descriptor)  # pyright: ignore
        seeded = PartyNode(replace(party.settings, noise_seed=5), party.rows, party.store)
        nothing = np.zeros(0)
        _, noise = seeded.secure.sources(terms, QuerySet(QUERIES, terms.query_set, nothing, nothing))
        drawn.append(noise(50.0, (50, 2)))
    assert (drawn[0] == drawn[1]).all() == simulation


def test_what_cannot_be_charged_is_not_given(federation: Federation) -> None:
    drive(federation.machine(), federation.send)
    more = canonical_queries(make_rows(9, 6)[0], len(FEATURES))
    with pytest.raises(ThresholdNotMet):
        drive(federation.machine(more), federation.send)
    refused = federation.errors[Stage.MASKED]
    assert isinstance(refused, Refused) and refused.refusal.rule is Rule.PROMISE
    assert federation.answered() == {12}


def test_a_party_without_a_roster_or_a_key_gives_to_no_sum(federation: Federation) -> None:
    hello = hello_of(federation.config)
    with pytest.raises(ConsiliumError, match="no roster for such votes"):
        party_in_memory("p0").hello(hello)
    keyless = party_in_memory("p0", roster=federation.roster)
    keyless.hello(hello)
    machine = federation.machine()
    with pytest.raises(ConsiliumError, match="no signing key for such votes"):
        keyless.secure.advertise(machine.requests()["p0"])  # pyright: ignore
