"""Kits in which something is wrong, what doctor says of them, and what a start that is refused says."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.aggregator.deployed import AGGREGATOR
from consilium.aggregator.home import open_home as open_second
from consilium.aggregator.store import GivenStore
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy import start as coordinator
from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.coordinator.deploy.runs import begin
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.provision.authority import Authority
from consilium.node.checks import Check, CheckResult, examine
from consilium.node.kit import open_kit
from consilium.node.manifest import ALGORITHM, MANIFEST, SignedManifest, digests_of
from consilium.party.account import Account
from consilium.party.deployed import PARTY
from consilium.party.home import Policy, open_home
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.identity import Identity
from consilium.protocol.pool import PoolTree
from consilium.sums.roster import VerifiedRoster
from consilium.sums.terms import NO_LEDGER
from tests.deploy.kits import edit, server_of
from tests.federation import CLASSES, hello_of, make_rows

Spoil = Callable[[Path], object]
DOCTORS: dict[str, Callable[..., list[Check]]] = {
    "coordinator": COORDINATOR.checks,
    "party": PARTY.checks,
    "aggregator": AGGREGATOR.checks,
}
STARTS: dict[str, Callable[..., object]] = {
    "coordinator": coordinator.start,
    "party": PARTY.start,
    "aggregator": AGGREGATOR.start,
}


def found_by_doctor(kit: Path, name: str) -> CheckResult:
    node = open_kit(kit)
    checks = DOCTORS[node.kind](node, running=False)
    return next(found for found in examine(checks) if found.name == name)


def said_by_start(kit: Path) -> tuple[str, str]:
    """Of a start that is refused: what is wrong, and what to do."""
    node = open_kit(kit)
    with pytest.raises(ConsiliumError) as refused:
        STARTS[node.kind](node, lambda *_: None, threading.Event())
    return refused.value.what, refused.value.action


# Of any node.


def edited(name: str, old: str, new: str) -> Spoil:
    """A text of a file is another one."""
    return lambda kit: edit(kit / name, old, new)


def written(name: str, content: str) -> Spoil:
    """A file has other content."""
    return lambda kit: (kit / name).write_text(content)


def lost(name: str) -> Spoil:
    """A file is gone."""
    return lambda kit: (kit / name).unlink()


policy = partial(edited, "policy.toml")


def signed_so(spoil: Spoil) -> Spoil:
    """In a kit that the authority signed as it is then: else the signature says so first."""

    def spoiled(kit: Path) -> None:
        spoil(kit)
        sign(kit)

    return spoiled


def sign(kit: Path) -> None:
    """The manifest of a kit as it is now, by its own authority, whose folder lies beside it."""
    content, digests = SignedManifest.model_validate_json((kit / MANIFEST).read_bytes()).content, digests_of(kit)
    files = {name: digests[name] for name in content.files if name in digests}
    content = content.model_copy(update={"files": files})
    known = map(Authority.load, kit.parent.glob("operator*"))
    authority = next(each for each in known if each.trusted == (kit / "ca.crt").read_text())
    signed = SignedManifest(content=content, signature=authority.key.sign(content.signed, ALGORITHM).hex())
    replaced(kit, MANIFEST, signed.model_dump_json().encode())


def replaced(kit: Path, name: str, content: bytes) -> None:
    """A file that is not what it should be, and that nobody may write."""
    (kit / name).unlink()
    (kit / name).write_bytes(content)


def other_content(name: str, content: bytes) -> Spoil:
    """The same, in a kit that was signed so."""
    return signed_so(lambda kit: replaced(kit, name, content))


def changed_terms(**changes: Any) -> Spoil:
    def spoil(kit: Path) -> None:
        terms = json.loads((kit / "terms.json").read_text())
        replaced(kit, "terms.json", json.dumps({**terms, **changes}).encode())

    return signed_so(spoil)


def other_database(kit: Path, name: str) -> None:
    with closing(sqlite3.connect(open_kit(kit).state / name)) as connection:
        connection.execute("PRAGMA user_version = 99")


# Of a coordinator.


def other_key(kit: Path) -> None:
    """Its TLS key is not the one of its certificate."""
    (kit / "server.key").unlink()
    server_of(Authority.create("other"), ["127.0.0.1"]).save(kit, "server2")
    (kit / "server2.key").rename(kit / "server.key")


def other_authority(kit: Path) -> None:
    """Its certificate is signed by an authority that no node of the federation knows."""
    for stem in ("server.key", "server.crt"):
        (kit / stem).unlink()
    server_of(Authority.create("other"), ["127.0.0.1"]).save(kit, "server")


def fewer_nodes(kit: Path) -> None:
    """Only one party may connect."""
    nodes = json.loads((kit / "nodes.json").read_text())["nodes"]
    replaced(kit, "nodes.json", json.dumps({"nodes": {"ward-a": nodes["ward-a"]}}).encode())


def foreign_identity(kit: Path) -> None:
    (kit / "identity.pem").unlink()
    Identity.generate().save(kit / "identity.pem")


def other_pool(kit: Path) -> None:
    (kit / "public.npy").unlink()
    PoolTree.of_rows(make_rows(50, 5)[0]).save(kit / "public.npy")


def damaged_ledger(kit: Path) -> None:
    run = begin(open_kit(kit))
    Ledger(run / "ledger.db", run.config.digest(), "{}").close()
    with closing(sqlite3.connect(run / "ledger.db")) as connection:
        connection.execute("UPDATE meta SET value = '9' WHERE key = 'format'")
        connection.commit()


def damaged_positions(kit: Path) -> None:
    (begin(open_kit(kit)) / "seen.json").write_text("[")


# Of a party.


def answered_elsewhere(kit: Path) -> None:
    """The party answered 40 queries in another federation."""
    account = Account(open_home(kit).store())
    other = hello_of(load(kit / "federation.json", FederationConfig), federation="a" * 64)
    free = Policy(allowed_classes=CLASSES, most_queries=40, most_epsilon=float("inf"))
    account.enrol(other, free)
    account.charge(account.agreed(other.federation), "t", [f"{at:064x}" for at in range(40)], free, 1, NO_LEDGER)


def other_columns(kit: Path) -> None:
    x, y = make_rows(240, 0)
    np.savez(kit / "data.npz", x=x, y=y, features=np.array(("age", "weight", "drowsy")), classes=np.array(CLASSES))


# Of a second aggregator.


def served(kit: Path) -> None:
    """It has been introduced."""
    home = open_second(kit)
    terms = home.pinned_terms()
    assert terms is not None
    with GivenStore(home.store_file).transaction() as given:
        given.keep_terms(terms)


def other_given(kit: Path) -> None:
    served(kit)
    other_database(kit, "given.db")


def damaged_given(kit: Path) -> None:
    served(kit)
    with closing(sqlite3.connect(kit / "state" / "given.db")) as connection:
        connection.execute("""UPDATE terms SET content = '{"federation"'""")
        connection.commit()


def damaged_earlier(kit: Path) -> None:
    """Terms of another federation that it gave a sum in, which count in its policy."""
    served(kit)
    other = "a" * 64
    with closing(sqlite3.connect(kit / "state" / "given.db")) as connection:
        connection.execute("INSERT INTO given VALUES (?, 1, ?)", ("00" * 32, other))
        connection.execute("INSERT INTO terms VALUES (?, ?)", (other, "{}"))
        connection.commit()


def other_roster(kit: Path) -> None:
    """One of the same keys, with other terms than the federation asks for."""
    roster = VerifiedRoster.load(kit / "roster.json")
    table = roster.model_dump(mode="json")
    replaced(kit, "roster.json", json.dumps({**table, "least": roster.least - 1}).encode())
