"""A verified session on the coordinator's disk, from before its first request until its labels are in the ledger.

terms.json      the session's terms and their signature
fresh           the leader's private key of this session's link
keys            the second aggregator's public keys of this session
uploads/00017   what the party at this place of the roster sent
chosen.json     places of the parties that are summed if their votes are votes
leader          state of the protocol's leader, before the second aggregator is asked for its half
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.files import replace_private, replacing, write_private
from consilium.protocol.identity import Identity
from consilium.sums.aggregators.sealing import HelperKeys
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.errors import SecAggError
from consilium.sums.roster import VerifiedRoster

TERMS, CHOSEN, LEADER, UPLOADS = "terms.json", "chosen.json", "leader", "uploads"
FRESH, KEYS = "fresh", "keys"


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

    def keep_keys(self, keys: HelperKeys) -> None:
        """The second aggregator's, once they are checked; on disk when this returns."""
        with replacing(self.folder / KEYS, 0o600) as file:
            file.write(keys.content)

    def keys(self) -> HelperKeys | None:
        """Those that were kept; None where there are none yet."""
        path = self.folder / KEYS
        return HelperKeys(path.read_bytes()) if path.exists() else None

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

    def choose(self, places: Iterable[int]) -> None:
        """Fix who is summed; on disk, and all uploads, when this returns."""
        os.sync()
        replace_private(self.folder / CHOSEN, json.dumps(sorted(places)) + "\n")

    def chosen(self) -> list[int] | None:
        """Who is summed; None where it is not fixed yet. Raises ConfigError."""
        try:
            return [int(place) for place in json.loads((self.folder / CHOSEN).read_text(encoding="utf-8"))]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError):
            raise ConfigError(f"{self.folder / CHOSEN} cannot be read", "The session is begun anew") from None

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
