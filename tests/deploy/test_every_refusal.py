"""What a party would refuse when it is asked, its doctor has said before; or it is listed why it cannot."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.config import FederationConfig
from consilium.node import kinds
from consilium.node.kit import open_kit
from consilium.party.deployed import PARTY
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.party.policy import Policy
from consilium.party.spend import SpendStore
from consilium.protocol.config_files import load
from consilium.protocol.refusals import CURES, Refused, Rule
from tests.deploy.kits import edit, write_data
from tests.deploy.refusals import Spoil, found_by_doctor
from tests.federation import CLASSES, hello_of, make_rows


def policy(old: str, new: str) -> Spoil:
    return lambda kit: edit(kit / "policy.toml", old, new)


def asked_elsewhere(kit: Path) -> None:
    """The party answered 40 queries in another federation."""
    store = SpendStore(open_home(kit).spend_file)
    terms = load(kit / "federation.json", FederationConfig).terms().model_copy(update={"federation": "a" * 64})
    free = Policy(allowed_classes=CLASSES, most_queries=40, most_epsilon=float("inf"))
    store.enrol(terms, "0" * 64, free)
    store.charge(terms, "t", [f"{at:064x}" for at in range(40)], free)


def unsafe_federation(kit: Path) -> None:
    """The terms that were sent are of secure votes on any question."""
    terms = json.loads((kit / "terms.json").read_text())
    (kit / "terms.json").write_text(json.dumps({**terms, "pool": ""}))


def other_columns(kit: Path) -> None:
    x, y = make_rows(240, 0)
    np.savez(kit / "data.npz", x=x, y=y, features=np.array(("age", "weight", "drowsy")), classes=np.array(CLASSES))


def no_table(kit: Path) -> None:
    (kit / "data.npz").write_text("x")


@dataclass(frozen=True)
class Foreseen:
    """spoil: makes the party refuse by the rule. name: the check of doctor that says so."""

    spoil: Spoil
    name: str = "policy"


FORESEEN: dict[Rule, Foreseen] = {
    Rule.CLASSES: Foreseen(policy('"ill"', '"sick"')),
    Rule.MOST_TEACHERS: Foreseen(policy("most_teachers = 4", "most_teachers = 3")),
    Rule.VOTES: Foreseen(policy('collection = "secure"', 'collection = "distributed"')),
    Rule.EXACT_SUMS: Foreseen(policy("exact_sums = true", "exact_sums = false")),
    Rule.POOL: Foreseen(unsafe_federation),
    Rule.MOST_EPSILON: Foreseen(policy("most_epsilon = ", "most_epsilon = 0.1 # ")),
    Rule.MOST_QUERIES: Foreseen(asked_elsewhere),
    Rule.LEAST_PARTIES: Foreseen(policy("least_parties = 3", "least_parties = 5"), "roster"),
    Rule.LEAST_ROWS: Foreseen(lambda kit: write_data(kit, 1, rows=30), "data"),
    Rule.SCHEMA: Foreseen(other_columns, "data"),
    Rule.DATA: Foreseen(no_table, "data"),
}
OTHER_CHECKS: dict[Rule, str] = {
    Rule.NOT_ACCEPTED: "accepted: tests/deploy/test_acceptance.py",
    Rule.UNIT: "policy: tests/party/teachers/test_shards.py",
    Rule.ROSTER_MISMATCH: "roster: tests/deploy/test_refused_starts.py, of a coordinator, and test_kits_doctor.py",
    Rule.BAD_KEY: "roster and own keys: tests/coordinator/provision/test_own_keys.py",
    Rule.BAD_SIGNATURE: "roster and own keys, as BAD_KEY",
    Rule.POLICY: "policy, place and state, by whichever file it is",
    Rule.SIMULATION: "policy: no kit is of a simulated federation",
    Rule.STORAGE: "disk: tests/deploy/test_troubles.py",
    Rule.VERSION: "versions, against those of the operator; the student's against the coordinator: terms",
    Rule.PROMISE: "policy, where the terms cannot be promised at all",
    Rule.MALFORMED: "versions",
    Rule.ALREADY_ANSWERED: "rows left at the coordinator, terms at the student",
    Rule.OVERFLOW_RISK: "refused when it is provisioned",
}
"""Foreseen, and shown elsewhere."""
AT_RUN_TIME: dict[Rule, str] = {
    Rule.NODE_KIND: "a kit starts the app of its own kind: tests/aggregator/test_kinds.py",
    Rule.TERMS: "it takes two kits to see that they differ; each has its own signature and version",
    Rule.LEDGER: "only the party knows what it saw, and only the coordinator where its ledger stands",
    Rule.NOT_TRAINED: "a step of the protocol",
    Rule.INTERNAL: "a bug",
    Rule.UNSAFE_SESSION: "somebody lies, or two kits differ",
    Rule.INCONSISTENT_VIEW: "somebody lies",
    Rule.REPLAY: "a step of the protocol",
    Rule.BROKEN_BLOCK: "who is there when a question is asked",
    Rule.STAGE_ORDER: "a step of the protocol",
    Rule.THRESHOLD: "who is there when a question is asked",
}
"""Nobody can know before."""


def test_every_rule_is_foreseen_or_it_is_said_why_not() -> None:
    lists = [set(FORESEEN), set(OTHER_CHECKS), set(AT_RUN_TIME)]
    assert set().union(*lists) == set(Rule)
    assert sum(map(len, lists)) == len(Rule)


def refusal_of(out: Path, kit: Path) -> Refused:
    """Of the party, when the coordinator enrols it and has it train."""
    config = load(out / "coordinator" / "federation.json", FederationConfig)
    terms = json.loads((kit / "terms.json").read_text())
    node = PartyNode(open_home(kit))
    with pytest.raises(Refused) as refused:
        node.hello(hello_of(config, public=terms["pool"]))
        node.train(config.train_request())
    return refused.value


@pytest.mark.parametrize("rule", FORESEEN)
def test_what_a_party_would_refuse_its_doctor_says(out: Path, rule: Rule) -> None:
    kit, case = out / "party-ward-a", FORESEEN[rule]
    case.spoil(kit)
    found, refused = found_by_doctor(kit, case.name), refusal_of(out, kit)
    assert (found.level, refused.refusal.rule) == ("wrong", rule)
    if case.name != "data":  # there, `consilium party check` has every problem of every column
        assert str(refused.refusal) in found.what
        assert found.action.startswith(CURES[rule])


def test_a_party_that_would_refuse_starts_and_says_so(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It joins once its policy is mended, without a restart; until then its own log has the doctor's words."""
    kit, told, stop = out / "party-ward-a", [], threading.Event()
    FORESEEN[Rule.MOST_EPSILON].spoil(kit)
    stop.set()
    monkeypatch.setattr(kinds, "Supervisor", lambda *_: ExitStack())
    monkeypatch.setattr(kinds, "supernode", lambda *_: None)
    PARTY.start(open_kit(kit), lambda *line: told.append(line), stop)
    found = found_by_doctor(kit, "policy")
    assert ("policy", f"{found.what}. {found.action}") in told
