"""Making kits, and changing who takes part without touching the kits that are deployed.

OUT/operator/           ca.key, ca.crt, registry.json, manifests: stays with the operator
OUT/coordinator/        one kit for each node, and the same as .tar.gz
OUT/party-NAME/
OUT/aggregator-NAME/    of verified votes
OUT/student-NAME/
OUT/escrow/             where the operator's folder is in escrow: what holders keep
OUT/updates/0002/NODE/  what a later change asks of a deployed node: unpack over its kit; never a private key
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from consilium.accounting.guarantee import Guarantee
from consilium.coordinator.privacy import expected, promise_in_words, promised, towards_nodes
from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.provision.escrow import ESCROW, seal_again
from consilium.coordinator.provision.outlook import Asked, ChangeOutlook, told_of
from consilium.coordinator.provision.plan import read_plan, read_pool, read_reference, remarks
from consilium.coordinator.provision.registry import (
    OPERATOR,
    UPDATES,
    CoordinatorKeys,
    MemberKeys,
    Registry,
    check_distinct,
    check_whose,
    checked_aggregator,
    checked_party,
    keys_of,
    load_registry,
    with_aggregator,
    with_keys,
    with_party,
    without,
)
from consilium.coordinator.provision.write import (
    CA,
    aggregator_kit,
    common_files,
    coordinator_kit,
    manifests_of,
    member_files,
    nodes,
    pack,
    party_kit,
    pem,
    sign_update,
    signing,
    student_kit,
    students,
)
from consilium.coordinator.rosters import least_together
from consilium.node.keys import ENROLMENT, Enrolment, public_key
from consilium.node.kit import THE_COORDINATOR, KeyKind, node_id
from consilium.node.manifest import authority_fingerprint
from consilium.node.signed_statement import SIGNING
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import new_here, private_folder
from consilium.protocol.queries import reference_text
from consilium.protocol.tls import fingerprint
from consilium.report.before_run import before_run
from consilium.report.warnings import RunWarning

_LARGER = "; a party charges itself the larger"


@dataclass(frozen=True)
class Made:
    """New kits, and files to send to nodes that are deployed already, by node.

    enrolled: fingerprints of the parties that made their own keys. federation (as people compare it), federation_digest
    (as a simulation has it), authority (its fingerprint), promised, in_plain_words, towards_nodes, warnings, least: of
    a new federation, the last of parties that must be there, 0 elsewhere. outlook: what a change of the parties
    means for each.
    """

    kits: tuple[Path, ...] = ()
    updates: tuple[Path, ...] = ()
    note: str = ""
    enrolled: Mapping[str, str] = field(default_factory=dict)
    federation: str = ""
    federation_digest: str = ""
    authority: str = ""
    promised: Guarantee | None = None
    in_plain_words: str = ""
    towards_nodes: str = ""
    warnings: tuple[RunWarning, ...] = ()
    least: int = 0
    outlook: ChangeOutlook | None = None


def make(plan_file: Path, out: Path) -> Made:
    """Everything for a new federation, in the new folder `out`: all of it, or nothing.

    Raises
    ------
    OutputExists : `out` is there. ConfigError, DataError : the plan says something it may not say.
    """
    plan, rows = read_plan(plan_file)
    pool = read_pool(plan_file, plan, rows)
    if out.exists():
        raise OutputExists(f"{out} is already there", "Choose another folder: keys are never overwritten")
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        private_folder(part)
        private_folder(part / OPERATOR)
        authority = Authority.create(plan.federation.name)
        authority.save(part / OPERATOR)
        coordinator = CoordinatorKeys.generate(plan.federation.collection == "verified")
        keys = {
            party.name: keys_of(party.name, plan_file.parent / party.keys if party.keys else None)
            for party in plan.party
        }
        second, second_keys = plan.aggregator, None
        if second is not None:
            path = plan_file.parent / second.keys if second.keys else None
            second_keys = keys_of(second.name, path, "aggregator")
        certificates = {student.name: authority.client(student.name) for student in plan.student}
        server = authority.server(plan.coordinator.hosts)
        registry = Registry(
            federation_digest=plan.federation.federation_digest(),
            plan=plan,
            rows=rows,
            public=pool.terms if pool else None,
            reference=reference_text(read_reference(plan_file, plan, rows, pool)),
            coordinator_identity=coordinator.identity.public.hex(),
            coordinator_sealing=coordinator.sealing.public.hex() if coordinator.sealing else "",
            aggregator=second_keys.second(second.name, second.port) if second and second_keys else None,
            parties={party.name: keys[party.name].party(party.port) for party in plan.party},
            students={name: [fingerprint(issued.certificate)] for name, issued in certificates.items()},
            certificates={
                name: pem(issued.certificate) for name, issued in [*certificates.items(), ("coordinator", server)]
            },
        )
        check_distinct(registry)
        if pool is not None:
            pool.save(part / OPERATOR)
        folders = [coordinator_kit(part, registry, authority, coordinator, server)]
        folders += [party_kit(part, registry, authority, name, made) for name, made in keys.items()]
        if registry.aggregator is not None and second_keys is not None:
            folders.append(aggregator_kit(part, registry, authority, registry.aggregator, second_keys))
        folders += [student_kit(part, registry, authority, name, issued) for name, issued in certificates.items()]
        registry.save(part)
        part.rename(out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)  # it holds keys
        raise
    roster, config = registry.roster(), registry.federation()
    there = tuple(out / folder.name for folder in folders)
    return Made(
        there,
        note=pool.note if pool else remarks(plan_file, plan, rows),
        enrolled=_enrolled(keys if second is None or second_keys is None else {**keys, second.name: second_keys}),
        federation=config.digest()[:12],
        federation_digest=registry.federation_digest,
        authority=authority_fingerprint(authority.certificate),
        promised=promised(plan.federation),
        in_plain_words=promise_in_words(plan.federation),
        towards_nodes=towards_nodes(config) + _LARGER * plan.federation.noise_in_sums,
        warnings=tuple(before_run(expected(config, len(plan.party), len(rows.classes), asks_typical=None))),
        least=least_together(plan.federation, 0 if roster is None else roster.least_sum),
    )


def add_party(
    kits: Path,
    name: str,
    port: int = 9094,
    keys: Path | None = None,
    succeeds: Sequence[str] = (),
    new_patients: bool = False,
    asked: Asked = None,
) -> Made:
    """A kit for one more party, and updates for the others: for plaintext votes only the coordinator has one.

    keys: the enrolment of a party that made its own; None: they are made here.
    succeeds: parties that left, among whose patients are this one's: what these cost goes with the kit. new_patients:
    that there are none, where parties have left. asked: see `Asked`; what is inherited does not depend on it.

    For secure and distributed votes the roster changes, and with it the federation: it starts a new ledger.

    Raises
    ------
    ConfigError : the name is taken or unfit, the enrolment is not that
        party's, no safe roster of these parties exists, or nobody said whose patients these are.
    """
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    party, made = checked_party(registry, name, port), keys_of(name, keys)
    check_whose(registry, name, succeeds, new_patients)
    changed = with_party(registry, party, made, succeeds)
    node = node_id("party", name)
    after = f", with the account of {', '.join(succeeds)}" if succeeds else ""
    shown = told_of(registry, changed, [f"add {name}{after}"], asked)
    written = _write(
        kits, changed, authority, _members(changed, but=node), node,
        lambda: party_kit(kits, changed, authority, name, made),
    )  # fmt: skip
    return replace(written, enrolled=_enrolled({name: made}), outlook=shown)


def add_aggregator(kits: Path, name: str, port: int = 9094, keys: Path | None = None, asked: Asked = None) -> Made:
    """A kit for a second aggregator, in place of one that was revoked, and updates for all others: a new federation.

    Raises
    ------
    ConfigError : there is one, votes need none, the name is taken or unfit, or the enrolment is not its.
    """
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    second, made = checked_aggregator(registry, name, port), keys_of(name, keys, "aggregator")
    record = made.second(name, second.port)
    changed = with_aggregator(registry, record)
    node = node_id("aggregator", name)
    shown = told_of(registry, changed, [f"add aggregator {name}"], asked)
    written = _write(
        kits, changed, authority, _members(changed, but=node), node,
        lambda: aggregator_kit(kits, changed, authority, record, made),
    )  # fmt: skip
    return replace(written, enrolled=_enrolled({name: made}), outlook=shown)


def add_student(kits: Path, name: str) -> Made:
    """A kit for one more student, and the coordinator's new list. Raises ConfigError."""
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    registry.check_new(name)
    issued = authority.client(name)
    changed = registry.next(
        students={**registry.students, name: [fingerprint(issued.certificate)]},
        certificates={**registry.certificates, name: pem(issued.certificate)},
    )
    return _write(
        kits, changed, authority, {"coordinator": {"students.json": students(changed)}}, node_id("student", name),
        lambda: student_kit(kits, changed, authority, name, issued),
    )  # fmt: skip


