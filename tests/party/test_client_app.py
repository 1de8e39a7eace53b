"""The Flower edge of a party: no exception text travels, and only the node says where its home is."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from consilium.node.answering import folder_of
from consilium.node.folder import NodeFolder
from consilium.party import client_app
from consilium.party.client_app import app
from consilium.party.home import open_home
from consilium.party.store import Store
from consilium.protocol.databases import unusable
from consilium.protocol.messages import HelloRequest
from consilium.protocol.records import refusal_from_record, to_record
from consilium.protocol.refusals import Refusal, Rule
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from consilium.simulations.said import SaidRequest
from tests.node.folders import allow, asked_of, make_small
from tests.party.test_node import HASH, hello


def context(place: object, **run_config) -> Context:
    return Context(1, 2, {"folder": str(place)}, RecordDict(), run_config)


def party_at(tmp_path: Path) -> NodeFolder:
    """A party that allows all that is asked."""
    folder = make_small(tmp_path).nodes["p00"]
    allow(folder, **asked_of(folder))
    return folder


def greeting(folder: NodeFolder) -> RecordDict:
    """Of the federation's own coordinator."""
    terms = open_home(folder).terms
    return to_record(HelloRequest(**{**hello().model_dump(), **terms.model_dump()}))


def call(content: RecordDict, folder: NodeFolder, kind: str = "query.hello") -> RecordDict:
    """The party's reply."""
    assume_identity(1, 1)
    message = Message(content, dst_node_id=2, message_type=kind)
    assign_message_id(message)
    assume_identity(1, 2)
    return app(message, context(folder.path)).content


@pytest.mark.parametrize("content", [RecordDict(), RecordDict({"body": ConfigRecord({"x": 1})})])
def test_malformed_requests_are_refused(tmp_path: Path, content: RecordDict) -> None:
    assert refusal_from_record(call(content, party_at(tmp_path))) == Refusal(rule=Rule.MALFORMED)


@pytest.mark.parametrize("name", ["party.toml", "policy.toml", "federation/federation.json"])
def test_a_broken_file_refuses_without_its_text(tmp_path: Path, name: str) -> None:
    folder = party_at(tmp_path)
    request = greeting(folder)
    (folder / name).write_text("secret-text = [")
    assert refusal_from_record(call(request, folder)) == Refusal(rule=Rule.POLICY)


def test_only_the_node_says_where_its_folder_is(tmp_path: Path) -> None:
    folder = party_at(tmp_path)
    assert folder_of(context(folder.path, folder="/somewhere/else")) == folder


def test_what_only_a_simulation_asks_has_no_answer_here(tmp_path: Path) -> None:
    folder = party_at(tmp_path)
    request = to_record(SaidRequest(federation=HASH, questions=np.zeros(1, dtype=np.uint8)))
    with pytest.raises(ValueError, match="said"):
        call(request, folder, SaidRequest.kind)


def database(error: str) -> Exception:
    failed = sqlite3.OperationalError("of patient-4711")
    failed.sqlite_errorcode = getattr(sqlite3, error)
    return unusable(Path("party.db"), failed)


FILE = "/home/patient-4711.pickle"


@pytest.mark.parametrize(
    ("error", "rule", "logged"),
    [
        (RuntimeError("patient 4711 has a stroke"), Rule.INTERNAL, ""),
        (OSError(errno.ENOSPC, "No space left on device", FILE), Rule.STORAGE, "the disk is full"),
        (FileNotFoundError(errno.ENOENT, "gone", FILE), Rule.INTERNAL, ""),
        (database("SQLITE_FULL"), Rule.STORAGE, "party.db: the disk is full"),
        (database("SQLITE_IOERR_WRITE"), Rule.STORAGE, "party.db: the disk takes no more"),
        (database("SQLITE_CORRUPT"), Rule.STORAGE, "party.db: it is damaged"),
        (database("SQLITE_BUSY"), Rule.LOCKED, "party.db: it is locked"),
    ],
)
def test_what_is_wrong_is_told_by_its_rule_and_no_text_of_it_travels(
    tmp_path: Path, monkeypatch, caplog, error: Exception, rule: Rule, logged: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    folder = party_at(tmp_path)
    asked = greeting(folder)
    monkeypatch.setattr(client_app, "open_home", fail)
    reply = call(asked, folder)
    assert refusal_from_record(reply) == Refusal(rule=rule)
    assert logged in caplog.text
    assert "4711" not in caplog.text + str(reply)


def test_a_message_is_answered_by_the_files_as_they_are(tmp_path: Path) -> None:
    folder = party_at(tmp_path)
    asked = partial(call, greeting(folder), folder)
    assert refusal_from_record(asked()) is None
    allow(folder, **{**asked_of(folder), "collection": "secure"})
    assert refusal_from_record(asked()) == Refusal(rule=Rule.NOT_ACCEPTED)
    allow(folder, **asked_of(folder))
    (folder / "state" / "party.db").unlink()  # what is put in its place is written to
    assert refusal_from_record(asked()) is None
    with closing(Store(folder / "state" / "party.db")) as store:
        assert store.federation(open_home(folder).terms.federation).terms
