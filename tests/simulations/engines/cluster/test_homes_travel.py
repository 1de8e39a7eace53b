"""Parties' homes on nodes that share nothing: the same answers, whichever node dies, and nothing counted twice."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from consilium.party.client_app import app
from consilium.protocol.errors import EngineError, NotEnoughParties
from consilium.protocol.records import refusal_from_record, to_record
from consilium.simulations.engines import cluster_node as node_module
from consilium.simulations.engines.cluster_node import NodeDesk, desk_of
from consilium.simulations.engines.flower import COORDINATOR_NODE, assume_identity
from consilium.simulations.engines.local import RUN_ID, run_local
from consilium.simulations.engines.travelling_homes import Brought, HomeFile, Homes, Parcel, digest_of, packed
from consilium.simulations.workspace import Workspace
from tests.federation import FEATURES, hello_of, make_config, make_homes, make_rows, make_secure
from tests.simulations.engines.cluster.travelling import Store, TravellingGrid

PARTIES = 5
SECURE = {"collection": "secure", "minimum_parties": 3}


def federation(folder: Path, secure: bool) -> dict[str, str]:
    """The run config of a small federation, laid out as a simulation lays it out. The same every time, but for keys."""
    run_dir = folder / "run"
    space = Workspace(run_dir)
    space.work.mkdir(parents=True)
    homes = make_homes(space.party_root, PARTIES, collection="secure" if secure else "plaintext", least_parties=2)
    changes: dict[str, Any] = {}
    if secure:
        keys = make_secure(homes, space.work)
        keys.signer.save(space.identity_file)
        changes = {**SECURE, "roster": keys.roster.digest}
        for home in homes:
            (home / "roster.json").unlink()
            settings = (home / "party.toml").read_text()
            (home / "party.toml").write_text('roster = "../../roster.json"\n' + settings)
    space.federation_file.write_text(make_config(**changes).model_dump_json())
    x, y = make_rows(60, 3)
    pool = {"features": np.array(FEATURES), "queries": x[:30], "test_x": x[30:], "test_y": y[30:]}
    np.savez(space.work / "public.npz", **pool)
    spec = {"trainer": {"name": "logistic_regression", "C": 1.0}}
    (space.work / "student.json").write_text(json.dumps({"spec": spec, "seed": 0}))
    return space.run_config(run_dir, "simulation")


def run(folder: Path, secure: bool, **grid: Any) -> tuple[pl.DataFrame, TravellingGrid]:
    config = federation(folder, secure)
    made = TravellingGrid(config, PARTIES, folder / "nodes", **grid)
    run_local(config, made)  # pyright: ignore it is a Grid
    return pl.read_parquet(folder / "run" / "labels.parquet"), made


def given(folder: Path) -> list[int]:
    """How many queries each party has given an answer to, by its own record on the machine of the run."""
    counted = []
    for home in sorted(Workspace(folder / "run").party_root.iterdir()):
        with closing(sqlite3.connect(home / "state" / "spend.db")) as spent:
            counted.append(spent.execute("SELECT COUNT(*) FROM given").fetchone()[0])
    return counted


@pytest.mark.parametrize("secure", [False, True], ids=["plaintext", "secure"])
def test_a_node_that_dies_at_any_message_changes_nothing(tmp_path: Path, secure: bool) -> None:
    """At the first message of each kind to each party the node dies after it answered: nobody has seen that answer."""
    undisturbed, quiet = run(tmp_path / "quiet", secure)
    died: set[tuple[str, str]] = set()

    def once(party: str, kind: str) -> bool:
        first = (party, kind) not in died
        died.add((party, kind))
        return first

    disturbed, grid = run(tmp_path / "disturbed", secure, dies=once)
    assert disturbed.equals(undisturbed)
    assert not quiet.deaths
    assert len(grid.deaths) == (7 if secure else 3)  # kinds of messages
    assert set(grid.deaths.values()) == {PARTIES}
    assert given(tmp_path / "disturbed") == given(tmp_path / "quiet") == [30] * PARTIES


def test_control_what_is_not_brought_back_is_lost(tmp_path: Path) -> None:
    """Each node by itself knows only what it computed: the one that is asked to vote has not trained."""
    with pytest.raises(NotEnoughParties):
        run(tmp_path, False, brings=False)


class OneParty:
    """A party's home under `work`, and messages to it."""

    def __init__(self, folder: Path) -> None:
        self.work, self.store = folder / "work", Store()
        make_homes(self.work / "parties", 1)
        self.homes = Homes(self.work, "run", self.store.put)
        self.config = make_config()
        self.context = Context(RUN_ID, 2, {"partition-id": 0}, RecordDict(), {})
        self._nodes = folder / "nodes"

    def desk(self, name: str) -> NodeDesk:
        (self._nodes / name).mkdir(parents=True)
        return NodeDesk(self._nodes / name)

    def ask(self, desk: NodeDesk, kind: str, content: RecordDict, handler: Any = app) -> Brought:
        """What is brought by the answer, which is no refusal; it is received."""
        assume_identity(RUN_ID, 2)
        message = Message(content, dst_node_id=2, message_type=kind)
        parcel = self.homes.parcel("00000", kind)
        reply, brought = desk.answer(parcel, message, self.context, handler, self.store.get, "here")
        assume_identity(RUN_ID, COORDINATOR_NODE)
        assert handler is not app or refusal_from_record(reply.content) is None
        self.homes.receive("00000", brought)
        return brought

    def hello(self, desk: NodeDesk) -> Brought:
        return self.ask(desk, "query.hello", to_record(hello_of(self.config)))

    def train(self, desk: NodeDesk) -> Brought:
        return self.ask(desk, "train.teacher", to_record(self.config.train_request()))

    def rows_fetched(self) -> int:
        """How often the rows went to a node."""
        packed_rows = packed((self.work / "parties" / "00000" / "data.npz").read_bytes())
        return sum(self.store.held[reference] == packed_rows for reference in self.store.fetched)


