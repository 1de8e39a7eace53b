"""A party checks the coordinator's ledger against its own account: an honest one holds, one check finds each lie.

The control of each lie: no other check sees it, so that without this one it would pass.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy.runs import write_statement
from consilium.coordinator.ledger import Ledger
from consilium.node.checks import CheckResult, examine
from consilium.node.kit import open_kit
from consilium.node.signed_statement import SIGNING
from consilium.party.home import Home, open_home
from consilium.party.promise import epsilon
from consilium.party.spend import SpendStore
from consilium.party.statement import StatementCheck
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, LedgerError
from consilium.protocol.identity import Identity
from consilium.protocol.ledger_statement import ChargedBatch, LedgerStatement, charged_query, read_statement
from consilium.protocol.refusals import Refused, Rule
from consilium.report.disclosure import epsilon_text
from tests.command_line import consilium
from tests.coordinator.verify.runs import kit_run, run_of

NOISY = {
    "collection": "distributed",
    "mechanism": {"name": "gnmax", "sigma": 4.0},
    "minimum_parties": 3,
    "query_budget": {"queries": 40, "answers": 40},
}
Batches = list[ChargedBatch]


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> Path:
    """A run of four batches of five queries, with noise by the parties."""
    return kit_run(tmp_path_factory.mktemp("statement"), **NOISY)


@pytest.fixture
def run(ended: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ended, tmp_path / "run"))


def statement_of(run: Path) -> LedgerStatement:
    return write_statement(open_kit(run / "kits" / "coordinator"), run / "statement.json")


def home_of(run: Path) -> Home:
    return open_home(run / "kits" / "party-ward-a")


def found(run: Path, statement: LedgerStatement) -> dict[str, CheckResult]:
    return {result.name: result for result in examine(StatementCheck(home_of(run), statement).checks)}


def wrong(run: Path, statement: LedgerStatement) -> dict[str, str]:
    return {name: result.what for name, result in found(run, statement).items() if result.level != "ok"}


def told(run: Path, change: Callable[[Batches], Batches], **fields: object) -> LedgerStatement:
    """The honest statement, changed and signed again: the coordinator lies."""
    honest = statement_of(run)
    changed = honest.model_copy(update={"batches": change(list(honest.batches)), **fields})
    return changed.signed(Identity.load(run / "kits" / "coordinator" / "identity.pem"))


def test_an_honest_ledger_holds(run: Path) -> None:
    statement = statement_of(run)
    assert wrong(run, statement) == {}
    texts = {name: result.what for name, result in found(run, statement).items()}
    assert texts["queries"] == "20 queries that this party answered, each charged"
    assert "20 of 40" in texts["query_budget"]
    to_student, own, so_far = map(float, re.findall(r"at most (\d+\.\d+)", texts["guarantee"]))
    assert 0 < to_student < so_far < own
    config = load(run / "kits" / "coordinator" / "federation.json", FederationConfig)
    policy = home_of(run).policy
    assert (to_student, own, so_far) == tuple(
        float(epsilon_text(epsilon(events, policy)))
        for events in ([config.event(5, 5)] * 4, config.held_to(), [config.node_event(5, 5)] * 4)
    )
    assert re.match(r"4 batches, through each of [4-9] positions", texts["positions"])


@pytest.mark.parametrize(
    "mechanism",
    [
        {"name": "distributed", "threshold": 6, "sigma": 2.0, "noise_shares": 2},
        {"name": "confident", "threshold": 7, "sigma1": 5.0, "sigma2": 4.0},
        {"name": "histogram", "sigma": 4.0},
    ],
    ids=lambda table: table["name"],
)
def test_it_holds_whatever_the_mechanism_on_noisy_sums(tmp_path: Path, mechanism: dict) -> None:
    run = kit_run(tmp_path, **{**NOISY, "mechanism": mechanism})
    assert wrong(run, statement_of(run)) == {}


def test_a_statement_holds_no_votes_labels_or_ids(run: Path) -> None:
    statement = statement_of(run)
    config = load(run / "kits" / "coordinator" / "federation.json", FederationConfig)
    with closing(Ledger(run_of(run) / "ledger.db", config.digest(), "", read_only=True)) as ledger:
        ids = [query_id for batch in ledger.batches() for query_id in batch.query_ids]
        salt = ledger._meta["salt"]
    text = (run / "statement.json").read_text()
    assert not any(query_id in text for query_id in (*ids, salt))
    assert set(statement.batches[0].model_dump()) == {"event", "queries", "left_over", "secret"}
    assert "answered" not in json.loads(statement.batches[0].event)
    # two ledgers of the very same content have other commitments: nobody can try votes out
    with sqlite3.connect(run_of(run) / "ledger.db") as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'salt'", ("0" * 64,))
    with pytest.raises(LedgerError, match="hash chain is broken at batch 1"):
        statement_of(run)


def roll_back(run: Path, keep: int) -> Ledger:
    """The ledger as an older backup has it: the first `keep` batches."""
    path = run_of(run) / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "DELETE FROM evidence WHERE query_id IN (SELECT query_id FROM releases WHERE seq > ?)", (keep,)
        )
        for table in ("releases", "batches"):
            connection.execute(f"DELETE FROM {table} WHERE seq > ?", (keep,))
        connection.execute("DELETE FROM closing")
    config = load(run / "kits" / "coordinator" / "federation.json", FederationConfig)
    return Ledger(path, config.digest(), "")


def test_a_ledger_that_was_rolled_back_and_grew_past_what_was_seen_is_found(run: Path) -> None:
    """Control: the party itself, which compares with the last position only, goes on with it."""
    config = load(run / "kits" / "coordinator" / "federation.json", FederationConfig)
    with closing(Ledger(run_of(run) / "ledger.db", config.digest(), "", read_only=True)) as ledger:
        lost = ledger.batches()[1:]
    with closing(roll_back(run, 1)) as ledger:
        for batch in lost:  # the same queries once more, with fresh noise
            other = replace(batch, labels=np.zeros_like(batch.labels))
            ledger.commit(other, 40, 40)
        position = ledger.position()
        ledger.commit(replace(lost[0], query_ids=("f" * 64,) * 1, **one_row(lost[0])), 40, 40)
        grown = ledger.position()
    spend = SpendStore(home_of(run).spend_file)
    assert position.batch == 4
    spend.follow(config.digest(), grown)  # not noticed
    with closing(sqlite3.connect(home_of(run).spend_file)) as connection:
        connection.execute("DELETE FROM heads WHERE batch = 5")  # as if it had not been asked since
        connection.execute("UPDATE ledgers SET batch = 3, head = (SELECT head FROM heads WHERE batch = 3)")
        connection.commit()
    problems = wrong(run, statement_of(run))
    assert list(problems) == ["positions"]
    assert "has gone back and grown again" in problems["positions"]


def one_row(batch) -> dict:
    """The first row of a batch's arrays, and an event for it."""
    event = {**batch.event, "asked": 1, "answered": int(batch.answered[0])}
    return {"event": event, "labels": batch.labels[:1], "reinforced": batch.reinforced[:1], "counts": None}


