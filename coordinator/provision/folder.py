"""The operator's folder, OUT: how it is made, and how it changes.

OUT/operator/     ca.key and ca.crt, which stay with the operator; a lock
OUT/federation/   the signed folder for all nodes (`node.signed`), in which all else stands that is known of them

A change makes the signed folder anew, with version + 1, beside the old one. A crash leaves the old or the new.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from consilium.coordinator.config import Federation, FederationConfig, check_threshold
from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.provision.plan import Plan, PlannedRows, read_plan, read_public
from consilium.coordinator.served import ServedFederation, check_sums
from consilium.node.folder import (
    AUTHORITY_FILE,
    FEDERATION_FILE,
    POLICY_FILE,
    PUBLIC_FILE,
    SIGNED_FILE,
    THE_COORDINATOR,
)
from consilium.node.keys import PublicKeys, read_enrolment
from consilium.node.signed import EarlierFederation, Signed, read_signed
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import held, private_folder, replace_text
from consilium.protocol.versions import program_versions
from consilium.report.words import many
from consilium.sums.modes import MODES, WITH_SECOND
from consilium.sums.roster import AggregatorEntry

OPERATOR, FEDERATION, BEFORE, LOCK = "operator", "federation", "federation.before", "lock"
POLICY = "# Empty: what a node allows, its own people say.\n"
Nodes = Mapping[str, PublicKeys]


@dataclass(frozen=True)
class Made:
    """A signed folder. before: what stood in the one before it, None of a new federation. note: what the operator must
    know, or nothing."""

    path: Path
    file: ServedFederation
    authority: Authority = field(repr=False)
    before: ServedFederation | None
    note: str

    @property
    def same_federation(self) -> bool:
        """Whether the nodes stay in the federation in which they were."""
        return self.before is not None and self.before.terms == self.file.terms

    @property
    def who_joins(self) -> str:
        """Whom the folder concerns: where all stays the same for a node, the one that it has will do."""
        before = self.before
        if before is None or not self.same_federation or before.coordinator != self.file.coordinator:
            return "all nodes"
        return " and ".join([THE_COORDINATOR, *(self.file.nodes.keys() - before.nodes.keys())])


def provision(plan_file: Path, out: Path) -> Made:
    """The signed folder of a new federation, in the new folder `out`; where this plan was provisioned there before, the
    coordinator's address, certificate and time limits anew. All of it, or nothing. Raises OutputExists : `out` is
    something else. ConfigError, DataError, PathError : the plan is wrong, or `out` holds another federation."""
    plan, schema = read_plan(plan_file)
    rows, nodes = read_public(plan_file.parent, plan, schema), plan.nodes(plan_file.parent)
    if (out / OPERATOR).is_dir():
        return _again(out, plan, rows, nodes)
    if out.exists():
        raise OutputExists(f"{out} is already there", "Choose another folder for --out")
    _check_nodes(nodes, {}, plan.federation)
    formed = _formed(plan.federation, rows.added, nodes)
    with _whole(out.with_name(out.name + ".part")) as part:
        private_folder(part / OPERATOR)
        now = datetime.now(UTC)
        authority = Authority.create(plan.federation.name, plan.ends, now)
        authority.save(part / OPERATOR)
        (part / OPERATOR / LOCK).touch()
        students = [name for name, keys in nodes.items() if keys.kind == "student"]
        file = ServedFederation(
            version=1,
            made=f"{now:%Y-%m-%d}",
            ends=f"{plan.ends}",
            program=program_versions(),
            coordinator=plan.coordinator,
            nodes=nodes,
            certificates={
                THE_COORDINATOR: authority.certify_server(nodes[THE_COORDINATOR].key, plan.coordinator.hosts),
                **{name: authority.certify_student(name, nodes[name].key) for name in students},
            },
            **formed,
        )
        private_folder(part / FEDERATION)
        if rows.askable is not None:
            features = np.array(rows.added["rows"].features)
            np.savez(part / FEDERATION / PUBLIC_FILE, features=features, queries=rows.askable)
        _write(part / FEDERATION, file, authority)
        part.rename(out)
    return Made(out / FEDERATION, file, authority, None, rows.note)


def _again(out: Path, plan: Plan, rows: PlannedRows, nodes: Nodes) -> Made:
    with _opened(out) as opened:
        before, authority = opened.before, opened.authority
        known = {**before.nodes, **before.revoked}
        for name, keys in nodes.items():
            if known.get(name) != keys:
                raise ConfigError(
                    f"{out} has no {name!r} with these keys",
                    f"Add it: consilium provision add {out} NAME.enrol.json. Another coordinator needs a new --out",
                )
        kept = {key: getattr(before.config, key) for key in ("roster", "noise_shares", "edition")}
        config = _config(plan.federation, {**rows.added, **kept})
        if (config.digest(), f"{plan.ends}") != (before.config.digest(), before.ends):
            raise ConfigError(
                f"{out} holds another federation than this file says: only [coordinator] and time limits can change",
                "Provision it into a new folder, or set federation, rows and ends as they were",
            )
        certificate = authority.certify_server(before.nodes[THE_COORDINATOR].key, plan.coordinator.hosts)
        certificates = {**before.certificates, THE_COORDINATOR: certificate}
        changes = {"coordinator": plan.coordinator, "config": config, "certificates": certificates}
        return opened.change(changes, rows.note)


def add(out: Path, enrolment_file: Path, succeeds: str | None) -> Made:
    """With one more party or student, or another second aggregator. For hidden votes parties and second aggregator make
    another federation, with a new ledger. succeeds: a party that left, whose patients a new party has. Raises
    ConfigError, PathError : no sound enrolment, its name or a key is taken, or no safe roster of these parties exists.
    """
    with _opened(out) as opened:
        before, enrolment = opened.before, read_enrolment(enrolment_file)
        name, keys, note = enrolment.name, enrolment.keys, ""
        if name in {**before.nodes, **before.revoked}:
            raise ConfigError(
                f"the name {name!r} is taken, or was by a revoked node",
                "Its people run `consilium node keys` with another name",
            )
        nodes, succession = {**before.nodes, name: keys}, dict(before.succeeds)
        _check_nodes(nodes, before.revoked, before.config)
        if succeeds is not None:
            if keys.kind != "party" or succeeds not in before.former:
                left = ", ".join(before.former) or "none"
                raise ConfigError(
                    f"--succeeds {succeeds}: a party can take the place of one that left and has no successor",
                    f"Parties that left: {left}. To shut one out: consilium provision revoke",
                )
            succession[name] = (succeeds,)
        changes: dict[str, Any] = {"nodes": nodes, "succeeds": succession}
        if keys.kind == "student":
            certificate = opened.authority.certify_student(name, keys.key)
            changes["certificates"] = {**before.certificates, name: certificate}
        else:
            formed, note = _changed_members(before, nodes)
            changes |= formed
        return opened.change(changes, note)


def revoke(out: Path, name: str) -> Made:
    """Without a node, which cannot connect, is in no sum, and is not answered any more. Where the others are too few
    for a federation, or it was the second aggregator, it is shut out all the same, and the note says what is needed
    before anything is answered again. Raises ConfigError if there is no such node, or it is the coordinator."""
    with _opened(out) as opened:
        before = opened.before
        others = [other for other in before.nodes if other != THE_COORDINATOR]
        if name not in others:
            raise ConfigError(f"no party, student or second aggregator {name!r}", f"There are: {', '.join(others)}")
        nodes = {other: keys for other, keys in before.nodes.items() if other != name}
        formed, note = ({}, "") if name in before.of_kind("student") else _changed_members(before, nodes)
        changes = {
            "nodes": nodes,
            "revoked": {**before.revoked, name: before.nodes[name]},
            "certificates": {other: text for other, text in before.certificates.items() if other != name},
        }
        return opened.change({**changes, **formed}, note)


@dataclass(frozen=True)
class _Opened:
    """An operator's folder that nobody else changes meanwhile."""

    out: Path
    before: ServedFederation
    authority: Authority = field(repr=False)

    def change(self, changes: Mapping[str, Any], note: str = "") -> Made:
        """Put the next version in place of the one before. changes: of federation.json."""
        now, place = datetime.now(UTC), self.out / FEDERATION
        counted = {"version": self.before.version + 1, "made": f"{now:%Y-%m-%d}", "program": program_versions()}
        file, old = self.before.model_copy(update={**counted, **changes}), self.out / BEFORE
        shutil.rmtree(old, ignore_errors=True)
        with _whole(self.out / f"{FEDERATION}.part") as part:
            if (place / PUBLIC_FILE).exists():
                shutil.copy(place / PUBLIC_FILE, part)
            _write(part, file, self.authority)
            place.rename(old)
            part.rename(place)
        shutil.rmtree(old, ignore_errors=True)
        return Made(place, file, self.authority, self.before, note)


