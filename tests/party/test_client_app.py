"""The Flower edge of a party: no exception text travels, and only the node says where its home is."""

from __future__ import annotations

import errno
import sqlite3
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from consilium.node.answering import home_folder
from consilium.party import client_app
from consilium.party.client_app import app
from consilium.party.store import Store
from consilium.protocol.databases import unusable
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import HelloReply
from consilium.protocol.records import from_record, refusal_from_record, to_record
from consilium.protocol.refusals import Refusal, Rule
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from consilium.simulations.said import SaidRequest
from tests.federation import Home, make_home, open_home
from tests.party.test_node import HASH, hello


def context(node_config: dict, run_config: dict | None = None) -> Context:
    return Context(1, 2, node_config, RecordDict(), run_config or {})


def call(content: RecordDict, where: Context, kind: str = "query.hello") -> Message:
    assume_identity(1, 1)
    message = Message(content, dst_node_id=2, message_type=kind)
    assign_message_id(message)
    assume_identity(1, 2)
    return app(message, where)


def test_answers_hello(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "p")
    reply = call(to_record(hello()), context({"home": str(home)}))
    assert from_record(reply.content, HelloReply).party == "p"


def test_exception_text_does_not_travel(tmp_path: Path, monkeypatch, caplog) -> None:
    def fail(*_):
        raise RuntimeError("patient 4711 has a stroke")

    monkeypatch.setattr(client_app, "open_home", fail)
    home = make_home(tmp_path / "home", "p")
    reply = call(to_record(hello()), context({"home": str(home)}))
    refusal = refusal_from_record(reply.content)
    assert refusal is not None
    assert refusal.rule is Rule.INTERNAL
    assert "4711" not in str(reply.content)
    assert "4711" not in caplog.text


@pytest.mark.parametrize("content", [RecordDict(), RecordDict({"body": ConfigRecord({"x": 1})})])
def test_malformed_requests_are_refused(tmp_path: Path, content: RecordDict) -> None:
    home = make_home(tmp_path / "home", "p")
    refusal = refusal_from_record(call(content, context({"home": str(home)})).content)
    assert refusal is not None
    assert refusal.rule is Rule.MALFORMED


def test_a_broken_policy_file_refuses_without_its_text(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "p")
    (home / "party.toml").write_text("secret-text = [")
    refusal = refusal_from_record(call(to_record(hello()), context({"home": str(home)})).content)
    assert refusal is not None
    assert refusal == Refusal(rule=Rule.POLICY)


def test_only_the_node_says_where_its_home_is() -> None:
    run_config = {"home": "/somewhere/else"}
    assert home_folder(context({"home": "/srv/home"}, run_config)) == Path("/srv/home")
    with pytest.raises(ConfigError, match="no home"):
        home_folder(context({}, run_config))


def test_what_only_a_simulation_asks_has_no_answer_here(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "p")
    request = to_record(SaidRequest(federation=HASH, questions=np.zeros(1, dtype=np.uint8)))
    with pytest.raises(ValueError, match="said"):
        call(request, context({"home": str(home)}), SaidRequest.kind)


def as_no_space(*_) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "/home/patient-4711.pickle")


def as_database(error: str, *_) -> None:
    failed = sqlite3.OperationalError("of patient-4711")
    failed.sqlite_errorcode = getattr(sqlite3, error)
    raise unusable(Path("party.db"), failed)


@pytest.mark.parametrize(
    ("fail", "rule", "logged"),
    [
        (as_no_space, Rule.STORAGE, "the disk is full"),
        (partial(as_database, "SQLITE_FULL"), Rule.STORAGE, "party.db: the disk is full"),
        (partial(as_database, "SQLITE_IOERR_WRITE"), Rule.STORAGE, "party.db: the disk takes no more"),
        (partial(as_database, "SQLITE_CORRUPT"), Rule.STORAGE, "party.db: it is damaged"),
        (partial(as_database, "SQLITE_BUSY"), Rule.LOCKED, "party.db: it is locked"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_its_name(tmp_path: Path, monkeypatch, caplog, fail, rule, logged) -> None:
    home = make_home(tmp_path / "home", "p")
    monkeypatch.setattr(client_app, "open_home", fail)
    refusal = refusal_from_record(call(to_record(hello()), context({"home": str(home)})).content)
    assert refusal == Refusal(rule=rule)
    assert logged in caplog.text
    assert "4711" not in caplog.text


def test_other_errors_of_files_are_not_called_a_full_disk(tmp_path: Path, monkeypatch) -> None:
    def fail(*_):
        raise FileNotFoundError(errno.ENOENT, "gone")

    home = make_home(tmp_path / "home", "p")
    monkeypatch.setattr(client_app, "open_home", fail)
    refusal = refusal_from_record(call(to_record(hello()), context({"home": str(home)})).content)
    assert refusal == Refusal(rule=Rule.INTERNAL)


def test_a_home_is_opened_once_and_anew_when_one_of_its_files_is_another(tmp_path: Path, monkeypatch) -> None:
    opened: list[Path] = []

    def watched(folder: Path) -> Home:
        opened.append(folder)
        return open_home(folder)

    monkeypatch.setattr(client_app, "open_home", watched)
    home = make_home(tmp_path / "home", "p")
    asked = partial(call, to_record(hello()), context({"home": str(home)}))
    for _ in range(2):
        assert refusal_from_record(asked().content) is None
    assert len(opened) == 1
    text = (home / "party.toml").read_text()
    (home / "party.toml").write_text(text.replace("allow_simulation = true", "allow_simulation = false"))
    assert refusal_from_record(asked().content) == Refusal(rule=Rule.SIMULATION)
    (home / "party.toml").write_text(text)
    (home / "state" / "party.db").unlink()  # what is put in its place is written to, and nothing else
    assert refusal_from_record(asked().content) is None
    assert Store(home / "state" / "party.db").federation(HASH).terms
    assert len(opened) == 3