def test_a_ledger_that_went_back_is_refused_when_it_asks(run: Path) -> None:
    with closing(roll_back(run, 1)) as ledger:
        position = ledger.position()
    with pytest.raises(Refused) as caught:
        SpendStore(home_of(run).spend_file).follow(statement_of(run).federation, position)
    assert caught.value.refusal.rule is Rule.LEDGER
    assert set(wrong(run, statement_of(run))) == {"positions", "queries"}


def cheaper(batches: Batches) -> Batches:
    event = json.loads(batches[-1].event)
    event["sigma"] *= 2
    text = json.dumps(event, sort_keys=True, separators=(",", ":"))
    return [*batches[:-1], batches[-1].model_copy(update={"event": text})]


def fewer(batches: Batches) -> Batches:
    event = json.loads(batches[-1].event)
    event["asked"] -= 1
    text = json.dumps(event, sort_keys=True, separators=(",", ":"))
    return [*batches[:-1], batches[-1].model_copy(update={"event": text})]


def without_a_query(batches: Batches) -> Batches:
    event = json.loads(batches[-1].event)
    event["asked"] -= 1
    text = json.dumps(event, sort_keys=True, separators=(",", ":"))
    return [*batches[:-1], batches[-1].model_copy(update={"event": text, "queries": batches[-1].queries[:-1]})]


