"""The files of each node's kit, how they are signed and how they are packed."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.provision.authority import Authority, Issued
from consilium.coordinator.provision.plan import POOL_IDS, POOL_ROWS
from consilium.coordinator.provision.registry import OPERATOR, AggregatorRecord, MemberKeys, Registry
from consilium.coordinator.rosters import NodesFile
from consilium.node.checks import SECOND_FILE, SecondFile
from consilium.node.kit import KIT_FILE, KitFile, NodeKind, node_id
from consilium.node.manifest import ALGORITHM, MANIFEST, Manifest, SignedManifest, digests_of, is_setting
from consilium.protocol.config_files import load
from consilium.protocol.errors import OutputExists
from consilium.protocol.files import private_folder, replace_text, write_private
from consilium.protocol.inheritance import ACCOUNT_FILE, Inheritance
from consilium.protocol.versions import DISTRIBUTION, program_versions

PLACE, CA = "/srv/consilium", "ca.crt"


def _template(file: str, /, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("consilium.coordinator.provision"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template(file + ".j2").render(values)


def party_settings(name: str, config: FederationConfig) -> str:
    """`party.toml`: where the rows are, and no limits: those are the party's to say."""
    unit = config.privacy.unit.value
    return _template("party.toml", name=name, federation=config.name, unit=unit)


def aggregator_settings(name: str, config: FederationConfig) -> str:
    """`aggregator.toml`, without limits."""
    return _template("aggregator.toml", name=name, federation=config.name)


def write_start_files(folder: Path, kit: KitFile) -> None:
    """start.sh, compose file and, of nodes that stay, the unit of systemd."""
    ports = [kit.coordinator.superlink_port, kit.coordinator.label_port] if kit.kind == "coordinator" else []
    unit = f"consilium-{kit.kind}.service"
    script = folder / "start.sh"
    script.write_text(_template("start.sh", kind=kit.kind), encoding="utf-8")
    script.chmod(0o755)
    (folder / "compose.yaml").write_text(
        _template("compose.yaml", kind=kit.kind, version=version(DISTRIBUTION), ports=ports), encoding="utf-8"
    )
    if kit.kind == "student":
        return  # a student runs once, and is no service
    place = f"{PLACE}/{folder.name}"
    (folder / unit).write_text(
        _template("node.service", kind=kit.kind, name=kit.name, unit=unit, place=place), encoding="utf-8"
    )


MANIFESTS = "manifests"


def manifests_of(out: Path, version: int) -> Path:
    """Where the operator keeps the manifests of one change, to which the next one adds."""
    return out / OPERATOR / MANIFESTS / f"{version:04d}"


def sign_kit(out: Path, folder: Path, registry: Registry, authority: Authority) -> None:
    """Write the manifest of a new kit, whose files are all in `folder`, and keep a copy with the operator."""
    digests = digests_of(folder)
    files = {name: digest for name, digest in digests.items() if not is_setting(name)}
    settings = {name: digest for name, digest in digests.items() if is_setting(name)}
    _write(out, folder, _manifest(registry, folder.name, files, settings), authority)


def sign_update(out: Path, folder: Path, registry: Registry, authority: Authority) -> None:
    """Write the manifest of the kit as it is once the update in `folder`, which has its node's name, was unpacked."""
    places = (manifests_of(out, version) / f"{folder.name}.json" for version in range(registry.version - 1, 0, -1))
    earlier = next(path for path in places if path.exists())
    listed = {**load(earlier, SignedManifest).content.files, **digests_of(folder)}
    _write(out, folder, _manifest(registry, folder.name, listed, {}), authority)


def _manifest(registry: Registry, node: str, files: Mapping[str, str], settings: Mapping[str, str]) -> Manifest:
    return Manifest(
        federation=registry.plan.federation.name,
        node=node,
        version=registry.version,
        made=f"{datetime.now(UTC):%Y-%m-%d}",
        program=program_versions(),
        files=dict(files),
        settings=dict(settings),
    )