@pytest.fixture
def party(tmp_path: Path) -> OneParty:
    return OneParty(tmp_path)


def test_rows_go_to_the_node_that_trains_and_to_no_other(party: OneParty) -> None:
    first, second = party.desk("first"), party.desk("second")
    party.hello(first)
    assert party.rows_fetched() == 0
    party.train(second)
    assert party.rows_fetched() == 1
    party.train(second)
    party.hello(first)
    assert party.rows_fetched() == 1
    assert not list(party._nodes.glob("first/parties/*/data.npz"))


def test_a_node_keeps_what_it_has(party: OneParty) -> None:
    desk = party.desk("one")
    assert party.hello(desk).fetched > 0
    assert party.hello(desk).fetched == 0
    # and knows when it is old
    other = party.desk("other")
    party.train(other)
    assert 0 < party.hello(desk).fetched < party.hello(party.desk("new")).fetched


def test_what_a_party_removes_is_removed(party: OneParty) -> None:
    desk = party.desk("one")
    party.hello(desk)

    def removes(message: Message, context: Context) -> Message:
        (Path(str(context.node_config["home"])) / "state" / "spend.db").unlink()
        return message

    brought = party.ask(desk, "query.hello", RecordDict(), removes)
    assert brought.removed == ("parties/00000/state/spend.db",)
    assert not (party.work / "parties/00000/state/spend.db").exists()
    party.hello(party.desk("two"))
    assert (party.work / "parties/00000/state/spend.db").exists()


def test_what_an_app_left_that_raised_is_not_used(party: OneParty) -> None:
    """The run's machine never heard of it, so the node must not remember it either."""
    desk = party.desk("one")
    party.hello(desk)
    whole = (party.work / "parties/00000/state/spend.db").read_bytes()

    def raises(message: Message, context: Context) -> Message:
        home = Path(str(context.node_config["home"]))
        (home / "state" / "spend.db").write_bytes(b"half")
        (home / "state" / "more").write_bytes(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        party.ask(desk, "query.hello", RecordDict(), raises)
    seen = {}

    def looks(message: Message, context: Context) -> Message:
        state = Path(str(context.node_config["home"])) / "state"
        seen.update({path.name: path.read_bytes() for path in state.iterdir()})
        return message

    assert party.ask(desk, "query.hello", RecordDict(), looks).written == {}
    assert seen == {"spend.db": whole}


def test_what_comes_damaged_is_not_laid_out(party: OneParty) -> None:
    party.store.get = lambda reference: packed(b"something else")  # pyright: ignore
    with pytest.raises(EngineError, match="came to this node damaged"):
        party.hello(party.desk("one"))


PARCEL = Parcel("run", "00000", {})
SOUND: dict[str, Any] = {
    "paths": ["parties/00000/state/spend.db"],
    "contents": [b"x"],
    "modes": [0o600],
    "removed": ["parties/00000/old"],
    "node": "n",
    "fetched": 0,
}


@pytest.mark.parametrize(
    "change",
    [
        {"paths": ["parties/00001/state/spend.db"]},
        {"paths": ["parties/00000/../00001/party.toml"]},
        {"paths": ["/etc/passwd"]},
        {"removed": ["roster.json"]},
        {"contents": []},
        {"node": None},
    ],
)
def test_what_is_no_home_is_refused(change: dict[str, Any]) -> None:
    table = {key: value for key, value in {**SOUND, **change}.items() if value is not None}
    with pytest.raises(EngineError, match="sent back"):
        Brought.of_record(ConfigRecord(table), PARCEL)


def test_contents_are_not_shown() -> None:
    piece = HomeFile(digest_of(b"secret"), 0o600, b"secret")
    brought = Brought({"parties/00000/x": (b"secret", 0o600)}, (), "n", 0)
    assert "secret" not in repr(Parcel("run", "00000", {"x": piece})) + repr(brought)


@pytest.fixture
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(node_module.tempfile, "gettempdir", lambda: str(tmp_path))
    yield tmp_path
    node_module.clean(node_module.own_folder(), of=os.getpid())
    desk_of.cache_clear()


def test_homes_of_dead_processes_are_removed_and_of_living_ones_not(own_tmp: Path) -> None:
    parent = node_module.own_folder()
    assert parent.stat().st_mode & 0o777 == 0o700
    code = (
        "import sys, tempfile\n"
        "tempfile.gettempdir = lambda: sys.argv[1]\n"
        "from consilium.simulations.engines.cluster_node import desk_of\n"
        "desk_of('run')\nprint('there', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(own_tmp)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        desk_of("mine")
        assert len([each for each in parent.iterdir() if each.is_dir()]) == 2
        other.kill()
    desk_of("another run")
    assert [each.name.partition("-")[0] for each in parent.iterdir() if each.is_dir()] == [str(os.getpid())]


def test_a_folder_that_others_can_read_is_not_used(own_tmp: Path) -> None:
    folder = own_tmp / f"consilium-ray-{os.getuid()}"
    folder.mkdir(mode=0o755)
    with pytest.raises(EngineError, match="not this user's own"):
        node_module.own_folder()
    folder.chmod(0o700)