@contextmanager
def _whole(part: Path) -> Generator[Path]:
    """A new folder, which is gone where it is not made whole: it may hold a key."""
    shutil.rmtree(part, ignore_errors=True)
    try:
        yield private_folder(part)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


@contextmanager
def _opened(out: Path) -> Generator[_Opened]:
    """Raises ConfigError, PathError: it is no such folder, was altered, or another command changes it."""
    if not (out / OPERATOR).is_dir():
        raise ConfigError(f"{out} has no folder {OPERATOR}", "Give the folder that `consilium provision` made")
    with held(out / OPERATOR / LOCK, f"consilium provision on {out}"):
        folder = out / FEDERATION
        if not folder.exists() and (out / BEFORE).exists():
            (out / BEFORE).rename(folder)  # a crash came between the two steps of a change
        signed = read_signed(folder, ServedFederation, out / OPERATOR / AUTHORITY_FILE)
        yield _Opened(out, signed.file, Authority.load(out / OPERATOR))


def _write(folder: Path, file: ServedFederation, authority: Authority) -> None:
    """The signed folder; public.npz is there already, where there is one."""
    replace_text(folder / FEDERATION_FILE, file.model_dump_json(indent=1) + "\n")
    shutil.copy(folder.parent / OPERATOR / AUTHORITY_FILE, folder)
    digests = {}
    for name in (FEDERATION_FILE, AUTHORITY_FILE, PUBLIC_FILE):
        if (folder / name).exists():
            with open(folder / name, "rb") as content:
                digests[name] = hashlib.file_digest(content, "sha256").hexdigest()
    (folder / POLICY_FILE).write_text(POLICY, encoding="utf-8")
    signed = Signed(files=digests, signature=authority.sign(digests))
    replace_text(folder / SIGNED_FILE, signed.model_dump_json(indent=1) + "\n")


