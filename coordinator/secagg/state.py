"""What the coordinator knows of a session, and its bytes on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.files import replacing
from consilium.protocol.secagg.packing import Value, pack, unpack
from consilium.protocol.secagg.ring import RING_DTYPES
from consilium.protocol.secagg.session import SessionDescriptor, parse_descriptor
from consilium.protocol.secagg.stages import STAGES, Stage

T = TypeVar("T")
PER_PARTY = ("adverts", "nonces", "ciphertexts", "values", "masked", "complaints", "evidence", "views", "shares")


@dataclass
class SessionState:
    """Accepted replies, by place in the roster. A set of a stage is closed when `stage` moves on: U1 is who has an
    advert, U2 who has a nonce, U3 who has evidence.

    terms: the descriptor. invited: who was asked at all. stage: the one that is due; None when the sum is there.
    adverts: uint8 (192,), keys and signature. nonces: uint8 (12,). ciphertexts: uint8 (|U1| - 1, 112), and values:
    uint8 (|U1|, 32), forgotten when U3 is closed. masked: uint8 (bytes of y,), forgotten when U3 is closed: who is in
    the sum is chosen then. complaints: uint8 (|U2|,), 1 at whom the party complains about. total: sum of their y, in
    the ring. evidence: uint8 (96,), SHA-256 and signature of each y. views: uint8 (64,), signatures on U3.
    shares: uint8 (|U2|, 32), forgotten with the masks.
    dropped: reason by party by stage. sums: int64 (queries, classes), at the end, as they came out of the ring.
    """

    terms: SessionDescriptor
    invited: tuple[int, ...]
    stage: Stage | None
    total: np.ndarray = field(repr=False)
    adverts: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    nonces: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    ciphertexts: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    values: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    complaints: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    masked: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    evidence: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    views: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    shares: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    dropped: dict[Stage, dict[str, str]] = field(default_factory=dict)
    sums: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def begin(cls, terms: SessionDescriptor, invited: tuple[int, ...]) -> SessionState:
        """Before the first request."""
        return cls(terms, invited, STAGES[0], np.zeros(terms.shape, dtype=RING_DTYPES[terms.ring]))

    def add_up(self) -> None:
        """Close U3: sum y of all who have evidence, and forget each."""
        for index in sorted(self.evidence):
            np.add(self.total, self.masked[index].view(self.total.dtype).reshape(self.total.shape), out=self.total)
        self.masked.clear()

    def save(self, path: Path) -> None:
        """Write the file, mode 0600, durably and as a whole: a crash leaves the old one or the new one."""
        fields: dict[str, Value] = {
            "terms": self.terms.canonical(),
            "invited": np.array(self.invited, dtype=np.uint16),
            "stage": self.stage or "",
            "total": self.total,
            "dropped": json.dumps(self.dropped),
        }
        for name in PER_PARTY:
            held: dict[int, np.ndarray] = getattr(self, name)
            fields[f"{name}_of"] = np.array(sorted(held), dtype=np.uint16)
            fields[name] = np.array([held[index] for index in sorted(held)], dtype=np.uint8)
        if self.sums is not None:
            fields["sums"] = self.sums
        with replacing(path, mode=0o600) as file:
            file.write(pack(fields))

    @classmethod
    def load(cls, path: Path) -> SessionState:
        """Read what `save` wrote.

        Raises
        ------
        ConfigError : no such file, or not a saved session.
        """
        try:
            fields = unpack(path.read_bytes())
            state = cls(
                terms=parse_descriptor(_of(fields["terms"], bytes)),
                invited=tuple(_of(fields["invited"], np.ndarray).tolist()),
                stage=Stage(fields["stage"]) if fields["stage"] else None,
                total=_of(fields["total"], np.ndarray).copy(),
                dropped={Stage(stage): reasons for stage, reasons in json.loads(_of(fields["dropped"], str)).items()},
                sums=_of(fields["sums"], np.ndarray).copy() if "sums" in fields else None,
            )
            for name in PER_PARTY:
                places, rows = _of(fields[f"{name}_of"], np.ndarray), _of(fields[name], np.ndarray)
                setattr(state, name, dict(zip(places.tolist(), rows, strict=True)))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", "Start a new session") from None
        except (MalformedMessage, KeyError, ValueError, TypeError):
            raise ConfigError(f"{path}: not a saved session of this version", "Start a new session") from None
        return state


def _of(value: Value, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError
    return value
