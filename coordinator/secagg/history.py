"""What the coordinator remembers from one session to the next: who was in the sums, and who is not asked any more."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_private

HISTORY = "history.json"


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
    refused: in how many verified sessions both aggregators did not accept a party, by name.

    Raises
    ------
    ConfigError : the file is not one of these, or of another roster.
    """

    def __init__(self, path: Path, roster: HasPlaces) -> None:
        self._path, self._roster = path, roster
        self.sets: list[frozenset[int]] = []
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, int] = {}
        if not path.exists():
            return
        content = _read(path)
        self.sets, self.left_out, self.refused = content.sets, content.left_out, content.refused
        if content.roster != roster.digest or any(
            place not in range(roster.n) for places in self.sets for place in places
        ):
            raise _unusable(path, "is of another roster")

    def remember(self, places: Collection[int]) -> None:
        """A sum over these parties is about to be unmasked."""
        if frozenset(places) not in self.sets:
            self.sets.append(frozenset(places))
            self._save()

    def inherit(self, earlier: Iterable[Path]) -> None:
        """Take over the sets of earlier federations' files that are of this very roster. The parties remember those by
        roster, and refuse what is too close to them in whatever federation. Raises ConfigError as the class."""
        known = [content.sets for content in map(_read, earlier) if content.roster == self._roster.digest]
        if new := set().union(*known) - {*self.sets}:
            self.sets += sorted(new, key=sorted)
            self._save()

    def leave_out(self, names: Iterable[str], reason: str) -> None:
        """These are at fault and not asked any more."""
        self.left_out |= dict.fromkeys(names, reason)
        self._save()

    def refuse(self, name: str) -> int:
        """Nobody can show why this one was not accepted; how often that was so by now."""
        self.refused[name] = self.refused.get(name, 0) + 1
        self._save()
        return self.refused[name]

    def _save(self) -> None:
        content = {
            "roster": self._roster.digest,
            "sets": [sorted(places) for places in self.sets],
            "left_out": self.left_out,
            "refused": self.refused,
        }
        replace_private(self._path, json.dumps(content) + "\n")


class _Content(NamedTuple):
    roster: str
    sets: list[frozenset[int]]
    left_out: dict[str, str]
    refused: dict[str, int]


def _read(path: Path) -> _Content:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return _Content(
            str(content["roster"]),
            [frozenset(int(place) for place in places) for places in content["sets"]],
            {str(name): str(reason) for name, reason in content["left_out"].items()},
            {str(name): int(times) for name, times in content.get("refused", {}).items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise _unusable(path, "cannot be read") from None


def _unusable(path: Path, what: str) -> ConfigError:
    return ConfigError(
        f"{path} {what}",
        "Restore it. Without it sums are tried that the parties refuse; they keep their own account",
    )
