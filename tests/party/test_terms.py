"""A party is the verifier of the terms: one federation, ledger and pool, its own unit, and bounds on every number.
Of two coordinators with copies of one ledger it refuses the other once one has asked for votes."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from consilium.accounting.mechanisms import GNMax
from consilium.accounting.units import Unit
from consilium.coordinator.collection.means import Standing
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.events import EventLog, read_events
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.parts import Privacy
from consilium.node.limits import epsilon
from consilium.party import node as party_node
from consilium.party import store
from consilium.party.node import PartyNode
from consilium.party.policy import Policy
from consilium.protocol.config_files import load
from consilium.protocol.errors import NotEnoughParties
from consilium.protocol.messages import LedgerPosition
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.refusals import CURES, Refusal, Refused, Rule
from consilium.sums.terms import NO_LEDGER
from tests.coordinator.collection.test_greeting import CONFIG as GREETED
from tests.coordinator.collection.test_greeting import student
from tests.federation import FakeTransport, hello_of, make_config, make_home, make_rows, node_at, vote_request
from tests.federation import HomeFile as PartyFile

POOL = canonical_queries(make_rows(60, 5)[0], 3)
TREE = PoolTree.of_rows(POOL)
CONFIG = make_config(public=TREE.terms(0.05))


def at(batch: int, ledger: str = "0", head: str = "0") -> dict:
    return LedgerPosition(ledger=ledger * 64, batch=batch, head=head * 64).model_dump()


def vote(rows: np.ndarray, config=CONFIG, tree: PoolTree = TREE, **changes):
    places, proof = tree.prove(query_ids(rows))
    return vote_request(config, rows, **{"places": places, "proof": proof, **changes})


def member(folder: Path, config=CONFIG, **policy) -> PartyNode:
    party = node_at(make_home(folder, "p", most_teachers=3, **policy))
    party.hello(hello_of(config))
    party.train(config.train_request())
    return party


def refused(action, *arguments) -> Refusal:
    with pytest.raises(Refused) as caught:
        action(*arguments)
    return caught.value.refusal


def test_the_defaults_are_the_safe_ones() -> None:
    policy = Policy(allowed_classes=("a", "b"))
    assert (policy.collection, policy.unit, policy.allow_simulation) == ("secure", "party", False)


# One federation.


def pinned(folder: Path, config=CONFIG) -> PartyNode:
    home = make_home(folder, "p", most_teachers=3)
    settings = load(home / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
    (home / "party.toml").write_text(tomli_w.dumps({**settings, "terms": "terms.json"}))
    (home / "terms.json").write_text(config.terms().model_dump_json())
    return node_at(home)


OTHERS = {
    "another unit": {"privacy": Privacy(unit=Unit.RECORD, delta=1e-5)},
    "another pool": {"public": PoolTree.of_rows(POOL[:50]).terms(0.05)},
    "no pool": {"public": None},
    "another seed": {"seed": 8},
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_party_of_a_kit_takes_part_in_the_federation_of_its_terms_only(tmp_path: Path, case: str) -> None:
    party = pinned(tmp_path / "p")
    other = make_config(**{"public": CONFIG.public, **OTHERS[case]})
    assert refused(party.hello, hello_of(other)).rule is Rule.TERMS
    # nor if it claims to be the one that is pinned
    assert refused(party.hello, hello_of(other, federation=CONFIG.digest())).rule is Rule.TERMS
    party.hello(hello_of(CONFIG))
    before = member(tmp_path / "q", other)  # control: no terms
    joined = PartyNode(dataclasses.replace(before.settings, pinned=CONFIG.terms()), before.rows, before.store)
    assert refused(joined.vote, vote(POOL[:3], other)).rule is Rule.TERMS  # it has left the other one


# One ledger.


def stricter(party: PartyNode, config: FederationConfig) -> PartyNode:
    """The same party, when its policy allows no more than such a federation alone."""
    policy = party.settings.policy
    least = policy.model_copy(update={"most_epsilon": epsilon([config.promise()], policy) * 1.01})
    return PartyNode(dataclasses.replace(party.settings, policy=least), party.rows, party.store)


def test_another_ledger_of_the_same_federation_gets_nothing(tmp_path: Path) -> None:
    """A second coordinator, or one that lost its ledger: it would answer the same queries again, with fresh noise."""
    party = member(tmp_path / "p")
    party.vote(vote(POOL[:5]))
    assert refused(party.hello, hello_of(CONFIG, ledger="1" * 64)).rule is Rule.LEDGER
    assert refused(party.vote, vote(POOL[:5], **at(0, ledger="1"))).rule is Rule.LEDGER
    # as a federation of its own, it is charged
    other = make_config(public=CONFIG.public, name="again")
    strict = stricter(party, other)
    assert refused(strict.hello, hello_of(other, ledger="1" * 64)).rule is Rule.MOST_EPSILON


def test_federations_that_enrolled_beside_each_other_are_charged_together(tmp_path: Path) -> None:
    """Each fits alone when it enrols, since nothing was charged yet: only the first that asks for votes gets any."""
    configs = [make_config(public=CONFIG.public, name=name) for name in ("first", "second")]
    party = member(tmp_path / "p", configs[0])
    strict = stricter(party, configs[0])
    for config in configs:
        strict.hello(hello_of(config))
        strict.train(config.train_request())
    strict.vote(vote(POOL[:5], configs[0]))
    assert refused(strict.vote, vote(POOL[5:10], configs[1])).rule is Rule.MOST_EPSILON


def test_control_without_the_pin_the_second_ledger_gets_the_same_votes_uncharged(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(store, "check_position", lambda *_: None)
    party = member(tmp_path / "p")
    first = party.vote(vote(POOL[:5])).choices
    again = party.vote(vote(POOL[:5], **at(0, ledger="1"))).choices
    assert (first == again).all()


def test_a_ledger_that_has_gone_back_or_was_rewritten_is_refused(tmp_path: Path) -> None:
    party = member(tmp_path / "p")
    party.vote(vote(POOL[:5]))
    party.vote(vote(POOL[5:10], **at(3, head="a")))
    party.vote(vote(POOL[5:10], **at(3, head="a")))  # the same request again
    assert refused(party.vote, vote(POOL[10:15], **at(2, head="b"))) == Refusal(rule=Rule.LEDGER, limit=3, requested=2)
    assert refused(party.vote, vote(POOL[10:15], **at(3, head="b"))).rule is Rule.LEDGER
    party.vote(vote(POOL[10:15], **at(4, head="c")))


# One pool.


def test_only_rows_of_the_pool_are_answered(tmp_path: Path) -> None:
    party = member(tmp_path / "p")
    moved = POOL[:4].copy()
    moved[2, 1] = np.nextafter(moved[2, 1], np.float32(np.inf))
    places, proof = TREE.prove(query_ids(POOL[:4]))
    assert refused(party.vote, vote_request(CONFIG, moved, places=places, proof=proof)).rule is Rule.POOL
    assert refused(party.vote, vote_request(CONFIG, POOL[:4])).rule is Rule.POOL
    party.vote(vote(POOL[:4]))


def test_control_without_proofs_a_row_that_moved_by_an_ulp_is_answered_the_same(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(party_node, "proves", lambda *_: True)
    party = member(tmp_path / "p", config := make_config(public=TREE.terms(0.0)))
    rows = POOL[:40]
    moved = rows.copy()
    moved[:, 1] = np.nextafter(moved[:, 1], np.float32(np.inf))
    votes = [party.vote(vote_request(config, asked)).choices for asked in (rows, moved)]
    assert (votes[0] == votes[1]).all()


# Bounds on every number, before any work.


def event(**changes) -> str:
    return json.dumps([{**make_config(mechanism=GNMax(sigma=40.0)).promised_events()[0].to_json(), **changes}])


ONE = json.loads(event())[0]
NO_PROMISES = {
    Rule.MALFORMED: [
        "",
        '[{"type": "free"}]',
        "[" * 2000,
        event(sigma=1e6),  # 136 s and 13 GB, before
        event(sigma=1e-9),
        event(asked=10**18),
        event(answered=101, asked=100),
        event(more=1),
    ],
    Rule.PROMISE: [
        event(asked=0, answered=0),
        event(noise="continuous"),
        json.dumps([ONE, ONE]),
        event(teachers_per_party=2),
        json.dumps([ONE, {**ONE, "unit": "record"}]),
        json.dumps([{**ONE, "type": "distributed", "noise_shares": 3}]),
    ],
}


@pytest.mark.parametrize(("rule", "promise"), [(rule, each) for rule, some in NO_PROMISES.items() for each in some])
def test_promises_that_are_none_or_of_something_else_are_refused_before_any_work(
    tmp_path: Path, rule: Rule, promise: str
) -> None:
    party = node_at(make_home(tmp_path / "p", "p"))
    tracemalloc.start()
    try:
        assert refused(party.hello, hello_of(CONFIG, promise=promise)).rule is rule
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_more_queries_than_can_ever_be_answered_are_refused_unread(tmp_path: Path, monkeypatch) -> None:
    party = member(tmp_path / "p", most_queries=10)
    monkeypatch.setattr(party_node, "checked_queries", lambda *_: pytest.fail("work was done"))
    assert refused(party.vote, vote(POOL[:11])) == Refusal(rule=Rule.MOST_QUERIES, limit=10, requested=11)
    small = make_config(public=CONFIG.public, name="small", query_budget=QueryBudget(queries=4, answers=4))
    party.hello(hello_of(small))
    party.train(small.train_request())
    assert refused(party.vote, vote(POOL[:5], small)) == Refusal(rule=Rule.PROMISE, limit=4, requested=5)


# Its own unit.


def test_epsilon_is_compared_in_the_partys_own_unit(tmp_path: Path) -> None:
    """The same release: small for a record, several times that for a party with three teachers."""
    config = make_config(
        teachers_per_party=3, mechanism=GNMax(sigma=60.0), privacy=Privacy(unit=Unit.RECORD, delta=1e-5)
    )
    terms = config.terms()
    epsilons = {}
    for unit in ("record", "party"):
        party = node_at(make_home(tmp_path / unit, "p", most_teachers=3, unit=unit))
        epsilons[unit] = party.store.epsilon(terms, party.settings.policy)
    assert epsilons["party"] > 1.5 * epsilons["record"]  # three votes move against two
    limit = (epsilons["party"] + epsilons["record"]) / 2
    strict = node_at(make_home(tmp_path / "s", "p", most_teachers=3, most_epsilon=limit))
    assert refused(strict.hello, hello_of(config)).rule is Rule.MOST_EPSILON
    lax = node_at(make_home(tmp_path / "l", "p", most_teachers=3, most_epsilon=limit, unit="record"))
    lax.hello(hello_of(config))


# Two coordinators with copies of one ledger. The control: without the tokens of their starts both are answered.


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    return [make_home(tmp_path / f"p{number}", f"p{number}", most_teachers=2) for number in range(3)]


def served(homes: list[Path], folder: Path, first: int) -> list[str]:
    """One start of the coordinator with this folder, in which three rows are asked; what its log says."""
    folder.mkdir(exist_ok=True)
    log = EventLog(folder / "events.jsonl")
    try:
        FederationRun(FakeTransport(homes), GREETED, folder, log, student(3, first)).run()
    finally:
        log.close()
    return [event.words for event in read_events(folder / "events.jsonl")]


@pytest.fixture
def copied(homes: list[Path], tmp_path: Path) -> tuple[Path, Path]:
    first = tmp_path / "first"
    served(homes, first, 0)
    return first, Path(shutil.copytree(first, tmp_path / "second"))


@pytest.mark.parametrize("goes_on", [1, 0])
def test_once_one_was_answered_the_other_is_refused_and_says_so(
    homes: list[Path], copied: tuple[Path, Path], goes_on: int
) -> None:
    one, other = copied[goes_on], copied[1 - goes_on]
    served(homes, one, 3)
    with pytest.raises(NotEnoughParties, match=r"refused: (second-coordinator|ledger)"):
        served(homes, other, 6)
    words = [event.words for event in read_events(other / "events.jsonl") if event.kind == "left-out"]
    cure = CURES[Rule.SECOND_COORDINATOR]
    assert [cure in line and "refused: second-coordinator, requested 2, limit 2" in line for line in words] == (
        [True] * 3
    )
    served(homes, one, 9)


def test_control_without_tokens_both_are_answered(
    homes: list[Path], copied: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows, with fresh noise, and each ledger is charged for them once."""
    monkeypatch.setattr(Ledger, "begin_start", lambda _: ())
    monkeypatch.setattr(store, "_check_start", lambda *_: None)
    monkeypatch.setattr(Standing, "behind", lambda *_: None)
    first, second = copied
    served(homes, second, 3)
    served(homes, first, 3)