def _write(out: Path, folder: Path, manifest: Manifest, authority: Authority) -> None:
    signature = authority.key.sign(manifest.signed, ALGORITHM).hex()
    text = SignedManifest(content=manifest, signature=signature).model_dump_json(indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    manifests = manifests_of(out, manifest.version)
    private_folder(manifests.parent)
    replace_text(private_folder(manifests) / f"{folder.name}.json", text)


def coordinator_kit(
    out: Path, registry: Registry, authority: Authority, keys: MemberKeys, server: x509.Certificate
) -> Path:
    """The coordinator's kit; without private keys, if it made its own."""

    def fill(folder: Path) -> None:
        keys.fill(folder)
        (folder / "server.crt").write_text(pem(server), encoding="utf-8")
        if registry.public:
            shutil.copy(out / OPERATOR / POOL_IDS, folder / POOL_IDS)

    files = {**common_files(registry), "nodes.json": nodes(registry), "students.json": students(registry)}
    return _kit(out, registry, authority, ("coordinator", "coordinator"), files, fill)


def party_kit(out: Path, registry: Registry, authority: Authority, name: str, keys: MemberKeys) -> Path:
    """One party's kit; without private keys, if the party made its own."""
    files = {**member_files(registry), "party.toml": party_settings(name, registry.federation())}
    inheritance = registry.inheritance(name)
    if inheritance != Inheritance():
        files[ACCOUNT_FILE] = _json(inheritance)
    return _kit(out, registry, authority, ("party", name), files, keys.fill)


def aggregator_kit(
    out: Path, registry: Registry, authority: Authority, record: AggregatorRecord, keys: MemberKeys
) -> Path:
    """The second aggregator's kit; without private keys, if it made its own."""
    files = {**member_files(registry), "aggregator.toml": aggregator_settings(record.name, registry.federation())}
    return _kit(out, registry, authority, ("aggregator", record.name), files, keys.fill)


def student_kit(out: Path, registry: Registry, authority: Authority, name: str, issued: Issued) -> Path:
    """One student's kit."""

    def fill(folder: Path) -> None:
        issued.save(folder, "client")
        if registry.public:
            shutil.copy(out / OPERATOR / POOL_ROWS, folder / POOL_ROWS)

    files = {"schema.json": _json(registry.rows)}
    return _kit(out, registry, authority, ("student", name), files, fill)


def _kit(
    out: Path,
    registry: Registry,
    authority: Authority,
    node: tuple[NodeKind, str],
    files: Mapping[str, str],
    fill: Callable[[Path], None],
) -> Path:
    """The kit of one node, and the same packed. files: texts by name. fill: writes keys, and what is no text."""
    kind, name = node
    folder = out / node_id(kind, name)
    if folder.exists():
        raise OutputExists(f"{folder} is already there", "Keys are never overwritten")
    private_folder(folder)
    kit = KitFile(kind=kind, name=name, federation=registry.plan.federation.name, coordinator=registry.place)
    ports = registry.node_ports
    if name in ports:
        kit = kit.model_copy(update={"node_port": ports[name]})
    (folder / KIT_FILE).write_text(_json(kit), encoding="utf-8")
    (folder / CA).write_text(authority.trusted, encoding="utf-8")
    fill(folder)
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
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


def _json(content: BaseModel) -> str:
    return content.model_dump_json(indent=1) + "\n"


def nodes(registry: Registry) -> str:
    """nodes.json."""
    second = registry.aggregator
    return _json(
        NodesFile(
            nodes={name: record.node for name, record in registry.parties.items()},
            aggregators={} if second is None else {second.name: second.node},
        )
    )


def students(registry: Registry) -> str:
    """students.json."""
    return json.dumps(registry.students, indent=1) + "\n"


def common_files(registry: Registry) -> dict[str, str]:
    """Texts that coordinator, parties and second aggregator have alike, by file."""
    files, roster, second = {"federation.json": _json(registry.federation())}, registry.roster(), registry.aggregator
    if roster is not None:
        files["roster.json"] = _json(roster)
    if second is not None:
        files[SECOND_FILE] = _json(SecondFile(name=second.name, made_by=second.made_by))
    return files


def member_files(registry: Registry) -> dict[str, str]:
    """The same, and the terms that a party and the second aggregator pin."""
    return {**common_files(registry), "terms.json": _json(registry.federation().terms())}
