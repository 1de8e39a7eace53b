"""Making kits, and changing who takes part without touching the kits that are deployed.

OUT/operator/           ca.key, ca.crt, registry.json: stays with the operator
OUT/coordinator/        one kit for each node, and the same as .tar.gz
OUT/party-NAME/
OUT/student-NAME/
OUT/updates/0002/NODE/  what a later change asks of a deployed node: unpack over its kit; never a private key
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from coordinator.deploy.flower import Nodes
from coordinator.provision.authority import Authority, Issued, node_key
from coordinator.provision.plan import PartyPlan, read_plan
from coordinator.provision.registry import OPERATOR, PartyRecord, Registry, load_registry
from coordinator.provision.render import party_settings, write_start_files
from protocol.deploy.files import private_folder, write_private
from protocol.deploy.kit import KIT_FILE, Kind, KitFile
from protocol.errors import ConfigError, OutputExists
from protocol.secagg.identity import Identity
from protocol.tls import fingerprint

UPDATES = "updates"


@dataclass(frozen=True)
class Made:
    """New kits, and files to send to nodes that are deployed already, by node."""

    kits: tuple[Path, ...] = ()
    updates: tuple[Path, ...] = ()
    note: str = ""


def make(plan_file: Path, out: Path) -> Made:
    """Everything for a new federation, in the new folder `out`: all of it, or nothing.

    Raises
    ------
    OutputExists : `out` is there. ConfigError, DataError : the plan says something it may not say.
    """
    plan, rows = read_plan(plan_file)
    if out.exists():
        raise OutputExists(f"{out} is already there", "Choose another folder: keys are never overwritten")
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        private_folder(part)
        private_folder(part / OPERATOR)
        authority = Authority.create(plan.name)
        authority.save(part / OPERATOR)
        coordinator = Identity.generate()
        signers = {party.name: Identity.generate() for party in plan.parties}
        nodes = {party.name: node_key() for party in plan.parties}
        certificates = {student.name: authority.client(student.name) for student in plan.students}
        server = authority.server(plan.coordinator.hosts)
        registry = Registry(
            plan=plan,
            rows=rows,
            coordinator_identity=coordinator.public.hex(),
            parties={
                party.name: PartyRecord(
                    identity=signers[party.name].public.hex(), node=nodes[party.name][1], port=party.port
                )
                for party in plan.parties
            },
            students={name: [fingerprint(issued.certificate)] for name, issued in certificates.items()},
            certificates={
                name: _pem(issued.certificate) for name, issued in [*certificates.items(), ("coordinator", server)]
            },
        )
        folders = [_coordinator_kit(part, registry, authority, coordinator, server)]
        folders += [_party_kit(part, registry, authority, name, signers[name], nodes[name]) for name in signers]
        folders += [_student_kit(part, registry, authority, name, issued) for name, issued in certificates.items()]
        registry.save(part)
        part.rename(out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)  # it holds keys
        raise
    return Made(tuple(out / folder.name for folder in folders))


def add_party(kits: Path, name: str, port: int = 9094) -> Made:
    """A kit for one more party, and updates for the others: for clear votes only the coordinator has one.

    For secure and distributed votes the roster changes, and with it the federation: it starts a new ledger.

    Raises
    ------
    ConfigError : the name is taken or unfit, or no safe roster of these parties exists.
    """
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    try:
        party = PartyPlan(name=name, port=port)
    except ValueError:
        raise ConfigError(f"{name!r} is no name", "Use letters, digits, dot, dash and underscore") from None
    registry.check_new(name)
    signer, node = Identity.generate(), node_key()
    record = PartyRecord(identity=signer.public.hex(), node=node[1], port=party.port)
    changed = registry.model_copy(
        update={"version": registry.version + 1, "parties": {**registry.parties, name: record}}
    )
    changed.federation()
    kit = _party_kit(kits, changed, authority, name, signer, node)
    updates = _updates(kits, changed, _members(changed, but=name))
    changed.save(kits)
    return Made((kit,), updates)


def add_student(kits: Path, name: str) -> Made:
    """A kit for one more student, and the coordinator's new list. Raises ConfigError."""
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    registry.check_new(name)
    issued = authority.client(name)
    changed = registry.model_copy(
        update={
            "version": registry.version + 1,
            "students": {**registry.students, name: [fingerprint(issued.certificate)]},
            "certificates": {**registry.certificates, name: _pem(issued.certificate)},
        }
    )
    kit = _student_kit(kits, changed, authority, name, issued)
    updates = _updates(kits, changed, {"coordinator": {"students.json": _students(changed)}})
    changed.save(kits)
    return Made((kit,), updates)


def revoke(kits: Path, name: str) -> Made:
    """Updates after which a party cannot connect, and is in no sum, or a student is not answered.

    It must always be possible: where the others are too few for a federation, the party is shut out all the same, and
    the note says so. Raises ConfigError if there is no such node.
    """
    registry = load_registry(kits)
    if name not in registry.parties and name not in registry.students:
        raise ConfigError(
            f"no party or student {name!r}", f"There are {sorted([*registry.parties, *registry.students])}"
        )
    changed = registry.model_copy(
        update={
            "version": registry.version + 1,
            "parties": {other: record for other, record in registry.parties.items() if other != name},
            "students": {other: pins for other, pins in registry.students.items() if other != name},
            "revoked": [*registry.revoked, name],
        }
    )
    note = ""
    if name in registry.students:
        files = {"coordinator": {"students.json": _students(changed)}}
    else:
        try:
            changed.federation()
            files = _members(changed)
        except ConfigError as error:
            files, note = {"coordinator": {"nodes.json": _nodes(changed)}}, str(error)
    updates = _updates(kits, changed, files)
    changed.save(kits)
    return Made((), updates, note)