def revoke(kits: Path, name: str, asked: Asked = None) -> Made:
    """Updates after which a party cannot connect, and is in no sum, or a student is not answered.

    It must always be possible: where the others are too few for a federation, or it was the second aggregator, the node
    is shut out all the same, and the note says so. Raises ConfigError if there is no such node.
    """
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    changed, note = without(registry, name), ""
    if name in registry.students:
        return _write(kits, changed, authority, {"coordinator": {"students.json": students(changed)}})
    try:
        changed.federation()
        files = _members(changed)
    except ConfigError as error:
        files, note = {"coordinator": {"nodes.json": nodes(changed)}}, str(error)
    shown = told_of(registry, changed, [f"revoke {name}"], asked)
    return replace(_write(kits, changed, authority, files), note=note, outlook=shown)


def renew(kits: Path, name: str, keys: Path | None = None, lost: str = "", asked: Asked = None) -> Made:
    """A new certificate for the coordinator's or a student's old key. Until a student has it, the old one is good too.
    Of a node that made new keys (a party or an aggregator, the coordinator included), these under its old name, so that
    its account goes on.

    keys: the enrolment of its new keys, which the old identity signed. lost: where that is lost, and of the coordinator
    always, since a former operator may have its old one: the fingerprint of the new keys, as the node's people read it
    out.

    Raises
    ------
    ConfigError : the node has no certificate; or the new keys are not its, as far as anybody can tell.
    """
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    if name in registry.node_ports or (name == THE_COORDINATOR and keys is not None):
        return _rotate(kits, registry, authority, name, keys, lost, asked)
    if keys is not None or lost:
        cure = "Give --keys too" if name == THE_COORDINATOR else "Leave --keys and --lost out"
        raise ConfigError(f"{name!r} makes no keys of its own here", cure)
    if name not in registry.certificates or name in registry.revoked:
        raise ConfigError(f"{name!r} has no certificate", "Give coordinator, or a student; no other node has one")
    new = authority.again(x509.load_pem_x509_certificate(registry.certificates[name].encode()))
    certificates = {**registry.certificates, name: pem(new)}
    if name == "coordinator":
        changed = registry.next(certificates=certificates)
        return _write(kits, changed, authority, {name: {"server.crt": pem(new)}})
    pinned = {**registry.students, name: [*registry.students[name], fingerprint(new)]}
    changed = registry.next(certificates=certificates, students=pinned)
    student, coordinator = {"client.crt": pem(new)}, {"students.json": students(changed)}
    return _write(kits, changed, authority, {node_id("student", name): student, "coordinator": coordinator})


