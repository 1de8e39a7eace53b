"""An update while a federation is open: what was begun stays what is served, shown, closed and audited."""

from __future__ import annotations

import json
import shutil
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.deploy import start as node
from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.coordinator.deploy.runs import KitRun, asked_before, begin, configuration, current_run, run_of_kit
from consilium.coordinator.deploy.start import close, run_config
from consilium.coordinator.deploy.status import status
from consilium.coordinator.events import EventLog
from consilium.coordinator.ledger import Batch, Ledger
from consilium.coordinator.provision import kits
from consilium.coordinator.rosters import REGISTERED, Registered, RegisteredNodes
from consilium.coordinator.verify.run import verify_run
from consilium.node.checks import examine
from consilium.node.kit import Kit, open_kit
from consilium.protocol.errors import ConfigError, EngineError, FederationOpen, LedgerError
from consilium.protocol.pool import PoolTree
from tests.deploy.kits import PARTIES, make_kits


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory) -> Path:
    """Kits of a secure federation, and an update that adds ward-d."""
    out = make_kits(tmp_path_factory.mktemp("kits"), collection="secure", minimum_parties=3)
    kits.add_party(out, "ward-d")
    return out


@pytest.fixture
def kit(provisioned: Path, tmp_path: Path) -> Kit:
    return open_kit(Path(shutil.copytree(provisioned / "coordinator", tmp_path / "coordinator")))


def unpack_update(kit: Kit, provisioned: Path) -> None:
    with tarfile.open(provisioned / "updates" / "0002" / "coordinator.tar.gz") as archive:
        archive.extractall(kit.folder)


def asked(kit: Kit, run: KitRun, count: int) -> list[str]:
    """Charge the first rows of the pool, as if students had asked them; returns their ids."""
    ids = [leaf.hex() for leaf in PoolTree.load(kit / "public.npy").leaves[:count]]
    log = EventLog(run.events)
    log.write("takes-part", parties=list(PARTIES))
    ledger = Ledger(run / "ledger.db", run.config.digest(), run.config.model_dump_json())
    nothing, none = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    ledger.commit(Batch(run.config.event(count, count).to_json(), 3, tuple(ids), nothing, none), 40, 30)
    ledger.close()
    log.write("released", asked=count, answered=count, parties=3, release="winner")
    log.close()
    return ids


def test_an_update_changes_nothing_of_a_federation_that_is_open(kit: Kit, provisioned: Path) -> None:
    run = begin(kit)
    before = run_config(kit, run)
    unpack_update(kit, provisioned)
    assert configuration(kit).digest() != run.config.digest()
    assert current_run(kit) == run
    assert run_config(kit, current_run(kit)) == before
    assert run.roster().digest == run.config.roster  # type: ignore[union-attr]
    assert verify_run(kit.folder).place.run_dir.resolve() == run.folder.resolve()
    shown = status(kit)
    assert (shown.run, shown.next) == (run.short, run_of_kit(kit).short)
    found = {each.name: each for each in examine(COORDINATOR.checks(kit, running=True))}["open federation"]
    assert found.level == "wrong"
    assert "consilium node close" in found.action


def test_the_update_is_not_started_while_a_federation_is_open(
    kit: Kit, provisioned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(kit)
    unpack_update(kit, provisioned)
    with pytest.raises(FederationOpen, match=f"{run.short} is open, and the kit holds another") as refused:
        node.start(kit, lambda *_: None, threading.Event())
    assert "consilium node close" in refused.value.action
    assert not run.closed
    assert not run_of_kit(kit).begun
    monkeypatch.setattr(node, "prepare", lambda *_: (_ for _ in ()).throw(EngineError("reached", "")))
    with pytest.raises(EngineError, match="reached"):
        node.start(kit, lambda *_: None, threading.Event(), go_on=True)
    assert current_run(kit) == run


def test_close_is_of_the_open_one_and_needs_neither_a_party_nor_a_process(kit: Kit, provisioned: Path) -> None:
    run = begin(kit)
    asked(kit, run, 7)
    unpack_update(kit, provisioned)
    summary = close(kit, 1)
    assert (summary["asked"], summary["federation"]) == (7, run.config.digest())
    assert summary["parties"] == list(PARTIES)
    assert summary["roll"]["ward-a"]["state"] == "takes part"
    assert run.closed
    assert close(kit, 1) == summary
    found = {each.check: each for each in verify_run(run.folder).findings}
    assert found["coordinator.json: counts and epsilon"].holds  # the rest is of a ledger that is made up here
    assert found["events.jsonl: what was released"].holds
    new = begin(kit)  # and now the next one may begin
    assert (new, new.open) == (current_run(kit), True)
    assert new.config == configuration(kit)
    assert status(kit).next == ""


def test_nothing_is_closed_that_was_never_started(kit: Kit) -> None:
    with pytest.raises(ConfigError, match="was never started"):
        close(kit, 1)
    assert not run_of_kit(kit).begun


@pytest.mark.parametrize(("collection", "spent"), [("secure", 0), ("verified", 7)])
def test_rows_that_a_second_aggregator_gave_are_known_to_the_next(tmp_path: Path, collection: str, spent: int) -> None:
    """Where there is none, parties charge the same rows again."""
    mechanism = {"name": "confident", "threshold": 0, "sigma1": 20.0, "sigma2": 20.0}
    out = make_kits(tmp_path / "kits", collection=collection, mechanism=mechanism, minimum_parties=3)
    kits.add_party(out, "ward-d")
    kit = open_kit(Path(shutil.copytree(out / "coordinator", tmp_path / "coordinator")))
    first = begin(kit)
    ids = asked(kit, first, 7)
    close(kit, 1)
    unpack_update(kit, out)
    new = begin(kit)
    assert asked_before(kit, new) == frozenset(ids[:spent])
    size = len(PoolTree.load(kit / "public.npy").leaves)
    assert (status(kit).rows_open, status(kit).rows_spent) == (size - spent, spent)


def test_a_damaged_ledger_is_named(kit: Kit) -> None:
    run = begin(kit)
    (run / "ledger.db").write_bytes(b"not a database" * 100)
    with pytest.raises(LedgerError, match=r"ledger\.db"):
        close(kit, 1)


def test_nodes_are_known_by_the_keys_that_were_registered(kit: Kit, provisioned: Path) -> None:
    keys = json.loads((kit / "nodes.json").read_text())["nodes"]
    listed = Registered(nodes={keys["ward-a"]: 17, keys["ward-b"]: 0})  # 0: its id was lost
    (kit.state / REGISTERED).write_text(listed.model_dump_json())
    nodes = RegisteredNodes(kit.folder)
    assert sorted(nodes.names()) == list(PARTIES)
    assert [nodes.name(17), nodes.name(0), nodes.name(99)] == ["ward-a", None, None]
    unpack_update(kit, provisioned)
    assert "ward-d" in nodes.names()
    (kit / "nodes.json").write_text("{")  # half an update
    assert nodes.name(17) == "ward-a"
