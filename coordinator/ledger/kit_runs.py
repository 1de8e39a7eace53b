"""Where a coordinator's kit keeps its federations, and which folder is that of the one it serves.

state/serving                the folder of the federation that was begun last
state/run-DIGEST/            one federation: federation.json and roster.json as they were when it was begun, ledger.db,
                             events.jsonl; `close` once it is to be closed, coordinator.json once it is
"""

from __future__ import annotations

from pathlib import Path

from consilium.coordinator.config import FederationConfig
from consilium.protocol.config_files import load

SERVING, FEDERATION = "serving", "federation.json"
LEDGER, SUMMARY, EVENTS = "ledger.db", "coordinator.json", "events.jsonl"


def begun(run: Path) -> bool:
    """Whether a coordinator was ever started with the federation of a folder."""
    return (run / FEDERATION).exists() or (run / LEDGER).exists()


def is_open(run: Path) -> bool:
    """Begun and not closed."""
    return begun(run) and not (run / SUMMARY).exists()


def runs_of(kit: Path) -> list[Path]:
    """The folders of all federations that were begun, sorted by name."""
    return [folder for folder in sorted((kit / "state").glob("run-*")) if begun(folder)]


def folder_of(kit: Path, config: FederationConfig) -> Path:
    """The folder of a federation; it need not be there yet."""
    return kit / "state" / f"run-{config.digest()[:12]}"


def current_folder(kit: Path) -> Path:
    """Of the federation that was begun last, else of the one that the kit holds. Raises ConfigError if neither can be
    read."""
    named = kit / "state" / SERVING
    if named.exists():
        return kit / "state" / Path(named.read_text(encoding="utf-8").strip()).name
    held = folder_of(kit, load(kit / FEDERATION, FederationConfig))
    others = [] if begun(held) else [run for run in runs_of(kit) if is_open(run)]  # of a version without that file
    return others[0] if len(others) == 1 else held