def hand_over(kits: Path) -> Made:
    """A new authority, which every node learns of from the former one; until `end_handover` both hold.

    Raises
    ------
    ConfigError : the last handover was not ended.
    """
    registry, old = load_registry(kits), Authority.load(kits / OPERATOR)
    if old.former is not None:
        raise ConfigError("the last handover was not ended", "Once all nodes have its update: handover --finish")
    new = Authority.create(registry.plan.federation.name, former=old.certificate)
    made = _write(kits, registry.next(), old, {node: {CA: new.trusted} for node in _every_node(registry)})
    new.save(kits / OPERATOR)
    note = (
        "before you end the handover: update the program of each node, open its update, start it anew; and have the"
        " coordinator make new keys, or the former operator's copy is certified once more"
    )
    if (escrow := kits / OPERATOR / ESCROW).exists():
        escrow.unlink()
        note += "; the escrow was of the former authority: share the folder anew"
    return replace(made, authority=authority_fingerprint(new.certificate), note=note)


def end_handover(kits: Path) -> Made:
    """From now on nothing of the former authority holds: certificates of the new one for the coordinator and students,
    and nodes that trust it alone. Raises ConfigError: there is no handover to end."""
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    if authority.former is None:
        raise ConfigError("there is no handover to end", "Begin one: consilium provision handover KITS")
    alone = replace(authority, former=None)
    new = {
        name: alone.again(x509.load_pem_x509_certificate(registry.certificates[name].encode()))
        for name in ("coordinator", *registry.students)
    }
    certificates = {**registry.certificates, **{name: pem(certificate) for name, certificate in new.items()}}
    pinned = {name: [*known, fingerprint(new[name])] for name, known in registry.students.items()}
    changed = registry.next(certificates=certificates, students=pinned)
    files = {node: {CA: alone.trusted} for node in _every_node(registry)}
    files["coordinator"] |= {"server.crt": certificates["coordinator"], "students.json": students(changed)}
    for name in registry.students:
        files[node_id("student", name)]["client.crt"] = certificates[name]
    made = _write(kits, changed, alone, files)
    alone.save(kits / OPERATOR)
    seal_again(kits)  # as it is now: the change was sealed before the former certificate went
    return replace(made, authority=authority_fingerprint(alone.certificate))


def _every_node(registry: Registry) -> list[str]:
    second = [] if registry.aggregator is None else [node_id("aggregator", registry.aggregator.name)]
    parties = [node_id("party", name) for name in registry.parties]
    return ["coordinator", *parties, *second, *(node_id("student", name) for name in registry.students)]


