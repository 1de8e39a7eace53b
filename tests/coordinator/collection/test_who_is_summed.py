"""Who is in a secure sum: whoever spoils it is left out."""

from __future__ import annotations

import json

import pytest

from consilium.coordinator.collection.secure import SecureCollector
from consilium.protocol.errors import ConfigError
from consilium.protocol.records import refusal_to_record
from consilium.protocol.refusals import Refusal, Rule
from consilium.sums.errors import BadShare, ThresholdNotMet
from consilium.sums.secure.machine import Aggregation
from tests.coordinator.collection.cluster import PARTIES, ask, queries, told
from tests.federation import drop

pytestmark = pytest.mark.slow

SHARED = "query.sa_share"
WITHOUT_P03 = ("p00", "p01", "p02", "p04", "p05", "p06")


def accuse(record):
    return refusal_to_record(Refusal(rule=Rule.BAD_KEY, party="p03"))


ACCUSED = {(index, SHARED): accuse for index in (0, 1, 2, 4)}
"""Four of seven refuse p03's key: with p03 in the session, too few are left."""


def once(fault):
    """The fault in the first exchange only: an honest party accuses nobody who is not there."""
    left = [fault]
    return lambda record: left.pop()(record) if left else record


def test_whom_many_accuse_is_named_and_left_out(cluster) -> None:
    """In the same call: the session ends, the next one is without it, and it stays out."""
    made = cluster(faults={at: once(fault) for at, fault in ACCUSED.items()})
    members = made.ready()
    assert ask(made.collector(members), queries()).parties == WITHOUT_P03
    assert [event["party"] for event in told(made, "excluded")] == ["p03"]
    made.transport.requests.clear()
    assert ask(made.collector(members), queries(9, 9)).parties == WITHOUT_P03  # a new process knows it too
    assert 3 not in {node for node, _ in made.transport.requests}


def test_without_leaving_liars_out_one_message_ends_every_session(cluster, monkeypatch) -> None:
    """The control."""
    monkeypatch.setattr(SecureCollector, "_check_accused", lambda self: None)
    made = cluster(faults=dict(ACCUSED))
    members = made.ready()
    for _ in range(2):
        with pytest.raises(ThresholdNotMet, match="share"):
            ask(made.collector(members), queries())
    assert not told(made, "excluded")


@pytest.mark.parametrize(("colluders", "accusers"), [(0, 1), (0, 2), (1, 2)])
def test_of_a_session_that_failed_c_plus_two_accusers_are_believed_and_no_fewer(cluster, colluders, accusers) -> None:
    """c + 1 of them may be the colluders and one liar more: nobody is named on their word, and the stage is sent again.
    The others that the session lacks (t = 5 of 7) are silent once."""
    others = [index for index in range(PARTIES) if index != 3][:3]
    faults = {(index, SHARED): accuse if at < accusers else drop for at, index in enumerate(others)}
    made = cluster(colluders=colluders, faults={at: once(fault) for at, fault in faults.items()})
    believed = accusers >= colluders + 2
    parties = ask(made.collector(made.ready()), queries()).parties
    assert parties == tuple(f"p{i:02d}" for i in range(PARTIES) if i != 3 or not believed)
    assert [event["party"] for event in told(made, "excluded")] == ["p03"] * believed


def test_one_party_s_word_does_not_exclude_another(cluster) -> None:
    """One that accuses may lie itself: the others go on without it, and the accused is asked again."""
    made = cluster(faults={(0, "query.sa_masked"): accuse})
    members = made.ready()
    assert ask(made.collector(members), queries()).parties == tuple(f"p{i:02d}" for i in range(1, PARTIES))
    assert not told(made, "excluded")


def test_too_few_without_the_liars_is_the_end(cluster, monkeypatch) -> None:
    made = cluster()

    def checked(machine, replies):
        raise BadShare("p01", "does not verify", ["p01", "p02", "p05"])

    monkeypatch.setattr(Aggregation, "take", checked)
    with pytest.raises(BadShare):
        ask(made.collector(made.ready()), queries())
    assert len(told(made, "stage")) == 2 + 1  # enrol, train, and one exchange


def test_a_history_that_cannot_be_used(cluster) -> None:
    made = cluster()
    members = made.ready()
    path = made.root / "sessions" / "history.json"
    path.parent.mkdir()
    for content in ("{", "[]", json.dumps({"roster": "0" * 64, "left_out": {}})):
        path.write_text(content)
        with pytest.raises(ConfigError, match="sessions/history"):
            ask(made.collector(members), queries(9, 9))
