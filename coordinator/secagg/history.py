"""What the coordinator remembers from one session to the next: who was in the sums, and who is not asked any more."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_text


class HasPlaces(Protocol):
    """A roster, as far as it matters here."""

    @property
    def digest(self) -> str: ...

    @property
    def n(self) -> int: ...


class RosterPlaces(NamedTuple):
    """The same of any roster."""

    digest: str
    n: int


class History:
    """One JSON file, made on first use; it is on disk when a method returns.

    sets: places of the parties in every exact sum whose unmasking was begun. left_out: reason by name.

    Raises
    ------
    ConfigError : the file is not one of these, or of another roster.
    """

    def __init__(self, path: Path, roster: HasPlaces) -> None:
        self._path, self._roster = path, roster
        self.sets: list[frozenset[int]] = []
        self.left_out: dict[str, str] = {}
        if not path.exists():
            return
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            known = content["roster"] == roster.digest
            self.sets = [frozenset(int(place) for place in places) for places in content["sets"]]
            self.left_out = {str(name): str(reason) for name, reason in content["left_out"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise self._unusable("cannot be read") from None
        if not known or any(place not in range(roster.n) for places in self.sets for place in places):
            raise self._unusable("is of another roster")

    def remember(self, places: Collection[int]) -> None:
        """A sum over these parties is about to be unmasked."""
        if frozenset(places) not in self.sets:
            self.sets.append(frozenset(places))
            self._save()

    def leave_out(self, names: Iterable[str], reason: str) -> None:
        """These are at fault and not asked any more."""
        self.left_out |= dict.fromkeys(names, reason)
        self._save()

    def _save(self) -> None:
        content = {
            "roster": self._roster.digest,
            "sets": [sorted(places) for places in self.sets],
            "left_out": self.left_out,
        }
        replace_text(self._path, json.dumps(content) + "\n")

    def _unusable(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self._path} {what}",
            "Restore it. Without it sums are tried that the parties refuse; they keep their own account",
        )