def test_a_start_that_asked_nothing_leaves_an_older_backup_good(homes: list[Path], copied: tuple[Path, Path]) -> None:
    first, backup = copied
    with pytest.raises(RuntimeError):
        log = EventLog(first / "events.jsonl")
        FederationRun(FakeTransport(homes), GREETED, first, log, _dies).run()
    served(homes, backup, 3)


def _dies(*_: object) -> None:
    raise RuntimeError


def test_a_request_of_the_one_that_was_left_is_refused(tmp_path: Path) -> None:
    """A party whose connection went to another coordinator and back, unseen."""
    party = node_at(make_home(tmp_path / "p", "p", most_teachers=2))

    def greet(*starts: str) -> None:
        party.hello(hello_of(GREETED, starts=[start * 16 for start in starts]))

    def follow(start: str) -> None:
        agreed, policy = party.agreed(GREETED.digest()), party.settings.policy
        party.store.charge(agreed, "", (), policy, 1, NO_LEDGER, start=start * 16)

    greet("a")
    follow("a")
    greet("a", "b")
    with pytest.raises(Refused) as caught:
        follow("a")
    assert caught.value.refusal.rule is Rule.SECOND_COORDINATOR
    follow("b")
    for starts in ("", "a", "ac", "bad"):
        with pytest.raises(Refused):
            greet(*starts)
    greet(*"abc")
