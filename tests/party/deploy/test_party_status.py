"""`consilium status`, and what `node start` tells: where a party stands, from what it was asked last."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from consilium.node.checks import examine
from consilium.node.kit import open_kit
from consilium.node.supernode import BACK, CONNECTED, NodeWatch
from consilium.party.deployed import HELLO, PARTY, TRAIN, standing_of
from consilium.party.home import open_home
from consilium.party.store import LastAnswer, Store
from consilium.protocol.files import held
from consilium.protocol.messages import PROTOCOL_VERSION, HelloRequest
from consilium.protocol.records import to_record
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.terms import NO_LEDGER
from tests.command_line import consilium
from tests.deploy.kits import edit, make_kits
from tests.federation import UNTOLD, make_home
from tests.party.test_client_app import call, context
from tests.party.test_node import hello


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"), collection="secure")


@pytest.fixture
def kit(sound: Path, tmp_path: Path) -> Path:
    kit = Path(shutil.copytree(sound / "party-ward-a", tmp_path / "party-ward-a"))
    assert open_kit(kit).state.exists()  # a start makes it
    return kit


def answer(at: int, refused: str = "", federation: str = "f", late: bool = False) -> LastAnswer:
    return LastAnswer(moment=f"2026-01-01T00:00:{at:02d}+00:00", refused=refused, federation=federation, late=late)


VOTE, UNMASK = "query.vote", "query.sa_unmask"
CASES = {
    "nothing": ({}, "not asked yet"),
    "enrolled": ({HELLO: answer(1)}, "enrolled, to be trained"),
    "refused": ({HELLO: answer(1, "refused: storage")}, "refused: storage. Make room on the party's disk"),
    "trained": ({HELLO: answer(1), TRAIN: answer(2)}, "takes part, and was not asked for votes yet"),
    "trained late": (
        {HELLO: answer(1, late=True), TRAIN: answer(2)},
        "takes part; it came late, and votes from the next questions on",
    ),
    "trained for another": ({HELLO: answer(1), TRAIN: answer(2, federation="g")}, "enrolled, to be trained"),
    "voted": ({HELLO: answer(1), TRAIN: answer(2), VOTE: answer(3)}, "takes part, and has voted"),
    "refused the last vote": (
        {HELLO: answer(1), TRAIN: answer(2), VOTE: answer(3), UNMASK: answer(4, "refused: threshold-not-met")},
        "of votes, refused: threshold-not-met. Wait for more parties, and ask again",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_standing(case: str) -> None:
    last, words = CASES[case]
    assert standing_of(last)[0] == words


def test_doctor_names_a_node_that_ran_and_is_not_started(kit: Path) -> None:
    def said(running: bool) -> tuple[str, str]:
        (result,) = examine([check for check in PARTY.way_checks(open_kit(kit), running) if check[0] == "node"])
        return result.level, result.what

    assert said(False) == ("ok", "not started yet")
    (open_kit(kit).logs / "supernode.log").touch()
    assert said(False) == ("advice", "this node is not started")
    assert said(True) == ("ok", "started")


def last_answers(folder: Path) -> dict[str, LastAnswer]:
    return open_home(folder).remembered().last_answers()


def enrol(kit: Path, **changes) -> None:
    """Ask the party of the kit as Flower would."""
    terms = open_home(kit).pinned_terms()
    assert terms is not None
    fields = {**terms.model_dump(), "protocol_version": PROTOCOL_VERSION, **dict(NO_LEDGER), **UNTOLD, **changes}
    call(to_record(HelloRequest(**fields)), context({"home": str(kit)}))


def test_what_a_party_answers_is_written_down_without_its_rows_or_reasons(kit: Path) -> None:
    enrol(kit, late=True)
    assert standing_of(last_answers(kit))[0] == "enrolled late, to be trained"
    enrol(kit, federation="0" * 64)
    (found,) = last_answers(kit).values()
    assert found.refused == "refused: pinned-terms"
    assert found.federation == "0" * 64
    found = PARTY.status(open_kit(kit))
    assert found.standing.startswith("refused: pinned-terms. Unpack the newest update")


def test_a_simulated_party_writes_nothing(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "p")
    call(to_record(hello()), context({"home": str(home)}))
    assert last_answers(home) == {}


def test_an_answer_does_not_fail_for_its_journal(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object):
        raise Refused(Rule.STORAGE)

    monkeypatch.setattr(Store, "note", full)
    enrol(kit)
    assert last_answers(kit) == {}
    assert PARTY.state(open_kit(kit)) == "0 queries answered ever"


def test_the_command_says_connection_standing_and_limits(kit: Path) -> None:
    done = consilium("status", kit)
    assert done.exit_code == 0, done.output
    assert "connection   not started" in done.stdout
    assert "standing     not asked yet" in done.stdout
    told: list[str] = []
    watch = NodeWatch(open_kit(kit), lambda _, what: told.append(what), lambda: PARTY.standing(open_kit(kit)))
    watch.tell("supernode", CONNECTED)
    with held(open_kit(kit).state / "lock", "the party"):
        found = consilium("status", kit, "--format", "json").json()
    assert found["connection"].startswith(f"{CONNECTED} (since ")
    assert (found["queries"], found["most_queries"], found["problem"]) == (0, 40, "")


def test_the_command_says_what_the_partys_own_policy_would_refuse(kit: Path) -> None:
    edit(kit / "policy.toml", "most_queries = 40", "most_queries = 39")
    found = consilium("status", kit, "--format", "json").json()
    assert found["epsilon"] is None
    assert "most-queries, requested 40, limit 39. Its people allow it with consilium node accept" in found["problem"]
    checked = consilium("doctor", kit)
    assert checked.exit_code == 1
    assert "most-queries, requested 40, limit 39" in checked.stdout


def test_the_nodes_own_log_tells_enrolment_and_connection(kit: Path) -> None:
    told: list[str] = []
    watch = NodeWatch(open_kit(kit), lambda _, what: told.append(what), lambda: PARTY.standing(open_kit(kit)))
    watch.tell("supernode", CONNECTED)
    watch.look()
    enrol(kit)
    watch.look()
    enrol(kit)  # a coordinator that was started anew: nothing has changed
    watch.look()
    watch.tell("supernode", BACK)
    enrol(kit, federation="0" * 64)
    watch.look()
    assert told[:3] == [CONNECTED, "enrolled, to be trained", BACK]
    assert told[3].startswith("refused: pinned-terms")
    assert len(told) == 4
