"""Which node is whose, by the key that the operator registered: from `nodes.json` and what the SuperLink took in."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from consilium.coordinator.deploy.flower import REGISTERED, NodesFile, Registered
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError


class RegisteredNodes:
    """See `KnownNodes`. Both files are read again when they change, so that a party that is added while a federation
    runs is known by its name, and a revoked one is awaited no more."""

    def __init__(self, folder: Path) -> None:
        """folder: of the kit. Raises ConfigError if its list cannot be read."""
        self._nodes, self._registered = folder / "nodes.json", folder / "state" / REGISTERED
        self._stamps: tuple[int, ...] = ()
        self._names: frozenset[str] = frozenset()
        self._by_node: dict[int, str] = {}
        self._read()

    def names(self) -> Collection[str]:
        """See `KnownNodes`."""
        self._refresh()
        return self._names

    def name(self, node: int) -> str | None:
        """See `KnownNodes`; of the second aggregator "aggregator NAME", which no party can be called."""
        self._refresh()
        return self._by_node.get(node)

    def _refresh(self) -> None:
        try:
            self._read()
        except (OSError, ConfigError):
            return  # an update that is being unpacked: what was known stays until the file can be read

    def _read(self) -> None:
        stamps = tuple(path.stat().st_mtime_ns if path.exists() else -1 for path in (self._nodes, self._registered))
        if stamps == self._stamps:
            return
        found = load(self._nodes, NodesFile)
        known = load(self._registered, Registered).nodes if self._registered.exists() else {}
        self._names = frozenset(found.nodes)
        self._by_node = {known[key]: name for name, key in found.all.items() if known.get(key)}
        self._stamps = stamps