def twice(batches: Batches) -> Batches:
    return [*batches, batches[-1]]


def left_over(batches: Batches) -> Batches:
    """Queries of a later batch are said to be left over by an earlier one, after which labels were given."""
    first = batches[-2].model_copy(update={"left_over": batches[-1].queries})
    return [*batches[:-2], first, *more(1, batches[-1])]


def more(count: int, like: ChargedBatch) -> Batches:
    """Batches of other queries than this party's."""
    fresh = iter(range(10**6))

    def other() -> str:
        return hashlib.sha256(f"{next(fresh)}".encode()).hexdigest()

    return [like.model_copy(update={"queries": [other() for _ in like.queries]}) for _ in range(count)]


def too_many(batches: Batches) -> Batches:
    return [*batches, *more(5, batches[-1])]


LIES: dict[str, tuple[Callable[[Batches], Batches], str, str]] = {
    "less noise charged than promised": (cheaper, "events", "sigma"),
    "fewer queries charged than listed": (fewer, "events", "asked"),
    "a query that was answered is charged nowhere": (without_a_query, "queries", "1 of 20 queries"),
    "a query charged twice": (twice, "queries", "5 queries are charged in two batches"),
    "queries left over, and labels afterwards": (left_over, "queries", "leaves queries over"),
    "more queries than promised": (too_many, "query_budget", "45 queries"),
}


def forget_last(run: Path) -> None:
    """The party was told of the last batch but one last; what stands in the last one is news."""
    with closing(sqlite3.connect(home_of(run).spend_file)) as connection:
        last = connection.execute("SELECT MAX(batch) FROM heads").fetchone()[0]
        assert last <= 3
        connection.execute("DELETE FROM heads WHERE batch > 2")
        connection.execute("UPDATE ledgers SET batch = 2, head = (SELECT head FROM heads WHERE batch = 2)")
        connection.commit()


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_by_one_check_alone(run: Path, lie: str) -> None:
    change, check, text = LIES[lie]
    forget_last(run)
    assert wrong(run, statement_of(run)) == {}
    problems = wrong(run, told(run, change))
    assert list(problems) == [check]
    assert text in problems[check]


def test_a_batch_that_is_missing_is_found(run: Path) -> None:
    assert "positions" in wrong(run, told(run, lambda batches: batches[:2]))
    assert "positions" in wrong(run, told(run, lambda batches: [*batches[:1], *batches[2:], *more(1, batches[-1])]))


def test_queries_since_the_last_batch_may_still_be_charged(run: Path) -> None:
    """A statement that is made while an answer is under way speaks against nobody; one batch later it does."""
    with closing(sqlite3.connect(home_of(run).spend_file)) as connection:
        (asked_at,) = connection.execute("SELECT batch FROM asked_at").fetchone()
        assert asked_at == 3
        connection.execute("DELETE FROM heads WHERE batch > 3")
        connection.commit()
    statement = told(run, lambda batches: batches[:3])
    result = found(run, statement)["queries"]
    assert (result.level, "5 of 20" in result.what) == ("advice", True)
    later = told(run, lambda batches: [*batches[:3], *more(1, batches[-1])])
    assert found(run, later)["queries"].level == "wrong"


def test_another_ledger_of_the_same_federation_is_found(run: Path) -> None:
    statement = told(run, lambda batches: batches, ledger="e" * 64)
    assert {"ledger"} <= set(wrong(run, statement))
    assert "another ledger" in wrong(run, statement)["ledger"]
    other = told(run, lambda batches: batches, federation="e" * 64)
    assert list(wrong(run, other)) == ["ledger"]


