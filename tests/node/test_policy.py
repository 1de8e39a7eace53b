"""What a node's people allow: nothing is asked beyond a line, nothing is done before a yes, the word itself."""

from __future__ import annotations

import io
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.config import QueryBudget
from consilium.node.folder import NodeFolder
from consilium.node.home import LIMITS, Home, Request
from consilium.node.keys import make
from consilium.node.signed import EarlierFederation, join
from consilium.party.deployed import PARTY
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.protocol.errors import ConfigError, NotAccepted
from consilium.protocol.refusals import Refused
from consilium.protocol.schema import Schema
from tests.federation import hello_of, make_config
from tests.node.folders import SECOND, Made, asked_of, give_rows, make_small
from tests.node.folders import allow as write_lines


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Two aggregators. Not to be changed."""
    return make_small(tmp_path_factory.mktemp("once"), "verified")


def home_of(folder: NodeFolder) -> Home:
    from consilium.aggregator.deployed import open_home as open_second

    return open_home(folder) if folder.kind == "party" else open_second(folder)


def answered(request: Request, monkeypatch: pytest.MonkeyPatch, typed: str) -> tuple[bool | None, str]:
    """Whether something was allowed, None where it was refused; and what was shown."""
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    shown: list[str] = []
    try:
        return request.allow(shown.append), "\n".join(shown)
    except NotAccepted:
        return None, "\n".join(shown)


def lines_in(folder: NodeFolder) -> dict[str, Any]:
    return tomllib.loads(folder.policy_file.read_text())


@pytest.mark.parametrize("name", ["p00", SECOND])
@pytest.mark.parametrize("typed", ["", "no\n", "y\n", "YES\n", "yes please\n", "\nyes\n"])
def test_anything_but_the_word_writes_nothing(made: Made, monkeypatch, name: str, typed: str) -> None:
    folder = made.nodes[name]
    before = folder.policy_file.read_bytes()
    assert answered(home_of(folder).request(), monkeypatch, typed)[0] is None
    assert folder.policy_file.read_bytes() == before
    with pytest.raises(NotAccepted, match=r"not accepted yet: policy\.toml has no line for"):
        assert home_of(folder).policy


@pytest.mark.parametrize("name", ["p00", SECOND])
@pytest.mark.parametrize("typed", ["yes\n", "yes", " yes \nno\n"])
def test_a_yes_writes_exactly_what_is_asked_and_is_asked_once(made: Made, monkeypatch, name: str, typed: str) -> None:
    folder = made.nodes[name]
    asked = asked_of(folder)
    assert answered(home_of(folder).request(), monkeypatch, typed)[0] is True
    assert lines_in(folder) == asked
    assert f"terms {made.file.terms.digest()[:12]}" in folder.policy_file.read_text()
    assert home_of(folder).policy.model_dump(mode="json").items() >= asked.items()
    assert answered(home_of(folder).request(), monkeypatch, "") == (False, "")


BEYOND: dict[str, Any] = {
    "collection": "secure",
    "most_epsilon": 0.5,
    "most_queries": 99,
    "least_parties": 4,
    "allowed_classes": ["well", "dead"],
    "allowed_columns": ["age", "pressure"],
}


@pytest.mark.parametrize("key", BEYOND)
def test_what_is_asked_beyond_a_line_is_refused_whatever_is_typed(folder: NodeFolder, monkeypatch, key: str) -> None:
    write_lines(folder, **{key: BEYOND[key]})
    before = folder.policy_file.read_bytes()
    request = open_home(folder).request()
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(NotAccepted, match=f"{key}: .* is asked, policy.toml allows ") as caught:
        request.allow(print)
    assert f"or change {key} in" in caught.value.action
    assert folder.policy_file.read_bytes() == before
    write_lines(folder, **BEYOND)
    with pytest.raises(NotAccepted) as caught:
        open_home(folder).request().allow(print)
    assert [line.split(":")[0] for line in caught.value.what.split("; ")] == [*sorted(BEYOND, key=[*LIMITS].index)]


def test_a_node_counts_by_its_own_stricter_unit_and_delta(tmp_path: Path) -> None:
    privacy = {"unit": "record", "delta": 1e-5}
    folder = make_small(tmp_path, privacy=privacy, teachers_per_party=4).nodes["p00"]
    theirs = asked_of(folder)["most_epsilon"]
    write_lines(folder, unit="party", delta=1e-7)
    assert asked_of(folder)["most_epsilon"] > theirs
    write_lines(folder, **{**asked_of(folder), "unit": "party", "delta": 1e-7})
    assert (open_home(folder).policy.unit, open_home(folder).policy.delta) == ("party", 1e-7)


# What later folders ask.


def newer(made: Made, **changes: Any) -> None:
    values = {"simulation": False, "noise_seed": None, "collection": "verified", "noise_shares": 1, **changes}
    config = make_config(roster=made.file.config.roster, **values)
    before = EarlierFederation(
        digest=made.file.terms.federation, promise=made.file.terms.promise, queries=100, parties=("p00", "p01", "p02")
    )
    join(made.again(config=config, terms=config.terms(), earlier=[before]).out, made.nodes["p00"])


SMALL = {"mechanism": GNMax(sigma=40.0), "query_budget": QueryBudget(queries=10, answers=10)}


def test_terms_within_the_lines_are_served_without_a_word(made: Made, folder: NodeFolder, monkeypatch) -> None:
    write_lines(folder, **asked_of(folder))
    newer(made, **SMALL)
    assert answered(open_home(folder).request(), monkeypatch, "") == (False, "")
    assert open_home(folder).policy


@pytest.mark.parametrize(
    ("changes", "key"), [({"teachers_per_party": 2}, "most_teachers"), ({"simulation": True}, "allow_simulation")]
)
def test_terms_that_ask_for_more_are_refused_or_asked(made: Made, folder: NodeFolder, changes: dict, key: str) -> None:
    write_lines(folder, **asked_of(folder))
    newer(made, **SMALL, **changes)
    with pytest.raises(NotAccepted, match=key):
        assert open_home(folder).policy


# The screen.


def test_the_screen_says_towards_whom_what_is_asked_and_what_is_risked(folder: NodeFolder) -> None:
    text = " ".join("\n".join(open_home(folder).request().screen()).split())
    for part in (
        "p00, federation 'small'",
        "towards the student epsilon at most",
        "towards the coordinator epsilon at most",
        "towards the second aggregator epsilon at most",
        "earlier federations none",
        "columns read age, pressure, drowsy",
        "collected verified secure",
        "NOT WITHIN THE DEFAULT",
        "A yes writes into policy.toml, as they are asked: collection, unit",
    ):
        assert part in text, part
    assert text.count("roster ") == 1


def test_earlier_federations_names_before_and_parties_that_left_are_facts(made: Made) -> None:
    before = [
        EarlierFederation(digest=f"{place:064x}", promise=made.file.terms.promise, queries=70, parties=(name,))
        for place, name in enumerate(("old", "gone"), 1)
    ]
    keys = made.file.nodes["p01"]
    folder = made.nodes["p00"]
    alone = asked_of(folder)["most_epsilon"]
    join(made.again(earlier=before, succeeds={"p00": ["old"]}, revoked={"old": keys, "gone": keys}).out, folder)
    request = open_home(folder).request()
    assert request.about["earlier federations"].startswith("1; 70 questions answered, epsilon at most")
    assert request.about["names before"] == "old"
    assert "no row here is of a patient of gone" in request.about["left"]
    assert request.asked["most_queries"] == 70 + 100
    assert request.asked["most_epsilon"] > alone


def test_a_party_that_came_after_the_roster_is_told_to_wait(made: Made, tmp_path: Path) -> None:
    folder, enrolment = make("party", "p03", tmp_path / "p03")
    join(made.again(nodes={**made.file.nodes, "p03": enrolment.keys}).out, folder)
    give_rows(folder)
    write_lines(folder, **asked_of(folder))
    with pytest.raises(ConfigError, match="does not list this party"):
        PARTY.allowed(open_home(folder))


def test_no_other_columns_are_read_than_the_folder_lists_and_its_people_allow(made: Made) -> None:
    """What is trained stands in the terms as a digest, and an operator may sign terms of another configuration."""
    config, folder = made.file.config, made.nodes["p00"]
    listed = {key: getattr(config.rows, key)[:2] for key in ("features", "center", "scale")}
    rows = Schema(**listed, classes=config.rows.classes)
    join(made.again(config=config.model_copy(update={"rows": rows})).out, folder)
    write_lines(folder, **asked_of(folder))
    home = open_home(folder)
    assert home.policy.allowed_columns == config.rows.features[:2]
    node = PartyNode(home.settings(), home.rows(), home.store())
    node.hello(hello_of(config))
    with pytest.raises(Refused, match="1 columns would be read that allowed_columns does not name"):
        node.train(config.train_request())


def test_no_name_of_the_operators_writes_over_the_screen(tmp_path: Path) -> None:
    hostile = ("well", "ill\x1b[9A\x1b[2Ktowards the student  epsilon 0.1\ntowards the student  epsilon 0.1")
    folder = make_small(tmp_path).nodes["p00"]
    request = replace(open_home(folder).request(), asked={**asked_of(folder), "allowed_classes": list(hostile)})
    assert not [line for line in request.screen() if not line.isprintable()]
    assert [line for line in request.screen() if line.startswith("towards the student  epsilon 0.1")] == []
    shown = replace(request, about={**request.about, "columns read": hostile[1]})
    assert not [line for line in shown.screen() if not line.isprintable()]
