"""What a coordinator's ledger was charged, without votes, labels or evidence, for parties to check against their own.

Each batch of the ledger has a hash of what may be seen (event, queries), of the hash of the batch before, and of
a commitment to everything else, blinded by a secret of the ledger. So whoever sees what may be seen can follow the
chain, through every position that it was told of, and finds out nothing of the rest.

Queries are named by a hash under the ledger's id: a party knows those that it was asked, nobody else can try rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from consilium.protocol.config_files import load
from consilium.protocol.digests import Hash, canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity, verify
from consilium.protocol.messages import MOST_BATCHES
from consilium.protocol.models import Strict

GENESIS = "0" * 64
LABEL = "ledger-statement"
MOST_BYTES = 1 << 30


class ChargedBatch(Strict):
    """One charge. event: its JSON without `answered`, how many labels were given, which the labels tell. queries:
    `charged_query` of those that it is for. left_over: of those that parties voted on after the last answer that there
    was room for; nothing was released on them. secret: commitment to all else.
    """

    event: str = Field(max_length=4000)
    queries: Annotated[list[Hash], Field(min_length=1)]
    left_over: list[Hash] = Field(default_factory=list)
    secret: Hash

    def link(self, previous: str, number: int) -> str:
        """Hash of the batch with this number, from 1, after the one with hash `previous`."""
        return chain_link([previous, number, self.event, self.queries, self.left_over, self.secret])


class LedgerStatement(Strict):
    """All batches of a ledger in order. ledger: its id. made: when, for people. unanswered: `charged_query` of those
    that parties were asked for votes on and that no answer came of; they count as asked. signature: the coordinator's,
    hex."""

    format: Literal[1] = 1
    federation: Hash
    ledger: Hash
    made: str = Field(max_length=40)
    batches: Annotated[list[ChargedBatch], Field(max_length=MOST_BATCHES)]
    unanswered: list[Hash] = Field(default_factory=list)
    signature: str = Field(default="", pattern=r"^([0-9a-f]{128})?$")

    def heads(self) -> Iterator[str]:
        """Hash after no batch, after the first, and so on."""
        head = GENESIS
        yield head
        for number, batch in enumerate(self.batches, 1):
            head = batch.link(head, number)
            yield head

    def _content(self) -> bytes:
        return canonical_digest(self.model_dump(mode="json", exclude={"signature"})).encode()

    def signed(self, identity: Identity) -> LedgerStatement:
        """The same with the signature of a coordinator."""
        return self.model_copy(update={"signature": identity.sign(LABEL, self._content()).hex()})

    def is_of(self, public: str) -> bool:
        """Whether the owner of this Ed25519 key (hex) signed it."""
        return verify(bytes.fromhex(public), bytes.fromhex(self.signature), LABEL, self._content())


_WITHOUT_SPACES = json.JSONEncoder(separators=(",", ":"))


def chain_link(value: Iterable[Any]) -> str:
    """SHA-256 (hex) of a list as JSON without spaces.

    An iterator among its elements is a list as well, of which one element at a time is in memory.

    >>> chain_link(["a", iter([[1, 2], [3, 4]])]) == chain_link(["a", [[1, 2], [3, 4]]])
    True
    """
    digest = hashlib.sha256()
    for part in _json_parts(iter(value)):
        digest.update(part.encode())
    return digest.hexdigest()


def _json_parts(elements: Iterator[Any]) -> Iterator[str]:
    yield "["
    for number, element in enumerate(elements):
        if number:
            yield ","
        if isinstance(element, Iterator):
            yield from _json_parts(element)
        else:
            yield _WITHOUT_SPACES.encode(element)
    yield "]"


def charged_query(ledger: str, query_id: str) -> str:
    """By what a statement of this ledger names a query: SHA-256 (hex) of both ids."""
    return hashlib.sha256(f"{ledger}:{query_id}".encode()).hexdigest()


def open_event(event: dict[str, Any]) -> str:
    """The part of an event's JSON that a statement has.

    >>> open_event({"type": "gnmax", "sigma": 4.0, "answered": 7})
    '{"sigma":4.0,"type":"gnmax"}'
    """
    shown = {key: value for key, value in event.items() if key != "answered"}
    return json.dumps(shown, sort_keys=True, separators=(",", ":"))


def read_statement(path: Path) -> LedgerStatement:
    """Raises PathError, or ConfigError for a file that is no statement."""
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise ConfigError(f"{path} is larger than {MOST_BYTES >> 20} MiB", "Ask the coordinator for its statement")
    return load(path, LedgerStatement)
