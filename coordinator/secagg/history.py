"""What the coordinator remembers from one session to the next: who is not asked any more, and who is suspected."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from consilium.coordinator.secagg.suspects import Block
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_private

HISTORY = "history.json"


class History:
    """One JSON file, made on first use; it is on disk when a method returns.

    roster: its hash. left_out: reason by name. refused: in how many verified sessions both aggregators did not accept a
    party, by name. suspects: blocks of which one spoils exact sums (`coordinator.secagg.suspects`); none where no sum
    was spoiled yet.

    Raises
    ------
    ConfigError : the file is not one of these, or of another roster.
    """

    def __init__(self, path: Path, roster: str) -> None:
        self._path, self._roster = path, roster
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, int] = {}
        self.suspects: list[Block] = []
        if not path.exists():
            return
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            self.left_out = {str(name): str(reason) for name, reason in content["left_out"].items()}
            self.refused = {str(name): int(times) for name, times in content.get("refused", {}).items()}
            self.suspects = [frozenset(map(int, block)) for block in content.get("suspects", [])]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise _unusable(path, "cannot be read") from None
        if content.get("roster") != roster:
            raise _unusable(path, "is of another roster")

    def leave_out(self, names: Iterable[str], reason: str) -> None:
        """These are at fault and not asked any more."""
        self.left_out |= dict.fromkeys(names, reason)
        self._save()

    def refuse(self, name: str) -> int:
        """Nobody can show why this one was not accepted; how often that was so by now."""
        self.refused[name] = self.refused.get(name, 0) + 1
        self._save()
        return self.refused[name]

    def suspect(self, blocks: Iterable[Block]) -> None:
        """One of these blocks spoils exact sums."""
        self.suspects = list(blocks)
        self._save()

    def _save(self) -> None:
        content = {
            "roster": self._roster,
            "left_out": self.left_out,
            "refused": self.refused,
            "suspects": [sorted(block) for block in self.suspects],
        }
        replace_private(self._path, json.dumps(content) + "\n")


def _unusable(path: Path, what: str) -> ConfigError:
    return ConfigError(f"{path} {what}", "Restore it. Without it parties that lied are asked again")