def renew(kits: Path, name: str) -> Made:
    """A new certificate for the coordinator's or a student's old key. Until a student has it, the old one is good too.

    Raises
    ------
    ConfigError : the node has no certificate.
    """
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    if name not in registry.certificates or name in registry.revoked:
        raise ConfigError(f"{name!r} has no certificate", "Give coordinator, or a student; parties have none")
    old = x509.load_pem_x509_certificate(registry.certificates[name].encode())
    new = authority.again(old)
    students, files = dict(registry.students), {}
    if name == "coordinator":
        files = {name: {"server.crt": _pem(new)}}
    else:
        students[name] = [*students[name], fingerprint(new)]
        files = {f"student-{name}": {"client.crt": _pem(new)}}
    changed = registry.model_copy(
        update={
            "version": registry.version + 1,
            "students": students,
            "certificates": {**registry.certificates, name: _pem(new)},
        }
    )
    if name != "coordinator":
        files["coordinator"] = {"students.json": _students(changed)}
    updates = _updates(kits, changed, files)
    changed.save(kits)
    return Made((), updates)


def _members(registry: Registry, but: str = "") -> dict[str, dict[str, str]]:
    """What nodes must learn when the parties changed."""
    files = {"coordinator": {"nodes.json": _nodes(registry)}}
    roster = registry.roster()
    if roster is None:
        return files
    files["coordinator"] |= {"roster.json": _roster(registry), "federation.json": _federation(registry)}
    told = {
        "roster.json": _roster(registry),
        "federation.json": _federation(registry),
        "terms.json": registry.hello().model_dump_json(indent=1) + "\n",
    }
    return files | {f"party-{name}": told for name in registry.parties if name != but}


def _updates(kits: Path, registry: Registry, files: Mapping[str, Mapping[str, str]]) -> tuple[Path, ...]:
    folder = kits / UPDATES / f"{registry.version:04d}"
    archives = []
    for node, texts in files.items():
        target = private_folder(folder / node)
        for name, text in texts.items():
            (target / name).write_text(text, encoding="utf-8")
        archives.append(_pack(target, strip=True))
    return tuple(archives)


def _coordinator_kit(out: Path, registry: Registry, authority: Authority, identity: Identity, server: Issued) -> Path:
    def fill(folder: Path) -> None:
        identity.save(folder / "identity.pem")
        server.save(folder, "server")
        (folder / "federation.json").write_text(_federation(registry), encoding="utf-8")
        (folder / "nodes.json").write_text(_nodes(registry), encoding="utf-8")
        (folder / "students.json").write_text(_students(registry), encoding="utf-8")
        if registry.roster():
            (folder / "roster.json").write_text(_roster(registry), encoding="utf-8")

    return _kit(out / "coordinator", registry, authority, "coordinator", "coordinator", fill)


def _party_kit(
    out: Path, registry: Registry, authority: Authority, name: str, identity: Identity, node: tuple[bytes, str]
) -> Path:
    def fill(folder: Path) -> None:
        identity.save(folder / "identity.pem")
        write_private(folder / "node.key", node[0])
        (folder / "node.pub").write_text(node[1] + "\n", encoding="utf-8")
        (folder / "federation.json").write_text(_federation(registry), encoding="utf-8")
        (folder / "terms.json").write_text(registry.hello().model_dump_json(indent=1) + "\n", encoding="utf-8")
        roster = registry.roster()
        (folder / "party.toml").write_text(party_settings(name, registry.federation(), roster), encoding="utf-8")
        if roster:
            (folder / "roster.json").write_text(_roster(registry), encoding="utf-8")

    return _kit(out / f"party-{name}", registry, authority, "party", name, fill)


def _student_kit(out: Path, registry: Registry, authority: Authority, name: str, issued: Issued) -> Path:
    def fill(folder: Path) -> None:
        issued.save(folder, "client")
        (folder / "schema.json").write_text(registry.rows.model_dump_json(indent=1) + "\n", encoding="utf-8")

    return _kit(out / f"student-{name}", registry, authority, "student", name, fill)


def _kit(
    folder: Path, registry: Registry, authority: Authority, kind: Kind, name: str, fill: Callable[[Path], None]
) -> Path:
    """One kit, and the same packed."""
    if folder.exists():
        raise OutputExists(f"{folder} is already there", "Keys are never overwritten")
    private_folder(folder)
    kit = KitFile(kind=kind, name=name, federation=registry.plan.name, coordinator=registry.place)
    if kind == "party":
        kit = kit.model_copy(update={"node_port": registry.parties[name].port})
    (folder / KIT_FILE).write_text(kit.model_dump_json(indent=1) + "\n", encoding="utf-8")
    (folder / "ca.crt").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    fill(folder)
    write_start_files(folder, kit)
    _pack(folder)
    return folder


def _pack(folder: Path, strip: bool = False) -> Path:
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


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _nodes(registry: Registry) -> str:
    nodes = Nodes(nodes={name: record.node for name, record in registry.parties.items()})
    return nodes.model_dump_json(indent=1) + "\n"


def _students(registry: Registry) -> str:
    return json.dumps(registry.students, indent=1) + "\n"


def _roster(registry: Registry) -> str:
    roster = registry.roster()
    assert roster is not None
    return roster.model_dump_json(indent=1) + "\n"


def _federation(registry: Registry) -> str:
    return registry.federation().model_dump_json(indent=1) + "\n"
