"""Making kits, and changing who takes part without touching the kits that are deployed.

OUT/operator/           ca.key, ca.crt, registry.json, manifests: stays with the operator
OUT/coordinator/        one kit for each node, and the same as .tar.gz
OUT/party-NAME/
OUT/aggregator-NAME/    of verified votes
OUT/student-NAME/
OUT/updates/0002/NODE/  what a later change asks of a deployed node: unpack over its kit; never a private key
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from cryptography.hazmat.primitives.asymmetric import ec

from consilium.accounting.guarantees import Guarantee
from consilium.coordinator.privacy import expected, promise_in_words, promised, towards_nodes
from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.provision.plan import read_plan, read_pool, read_reference, remarks
from consilium.coordinator.provision.registry import (
    OPERATOR,
    UPDATES,
    MemberKeys,
    Registry,
    check_distinct,
    check_whose,
    checked_aggregator,
    checked_party,
    keys_of,
    load_registry,
    with_aggregator,
    with_party,
    without,
)
from consilium.coordinator.provision.write import (
    aggregator_kit,
    common_files,
    coordinator_kit,
    manifests_of,
    member_files,
    nodes,
    pack,
    party_kit,
    sign_update,
    student_kit,
    students,
)
from consilium.coordinator.rosters import least_together
from consilium.node.keys import public_key
from consilium.node.kit import THE_COORDINATOR, node_id
from consilium.node.manifest import authority_fingerprint
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import new_here, private_folder
from consilium.protocol.queries import reference_text
from consilium.protocol.tls import fingerprint
from consilium.report.before_run import before_run
from consilium.report.warnings import RunWarning
from consilium.sums.modes import WITH_SECOND

_LARGER = "; a party charges itself the larger"


@dataclass(frozen=True)
class Made:
    """New kits, and files to send to nodes that are deployed already, by node.

    enrolled: fingerprints of the parties that made their own keys. federation (as people compare it), federation_digest
    (as a simulation has it), authority (its fingerprint), promised, in_plain_words, towards_nodes, warnings, least: of
    a new federation, the last of parties that must be there, 0 elsewhere.
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
        own = plan_file.parent / plan.coordinator.keys if plan.coordinator.keys else None
        coordinator = keys_of(THE_COORDINATOR, own, THE_COORDINATOR)
        keys = {
            party.name: keys_of(party.name, plan_file.parent / party.keys if party.keys else None)
            for party in plan.party
        }
        second, second_keys = plan.aggregator, {}
        if second is not None:
            path = plan_file.parent / second.keys if second.keys else None
            second_keys = {second.name: keys_of(second.name, path, "aggregator")}
        certificates = {student.name: authority.client(student.name) for student in plan.student}
        reached = cast(ec.EllipticCurvePublicKey, public_key(coordinator.source.node))
        server = authority.certify_server(reached, plan.coordinator.hosts)
        registry = Registry(
            federation_digest=plan.federation.federation_digest(),
            plan=plan,
            rows=rows,
            public=pool.terms if pool else None,
            reference=reference_text(read_reference(plan_file, plan, rows, pool)),
            coordinator_identity=coordinator.source.identity,
            coordinator_sealing=coordinator.source.sealing if plan.federation.collection in WITH_SECOND else "",
            aggregator=second_keys[second.name].second(second.name, second.port) if second else None,
            parties={party.name: keys[party.name].party(party.port) for party in plan.party},
            students={name: [fingerprint(issued.certificate)] for name, issued in certificates.items()},
        )
        check_distinct(registry)
        if pool is not None:
            pool.save(part / OPERATOR)
        folders = [coordinator_kit(part, registry, authority, coordinator, server)]
        folders += [party_kit(part, registry, authority, name, made) for name, made in keys.items()]
        if (record := registry.aggregator) is not None:
            folders.append(aggregator_kit(part, registry, authority, record, second_keys[record.name]))
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
        enrolled=_enrolled({THE_COORDINATOR: coordinator, **keys, **second_keys}),
        federation=config.digest()[:12],
        federation_digest=registry.federation_digest,
        authority=authority_fingerprint(authority.certificate),
        promised=promised(plan.federation),
        in_plain_words=promise_in_words(plan.federation),
        towards_nodes=towards_nodes(config) + _LARGER * plan.federation.noise_in_sums,
        warnings=tuple(before_run(expected(config, len(plan.party)))),
        least=least_together(plan.federation, 0 if roster is None else roster.least),
    )


def add_party(
    kits: Path,
    name: str,
    port: int = 9094,
    keys: Path | None = None,
    succeeds: Sequence[str] = (),
    new_patients: bool = False,
) -> Made:
    """A kit for one more party, and updates for the others: for plaintext votes only the coordinator has one.

    keys: the enrolment of a party that made its own; None: they are made here.
    succeeds: parties that left, among whose patients are this one's: what these cost goes with the kit. new_patients:
    that there are none, where parties have left.

    For secure votes the roster changes, and with it the federation: it starts a new ledger.

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
    written = _write(
        kits, changed, authority, _members(changed, but=node), node,
        lambda: party_kit(kits, changed, authority, name, made),
    )  # fmt: skip
    return replace(written, enrolled=_enrolled({name: made}))


def add_aggregator(kits: Path, name: str, port: int = 9094, keys: Path | None = None) -> Made:
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
    written = _write(
        kits, changed, authority, _members(changed, but=node), node,
        lambda: aggregator_kit(kits, changed, authority, record, made),
    )  # fmt: skip
    return replace(written, enrolled=_enrolled({name: made}))


def add_student(kits: Path, name: str) -> Made:
    """A kit for one more student, and the coordinator's new list. Raises ConfigError."""
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    registry.check_new(name)
    issued = authority.client(name)
    changed = registry.next(students={**registry.students, name: [fingerprint(issued.certificate)]})
    return _write(
        kits, changed, authority, {"coordinator": {"students.json": students(changed)}}, node_id("student", name),
        lambda: student_kit(kits, changed, authority, name, issued),
    )  # fmt: skip


def revoke(kits: Path, name: str) -> Made:
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
    return replace(_write(kits, changed, authority, files), note=note)


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
    return Made(kit, updates)


def _update(kits: Path, folder: Path, texts: Mapping[str, str], registry: Registry, authority: Authority) -> Path:
    private_folder(folder)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    sign_update(kits, folder, registry, authority)
    return pack(folder, strip=True)
