"""What a party or a second aggregator would refuse when it is asked, its doctor has said before."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.aggregator.home import open_home as open_second
from consilium.coordinator.config import QueryBudget
from consilium.node.checks import CheckResult, examine
from consilium.node.folder import NodeFolder
from consilium.node.join import join
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema
from consilium.sums.verified.messages import AggregatorRequest
from tests.federation import hello_of
from tests.node.folders import SECOND, Made, allow, asked_of, give_rows, make_small
from tests.node.test_members import kind_of

PARTY = "p00"
SMALL = {"mechanism": GNMax(sigma=40.0), "query_budget": QueryBudget(queries=10, answers=10)}


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Two aggregators; everybody allows what is asked. Not to be changed."""
    made = make_small(tmp_path_factory.mktemp("once"), "verified", **SMALL)
    for name in (PARTY, SECOND):
        allow(made.nodes[name], **asked_of(made.nodes[name]))
    return made


def line(**lines: object) -> Callable[[NodeFolder], None]:
    return lambda folder: allow(folder, **{**asked_of(folder), **lines})


def broken(folder: NodeFolder) -> None:
    (folder / "data.npz").write_text("x")


class Foreseen(NamedTuple):
    """spoil: makes the node refuse by the rule. check: of the doctor, that says so."""

    node: str
    rule: Rule
    spoil: Callable[[NodeFolder], None]
    check: str = "policy"


FORESEEN = [
    Foreseen(PARTY, Rule.MOST_EPSILON, line(most_epsilon=0.1)),
    Foreseen(PARTY, Rule.MOST_QUERIES, line(most_queries=9)),
    Foreseen(PARTY, Rule.LEAST_ROWS, line(least_rows_per_teacher=41), "data"),
    Foreseen(PARTY, Rule.SCHEMA, lambda folder: give_rows(folder, columns={"age": "years"}), "data"),
    Foreseen(PARTY, Rule.DATA, broken, "data"),
    Foreseen(SECOND, Rule.MOST_EPSILON, line(most_epsilon=0.1)),
]


def said_by_doctor(folder: NodeFolder, name: str) -> CheckResult:
    return next(result for result in examine(kind_of(folder).checks(folder, False)) if result.name == name)


def ask(made: Made, name: str) -> None:
    """The coordinator comes with the federation's terms, and has a party train."""
    if name == SECOND:
        fields = {**made.file.terms.model_dump(), "program": "", "protocol_version": PROTOCOL_VERSION}
        open_second(made.nodes[SECOND]).node().hello(AggregatorRequest(**fields))
        return
    home = open_home(made.nodes[PARTY])
    node = PartyNode(home.settings(), home.rows(), home.store())
    node.hello(hello_of(made.file.config))
    node.train(made.file.config.train_request())


@pytest.mark.parametrize("case", FORESEEN, ids=lambda case: f"{case.node} {case.rule}")
def test_what_a_node_would_refuse_its_doctor_says(made: Made, case: Foreseen) -> None:
    folder = made.nodes[case.node]
    assert said_by_doctor(folder, case.check).level == "ok"
    case.spoil(folder)
    found = said_by_doctor(folder, case.check)
    with pytest.raises(Refused) as refused:
        ask(made, case.node)
    assert (found.level, refused.value.refusal.rule) == ("wrong", case.rule)
    assert found.action


@pytest.mark.parametrize("name", [PARTY, SECOND])
def test_control_nothing_is_refused_within_the_policy(made: Made, name: str) -> None:
    ask(made, name)


def test_no_other_columns_are_read_than_the_folder_lists_and_its_people_allow(made: Made) -> None:
    """What is trained stands in the terms as a digest, and an operator may sign terms of another configuration."""
    config, folder = made.file.config, made.nodes[PARTY]
    listed = {key: getattr(config.rows, key)[:2] for key in ("features", "center", "scale")}
    rows = Schema(**listed, classes=config.rows.classes)
    join(made.again(config=config.model_copy(update={"rows": rows})).out, folder)
    allow(folder, **asked_of(folder))
    home = open_home(folder)
    assert home.policy.allowed_columns == config.rows.features[:2]
    node = PartyNode(home.settings(), home.rows(), home.store())
    node.hello(hello_of(config))
    with pytest.raises(Refused, match="1 columns would be read that allowed_columns does not name"):
        node.train(config.train_request())
