"""Signed folders, and nodes that joined them, made as an operator and the nodes' people make them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from consilium.aggregator.deployed import open_home as open_second
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.provision.authority import Authority, pem
from consilium.coordinator.served import ServedFederation
from consilium.node.folder import AUTHORITY_FILE, FEDERATION_FILE, POLICY_FILE, PUBLIC_FILE, SIGNED_FILE, NodeFolder
from consilium.node.keys import OwnKeys, make
from consilium.node.signed import Coordinator, Signed, join
from consilium.party.home import open_home as open_party
from consilium.protocol.messages import CollectionMode
from consilium.protocol.versions import program_versions
from consilium.sums.modes import MODES
from consilium.sums.roster import AggregatorEntry, SumRoster
from tests.federation import CLASSES, FEATURES, make_config, make_rows

PARTIES = ("p00", "p01", "p02")
SECOND, STUDENT = "board", "anna"
HOST = "127.0.0.1"
HERE = Coordinator(hosts=(HOST,), listen=HOST)


def make_nodes(root: Path, parties: Sequence[str] = PARTIES, second: bool = False) -> dict[str, NodeFolder]:
    """Folders with the keys of a coordinator, parties, a student and perhaps a second aggregator, by name."""
    kinds: dict[str, Any] = {"coordinator": "coordinator", **dict.fromkeys(parties, "party"), STUDENT: "student"}
    kinds |= {SECOND: "aggregator"} if second else {}
    return {name: make(kind, name, root / name)[0] for name, kind in kinds.items()}


def roster_of(nodes: Mapping[str, NodeFolder], collection: CollectionMode) -> SumRoster | None:
    """Of the parties among these nodes; None for plaintext votes."""
    if collection == "plaintext":
        return None
    keys = {name: OwnKeys.load(folder).public for name, folder in nodes.items()}
    second = keys.get(SECOND)
    return MODES[collection].roster.build(
        {name: each.identity for name, each in keys.items() if each.kind == "party"},
        keys["coordinator"].identity,
        sealing=keys["coordinator"].sealing,
        second=second and AggregatorEntry(ed25519_pk=second.identity, x25519_pk=second.sealing),
    )


def federation_of(
    nodes: Mapping[str, NodeFolder], authority: Authority, config: FederationConfig, place: Coordinator
) -> ServedFederation:
    roster = roster_of(nodes, config.collection)
    keys = {name: OwnKeys.load(folder).public for name, folder in nodes.items()}
    values = {
        "version": 1,
        "made": "2026-11-29",
        "ends": "2027-11-29",
        "program": program_versions(),
        "coordinator": place,
        "config": config,
        "terms": config.terms(),
        "roster": None if roster is None else roster.model_dump(mode="json"),
        "nodes": keys,
        "certificates": {
            "coordinator": authority.certify_server(keys["coordinator"].key, [HOST]),
            STUDENT: authority.certify_student(STUDENT, keys[STUDENT].key),
        },
    }
    return ServedFederation(**values)


def make_authority() -> Authority:
    return Authority.create("small", date(2027, 11, 29), datetime.now(UTC))


def sign(file: ServedFederation, authority: Authority, out: Path, public: np.ndarray | None = None) -> Path:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / FEDERATION_FILE).write_text(file.model_dump_json(indent=1))
    (out / AUTHORITY_FILE).write_text(pem(authority.certificate))
    (out / POLICY_FILE).write_text("# empty: what a node allows, its own people say\n")
    if public is not None:
        np.savez(out / PUBLIC_FILE, queries=public, features=np.array(FEATURES))
    sign_files(authority, out)
    return out


def sign_files(authority: Authority, out: Path) -> None:
    listed = [name for name in (FEDERATION_FILE, AUTHORITY_FILE, PUBLIC_FILE) if (out / name).exists()]
    files: dict[Any, str] = {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in listed}
    (out / SIGNED_FILE).write_text(Signed(files=files, signature=authority.sign(files)).model_dump_json())


@dataclass(frozen=True)
class Made:
    """A federation that all its nodes joined. out: the signed folder."""

    out: Path
    authority: Authority = field(repr=False)
    file: ServedFederation = field(repr=False)
    nodes: Mapping[str, NodeFolder]

    def again(self, **changes: Any) -> Made:
        """The folder made anew, in the next version, and joined by nobody yet."""
        values = {"version": self.file.version + 1, **changes}
        file = ServedFederation(
            **{**{name: getattr(self.file, name) for name in type(self.file).model_fields}, **values}
        )
        sign(file, self.authority, self.out)
        return replace(self, file=file)


def make_small(
    root: Path,
    collection: CollectionMode = "plaintext",
    parties: Sequence[str] = PARTIES,
    place: Coordinator = HERE,
    **changes: Any,
) -> Made:
    """A federation without seeds, whose nodes joined it, and whose parties have rows. changes: see `make_config`."""
    nodes = make_nodes(root, parties, collection == "verified")
    authority = make_authority()
    roster = roster_of(nodes, collection)
    config = make_config(
        **{
            "collection": collection,
            "simulation": False,
            "noise_seed": None,
            "roster": "" if roster is None else roster.digest,
            "noise_shares": 0 if roster is None else 1 if collection == "verified" else roster.sure,
            **changes,
        }
    )
    file = federation_of(nodes, authority, config, place)
    out = sign(file, authority, root / "federation")
    for number, (name, folder) in enumerate(nodes.items()):
        join(out, folder)
        if name in parties:
            give_rows(folder, number)
    return Made(out, authority, file, nodes)


def give_rows(folder: NodeFolder, seed: int = 0, rows: int = 40, **settings: Any) -> None:
    """Rows of a party, and the party.toml that names them, or says what else."""
    x, y = make_rows(rows, seed)
    np.savez(folder / "data.npz", x=x, y=y, features=np.array(FEATURES), classes=np.array(CLASSES))
    (folder / "party.toml").write_text(tomli_w.dumps({"data": "data.npz", **settings}))


def allow(folder: NodeFolder, **lines: Any) -> None:
    folder.policy_file.write_text(tomli_w.dumps(lines))


def asked_of(folder: NodeFolder) -> dict[str, Any]:
    """All that its federation asks of a node: with it as policy.toml nobody is asked anything."""
    opened = open_party(folder) if folder.kind == "party" else open_second(folder)
    return dict(opened.request().asked)
