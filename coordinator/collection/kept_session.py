"""A verified sum on the coordinator's disk: its session, from before its first request until its labels are in the
ledger, and what the second aggregator signed of it, for the audit.

The session's folder holds

terms.json      the session's terms and their signature
fresh           the leader's private key of this session's link
key             the second aggregator's public key of this session
uploads/00017   what the party at this place of the roster sent
leader          state of the protocol's leader, before the second aggregator is asked for its half

In the run folder stand roster.json and `aggregator.jsonl`: one line for each session, its record and signature, and the
ids of its queries, of which the record has the digest. In `halves/` stands, by session, what the record binds both
aggregators to: their totals, as secret as the sum."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.files import append_private, replace_private, replacing, write_private
from consilium.protocol.identity import Identity
from consilium.sums.errors import BadLink, SecAggError
from consilium.sums.field import FIELD
from consilium.sums.packing import Value, pack, unpack
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.half import Half, VerifiedSum, restored, restored_bytes
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.wire import GivenRecord, ids_digest, open_record

TERMS, LEADER, UPLOADS, FRESH, KEY = "terms.json", "leader", "uploads", "fresh", "key"


class KeptSession:
    """One folder. What is in it is as secret as what it holds: one of two parts of each vote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def begun(self) -> bool:
        """Whether a session was begun here and not settled."""
        return (self.folder / TERMS).exists()

    def begin(self, terms: VerifiedTerms, signer: Identity, fresh: bytes) -> None:
        """On disk when this returns. fresh: private key of the session's `leader_key`."""
        self.forget()
        (self.folder / UPLOADS).mkdir(mode=0o700, parents=True)
        self.folder.chmod(0o700)
        write_private(self.folder / FRESH, fresh)
        signed = {"terms": terms.canonical().decode("ascii"), "signature": terms.sign(signer).hex()}
        replace_private(self.folder / TERMS, json.dumps(signed) + "\n")

    def terms(self, roster: VerifiedRoster) -> tuple[VerifiedTerms, bytes]:
        """The terms and their signature.

        Raises
        ------
        ConfigError : they cannot be read, or are of another roster.
        """
        try:
            signed = json.loads((self.folder / TERMS).read_text(encoding="utf-8"))
            signature = bytes.fromhex(signed["signature"])
            return VerifiedTerms.open(signed["terms"].encode("ascii"), signature, roster), signature
        except (OSError, ValueError, KeyError, TypeError, AttributeError, MalformedMessage, SecAggError):
            raise ConfigError(
                f"{self.folder} holds no session of this roster", "Restore it; without it the session is begun anew"
            ) from None

    def fresh(self) -> bytes:
        """The leader's private key of this session. Raises ConfigError."""
        try:
            return (self.folder / FRESH).read_bytes()
        except OSError:
            raise ConfigError(f"{self.folder / FRESH} cannot be read", "The session is begun anew") from None

    def keep_key(self, key: bytes) -> None:
        """The second aggregator's, once it is checked; on disk when this returns."""
        with replacing(self.folder / KEY, 0o600) as file:
            file.write(key)

    def key(self) -> bytes | None:
        """The one that was kept; None where there is none yet."""
        path = self.folder / KEY
        return path.read_bytes() if path.exists() else None

    def keep_upload(self, place: int, content: bytes) -> None:
        """What a party sent."""
        with replacing(self._upload(place), 0o600, durable=False) as file:
            file.write(content)

    def upload(self, place: int) -> bytes:
        """What a party sent."""
        return self._upload(place).read_bytes()

    def places(self) -> list[int]:
        """Of the parties whose uploads are here, rising."""
        names = (path.name for path in (self.folder / UPLOADS).iterdir())
        return sorted(int(name) for name in names if name.isdigit())

    def keep_leader(self, state: bytes) -> None:
        """On disk when this returns."""
        with replacing(self.folder / LEADER, 0o600) as file:
            file.write(state)

    def leader(self) -> bytes | None:
        """The state that was kept; None where the other half was not asked for yet."""
        path = self.folder / LEADER
        return path.read_bytes() if path.exists() else None

    def forget(self) -> None:
        """Nothing of it is needed any more. What opens the link is overwritten, as far as the file system does that."""
        for path in (self.folder / FRESH, self.folder / LEADER):
            with suppress(OSError), path.open("r+b") as file:
                file.write(bytes(path.stat().st_size))
                file.flush()
                os.fsync(file.fileno())
        shutil.rmtree(self.folder, ignore_errors=True)

    def _upload(self, place: int) -> Path:
        return self.folder / UPLOADS / f"{place:05d}"


RECORDS, ROSTER, HALVES = "aggregator.jsonl", "roster.json", "halves"
WHO = ("leader", "helper")


@dataclass(frozen=True)
class KeptRecord:
    """A record whose signature holds, and the ids of its queries, hex, in order."""

    record: GivenRecord
    ids: tuple[str, ...] = field(repr=False)