def _rotate(
    kits: Path, registry: Registry, authority: Authority, name: str, keys: Path | None, lost: str, asked: Asked
) -> Made:
    second = {} if registry.aggregator is None else {registry.aggregator.name: registry.aggregator}
    kind: KeyKind
    if name == THE_COORDINATOR:
        kind, before = THE_COORDINATOR, registry.coordinator_identity
    else:
        kind = "party" if name in registry.parties else "aggregator"
        before = {**registry.parties, **second}[name].identity
    if keys is None:
        raise ConfigError(
            f"{name!r} has keys, and no certificate", "Give --keys NAME.enrol.json, of: consilium node keys --replaces"
        )
    made = keys_of(name, keys, kind)
    enrolment = made.enrolment
    if enrolment is None:
        raise ConfigError(f"{keys} is no enrolment", f"Have the {kind} make its keys")
    told = "".join(lost.split()) == "".join(enrolment.fingerprint.split())
    vouched = told or (enrolment.replaces == before and kind != THE_COORDINATOR)
    if not vouched and (kind == THE_COORDINATOR or lost):
        wrong = "the fingerprint is another one" if lost else "whoever provisioned the old keys may have them"
        raise ConfigError(
            f"{keys}: {wrong}",
            f"Have the {kind} read the new fingerprint out, in a call that you make, and give that as --lost",
        )
    if not vouched:
        raise ConfigError(
            f"{keys}: the key of {name!r} that is known did not sign them",
            f"The {kind} makes them with --replaces, and its old keys; if these are lost, have it read the new"
            " fingerprint out, in a call that you make, and give that as --lost",
        )
    changed, node = with_keys(registry, name, made), node_id(kind, name)
    files = _members(changed)
    if kind == THE_COORDINATOR:
        changed, files = _told_of_coordinator(changed, authority, enrolment, files)
    files[node] = {**files.get(node, {}), ENROLMENT: keys.read_text(encoding="utf-8")}
    shown = told_of(registry, changed, [f"new keys of {name}"], asked)
    note = "stop the coordinator, then open its update with --keys FOLDER" if kind == THE_COORDINATOR else ""
    wrote = _write(kits, changed, authority, files)
    return replace(wrote, enrolled=_enrolled({name: made}), note=note, outlook=shown)


def _told_of_coordinator(
    registry: Registry, authority: Authority, enrolment: Enrolment, files: dict[str, dict[str, str]]
) -> tuple[Registry, dict[str, dict[str, str]]]:
    """With a certificate for the coordinator's new key, and every other node told by whom statements are signed now."""
    key = cast(ec.EllipticCurvePublicKey, public_key(enrolment.node))  # `read_enrolment` refuses what is none
    certificate = pem(authority.certify_server(key, registry.plan.coordinator.hosts))
    told = {node: {**files.get(node, {}), SIGNING: signing(registry)} for node in _every_node(registry)}
    told[THE_COORDINATOR] = {**files[THE_COORDINATOR], "server.crt": certificate}
    certificates = {**registry.certificates, THE_COORDINATOR: certificate}
    return registry.model_copy(update={"certificates": certificates}), told


def _enrolled(keys: Mapping[str, MemberKeys]) -> dict[str, str]:
    return {name: made.enrolment.fingerprint for name, made in keys.items() if made.enrolment}


def _members(registry: Registry, but: str = "") -> dict[str, dict[str, str]]:
    """What nodes must learn when the parties changed, by node. but: that has a new kit."""
    if registry.roster() is None:
        return {"coordinator": {"nodes.json": nodes(registry)}}
    second = [] if registry.aggregator is None else [node_id("aggregator", registry.aggregator.name)]
    members = [*(node_id("party", name) for name in registry.parties), *second]
    files = member_files(registry)
    coordinator = {**common_files(registry), "nodes.json": nodes(registry)}
    return {"coordinator": coordinator, **{node: files for node in members if node != but}}


def _write(
    kits: Path,
    changed: Registry,
    authority: Authority,
    files: Mapping[str, Mapping[str, str]],
    new: str = "",
    make_kit: Callable[[], Path] | None = None,
) -> Made:
    """One change, all of it or nothing: a kit of the node `new`, updates by node, the registry. A new kit that the
    registry does not list must not stay: its name could not be used."""
    folder, manifests = kits / UPDATES / f"{changed.version:04d}", manifests_of(kits, changed.version)
    new_files = [kits / new, kits / f"{new}.tar.gz"] if new else []
    with new_here(kits / UPDATES, folder, manifests.parent, manifests, *new_files):
        kit = (make_kit(),) if make_kit else ()
        updates = tuple(_update(kits, folder / node, texts, changed, authority) for node, texts in files.items())
        changed.save(kits)
    seal_again(kits)
    return Made(kit, updates)


def _update(kits: Path, folder: Path, texts: Mapping[str, str], registry: Registry, authority: Authority) -> Path:
    private_folder(folder)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    sign_update(kits, folder, registry, authority)
    return pack(folder, strip=True)