def test_queries_of_a_failed_question_are_told_apart_from_those_that_are_missing(run: Path) -> None:
    """Control: the same statement without the list of those that no answer came of."""
    config, spend = load(run / "kits" / "coordinator" / "federation.json", FederationConfig), home_of(run).spend_file
    failed = [f"{number:064x}" for number in range(3)]
    with closing(sqlite3.connect(spend)) as connection:
        teachers, asked = connection.execute("SELECT teachers, federation FROM given").fetchone()
        rows = [(teachers, 1, bytes.fromhex(name), asked) for name in failed]
        connection.executemany("INSERT INTO given VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    with closing(Ledger(run_of(run) / "ledger.db", config.digest(), "")) as ledger:
        ledger.voted_on(failed, ["ward-a", "ward-b"])
    statement = statement_of(run)
    assert wrong(run, statement) == {}
    assert "20 charged; 3 questions were put to parties and not answered" in found(run, statement)["queries"].what
    assert "queries" in wrong(run, told(run, lambda batches: batches, unanswered=[]))
    released = told(run, lambda batches: batches, unanswered=[*statement.unanswered, statement.batches[0].queries[0]])
    assert "and said to be not answered" in wrong(run, released)["queries"]


def test_an_altered_statement_is_not_the_coordinators(run: Path) -> None:
    statement = statement_of(run)
    assert list(wrong(run, statement.model_copy(update={"made": "yesterday"}))) == ["signature"]
    assert list(wrong(run, statement.model_copy(update={"signature": ""}))) == ["signature"]
    assert list(wrong(run, statement.signed(Identity.generate()))) == ["signature"]


def test_with_clear_votes_it_is_said_that_nobody_can_tell_who_signed(tmp_path: Path) -> None:
    run = kit_run(tmp_path)
    statement = statement_of(run)
    assert wrong(run, statement) == {}, "kits tell the key with which statements are signed"
    (home_of(run).folder / SIGNING).unlink()  # as in a kit that was made before
    assert list(wrong(run, statement)) == ["signature"]
    assert found(run, statement)["signature"].level == "advice"


def test_queries_after_the_last_answer_are_in_the_ledger(tmp_path: Path) -> None:
    """Parties voted on them before anybody knew that there was no room left."""
    run = kit_run(tmp_path, query_budget={"queries": 40, "answers": 7})
    statement = statement_of(run)
    assert len(statement.batches[-1].left_over) > 0
    assert wrong(run, statement) == {}
    hidden = told(run, lambda batches: [*batches[:-1], batches[-1].model_copy(update={"left_over": []})])
    assert "queries" in wrong(run, hidden)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-10],
        lambda text: "[]",
        lambda text: text.replace('"format":1', '"format":2'),
        lambda text: text.replace('"queries":["', '"queries":["x'),
        lambda text: text.replace('"made"', '"mad"'),
    ],
)
def test_what_is_no_statement_is_refused(run: Path, change: Callable[[str], str]) -> None:
    statement_of(run)
    path = run / "statement.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(ConfigError):
        read_statement(path)


@pytest.mark.parametrize("event", ["{}", "[", '{"type":"gnmax","sigma":1e300,"asked":5}', "NaN"])
def test_an_event_that_is_none_is_a_finding(run: Path, event: str) -> None:
    statement = told(run, lambda batches: [*batches, *more(1, batches[-1].model_copy(update={"event": event}))])
    assert "was charged no release event" in wrong(run, statement)["events"]


def test_the_command_says_it_and_ends_with_1(run: Path) -> None:
    kits = run / "kits"
    made = consilium("coordinator", "statement", str(kits / "coordinator"), str(run / "of-ledger.json"))
    assert (made.exit_code, "4 batches, 20 queries" in made.stdout) == (0, True)
    arguments = ("audit", str(kits / "party-ward-b"), "--statement", str(run / "of-ledger.json"))
    sound = consilium(*arguments)
    assert (sound.exit_code, "the ledger is what this node was told" in sound.stdout) == (0, True)
    text = (run / "of-ledger.json").read_text()
    (run / "of-ledger.json").write_text(text.replace('"made":"2', '"made":"3'))
    broken = consilium(*arguments, "--format", "json")
    assert (broken.exit_code, broken.json()["holds"]) == (1, False)
    advice = consilium("audit", str(kits / "party-ward-b"))
    assert (advice.exit_code, "--statement FILE.json" in advice.stderr) == (2, True)


def test_a_query_is_named_under_its_ledger_only() -> None:
    assert charged_query("a" * 64, "b" * 64) != charged_query("c" * 64, "b" * 64)
