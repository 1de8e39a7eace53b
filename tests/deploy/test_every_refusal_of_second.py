"""The same of a second aggregator: what its start refuses, or the coordinator is refused by it, its doctor has said."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from consilium.aggregator.deployed import AGGREGATOR, NOT_YET
from consilium.aggregator.home import open_home
from consilium.aggregator.node import AggregatorNode
from consilium.aggregator.store import GivenStore
from consilium.coordinator.config import FederationConfig
from consilium.node import flower, kinds
from consilium.node.checks import wait_for_ports
from consilium.node.kit import open_kit
from consilium.protocol.config_files import load
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.refusals import CURES_OF_SECOND, Refused, Rule
from consilium.sums.aggregators.wire import AggregatorRequest
from consilium.sums.roster import VerifiedRoster
from consilium.sums.terms import NO_LEDGER
from tests.aggregator.given_rules import rules_given
from tests.deploy.kits import SECOND, edit, make_kits
from tests.deploy.refusals import Spoil, found_by_doctor, said_by_start
from tests.deploy.test_refused_starts import newer_database, newer_state, replaced, unsigned

KIT = f"aggregator-{SECOND}"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kits of verified votes, with keys that the second aggregator made, in which nothing is wrong; not to be
    changed."""
    return make_kits(
        tmp_path_factory.mktemp("sound"), own=[SECOND], collection="verified", exact_sums=True, minimum_parties=3
    )


@pytest.fixture
def kit(sound: Path, tmp_path: Path) -> Path:
    """A copy of its own."""
    return Path(shutil.copytree(sound / KIT, tmp_path / KIT))


def settings(old: str, new: str) -> Spoil:
    return lambda kit: edit(kit / "aggregator.toml", old, new)


def policy(old: str, new: str) -> Spoil:
    return lambda kit: edit(kit / "policy.toml", old, new)


def written(name: str, content: str) -> Spoil:
    return lambda kit: (kit / name).write_text(content)


def changed_terms(**changes: Any) -> Spoil:
    def spoil(kit: Path) -> None:
        terms = json.loads((kit / "terms.json").read_text())
        replaced(kit, "terms.json", json.dumps({**terms, **changes}).encode())

    return unsigned(spoil)


def served(kit: Path) -> GivenStore:
    """It has been introduced."""
    home = open_home(kit)
    terms = home.pinned_terms()
    assert terms is not None
    store = GivenStore(home.store_file)
    with store.transaction() as given:
        given.keep_terms(terms)
    return store


def newer_given(kit: Path) -> None:
    served(kit)
    newer_database(kit, "given.db")


def damaged_given(kit: Path) -> None:
    served(kit)
    with closing(sqlite3.connect(kit / "state" / "given.db")) as connection:
        connection.execute("""UPDATE terms SET content = '{"federation"'""")
        connection.commit()


def damaged_earlier(kit: Path) -> None:
    """Terms of another federation that it gave a sum in, which count in its policy."""
    store, other = served(kit), "a" * 64
    with store.transaction() as given:
        given.charge(other, 1, 1, ["00" * 32], 0b11)
    with closing(sqlite3.connect(kit / "state" / "given.db")) as connection:
        connection.execute("INSERT INTO terms VALUES (?, ?)", (other, "{}"))
        connection.commit()


def own_port(kit: Path) -> None:
    (kit / "monitor.toml").write_text(f"port = {open_kit(kit).node_port}\n")


