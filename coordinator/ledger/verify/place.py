"""The run of a path: a run folder, a coordinator's kit, or one of the runs in its state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from consilium.coordinator.ledger.kit_runs import current_folder
from consilium.protocol.errors import ConfigError, DataError, PathError
from consilium.protocol.files import is_held
from consilium.protocol.node.kit import KIT_FILE, open_kit

TRACES = ("ledger.db", "coordinator.json", "events.jsonl", "failure.json")
"""Files of which a coordinator's run folder has at least one."""
ADVICE = "Give the folder of a run, or a coordinator's kit"


@dataclass(frozen=True)
class RunPlace:
    """A coordinator's run folder. kit: the folder of the kit that it is in, or None. others: the kit's other runs."""

    run_dir: Path
    kit: Path | None = None
    others: tuple[str, ...] = ()

    @property
    def serving(self) -> bool:
        """Whether the kit's coordinator is running now."""
        return self.kit is not None and is_held(self.kit / "state" / "lock")


def find_run(path: Path) -> RunPlace:
    """The run of a path; makes and changes nothing.

    Raises
    ------
    PathError : nothing is there. DataError : there is no run here. ConfigError : the kit is not a coordinator's, or its
        kit.json cannot be read.
    """
    if not path.exists():
        raise PathError(f"{path} is not there, so there is no run here", ADVICE)
    if not path.is_dir():
        raise DataError(f"{path} is no folder, so there is no run here", ADVICE)
    if (path / KIT_FILE).exists():
        if open_kit(path).kind == "party":
            raise ConfigError(
                f"{path} is the kit of a party, not of a coordinator: it has no ledger",
                "Ask the coordinator for its statement (consilium coordinator statement), and run:"
                f" consilium party audit {path} STATEMENT.json",
            )
        open_kit(path, "coordinator")
        return _of_kit(path)
    if path.resolve().parent.name == "state" and (path.resolve().parent.parent / KIT_FILE).exists():
        return RunPlace(path, path.resolve().parent.parent)
    if not any((path / name).exists() for name in TRACES):
        raise DataError(f"{path} has none of {', '.join(TRACES)}: there is no run here", ADVICE)
    return RunPlace(path)


def _of_kit(kit: Path) -> RunPlace:
    runs = sorted(found.name for found in (kit / "state").glob("run-*") if found.is_dir())
    if not runs:
        raise DataError(f"{kit} has not been started: there is no run here yet", "Give a kit that has served")
    try:
        current = current_folder(kit).name
    except ConfigError:
        current = runs[0] if len(runs) == 1 else ""  # the check of the kit reports the damaged file
    if current not in runs:
        raise DataError(
            f"{kit} has {', '.join(runs)}, but no run of its federation.json", "Give the folder of one of them"
        )
    return RunPlace(kit / "state" / current, kit, tuple(name for name in runs if name != current))
