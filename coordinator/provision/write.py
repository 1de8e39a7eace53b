"""The files of each node's kit, and how they are packed."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from consilium.coordinator.deploy.flower import NodesFile
from consilium.coordinator.provision.authority import Authority, Issued
from consilium.coordinator.provision.party_keys import CoordinatorKeys, PartyKeys
from consilium.coordinator.provision.pool import POOL_IDS, POOL_ROWS
from consilium.coordinator.provision.registry import OPERATOR, AggregatorRecord, Registry
from consilium.coordinator.provision.render import aggregator_settings, party_settings, write_start_files
from consilium.coordinator.provision.sign import sign_kit
from consilium.coordinator.rosters import AnyRoster
from consilium.protocol.errors import OutputExists
from consilium.protocol.files import private_folder, write_private
from consilium.protocol.node.kit import KIT_FILE, KitFile, NodeKind, node_id
from consilium.protocol.node.second import SECOND_FILE, SecondFile


def coordinator_kit(out: Path, registry: Registry, authority: Authority, keys: CoordinatorKeys, server: Issued) -> Path:
    """The coordinator's kit."""

    def fill(folder: Path) -> None:
        keys.fill(folder)
        server.save(folder, "server")
        (folder / "federation.json").write_text(federation(registry), encoding="utf-8")
        (folder / "nodes.json").write_text(nodes(registry), encoding="utf-8")
        (folder / "students.json").write_text(students(registry), encoding="utf-8")
        if registry.pool:
            shutil.copy(out / OPERATOR / POOL_IDS, folder / POOL_IDS)
        if found := registry.roster():
            (folder / "roster.json").write_text(roster(found), encoding="utf-8")
        _second(folder, registry)

    return _kit(out / "coordinator", registry, authority, "coordinator", "coordinator", fill)


def party_kit(out: Path, registry: Registry, authority: Authority, name: str, keys: PartyKeys) -> Path:
    """One party's kit; without private keys, if the party made its own."""

    def fill(folder: Path) -> None:
        keys.fill(folder)
        (folder / "federation.json").write_text(federation(registry), encoding="utf-8")
        (folder / "terms.json").write_text(terms(registry), encoding="utf-8")
        (folder / "party.toml").write_text(party_settings(name, registry.federation()), encoding="utf-8")
        if found := registry.roster():
            (folder / "roster.json").write_text(roster(found), encoding="utf-8")
        _second(folder, registry)

    return _kit(out / f"party-{name}", registry, authority, "party", name, fill)


def aggregator_kit(
    out: Path, registry: Registry, authority: Authority, record: AggregatorRecord, keys: PartyKeys
) -> Path:
    """The second aggregator's kit; without private keys, if it made its own."""

    def fill(folder: Path) -> None:
        keys.fill(folder)
        found = registry.roster()
        (folder / "federation.json").write_text(federation(registry), encoding="utf-8")
        (folder / "terms.json").write_text(terms(registry), encoding="utf-8")
        if found is not None:
            (folder / "roster.json").write_text(roster(found), encoding="utf-8")
        settings = aggregator_settings(record.name, registry.federation())
        (folder / "aggregator.toml").write_text(settings, encoding="utf-8")
        _second(folder, registry)

    return _kit(out / node_id("aggregator", record.name), registry, authority, "aggregator", record.name, fill)


def student_kit(out: Path, registry: Registry, authority: Authority, name: str, issued: Issued) -> Path:
    """One student's kit."""

    def fill(folder: Path) -> None:
        issued.save(folder, "client")
        (folder / "schema.json").write_text(registry.rows.model_dump_json(indent=1) + "\n", encoding="utf-8")
        if registry.pool:
            shutil.copy(out / OPERATOR / POOL_ROWS, folder / POOL_ROWS)

    return _kit(out / f"student-{name}", registry, authority, "student", name, fill)


def _kit(
    folder: Path, registry: Registry, authority: Authority, kind: NodeKind, name: str, fill: Callable[[Path], None]
) -> Path:
    """One kit, and the same packed."""
    if folder.exists():
        raise OutputExists(f"{folder} is already there", "Keys are never overwritten")
    private_folder(folder)
    kit = KitFile(kind=kind, name=name, federation=registry.plan.federation.name, coordinator=registry.place)
    ports, party = registry.node_ports, registry.parties.get(name)
    if name in ports:
        kit = kit.model_copy(update={"node_port": ports[name], "weight": party.weight if party else 1})
    (folder / KIT_FILE).write_text(kit.model_dump_json(indent=1) + "\n", encoding="utf-8")
    (folder / "ca.crt").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    fill(folder)
    write_start_files(folder, kit)
    sign_kit(folder.parent, folder, registry, authority)
    pack(folder)
    return folder


def pack(folder: Path, strip: bool = False) -> Path:
    """FOLDER.tar.gz beside it, mode 0600, owned by nobody in particular. strip: without the folder's own name."""

    def anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    path = folder.with_name(folder.name + ".tar.gz")
    write_private(path, b"")
    with open(path, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
        archive.add(folder, arcname="." if strip else folder.name, filter=anonymous)
    return path


def pem(certificate: x509.Certificate) -> str:
    """A certificate as text."""
    return certificate.public_bytes(Encoding.PEM).decode()


def nodes(registry: Registry) -> str:
    """nodes.json."""
    second = registry.aggregator
    known = NodesFile(
        nodes={name: record.node for name, record in registry.parties.items()},
        aggregators={} if second is None else {second.name: second.node},
    )
    return known.model_dump_json(indent=1) + "\n"


def students(registry: Registry) -> str:
    """students.json."""
    return json.dumps(registry.students, indent=1) + "\n"


def _second(folder: Path, registry: Registry) -> None:
    if registry.aggregator is not None:
        (folder / SECOND_FILE).write_text(second(registry.aggregator), encoding="utf-8")


def second(record: AggregatorRecord) -> str:
    """second.json."""
    return SecondFile(name=record.name, made_by=record.made_by).model_dump_json(indent=1) + "\n"


def roster(found: AnyRoster) -> str:
    """roster.json; for votes that use one."""
    return found.model_dump_json(indent=1) + "\n"


def terms(registry: Registry) -> str:
    """terms.json: what a party pins."""
    return registry.federation().terms().model_dump_json(indent=1) + "\n"


def federation(registry: Registry) -> str:
    """federation.json."""
    return registry.federation().model_dump_json(indent=1) + "\n"
