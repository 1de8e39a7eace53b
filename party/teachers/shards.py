"""Which of a party's rows train which teacher: a keyed function of each row's own identity, and of nothing else.

shard = HMAC-SHA256(secret, identity) mod k. The secret does not depend on the data, so a row that comes, goes or
changes leaves every other row where it is: a row added or removed changes one shard, a row replaced at most two. On
that `accounting.units.votes_moved` rests. A split of a permutation by position, or by label, would move other rows too,
and then all teachers may change.

An identity is the patient's where the file names one, else the row itself (`data.private_rows`). Equal rows are in
one shard. The sizes of shards vary as by lot, and a shard may be empty.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path

import numpy as np

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private, write_private

SECRET_BYTES = 32
SECRET_FILE = "shards.key"


def split(identities: np.ndarray, count: int, secret: bytes) -> list[np.ndarray]:
    """Row indices int64, ascending, of each of `count` shards: disjoint, and every row is in one.

    identities : uint8 (n, 32), one row's each. secret : bytes of `SECRET_BYTES`, independent of the data.

    >>> same = np.zeros((3, 32), dtype=np.uint8)
    >>> sorted(len(part) for part in split(same, 2, bytes(32)))
    [0, 3]
    """
    if count == 1:
        return [np.arange(len(identities))]
    drawn = (hmac.digest(secret, identity.tobytes(), "sha256") for identity in identities)
    shard = np.fromiter((int.from_bytes(value) % count for value in drawn), np.int64, len(identities))
    return [np.flatnonzero(shard == index) for index in range(count)]


def own_secret(state: Path) -> bytes:
    """The party's secret, made of the system's entropy on first use, mode 0600. It never leaves the party.

    Raises
    ------
    ConfigError : the file is damaged, others may read it, or somebody removes it.
    """
    found = secret_if_there(state)
    if found is None:
        part = state / f"{SECRET_FILE}.{secrets.token_hex(8)}"
        write_private(part, secrets.token_bytes(SECRET_BYTES))
        with suppress(FileExistsError):  # another process was first: its secret is the party's
            os.link(part, state / SECRET_FILE)
        part.unlink()
        found = secret_if_there(state)
    if found is None:
        raise ConfigError(f"{state / SECRET_FILE} was removed as soon as it was made", "Start the party again")
    return found


def secret_if_there(state: Path) -> bytes | None:
    """The party's secret, or None where none was made yet. Makes nothing.

    Raises
    ------
    ConfigError : see `own_secret`.
    """
    path = state / SECRET_FILE
    if not path.exists():
        return None
    secret = read_private(path)
    if len(secret) != SECRET_BYTES:
        what = f"{path} holds {len(secret)} bytes, it must hold {SECRET_BYTES}"
        raise ConfigError(what, "Put it back from a backup; or remove it: rows are then divided anew, at new teachers")
    return secret


def simulated_secret(seed: int, party: str) -> bytes:
    """The secret of a simulated party, the same in every run with this seed, and known to everybody."""
    return hashlib.sha256(json.dumps([seed, party, "shards"]).encode()).digest()