def _check_nodes(nodes: Nodes, revoked: Nodes, federation: Federation) -> None:
    """Raise ConfigError unless there is one coordinator, a second aggregator only where votes need one, no key twice,
    and none of a node that was shut out."""
    if THE_COORDINATOR not in nodes:
        raise ConfigError(
            "enrolments name no coordinator", "Add its coordinator.enrol.json: `consilium node keys coordinator` there"
        )
    second, most = [name for name, keys in nodes.items() if keys.kind == "aggregator"], "none"
    if federation.collection in WITH_SECOND:
        second, most = second[1:], "one"
    if second:
        raise ConfigError(
            f"{second[0]} is a second aggregator too many: {federation.collection} votes have {most}",
            "Leave it out, or revoke the other first",
        )
    owners: dict[str, str] = {}
    for name, keys in [*revoked.items(), *nodes.items()]:
        for key in keys.each:
            if key in owners:
                raise ConfigError(
                    f"{name} has a key of {owners[key]}",
                    "Each node makes its own, anew for each place: consilium node keys",
                )
            owners[key] = name


def _config(federation: Federation, added: Mapping[str, Any]) -> FederationConfig:
    return validate({**dict(federation), **added}, FederationConfig, "federation.toml")


def _formed(
    federation: Federation, added: Mapping[str, Any], nodes: Nodes, earlier: Collection[str] = ()
) -> dict[str, Any]:
    """Configuration, terms and roster of federation.json with these nodes. earlier: digests that it must not have,
    though parties may be the same again: of federations that may be closed. Raises ConfigError: they are not safe."""
    parties = {name: keys.identity for name, keys in nodes.items() if keys.kind == "party"}
    if len(parties) < federation.minimum_parties:
        raise ConfigError(
            f"{many(len(parties), 'party')}, minimum_parties is {federation.minimum_parties}",
            "Add a party: consilium provision add",
        )
    check_threshold(federation, federation.teachers_per_party * len(parties))
    mode, coordinator, roster = MODES.get(federation.collection), nodes[THE_COORDINATOR], None
    if mode is not None:
        helper = next((keys for keys in nodes.values() if keys.kind == "aggregator"), None)
        roster = mode.roster.build(
            parties,
            coordinator.identity,
            federation.colluders,
            federation.least_survivors,
            sealing=coordinator.sealing,
            second=None if helper is None else AggregatorEntry(ed25519_pk=helper.identity, x25519_pk=helper.sealing),
        )
    shares, digest = federation.sure_givers(roster.least if roster else 0), roster.digest if roster else ""
    config = _config(federation, {**added, "roster": digest, "noise_shares": shares, "edition": 0})
    check_sums(config, roster)
    while config.digest() in earlier:
        config = config.model_copy(update={"edition": config.edition + 1})
    return {"config": config, "terms": config.terms(), "roster": roster and roster.model_dump(mode="json")}


def _changed_members(before: ServedFederation, nodes: Nodes) -> tuple[dict[str, Any], str]:
    """What of federation.json changes with parties and second aggregator; and a note where they form no federation:
    then the one before stays, whose sums are too small to be served. Raises ConfigError where they did form one, and do
    not with one more."""
    roster, terms = before.sum_roster(), before.terms
    try:
        changes = _formed(before.config, {}, nodes, {each.digest for each in before.earlier})
    except ConfigError as error:
        if nodes.keys() > before.nodes.keys() and _is_formed(before):
            raise
        return {}, f"nothing is answered now: {error}"
    if changes["terms"] == terms or roster is None:
        return changes, ""
    queries = before.config.query_budget.queries
    left = EarlierFederation(
        digest=terms.federation, promise=terms.promise, queries=queries, parties=tuple(roster.places)
    )
    return {**changes, "earlier": (*before.earlier, left)}, ""


def _is_formed(before: ServedFederation) -> bool:
    try:
        return bool(_formed(before.config, {}, before.nodes))
    except ConfigError:
        return False