class GivenRecords:
    """The file in a run folder; made on first use."""

    def __init__(self, run_dir: Path, roster: VerifiedRoster) -> None:
        self._path, self._roster, self._halves = run_dir / RECORDS, roster, run_dir / HALVES
        if not (run_dir / ROSTER).exists():
            replace_private(run_dir / ROSTER, roster.model_dump_json(indent=1) + "\n")

    def __len__(self) -> int:
        """Sums that were signed. Raises MalformedMessage."""
        return sum(1 for _ in _lines(self._path)) if self._path.exists() else 0

    def keep(
        self, content: bytes, signature: bytes, terms: VerifiedTerms, ids: Sequence[str], result: VerifiedSum
    ) -> None:
        """One line, once for each session, and the halves; on disk when this returns.

        Raises
        ------
        BadLink : what is signed is not this sum.
        """
        try:
            record = open_record(content, signature, self._roster)
        except MalformedMessage as error:
            raise BadLink(error.what) from None
        expected = GivenRecord(
            sid=terms.sid,
            federation=terms.federation,
            roster=terms.roster,
            ids=ids_digest(ids),
            queries=terms.queries,
            accepted=tuple(sorted(map(self._roster.place, result.accepted))),
            left_out=record.left_out,
            sigma=terms.sigma,
            round=terms.round,
            session=terms.ctx.hex(),
            commitment=result.leader.commitment(terms.ctx, leads=True).hex(),
            half=result.helper.commitment(terms.ctx, leads=False).hex(),
        )
        if record != expected:
            raise BadLink("the second aggregator signs another sum than the one that it gives")
        if self._path.exists() and any(line.get("sid") == terms.sid for line in _lines(self._path)):
            return
        self._halves.mkdir(mode=0o700, exist_ok=True)
        with replacing(self._halves / terms.sid, 0o600) as file:
            file.write(pack(_fields(result)))
        _mend(self._path)
        line = {"sid": terms.sid, "record": content.decode("ascii"), "signature": signature.hex(), "ids": [*ids]}
        with append_private(self._path) as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _fields(result: VerifiedSum) -> dict[str, Value]:
    leader, helper = result.leader, result.helper
    return {"leader_nonce": leader.nonce, "leader": leader.total, "helper_nonce": helper.nonce, "helper": helper.total}


def read_halves(run_dir: Path, record: GivenRecord) -> tuple[np.ndarray, np.ndarray]:
    """Totals of both aggregators, below the prime (queries, classes) each, that the signed record is bound to.

    Raises
    ------
    MalformedMessage : they are missing, damaged, or others than those that were given.
    """
    name = f"{HALVES}/{record.sid}"
    try:
        fields = unpack((run_dir / name).read_bytes())
        leader, helper = (Half(restored_bytes(fields, f"{who}_nonce"), _total(fields, who)) for who in WHO)
    except OSError:
        raise MalformedMessage(f"{name} is missing: what the aggregators were bound to") from None
    ctx = bytes.fromhex(record.session)
    if leader.commitment(ctx, leads=True).hex() != record.commitment:
        raise MalformedMessage(f"{name}: the coordinator's total is not the one that it was bound to")
    if helper.commitment(ctx, leads=False).hex() != record.half:
        raise MalformedMessage(f"{name}: the second aggregator's total is not the one that it gave")
    return leader.total, helper.total


def _total(fields: dict[str, Value], name: str) -> np.ndarray:
    return restored(fields, name, (-1, -1), FIELD.dtype)


def read_records(path: Path, roster: VerifiedRoster) -> list[KeptRecord]:
    """All records of a file. A last line that a killed coordinator left is passed over.

    Raises
    ------
    MalformedMessage : a record that the roster's second aggregator has not signed, or ids that are not its own.
    """
    records = []
    for line in _lines(path):
        try:
            content, signature = line["record"].encode("ascii"), bytes.fromhex(line["signature"])
            ids = tuple(map(str, line["ids"]))
            record = open_record(content, signature, roster)
            fits = record.ids == ids_digest(ids) and record.queries == len(ids)
        except (KeyError, ValueError, TypeError, AttributeError):
            raise MalformedMessage(f"{path.name}: a line is no record") from None
        if not fits:
            raise MalformedMessage(f"{path.name}: a record is of other queries than stand beside it")
        records.append(KeptRecord(record, ids))
    return records


def _mend(path: Path) -> None:
    """Cut off what a killed coordinator left of a line."""
    content = path.read_bytes() if path.exists() else b""
    if content and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


def _lines(path: Path) -> Iterator[dict]:
    text = path.read_text(encoding="utf-8")
    for line in text.splitlines()[: text.count("\n")]:
        try:
            content = json.loads(line)
        except ValueError:
            raise MalformedMessage(f"{path.name}: a line is damaged") from None
        if isinstance(content, dict):
            yield content