REFUSED: dict[str, tuple[Spoil, str, str]] = {
    "a file was changed": (written("terms.json", "{}"), "signature", "not as the federation's"),
    "a file was lost": (lambda kit: (kit / "roster.json").unlink(), "signature", "roster.json"),
    "a newer program's state": (newer_state, "versions", "used by consilium-pate 9.9, in format 99"),
    "who used the state is unreadable": (
        lambda kit: written("version.json", "{")(open_kit(kit).state), "versions", "version.json is not valid JSON",
    ),
    "another name": (settings(f'name = "{SECOND}"', 'name = "bored"'), "place", "the kit is that of 'board'"),
    "settings unreadable": (policy("[policy]", "[policy"), "place", "not valid TOML"),
    "a key that settings do not have": (policy("exact_sums", "exact_sum"), "place", "exact_sum"),
    "no settings": (lambda kit: (kit / "aggregator.toml").unlink(), "place", "aggregator.toml"),
    "no terms pinned": (settings('terms = "terms.json"', ""), "state", "pins no terms"),
    "terms unreadable": (unsigned(lambda kit: replaced(kit, "terms.json", b"{")), "state", "terms.json cannot be read"),
    "a promise of nonsense": (changed_terms(promise="[1]"), "state", "terms.json: malformed-request"),
    "given.db of a newer program": (newer_given, "state", "format 99, this program knows"),
    "given.db is no database": (
        lambda kit: (open_kit(kit).state / "given.db").write_bytes(b"none" * 999), "state", "given.db: DatabaseError",
    ),
    "given.db is damaged": (damaged_given, "state", "given.db"),
    "terms of an earlier federation are damaged": (damaged_earlier, "state", "given.db"),
    "its own keys were lost": (lambda kit: (kit / "sealing.pem").unlink(), "own keys", "holds no sealing.pem"),
    "monitor.toml unreadable": (written("monitor.toml", "port ="), "monitor", "not valid TOML"),
    "monitor.toml takes its own port": (own_port, "monitor", "is node_port of kit.json"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_second_aggregator_is_refused_in_the_words_of_its_doctor(kit: Path, case: str) -> None:
    spoil, name, said = REFUSED[case]
    assert found_by_doctor(kit, name).level == "ok"
    spoil(kit)
    found = found_by_doctor(kit, name)
    assert (found.level, said in found.what) == ("wrong", True), found
    assert (found.what, found.action) == said_by_start(kit, AGGREGATOR.start)
    assert found.action or "did you mean" in found.what
    assert "party" not in f"{found.what} {found.action}"


def test_a_second_aggregator_needs_its_port_too(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "wait_for_ports", partial(wait_for_ports, seconds=0.0))
    with socket.socket() as other:
        other.bind(("127.0.0.1", open_kit(kit).node_port))
        other.listen()
        found = found_by_doctor(kit, "port")
        assert (found.what, found.action) == said_by_start(kit, AGGREGATOR.start)
    assert "change node_port in kit.json" in found.action


def test_its_path_must_be_one_that_flower_can_pass_on(kit: Path) -> None:
    moved = kit.rename(kit.parent / "the board")
    found = found_by_doctor(moved, "place")
    assert (found.what, found.action) == said_by_start(moved, AGGREGATOR.start)
    assert "a path with spaces" in found.what


def test_it_is_refused_with_another_flower(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower, "version", lambda _: "1.50.0")
    found = found_by_doctor(kit, "flower")
    assert "flwr 1.50.0 is installed, and it is another version" in found.what
    assert (found.what, found.action) == said_by_start(kit, AGGREGATOR.start)


@pytest.mark.parametrize("spoil", [newer_given, damaged_given])
def test_whoever_tells_where_it_stands_goes_on(kit: Path, spoil: Spoil) -> None:
    """A state that becomes unreadable while it runs does not end what watches it."""
    assert AGGREGATOR.standing(open_kit(kit)) == NOT_YET
    served(kit)
    assert AGGREGATOR.standing(open_kit(kit)) == "serves, no sum given yet"
    spoil(kit)
    assert AGGREGATOR.standing(open_kit(kit)) == "its files cannot be read: consilium doctor"


# What it refuses when it is asked.


def other_roster(kit: Path) -> None:
    """One of the same keys, with other terms than the federation asks for."""
    roster = VerifiedRoster.load(kit / "roster.json")
    table = roster.model_dump(mode="json")
    replaced(kit, "roster.json", json.dumps({**table, "least_accepted": roster.least_accepted - 1}).encode())


def asked_elsewhere(kit: Path) -> None:
    """It gave sums of as many queries in another federation as its policy allows in all."""
    with served(kit).transaction() as given:
        ids = [f"{at:064x}" for at in range(open_home(kit).policy.most_queries)]
        given.charge("b" * 64, 1, 1, ids, 0b11)


@dataclass(frozen=True)
class ForeseenOfSecond:
    """spoil: makes it refuse by the rule. name: the check of doctor that says so."""

    spoil: Spoil
    name: str = "policy"


FORESEEN: dict[Rule, ForeseenOfSecond] = {
    Rule.VOTES: ForeseenOfSecond(changed_terms(collection="secure")),
    Rule.EXACT_SUMS: ForeseenOfSecond(policy("exact_sums = true", "exact_sums = false")),
    Rule.POOL: ForeseenOfSecond(changed_terms(public="")),
    Rule.MALFORMED: ForeseenOfSecond(changed_terms(public="{}")),
    Rule.MOST_EPSILON: ForeseenOfSecond(policy("most_epsilon = ", "most_epsilon = 0.1 # ")),
    Rule.LEAST_PARTIES: ForeseenOfSecond(policy("least_parties = 3", "least_parties = 5")),
    Rule.ROSTER_MISMATCH: ForeseenOfSecond(unsigned(other_roster)),
    Rule.SIMULATION: ForeseenOfSecond(changed_terms(simulation=True)),
}
OTHER_CHECKS: dict[Rule, str] = {
    Rule.MOST_QUERIES: "queries, as advice: a coordinator may ask fewer than it promised; the test below",
    Rule.NOT_ACCEPTED: "accepted: tests/deploy/test_acceptance.py",
    Rule.POLICY: "place, state, keys and roster, by whichever file it is: the cases above",
    Rule.STORAGE: "disk: tests/deploy/test_troubles.py",
    Rule.VERSION: "versions, against those of the operator",
    Rule.BAD_SIGNATURE: "own keys and roster: tests/coordinator/provision/test_second_aggregator.py",
    Rule.OVERFLOW_RISK: "refused when it is provisioned",
}
"""Foreseen, and shown elsewhere."""
AT_RUN_TIME: dict[Rule, str] = {
    Rule.NODE_KIND: "a kit starts the app of its own kind: tests/aggregator/test_kinds.py",
    Rule.TERMS: "it takes two kits to see that they differ; each has its own signature and version",
    Rule.PROMISE: "the coordinator asks something else than its own terms, which this kit has",
    Rule.INTERNAL: "a bug",
    Rule.UNSAFE_SESSION: "the coordinator lies, or two kits differ",
    Rule.INCONSISTENT_VIEW: "one of the two aggregators lies",
    Rule.REPLAY: "a step of the protocol",
    Rule.ALREADY_ANSWERED: "which rows a student will ask is not known; the coordinator leaves out those that it knows",
    Rule.BROKEN_BLOCK: "who is there when a question is asked",
    Rule.STAGE_ORDER: "a step of the protocol",
    Rule.THRESHOLD: "who is there when a question is asked",
}
"""Nobody can know before."""


def test_every_rule_of_a_second_aggregator_is_foreseen_or_it_is_said_why_not() -> None:
    lists = [set(FORESEEN), set(OTHER_CHECKS), set(AT_RUN_TIME)]
    assert set().union(*lists) == rules_given()
    assert sum(map(len, lists)) == len(rules_given())


def hello(kit: Path, **changes: Any) -> AggregatorRequest:
    """The coordinator comes with the terms that the kit has."""
    terms = open_home(kit).pinned_terms()
    assert terms is not None
    fields = {
        **terms.model_dump(by_alias=False),
        **NO_LEDGER.model_dump(),
        "program": "",
        "protocol_version": PROTOCOL_VERSION,
    }
    return AggregatorRequest(**{**fields, **changes})


@pytest.mark.parametrize("rule", FORESEEN)
def test_what_a_second_aggregator_would_refuse_its_doctor_says(kit: Path, rule: Rule) -> None:
    case = FORESEEN[rule]
    assert found_by_doctor(kit, case.name).level == "ok"
    case.spoil(kit)
    found = found_by_doctor(kit, case.name)
    with pytest.raises(Refused) as refused:
        AggregatorNode(open_home(kit)).hello(hello(kit))
    assert (found.level, refused.value.refusal.rule) == ("wrong", rule)
    assert str(refused.value.refusal) in found.what
    assert found.action.startswith(CURES_OF_SECOND[rule])
    assert "party" not in f"{found.what} {found.action}".replace("for a party", "")


def test_nothing_is_refused_by_a_sound_kit(kit: Path, sound: Path) -> None:
    """The control; and the terms of the kit are those that the coordinator comes with."""
    config = load(sound / "coordinator" / "federation.json", FederationConfig)
    assert open_home(kit).pinned_terms() == config.terms()
    assert AggregatorNode(open_home(kit)).hello(hello(kit)).name == SECOND


def test_its_doctor_advises_where_its_queries_will_not_last(kit: Path) -> None:
    asked_elsewhere(kit)
    found, most = found_by_doctor(kit, "queries"), open_home(kit).policy.most_queries
    assert found.level == "advice"
    assert f"{most} in sums of other federations" in found.what
    assert f"policy: {most}" in found.what
    assert found.action == CURES_OF_SECOND[Rule.MOST_QUERIES]


def test_a_second_aggregator_that_would_refuse_starts_and_says_so(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves once its policy is mended, without a restart; until then its own log has the doctor's words."""
    told: list[tuple[str, str]] = []
    stop = threading.Event()
    FORESEEN[Rule.MOST_EPSILON].spoil(kit)
    stop.set()
    monkeypatch.setattr(kinds, "Supervisor", lambda *_: ExitStack())
    monkeypatch.setattr(kinds, "supernode", lambda *_: None)
    AGGREGATOR.start(open_kit(kit), lambda *line: told.append(line), stop)
    found = found_by_doctor(kit, "policy")
    assert ("policy", f"{found.what}. {found.action}") in told
